"""Graphs and plans of symbolic sizes, bound to values."""
