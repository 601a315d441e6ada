"""Time and memory that whole runs of ``cpplan plan`` take beside their limit, up to 100,000 ops.

    python tests/benchmarks/time_limits.py --processor [--ops 1000 20000 …] [--mode split spill …]
        [--graph chain …] [--seconds 2]

Modes are all decisions alone and in pairs, as far as they go together. Each graph is written to a
file; each mode plans the file in a process of its own, with one worker, of a package whose modules
are compiled to bytecode, as installed ones are. In modes with ``split`` ops have axes, every third
one with a halo.

A run may take ``1.1 × limit + 0.7`` seconds, all in all; if reading the file alone takes longer
than the limit, as much beyond reading. By the clock that holds on a quiet machine only; on a busy
one, ``--processor`` lets the limit count processor time, which is the yardstick in any case.

Prints CSV: seconds by the clock and of processor time, those of them to read the file, and those
allowed; the most memory the process ever had, MiB, and bytes of that an op; status, peak, bound and
method. ``compare`` may take as much for each row.
"""

from __future__ import annotations

import argparse
import compileall
import csv
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import cpplan
from cpplan import Graph, Op, Tensor
from cpplan.io.graph_json import write_graph
from cpplan.model.axes import Axis, Window
from cpplan.model.graph import Placement
from cpplan.program.anf import to_anf
from cpplan.program.liveness import to_problem

# Options of each decision. Recomputation searches orders unless the given one is asked for.
DECISIONS: dict[str, tuple[str, ...]] = {
    "search": ("--order", "search"),
    "in-place": ("--in-place",),
    "limit": ("--memory-limit", "80%"),
    "split": ("--split",),
    "remat": ("--remat", "--cost-limit", "1.2"),
    "remat-limit": ("--remat", "--memory-limit", "80%"),
    "spill": ("--spill",),
    "direct": ("--spill",),
    "time": ("--spill", "--objective", "time"),
}
# Pairs of which one excludes the other, or that are refused.
EXCLUDED = [
    *combinations(("limit", "remat", "remat-limit"), 2),
    *combinations(("spill", "direct", "time"), 2),
    *((one, move) for one in ("limit", "remat-limit") for move in ("spill", "direct", "time")),
    *(("remat", move) for move in ("spill", "direct")),
]
PAIRS = [pair for pair in combinations(DECISIONS, 2) if pair not in EXCLUDED]
MODES: dict[str, tuple[str, ...]] = {
    "given": (),
    **{name: (name,) for name in DECISIONS},
    **{"+".join(pair): pair for pair in PAIRS},
}
# Run only if asked for.
OTHERS = {
    "storages": ("storages",),
    "compare": ("compare", "--in-place", "--spill"),
}
COLUMNS = (
    *("graph", "ops", "mode", "limit", "seconds", "processor", "reading", "allowed", "within"),
    *("mib", "bytes_an_op", "status", "peak", "lower_bound", "moved_bytes", "moved_bytes_bound"),
    "method",
)
ANSWERS = COLUMNS[COLUMNS.index("status") :]


def layers(count: int, reads: Callable[[int], list[int]], *, seed: int = 0) -> Graph:
    """A graph whose op ``k`` reads the results of the ops ``reads(k)``, or the input if of none.

    What nothing reads is an output. Sizes are 64 B, 128 B, 256 B or 1 KiB; an op may write over
    what it reads of equal size.
    """
    chance = random.Random(seed)
    used: set[int] = set()
    ops, sizes = [], []
    for k in range(count):
        before = sorted(set(reads(k)))
        used.update(before)
        sizes.append(64 * chance.choice((1, 2, 4, 16)))
        in_place = tuple((f"t{k}", f"t{j}") for j in before if sizes[j] == sizes[k])
        names = tuple(f"t{j}" for j in before) or ("x",)
        ops.append(Op(f"op{k}", inputs=names, outputs=(f"t{k}",), in_place=in_place))
    kinds = ["intermediate" if k in used else "output" for k in range(count)]
    tensors = [Tensor(f"t{k}", sizes[k], kind=kinds[k]) for k in range(count)]
    return Graph("layers", (Tensor("x", 64, kind="input"), *tensors), tuple(ops))


def chain(count: int) -> Graph:
    """One op after another."""
    return layers(count, lambda k: [k - 1] if k else [])


def residual(count: int) -> Graph:
    """A chain in which every third op also reads the result three ops earlier."""
    return layers(count, lambda k: [k - 1] * (k > 0) + [k - 3] * (k > 0 and k % 3 == 0))


def local(count: int) -> Graph:
    """Ops that each read two of the last twenty results."""
    chance = random.Random(1)
    return layers(
        count, lambda k: [chance.randrange(max(0, k - 20), k) for _ in range(2 * (k > 0))]
    )


