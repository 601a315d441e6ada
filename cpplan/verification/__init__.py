"""Verification of plans: geometry, simulation, execution; no planner is imported."""
