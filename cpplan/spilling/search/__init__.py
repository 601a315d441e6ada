"""Searches for orders in which fewer bytes move."""
