"""One layout for several sizes of every buffer."""
