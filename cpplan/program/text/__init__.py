"""Printer and parser of Programs as text."""
