"""Budgets, interrupts, files, CP-SAT runs and compiled loops: what every room uses."""
