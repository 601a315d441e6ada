"""Symbolic shapes node by node, in the order of an ONNX graph."""

from __future__ import annotations

import math
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, TypeAlias

from cpplan.io.onnx.bytes import Array
from cpplan.io.onnx.captures import reads_of
from cpplan.io.onnx.constants import SMALL
from cpplan.io.onnx.facts import Call, Fact, Lost, Shape
from cpplan.io.onnx.kernels import to_numpy
from cpplan.io.onnx.shape_rules import RULES
from cpplan.io.onnx.symbolic_bodies import body_facts
from cpplan.io.onnx.symbolic_data import known_data
from cpplan.io.onnx.types import bodies_of, static_shape, types_of
from cpplan.io.onnx.views import is_standard
from cpplan.model.errors import InputError
from cpplan.model.shapes import Range

if TYPE_CHECKING:
    import onnx

# The fact about a tensor, or the reason why it is lost.
Known: TypeAlias = "Fact | str"
TypeOf: TypeAlias = "Mapping[tuple[tuple[str, ...], str], onnx.TypeProto]"


class Walk:
    """A walk that carries facts about tensors through nodes.

    Parameters
    ----------
    opsets
        Versions of the operator sets, by domain.
    ranges
        Ranges of the variables.
    types
        Type of every tensor at one size, by its enclosing nodes and its name; tensors that depend
        on no variable have these types at every size.

    Attributes
    ----------
    inner
        Facts about the tensors of each body, by the body's enclosing nodes.
    """

    def __init__(self, opsets: Mapping[str, int], ranges: Mapping[str, Range], types: TypeOf):
        self.opsets, self.ranges, self.types = opsets, ranges, types
        self.inner: dict[tuple[str, ...], Mapping[str, Known]] = {}

    def graph(
        self,
        proto: onnx.GraphProto,
        known: MutableMapping[str, Known],
        path: tuple[str, ...] = (),
    ) -> None:
        """Add facts about a graph's tensors to ``known``, which has its inputs and captures."""
        for tensor in proto.initializer:
            small = math.prod(tensor.dims) <= SMALL and not tensor.external_data
            data = to_numpy(tensor) if small else None
            known[tensor.name] = Fact(tuple(tensor.dims), data, False)
        for sparse in proto.sparse_initializer:
            known[sparse.values.name] = Fact(tuple(sparse.dims), None, False)
        for node in proto.node:
            self._node(node, known, path)

    def _node(
        self, node: onnx.NodeProto, known: MutableMapping[str, Known], path: tuple[str, ...]
    ) -> None:
        inputs = [known[name] if name else None for name in node.input]
        call = Call(node, inputs, self.opsets, self.ranges)
        reads = [known[name] for name in reads_of(node) if name]
        varies = any(isinstance(fact, str) or fact.varies for fact in reads)
        here = f"op {node.name!r} ({node.op_type})"
        shapes: list[Shape | None]
        data: list[Array | None] = [None] * len(node.output)
        reason = "gives it no shape"
        try:
            if not varies:
                shapes = [static_shape(self.types.get((path, name))) for name in node.output]
                reason = "gives it an unknown shape"
            elif is_standard(node) and bodies_of(node):
                for name, fact in zip(
                    node.output, body_facts(self, call, known, path), strict=True
                ):
                    known[name] = f"{here}: {fact}" if isinstance(fact, str) else fact
                return
            else:
                shapes = list(self._shapes(call))
            sizes = [shape for shape in shapes if shape is not None]
            data = known_data(call, sizes)
        except Lost as lost:
            shapes, reason = [], str(lost)
        except InputError as error:
            shapes, reason = [], str(error)
        except (IndexError, KeyError, ValueError):
            shapes, reason = [], "its inputs or attributes do not fit its operator"
        for k, name in enumerate(node.output):
            shape = shapes[k] if k < len(shapes) else None
            if name:
                known[name] = f"{here}: {reason}" if shape is None else Fact(shape, data[k], varies)

    def _shapes(self, call: Call) -> list[Shape]:
        node = call.node
        rule = RULES.get(node.op_type) if is_standard(node) else None
        if rule is None:
            raise Lost("there is no rule for this operator's shapes")
        return rule(call)


def types_by_path(
    graph: onnx.GraphProto, path: tuple[str, ...] = ()
) -> dict[tuple[tuple[str, ...], str], onnx.TypeProto]:
    """The type of every tensor, also in bodies, by its enclosing nodes and its name."""
    types = {(path, name): type_ for name, type_ in types_of(graph).items()}
    for node in graph.node:
        for k, body in enumerate(bodies_of(node)):
            types.update(types_by_path(body, (*path, node.name, str(k))))
    return types
