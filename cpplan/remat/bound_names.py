"""Names of the proofs that every schedule needs some bytes, for the ``bound_by`` of plans."""

FOOTPRINT = "least footprint"
REACH = "least reach"
CHAIN = "optimum of the chain"
CUTS = "live bytes at cuts"
