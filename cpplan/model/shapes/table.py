"""Tables of expressions that are evaluated together, and again only after changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from cpplan.model.errors import InputError
from cpplan.model.printable import quote
from cpplan.model.shapes.dim import Dim, terms_of
from cpplan.model.shapes.folding import fold
from cpplan.model.shapes.terms import Atom, Terms
from cpplan.model.shapes.values import read_value
from cpplan.model.shapes.writing import write

if TYPE_CHECKING:
    import numpy as np

# A coefficient and the nodes that it is multiplied by.
_Product: TypeAlias = tuple[int, tuple[int, ...]]


class _Node(NamedTuple):
    """Node of the table: a variable, or an operator applied to earlier nodes."""

    kind: str
    operands: tuple[int, ...]
    terms: tuple[_Product, ...]
    variables: tuple[str, ...]


class ShapeTable:
    """Expressions as one graph of distinct subexpressions, in topological order.

    The table keeps the last values: only nodes that depend on a changed variable are computed
    again. Intermediate integers may have any size.

    Parameters
    ----------
    expressions
        Integers and dimensions.

    Raises
    ------
    InputError
        Names the value that is neither.
    """

    def __init__(self, expressions: Sequence[int | Dim]):
        self.expressions = tuple(expressions)
        self._sums: dict[Terms, int] = {}
        self._atoms: dict[Atom, int] = {}
        self._nodes: list[_Node] = []
        rows: dict[int, list[int]] = {}
        for row, expression in enumerate(self.expressions):
            if isinstance(expression, bool) or not isinstance(expression, (int, Dim)):
                raise InputError(f"expression {row} must be an int or a Dim: {quote(expression)}")
            rows.setdefault(self._sum(terms_of(expression)), []).append(row)
        self._rows = rows
        self._affected: dict[str, list[int]] = {}
        for at, node in enumerate(self._nodes):
            for name in node.variables:
                self._affected.setdefault(name, []).append(at)
        self.variables = tuple(sorted(self._affected))
        self._numbers = [0] * len(self._nodes)
        self._known: dict[str, int] | None = None
        self._result: np.ndarray | None = None

    def evaluate(self, values: Mapping[str, int]) -> np.ndarray:
        """All values, int64, shape ``(expressions,)``, read-only; the same array if none changed.

        Raises
        ------
        InputError
            If a variable has no value, or a value that is not an integer, if a divisor is zero, or
            if a result exceeds 64 bits; names it.
        """
        import numpy as np

        given = {name: read_value(name, values) for name in self.variables}
        before = self._known
        if before == given and self._result is not None:
            return self._result
        nodes: Sequence[int] = range(len(self._nodes))
        if before is not None:
            affected = (self._affected[name] for name in given if before[name] != given[name])
            nodes = sorted(set().union(*affected))
        # If this fails, the next call computes all values again.
        self._known = None
        self._compute(nodes, given)
        read = [(row, self._numbers[node]) for node in nodes for row in self._rows.get(node, ())]
        result = np.empty(len(self.expressions), np.int64)
        if before is not None and self._result is not None:
            result[:] = self._result
        try:
            result[[row for row, _ in read]] = np.array([n for _, n in read], np.int64)
        except OverflowError:
            raise self._too_large(read) from None
        result.flags.writeable = False
        self._known, self._result = given, result
        return result

    def _compute(self, nodes: Sequence[int], given: Mapping[str, int]) -> None:
        numbers = self._numbers
        for at in nodes:
            kind, operands, terms, _ = self._nodes[at]
            if kind == "sum":
                total = 0
                for product, factors in terms:
                    for factor in factors:
                        product *= numbers[factor]
                    total += product
                numbers[at] = total
            elif kind == "max":
                numbers[at] = max([numbers[operand] for operand in operands])
            elif kind == "variable":
                numbers[at] = given[self._nodes[at].variables[0]]
            else:
                p, d = numbers[operands[0]], numbers[operands[1]]
                if d == 0:
                    raise self._no_divisor(operands[1], given)
                numbers[at] = p // d if kind == "floordiv" else p % d

    def _sum(self, terms: Terms) -> int:
        """The node of a polynomial."""
        if terms not in self._sums:
            parts = tuple((k, tuple(map(self._atom, monomial))) for monomial, k in fold(terms))
            if len(parts) == 1 and parts[0][0] == 1 and len(parts[0][1]) == 1:
                self._sums[terms] = parts[0][1][0]
            else:
                inner = tuple(factor for _, factors in parts for factor in factors)
                self._sums[terms] = self._node("sum", inner, parts)
        return self._sums[terms]

    def _atom(self, atom: Atom) -> int:
        if atom not in self._atoms:
            if atom.kind == "variable":
                self._nodes.append(_Node("variable", (), (), (atom.name,)))
                self._atoms[atom] = len(self._nodes) - 1
            else:
                self._atoms[atom] = self._node(atom.kind, tuple(map(self._sum, atom.args)))
        return self._atoms[atom]

    def _node(self, kind: str, operands: tuple[int, ...], terms: tuple[_Product, ...] = ()) -> int:
        names = {name for operand in operands for name in self._nodes[operand].variables}
        self._nodes.append(_Node(kind, operands, terms, tuple(sorted(names))))
        return len(self._nodes) - 1

    def _no_divisor(self, node: int, given: Mapping[str, int]) -> InputError:
        text = next(write(terms) for terms, at in self._sums.items() if at == node)
        values = ", ".join(f"{name} = {given[name]}" for name in self._nodes[node].variables)
        return InputError(f"division by zero: the divisor {text} is 0 at {values}")

    def _too_large(self, read: Sequence[tuple[int, int]]) -> InputError:
        row, value = next((row, n) for row, n in read if not -(2**63) <= n < 2**63)
        return InputError(f"{self.expressions[row]} is {quote(value)}: expected 64 bits")
