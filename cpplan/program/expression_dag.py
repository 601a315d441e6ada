"""A nested expression as a directed acyclic graph of nodes, one node for each computation.

Names are resolved: a variable bound by a ``Let`` is the node of its value, and variables or
constants of one name are one node. Every node knows its value, a tensor or a nested tuple of
tensors, and types are checked here. Two occurrences of an expression object are one node if the
``Let`` variables free in it stand for the same nodes in both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TypeAlias

from cpplan.model.errors import InputError
from cpplan.model.graph import Tensor
from cpplan.program.expression import (
    Call,
    Constant,
    Expression,
    If,
    Let,
    Tuple,
    TupleGet,
    Var,
    is_expression,
)


@dataclass(slots=True, eq=False)
class Result:
    """A tensor that a node computes; ``type`` has everything but its name and kind."""

    node: Node
    type: Tensor
    name: str | None = None
    wish: str | None = None


# The value of a node.
Value: TypeAlias = Result | tuple["Value", ...]


@dataclass(slots=True, eq=False)
class Node:
    """One computation.

    ``args`` are the tensors read (for an ``If`` its condition), ``results`` the tensors computed,
    ``view`` the tensor whose bytes hold the only result, and the byte offset in that tensor.
    """

    source: Expression
    children: tuple[Node, ...] = ()
    args: tuple[Result, ...] = ()
    results: list[Result] = field(default_factory=list)
    value: Value = ()
    view: tuple[Result, int] | None = None


def resolve(expression: Expression) -> Node:
    """The node of an expression."""
    if not is_expression(expression):
        raise InputError(f"expected a graph or an expression, not {type(expression).__name__}")
    return _Resolver(expression).resolve(expression)


def results_in(value: Value) -> list[Result]:
    """The tensors of a value, left to right."""
    return [token for token in _tokens(value) if isinstance(token, Result)]


@dataclass(frozen=True, slots=True)
class _Unbind:
    """A marker on the stack below the body of a ``Let``: the scope of its name ends there."""

    name: str


_Key: TypeAlias = tuple[int, ...]


class _Resolver:
    def __init__(self, expression: Expression):
        self.free = _free_let_names(expression)
        self.bound: defaultdict[str, list[Node]] = defaultdict(list)
        self.done: dict[_Key, Node] = {}
        self.boundary: dict[str, Node] = {}

    def resolve(self, root: Expression) -> Node:
        stack: list[Expression | _Unbind] = [root]
        while stack:
            item = stack.pop()
            if isinstance(item, _Unbind):
                self.bound[item.name].pop()
            elif self._key(item) not in self.done:
                waiting = self._waiting(item)
                if waiting:
                    stack += [item, *waiting]
                else:
                    self.done[self._key(item)] = self._node(item)
        return self.done[self._key(root)]

    def _key(self, expression: Expression) -> _Key:
        meanings = (self.bound[name][-1:] for name in self.free.get(id(expression), ()))
        return (id(expression), *(id(node[0]) if node else 0 for node in meanings))

    def _waiting(self, item: Expression) -> list[Expression | _Unbind]:
        """Expressions to resolve before ``item``, in the order of the stack: the first one last."""
        if isinstance(item, Let):
            if self._key(item.value) not in self.done:
                return [item.value]
            self.bound[item.var.name].append(self.done[self._key(item.value)])
            if self._key(item.body) not in self.done:
                return [_Unbind(item.var.name), item.body]
            self.bound[item.var.name].pop()
            return []
        return [c for c in reversed(_children(item)) if self._key(c) not in self.done]

    def _node(self, item: Expression) -> Node:
        if isinstance(item, Var) and self.bound[item.name]:
            node = self.bound[item.name][-1]
            if not (item.size is None and item.shape is None and item.dtype is None):
                _check_declared(item, node)
            return node
        if isinstance(item, (Var, Constant)):
            return self._boundary_node(item)
        if isinstance(item, Let):
            return self._let_node(item)
        children = tuple(self.done[self._key(child)] for child in _children(item))
        if isinstance(item, Tuple):
            return Node(item, children, value=tuple(child.value for child in children))
        if isinstance(item, TupleGet):
            return Node(item, children, value=_item(item, children[0].value))
        return _call_node(item, children) if isinstance(item, Call) else _if_node(item, children)

    def _boundary_node(self, item: Var | Constant) -> Node:
        what = "variable" if isinstance(item, Var) else "constant"
        if isinstance(item, Var) and item.size is None and (item.shape is None or not item.dtype):
            raise InputError(
                f"variable {item.name!r} is bound by no let here: expected size, or shape and dtype"
            )
        node = Node(item)
        tensor = Tensor(
            item.name if item.name is not None else "constant",
            size=item.size,
            shape=item.shape,
            dtype=item.dtype,
            kind="input" if isinstance(item, Var) else "constant",
        )
        node.results = [Result(node, tensor)]
        node.value = node.results[0]
        if item.name is None:
            return node
        known = self.boundary.setdefault(item.name, node)
        if known.results[0].type != tensor:
            raise InputError(
                f"{what} {item.name!r} is {_describe(tensor)} here and "
                f"{_describe(known.results[0].type)} elsewhere"
            )
        return known

    def _let_node(self, item: Let) -> Node:
        value = self.done[self._key(item.value)]
        if not (item.var.size is None and item.var.shape is None and item.var.dtype is None):
            _check_declared(item.var, value)
        if isinstance(value.value, Result) and value.value.wish is None:
            value.value.wish = item.var.name
        self.bound[item.var.name].append(value)
        body = self.done[self._key(item.body)]
        self.bound[item.var.name].pop()
        return Node(item, (value, body), value=body.value)


def _children(item: Expression) -> tuple[Expression, ...]:
    if isinstance(item, Call):
        return item.args
    if isinstance(item, Tuple):
        return item.items
    if isinstance(item, TupleGet):
        return (item.tuple,)
    if isinstance(item, Let):
        return (item.value, item.body)
    if isinstance(item, If):
        return (item.condition, item.then, item.orelse)
    return ()


def _free_let_names(root: Expression) -> dict[int, tuple[str, ...]]:
    """Identity of an expression -> the names free in it that some ``Let`` binds."""
    order: dict[int, Expression] = {}
    stack: list[tuple[Expression, Iterator[Expression]]] = [(root, iter(_children(root)))]
    while stack:
        item, rest = stack[-1]
        child = next((c for c in rest if id(c) not in order), None)
        if child is None:
            order[id(item)] = item
            stack.pop()
        else:
            stack.append((child, iter(_children(child))))
    bound = {item.var.name for item in order.values() if isinstance(item, Let)}
    free: dict[int, frozenset[str]] = {}
    if not bound:
        return {}
    for key, item in order.items():
        if isinstance(item, Var):
            free[key] = frozenset([item.name]) & bound
        elif isinstance(item, Let):
            free[key] = free[id(item.value)] | (free[id(item.body)] - {item.var.name})
        else:
            free[key] = frozenset().union(*(free[id(child)] for child in _children(item)))
    return {key: tuple(sorted(names)) for key, names in free.items() if names}


def _call_node(call: Call, children: tuple[Node, ...]) -> Node:
    place = f"call of {call.kind!r}"
    node = Node(call, children, tuple(r for child in children for r in results_in(child.value)))
    if call.outputs is None:
        node.results = [Result(node, Tensor(call.kind, call.size, call.shape, call.dtype))]
        node.value = node.results[0]
    else:
        node.results = [Result(node, output.tensor(call.kind)) for output in call.outputs]
        node.value = tuple(node.results)
    relations = [("in_place pair", (o, a)) for o, a in call.in_place]
    relations += [("placement", (o, a)) for o, a, _ in call.placements]
    for what, (output, argument) in relations:
        if not (0 <= output < len(node.results) and 0 <= argument < len(node.args)):
            raise InputError(f"{place}: {what} ({output}, {argument}) is out of range")
    if call.view_of_arg is not None:
        view = call.view_of_arg
        position, offset = (view, 0) if isinstance(view, int) else view
        base = children[position].value if 0 <= position < len(children) else None
        if not isinstance(base, Result):
            raise InputError(f"{place}: view_of_arg {position} must be an argument and a tensor")
        node.view = (base, offset)
    return node


def _if_node(item: If, children: tuple[Node, ...]) -> Node:
    condition, then, orelse = (child.value for child in children)
    if not isinstance(condition, Result):
        raise InputError("if: the condition must be a tensor, not a tuple")
    node = Node(item, children, (condition,))
    made: list[list[Value]] = [[]]
    for one, other in zip_longest(_tokens(then), _tokens(orelse)):
        if isinstance(one, Result) and isinstance(other, Result):
            node.results.append(Result(node, _common_type(one.type, other.type)))
            made[-1].append(node.results[-1])
        elif one != other:
            raise InputError("if: the branches return tuples of different structure")
        elif one == "(":
            made.append([])
        else:
            items = tuple(made.pop())
            made[-1].append(items)
    node.value = made[0][0]
    return node


def _common_type(one: Tensor, other: Tensor) -> Tensor:
    same_shape = one.shape == other.shape or None in (one.shape, other.shape)
    same_dtype = one.dtype == other.dtype or None in (one.dtype, other.dtype)
    if one.size != other.size or not same_shape or not same_dtype:
        raise InputError(f"if: one branch returns {_describe(one)}, the other {_describe(other)}")
    shape = one.shape if one.shape is not None else other.shape
    return Tensor("if", one.size, shape, one.dtype or other.dtype)


def _check_declared(var: Var, value: Node) -> None:
    found = value.value
    if not isinstance(found, Result):
        raise InputError(f"variable {var.name!r} is declared a tensor, but its value is a tuple")
    for field_name in ("size", "shape", "dtype"):
        declared, actual = getattr(var, field_name), getattr(found.type, field_name)
        if declared is not None and actual is not None and declared != actual:
            raise InputError(
                f"variable {var.name!r}: {field_name} {declared} is not that of its value, "
                f"{_describe(found.type)}"
            )


def _item(access: TupleGet, value: Value) -> Value:
    if isinstance(value, Result):
        raise InputError(f"item {access.index} of a tensor: expected a tuple")
    if not isinstance(access.index, int) or not 0 <= access.index < len(value):
        raise InputError(f"item {access.index} is out of range: the tuple has {len(value)}")
    return value[access.index]


def _tokens(value: Value) -> Iterator[Result | str]:
    """The tensors of a value and the brackets around them, left to right."""
    stack: list[Value | str] = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, tuple):
            yield "("
            stack += [")", *reversed(item)]
        else:
            yield item


def _describe(tensor: Tensor) -> str:
    extents = "" if tensor.shape is None else f"[{','.join(map(str, tensor.shape))}]"
    kind = f"{tensor.dtype or ''}{extents}"
    return f"{kind} of {tensor.size} B" if kind else f"{tensor.size} B"
