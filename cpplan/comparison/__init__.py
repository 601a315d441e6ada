"""Comparisons of ``solve`` with baselines and with other planners' answers."""

# Name of the row of ``solve``.
SOLVE = "cpplan"
