"""Aliases: tensors that share bytes by choice, in place or by placement."""
