"""The models without weights that the package ``onnx`` carries for its own tests."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from cpplan.zoo.packages import need_packages

OPTIONS: Mapping[str, int | None] = {}
MODES: tuple[str, ...] = ()


def names() -> tuple[str, ...]:
    return tuple(_files())


def path(model: str) -> Path:
    return _files()[model]


def _files() -> dict[str, Path]:
    need_packages("onnx", extra="onnx")
    spec = find_spec("onnx")
    assert spec is not None
    assert spec.origin is not None
    found = Path(spec.origin).parent.glob("backend/test/data/light/light_*.onnx")
    return {path.stem.removeprefix("light_"): path for path in sorted(found)}