def anywhere(count: int) -> Graph:
    """Ops that each read two results from anywhere before."""
    chance = random.Random(2)
    return layers(count, lambda k: [chance.randrange(k) for _ in range(2 * (k > 0))])


def branches(count: int) -> Graph:
    """Up to a hundred chains side by side, listed in turns, joined at the end."""
    wide = min(100, -(-count // 4))
    return layers(
        count,
        lambda k: list(range(k - wide, k)) if k == count - 1 else [k - wide] if k >= wide else [],
    )


def fan_out(count: int) -> Graph:
    """One result that all other ops read; the result of each of these is an output."""
    return layers(count, lambda k: [0] if k else [])


def fan_in(count: int) -> Graph:
    """Results that only the last op reads, all at once."""
    return layers(count, lambda k: list(range(k)) if k == count - 1 else [])


def tree(count: int) -> Graph:
    """A binary tree that adds up leaves, listed level by level."""
    leaves = count // 2 + 1
    return layers(count, lambda k: [2 * (k - leaves), 2 * (k - leaves) + 1] if k >= leaves else [])


def training(count: int) -> Graph:
    """A forward chain, and a backward one that reads its results in reverse."""
    half = count // 2
    return layers(count, lambda k: [k - 1] * (k > 0) + [count - 1 - k] * (k > half))


def diamonds(count: int) -> Graph:
    """Four branches of ten ops that meet, again and again."""

    def reads(k: int) -> list[int]:
        block, place = divmod(k, 41)
        if place == 0:
            return [k - 1 - 10 * b for b in range(4)] if block else []
        return [41 * block if place % 10 == 1 else k - 1]

    return layers(count, reads)


def views(count: int) -> Graph:
    """A chain of views of views; an op reads each view."""
    tensors = [Tensor("x", 8, kind="input"), Tensor("v0", 8, view_of=("x", 0))]
    tensors += [Tensor(f"v{k}", 8, view_of=(f"v{k - 1}", 0)) for k in range(1, count)]
    tensors += [Tensor(f"t{k}", 64) for k in range(count)]
    ops = [Op(f"op{k}", inputs=(f"v{k}",), outputs=(f"t{k}",)) for k in range(count)]
    return Graph("views", tuple(tensors), tuple(ops))


def concatenations(count: int) -> Graph:
    """Blocks of eight ops whose results a ninth concatenates, and the next block reads."""
    tensors, ops = [Tensor("c0", 512, kind="input")], []
    blocks = count // 9
    for b in range(blocks):
        parts = [f"p{b}_{k}" for k in range(8)]
        tensors += [Tensor(name, 64) for name in parts]
        whole = f"c{b + 1}"
        tensors.append(Tensor(whole, 512, kind="output" if b == blocks - 1 else "intermediate"))
        ops += [Op(f"op_{name}", inputs=(f"c{b}",), outputs=(name,)) for name in parts]
        placements = tuple(Placement(name, whole, 64 * k) for k, name in enumerate(parts))
        ops.append(Op(f"cat{b}", inputs=tuple(parts), outputs=(whole,), placements=placements))
    return Graph("concatenations", tuple(tensors), tuple(ops))


GRAPHS = {
    make.__name__: make
    for make in (
        *(chain, residual, local, anywhere, branches, fan_out, fan_in, tree, training, diamonds),
        *(views, concatenations),
    )
}


def with_axes(graph: Graph) -> Graph:
    """The graph with eight rows of bytes in every tensor, and ops that run row by row.

    Every third op also reads the rows beside its own; copies stay whole.
    """
    tensors = tuple(replace(t, shape=(8, t.nbytes // 8), dtype="int8") for t in graph.tensors)
    ops = []
    for k, op in enumerate(graph.ops):
        offset, size = (0, 1) if k % 3 else (-1, 3)
        read = [Window(name, 0, 1, offset, size) for name in dict.fromkeys(op.inputs)]
        rows = Axis("rows", 8, (*read, *(Window(name, 0) for name in op.outputs)))
        ops.append(op if op.placements else replace(op, axes=(rows,)))
    return replace(graph, tensors=tensors, ops=tuple(ops))


def options_of(mode: str, path: Path) -> list[str]:
    """The subcommand and the options of a mode for a graph."""
    if mode in OTHERS and mode != "compare":
        return [*OTHERS[mode], str(path)]
    decisions = MODES.get(mode, ())
    options = [option for name in decisions for option in DECISIONS[name]]
    if "remat" in mode and "search" not in decisions:
        options += ["--order", "given"]
    if "time" in decisions and "remat" in decisions:
        options = [option for option in options if option not in ("--cost-limit", "1.2")]
    moves = {"spill", "direct", "time"}.intersection(decisions)
    if moves or mode == "compare":
        graph = cpplan.load(path)
        fast = int(to_problem(to_anf(graph)).live_bytes().max()) // 2
        if moves <= {"spill", "time"}:
            sizes = graph.tensor
            fast = max(fast, *(sum(sizes[t].nbytes for t in set(op.tensors)) for op in graph.ops))
        slow = {"direct": "slow,direct=true", "time": "slow,read_bandwidth=16,write_bandwidth=16"}
        options += ["--pool", f"fast={fast}", "--pool", slow.get(next(iter(moves), ""), "slow")]
    command = OTHERS.get(mode, ("plan",))
    return [*command, str(path), *options]


# Run in the child, so that what the benchmark itself takes is not counted.
_CHILD = """
import resource, sys, time
clock = time.perf_counter
begin = clock()
if sys.argv[1] == "processor":
    time.monotonic = time.perf_counter = time.process_time
del sys.argv[1]
if sys.argv[1] == "read":
    from cpplan.io import load
    from cpplan.runtime.collection import keeping_objects
    with keeping_objects():
        load(sys.argv[2])
    code = 0
else:
    from cpplan.cli.main import main
    code = main()
usage = resource.getrusage(resource.RUSAGE_SELF)
most = usage.ru_maxrss
if sys.platform == "linux":
    # There, the figure above is at least the memory of the process that started this one.
    with open("/proc/self/status") as status:
        most = next(line.split()[1] for line in status if line.startswith("VmHWM:"))
print(clock() - begin, usage.ru_utime + usage.ru_stime, most, code, file=sys.stderr)
"""


def run_child(arguments: list[str], *, processor: bool) -> tuple[list[float], str, str]:
    """Seconds, processor time, memory and exit code of a run; its answer and its last words."""
    run = subprocess.run(
        [sys.executable, "-c", _CHILD, "processor" if processor else "clock", *arguments],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    *said, last = run.stderr.strip().splitlines() or [""]
    try:
        return [float(value) for value in last.split()], run.stdout, "".join(said[-1:])
    except ValueError:
        return [], run.stdout, last


def measure(
    path: Path, mode: str, seconds: float, reading: float, *, processor: bool
) -> dict[str, object]:
    """Time and memory of a run of one mode, and its answer."""
    limits = ["--time-limit", str(seconds), "--workers", "1", "--json", "-"]
    usage, text, said = run_child([*options_of(mode, path), *limits], processor=processor)
    if len(usage) < 4 or not text:
        return {"status": f"failed: {said}"}
    clock, used, most, _ = usage
    answer, rows = json.loads(text), 1
    if isinstance(answer, list):
        slowest = max(answer, key=lambda row: row["seconds"])
        status = Counter(row["status"] for row in answer)
        method = f"slowest row: {slowest['algorithm']}, {slowest['seconds']:.2f} s"
        answer, rows = {"status": dict(status), "method": method}, len(answer)
    allowed = 1.1 * seconds * rows + 0.7 + (reading if reading > seconds else 0)
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return {
        "seconds": round(clock, 2),
        "processor": round(used, 2),
        "reading": round(reading, 2),
        "allowed": round(allowed, 2),
        "within": used <= allowed,
        "mib": round(most / unit),
        **{key: answer.get(key) for key in ANSWERS},
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ops", type=int, nargs="+", default=[1_000, 20_000, 50_000, 100_000])
    parser.add_argument("--graph", nargs="+", choices=GRAPHS, default=list(GRAPHS))
    parser.add_argument("--mode", nargs="+", choices=MODES | OTHERS, default=list(MODES))
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--processor", action="store_true", help="limit processor time")
    options = parser.parse_args()
    compileall.compile_dir(str(Path(cpplan.__file__).parent), quiet=1)
    table = csv.DictWriter(sys.stdout, COLUMNS)
    table.writeheader()
    with tempfile.TemporaryDirectory() as folder:
        for name, ops, cut in [
            (name, ops, cut)
            for name in options.graph for ops in options.ops for cut in (False, True)
        ]:  # fmt: skip
            modes = [mode for mode in options.mode if ("split" in mode) == cut]
            if not modes:
                continue
            path, graph = Path(folder) / f"{name}_{ops}.json", GRAPHS[name](ops)
            write_graph(with_axes(graph) if cut else graph, path)
            used, _, _ = run_child(["read", str(path)], processor=options.processor)
            for mode in modes:
                found = measure(path, mode, options.seconds, used[1], processor=options.processor)
                each = 2**20 * int(str(found.get("mib", 0))) // ops
                row = {"graph": name, "ops": ops, "mode": mode, "limit": options.seconds}
                table.writerow({**row, **found, "bytes_an_op": each})
                sys.stdout.flush()


if __name__ == "__main__":
    main()
