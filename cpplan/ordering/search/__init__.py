"""Searches for an order: over downsets, by windows, by minimum cuts, and by CP-SAT."""
