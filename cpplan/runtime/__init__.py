"""Budgets, interrupts, files, CP-SAT runs and compiled loops, for use in every room."""
