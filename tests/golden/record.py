"""Writes plans.toml: what every case of cases.toml comes to, and the digest of its plan.

python tests/golden/record.py
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import cpplan

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
DATASETS = HERE.parents[1] / "datasets"


def cases() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Model, name of the setting, and keywords of ``cpplan.solve``, one a case."""
    for case in tomllib.loads((HERE / "cases.toml").read_text())["case"]:
        models, setting = case.pop("models"), case.pop("setting")
        if "pools" in case:
            case["pools"] = [cpplan.Pool(**pool) for pool in case["pools"]]
        for model in models:
            yield model, setting, case


def record(model: str, options: dict[str, Any]) -> dict[str, Any]:
    """Digest, status, peak, bound and cost of one plan."""
    graph = cpplan.load(DATASETS / model)
    plan = cpplan.solve(graph, workers=1, deterministic=True, **options)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.json"
        plan.save(path)
        digest = sha256(path.read_bytes()).hexdigest()
    return {
        "digest": digest,
        "status": plan.status,
        "peak": plan.peak,
        "lower_bound": plan.lower_bound,
        "cost": plan.cost,
    }


def main() -> None:
    """Plan every case, and write what comes of it."""
    lines = ["# Made by record.py; a digest is SHA-256 over the plan's JSON.\n"]
    for model, setting, options in cases():
        start = time.perf_counter()
        found = record(model, options)
        print(f"{model}, {setting}: {time.perf_counter() - start:.2f} s", file=sys.stderr)
        lines.append(f'["{model}, {setting}"]\n')
        for key, value in found.items():
            if value is not None:
                lines.append(f"{key} = {value!r}\n".replace("'", '"'))
        lines.append("\n")
    (HERE / "plans.toml").write_text("".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    main()
