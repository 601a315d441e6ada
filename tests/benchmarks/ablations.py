"""Figures with and without a part of the planner: what makes none of them worse can go.

Run ``python tests/benchmarks/ablations.py [--seconds 2] [--csv FILE] [NAME …]``: each name of
``ABLATIONS`` is a tuning or some replacements that leave something out, run on the instances that
it is for, in deterministic time with one worker. A line has the instances for which a plan was
found, and those proved optimal, with everything and without the part; the change of all values,
as the geometric mean, and the largest change of one instance, in percent: positive if the part
helps. A bound counts where it is lower without the part, too. First plans are timed by the clock,
as they are there to be soon. ``ablations.csv`` beside this file has the lines.
"""

from __future__ import annotations

import argparse
import csv
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

import cpplan
from cpplan.model.graph import Graph, Op
from cpplan.model.pool import Pool
from cpplan.model.problem import Problem
from cpplan.model.shapes import Range, bounding, parse_dim
from cpplan.model.symbols import Symbols
from cpplan.model.tensor import Tensor
from cpplan.ordering import heuristics as order_heuristics
from cpplan.ordering import solve as ordering_solve
from cpplan.packing import heuristics as packing_heuristics
from cpplan.packing import solve
from cpplan.packing.incumbent import Incumbent
from cpplan.packing.pools.solve import pack_pools
from cpplan.packing.portfolio import PartSearch
from cpplan.packing.search import insertion_search
from cpplan.packing.search.staged_insertion import StagedInsertion
from cpplan.packing.sizes.solve import layout_for_sizes
from cpplan.program.anf import to_anf
from cpplan.program.liveness import to_problem
from cpplan.remat import portfolio
from cpplan.remat.heuristics import dropping, starts
from cpplan.remat.portfolio import ScheduleSearch
from cpplan.remat.search.descent import Descent
from cpplan.runtime.budget import Budget, Tuning, using
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.solving.tuning import make_tuning
from cpplan.spilling.search import one_order
from cpplan.spilling.search.one_order import SpillSearch
from cpplan.splitting import frontier
from cpplan.symbolic import layout
from cpplan.zoo.packing import near_perfect_packing, perfect_packing, random_lifespans

DATASETS = Path(__file__).resolve().parents[2] / "datasets"
MODELS = "light_inception_v1", "light_resnet50", "light_shufflenet", "ordering/nasnet_mobile"


SEEDS = range(2)


class Figure(NamedTuple):
    """An instance's status, and the value and the bound of its levels."""

    status: str
    value: tuple[float, ...]
    bound: tuple[float, ...]


Figures = Callable[[Callable[[], Budget]], Iterator[Figure]]


def of_pools(budget: Callable[[], Budget]) -> Iterator[Figure]:
    """Models and perfect packings in two pools of random capacities, for every objective."""
    problems = [model(name) for name in MODELS[:3]] + [
        perfect_packing(16, seed=k).problem for k in range(3)
    ]
    for number, problem in enumerate(problems):
        rng, pressure = random.Random(number), int(problem.live_bytes().max())
        for objective in ("preference", "total", "cost"):
            capacity = int(pressure * rng.uniform(0.2, 0.8))
            fast = Pool("fast", capacity=capacity, cost_per_byte=4, read_bandwidth=8)
            slow = Pool("slow", read_bandwidth=1, read_latency=100)
            found = pack_pools(replace(problem, pools=(fast, slow)), objective, budget())
            yield Figure(found.status, found.objective_value, found.objective_bound)


def of_packing(
    makers: Mapping[str, Callable[[int], Problem]], budget: Callable[[], Budget]
) -> Iterator[Figure]:
    """Problems of one pool, each for a few seeds."""
    for make in makers.values():
        for seed in SEEDS:
            seconds = budget().deadline.seconds
            plan = cpplan.solve(
                make(seed), time_limit=seconds, seed=seed, workers=1,
                deterministic=True,
            )  # fmt: skip
            assert plan.peak is not None
            yield Figure(plan.status, (plan.peak,), (plan.lower_bound,))


