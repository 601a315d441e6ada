"""Storages that move between a fast and a slow pool, with the fewest bytes moved."""
