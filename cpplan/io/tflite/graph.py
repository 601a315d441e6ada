"""The graph of a TFLite model's first subgraph; subgraphs that its operators run are bodies.

Ops have the names of their first outputs, so that the names stay the same in a file of another
order. Tensors of the arena start at multiples of 16 bytes, as in TFLite Micro. Variable tensors
keep their values from run to run: they have memory of their own, like constants, and the ops that
access one of them keep their order. So do the ops that access a resource variable, after those that
give all of them their first values. Elements narrower than a byte take one byte each, as in TFLite
Micro. A tensor that no operator writes, that has no values in the file and that one operator reads
is a workspace of this operator. Scratch memory that a kernel requests (see
:mod:`cpplan.io.tflite.scratch`) is a workspace too, with the op's name followed by ``/scratch``.

Kinds of a TFLite subgraph's tensors: input, output, constant, and so on.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from cpplan.io.axes import find_axes
from cpplan.io.axes.boxes import find_placements
from cpplan.io.axes.operation import Array, Operation
from cpplan.io.tflite.axes import constant_value, operation_of
from cpplan.io.tflite.model import (
    RESOURCE,
    FileOperator,
    FileSubgraph,
    TfliteModel,
    free_name,
    op_names,
    unique_names,
)
from cpplan.io.tflite.operators import (
    count_operations,
    in_place_inputs,
    is_stateful,
    reshaped,
    subgraphs_of,
)
from cpplan.io.tflite.placements import RULES
from cpplan.io.tflite.scratch import ALIGNMENT, REFERENCE, scratch_bytes
from cpplan.model.dtypes import BITS
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op, Placement, Tensor
from cpplan.model.workspaces import scratch_name
from cpplan.runtime import limits

_STATE = "state"

# Number of a subgraph, and number of a tensor in it.
TensorKey = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Translation:
    """A graph, with the tensors and operators of the file that it was made from.

    Attributes
    ----------
    graph
        Graph of subgraph 0.
    keys
        Tensor -> its subgraph, and its number there. Names are unique in the model. Scratch memory
        of kernels is not a tensor of the file.
    operators
        Op of the graph -> position of its operator in subgraph 0.
    unknown
        Op of any subgraph that runs -> its kind, if its kernel's scratch memory is not known.
    """

    graph: Graph
    keys: dict[str, TensorKey]
    operators: dict[str, int]
    unknown: dict[str, str]

    def places(self) -> Iterator[tuple[TensorKey, str, int]]:
        """Tensors that could be in the arena, each with its buffer and its byte offset there."""
        for prefix, graph in graphs_in(self.graph):
            for tensor in graph.tensors:
                if tensor.kind != "constant" and tensor.name in self.keys:
                    root, within = graph.root[tensor.name]
                    yield self.keys[tensor.name], prefix + root, within

    def untouched(self, model: TfliteModel) -> set[TensorKey]:
        """Tensors of the arena whose bytes no op and no caller reads or writes in a run.

        Neither an operator that runs nor the caller accesses them; or they hold the number of a
        resource, which its operator keeps elsewhere.
        """
        accessed = {
            self.keys[tensor.name]
            for _, graph in graphs_in(self.graph)
            for tensor in graph.tensors
            if tensor.name in self.keys
        }
        return {
            (s, k)
            for s, source in enumerate(model.subgraphs)
            for k, tensor in enumerate(source.tensors)
            if tensor.in_arena and (tensor.dtype == RESOURCE or (s, k) not in accessed)
        }


@dataclass(slots=True)
class _Reading:
    """The options of :func:`translate`, and ``unknown``, filled as subgraphs are read.

    ``left`` is the number of operators that bodies may still have: each caller has its own copy.
    """

    apart: frozenset[TensorKey]
    scratch: bool
    kernels: str
    unknown: dict[str, str]
    left: int


def graphs_in(graph: Graph, prefix: str = "") -> Iterator[tuple[str, Graph]]:
    """A graph and the graphs of its bodies, each with the prefix of its buffers' names."""
    yield prefix, graph
    for op in graph.ops:
        for number, body in enumerate(op.bodies):
            yield from graphs_in(body, f"{prefix}{op.name}/{number}/")


