"""Relax modules of TVM: read as graphs, and written with plans that TVM's own runtime follows."""
