"""Ordering: orders of the ops with few live bytes at once, and bounds on every order."""
