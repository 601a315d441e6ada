"""Readers of what other planners answered."""
