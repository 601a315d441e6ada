"""Programs as text: printed, and read back."""
