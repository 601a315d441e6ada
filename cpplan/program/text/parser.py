"""Parser of a Program's text; the grammar is in ``cpplan.program.text.printer``."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from cpplan.model.axes import Axis, Window
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op, Placement, Tensor
from cpplan.program.anf import Program
from cpplan.program.text.tokens import Line, Lines

_KIND = {
    "input": "input",
    "constant": "constant",
    "output": "output",
    "view": "intermediate",
    "workspace": "workspace",
}
_ATTRIBUTES = ("name", "cost", "recomputable", "after", "sequence")


def parse_program(text: str) -> Program:
    """Parse the text of a program, in the grammar of :mod:`cpplan.program.text.printer`. O(length).

    Raises
    ------
    InputError
        Names the line and what was expected there.
    """
    if not isinstance(text, str):
        raise InputError(f"expected the text of a program, not {type(text).__name__}")
    lines = Lines(text)
    line = lines.next('"program" and a name')
    line.expect("program")
    name = line.word("the program's name")
    line.end()
    try:
        graph, order, last = _block(lines, name)
        program = last.checked(lambda: Program(graph, tuple(order)))
    except RecursionError as error:
        raise InputError("bodies nested too deeply") from error
    rest = lines.peek()
    if rest is not None:
        rest.fail("nothing after the program's return")
    return program


@dataclass(slots=True)
class _Draft:
    """A graph under construction while its lines are read."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    ops: dict[str, Op] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    copy_of: dict[str, str] = field(default_factory=dict)
    newest: dict[str, str] = field(default_factory=dict)

    def declare(self, line: Line, tensor: Tensor) -> None:
        self.check_free(line, tensor.name)
        self.tensors[tensor.name] = tensor

    def check_free(self, line: Line, name: str) -> None:
        if name in self.tensors or name in self.copy_of:
            raise InputError(f"line {line.number}: tensor {name!r} is declared or bound twice")

    def read(self, line: Line) -> str:
        """Read the next tensor, which must be declared above and named by its newest copy."""
        at = line.at
        name = line.tensor()
        tensor = self.copy_of.get(name, name)
        newest = self.newest.get(tensor, tensor)
        if tensor not in self.tensors or name != newest:
            line.at = at
            known = tensor in self.tensors
            line.fail(f"the newest copy, {newest!r}" if known else "a tensor from a line above")
        return tensor

    def bind(self, line: Line, op: Op, tensors: list[Tensor]) -> None:
        for tensor in tensors:
            self.declare(line, tensor)
        self.ops[op.name] = op
        self.order.append(op.name)

    def bind_again(self, line: Line, name: str, found: _Binding) -> None:
        op = self.ops[name]
        same = (op.kind, op.inputs, len(op.outputs)) == (found.kind, found.args, len(found.results))
        relations = found.pairs, found.placements, found.axes
        said_again = (found.types, found.workspaces, found.fields, *relations)
        if not same or any(said_again):
            raise InputError(
                f"line {line.number}: op {name!r} is bound again: expected the same kind, "
                "arguments and number of results as before, and nothing else"
            )
        for result, output in zip(found.results, op.outputs, strict=True):
            self.check_free(line, result)
            self.copy_of[result] = output
            self.newest[output] = result
        self.order.append(name)


@dataclass(slots=True)
class _Binding:
    """The contents of one binding line."""

    results: list[str]
    kind: str
    args: tuple[str, ...]
    types: list[dict[str, Any]] = field(default_factory=list)
    workspaces: list[Tensor] = field(default_factory=list)
    pairs: list[tuple[str, str]] = field(default_factory=list)
    placements: list[Placement] = field(default_factory=list)
    axes: list[Axis] = field(default_factory=list)
    fields: dict[str, Any] = field(default_factory=dict)


