"""Tensors that share bytes by choice: in place and placement."""
