"""Work of one task: read the model, plan it, measure the baselines, and fill its row."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from cpplan.comparison.baselines import run_baseline
from cpplan.model.errors import CpplanError
from cpplan.model.printable import MESSAGE, printable
from cpplan.model.version import __version__
from cpplan.packing.problem import as_problem, as_program
from cpplan.solving.pipeline import solve_arena

if TYPE_CHECKING:
    from cpplan.batches.task import Task

Row = dict[str, Any]
# Key of the names of the groups of loops that a task lacks: it is all that the answer has then.
LACKS = "lacks"
# Texts in messages of Python, of the library loader and of C++ code when memory runs out.
_NO_MEMORY = (
    "bad_alloc",
    "can't start new thread",
    "cannot allocate memory",
    "failed to map segment",
    "memoryerror",
    "out of memory",
)


def plan_task(task: Task) -> Row:
    """The task's row; a failure is in its ``status`` and ``error``."""
    if task.version != __version__:
        return failed(task, "error", f"this worker has cpplan {__version__}, not {task.version}")
    start = time.perf_counter()
    try:
        row = _planned(task)
    except MemoryError:
        met = "there was no more" if task.limits.memory is None else "the memory limit was met"
        row = failed(task, "out of memory", met)
    except CpplanError as error:
        row = failed(task, "error", str(error))
    except Exception as error:
        # An unforeseen error in a reader or solver costs one row, not the batch.
        text = printable(f"{type(error).__name__}: {error}", MESSAGE)
        row = failed(task, "out of memory" if lacks_memory(task, text) else "error", text)
    return row | {"task_seconds": time.perf_counter() - start, "machine": machine()}


def lacks_memory(task: Task, text: str) -> bool:
    """True if a message means that the task reached its memory limit."""
    return task.limits.memory is not None and any(sign in text.lower() for sign in _NO_MEMORY)


def failed(task: Task, status: str, error: str | None) -> Row:
    """A row without a plan."""
    return {
        "model": task.model.name,
        "setting": task.setting.name,
        "status": status,
        "seed": task.setting.options.get("seed", 0),
        "options": json.dumps(task.setting.plain, sort_keys=True, ensure_ascii=False),
        "version": task.version,
        "key": task.key,
        "error": error,
    }


def _planned(task: Task) -> Row:
    source = as_program(task.model.load())
    request = task.setting.request
    plan = solve_arena(source, request)
    found = plan.offset is not None
    row = failed(task, plan.status, None if found else plan.message)
    row |= {
        "bytes": plan.peak if found else None,
        "bound": plan.lower_bound,
        "gap": plan.gap if found else None,
        "cost": _number(plan.cost) if found else None,
        "base_cost": _number(plan.base_cost),
        "buffers": len(plan.buffers),
        "moved_bytes": plan.moved_bytes,
        "copied_bytes": plan.copied_bytes if found else None,
        "ops": None if plan.base_cost is None else len(plan.order),
        "seconds": plan.runtime,
    }
    if task.baselines:
        problem = as_problem(source, plan.residency, request.pools)
        for name in task.baselines:
            need = run_baseline(name, problem, request.objective, request.time_limit).bytes
            row[f"ratio_{name}"] = _ratio(row["bytes"], need)
    return row


def _ratio(need: int | None, other: int | None) -> float | None:
    if need is None or other is None or (other == 0 and need > 0):
        return None
    return need / other if other else 1.0


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)


def machine() -> str:
    """Description of this machine."""
    import platform

    from cpplan.runtime.cores import available_cores

    system = f"{platform.node()}, {platform.system()} {platform.machine()}"
    return f"{system}, {available_cores()} cores, Python {platform.python_version()}"
