"""Plans whose sizes depend on variables."""
