"""The stages of ``solve``, and what they hand on to one another."""
