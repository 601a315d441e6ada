"""Small graphs on which the examples of the documentation run, each the least that shows a fact."""

from __future__ import annotations

from cpplan.model.graph import Graph, Op, Tensor


def forward_and_back() -> Graph:
    """A chain of ops that runs forward and then back, as training does: all results of 8 bytes.

    Every op once needs 32 bytes; with one op run again, 24 bytes are enough.
    """
    ops = (
        Op("f0", outputs=("a",)),
        Op("f1", inputs=("a",), outputs=("b",)),
        Op("f2", inputs=("b",), outputs=("c",)),
        Op("g1", inputs=("b", "c"), outputs=("d",)),
        Op("g0", inputs=("a", "d"), outputs=("e",)),
    )
    return Graph("chain", tuple(Tensor(name, 8) for name in "abcde"), ops)


def read_at_the_end() -> Graph:
    """Four ops in a row; the last one also reads the small result of the first.

    Every op once needs 14 bytes; with the first op run again, 12 bytes are enough.
    """
    tensors = Tensor("a", 4), Tensor("b", 8), Tensor("c", 2), Tensor("y", 1, kind="output")
    ops = (
        Op("f", outputs=("a",)),
        Op("g", inputs=("a",), outputs=("b",)),
        Op("h", inputs=("b",), outputs=("c",)),
        Op("k", inputs=("a", "c"), outputs=("y",)),
    )
    return Graph("g", tensors, ops)


def kept_meanwhile() -> Graph:
    """Ops whose first result is read by the last one: 24 bytes are live in between.

    A fast pool of 16 bytes holds it all if the first result is moved out and back.
    """
    ops = (
        Op("f", outputs=("a",)),
        Op("g", outputs=("b",)),
        Op("h", inputs=("b",), outputs=("c",)),
        Op("k", inputs=("a", "c")),
    )
    return Graph("g", (Tensor("a", 8), Tensor("b", 8), Tensor("c", 8)), ops)


def two_chains() -> Graph:
    """Two chains of two ops, listed side by side: both large results of 8 bytes are then live.

    The listed order needs 17 bytes; one chain after the other needs 10.
    """
    tensors = (
        Tensor("p", 8),
        Tensor("q", 8),
        Tensor("y", 1, kind="output"),
        Tensor("z", 1, kind="output"),
    )
    ops = (
        Op("a", outputs=("p",)),
        Op("b", outputs=("q",)),
        Op("c", inputs=("p",), outputs=("y",)),
        Op("d", inputs=("q",), outputs=("z",)),
    )
    return Graph("two chains", tensors, ops)


def relu_in_place() -> Graph:
    """One op of 8 bytes in and 8 bytes out, which may write its result over its operand."""
    tensors = Tensor("x", 8, kind="input"), Tensor("y", 8, kind="output")
    relu = Op("relu", inputs=("x",), outputs=("y",), in_place=(("y", "x"),))
    return Graph("tiny", tensors, (relu,))
