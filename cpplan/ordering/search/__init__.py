"""Searches for an order: over downsets, windows, cuts, and by CP-SAT."""
