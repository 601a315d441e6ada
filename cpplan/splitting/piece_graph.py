"""The graph of pieces: from a graph and the cuts of its ops follows one graph, with these rules.

*Pieces.* An op with cuts becomes one op a piece, in the place of the op and in lexicographic order
of their intervals; ``conv1[0:8]`` and, along two axes, ``conv1[0:8,4:9]``. All other ops stay
whole.

*Windows.* Along each axis of a tensor that one of the axes cut has a window for, a piece accesses
the window's interval; along all other axes it accesses the whole tensor. An empty interval means
that the piece does not access the tensor at all.

*Bands.* A tensor is cut, along each of its axes, at the ends of all intervals that pieces of its
writer and of its readers access; each product of the parts between is a tensor of its own, a
*band*. It has the tensor's kind, alignment and pools, and bears the intervals of the axes that
have cuts, in the order of the shape: ``t[0:8]``, ``t[0:8,4:9]``. So each piece reads and writes
whole bands, and mostly several; a tensor without cuts keeps its name. Not cut are constants,
tensors of unknown shape or type, elements that are not whole bytes, and storages with views that
have no lines; pieces read them whole, and an op that writes one cannot be cut along an axis of it.

*Equal bands.* The two tensors of an in-place pair, or of a placement, of an op with cuts have the
same cuts along every axis for which a cut axis has the identity as window of both (stride 1,
offset 0, size 1, no table) and both have the same extent, in equal units: their bands correspond
to each other.

*Views.* A tensor and its views are cut alike, unit by unit of the lines that
:mod:`cpplan.splitting.lines` finds, each as far as it shows the storage; a band of a view is a view
of the band of its storage that holds it, and begins there where its first element lies. An interval
that a piece reads is rounded outwards to whole units, and pieces that write an image whose views
are windows have whole windows. Tensors that show a part of an axis of their storage have no equal
bands along it.

*Accumulating axes.* Along one, each piece adds to all bands that the op writes. The first piece
makes ``y+8`` (for band ``y``, where 8 steps of the axis are in it), the next reads it and writes
``y+16``, and the last writes ``y``: all of them the same storage, of which the later are views.

*Costs.* A piece's share of the op's cost is that of its steps: with ``w`` of the op's ``n`` steps
in the pieces before and with it, the costs of these add up to ``cost * w // n`` (``cost * w / n``
where it is a float), so that those of all add up to the op's.

*What carries over.* A piece has copies of all the op's workspaces, whole (``ws[0:8]``); runs after
all pieces of what the op runs after, unless both are cut and it reads what that writes, or a view
made of it, when bands say so; and has those in-place pairs and placements whose bands
correspond. Ops with bodies, and those of a sequence, have no pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from cpplan.model.errors import located
from cpplan.model.graph import Graph, Op
from cpplan.model.pieces import Pieces
from cpplan.model.plan import Plan
from cpplan.program.anf import Program
from cpplan.splitting.bands import Band, Bands, Box, text_of
from cpplan.splitting.lines import Lines
from cpplan.splitting.op_pieces import OpPieces, whole_op
from cpplan.splitting.tensor_cuts import Interval, TensorCuts


@dataclass(frozen=True, slots=True)
class PieceGraph:
    """The graph of pieces, and where in it the ops and tensors of the original graph are.

    Attributes
    ----------
    graph
        The graph of pieces.
    cuts
        The cuts that it follows from.
    pieces
        Op of the original graph -> its pieces' intervals along the axes cut -> name of the piece.
        Whole ops have one, of no interval.
    bands
        Tensor of the original graph that has cuts -> its bands, in the order of the shape.
    source
        Op of the graph of pieces -> the op that it is a piece of.
    part
        Band, or sum so far, -> the tensor that it is a part of, and its intervals there.
    """

    graph: Graph
    cuts: tuple[Pieces, ...]
    pieces: Mapping[str, Mapping[tuple[Interval, ...], str]]
    bands: Mapping[str, tuple[Band, ...]]
    source: Mapping[str, str]
    part: Mapping[str, tuple[str, Box]]


def split_graph(graph: Graph, pieces: Iterable[Pieces], lines: Lines | None = None) -> PieceGraph:
    """The graph of pieces that follows from the cuts of some ops.

    ``lines`` are the axes along which tensors may be cut; found if left out.

    Raises
    ------
    InputError
        If the cuts name an unknown op or axis, leave an axis, or the op cannot be cut so.

    Examples
    --------
    >>> from cpplan.model.axes import Axis, Window
    >>> from cpplan.model.tensor import Tensor
    >>> axis = Axis("rows", 4, (Window("x", 0), Window("y", 0)))
    >>> shape = {"shape": (4, 2), "dtype": "int8"}
    >>> tensors = Tensor("x", kind="input", **shape), Tensor("y", kind="output", **shape)
    >>> graph = Graph("g", tensors, (Op("f", "Relu", ("x",), ("y",), axes=(axis,)),))
    >>> found = split_graph(graph, [Pieces("f", ("rows",), ((1,),))]).graph
    >>> [(op.name, op.inputs, op.outputs) for op in found.ops]
    [('f[0:1]', ('x[0:1]',), ('y[0:1]',)), ('f[1:4]', ('x[1:4]',), ('y[1:4]',))]
    """
    cuts = TensorCuts(graph, pieces, lines)
    bands = Bands(cuts)
    tensors = {tensor.name: tensor for tensor in bands.tensors()}
    names = {
        op.name: {
            intervals: f"{op.name}[{text_of(intervals)}]" if intervals else op.name
            for intervals in cuts.intervals.get(op.name, [()])
        }
        for op in graph.ops
    }
    ops: list[Op] = []
    source: dict[str, str] = {}
    # Sum so far -> the band that it becomes.
    sums: dict[str, str] = {}
    for op in graph.ops:
        after = tuple(
            name
            for other in op.after
            if not _is_followed_by_bands(cuts, other, op)
            for name in names[other].values()
        )
        if op.name not in cuts.axes:
            ops.append(whole_op(op, bands, after))
        else:
            ops.extend(OpPieces(op, cuts, bands, tensors, sums).make(names[op.name], after))
        source.update(dict.fromkeys(names[op.name].values(), op.name))
    all_bands = {
        original: tuple(Band(name, box) for box, name in boxes.items())
        for original, boxes in bands.of.items()
    }
    part = {band: (name, box) for name, found in all_bands.items() for band, box in found}
    part |= {name: part[band] for name, band in sums.items() if band in part}
    pieced = Graph(graph.name, tuple(tensors.values()), tuple(ops))
    return PieceGraph(pieced, cuts.given, names, all_bands, source, part)


def _is_followed_by_bands(cuts: TensorCuts, other: str, op: Op) -> bool:
    """True if both ops are cut, and one reads what the other writes, or a view of it."""
    cut = other in cuts.axes and op.name in cuts.axes
    return cut and reads_from(cuts.graph, op, cuts.graph.op[other])


def as_pieces(plan: Plan, source: Graph | Program) -> tuple[Plan, PieceGraph]:
    """The plan as one of its graph of pieces, in which every op runs whole, and that graph.

    Its bound holds there, too.

    Raises
    ------
    InputError
        If the plan is for another model.
    """
    graph = source.graph if isinstance(source, Program) else source
    with located("the plan is for another model"):
        pieces = split_graph(graph, plan.pieces)
    return replace(plan, pieces=(), copied_bytes=None), pieces


def reads_from(graph: Graph, op: Op, other: Op) -> bool:
    """True if an op reads what another one writes, or a view that is made of it."""
    names = list(op.inputs)
    while names:
        name = names.pop()
        if name in other.outputs:
            return True
        maker = None if graph.is_storage(name) else graph.producer.get(name)
        made_from = [] if maker is None else maker.inputs
        sources = [t for t in made_from if graph.root[t][0] == graph.root[name][0]]
        names += sources if len(sources) == 1 else []
    return False
