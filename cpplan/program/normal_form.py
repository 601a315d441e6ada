"""A-normal form of a nested expression, as a Graph.

Every call is bound once, in post-order, arguments left to right, in the innermost scope common to
all its uses; the scopes are the whole expression and the branches of every ``If``. This is the
order of TVM's ``ToANormalForm``. Three passes without recursion, so that the depth of an expression
is not limited: it becomes a directed acyclic graph of nodes (``cpplan.program.expression_dag``),
every node gets its scope, and the scopes become graphs, innermost first. O(n) without ``Let``; with
it, a shared expression becomes one node for each set of values of the ``Let`` variables free in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import count

from cpplan.model.graph import Graph, Op, Placement, Tensor
from cpplan.program.expression import Call, Constant, Expression, If, Var
from cpplan.program.expression_dag import Node, Result, resolve, results_in


def normalise(expression: Expression) -> Graph:
    """The graph that computes an expression, with its ops in the order of evaluation.

    Free variables become inputs. Op ``k`` of the program, branches included, is named ``kind_k``
    and its result ``k`` (``k.0``, ``k.1``, … if it has several), unless a ``Let`` names it. If a
    result is a constant, or a branch only passes it on, an op ``copy`` writes it.
    """
    root = resolve(expression)
    return _write(_Layout(_post_order(root), root))


@dataclass(slots=True, eq=False)
class _Scope:
    """The whole expression, or one branch of an ``If``."""

    parent: _Scope | None = None
    depth: int = 0
    boundary: list[Node] = field(default_factory=list)
    ops: list[Node] = field(default_factory=list)
    outputs: set[Result] = field(default_factory=set)


class _Names:
    """A supply of names that no variable, constant or result has yet."""

    def __init__(self, nodes: Iterable[Node]):
        sources = (node.source for node in nodes)
        self.taken = {s.name for s in sources if isinstance(s, (Var, Constant)) and s.name}

    def fresh(self, wish: str) -> str:
        name, number = wish, count(1)
        while name in self.taken:
            name = f"{wish}_{next(number)}"
        self.taken.add(name)
        return name


class _Layout:
    """The scopes of an expression, with the nodes bound in each, their order and their names."""

    def __init__(self, nodes: list[Node], root: Node):
        self.top = _Scope()
        self.scope: dict[Node, _Scope] = {root: self.top}
        self.branches: dict[Node, tuple[_Scope, _Scope]] = {}
        self.names = _Names(nodes)
        self.op_name: dict[Node, str] = {}
        self._assign_scopes(nodes)
        for node in nodes:
            scope = self.scope[node]
            if isinstance(node.source, (Var, Constant)):
                node.results[0].name = node.source.name or self.names.fresh("constant")
                scope.boundary.append(node)
            elif isinstance(node.source, (Call, If)):
                scope.ops.append(node)
        for result in dict.fromkeys(results_in(root.value)):
            known = isinstance(result.node.source, Constant)
            self.top.outputs.add(self._copy(result, self.top) if known else result)
        # Outer scopes first, as the program reads.
        self.scopes = [self.top]
        self._number_ops()

    def _assign_scopes(self, nodes: list[Node]) -> None:
        for node in reversed(nodes):  # readers before the nodes that they read
            if isinstance(node.source, Var):
                self.scope[node] = self.top
            scope = self.scope[node]
            used_in = [scope] * len(node.children)
            if isinstance(node.source, If):
                then, orelse = (_Scope(scope, scope.depth + 1) for _ in range(2))
                self.branches[node] = (then, orelse)
                used_in[1:] = then, orelse
            for child, user in zip(node.children, used_in, strict=True):
                self.scope[child] = _common(self.scope.get(child, user), user)

    def _number_ops(self) -> None:
        number = count()
        stack = [iter(self.top.ops)]
        while stack:
            node = next(stack[-1], None)
            if node is None:
                stack.pop()
                continue
            k = next(number)
            self.op_name[node] = f"{_kind(node)}_{k}"
            for i, result in enumerate(node.results):
                if result.name is None:
                    plain = str(k) if isinstance(node.value, Result) else f"{k}.{i}"
                    result.name = self.names.fresh(result.wish or plain)
            if node in self.branches:
                for child, scope in zip(node.children[1:], self.branches[node], strict=True):
                    self._return(child, node, scope)
                    self.scopes.append(scope)
                stack += [iter(scope.ops) for scope in reversed(self.branches[node])]

    def _return(self, branch: Node, node: Node, scope: _Scope) -> None:
        """Make a branch write its results under the names of the results of the ``If``."""
        for inner, outer in zip(results_in(branch.value), node.results, strict=True):
            made_here = self.scope[inner.node] is scope and not isinstance(
                inner.node.source, Constant
            )
            if made_here and inner.name is None and inner.node.view is None:
                result = inner
            else:
                result = self._copy(inner, scope)
            result.name = outer.name
            scope.outputs.add(result)

    def _copy(self, source: Result, scope: _Scope) -> Result:
        node = Node(Call("copy"), args=(source,))
        node.results = [Result(node, source.type)]
        node.value = node.results[0]
        self.scope[node] = scope
        scope.ops.append(node)
        return node.results[0]


def _write(layout: _Layout) -> Graph:
    """The graph of the whole expression, built from the innermost scope outwards."""
    graphs: dict[_Scope, Graph] = {}
    captured: dict[_Scope, dict[Result, None]] = {}
    title = {layout.top: "main"}
    for node, branches in layout.branches.items():
        for scope, role in zip(branches, ("then", "else"), strict=True):
            title[scope] = f"{layout.op_name[node]}.{role}"
    for scope in reversed(layout.scopes):
        here = [node.results[0] for node in scope.boundary]
        tensors = [_tensor(r, "output" if r in scope.outputs else r.type.kind) for r in here]
        outer: dict[Result, None] = {}
        ops = []
        for node in scope.ops:
            bodies = layout.branches.get(node, ())
            args = [*node.args, *(r for body in bodies for r in captured[body])]
            inputs = args if isinstance(node.source, Call) else list(dict.fromkeys(args))
            outer.update((r, None) for r in inputs if layout.scope[r.node] is not scope)
            op_name = layout.op_name[node]
            scratch = _workspaces(node, op_name, layout.names)
            kinds = ("output" if r in scope.outputs else "intermediate" for r in node.results)
            tensors += [*map(_tensor, node.results, kinds), *scratch]
            ops.append(_op(node, op_name, inputs, scratch, [graphs[body] for body in bodies]))
        tensors[:0] = [_tensor(result, "input") for result in outer]
        graphs[scope] = Graph(title[scope], tuple(tensors), tuple(ops))
        captured[scope] = outer
    return graphs[layout.top]


def _tensor(result: Result, kind: str) -> Tensor:
    view_of = None
    if result.node.view is not None and kind != "input":
        base, offset = result.node.view
        view_of = (_name(base), offset)
    return replace(result.type, name=_name(result), kind=kind, view_of=view_of)


def _workspaces(node: Node, op_name: str, names: _Names) -> list[Tensor]:
    if not isinstance(node.source, Call):
        return []
    return [
        Tensor(names.fresh(f"{op_name}.workspace_{k}"), size, kind="workspace")
        for k, size in enumerate(node.source.workspaces)
    ]


def _op(
    node: Node, name: str, inputs: list[Result], scratch: list[Tensor], bodies: list[Graph]
) -> Op:
    source = node.source
    in_place: list[tuple[str, str]] = []
    placements: list[Placement] = []
    if isinstance(source, Call):
        cost, recomputable = source.cost, source.recomputable
        in_place = [(_name(node.results[o]), _name(node.args[a])) for o, a in source.in_place]
        placements = [
            _placement(node.results[o], node.args[a], at) for o, a, at in source.placements
        ]
    else:
        # One branch runs: count the more expensive one.
        cost = max(sum(op.cost for op in body.ops) for body in bodies)
        recomputable = all(op.recomputable for body in bodies for op in body.ops)
    return Op(
        name,
        _kind(node),
        inputs=tuple(map(_name, inputs)),
        outputs=tuple(map(_name, node.results)),
        workspaces=tuple(tensor.name for tensor in scratch),
        cost=cost,
        recomputable=recomputable,
        in_place=tuple(in_place),
        placements=tuple(placements),
        bodies=tuple(bodies),
    )


def _placement(output: Result, argument: Result, offset: int) -> Placement:
    """The placement of the smaller of the two within the larger."""
    part, whole = argument, output
    if part.type.nbytes > whole.type.nbytes:
        part, whole = whole, part
    return Placement(_name(part), _name(whole), offset)


def _name(result: Result) -> str:
    assert result.name is not None
    return result.name


def _kind(node: Node) -> str:
    return node.source.kind if isinstance(node.source, Call) else "if"


def _common(one: _Scope, other: _Scope) -> _Scope:
    """The innermost scope that holds both."""
    while one is not other:
        deeper = one if one.depth >= other.depth else other
        assert deeper.parent is not None
        if deeper is one:
            one = deeper.parent
        else:
            other = deeper.parent
    return one


def _post_order(root: Node) -> list[Node]:
    """All nodes in post-order, children left to right."""
    order: dict[Node, None] = {}
    stack = [(root, iter(root.children))]
    while stack:
        node, rest = stack[-1]
        child = next((child for child in rest if child not in order), None)
        if child is None:
            order[node] = None
            stack.pop()
        else:
            stack.append((child, iter(child.children)))
    return list(order)
