"""LiteRT in a process of its own, which tells the shapes of a model's tensors.

Only the runtime knows them all. A damaged model may end it, or make it take any memory: neither may
happen to the process that reads the model.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cpplan.model.errors import InputError
from cpplan.runtime import limits

if TYPE_CHECKING:
    from ai_edge_litert.interpreter import Interpreter

# Most seconds that a model may run on zeros.
_PATIENCE = 300


def shapes_by_litert(
    data: bytes,
    inputs: Mapping[int, Sequence[int]],
    *,
    run: bool = False,
    reference: bool = False,
) -> dict[int, tuple[int, ...] | None]:
    """Shapes of the main subgraph's tensors, by number; ``None`` where the runtime knows none.

    Parameters
    ----------
    data
        The model's file.
    inputs
        Shapes of inputs, by number.
    run
        Run the model once, on zeros: shapes may follow from numbers that it computes.
    reference
        Use reference kernels, not those that the runtime takes by default.

    Raises
    ------
    InputError
        With the reason for which the runtime takes neither the model nor the shapes.
    """
    shapes = {str(number): list(map(int, shape)) for number, shape in inputs.items()}
    found = json.loads(
        _answer_to(json.dumps({"inputs": shapes, "run": run, "reference": reference}), data)
    )
    if isinstance(found, str):
        raise InputError(found)
    return {int(number): None if shape is None else tuple(shape) for number, shape in found.items()}


@lru_cache(maxsize=1)  # a model that is read, planned and written is asked about each time
def _answer_to(question: str, data: bytes) -> bytes:
    # With this process's module path, the new process finds the same packages.
    code = f"import sys; sys.path[:] = {sys.path!r}; from cpplan.io.litert_process import answer"
    try:
        done = subprocess.run(
            [sys.executable, "-c", f"{code}; answer()"],
            input=f"{question}\n".encode() + data,
            capture_output=True,
            check=False,
            timeout=_PATIENCE,
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"it runs for more than {_PATIENCE} seconds") from None
    if done.returncode:
        what = "it ends, perhaps for lack of memory"
        if done.returncode < 0:
            what = f"it is ended by {signal.Signals(-done.returncode).name}"
        raise InputError(f"{what}: {_last_line(done.stderr)}")
    return done.stdout.splitlines()[-1]


def _last_line(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it says no reason"


def answer() -> None:
    """Answer the question on standard input: shapes by number, or why there are none, as JSON."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    question = json.loads(sys.stdin.buffer.readline())
    data = sys.stdin.buffer.read()
    _limit_memory(limits.MOST_RUN)
    kernels = "BUILTIN_REF" if question["reference"] else "BUILTIN_WITHOUT_DEFAULT_DELEGATES"
    found: dict[str, list[int] | None] | str
    try:
        interpreter = Interpreter(
            model_content=data,
            # Delegates would replace the model's ops by their own.
            experimental_op_resolver_type=OpResolverType[kernels],
            experimental_preserve_all_tensors=True,
        )
        for number, shape in question["inputs"].items():
            interpreter.resize_tensor_input(int(number), shape)
        interpreter.allocate_tensors()
        if question["run"]:
            for entry in interpreter.get_input_details():
                interpreter.set_tensor(entry["index"], np.zeros(entry["shape"], entry["dtype"]))
            interpreter.invoke()
        details = interpreter.get_tensor_details()
        found = {str(entry["index"]): _known_shape(interpreter, entry) for entry in details}
    except (MemoryError, RuntimeError, ValueError) as error:
        found = " ".join(str(error).split()) or "it says no reason; it may need too much memory"
    print(json.dumps(found))


def _known_shape(interpreter: Interpreter, entry: Mapping[str, Any]) -> list[int] | None:
    """A tensor's shape, if the runtime has memory for it."""
    try:
        interpreter.get_tensor(entry["index"])
    except ValueError:
        return None
    return [int(extent) for extent in entry["shape"]]


def _limit_memory(most: int) -> None:
    """Let this process take at most ``most`` bytes more, on Linux: shapes may be absurd."""
    if sys.platform != "linux":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    taken = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    limit = taken + most if soft == resource.RLIM_INFINITY else min(taken + most, soft)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
