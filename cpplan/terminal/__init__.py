"""What the command line shares: options, and streams that may be closed or full."""
