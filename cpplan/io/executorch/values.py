"""Check of a planned module: every node reads bytes written by the node that it names.

Lifetimes cannot prove this for views and for tensors that share a storage on purpose (results
written over arguments, buffers that are written again). So the nodes are replayed in their order;
each leaves its number on the bytes of its results.

ExecuTorch's own ``Verifier``, called for layouts that its passes do not check.

``MemoryPlanningPass`` calls it only for layouts of the default algorithm, and only if debug
messages are logged.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from executorch.exir import memory
from executorch.exir.error import InternalError
from executorch.exir.memory_planning import (
    Verifier,
    _is_out_var_node,
    collect_specs_from_nodes,
    get_graph_input_tensors,
    get_graph_output_tensors,
    get_node_tensor_specs,
)
from executorch.exir.operator.convert import unwrap_op_overload
from executorch.exir.tensor import TensorSpec
from torch._ops import OpOverload
from torch.export import ExportGraphSignature
from torch.fx import GraphModule, Node

from cpplan.io.executorch.specs import FIRST_MEMORY, find_regions
from cpplan.model.errors import VerificationError
from cpplan.verification.written_runs import WrittenRuns


def check_values(module: GraphModule, name: str) -> None:
    """Raise if a node of a planned module reads bytes that another node has overwritten.

    Raises
    ------
    VerificationError
        Names the reading node, the node whose result it needs and the node whose bytes are there;
        or a view that does not lie at its base's place.
    """
    replay = _Replay(name)
    regions = {node: region for region in find_regions(module) for node in region.nodes}
    for node in module.graph.nodes:
        if node.op == "placeholder":
            replay.write(node)
        elif node.target is memory.view:
            replay.view(node)
        elif node.target is operator.getitem:
            replay.pick(node)
        elif node.op == "output" or _computes(node):
            for given in dict.fromkeys(node.all_input_nodes):
                replay.read(node, given)
            if node in regions:
                for memory_id, (begin, end) in regions[node].extents().items():
                    replay.put(memory_id, begin, end, node)
            if node.op != "output":
                replay.write(node)
            for given in _written_without_result(node):
                replay.write(given)


@dataclass
class _Replay:
    """The last writer of each byte of the memories, and the results of each node.

    ``values`` has (spec, number) for each result of a node: the number of the write that made its
    bytes.
    """

    name: str
    arenas: dict[int, WrittenRuns] = field(default_factory=lambda: defaultdict(WrittenRuns))
    writers: list[Node | None] = field(default_factory=lambda: [None])
    values: dict[Node, list[tuple[TensorSpec, int]]] = field(default_factory=dict)

    def put(self, memory_id: int, begin: int, end: int, node: Node) -> int:
        """Write a new number on bytes; returns the number."""
        self.writers.append(node)
        if begin < end:
            self.arenas[memory_id].write(begin, end, len(self.writers) - 1)
        return len(self.writers) - 1

    def write(self, node: Node) -> None:
        """Record that a node has written its results."""
        self.values[node] = [
            (spec, self.put(*_bytes_of(spec), node))
            for spec in get_node_tensor_specs(node)
            if spec.mem_offset is not None and not spec.const
        ]

    def view(self, node: Node) -> None:
        """Record that a node is another node's result in another shape."""
        base, spec = node.args[0], node.meta["spec"]
        self.values[node] = self.values.get(base, [])
        for given, _ in self.values[node]:
            if (spec.mem_id, spec.mem_offset) != (given.mem_id, given.mem_offset):
                raise VerificationError(
                    f"{self.name}: view {node.name!r} lies at byte {spec.mem_offset} of memory "
                    f"{spec.mem_id}, but its base {base.name!r} at byte {given.mem_offset} of "
                    f"memory {given.mem_id}"
                )

    def pick(self, node: Node) -> None:
        """Record that a node is one of another node's results."""
        own = get_node_tensor_specs(node)
        given = self.values.get(node.args[0], [])
        self.values[node] = [(spec, number) for spec, number in given if spec in own]

    def read(self, node: Node, given: Node) -> None:
        """Check a node that reads all results of another node."""
        for spec, number in self.values.get(given, []):
            memory_id, begin, end = _bytes_of(spec)
            if begin == end:
                continue
            wrong = self.arenas[memory_id].first_other(begin, end, number)
            if wrong is not None:
                writer = self.writers[self.arenas[memory_id].number_at(wrong)]
                there = "nothing" if writer is None else repr(writer.name)
                raise VerificationError(
                    f"{self.name}: {node.name!r} reads {given.name!r} at bytes {begin}..{end} of "
                    f"memory {memory_id}, but byte {wrong} was last written by {there}"
                )


def _bytes_of(spec: TensorSpec) -> tuple[int, int, int]:
    begin = int(spec.mem_offset)
    return spec.mem_id or FIRST_MEMORY, begin, begin + int(spec.allocated_memory)


def _computes(node: Node) -> bool:
    return node.op == "call_function" and node.target not in (memory.alloc, memory.free)


def _written_without_result(node: Node) -> Iterator[Node]:
    """Arguments that a kernel writes but does not return: later reads of them get its values."""
    if _is_out_var_node(node):
        return
    target = node.target
    if not isinstance(target, OpOverload) and not isinstance(
        getattr(target, "_op", None), OpOverload
    ):
        return
    schema = unwrap_op_overload(target)._schema
    returned = {
        name for ret in schema.returns if ret.alias_info for name in ret.alias_info.after_set
    }
    for position, argument in enumerate(schema.arguments):
        alias = argument.alias_info
        if alias is None or not alias.is_write or alias.after_set & returned:
            continue
        given = node.args[position] if position < len(node.args) else node.kwargs.get(argument.name)
        if isinstance(given, Node):
            yield given


def call_verifier(
    module: GraphModule,
    signature: ExportGraphSignature | None,
    planned: Collection[TensorSpec],
    *,
    ends: bool,
) -> None:
    """Check that no two planned specs of a module that are live at once share bytes.

    ``planned`` tells if inputs, outputs and mutable buffers are planned. If the module's specs lie
    on several devices, and the specs of other devices are not planned yet, nothing is checked. With
    ``ends``, also check that either all inputs or none have a place, and the same for outputs.

    Raises
    ------
    VerificationError
        If the verifier refuses the layout; with its message.
    """
    every, planned = set(_specs(module, signature)), set(planned)
    inputs = get_graph_input_tensors(module.graph.nodes, signature)
    outputs = get_graph_output_tensors(module.graph.nodes)
    buffers = every - set(_specs(module, signature, ignore_mutable_buffers=True))
    groups = [inputs - buffers, outputs - buffers, buffers]
    flags = [not every & group or bool(planned & group) for group in groups]
    for group, flag in zip(groups, flags, strict=True):
        every -= set() if flag else group
    if every != planned:
        return
    verifier = Verifier(module, *flags, signature)
    try:
        verifier.verify_storage_reuse()
        if ends:
            verifier.verify_graph_input_output()
    except (InternalError, AssertionError) as error:
        raise VerificationError(f"ExecuTorch's verifier: {error}") from error


def _specs(
    module: GraphModule,
    signature: ExportGraphSignature | None,
    *,
    ignore_mutable_buffers: bool = False,
) -> list[TensorSpec]:
    return list(
        collect_specs_from_nodes(
            module.graph.nodes,
            signature,
            ignore_mutable_buffers=ignore_mutable_buffers,
            ignore_out_var_node=False,
            do_assertion=False,
        )
    )
