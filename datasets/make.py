"""Make every data set in this folder again: ``python datasets/make.py``.

Needs ``.[onnx]``. Running it twice changes nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from generators import cells, training
from generators.layered import layered
from generators.randwire import randwire

from cpplan.io.graph_json import write_graph
from cpplan.io.minimalloc_csv import write_problem
from cpplan.io.onnx.model import read_onnx
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.problem import Gap, Problem
from cpplan.runtime.atomic import write_text

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Case:
    """A graph or problem small enough to prove its smallest peak by hand."""

    source: Graph | Problem
    optimum: int
    why: str

    @property
    def file(self) -> str:
        return f"{self.source.name}.{'json' if isinstance(self.source, Graph) else 'csv'}"


def light_models() -> list[Path]:
    """The models without weights that the ``onnx`` package carries for its own tests."""
    spec = find_spec("onnx")
    if spec is None or spec.origin is None:
        sys.exit("datasets/make.py needs the package 'onnx': pip install '.[onnx]'")
    return sorted(Path(spec.origin).parent.glob("backend/test/data/light/light_*.onnx"))


def graph(name: str, inputs: dict[str, int], ops: list[tuple[Op, dict[str, int]]]) -> Graph:
    """A graph from ops, each with the sizes of what it writes; what no op reads is an output."""
    read = {tensor for op, _ in ops for tensor in op.inputs}
    tensors = [Tensor(tensor, size, kind="input") for tensor, size in inputs.items()]
    for op, sizes in ops:
        for tensor, size in sizes.items():
            kind = "intermediate" if tensor in read else "output"
            kind = "workspace" if tensor in op.workspaces else kind
            tensors.append(Tensor(tensor, size, kind=kind))
    return Graph(name, tuple(tensors), tuple(op for op, _ in ops))


def chain() -> Case:
    ops = [
        (Op("a", "Conv", ("x",), ("t",)), {"t": 16}),
        (Op("b", "Pool", ("t",), ("u",)), {"u": 4}),
        (Op("c", "Dense", ("u",), ("y",)), {"y": 12}),
    ]
    why = "a needs x and t at once: 8 + 16 B; y may lie where t was"
    return Case(graph("chain", {"x": 8}, ops), 24, why)


def diamond() -> Case:
    ops = [
        (Op("stem", "Conv", ("x",), ("t",)), {"t": 8}),
        (Op("left", "Conv", ("t",), ("l",)), {"l": 8}),
        (Op("right", "Conv", ("t",), ("r",)), {"r": 8}),
        (Op("join", "Add", ("l", "r"), ("y",)), {"y": 4}),
    ]
    why = "right reads t and writes r while l waits: 8 + 8 + 8 B"
    return Case(graph("diamond", {"x": 4}, ops), 24, why)


def fork_join() -> Case:
    ops = [
        (Op("a", "Conv", ("x",), ("p",)), {"p": 4}),
        (Op("b", "Conv", ("x",), ("q",)), {"q": 8}),
        (Op("c", "Conv", ("x",), ("r",)), {"r": 4}),
        (Op("join", "Concat", ("p", "q", "r"), ("y",)), {"y": 16}),
    ]
    why = "join needs its three inputs and their copy: 4 + 8 + 4 + 16 B"
    return Case(graph("fork_join", {"x": 4}, ops), 32, why)


def view() -> Case:
    tensors = (
        Tensor("x", 8, kind="input"),
        Tensor("t", 16),
        Tensor("v", 16, view_of=("t", 0)),
        Tensor("p", 4),
        Tensor("y", 16, kind="output"),
    )
    ops = (
        Op("conv", "Conv", ("x",), ("t",)),
        Op("reshape", "Reshape", ("t",), ("v",)),
        Op("pool", "Pool", ("v",), ("p",)),
        Op("scale", "Mul", ("t", "p"), ("y",)),
    )
    why = "scale needs t, p and y: 16 + 4 + 16 B; v is t, a copy of it would need 16 B more in pool"
    return Case(Graph("view", tensors, ops), 36, why)


def workspace() -> Case:
    ops = [
        (Op("conv", "Conv", ("x",), ("t",), ("columns",)), {"t": 8, "columns": 24}),
        (Op("relu", "Relu", ("t",), ("y",)), {"y": 8}),
    ]
    why = "conv needs x, t and its columns at once: 8 + 8 + 24 B"
    return Case(graph("workspace", {"x": 8}, ops), 40, why)


def residual() -> Case:
    ops = [
        (Op("conv1", "Conv", ("x",), ("t",)), {"t": 16}),
        (Op("conv2", "Conv", ("t",), ("u",)), {"u": 16}),
        (Op("add", "Add", ("x", "u"), ("y",)), {"y": 16}),
    ]
    why = "x waits for add while conv2 reads t and writes u: 3 * 16 B; y may lie where t was"
    return Case(graph("residual", {"x": 16}, ops), 48, why)


def fragmentation() -> Case:
    ops = [
        (Op("conv1", "Conv", ("x",), ("b",)), {"b": 2}),
        (Op("split", "Split", ("b",), ("c", "d")), {"c": 1, "d": 1}),
        (Op("conv2", "Conv", ("c",), ("f",), ("scratch",)), {"f": 1, "scratch": 1}),
        (Op("join", "Concat", ("d", "f"), ("g",)), {"g": 2}),
        (Op("relu", "Relu", ("g",), ("y",)), {"y": 2}),
    ]
    why = (
        "live bytes are 4 at every step, but 4 B do not do. In 4 B, conv1 (x, b) and relu (g, y) "
        "put b and g each into the lower or the upper half. split (b, c, d) puts c and d into the "
        "half that b leaves; conv2 (c, d, scratch, f) then puts f into b's half. But join (d, f, "
        "g) wants d and f both in the half that g leaves. In 5 B: x 2, b 0, c 2, d 4, scratch 0, "
        "f 3, g 0, y 2"
    )
    return Case(graph("fragmentation", {"x": 2}, ops), 5, why)


def alignment() -> Case:
    tensors = (
        Tensor("x", 3, kind="input", alignment=4),
        Tensor("t", 3, alignment=4),
        Tensor("y", 1, kind="output"),
    )
    ops = (Op("a", "Conv", ("x",), ("t",)), Op("b", "Pool", ("t",), ("y",)))
    why = "x and t live together at two multiples of 4, so that one ends at 4 + 3 B or above"
    return Case(Graph("alignment", tensors, ops), 7, why)


def branches() -> Case:
    condition, x = Tensor("c", 1, kind="input"), Tensor("x", 8, kind="input")
    y = Tensor("y", 8, kind="output")
    then = Graph(
        "then",
        (x, Tensor("t", 16), y),
        (Op("widen", "Conv", ("x",), ("t",)), Op("pool", "Pool", ("t",), ("y",))),
    )
    orelse = Graph(
        "else",
        (x, Tensor("t", 12), y),
        (Op("widen", "Conv", ("x",), ("t",)), Op("pool", "Pool", ("t",), ("y",))),
    )
    whole = Graph(
        "branches",
        (condition, x, Tensor("y", 8), Tensor("z", 4, kind="output")),
        (
            Op("if", "If", ("c", "x"), ("y",), bodies=(then, orelse)),
            Op("head", "Dense", ("y",), ("z",)),
        ),
    )
    why = (
        "c, x and y last through both branches: 1 + 8 + 8 B; the branches exclude each other, so "
        "that their t share max(16, 12) B"
    )
    return Case(whole, 33, why)


def gaps() -> Case:
    problem = Problem(
        ("a", "b", "c"),
        lower=[0, 2, 2],
        upper=[6, 4, 6],
        size=[4, 3, 2],
        gaps={0: (Gap(2, 4, 0, 1),)},
        name="gaps",
    )
    why = (
        "at step 4, a (whole again) and c hold 4 + 2 B; at step 2, a holds its first byte only, "
        "and b lies in the three after it"
    )
    return Case(problem, 6, why)


def fixed_offset() -> Case:
    problem = Problem(
        ("a", "b", "c"),
        lower=[0, 0, 2],
        upper=[2, 2, 3],
        size=[4, 4, 6],
        fixed={0: 2},
        name="fixed_offset",
    )
    why = "a is fixed at 2: the 2 B below are too few for b, which must lie above, at 6"
    return Case(problem, 10, why)


CASES = (
    chain,
    diamond,
    fork_join,
    view,
    workspace,
    residual,
    fragmentation,
    alignment,
    branches,
    gaps,
    fixed_offset,
)


def ordering_graphs() -> Iterator[Graph]:
    """Graphs that can be run in many orders, which need different amounts of memory."""
    for nodes in (100, 250, 500, 1000):
        yield layered(f"layered_{nodes}", nodes, seed=nodes)
    for seed in (1, 2):
        yield randwire(f"randwire_{seed}", seed=10 * seed)
    yield cells.nasnet_mobile("nasnet_mobile")
    yield cells.single_cell("nasnet_cell", cells.NASNET_NORMAL, channels=44, extent=28)
    yield cells.darts_cifar("darts_cifar")
    yield cells.single_cell("darts_cell", cells.DARTS_NORMAL, channels=48, extent=28)
    yield training.training_step("vgg11_training")


def training_graphs() -> Iterator[Graph]:
    """Training steps that do not fit where inference does: what to keep, what to run again."""
    yield training.vgg16("vgg16_training", batch=32)
    yield training.mobilenet("mobilenet_training", batch=32)
    yield training.unet("unet_training", batch=4, extent=256)
    yield training.resnet18("resnet18_training", batch=32)


def main() -> None:
    for path in light_models():
        write_graph(read_onnx(path), HERE / f"{path.stem}.json")
    for graph in ordering_graphs():
        write_graph(graph, HERE / "ordering" / f"{graph.name}.json")
    for graph in training_graphs():
        write_graph(graph, HERE / "training" / f"{graph.name}.json")
    cases = [make() for make in CASES]
    for case in cases:
        path = HERE / "hand" / case.file
        if isinstance(case.source, Graph):
            write_graph(case.source, path)
        else:
            write_problem(case.source, path)
    optima = [{"file": c.file, "optimum": c.optimum, "why": c.why} for c in cases]
    write_text(HERE / "hand" / "optima.json", json.dumps(optima, indent=1) + "\n")


if __name__ == "__main__":
    main()