def translate(
    model: TfliteModel,
    name: str,
    apart: Collection[TensorKey] = (),
    *,
    scratch: bool = True,
    kernels: str = REFERENCE,
) -> Translation:
    """The graph of a model, whose extents are all known.

    Parameters
    ----------
    name
        Name of the graph.
    apart
        Tensors that are not views, although their operators allow it.
    scratch
        True to add the scratch memory of kernels.
    kernels
        Kernels whose scratch memory is added (:data:`cpplan.io.tflite.scratch.KERNELS`).

    Raises
    ------
    InputError
        If an extent is only known at run time, an operator is not supported, or a tensor's bytes
        are not known; names the operator or tensor.
    """
    names = unique_names(model)
    listed = sum(len(subgraph.operators) for subgraph in model.subgraphs)
    most = limits.MOST_NODES + limits.MOST_NODES_PER_NODE * listed
    reading = _Reading(frozenset(apart), scratch, kernels, {}, most)
    graph = _graph(model, names, 0, name, reading, ())
    operators = {name: k for k, name in enumerate(op_names(model.subgraphs[0], names[0]))}
    keys = {name: (s, k) for s, inner in enumerate(names) for k, name in enumerate(inner)}
    return Translation(graph, keys, operators, reading.unknown)


def _graph(
    model: TfliteModel,
    names: list[list[str]],
    number: int,
    name: str,
    reading: _Reading,
    callers: tuple[int, ...],
) -> Graph:
    """The graph of a subgraph; ``callers`` are the subgraphs that run it, the outermost first."""
    if not 0 <= number < len(model.subgraphs):
        raise InputError(f"subgraph {number} does not exist: there are {len(model.subgraphs)}")
    if number in callers:
        raise InputError(f"subgraph {number} runs itself, which is not supported")
    if len(callers) > limits.MOST_CALLERS:
        raise InputError(f"subgraphs run one another more than {limits.MOST_CALLERS} deep")
    source = model.subgraphs[number]
    reading.left -= 1 + len(source.operators)
    if reading.left < 0:
        raise InputError(f"subgraph {number} and others are run too often: too many operators")
    inside = _Subgraph(source, names[number], {k for s, k in reading.apart if s == number})
    sequences = {} if callers else _variable_sequences(model)
    once: list[str] = []
    tensors = [inside.tensor(k) for k in inside.kinds]
    ops = []
    last: dict[int, str] = {}
    taken = set(names[number])
    listed = zip(op_names(source, names[number]), source.operators, strict=True)
    for at, (op_name, operator) in enumerate(listed):
        runs = subgraphs_of(operator)
        bodies = tuple(
            _graph(model, names, k, f"subgraph_{k}", reading, (*callers, number)) for k in runs
        )
        stateful = is_stateful(operator) or any(_keeps_state(model, k) for k in runs)
        variables = inside.variables(operator)
        workspaces = inside.named(dict.fromkeys(operator.inputs), only="workspace")
        size = scratch_bytes(operator, source.tensors, reading.kernels)
        if size is None:
            reading.unknown[op_name] = operator.kind
        if size and reading.scratch:
            own = free_name(scratch_name(op_name), taken)
            tensors.append(Tensor(own, size, kind="workspace", alignment=ALIGNMENT))
            workspaces = (*workspaces, own)
        whole = bool(bodies or variables or callers)
        reads = operator.kind in RULES or not whole
        operation = inside.operation(operator, model) if reads else None
        after = [last[k] for k in variables if k in last]
        if at in sequences:
            after += once
        elif operator.kind == "CALL_ONCE":
            once.append(op_name)
        ops.append(
            Op(
                op_name,
                operator.kind,
                inputs=inside.named(operator.inputs, but="workspace"),
                outputs=inside.named(operator.outputs, but="constant"),
                workspaces=workspaces,
                cost=inside.cost(operator, bodies),
                recomputable=not (stateful or variables),
                in_place=tuple(inside.in_place(operator)),
                placements=() if operation is None else tuple(inside.placements(operation)),
                bodies=bodies if any(map(_needs_bytes, bodies)) else (),
                after=tuple(after),
                sequence=sequences.get(at, _STATE) if stateful else None,
                axes=() if whole or operation is None else find_axes("tflite", operation),
            )
        )
        last |= dict.fromkeys(variables, op_name)
    return Graph(name, tuple(tensors), tuple(ops))


