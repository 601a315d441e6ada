"""Version of the package, for rooms that write it down."""

__version__ = "0.1.0"
