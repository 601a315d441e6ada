"""Memory of ExecuTorch programs planned by ExecuTorch and by cpplan, with results compared.

    python tests/benchmarks/executorch_zoo.py [--seconds 10] [--pixels 64] [MODEL …]

Models are RandWire and those of torchvision, with random weights, for one image. Prints CSV. Bytes
of ExecuTorch's plan (``default``); of cpplan's layout of the same lifetimes (``layout``) and the
bound for that; of cpplan's order, in-place results and layout (``planned``), and the bound for any
order and any choice of these. Each program runs in ExecuTorch's Python runtime; one whose results
differ in any bit, or do not depend on the image, ends the run with an error.
"""

from __future__ import annotations

import argparse
import csv
import sys
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from support.executorch_models import (
    RandWire,
    bytes_of,
    finish,
    lower,
    run,
    same,
    settle,
    torchvision_model,
)

from cpplan.io.executorch import algorithm, planning_pass, verify_program

MODELS = (
    *("randwire", "densenet121", "swin_t", "resnet18", "mobilenet_v2", "mobilenet_v3_small"),
    *("squeezenet1_1", "googlenet", "efficientnet_b0", "convnext_tiny"),
)
PACKAGES = ("cpplan", "executorch", "torch", "torchvision")
COLUMNS = (
    *("model", "buffers", "default", "layout", "layout_bound", "planned", "bound", "status"),
    *("layout_saves", "planned_saves", "over_bound", "seconds", *PACKAGES),
)


def row(name: str, pixels: int, seconds: float) -> dict[str, object]:
    """One model's row of the table; raise unless its three programs give equal results."""
    torch.manual_seed(0)
    shape = (1, 3, pixels, pixels)
    model = RandWire() if name == "randwire" else torchvision_model(name)
    images = [torch.randn(shape) for _ in range(2)]
    edge = lower(settle(model, shape), (images[0],))
    placing = algorithm(time_limit=seconds, workers=1)
    planning = planning_pass(time_limit=seconds, workers=1)
    programs = [finish(edge), finish(edge, placing), finish(edge, planning)]
    for program in programs:
        verify_program(program)
    results = [[run(program, (image,)) for image in images] for program in programs]
    for method, found in zip(("layout", "planned"), results[1:], strict=True):
        if not all(same(a, b) for a, b in zip(results[0], found, strict=True)):
            raise SystemExit(f"{name}: {method}: results differ from the default plan's")
    if same(*results[0]):
        raise SystemExit(f"{name}: results do not depend on the image")
    default, layout, planned = map(bytes_of, programs)
    (placed,), (arranged,) = placing.plans, planning.arrangements
    bound = arranged.lower_bound or 0
    return {
        "model": name,
        "buffers": len(placed.buffers),
        "default": default,
        "layout": layout,
        "layout_bound": placed.lower_bound,
        "planned": planned,
        "bound": bound,
        "status": arranged.status,
        "layout_saves": f"{1 - layout / default:.3f}",
        "planned_saves": f"{1 - planned / default:.3f}",
        "over_bound": f"{planned / bound:.3f}" if bound else "",
        "seconds": f"{arranged.runtime or 0:.1f}",
    } | {package: version(package) for package in PACKAGES}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--pixels", type=int, default=64)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(MODELS)}")
    options = parser.parse_args()
    table = csv.DictWriter(sys.stdout, COLUMNS)
    table.writeheader()
    for name in options.models or MODELS:
        table.writerow(row(name, options.pixels, options.seconds))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
