"""Comparisons of ``solve`` with baselines and with other planners' answers."""