def lifespans(count: int, live: float) -> Callable[[int], Problem]:
    """Random lifespans by seed."""
    return lambda seed: random_lifespans(count, seed=seed, live=live)


def perfect(count: int) -> Callable[[int], Problem]:
    """Perfect packings by seed."""
    return lambda seed: perfect_packing(count, seed=seed, pinwheels=0.3).problem


def near_perfect(count: int, fill: float) -> Callable[[int], Problem]:
    """Packings that almost fill a rectangle, by seed."""
    return lambda seed: near_perfect_packing(count, seed=seed, fill=fill).problem


LARGE = partial(of_packing, {"60000 buffers": lifespans(60_000, 300)})
FLAT = partial(
    of_packing, {"1000 live": lifespans(10_000, 1000), "200 live": lifespans(10_000, 200)}
)
TIMED = partial(of_packing, {"50 live": lifespans(10_000, 50), "200 live": lifespans(10_000, 200)})
TIGHT = partial(of_packing, {"perfect": perfect(120), "nearly perfect": near_perfect(200, 0.9)})
MIDDLE = partial(
    of_packing, {"nearly perfect": near_perfect(400, 0.9), "1000 buffers": lifespans(1000, 50)}
)


def of_sizes(budget: Callable[[], Budget]) -> Iterator[Figure]:
    """Models and perfect packings whose buffers grow, shrink or stay, a third of them each."""
    factors = np.array([[1, 8, 3], [8, 1, 3], [2, 2, 3]])
    problems = [model(name) for name in MODELS] + [
        perfect_packing(16, seed=k).problem for k in range(4)
    ]
    for problem in problems:
        bytes = problem.size * factors[:, np.arange(len(problem)) % 3]
        for objective in ("largest", "ratio"):
            found = layout_for_sizes(
                problem, bytes, budget(), prefix_stable=True, objective=objective
            )
            yield Figure(found.status, found.value, found.bound)


def of_files(
    names: tuple[str, ...], options: Mapping[str, Any], budget: Callable[[], Budget]
) -> Iterator[Figure]:
    """Peaks of files of ``datasets``; of plans with moves, the bytes moved, and the bound on them.

    A capacity of a pool below 1 is a share of the bytes live at once in the given order. Where a
    limit on bytes is given with recomputation, the figure is the cost.
    """
    for name in names:
        seconds = budget().deadline.seconds
        source = cpplan.load(DATASETS / name)
        own = dict(options)
        if "fast" in own:
            live = to_problem(to_anf(source)).live_bytes().max()
            own["pools"] = [Pool("fast", capacity=int(own.pop("fast") * live)), SLOW]
            own["spill"] = True
        plan = cpplan.solve(source, time_limit=seconds, workers=1, deterministic=True, **own)
        value, bound = plan.peak, plan.lower_bound
        if "spill" in own:
            value, bound = plan.moved_bytes, plan.moved_bytes_bound
        elif "remat" in own and "memory_limit" in own:
            value, bound = plan.cost, plan.cost_bound or plan.base_cost
        found = plan.offset is not None and value is not None
        yield Figure(plan.status, (float(value) if found else math.inf,), (float(bound or 0),))


def several(*families: Figures) -> Figures:
    """The figures of some families, one after another."""

    def figures(budget: Callable[[], Budget]) -> Iterator[Figure]:
        for family in families:
            yield from family(budget)

    return figures