def _variable_sequences(model: TfliteModel) -> dict[int, str]:
    """Number of an operator of the first subgraph -> name of the resource variable it accesses.

    There are none if an operator accesses one that is not known, or others run subgraphs, or set
    first values after an access: then all of them keep their order.
    """
    main = model.subgraphs[0]
    known: dict[int, str] = {}
    found: dict[int, str] = {}
    accessed = False
    for at, operator in enumerate(main.operators):
        if operator.kind == "VAR_HANDLE" and operator.options is not None and operator.outputs:
            container, name = (operator.options.text(field) for field in (0, 1))
            found[at] = known[operator.outputs[0]] = f"variable {container}/{name}"
        elif operator.kind in ("READ_VARIABLE", "ASSIGN_VARIABLE"):
            handle = next(iter(operator.inputs), -1)
            if handle not in known:
                return {}
            found[at], accessed = known[handle], True
        elif operator.kind == "CALL_ONCE":
            if accessed:
                return {}
        else:
            handled = any(main.tensors[k].dtype == RESOURCE for k in operator.inputs if k >= 0)
            if handled or operator.kind in ("IF", "WHILE", "CALL"):
                return {}
    return found


def _needs_bytes(graph: Graph) -> bool:
    """True if a subgraph has tensors in the arena; what only sets variables has none."""
    return any(t.nbytes and t.kind != "constant" for t in graph.tensors)


