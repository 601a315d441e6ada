"""Every pair of options: a description as data, covering arrays of it, and how a cell is checked.

``options`` is the description; ``covering`` draws cells from it; ``models`` makes a model for a
cell's source; ``cells`` plans it and checks all that must hold.
"""
