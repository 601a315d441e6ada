"""Offsets for buffers with given lifespans."""