class _Subgraph:
    """One subgraph, with the kinds of its tensors and the bases of its views."""

    def __init__(self, source: FileSubgraph, names: list[str], apart: set[int]):
        self.source, self.names = source, names
        self.kinds = find_kinds(source)
        self.bases: dict[int, int] = {}
        # Scales and zero points of each tensor, by name.
        self._form = {
            names[k]: (source.tensors[k].scales, source.tensors[k].zero_points) for k in self.kinds
        }
        for operator in source.operators:
            base, view = reshaped(operator) or (-1, -1)
            if base < 0:
                continue
            there = self.kinds[base] not in ("constant", "workspace")
            alike = self._nbytes(base) == self._nbytes(view)
            if there and alike and view not in apart:
                self.bases[view] = base

    def tensor(self, number: int) -> Tensor:
        source, kind = self.source.tensors[number], self.kinds[number]
        base = self.bases.get(number)
        known = source.dtype in BITS
        return Tensor(
            self.names[number],
            self._nbytes(number),
            shape=source.shape if known and not source.bounded else None,
            dtype=source.dtype if known else None,
            kind=kind,
            alignment=1 if kind == "constant" else ALIGNMENT,
            view_of=None if base is None else (self.names[base], 0),
        )

    def named(self, numbers: Iterable[int], *, only: str = "", but: str = "") -> tuple[str, ...]:
        """Names of an operator's tensors, without optional ones that are left out."""
        kinds = ((k, self.kinds[k]) for k in numbers if k >= 0)
        return tuple(self.names[k] for k, kind in kinds if kind != but and only in ("", kind))

    def variables(self, operator: FileOperator) -> list[int]:
        accessed = dict.fromkeys((*operator.inputs, *operator.outputs))
        return [k for k in accessed if k >= 0 and self.source.tensors[k].variable]

    def cost(self, operator: FileOperator, bodies: tuple[Graph, ...]) -> int | float:
        if operator.outputs and operator.outputs[0] in self.bases:
            return 0
        if not bodies:
            return count_operations(operator, self.source.tensors)
        costs = [sum(op.cost for op in body.ops) for body in bodies]
        return max(costs) if operator.kind == "IF" else sum(costs)

    def in_place(self, operator: FileOperator) -> Iterator[tuple[str, str]]:
        ends = (k for k in (*operator.inputs, *operator.outputs) if k >= 0)
        if any(self.source.tensors[k].bounded for k in ends):
            return
        for k in in_place_inputs(operator, self.source.tensors):
            if self.kinds[k] not in ("constant", "workspace") and self._nbytes(k):
                yield self.names[operator.outputs[0]], self.names[k]

    def placements(self, operation: Operation) -> Iterator[Placement]:
        accessed = [t for t in (*operation.inputs, *operation.outputs) if t is not None]
        fixed = {t.name for t in accessed if t.kind == "constant"}
        for found in find_placements(RULES, operation, fixed):
            # A kernel may change the scale.
            if self._form[found.part] == self._form[found.whole]:
                yield found

    def operation(self, operator: FileOperator, model: TfliteModel) -> Operation:
        """An operator in the form that rules read."""

        def tensor(number: int) -> Tensor | None:
            there = number in self.kinds and self.kinds[number] != "workspace"
            return self.tensor(number) if there else None

        def value(position: int) -> Array | None:
            number = operator.inputs[position]
            constant = self.kinds.get(number) == "constant"
            return constant_value(model, self.source.tensors[number]) if constant else None

        inputs, outputs = map(tensor, operator.inputs), map(tensor, operator.outputs)
        return operation_of(operator, list(inputs), list(outputs), value)

    def _nbytes(self, number: int) -> int:
        tensor = self.source.tensors[number]
        if tensor.dtype in BITS:
            count = math.prod(tensor.shape)
            return count * max(1, BITS[tensor.dtype] // 8)
        if tensor.dtype == RESOURCE:  # the number of a variable, which its operator keeps itself
            return 0
        if self.kinds[number] == "constant":
            return tensor.data_bytes or 0
        raise InputError(f"tensor {tensor.name!r}: elements of type {tensor.dtype} have no size")


def _keeps_state(model: TfliteModel, number: int) -> bool:
    source = model.subgraphs[number]
    return any(tensor.variable for tensor in source.tensors) or any(
        is_stateful(operator) or any(_keeps_state(model, k) for k in subgraphs_of(operator))
        for operator in source.operators
    )


def find_kinds(source: FileSubgraph) -> dict[int, str]:
    """Tensor -> its kind, for the tensors that a subgraph's operators or its callers access.

    Raises
    ------
    InputError
        If an extent is only known at run time, or a tensor is read that has no value.
    """
    readers = Counter(k for o in source.operators for k in dict.fromkeys(o.inputs))
    written = {k for o in source.operators for k in o.outputs}
    kinds = {}
    accessed = {*readers, *written, *source.inputs, *source.outputs} - {-1}
    for k in sorted(accessed):
        tensor = source.tensors[k]
        if tensor.variable or (k not in written and tensor.data_bytes):
            kinds[k] = "constant"
            continue
        if -1 in tensor.signature:
            raise InputError(
                f"tensor {tensor.name!r}: axis {tensor.signature.index(-1)} is only known at run "
                "time: expected extents that follow from those of the inputs"
            )
        if k in source.outputs:
            kinds[k] = "output"
        elif k in source.inputs:
            kinds[k] = "input"
        elif k in written:
            kinds[k] = "intermediate"
        elif not math.prod(tensor.shape):
            kinds[k] = "constant"
        elif readers[k] == 1:
            kinds[k] = "workspace"
        else:
            raise InputError(f"tensor {tensor.name!r}: nothing gives it a value")
    return kinds
