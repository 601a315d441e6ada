"""``python -m cpplan``."""

import sys

from cpplan.cli import main

if __name__ == "__main__":
    sys.exit(main())
