"""Comparison of symbolic shapes with ONNX's own inference at some sizes."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING

from cpplan.io.onnx.facts import Shape
from cpplan.model.errors import InputError
from cpplan.model.shapes import Dim, Range

if TYPE_CHECKING:
    from cpplan.model.graph import Graph
    from cpplan.model.tensor import Tensor

Values = dict[str, int]

_DRAWN = 4
_BEYOND = 61  # how far above an unbounded variable's lower bound values are drawn


def at_upper(ranges: Mapping[str, Range]) -> Values:
    """The size at which a model is read: every variable at its upper bound.

    Variables without an upper bound are at their lower bound, but 1 at least.
    """
    return {n: max(_lower(r), 1) if r.upper is None else r.upper for n, r in ranges.items()}


def sizes_to_check(ranges: Mapping[str, Range]) -> list[Values]:
    """The lower bounds, and some sizes between them and the upper bounds; the same in every run."""
    draw = random.Random(0)
    sizes = [{name: _lower(r) for name, r in ranges.items()}]
    for k in range(_DRAWN):
        common = draw.random()  # some extents must be equal: then half of these sizes are valid
        size = {}
        for name, r in ranges.items():
            lower = _lower(r)
            upper = lower + _BEYOND if r.upper is None else r.upper
            size[name] = lower + int((common if k % 2 else draw.random()) * (upper - lower + 1))
        sizes.append({name: min(v, _most(ranges[name])) for name, v in size.items()})
    return [size for k, size in enumerate(sizes) if size not in sizes[:k]]


def check_bounded(ranges: Mapping[str, Range], lost: Mapping[str, str]) -> None:
    """Raise if a tensor's bytes are known at the bounds only, and a variable has none."""
    endless = next((name for name, within in ranges.items() if within.upper is None), None)
    if endless is not None and lost:
        name, why = next(iter(lost.items()))
        raise InputError(
            f"tensor {name!r}: its bytes are not known without a bound of dimension {endless!r} "
            f"({why}): give an upper bound"
        )


def compare(
    graph: Graph,
    shapes: MutableMapping[str, Shape],
    lost: MutableMapping[str, str],
    sizes: Mapping[str, int],
    read_at: Callable[[Mapping[str, int]], Graph],
    *,
    must_hold: bool,
) -> Graph | None:
    """Compare with the model read at one size, and mark shapes that differ as lost, in place.

    Parameters
    ----------
    graph
        The model at its upper bounds.
    read_at
        Function that reads the model at another size.
    must_hold
        True to raise if the model is not valid at this size; otherwise it is then not compared.

    Returns
    -------
    The model at this size, or ``None`` if it is not valid there.

    Raises
    ------
    InputError
        If the ops or the constants depend on the size: no single plan is then right for all sizes.
        Also if a tensor whose shape is lost takes more bytes than at the upper bounds.
    """
    place = _place(sizes)
    try:
        other = read_at(sizes)
    except InputError as error:
        if must_hold:
            raise InputError(f"at {place}: {error}") from error
        return None
    _check_structure(graph, other, place)
    for tensor in other.tensors:
        expected, here = shapes.get(tensor.name), f"tensor {tensor.name!r}"
        if expected is None:
            _check_most(here, tensor, graph.tensor[tensor.name], place)
        if expected is None or tensor.shape is None:
            continue
        try:
            found = _evaluate(expected, sizes)
        except InputError as error:
            found, why = (), str(error)
        else:
            why = f"inference gives {list(tensor.shape)}, not {list(found)}"
        if found != tensor.shape:
            text = ", ".join(map(str, expected))
            lost[tensor.name] = f"its shape [{text}] is not right at {place}: {why}"
            del shapes[tensor.name]
            _check_most(here, tensor, graph.tensor[tensor.name], place)
    return other


def _check_most(here: str, tensor: Tensor, most: Tensor, place: str) -> None:
    """Raise if a tensor takes more bytes than at the upper bounds, at which it is planned."""
    if tensor.nbytes > most.nbytes:
        raise InputError(
            f"{here} takes {tensor.nbytes} B at {place}, but {most.nbytes} B at the upper bounds: "
            "expected no more"
        )


def _check_structure(graph: Graph, other: Graph, place: str) -> None:
    for one, two in zip(graph.ops, other.ops, strict=False):
        if (one.name, one.kind, one.inputs, one.outputs) != (
            two.name, two.kind, two.inputs, two.outputs
        ):  # fmt: skip
            raise InputError(
                f"the ops depend on the size: {one.name!r} at the upper bounds is {two.name!r} or "
                f"reads something else at {place}"
            )
        for inside, elsewhere in zip(one.bodies, two.bodies, strict=True):
            _check_structure(inside, elsewhere, place)
    more = graph.ops[len(other.ops) :] or other.ops[len(graph.ops) :]
    if more:
        raise InputError(
            f"the ops depend on the size: {more[0].name!r} is a constant at some sizes, but not "
            f"both at the upper bounds and at {place}"
        )
    for name, tensor in graph.tensor.items():
        if name not in other.tensor or other.tensor[name].kind != tensor.kind:
            raise InputError(
                f"tensor {name!r} is {tensor.kind!r} at the upper bounds, but not at {place}"
            )


def compare_bodies(graph: Graph, other: Graph, sizes: Mapping[str, int]) -> None:
    """Compare the bodies of a graph with symbols with the bodies of the model read at one size.

    Raises
    ------
    InputError
        If a body's tensor has another shape than its expression gives or, if the expression is
        lost, more bytes than at the upper bounds; names the op, the tensor and the size.
    """
    place = _place(sizes)
    for op, twin in zip(graph.ops, other.ops, strict=True):
        for body, elsewhere in zip(op.bodies, twin.bodies, strict=True):
            compare_bodies(body, elsewhere, sizes)
            shapes = {} if body.symbols is None else body.symbols.shapes
            for name, tensor in elsewhere.tensor.items():
                here = f"op {op.name!r}: tensor {name!r} of its body"
                if name not in shapes:
                    _check_most(here, tensor, body.tensor[name], place)
                elif tensor.shape is not None and _evaluate(shapes[name], sizes) != tensor.shape:
                    text = ", ".join(map(str, shapes[name]))
                    raise InputError(f"{here} is {list(tensor.shape)}, not [{text}], at {place}")


def _evaluate(shape: Shape, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(e.evaluate(sizes) if isinstance(e, Dim) else e for e in shape)


def _place(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sizes.items())


def _lower(within: Range) -> int:
    return 0 if within.lower is None else within.lower


def _most(within: Range) -> int:
    return _lower(within) + _BEYOND if within.upper is None else within.upper
