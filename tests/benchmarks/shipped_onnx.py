"""ONNX models that Python packages ship: planned with what the first error line says, and executed.

A model with open dimensions is first planned as a user would, without any: the line that this
raises has options to copy, which bind them. With these the model is planned and run op by op inside
the planned arena, where every byte must be that of the unplanned run. The outputs are compared with
those of onnx's evaluator, which runs the file as it is with the same kernels, and with those of
ONNX Runtime, if that is installed, whose kernels are others.

Run: ``python tests/benchmarks/shipped_onnx.py [--seconds S] PATH|PACKAGE...``, with files, folders,
or names of installed packages.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import cpplan
from cpplan.cli.options import parse_dims
from cpplan.io.execution import execute
from cpplan.io.onnx.bytes import numpy_dtype
from cpplan.model.errors import CpplanError, InputError

# Integers that decide what a model does, where 0 and 1 mean nothing to it.
INPUTS = {"sr": 16000}


@dataclass
class Row:
    """The table row of one model: its peaks, its status and how its executions compared."""

    name: str
    options: str = ""
    ops: int | None = None
    naive: int | None = None
    peak: int | None = None
    status: str = ""
    executed: str = ""
    evaluator: str = ""
    onnxruntime: str = ""

    def __str__(self) -> str:
        cells = (self.ops, self.naive, self.peak, self.status, self.executed)
        compared = (self.evaluator, self.onnxruntime)
        shown = " | ".join("" if cell is None else str(cell) for cell in (*cells, *compared))
        return f"| {self.name} | {self.options} | {shown} |"


def models_in(arguments: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """A name and the file of every ONNX model that files, folders or packages have."""
    for text in arguments:
        path = Path(text)
        if path.is_dir():
            yield from ((str(p.relative_to(path)), p) for p in sorted(path.rglob("*.onnx")))
        elif path.exists():
            yield path.name, path
        else:
            try:
                listed = files(text) or ()
            except PackageNotFoundError as error:
                what = "neither a file, a folder nor an installed package"
                raise SystemExit(f"{text}: {what}") from error
            for entry in sorted(listed):
                if entry.suffix == ".onnx":
                    yield str(entry), Path(str(entry.locate()))


def options_of(error: InputError) -> list[str]:
    """The options that an error line has to copy; raises it if it has none."""
    found = re.search(r"e\.g\. (--dim .*?) \(dims=", str(error))
    if found is None:
        raise error
    return [word for word in shlex.split(found[1]) if word != "--dim"]


def try_model(name: str, path: Path, seconds: float) -> Row:
    """Plan and execute one model."""
    row = Row(name)
    try:
        options: list[str] = []
        try:
            graph = cpplan.load(path)
        except InputError as error:
            options = options_of(error)
            row.options = " ".join(options)
            graph = cpplan.load(path, dims=parse_dims(tuple(options)))
        assert isinstance(graph, cpplan.Graph)
        row.ops = len(graph.ops)
        kept = [t for t in graph.tensors if t.kind != "constant" and t.view_of is None]
        row.naive = sum(tensor.nbytes for tensor in kept)
        plan = cpplan.solve(graph, order="search", in_place=True, time_limit=seconds, workers=1)
        row.peak, row.status = plan.peak, plan.status
        inputs = _inputs(graph)
        dims: Any = parse_dims(tuple(options))
        done = execute(path, plan, dims=dims, inputs=inputs)
        row.executed = f"equal, {done.bytes_checked} B"
        row.evaluator = _against_evaluator(path, inputs, done.outputs)
        row.onnxruntime = _against_onnxruntime(path, inputs, done.outputs)
    except CpplanError as error:
        row.executed = row.executed or f"{type(error).__name__}: {error}"
    return row


def _inputs(graph: cpplan.Graph) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    values = {}
    for tensor in graph.tensors:
        if tensor.kind == "input" and tensor.dtype is not None:
            dtype, shape = numpy_dtype(tensor.dtype), tensor.shape
            if tensor.name in INPUTS:
                values[tensor.name] = np.full(shape, INPUTS[tensor.name], dtype)
            elif dtype.kind in "iub":
                values[tensor.name] = rng.integers(0, 2, shape).astype(dtype)
            else:
                values[tensor.name] = (rng.standard_normal(shape) / 10).astype(dtype)
    return values


def _against_evaluator(path: Path, inputs: dict[str, Any], outputs: Any) -> str:
    import onnx
    from onnx.reference import ReferenceEvaluator

    try:
        evaluator = ReferenceEvaluator(onnx.load(path))
        names = [name for name in evaluator.output_names if name in outputs]
        given = {name: value for name, value in inputs.items() if name in evaluator.input_names}
        theirs = evaluator.run(names, given)
    except Exception as error:  # the kernels raise whatever numpy or they like
        return f"it fails: {type(error).__name__}"
    return _off(names, outputs, theirs)


def _against_onnxruntime(path: Path, inputs: dict[str, Any], outputs: Any) -> str:
    if find_spec("onnxruntime") is None:
        return ""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    try:
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        named = {value.name for value in session.get_inputs()}
        names = [value.name for value in session.get_outputs() if value.name in outputs]
        theirs = session.run(names, {n: v for n, v in inputs.items() if n in named})
    except Exception as error:  # its own kinds, without a common base
        return f"it refuses: {str(error).splitlines()[0][:60]}"
    return _off(names, outputs, theirs)


def _off(names: Sequence[str], outputs: Any, theirs: Sequence[Any]) -> str:
    """The largest difference between outputs, relative to the largest element."""
    worst = 0.0
    for name, value in zip(names, theirs, strict=True):
        ours = np.asarray(outputs[name], np.float64)
        if ours.shape != value.shape:
            return f"{name}: {ours.shape} here, {value.shape} there"
        if ours.size:
            scale = max(float(np.abs(value).max()), 1e-30)
            worst = max(worst, float(np.abs(ours - value).max()) / scale)
    return f"{worst:.1e}" if worst else "same"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", metavar="PATH|PACKAGE")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each plan")
    arguments = parser.parse_args()
    print(
        "| model | bound as the error line says | ops | all tensors, B | peak, B | plan |", end=""
    )
    print(" executed | off onnx's evaluator | off ONNX Runtime |")
    print("|---|---|---|---|---|---|---|---|---|")
    rows = []
    for name, path in models_in(arguments.models):
        rows.append(try_model(name, path, arguments.seconds))
        print(rows[-1], flush=True)
    opened = [row for row in rows if row.options]
    equal = sum(row.executed.startswith("equal") for row in opened)
    print(f"\n{len(rows)} models, {len(opened)} with open dimensions, {equal} of these equal")


if __name__ == "__main__":
    main()
