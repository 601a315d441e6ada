"""Doctests of what reads another package's models run where that package is installed."""

from importlib.util import find_spec

_NEEDS = {
    "cpplan/io/executorch/*.py": "executorch",
    "cpplan/io/tflite/*.py": "tflite",
    "cpplan/io/torch/*.py": "torch",
    **{f"cpplan/zoo/{file}.py": "torch" for file in ("images", "language", "network", "own_*")},
}
collect_ignore_glob = [files for files, package in _NEEDS.items() if find_spec(package) is None]
