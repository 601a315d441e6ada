"""Plans of graphs whose tensor sizes depend on variables."""