# A pool that ops access directly, at the price of the bytes that they touch.
SLOW = Pool("slow", direct=True)
NETS = partial(
    of_files,
    (
        *(f"published/minimalloc/{name}.1048576.csv" for name in "ADFHJK"),
        *(f"zoo/{name}.json.gz" for name in ("gpt2.train", "nasnetalarge.infer", "unet.train")),
        *("training/mobilenet_training.json", "onnx/densenet121.onnx", "tflite/separable.tflite"),
    ),
    {},
)
ORDERED = partial(
    of_files,
    (
        *(f"ordering/{name}.json" for name in ("layered_100", "layered_250", "nasnet_mobile")),
        *(f"ordering/{name}.json" for name in ("randwire_1", "darts_cifar", "vgg11_training")),
        *("zoo/randwire.infer.json.gz", "zoo/swin_t.infer.json.gz", "zoo/unet.train.json.gz"),
        "training/mobilenet_training.json",
    ),
    {"order": "search"},
)
WITHIN = several(
    partial(
        of_files,
        (
            *("ordering/layered_100.json", "ordering/vgg11_training.json"),
            *("training/resnet18_training.json", "training/mobilenet_training.json"),
            *("zoo/unet.train.json.gz", "zoo/transformer.train.json.gz"),
        ),
        {"remat": True, "memory_limit": "60%"},
    ),
    partial(
        of_files,
        ("ordering/layered_250.json", "zoo/mobilenet_v2.train.json.gz", "ordering/randwire_1.json"),
        {"remat": True, "memory_limit": "80%"},
    ),
)
CHEAP = partial(
    of_files,
    (
        *("ordering/vgg11_training.json", "zoo/resnet18.train.json.gz"),
        *("training/unet_training.json", "hand/fork_join.json"),
    ),
    {"remat": True, "cost_limit": 1.1},
)
SCHEDULES = several(WITHIN, CHEAP)
MOVED = partial(
    of_files,
    (
        *("light_inception_v2.json", "light_shufflenet.json", "onnx/mobilenet_v2.onnx"),
        *("zoo/unet.infer.json.gz", "zoo/t5-small.infer.json.gz"),
        *("ordering/vgg11_training.json", "training/resnet18_training.json"),
        *("zoo/mobilenet_v2.train.json.gz", "tflite/separable.tflite"),
    ),
    {"fast": 0.5},
)
MOVED_IN_ORDERS = partial(
    of_files,
    (
        *("ordering/randwire_1.json", "ordering/nasnet_cell.json", "ordering/vgg11_training.json"),
        *("hand/residual.json", "ordering/darts_cell.json"),
    ),
    {"fast": 0.6, "order": "search"},
)
PIECES = several(
    partial(
        of_files,
        ("onnx/mobilenet_v2.onnx", "light_resnet50.json", "zoo/efficientnet_b0.infer.json.gz"),
        {"split": True, "cost_limit": 1.1, "in_place": True},
    ),
    partial(
        of_files,
        ("light_squeezenet.json", "zoo/unet.infer.json.gz", "tflite/separable.tflite"),
        {"split": True, "cost_limit": 1.02},
    ),
)


def of_first_plans(budget: Callable[[], Budget]) -> Iterator[Figure]:
    """Peaks of what many buffers get by the clock before loops are compiled."""
    for count, live in ((20_000, 200), (100_000, 1000)):
        incumbent = Incumbent(random_lifespans(count, seed=0, live=live))
        with patch.object(solve, "is_ready", lambda group: False), suppress(TimeUpError):
            solve.offer_first_plans(incumbent, Deadline(budget().deadline.seconds))
        yield Figure("feasible", (incumbent.peak,), (incumbent.bound.value,))


# Extents as strides, crops, pads and shapes in two parts leave them.
EXTENTS = (
    *("(h + 1)//2", "h - 2*(h//2) + 1", "h - h//2", "w*(h - h//2)", "(h - h//2)*(w - 3)"),
    *("h - min(h, 2)", "(h - min(h, 2))*(w + 20)", "max(h, 5) - min(h, 3)", "h % 7 * (w % 3)"),
)
RANGES = {"h": Range(0, 40), "w": Range(0, 30)}


def of_symbols(budget: Callable[[], Budget]) -> Iterator[Figure]:
    """Upper bounds of symbolic extents, and the largest values there are."""
    for text in EXTENTS:
        extent = parse_dim(text)
        values = [extent.evaluate({"h": h, "w": w}) for h in range(41) for w in range(31)]
        upper = extent.bounds(RANGES).upper
        assert upper is not None
        status = "optimal" if upper == max(values) else "feasible"
        yield Figure(status, (upper,), (max(values),))


