"""Ops in pieces: graphs of pieces, and the search for the pieces that need the fewest bytes."""
