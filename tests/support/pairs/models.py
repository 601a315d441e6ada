"""A random model for every source of a cell: a file or an object, and what cpplan makes of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from support.random_models import random_model, with_bodies
from support.sharing_oracle import random_repeats
from support.soak.made import random_pools, random_problem
from support.soak.symbolic import graph_of, random_symbolic

from cpplan import Graph, Problem, Program, load, to_anf
from cpplan.io.graph_json import write_graph
from cpplan.io.minimalloc_csv import write_problem
from cpplan.io.networkx_graph import to_networkx
from cpplan.program.expression import Call, Constant, Expression, If, Let, Tuple, Var

Source = Graph | Program | Problem


@dataclass(frozen=True)
class Model:
    """A model as the planner sees it, and as its format has it.

    Attributes
    ----------
    source
        What is planned.
    file
        Path or object of its format, for runs and for exports that need it.
    dims
        Values of its variables to run it at; empty if it has none.
    """

    source: Source
    file: Any = None
    dims: dict[str, int] | None = None

    @property
    def graph(self) -> Graph | None:
        """The graph that is planned, unless it is a bare problem."""
        source = self.source
        if isinstance(source, Program):
            return source.graph
        return source if isinstance(source, Graph) else None


# Package that a source needs.
PACKAGES = {
    "onnx": "onnx",
    "tflite": "ai_edge_litert",
    "torch": "torch",
    "pt2": "torch",
    "executorch": "executorch",
}


def is_installed(source: str) -> bool:
    """True if the packages are there that a source needs."""
    return source not in PACKAGES or find_spec(PACKAGES[source]) is not None


def make_model(source: str, sizes: str, seed: int, folder: Path) -> Model:
    """The model of a source with this number, the same for the same number."""
    if not is_installed(source):
        pytest.skip(f"needs the package {PACKAGES[source]}")
    rng = random.Random(f"{source} {sizes} {seed}")
    return _MAKERS[source](rng, sizes == "bounds", folder)


def _graph(rng: random.Random, symbolic: bool, folder: Path) -> Model:
    graph = _random_graph(rng, symbolic)
    path = folder / rng.choice(("graph.json", "graph.json.gz"))
    write_graph(graph, path)
    return Model(load(path), path)


def _random_graph(rng: random.Random, symbolic: bool) -> Graph:
    if symbolic:
        return graph_of(random_symbolic(rng, 5)[0])
    graph = random_model(rng)
    while any(op.bodies for op in graph.ops):
        graph = random_model(rng)
    return graph


def _bodies(rng: random.Random, symbolic: bool, folder: Path) -> Model:
    while True:
        nested = rng.random() < 0.3
        graph = _nested(rng, branches=True).graph if nested else with_bodies(rng, random_model(rng))
        if any(op.bodies for op in graph.ops):
            return Model(graph)


def _program(rng: random.Random, symbolic: bool, folder: Path) -> Model:
    program = to_anf(_random_graph(rng, symbolic))
    text = str(program)
    return Model(Program.parse(text))


def _repeats(rng: random.Random, symbolic: bool, folder: Path) -> Model:
    while True:
        graph = random_model(rng)
        if all(op.recomputable and not (op.sequence or op.bodies) for op in graph.ops):
            return Model(random_repeats(graph, rng.randrange(1000), 3))


def _networkx(rng: random.Random, symbolic: bool, folder: Path) -> Model:
    return Model(load(to_networkx(_random_graph(rng, symbolic))))


def _expression(rng: random.Random, symbolic: bool, folder: Path) -> Model:
    return Model(_nested(rng, branches=False))


def _nested(rng: random.Random, *, branches: bool) -> Program:
    """Calls that share arguments and bindings, with branches if asked, and a tuple of results."""
    values: list[Expression] = [Var("x", size=8), Var("y", size=3), Constant("w", size=5)]
    for k in range(rng.randint(3, 8)):
        read, size = rng.choices(values, k=rng.randint(1, 3)), rng.choice((0, 1, 7, 16))
        made: Expression = Call(f"f{k}", read, size=size, cost=rng.randint(0, 3))
        kind = rng.randrange(4)
        if kind == 0 and branches:
            made = If(Var("c", size=1), made, Call(f"g{k}", read[:1], size=size))
        elif kind == 1:
            made = Let(Var(f"v{k}"), made, Call(f"h{k}", [Var(f"v{k}"), values[-1]], size=9))
        values.append(made)
    return to_anf(Tuple(values[-2:]))


def _problem(rng: random.Random, symbolic: bool, folder: Path) -> Model:
    path = folder / "problem.csv"
    write_problem(random_problem(rng, 8), path)
    return Model(load(path), path)


def _pooled(rng: random.Random, symbolic: bool, folder: Path) -> Model:
    return Model(replace(random_problem(rng, 6, fixed=False), pools=random_pools(rng)))


def _onnx(rng: random.Random, symbolic: bool, folder: Path) -> Model:
    import onnx
    from support.onnx_networks import random_network

    model = random_network(rng.randrange(10**6))
    # The shapes that these reshape to are numbers, with a batch of one image.
    while symbolic and any(node.op_type == "Reshape" for node in model.graph.node):
        model = random_network(rng.randrange(10**6))
    if symbolic:
        graph = model.graph
        graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
        names = [output.name for output in graph.output]
        del graph.value_info[:], graph.output[:]
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
        model = onnx.shape_inference.infer_shapes(model)
    path = folder / "model.onnx"
    onnx.save(model, path)
    source = load(path, dims={"N": (1, 4)} if symbolic else None)
    return Model(source, path, {"N": rng.randint(1, 4)} if symbolic else None)


def _tflite(rng: random.Random, symbolic: bool, folder: Path) -> Model:
    from support.tflite_kinds import random_network
    from support.tflite_runtimes import draw_inputs, run_litert

    path = folder / "model.tflite"
    while True:
        data = random_network(rng.randrange(10**6))
        with suppress(RuntimeError):  # LiteRT has no kernel of this kind and type
            run_litert(data, draw_inputs(data)[:1], delegates=False)
            path.write_bytes(data)
            return Model(load(path), path)


def _torch(rng: random.Random, symbolic: bool, folder: Path) -> Model:
    from support.torch_networks import exported

    program = exported(rng, symbolic=symbolic)
    source = load(program)
    return Model(source, program, _values(source))


def _pt2(rng: random.Random, symbolic: bool, folder: Path) -> Model:
    import torch
    from support.torch_networks import exported

    path = folder / "model.pt2"
    torch.export.save(exported(rng, symbolic=symbolic), path)
    source = load(path)
    return Model(source, path, _values(source))


def _values(source: Source) -> dict[str, int] | None:
    """The lower bounds of a source's variables, where it has some."""
    symbols = getattr(source, "symbols", None)
    return None if symbols is None else {name: low for name, (low, _) in symbols.dims.items()}


_MAKERS: dict[str, Callable[[random.Random, bool, Path], Model]] = {
    "graph": _graph,
    "bodies": _bodies,
    "program": _program,
    "repeats": _repeats,
    "expression": _expression,
    "networkx": _networkx,
    "problem": _problem,
    "pooled problem": _pooled,
    "onnx": _onnx,
    "tflite": _tflite,
    "torch": _torch,
    "pt2": _pt2,
}
