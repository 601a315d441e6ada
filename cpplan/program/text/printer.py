"""Printer and grammar of a Program's text, one binding a line.

::

    text     := "program" WORD block
    block    := header* binding* ["tensors" tensor,…] ["ops" WORD,…] "return" [tensor,…]
    header   := ("input" | "constant" | "output" | "view" | "workspace") declared
    declared := tensor ":" type
    binding  := results "=" WORD "(" [tensor,…] ")" [":" type,…] [attributes] body*
    results  := tensor,… | "()"
    body     := "body" WORD block
    type     := BYTES | [WORD] ["[" [EXTENT,…] "]"] ["in" BYTES]
                followed by ["of" tensor ["+" BYTES]] ["align" BYTES]
    attributes := "{" attribute,… "}"
    attribute  := "name" "=" WORD | "cost" "=" NUMBER | "recomputable" "=" "false"
                | "workspace" declared | tensor "over" tensor
                | "after" "=" "[" WORD,… "]" | "sequence" "=" WORD
                | "axis" WORD EXTENT ["adds"] "[" [window,…] "]"
    window   := tensor AXIS (STRIDE OFFSET SIZE | "table" START:STOP…)
    tensor   := "%" WORD
    WORD     := letters, digits and _./:~- or a JSON string

A newline ends each header, each binding line and each line that begins with a keyword; ``#`` starts
a comment. A header declares a tensor that no op binds; a view that is neither input, constant nor
output is a ``view``. A binding's ``name`` is left out if it equals the op's kind, and ``in BYTES``
if the size follows from shape and dtype. ``%y over %x`` is an in-place pair; ``after`` lists ops
that must have run; the op can run in pieces along each ``axis``. A repeated binding gives only the
op's name; its results get names of their own, ``%t~1``, under which later bindings read them.
``tensors`` and ``ops`` give the order in which the graph lists them, if it is not the order of
declaration. Sizes that depend on variables are printed at the bounds: reading such a text gives a
program of fixed sizes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

import numpy as np

from cpplan.model.axes import Axis
from cpplan.model.dtypes import BITS, tensor_bytes
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.program.anf import Program, to_anf

_WORD = re.compile(r"[A-Za-z0-9_./:~-]+")


def format_program(program: Program) -> str:
    """Text of a program, which :func:`cpplan.program.text.parser.parse_program` reads back exactly.

    The comment after a binding has the bytes of its results, and the bytes live while it runs.
    """
    live = program.live_bytes()
    steps = program.starts[-1]
    padded = np.zeros(steps + 1, np.int64)
    padded[: len(live)] = live
    lines = [f"program {_word(program.graph.name)}"]
    _Printer(lines, padded.tolist()).block(program, 0, "")
    return "\n".join(lines)


class _Printer:
    """A printer that appends the lines of a program, and of the bodies in it, to ``lines``."""

    def __init__(self, lines: list[str], live: list[int]):
        self.lines, self.live = lines, live

    def block(self, program: Program, start: int, indent: str) -> None:
        graph = program.graph
        bound = {name for op in graph.ops for name in op.outputs + op.workspaces}
        for tensor in graph.tensors:
            if tensor.name not in bound:
                keyword = "view" if tensor.kind == "intermediate" else tensor.kind
                self.lines.append(f"{indent}{keyword} {_declared(tensor)}")
        alias: dict[str, str] = {}
        copies: dict[str, int] = {}
        first: dict[str, Op] = {}
        ends = zip(program.ops, program.starts, program.starts[1:], strict=False)
        for op, lower, upper in ends:
            again = op.name in first
            reads = [alias.get(name, name) for name in op.inputs]
            if again:
                for name in op.outputs:
                    alias[name] = _copy_name(name, copies, graph)
            results = ", ".join(_tensor(alias.get(n, n) if again else n) for n in op.outputs)
            line = f"{results or '()'} = {_word(op.kind)}({', '.join(map(_tensor, reads))})"
            if op.outputs and not again:
                line += f" : {', '.join(_type(graph.tensor[name]) for name in op.outputs)}"
            attributes = _attributes(op, graph, alias, again)
            if attributes:
                line += f" {{{', '.join(attributes)}}}"
            size = sum(graph.tensor[name].nbytes for name in op.outputs)
            live = max(self.live[start + lower : start + upper])
            self.lines.append(f"{indent}{line}  # {size} B, live {live} B")
            if not again:
                first[op.name] = op
                self._bodies(op, start + lower, indent)
        self._listing(graph, bound, first.values(), indent)
        returned = (t.name for t in graph.tensors if t.kind == "output")
        outputs = [_tensor(alias.get(name, name)) for name in returned]
        self.lines.append(f"{indent}return {', '.join(outputs)}".rstrip())

    def _bodies(self, op: Op, start: int, indent: str) -> None:
        for body in op.bodies:
            inner = to_anf(body)
            self.lines.append(f"{indent}  body {_word(body.name)}")
            self.block(inner, start, indent + "    ")
            start += max(1, inner.starts[-1])

    def _listing(self, graph: Graph, bound: set[str], ops: Iterable[Op], indent: str) -> None:
        ops = list(ops)
        declared = [t.name for t in graph.tensors if t.name not in bound]
        declared += [name for op in ops for name in op.outputs + op.workspaces]
        listed = [t.name for t in graph.tensors]
        if declared != listed:
            self.lines.append(f"{indent}tensors {', '.join(map(_tensor, listed))}")
        if [op.name for op in ops] != [op.name for op in graph.ops]:
            self.lines.append(f"{indent}ops {', '.join(_word(op.name) for op in graph.ops)}")


def _copy_name(name: str, copies: dict[str, int], graph: Graph) -> str:
    while True:
        copies[name] = copies.get(name, 0) + 1
        copy = f"{name}~{copies[name]}"
        if copy not in graph.tensor:
            return copy


def _attributes(op: Op, graph: Graph, alias: dict[str, str], again: bool) -> Sequence[str]:
    attributes = [] if op.name == op.kind else [f"name = {_word(op.name)}"]
    if again:
        return attributes
    if op.cost != 1:
        cost = float.__repr__(op.cost) if isinstance(op.cost, float) else str(op.cost)
        attributes.append(f"cost = {cost}")
    if not op.recomputable:
        attributes.append("recomputable = false")
    attributes += [f"workspace {_declared(graph.tensor[name])}" for name in op.workspaces]
    for output, source in op.in_place:
        attributes.append(f"{_tensor(output)} over {_tensor(alias.get(source, source))}")
    for part, whole, offset in op.placements:
        names = [_tensor(alias.get(name, name)) for name in (part, whole)]
        attributes.append(f"{names[0]} within {names[1]}" + (f" + {offset}" if offset else ""))
    if op.after:
        attributes.append(f"after = [{', '.join(map(_word, op.after))}]")
    if op.sequence is not None:
        attributes.append(f"sequence = {_word(op.sequence)}")
    attributes += [_axis(axis, alias) for axis in op.axes]
    return attributes


def _axis(axis: Axis, alias: dict[str, str]) -> str:
    windows = []
    for window in axis.windows:
        text = f"{_tensor(alias.get(window.tensor, window.tensor))} {window.axis} "
        if window.table is None:
            text += f"{window.stride} {window.offset} {window.size}"
        else:
            text += " ".join(["table", *(f"{start}:{stop}" for start, stop in window.table)])
        windows.append(text)
    adds = "adds " if axis.accumulates else ""
    return f"axis {_word(axis.name)} {axis.extent} {adds}[{', '.join(windows)}]"


def _declared(tensor: Tensor) -> str:
    return f"{_tensor(tensor.name)} : {_type(tensor)}"


def _type(tensor: Tensor) -> str:
    text = "" if tensor.dtype is None else _dtype(tensor.dtype)
    if tensor.shape is not None:
        text += f"[{','.join(map(str, tensor.shape))}]"
    if not text:
        text = str(tensor.size)
    elif (
        tensor.shape is None
        or tensor.dtype is None
        or tensor.nbytes != tensor_bytes(tensor.shape, tensor.dtype)
    ):
        text += f" in {tensor.size}"
    if tensor.view_of is not None:
        base, offset = tensor.view_of
        text += f" of {_tensor(base)}" + (f" + {offset}" if offset else "")
    if tensor.alignment != 1:
        text += f" align {tensor.alignment}"
    if tensor.pools is not None:
        text += f" pools [{', '.join(map(_word, tensor.pools))}]"
    return text


def _dtype(dtype: str) -> str:
    return dtype if dtype in BITS else json.dumps(dtype)


def _tensor(name: str) -> str:
    return f"%{_word(name)}"


def _word(text: str) -> str:
    return text if _WORD.fullmatch(text) and text != ":" else json.dumps(text)
