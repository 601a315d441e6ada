"""Plans for several sizes of a graph at once."""
