"""Image of an ONNX model's constants: one block of bytes, each constant at its planned offset."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from cpplan.io.onnx.run import OnnxRun
from cpplan.model.errors import InputError
from cpplan.runtime.atomic import write_bytes
from cpplan.verification.tensor_bytes import to_bytes

if TYPE_CHECKING:
    import onnx

    from cpplan.model.plan import Plan


def write_constants_image(
    plan: Plan,
    path: str | PathLike[str],
    source: str | PathLike[str] | onnx.ModelProto,
    *,
    dims: Mapping[str, int] | None = None,
) -> None:
    """Write the bytes of a model's constants, whole or not at all; see :func:`constants_image`."""
    write_bytes(path, constants_image(source, plan, dims=dims))


def constants_image(
    model: str | PathLike[str] | onnx.ModelProto,
    plan: Plan,
    *,
    dims: Mapping[str, int] | None = None,
) -> bytes:
    """Bytes to load into the pool that holds a plan's constants, before the model runs.

    The image ends with the pool's last constant; bytes between constants are zero. The offset of
    each in it is ``plan.offset_of(name)``.

    Parameters
    ----------
    model
        The model planned, with its weights.
    plan
        A plan with constants in its pools, all in one (``constants="keep"``, or a pool of kind
        ``constant``).
    dims
        Extents of symbolic dimensions, the same as for the plan.

    Raises
    ------
    InputError
        If the plan places no constants, or in several pools, or is for another model.
    """
    if plan.offset is None:
        raise InputError("the plan holds no offsets")
    run = OnnxRun(model, dims or {}, {}, seed=0, weights="model")
    found = {
        tensor.name: tensor
        for tensor in run.graph.tensors
        if tensor.kind == "constant" and tensor.view_of is None and tensor.name in plan.row
    }
    if not found:
        raise InputError("the plan places no constants: plan with constants='keep'")
    pools = sorted({plan.pool_of(name) for name in found})
    if len(pools) > 1:
        raise InputError(f"the plan places constants in several pools: {', '.join(pools)}")
    places = {name: plan.offset_of(name) for name in found}
    image = np.zeros(max(places[name] + found[name].nbytes for name in found), np.uint8)
    for name, value in run.constants().items():
        if name in found:
            dtype = found[name].dtype
            assert dtype is not None
            raw = to_bytes(np.ascontiguousarray(value), dtype)
            if raw.size != plan.size[plan.row[name]]:
                raise InputError(f"the plan is for another model: {name!r} has {raw.size} B")
            image[places[name] : places[name] + raw.size] = raw
    return image.tobytes()
