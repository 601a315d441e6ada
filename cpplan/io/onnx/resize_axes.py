"""Axes of ONNX's ``Resize`` and ``Upsample``, by the input positions of each output place."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from cpplan.io.axes.operation import NoAxes, Operation, shape_of
from cpplan.io.axes.resizing import between, nearest, resize_axes
from cpplan.model.axes import Axis


def resized_axes(operation: Operation) -> Iterable[Axis]:
    """Axes of a resized image, each with the input positions of every output place."""
    shape, places = operation.shape(), shape_of(operation.output)
    given = operation.attributes
    scales = _scales(operation, len(shape))
    tables: dict[int, list[tuple[int, int]] | None] = {}
    for axis, (extent, count) in enumerate(zip(shape, places, strict=True)):
        scale = scales[axis] if scales else count / extent
        if extent != count or scale != 1:
            tables[axis] = _resized(given, operation.kind, extent, count, scale)
    return resize_axes(operation, tables)


def _scales(operation: Operation, rank: int) -> list[float] | None:
    """Scale of each axis; ``None`` if extents are given instead."""
    given = operation.attributes
    if given.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise NoAxes
    if "scales" in given:
        return list(given["scales"])
    number = 2 if operation.kind == "Resize" and given["opset"] >= 11 else 1
    if number == 2 and operation.has(3):
        return None
    value = operation.value(number)
    if value is None:
        raise NoAxes
    listed = np.asarray(value, np.float64).reshape(-1).tolist()
    scales = [1.0] * rank
    for axis, scale in zip(given.get("axes", range(rank)), listed, strict=True):
        scales[axis] = scale
    return scales


def _resized(
    given: Mapping[str, Any], kind: str, extent: int, places: int, scale: float
) -> list[tuple[int, int]] | None:
    """Input positions of each output place; ``None`` for forms that are not known here.

    A coordinate that is nearly whole may be rounded either way: both positions count. Of a scale
    that is a power of two, coordinates are exact.
    """
    mode = given.get("mode", "nearest")
    newer = kind == "Resize" and given["opset"] >= 11
    form = given.get("coordinate_transformation_mode", "half_pixel") if newer else "asymmetric"
    if mode not in ("nearest", "linear", "bilinear") or given.get("antialias"):
        return None
    if form == "half_pixel" or (form == "pytorch_half_pixel" and places > 1):
        found = [(k + 0.5) / scale - 0.5 for k in range(places)]
    elif form == "asymmetric":
        found = [k / scale for k in range(places)]
    elif form == "align_corners" and places > 1 and places == extent * scale:
        found = [k * (extent - 1) / (places - 1) for k in range(places)]
    else:
        return None
    near = 0.0 if form != "align_corners" and math.frexp(scale)[0] == 0.5 else 1e-6
    if mode != "nearest":
        lower = [math.floor(at - near) for at in found]
        upper = [math.floor(at + near) for at in found]
        low, high = between(lower, extent), between(upper, extent)
        return [(a[0], b[1]) for a, b in zip(low, high, strict=True)]
    rounding = given.get("nearest_mode", "round_prefer_floor") if newer else "floor"
    how = {
        "round_prefer_floor": lambda at: math.ceil(at - 0.5),
        "round_prefer_ceil": lambda at: math.floor(at + 0.5),
        "floor": math.floor,
        "ceil": math.ceil,
    }.get(rounding)
    if how is None:
        return None
    low, high = (nearest([how(at + off) for at in found], extent) for off in (-near, near))
    return [(a[0], b[1]) for a, b in zip(low, high, strict=True)]
