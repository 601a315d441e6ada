"""Packing into several pools."""
