"""The order of least live bytes."""
