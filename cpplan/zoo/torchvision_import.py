"""Import of torchvision, even with a torch that its compiled operators do not fit."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from cpplan.zoo.packages import need_packages


@cache
def import_torchvision() -> Any:
    """Import torchvision, even with a torch that its compiled operators do not fit.

    The import needs the schemas of two operators for detection, which no model here uses.

    Raises
    ------
    MissingExtraError
        If torchvision is not installed.
    """
    need_packages("torch", "torchvision")
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::nms does not exist" not in str(error):
            raise
    import torch

    for name in ("nms", "qnms"):
        schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        torch.library.define(f"torchvision::{name}", schema)
    return importlib.import_module("torchvision")
