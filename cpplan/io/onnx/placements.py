"""Placements of ONNX's operators that only copy: the table of rules."""

from __future__ import annotations

from cpplan.io.axes.boxes import (
    BoxRule,
    concat_boxes,
    gather_boxes,
    pad_boxes,
    repeat_boxes,
    slice_boxes,
    split_boxes,
)
from cpplan.io.axes.operation import shape_of
from cpplan.io.onnx.axes import pads_before, slice_steps
from cpplan.io.onnx.operation import axis_of

RULES: dict[str, BoxRule] = {
    "Concat": lambda op: concat_boxes(op, axis_of(op, len(shape_of(op.output)), 1)),
    "Expand": repeat_boxes,
    "Gather": lambda op: gather_boxes(op, axis_of(op, len(op.shape()), 0)),
    "Pad": lambda op: pad_boxes(op, pads_before(op)),
    "Slice": lambda op: slice_boxes(op, *slice_steps(op)),
    "Split": lambda op: split_boxes(op, axis_of(op, len(op.shape()), 0), op.input()),
    "Tile": repeat_boxes,
}
