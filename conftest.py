"""Doctests of what reads another package's models run where that package is installed."""

from importlib.util import find_spec

import pytest

_NEEDS = {
    "cpplan/io/executorch/*.py": "executorch",
    "cpplan/io/tflite/*.py": "tflite",
    "cpplan/io/torch/*.py": "torch",
    "cpplan/io/tvm/*.py": "tvm",
    **{f"cpplan/zoo/{file}.py": "torch" for file in ("images", "language", "network", "own_*")},
}
collect_ignore_glob = [files for files, package in _NEEDS.items() if find_spec(package) is None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Examples that need torch, in modules that do not."""
    if find_spec("torch") is not None:
        return
    for item in items:
        examples = getattr(getattr(item, "dtest", None), "examples", ())
        if any(example.source == "import torch\n" for example in examples):
            item.add_marker(pytest.mark.skip(reason="cpplan[torch] is not installed"))