def _block(lines: Lines, name: str) -> tuple[Graph, list[int], Line]:
    """A graph, the order of its bindings as positions, and the line that returns from it."""
    draft = _Draft()
    expected = "a declaration, a binding or return"
    line = lines.next(expected)
    while line.ahead in _KIND:
        draft.declare(line, _declared(line, _KIND[line.word(expected)]))
        line.end()
        line = lines.next(expected)
    while line.ahead is not None and line.ahead[0] in "(%":
        _bind(line, lines, draft)
        line = lines.next(expected)
    listed_tensors, listed_ops = list(draft.tensors), list(draft.ops)
    if line.take("tensors"):
        listed_tensors = _listing(line, line.tensor, draft.tensors)
        line = lines.next("ops or return")
    if line.take("ops"):
        listed_ops = _listing(line, partial(line.word, "an op's name"), draft.ops)
        line = lines.next("return")
    if not line.take("return"):
        line.fail(expected)
    _return(line, draft)
    tensors = tuple(draft.tensors[name] for name in listed_tensors)
    ops = tuple(draft.ops[name] for name in listed_ops)
    position = {op.name: k for k, op in enumerate(ops)}
    graph = line.checked(lambda: Graph(name, tensors, ops))
    return graph, [position[name] for name in draft.order], line


def _return(line: Line, draft: _Draft) -> None:
    returned = set(line.several(lambda: draft.read(line))) if line.ahead is not None else set()
    line.end()
    bound = {name for op in draft.ops.values() for name in op.outputs}
    for tensor in draft.tensors.values():
        if tensor.name in bound and tensor.name in returned:
            draft.tensors[tensor.name] = replace(tensor, kind="output")
        elif (tensor.kind == "output") != (tensor.name in returned):
            raise InputError(
                f"line {line.number}: {tensor.kind} {tensor.name!r} must be an output and "
                "returned, or neither"
            )


def _listing(line: Line, item: Callable[[], str], known: Collection[str]) -> list[str]:
    names = line.several(item)
    line.end()
    if len(names) != len(known) or set(names) != set(known):
        raise InputError(f"line {line.number}: expected every declared name once")
    return names


def _bind(line: Line, lines: Lines, draft: _Draft) -> None:
    found = _binding(line, draft)
    name = found.fields.pop("name", found.kind)
    if name in draft.ops:
        draft.bind_again(line, name, found)
        return
    if len(found.types) != len(found.results):
        raise InputError(f"line {line.number}: expected {len(found.results)} types after ':'")
    outputs = [
        line.checked(partial(Tensor, result, **values))
        for result, values in zip(found.results, found.types, strict=True)
    ]
    bodies = []
    while (inner := lines.peek()) is not None and inner.take("body"):
        lines.next("body")
        title = inner.word("the body's name")
        inner.end()
        body, order, last = _block(lines, title)
        if len(order) > len(body.ops):
            raise InputError(f"line {last.number}: an op is bound twice in the body {title!r}")
        bodies.append(body)
    op = line.checked(
        lambda: Op(
            name,
            found.kind,
            found.args,
            tuple(found.results),
            tuple(tensor.name for tensor in found.workspaces),
            in_place=tuple((output, draft.copy_of.get(s, s)) for output, s in found.pairs),
            placements=tuple(
                Placement(draft.copy_of.get(part, part), draft.copy_of.get(whole, whole), offset)
                for part, whole, offset in found.placements
            ),
            bodies=tuple(bodies),
            axes=tuple(_read_axis(axis, draft) for axis in found.axes),
            **found.fields,
        )
    )
    draft.bind(line, op, outputs + found.workspaces)


def _read_axis(axis: Axis, draft: _Draft) -> Axis:
    """The axis with the names of its tensors' copies replaced by the tensors' own names."""
    windows = (replace(w, tensor=draft.copy_of.get(w.tensor, w.tensor)) for w in axis.windows)
    return replace(axis, windows=tuple(windows))


