"""ONNX models: read as graphs, run op by op in a planned arena, and written in a plan's order.

Reading starts in :mod:`~cpplan.io.onnx.model`: ``dims`` binds variables, ``check`` finds what is
malformed, ``shapes`` derives every tensor's, and ``graph`` makes of each node an op, with what is a
view (``views``), may be done in place (``in_place``), is only copied (``placements``), its bodies
(``bodies``) and its cost (``costs``). Where extents stay variables, ``symbolic`` reads the model at
their upper bounds, with expressions beside (``symbolic_*``, rules by operator in ``*_shapes``).
Running is ``run`` with ``kernels`` and ``weights``; writing is ``reorder`` with ``copies``.
"""
