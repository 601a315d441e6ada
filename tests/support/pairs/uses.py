"""The uses of a plan that a cell tries: each raises, or says what is false."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cpplan import Plan, Program, execute, load, simulate, solve, verify
from cpplan.model.errors import InputError

if TYPE_CHECKING:
    from support.pairs.cells import Answer, Run


# Reasons for which some models of a format can be neither written nor run.
_OF_MODELS = (
    "no TFLite operator computes its pieces",
    "an array's alignment in C must be a power of two",
    "plans in pieces cannot be executed for torch models",
    "keeps state from run to run: it cannot be executed",
    "the plan places no constants",
    "the runtime refuses it",
)


def simulated(run: Run, answer: Answer) -> None:
    """Plans of variable sizes are simulated at sizes, too."""
    plan, dims = answer.plan, run.model.dims
    if plan.offset is not None and plan.symbols is not None and not plan.symbols.unbounded:
        symbols = getattr(run.model.graph, "symbols", None)
        values = dims or {name: low for name, (low, _) in symbols.dims.items()}
        verify(run.model.source, plan, dims=values)
        simulate(run.model.source, plan, dims=values)
        assert plan.at(values).peak <= plan.peak


def same_again(run: Run, answer: Answer) -> None:
    """A plan without a clock is made again by the run of every cell."""


def through_json(run: Run, answer: Answer) -> None:
    """Saved, loaded and saved again, a plan is the same, with its clock readings too."""
    path = run.folder / "plan.json"
    answer.plan.save(path, clock=True)
    read = Plan.load(path)
    assert read == answer.plan
    assert read.history == answer.plan.history
    text = path.read_bytes()
    read.save(path, clock=True)
    assert path.read_bytes() == text
    if answer.plan.offset is not None:
        verify(run.model.source, read)


def explained(run: Run, answer: Answer) -> None:
    """The explanation has text."""
    if answer.plan.offset is not None:
        found = answer.plan.explain(
            run.model.source, time_limit=run.time_limit, workers=1, deterministic=True
        )
        assert str(found)


def reported(run: Run, answer: Answer) -> None:
    """The page names the model."""
    path = run.folder / "report.html"
    answer.plan.report(path, run.model.source)
    assert "<html" in path.read_text()[:2000]


def executed(run: Run, answer: Answer) -> None:
    """Every byte is that of the unplanned run; outputs are those of another plan."""
    if answer.plan.offset is None:
        return
    model = run.model
    try:
        done = execute(model.file, answer.plan, dims=model.dims)
    except InputError as error:
        if any(reason in str(error) for reason in _OF_MODELS):
            return
        raise
    assert done.steps >= len(dict.fromkeys(answer.plan.order))


def exported(suffix: str, check: Callable[[Run, Answer, Path], None]) -> Callable[..., None]:
    """The use of writing a file of this suffix, and of reading or running it."""

    def use(run: Run, answer: Answer) -> None:
        if answer.plan.offset is None:
            return
        path = run.folder / f"written{suffix}"
        planned = run.model.file if suffix in (".onnx", ".tflite", ".bin") else run.model.source
        try:
            answer.plan.export(path, planned)
        except InputError as error:
            if any(reason in str(error) for reason in _OF_MODELS):
                return
            raise
        check(run, answer, path)

    return use


def _csv(run: Run, answer: Answer, path: Path) -> None:
    read = load(path)
    assert list(read.names) == list(answer.plan.buffers)
    assert read.size.tolist() == answer.plan.size.tolist()


def _program(run: Run, answer: Answer, path: Path) -> None:
    program = Program.parse(path.read_text())
    assert len(program.order) == len(answer.plan.order)


def _constants(run: Run, answer: Answer, path: Path) -> None:
    assert path.stat().st_size > 0


def _header(run: Run, answer: Answer, path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler:
        command = [compiler, "-std=c11", "-Wall", "-Werror", "-fsyntax-only", "-x", "c", str(path)]
        subprocess.run(command, check=True, capture_output=True, text=True)


def _onnx(run: Run, answer: Answer, path: Path) -> None:
    """Results of both models are equal, but for rounding of pieces added up in another order."""
    results = _by_onnxruntime if find_spec("onnxruntime") is not None else _by_our_kernels
    before, after = (results(file) for file in (run.model.file, path))
    assert before.keys() == after.keys()
    for name, value in before.items():
        np.testing.assert_allclose(after[name], value, rtol=1e-3, atol=1e-4, err_msg=name)


def _by_onnxruntime(file: Any) -> dict[str, Any]:
    """Outputs of a model by ONNX Runtime, without its own changes to the graph."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(file), settings)
    rng = np.random.default_rng(0)
    feed = {i.name: drawn(rng, i.shape, i.type) for i in session.get_inputs()}
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feed), strict=True))


def _by_our_kernels(file: Any) -> dict[str, Any]:
    """Outputs of a model read anew and executed, each tensor in bytes of its own."""
    plan = solve(load(file), algorithm="bump", workers=1)
    return dict(execute(file, plan).outputs)


def drawn(rng: np.random.Generator, shape: list[int], kind: str) -> Any:
    """Random numbers of ONNX Runtime's type."""
    dtype = {"float": "float32", "double": "float64"}.get(kind[7:-1], kind[7:-1])
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if "int" in dtype:
        return rng.integers(0, 5, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def _tflite(run: Run, answer: Answer, path: Path) -> None:
    from support.tflite_runtimes import draw_inputs, run_litert

    data = Path(run.model.file).read_bytes()
    runs = draw_inputs(data)
    try:
        one = run_litert(data, runs, delegates=False)
    except (RuntimeError, ValueError):
        return  # LiteRT does not run the model: some are for TFLite Micro
    other = run_litert(path.read_bytes(), runs, delegates=False)
    for before, after in zip(one, other, strict=True):
        if before.dtype.kind == "f":
            # Kernels of floats may add up pieces in another order.
            np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-5)
        else:
            np.testing.assert_array_equal(after, before)


USES: dict[str, Callable[[Run, Answer], None]] = {
    "simulate": simulated,
    "again": same_again,
    "json": through_json,
    "explain": explained,
    "report": reported,
    "execute": executed,
    "onnx": exported(".onnx", _onnx),
    "tflite": exported(".tflite", _tflite),
    "csv": exported(".csv", _csv),
    "program": exported(".anf", _program),
    "constants-image": exported(".bin", _constants),
    "c-header": exported(".h", _header),
}