def _binding(line: Line, draft: _Draft) -> _Binding:
    results: list[str] = []
    if line.take("("):
        line.expect(")")
    else:
        results = line.several(line.tensor)
    line.expect("=")
    kind = line.word("the kind of an op")
    line.expect("(")
    args: list[str] = []
    if line.ahead != ")":
        args = line.several(lambda: draft.read(line))
    line.expect(")")
    found = _Binding(results, kind, tuple(args))
    if line.take(":"):
        found.types = line.several(lambda: _type(line))
    if line.take("{"):
        line.several(lambda: _attribute(line, found))
        line.expect("}")
    line.end()
    return found


def _attribute(line: Line, found: _Binding) -> None:
    if line.ahead is not None and line.ahead.startswith("%"):
        one = line.tensor()
        if line.take("within"):
            whole = line.tensor()
            offset = line.bytes("an offset") if line.take("+") else 0
            found.placements.append(Placement(one, whole, offset))
        else:
            line.expect("over")
            found.pairs.append((one, line.tensor()))
        return
    at = line.at
    key = line.word("an attribute")
    if key == "workspace":
        found.workspaces.append(_declared(line, "workspace"))
        return
    if key == "axis":
        found.axes.append(_axis(line))
        return
    if key not in _ATTRIBUTES or key in found.fields:
        line.at = at
        line.fail(f"one of {', '.join(_ATTRIBUTES)}, each once, workspace, a pair or a placement")
    line.expect("=")
    if key == "name":
        found.fields[key] = line.word("the op's name")
    elif key == "cost":
        found.fields[key] = line.quantity("the cost")
    elif key == "after":
        line.expect("[")
        found.fields[key] = tuple(line.several(lambda: line.word("an op's name")))
        line.expect("]")
    elif key == "sequence":
        found.fields[key] = line.word("the sequence's name")
    else:
        line.expect("false")
        found.fields[key] = False


def _axis(line: Line) -> Axis:
    name, extent = line.word("the axis's name"), line.bytes("its extent")
    adds = line.take("adds")
    line.expect("[")
    windows = [] if line.ahead == "]" else line.several(lambda: _window(line))
    line.expect("]")
    return line.checked(lambda: Axis(name, extent, tuple(windows), adds))


def _window(line: Line) -> Window:
    tensor, axis = line.tensor(), line.bytes("an axis")
    if not line.take("table"):
        stride, offset, size = (_integer(line) for _ in range(3))
        return line.checked(lambda: Window(tensor, axis, stride, offset, size))
    table = []
    while line.ahead is not None and line.ahead not in (",", "]"):
        start, _, stop = line.word("START:STOP").partition(":")
        if not (start.isdecimal() and stop.isdecimal()):
            line.at -= 1
            line.fail("START:STOP")
        table.append((int(start), int(stop)))
    return line.checked(lambda: Window(tensor, axis, table=tuple(table)))


def _integer(line: Line) -> int:
    word = line.word("an integer")
    if not word.removeprefix("-").isdecimal():
        line.at -= 1
        line.fail("an integer")
    return int(word)


def _declared(line: Line, kind: str) -> Tensor:
    name = line.tensor()
    line.expect(":")
    values = _type(line)
    return line.checked(lambda: Tensor(name, kind=kind, **values))


def _type(line: Line) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if line.is_bytes():
        values["size"] = line.bytes("a size")
    else:
        if line.ahead not in ("[", "in"):
            if line.ahead is not None and not (line.ahead[0].isalpha() or line.ahead[0] == '"'):
                line.fail("a type or a size")
            values["dtype"] = line.word("a type or a size")
        if line.take("["):
            extents = [] if line.ahead == "]" else line.several(lambda: line.bytes("an extent"))
            line.expect("]")
            values["shape"] = tuple(extents)
        if line.take("in"):
            values["size"] = line.bytes("a size")
    if line.take("of"):
        base = line.tensor()
        values["view_of"] = (base, line.bytes("an offset") if line.take("+") else 0)
    if line.take("align"):
        values["alignment"] = line.bytes("an alignment")
    if line.take("pools"):
        line.expect("[")
        values["pools"] = tuple(line.several(lambda: line.word("a pool's name")))
        line.expect("]")
    return values
