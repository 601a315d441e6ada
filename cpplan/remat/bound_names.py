"""What proves that no sequence of runs has fewer bytes; a plan's ``bound_by`` is one of these."""

FOOTPRINT = "least footprint"
REACH = "least reach"
CHAIN = "optimum of the chain"
CUTS = "live bytes at cuts"
