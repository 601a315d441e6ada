"""Baselines and other planners beside solve()."""
