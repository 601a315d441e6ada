"""Readers of other planners' answers."""
