"""Packers that benchmarks compare, all timed and checked alike.

A packer gets a problem, a capacity that is good enough or none, a time limit and a seed, and works
on one thread. A rival is somebody else's program, run as a process.
"""

from __future__ import annotations

import platform
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np

import cpplan
from cpplan.io.minimalloc_csv import write_problem
from cpplan.model.problem import Ints, Problem
from cpplan.packing import heuristics
from cpplan.packing.bounds import lower_bound
from cpplan.packing.heuristics.by_lowest_offset import preorder
from cpplan.packing.reduction import address_unit, reduce_problem
from cpplan.runtime.deadline import Deadline
from cpplan.verification.verifier import check_offsets
from cpplan.zoo.packing import perfect_packing

PACKAGES = ("cpplan", "ortools", "llvmlite", "numpy")


class Packed(NamedTuple):
    """Offsets in bytes, shape ``(n,)``, if any were found; what is proved; and by what."""

    offset: Ints | None
    bound: int
    method: str


Packer = Callable[[Problem, "int | None", float, int], Packed]


class Result(NamedTuple):
    """A packer's checked answer to one problem."""

    peak: int | None
    bound: int
    solved: bool
    method: str
    seconds: float


def portfolio(problem: Problem, capacity: int | None, seconds: float, seed: int) -> Packed:
    """``cpplan.solve`` as a user calls it; it verifies its plan within the time."""
    plan = cpplan.solve(problem, capacity=capacity, time_limit=seconds, workers=1, seed=seed)
    return Packed(plan.offset, plan.lower_bound, plan.method)


def cp_sat(problem: Problem, capacity: int | None, seconds: float, seed: int) -> Packed:
    """CP-SAT's own search with the best heuristic's packing as its hint."""
    clock, unit, bound = Deadline(seconds), address_unit(problem), lower_bound(problem).value
    small = reduce_problem(problem)
    hint, peak = _best_heuristic(small.problem, clock)
    if peak <= max(bound, capacity or 0):
        return Packed(small.restore(hint, problem), bound, "heuristics")
    from formulations.packing import build

    # A packing above the capacity is of no use, and no hint for a model that stops at it.
    limit = peak if capacity is None else min(peak, capacity)
    packing = build(small.problem, unit=unit, upper=limit, lower=bound, minimise=capacity is None)
    if peak <= limit:
        packing.hint(hint)
    solver, found = _solve(packing, clock, seed)
    if capacity is None:
        bound = max(bound, packing.proved_bound(solver))
    offset = packing.extract(solver) if found else hint
    return Packed(small.restore(offset, problem), bound, "CP-SAT")


def cp_sat_twa(problem: Problem, capacity: int | None, seconds: float, seed: int) -> Packed:
    """CP-SAT placing what can lie lowest first, in one order, at the capacity or the bound."""
    clock, unit, bound = Deadline(seconds), address_unit(problem), lower_bound(problem).value
    small = reduce_problem(problem)
    from formulations.packing import build

    limit = bound if capacity is None else capacity
    order = preorder(small.problem, "TWA")
    packing = build(small.problem, unit=unit, upper=limit, lower=min(bound, limit), preorder=order)
    solver, found = _solve(packing, clock, seed, fixed=True)
    if not found:
        return Packed(None, bound, "CP-SAT TWA")
    return Packed(small.restore(packing.extract(solver), problem), bound, "CP-SAT TWA")


def _best_heuristic(problem: Problem, clock: Deadline) -> tuple[Ints, int]:
    """The best packing of the portfolio's heuristics, and its peak."""
    packings = [heuristics.get(name)(problem, clock) for name in heuristics.portfolio()]
    peaks = [int((offset + problem.size).max(initial=0)) for offset in packings]
    best = int(np.argmin(peaks))
    return packings[best], peaks[best]


def _solve(packing, clock: Deadline, seed: int, fixed: bool = False):
    """Run the solver on one thread; whether it found anything."""
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed
    solver.parameters.max_time_in_seconds = clock.remaining()
    # google/or-tools#5293: this presolve step can prove falsehoods on large coefficients.
    solver.parameters.presolve_inclusion_work_limit = 0
    if fixed:
        solver.parameters.search_branching = cp_model.FIXED_SEARCH
    status = solver.solve(packing.model)
    return solver, status in (cp_model.OPTIMAL, cp_model.FEASIBLE)


PACKERS: dict[str, Packer] = {
    "cpplan": portfolio,
    "cp_sat": cp_sat,
    "cp_sat_twa": cp_sat_twa,
}


@dataclass(frozen=True)
class Rival:
    """Another program that packs a CSV of ``id,lower,upper,size`` into a capacity.

    Its time includes starting it, a few milliseconds where it is compiled.

    ``arguments`` are MiniMalloc's unless told otherwise; in them ``{input}``, ``{output}``,
    ``{capacity}`` and ``{seconds}`` are filled in. It must write the rows with a column ``offset``.
    """

    program: Path
    arguments: str = "--input={input} --output={output} --capacity={capacity} --timeout={seconds}s"

    def __call__(self, problem: Problem, capacity: int | None, seconds: float, seed: int) -> Packed:
        if capacity is None:
            raise ValueError("a rival packs at a capacity")
        bound = lower_bound(problem).value
        with tempfile.TemporaryDirectory() as folder:
            files = {"input": Path(folder, "input.csv"), "output": Path(folder, "output.csv")}
            write_problem(problem, files["input"])
            words = [
                word.format(**files, capacity=capacity, seconds=f"{seconds:g}")
                for word in shlex.split(self.arguments)
            ]
            try:
                run = subprocess.run(
                    [str(self.program.resolve()), *words],
                    capture_output=True,
                    check=False,
                    timeout=seconds + 1,
                )
            except subprocess.TimeoutExpired:
                return Packed(None, bound, "rival, stopped")
            if not files["output"].is_file() or run.returncode:
                return Packed(None, bound, f"rival, exit code {run.returncode}")
            answer = cpplan.load(files["output"])
        found = {name: answer.fixed.get(row) for row, name in enumerate(answer.names)}
        if any(found.get(name) is None for name in problem.names):
            return Packed(None, bound, "rival, no offsets")
        return Packed(np.array([found[name] for name in problem.names]), bound, "rival")


def run(
    packer: Packer,
    load: Callable[[], Problem],
    capacity: int | None,
    seconds: float,
    seed: int,
) -> Result:
    """Time a packer from reading the problem to its answer, then check the answer.

    Solved is what fits the capacity; without one, what meets its bound.
    """
    start = time.perf_counter()
    problem = load()
    offset, bound, method = packer(problem, capacity, seconds, seed)
    used = time.perf_counter() - start
    if offset is None:
        return Result(None, bound, False, method, used)
    check_offsets(problem, offset, method)
    peak = int((offset + problem.size).max(initial=0))
    return Result(peak, bound, peak <= (bound if capacity is None else capacity), method, used)


def warm(packers: Sequence[Packer]) -> None:
    """Run each on a problem that heuristics do not end, so that nothing compiles later on."""
    cpplan.warm_up("niche", "insertion")
    problem = perfect_packing(60, seed=0, pinwheels=0.3).problem
    for packer in packers:
        packer(problem, int(problem.live_bytes().max()), 5.0, 0)
        if not isinstance(packer, Rival):
            packer(problem, None, 1.0, 0)


def versions() -> dict[str, str]:
    """Columns that every row ends with."""
    return {**{name: version(name) for name in PACKAGES}, "python": platform.python_version()}