def of_unbounded(budget: Callable[[], Budget]) -> Iterator[Figure]:
    """Storages of a chain of tensors whose extent has no upper bound, and those live at once."""
    for count in (4, 16, 64):
        tensors = tuple(
            Tensor(f"t{k}", shape=("n", 8), dtype="int8", kind="input" if k == 0 else "output"
                   if k == count - 1 else "intermediate") for k in range(count)
        )  # fmt: skip
        ops = tuple(
            Op(f"f{k}", inputs=(f"t{k}",), outputs=(f"t{k + 1}",)) for k in range(count - 1)
        )
        graph = Graph("chain", tensors, ops, Symbols({"n": (0, None)}))
        plan = cpplan.solve(graph, time_limit=budget().deadline.seconds)
        assert plan.symbols is not None
        yield Figure(plan.status, (len(plan.symbols.storages),), (2,))


def apart(sizes: Mapping[str, Any], *_: object) -> dict[str, layout.Unbounded]:
    """A storage for each tensor without a bound."""
    return {name: layout.Unbounded(size, k) for k, (name, size) in enumerate(sizes.items())}


def without_size_classes(problem: Problem) -> dict[str, float]:
    """Seconds of the first plans but for size classes, the quickest first."""
    return {name: s for name, s in PLAIN_SECONDS(problem).items() if name != "size_classes"}


def without_heuristic(*left_out: str) -> Callable[..., tuple[str, ...]]:
    """The portfolio of heuristics but for these."""
    return lambda buffers=0: tuple(name for name in PORTFOLIO(buffers) if name not in left_out)


def never(*_: object, **__: object) -> bool:
    """False, as of a search that applies to nothing."""
    return False


def same_state(search: object, state: Any, *_: object, **__: object) -> Any:
    """The state that a search was given, as if it had found nothing."""
    return state


def nothing(*_: object, **__: object) -> None:
    """Nothing found."""


def same_order(problem: object, schedule: Any, *_: object, **__: object) -> tuple[int, ...]:
    """The schedule that a heuristic was given, in place of a better one."""
    return tuple(int(unit) for unit in schedule)


def cut_nothing(problem: object, limit: int, order: Any, *_: object) -> tuple[int, ...]:
    """The order that minimum cuts were given, in place of a schedule."""
    return tuple(int(unit) for unit in order)


PLAIN_SECONDS = solve._plain_seconds
PORTFOLIO = packing_heuristics.portfolio

# What is left out: by tuning, or by replacing each object's attribute by a value.
Without = dict[str, Any] | tuple[tuple[Any, str, Any], ...]

