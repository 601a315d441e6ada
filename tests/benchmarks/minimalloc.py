"""MiniMalloc's challenging instances through the command line, at their capacity.

    python tests/benchmarks/minimalloc.py FOLDER [--seconds 60] [--workers 1]

FOLDER holds files named ``NAME.CAPACITY.csv``. Each is one process, start-up included. Prints CSV:
instance, status, peak, lower bound, what found the plan, seconds of the whole process, versions.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", default="60")
    parser.add_argument("--workers", default="1")
    options = parser.parse_args()
    table = csv.writer(sys.stdout)
    table.writerow(
        ["instance", "status", "peak", "lower_bound", "method", "seconds", "cpplan", "ortools"]
    )
    versions = [version("cpplan"), version("ortools")]
    for path in sorted(options.folder.glob("*.*.csv")):
        capacity = path.suffixes[0].lstrip(".")
        command = [sys.executable, "-m", "cpplan", "plan", str(path), "-q", "--json", "-"]
        limits = ["--capacity", capacity, "--time-limit", options.seconds]
        start = time.monotonic()
        run = subprocess.run(
            [*command, *limits, "--workers", options.workers],
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = round(time.monotonic() - start, 2)
        plan = json.loads(run.stdout)
        found = [plan[key] for key in ("status", "peak", "lower_bound", "method")]
        table.writerow([path.name, *found, seconds, *versions])
        sys.stdout.flush()


if __name__ == "__main__":
    main()
