"""Named graphs whose tensors may share bytes, each with the reason it exists."""

from __future__ import annotations

from dataclasses import dataclass

from support.sharing_oracle import random_sharing_graph

from cpplan.aliasing.alias_candidates import AliasCandidate, find_candidates
from cpplan.aliasing.alias_sets import SharingRules
from cpplan.aliasing.lives import ProgramLives
from cpplan.aliasing.merged import storages_of
from cpplan.aliasing.value_numbers import Origins
from cpplan.model.graph import Graph, Op, Placement, Tensor
from cpplan.model.problem import Problem
from cpplan.model.residency import Residency
from cpplan.program.anf import Program, to_anf
from cpplan.program.liveness import to_problem


def unary(name: str, source: str, target: str) -> Op:
    """An op that may write its output over its input."""
    return Op(name, "unary", (source,), (target,), in_place=((target, source),))


def concat(name: str, parts: list[str], whole: str, starts: list[int]) -> Op:
    """An op that copies parts one behind the other."""
    placements = tuple(Placement(p, whole, at) for p, at in zip(parts, starts, strict=True))
    return Op(name, "concat", tuple(parts), (whole,), placements=placements)


def relu_chain(count: int = 4, size: int = 8) -> Graph:
    """x, t1, t2, … of equal size, each written from the last: all fit into one's bytes."""
    names = ["x", *(f"t{k}" for k in range(1, count + 1))]
    kinds = ["input", *["intermediate"] * (count - 1), "output"]
    tensors = tuple(Tensor(n, size, kind=k) for n, k in zip(names, kinds, strict=True))
    ops = tuple(unary(f"relu{k}", names[k], names[k + 1]) for k in range(count))
    return Graph("relu chain", tensors, ops)


def two_branches() -> Graph:
    """a and b (4 B each) are made from x (2 B) and concatenated into the output y.

    Placed within y, the two need no bytes of their own: y and x, 10 B. Else 16 B: a, b and y.
    """
    tensors = (
        Tensor("x", 2, kind="input"),
        Tensor("a", 4),
        Tensor("b", 4),
        Tensor("y", 8, kind="output"),
    )
    ops = (
        Op("left", inputs=("x",), outputs=("a",)),
        Op("right", inputs=("x",), outputs=("b",)),
        concat("cat", ["a", "b"], "y", [0, 4]),
    )
    return Graph("two branches", tensors, ops)


def contested() -> Graph:
    """b ends y (of a and b) and begins z (of b and c): one b serves both, if z follows y by 4 B.

    Storages a, b, c, y, z; placed, y and z overlap in b: 12 B in all.
    """
    tensors = (
        *(Tensor(name, 4, kind="input") for name in "abc"),
        *(Tensor(name, 8, kind="output") for name in "yz"),
    )
    ops = (concat("one", ["a", "b"], "y", [0, 4]), concat("two", ["b", "c"], "z", [0, 4]))
    return Graph("contested", tensors, ops)


def contradiction() -> Graph:
    """a and b in one order, and in the other: only one of y, z can take both as they lie.

    With a and b in y, z lies apart or shares one of them: y and z, 16 B, less 4 for the one.
    """
    tensors = (
        *(Tensor(name, 4, kind="input") for name in "ab"),
        *(Tensor(name, 8, kind="output") for name in "yz"),
    )
    ops = (concat("one", ["a", "b"], "y", [0, 4]), concat("two", ["b", "a"], "z", [0, 4]))
    return Graph("contradiction", tensors, ops)


def halves() -> Graph:
    """x (8 B) is split into p and q, p is overwritten by r, and r and q are read at the end.

    Where p and q are views of x, r takes p's place: 8 B, and 1 B for the result.
    """
    tensors = (
        Tensor("x", 8, kind="input"),
        *(Tensor(name, 4) for name in "pqr"),
        Tensor("y", 1, kind="output"),
    )
    split = Op(
        "split",
        "split",
        ("x",),
        ("p", "q"),
        placements=(Placement("p", "x"), Placement("q", "x", 4)),
    )
    return Graph(
        "halves", tensors, (split, unary("relu", "p", "r"), Op("end", "", ("r", "q"), ("y",)))
    )


def recomputed_activation() -> Program:
    """x is kept (4 B); a and its relu r (8 B each) are made, used by u, and made again for v.

    Both times r may lie over a.
    """
    tensors = (
        Tensor("x", 4, kind="input"),
        *(Tensor(name, 8) for name in "ar"),
        Tensor("u", 2),
        Tensor("v", 2, kind="output"),
    )
    ops = (
        Op("f", "", ("x",), ("a",)),
        unary("relu", "a", "r"),
        Op("g", "", ("r",), ("u",)),
        Op("h", "", ("r", "u"), ("v",)),
    )
    return Program(Graph("recomputed", tensors, ops), (0, 1, 2, 0, 1, 3))


def random_read_graph(seed: int, ops: int) -> Graph:
    """A random graph without inputs that nobody reads.

    Such an input has bytes while the first op runs, but it is no storage of an ordering problem,
    and a simulation that finds it whole before the first op asks no more of it.
    """
    graph = random_sharing_graph(seed, ops)
    read = {graph.root[name][0] for op in graph.ops for name in op.inputs}
    tensors = tuple(t for t in graph.tensors if t.kind != "input" or t.name in read)
    return Graph(graph.name, tensors, graph.ops)


@dataclass(frozen=True)
class Setting:
    """A graph at its given order, with all that decides who may share."""

    graph: Graph
    program: Program
    problem: Problem
    candidates: tuple[AliasCandidate, ...]
    lives: ProgramLives
    origins: Origins
    rules: SharingRules

    def candidate(self, tensor: str, other: str) -> AliasCandidate:
        """The one between two tensors."""
        (found,) = (
            k for k in self.candidates if (k.relation.tensor, k.relation.other) == (tensor, other)
        )
        return found


def setting(graph: Graph, residency: Residency | None = None) -> Setting:
    """As ``solve`` sees the graph."""
    residency = residency or Residency()
    program = to_anf(graph)
    problem = to_problem(program, residency)
    candidates = find_candidates(graph, residency)
    lives, origins = ProgramLives(program, problem, residency), Origins(graph, candidates)
    rules = SharingRules(storages_of(problem), lives, origins, candidates)
    return Setting(graph, program, problem, candidates, lives, origins, rules)


def calling(*, reads: bool) -> Graph:
    """An op that copies x into y, and one whose body writes a view of x, which it reads or not."""
    x = Tensor("x", 1, kind="input")
    write = Op("write", inputs=("x",) if reads else (), outputs=("v",))
    body = Graph("body", (x, Tensor("v", 1, view_of=("x", 0))), (write,))
    pad = Op("pad", inputs=("x",), outputs=("y",), placements=(Placement("x", "y", 2),))
    call = Op("call", inputs=("x",), bodies=(body,))
    return Graph("calling", (x, Tensor("y", 3)), (pad, call))