ABLATIONS: dict[str, tuple[Figures, Without]] = {
    "packing without staged insertion": (
        several(FLAT, TIMED, LARGE),
        ((StagedInsertion, "applies_to", never),),
    ),
    "packing without niche search": (TIGHT, {"packing": {"niche_buffers": 0}}),
    "packing without insertion": (
        several(MIDDLE, NETS),
        ((insertion_search, "applies_to", never),),
    ),
    "packing without CP-SAT": (
        several(MIDDLE, NETS),
        ((PartSearch, "_solve", same_state),),
    ),
    "packing without probing": (several(NETS, TIGHT), {"packing": {"probing_buffers": 10**9}}),
    "packing without fullest first": (
        FLAT,
        ((packing_heuristics, "portfolio", without_heuristic("fullest_first")),),
    ),
    "packing without segregated fit": (
        FLAT,
        ((packing_heuristics, "portfolio", without_heuristic("segregated_fit")),),
    ),
    "pools without liquid bytes": (of_pools, {"packing": {"pools_liquid_runs": 0}}),
    "pools without CP-SAT": (of_pools, {"packing": {"pools_entries": 0}}),
    "pools by heuristics alone": (
        of_pools,
        {"packing": {"pools_entries": 0, "pools_ordered_buffers": 0}},
    ),
    "sizes without a climb": (of_sizes, {"packing": {"sizes_moves_a_buffer": 0}}),
    "sizes without the topmost buffer": (of_sizes, {"packing": {"sizes_top_pairs": 0}}),
    "first plans without size classes": (
        of_first_plans,
        ((solve, "_plain_seconds", without_size_classes),),
    ),
    "orders without cuts": (
        ORDERED,
        {"ordering": {"cuts_share": 1e-9, "divisions": 0}},
    ),
    "orders without division at cuts": (ORDERED, {"ordering": {"divisions": 0}}),
    "orders without windows": (ORDERED, {"ordering": {"first_windows": 0}}),
    "orders without exact search": (ORDERED, {"ordering": {"most_state_bytes": 0}}),
    "orders without CP-SAT": (
        ORDERED,
        {"ordering": {"few_ops": 0, "first_cp_sat_work": 0.0, "cp_sat_window_work": 0.0}},
    ),
    "orders without joint CP-SAT": (
        ORDERED,
        {"solving": {"joint_ops": 0, "joint_ops_in_the_end": 0}},
    ),
    "orders without the beam": (ORDERED, ((ordering_solve, "COMPILED", ()),)),
    "schedules without retaining again": (SCHEDULES, ((dropping, "_LEVELS", 0),)),
    "schedules without oscillation": (CHEAP, ((Descent, "_oscillate", nothing),)),
    "schedules without the chain program": (WITHIN, ((portfolio, "as_chain", nothing),)),
    "schedules without reach": (
        SCHEDULES,
        ((ScheduleSearch, "_look_for_reach", nothing),),
    ),
    "schedules without the floor at cuts": (
        SCHEDULES,
        ((ScheduleSearch, "_prove_floor", nothing),),
    ),
    "schedules without bounds from cuts": (SCHEDULES, ((ScheduleSearch, "bound_cost", nothing),)),
    "schedules without dropping": (
        SCHEDULES,
        ((starts, "drop", same_order), (portfolio, "drop", same_order)),
    ),
    "schedules without minimum cuts": (
        SCHEDULES,
        (
            (starts, "retain_by_cuts", cut_nothing),
            (starts, "orders_by_need", lambda problem: []),
            (portfolio, "smallest_by_cuts", nothing),
        ),
    ),
    "schedules without CP-SAT on all": (SCHEDULES, {"remat": {"cp_sat_units": 0}}),
    "schedules without falling back": (WITHIN, {"remat": {"fall_back": ()}}),
    "schedules without short ones": (CHEAP, {"remat": {"most_short": 0}}),
    "schedules without the descent": (
        CHEAP,
        ((ScheduleSearch, "below", lambda self, most, budget: self.known.smallest(most)),),
    ),
    "moves without addresses": (MOVED, ((SpillSearch, "_place_by_address", nothing),)),
    "moves without repacking": (MOVED, ((SpillSearch, "_repacking", nothing),)),
    "moves without margins": (MOVED, {"spilling": {"margins": ()}}),
    "moves without CP-SAT": (
        MOVED,
        ((one_order, "search_gaps", nothing),),
    ),
    "moves without relaxation or CP-SAT": (MOVED, {"spilling": {"cp_sat_gaps": 0}}),
    "moves without prices of full steps": (
        MOVED,
        ((one_order, "prices_of_full_steps", lambda *_: {}),),
    ),
    "moves without orders of heuristics": (
        MOVED_IN_ORDERS,
        ((order_heuristics, "names", lambda: ()),),
    ),
    "moves without every choice": (MOVED_IN_ORDERS, {"spilling": {"every_choice_ops": 0}}),
    "moves without the bound of orders": (MOVED_IN_ORDERS, {"spilling": {"every_order_ops": 0}}),
    "pieces without strips": (PIECES, {"splitting": {"strips": ()}}),
    "pieces without tiles": (PIECES, ((frontier, "_in_tiles", lambda *_: iter(())),)),
    "pieces without cascades": (PIECES, ((frontier, "_in_line", lambda *_: iter(())),)),
    "pieces without coarse steps": (PIECES, ((frontier, "_coarsely", lambda *_: iter(())),)),
    "pieces without shoulders": (PIECES, ((frontier, "find_shoulders", lambda *_: []),)),
    "pieces without single steps": (PIECES, {"splitting": {"most_elements": 0}}),
    "pieces without halves": (PIECES, {"splitting": {"most_halves": 0}}),
    "pieces without packing again": (PIECES, {"splitting": {"most_packed_again": 0}}),
    "symbols without rewriting": (of_symbols, ((bounding, "MOST_EFFORT", 0),)),
    "symbols without corners": (of_symbols, ((bounding, "MOST_CORNERS", 0),)),
    "symbols without branches": (of_symbols, ((bounding, "MOST_BRANCHES", 0),)),
    "symbols without remainders": (
        of_symbols,
        ((bounding, "substitute", lambda terms, atom: None),),
    ),
    "symbols without joined quotients": (
        of_symbols,
        ((bounding, "absorb", lambda terms, atom: None),),
    ),
    "unbounded tensors apart": (of_unbounded, ((layout, "share_equal", apart),)),
}


