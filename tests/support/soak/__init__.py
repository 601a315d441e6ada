"""Random cases of every mode against brute force from the definitions; see ``benchmarks/soak.py``.

The oracles read the fields of graphs, problems and plans; they call nothing of planner or checker.
"""
