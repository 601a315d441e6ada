"""The ``cpplan`` command, also as ``python -m cpplan``."""

from __future__ import annotations

import sys


def run() -> int:
    """Load the command line, run it and return its exit code; 130 if interrupted meanwhile."""
    try:
        # Loading takes a noticeable part of a second, in which Ctrl-C may be pressed too.
        from cpplan.cli.main import main

        return main()
    except KeyboardInterrupt:
        sys.stderr.write("cpplan: interrupted\n")
        return 130


if __name__ == "__main__":
    sys.exit(run())