def model(name: str) -> Problem:
    """The buffers of a model in its given order."""
    return to_problem(to_anf(cpplan.load(DATASETS / f"{name}.json")))


def run(figures: Figures, without: Without, seconds: float) -> list[Figure]:
    """The figures of a family, with a part left out."""
    tuning = make_tuning(without) if isinstance(without, dict) else Tuning()
    with using(tuning), ExitStack() as replaced:
        for place in () if isinstance(without, dict) else without:
            replaced.enter_context(patch.object(*place))
        return list(figures(lambda: Budget(Deadline(seconds, deterministic=True), tuning=tuning)))


class Line(NamedTuple):
    """A line of the table; changes are in percent, of values or, if those are equal, of bounds."""

    ablation: str
    instances: int
    found: int
    found_without: int
    proved: int
    proved_without: int
    value_change: float
    largest_value_change: float
    bound_change: float


def line_of(name: str, whole: Sequence[Figure], less: Sequence[Figure]) -> Line:
    """The figures of a family without a part, beside those with everything."""
    pairs = list(zip(whole, less, strict=True))
    values = [
        math.log(b / a)
        for one, other in pairs
        for a, b in zip(one.value, other.value, strict=True)
        if 0 < a < math.inf and 0 < b < math.inf
    ]
    bounds = [
        math.log(a / b)
        for one, other in pairs
        for a, b in zip(one.bound, other.bound, strict=True)
        if a > 0 and b > 0
    ]
    return Line(
        name,
        len(pairs),
        *(sum(is_found(figure) for figure in side) for side in (whole, less)),
        *(sum(figure.status == "optimal" for figure in side) for side in (whole, less)),
        percent(np.mean(values)) if values else 0.0,
        percent(max(values, key=abs, default=0.0)),
        percent(np.mean(bounds)) if bounds else 0.0,
    )


def is_found(figure: Figure) -> bool:
    """True if a plan was found."""
    return all(value < math.inf for value in figure.value)


def percent(logarithm: float) -> float:
    """Change in percent of a logarithm of a ratio."""
    return round(100 * math.expm1(float(logarithm)), 3) + 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(ABLATIONS))
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--csv", type=Path, help="file to which lines are added")
    options = parser.parse_args()
    print(f"{'ablation':<38} found      proved     values   largest   bounds", flush=True)
    known: dict[object, list[Figure]] = {}
    for name in options.names:
        figures, changed = ABLATIONS[name]
        if figures not in known:
            known[figures] = run(figures, {}, options.seconds)
        line = line_of(name, known[figures], run(figures, changed, options.seconds))
        print(
            f"{name:<38} {line.found:>3} {line.found_without:>3}/{line.instances:<3}"
            f"{line.proved:>3} {line.proved_without:>3}/{line.instances:<3}"
            f"{line.value_change:>+8.3f} %{line.largest_value_change:>+8.3f} %"
            f"{line.bound_change:>+8.3f} %",
            flush=True,
        )
        if options.csv is not None:
            write(options.csv, line)


def write(path: Path, line: Line) -> None:
    """Add a line to a file, or replace the one of its name."""
    rows = list(csv.reader(path.read_text().splitlines()))[1:] if path.exists() else []
    rows = [row for row in rows if row[0] != line.ablation] + [[str(cell) for cell in line]]
    place = {name: k for k, name in enumerate(ABLATIONS)}
    rows = sorted((row for row in rows if row[0] in place), key=lambda row: place[row[0]])
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([Line._fields, *rows])


if __name__ == "__main__":
    main()
