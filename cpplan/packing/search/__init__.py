"""Searches for a packing: exact, local, and CP-SAT."""
