"""Doctests of what reads another package's models run where that package is installed."""

from importlib.util import find_spec

collect_ignore_glob = [
    f"cpplan/io/{folder}/*.py"
    for folder, package in {"tflite": "tflite", "torch": "torch"}.items()
    if find_spec(package) is None
]
