"""Cases of all modes in turn, until time or number is up; what is false, and a table at the end."""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from .boxes import TooLargeError
from .case import Case, Mode, as_test
from .damaged import damaged
from .mutated import mutated
from .orders import order
from .packing import packing
from .pairs import pairs
from .pools import pools
from .remat import remat
from .sharing import sharing
from .sizes import sizes
from .storages import storages
from .symbolic import symbolic

MODES: dict[str, Mode] = {
    "packing": packing,
    "orders": order,
    "sharing": sharing,
    "pools": pools,
    "remat": remat,
    "symbolic": symbolic,
    "sizes": sizes,
    "storages": storages,
    "mutated": mutated,
    "damaged": damaged,
    "pairs": pairs,
}


@dataclass
class Count:
    """Cases of one mode: compared, too large for brute force, and false; and the seconds taken."""

    cases: int = 0
    too_large: int = 0
    false: int = 0
    seconds: float = 0.0


def case_of(mode: str, seed: int, number: int) -> Case:
    """The case of this number, the same for the same seed."""
    return MODES[mode](random.Random(f"{mode} {seed} {number}"))


def check(case: Case) -> list[str]:
    """Assertions that fail, or the error that the case ends in, as Python.

    Raises
    ------
    TooLargeError
        If brute force would take too long.
    """
    try:
        return case.false()
    except TooLargeError:
        raise
    except Exception as error:  # any error at all is a find
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return [f"# {where.filename.rpartition('/')[2]}:{where.lineno} raised {text}"]


def soak(
    modes: Iterable[str],
    seed: int,
    show: Callable[[str], None],
    *,
    minutes: float | None = None,
    cases: int | None = None,
    first: int = 0,
) -> dict[str, Count]:
    """Cases by mode: how many there were, and how many were false, each shown as a test.

    Parameters
    ----------
    minutes, cases
        When to stop: after this time, or this number of cases of each mode.
    first
        Number of the first case.
    """
    counts = {mode: Count() for mode in modes}
    end = None if minutes is None else time.monotonic() + 60 * minutes
    number = first
    while cases is None or number < first + cases:
        for mode, count in counts.items():
            if end is not None and time.monotonic() >= end:
                return counts
            begin = time.process_time()
            try:
                case = case_of(mode, seed, number)
                false = check(case)
            except TooLargeError:
                count.too_large += 1
                continue
            finally:
                count.seconds += time.process_time() - begin
            count.cases += 1
            if false:
                count.false += 1
                show(f"# --modes {mode} --seed {seed} --first {number} --cases 1")
                show(as_test(f"{mode}_{seed}_{number}", case, false) + "\n")
        number += 1
    return counts


def table(counts: dict[str, Count]) -> str:
    """Cases and false ones of each mode, as text."""
    rows: list[Sequence[object]] = [("mode", "cases", "false", "too large", "CPU s")]
    found = [*counts.values()]
    total = Count(
        sum(c.cases for c in found),
        sum(c.too_large for c in found),
        sum(c.false for c in found),
        sum(c.seconds for c in found),
    )
    for mode, count in {**counts, "all": total}.items():
        rows.append((mode, count.cases, count.false, count.too_large, f"{count.seconds:.1f}"))
    return "\n".join(f"{row[0]:<10}" + "".join(f"{v:>11}" for v in row[1:]) for row in rows)
