"""``python -m cpplan``."""

import sys

from cpplan.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
