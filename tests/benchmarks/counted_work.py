"""Counted seconds beside processor seconds, for each kind of work that is counted.

    python tests/benchmarks/counted_work.py [--seconds 10] [--setting remat spill …] [--least 0.2]

With ``deterministic=True`` a time limit counts work: each search, heuristic and proof reports the
seconds that its steps should take. This plans models of ``datasets/`` in several settings, and sets
these seconds beside those of the processor, by the module that reports the work. A solver's work
counts for the module that runs the solver. Samples of the stack tell which module the processor's
time belongs to: the innermost one that reports work.

Prints CSV: setting; module; counted and processor seconds; their ratio, 1.0 at best. Kinds that
take less than ``--least`` processor seconds in a setting are left out. The row ``not counted`` is
for time outside all modules that report work: reading, building problems, checking the plan.
"""

from __future__ import annotations

import argparse
import csv
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import cpplan
from cpplan.runtime.deadline import Deadline

DATASETS = Path(__file__).parents[2] / "datasets"
# Modules that report work of their callers.
SHARED = (
    *("runtime/deadline.py", "runtime/turns.py", "runtime/cp_sat_run.py"),
    *("runtime/cp_sat_proof.py", "packing/search/niche_search.py", "packing/heuristics/layout.py"),
)
POOLS = [cpplan.Pool("sram", 3 << 20), cpplan.Pool("dram")]
CASES: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "given": (
        (
            *("light_squeezenet.json", "zoo/densenet121.train.json.gz", "hand/gaps.csv"),
            *("training/unet_training.json", "ordering/layered_500.json"),
        ),
        {},
    ),
    "minimalloc": (tuple(f"published/minimalloc/{name}.1048576.csv" for name in "DJ"), {}),
    "search": (
        ("ordering/layered_100.json", "ordering/randwire_1.json", "ordering/layered_1000.json"),
        {"order": "search"},
    ),
    "in place": (
        ("onnx/mobilenet_v2.onnx", "zoo/nasnetalarge.infer.json.gz"),
        {"in_place": True},
    ),
    "search in place": (
        ("ordering/randwire_2.json", "zoo/resnet18.train.json.gz"),
        {"order": "search", "in_place": True},
    ),
    "pools": (("light_squeezenet.json", "light_inception_v1.json"), {"pools": POOLS}),
    "remat": (
        (
            *("ordering/vgg11_training.json", "training/mobilenet_training.json"),
            *("zoo/resnet18.train.json.gz", "zoo/gpt2.train.json.gz", "ordering/layered_250.json"),
        ),
        {"remat": True, "memory_limit": "70%"},
    ),
    "remat at a cost": (
        ("training/vgg16_training.json", "training/unet_training.json"),
        {"remat": True, "cost_limit": 1.1},
    ),
    "split": (
        ("zoo/mobilenet_v2.infer.json.gz", "zoo/resnet18.infer.json.gz"),
        {"split": True, "cost_limit": 1.1, "in_place": True},
    ),
    "spill": (
        ("light_squeezenet.json", "zoo/resnet18.train.json.gz"),
        {"spill": True, "pools": [cpplan.Pool("sram", 4 << 20), cpplan.Pool("dram", direct=True)]},
    ),
    "spill search": (
        ("ordering/layered_100.json", "zoo/mobilenet_v2.infer.json.gz"),
        {"spill": True, "order": "search",
         "pools": [cpplan.Pool("sram", 2 << 20), cpplan.Pool("dram", direct=True)]},
    ),
}  # fmt: skip


class Meter:
    """Counted seconds by module, and processor seconds by the modules of the stack."""

    def __init__(self) -> None:
        self.counted: Counter[str] = Counter()
        self.taken: Counter[tuple[str, ...]] = Counter()
        self._last = time.process_time()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measure all that runs meanwhile."""
        spend = Deadline.spend

        def counting(deadline: Deadline, work: float) -> None:
            # A deadline hands its work on to its parent: count it once.
            if deadline._parent is None:
                self.counted[next(_modules(sys._getframe(1)), "?")] += work
            spend(deadline, work)

        self._last = time.process_time()
        Deadline.spend = counting  # type: ignore[method-assign]
        signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, 0.002, 0.002)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            Deadline.spend = spend  # type: ignore[method-assign]

    def rows(self) -> Iterator[tuple[str, float, float]]:
        """Module, counted and processor seconds; time outside such modules comes last."""
        taken: Counter[str] = Counter()
        for modules, seconds in self.taken.items():
            taken[next((name for name in modules if name in self.counted), "")] += seconds
        for name in sorted(self.counted):
            yield name, self.counted[name], taken[name]
        yield "not counted", 0.0, taken[""]

    def _sample(self, _: int, frame: FrameType | None) -> None:
        # A call of compiled code is one sample, however long: take the time since the last one.
        now = time.process_time()
        self.taken[tuple(_modules(frame))] += now - self._last
        self._last = now


def _modules(frame: FrameType | None) -> Iterator[str]:
    """Modules of the package on the stack, the innermost first, without shared ones."""
    root = str(Path(cpplan.__file__).parent) + "/"
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(root) and name[len(root) :] not in SHARED:
            yield name[len(root) :]
        frame = frame.f_back


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="counted limit of each plan")
    parser.add_argument("--setting", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--least", type=float, default=0.2, help="processor seconds of a row")
    options = parser.parse_args()
    table = csv.writer(sys.stdout)
    table.writerow(["setting", "module", "counted", "processor", "ratio"])
    for setting in options.setting:
        models, keywords = CASES[setting]
        meter = Meter()
        for model in models:
            source = cpplan.load(DATASETS / model)
            with meter.running():
                cpplan.solve(
                    source,
                    time_limit=options.seconds, deterministic=True, workers=1, **keywords,
                )  # fmt: skip
        for name, counted, taken in meter.rows():
            if max(taken, counted) >= options.least:
                ratio = f"{counted / taken:.2f}" if taken else ""
                table.writerow([setting, name, f"{counted:.2f}", f"{taken:.2f}", ratio])
                sys.stdout.flush()


if __name__ == "__main__":
    main()
