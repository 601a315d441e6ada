"""Searches for schedules that run ops again."""
