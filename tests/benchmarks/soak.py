"""Random cases of every mode against brute force from the definitions.

    python tests/benchmarks/soak.py --minutes 60 [--seed 7] [--modes packing sharing ...]

Modes take turns. Every case follows from its mode, the seed and its number, so that a find can be
run again alone: ``--first NUMBER --cases 1``. A find is printed at once, as a test to be pasted. At
the end: cases and false ones of each mode. Exits with 1 if any was false.
"""

from __future__ import annotations

import argparse
import secrets
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.soak.run import MODES, soak, table  # noqa: E402

IMPORTS = """import pytest
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from support.pairs.cells import false_cell
from cpplan import (
    Gap, Graph, Op, Placement, Plan, Pool, Problem, Program, Tensor, load, plan_sizes,
    share_storages, simulate, solve, verify,
)
from cpplan.model.errors import VerificationError
from cpplan.model.symbols import Symbols
"""


def main(arguments: list[str] | None = None) -> int:
    """Run as long as asked; 1 if anything was false."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--cases", type=int, help="of each mode")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--modes", nargs="+", choices=list(MODES), default=list(MODES))
    given = parser.parse_args(arguments)
    if given.minutes is None and given.cases is None:
        parser.error("say how long: --minutes or --cases")
    print(f"# seed {given.seed}\n{IMPORTS}", flush=True)
    counts = soak(
        given.modes,
        given.seed,
        lambda text: print(text, flush=True),
        minutes=given.minutes,
        cases=given.cases,
        first=given.first,
    )
    print(table(counts), flush=True)
    return int(any(count.false for count in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
