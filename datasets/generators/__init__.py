"""Graphs whose order matters, made here: networks from their papers, random graphs."""
