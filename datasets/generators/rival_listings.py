"""Write the files in ``datasets/rivals``: plans as other planners print them.

Needs, in an environment of its own, what ``datasets/README.md`` lists. Run from anywhere:
``python datasets/generators/rival_listings.py``. XLA is run on two small JAX programs, vela on a
TFLite model and TVM and ONNX Runtime on an ONNX model of ``datasets``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

DATASETS = Path(__file__).resolve().parents[1]
TARGET = DATASETS / "rivals"
ONNX = DATASETS / "onnx" / "squeezenet1_1.onnx"
TFLITE = DATASETS / "tflite" / "branches.tflite"

# Five convolutions, each of all features so far, and their gradients.
CONCAT = """
import jax, jax.numpy as jnp

def convolve(x, w):
    numbers = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=numbers)

def loss(weights, x):
    features = [x]
    for w in weights:
        features.append(jax.nn.relu(convolve(jnp.concatenate(features, -1), w)))
    return jnp.square(jnp.concatenate(features, -1).mean((1, 2))).sum()

weights = [jnp.ones((3, 3, 4 + 8 * k, 8)) for k in range(5)]
jax.jit(jax.value_and_grad(loss)).lower(weights, jnp.ones((2, 16, 16, 4))).compile()
"""
# A loop with state, a sort and a branch.
SCAN = """
import jax, jax.numpy as jnp

def step(h, x):
    z = jax.nn.sigmoid(h @ jnp.ones((64, 64)) + x)
    r = jnp.tanh(h * z)
    new = z * h + (1 - z) * r
    return new, (new * 2).sum()

def loss(h, xs):
    last, sums = jax.lax.scan(step, h * 3 + 1, xs)
    ordered = jnp.sort(last @ last.T) + sums.sum()
    one, other = (lambda v: jnp.sin(v) @ v.T), (lambda v: jnp.cos(v) @ v.T)
    return ordered, jax.lax.cond(sums[0] > 0, one, other, last)

jax.jit(loss).lower(jnp.zeros((32, 64)), jnp.zeros((10, 32, 64))).compile()
"""
RUN_KEYS = ("mem_bytes_requested_in_use", "mem_requested_in_use_delta", "mem_arena_held")


def dump_xla(name: str, program: str) -> None:
    """Both listings of the function ``loss``; names of source files are not in them."""
    with tempfile.TemporaryDirectory() as folder:
        flags = f"--xla_dump_to={folder} --xla_dump_hlo_as_text"
        environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
        subprocess.run([sys.executable, "-c", program], env=environment, check=True)
        for kind in ("buffer-assignment", "live-range"):
            (listing,) = Path(folder).glob(f"*jit_loss*-{kind}.txt")
            # Below the live ranges, the peak is told again as a tree.
            text = listing.read_text().partition("  Stack trace breakdown")[0]
            (TARGET / f"xla_{name}-{kind}.txt").write_text(text)


def run_vela(name: str, *options: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = ["vela", str(TFLITE), "--verbose-allocation", "--output-dir", folder, *options]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    tables = re.search(r"#{20}.*Allocation[^\n]*\n", printed, re.DOTALL)
    assert tables is not None
    (TARGET / f"{name}.txt").write_text(tables[0])


def relax_text(source: Path) -> str:
    """The function that TVM's Relax makes of an ONNX model, with its storages planned, as text.

    Relax legalises and fuses the ops, so that the tensors are its own; then
    ``StaticPlanBlockMemory`` plans their storages.
    """
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    from cpplan.io.onnx.model import load_model

    passes = relax.transform
    planned = tvm.transform.Sequential(
        [
            passes.DecomposeOpsForInference(),
            passes.LegalizeOps(),
            passes.AnnotateTIROpPattern(),
            passes.FoldConstant(),
            passes.FuseOps(),
            passes.FuseTIR(),
            passes.ToNonDataflow(),
            passes.RemovePurityChecking(),
            passes.CallTIRRewrite(),
            passes.StaticPlanBlockMemory(),
        ]
    )
    with tvm.target.Target("llvm"):
        module = planned(from_onnx(load_model(source, with_weights=True)))
    text: str = module["main"].script(show_meta=False)
    return text


def plan_relax() -> None:
    (TARGET / f"relax_{ONNX.stem}.txt").write_text(relax_text(ONNX))


def profile_onnxruntime() -> None:
    """Two runs without optimisations; of each kernel's figures, those of the arena."""
    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.enable_profiling = True
    options.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        options.profile_file_prefix = str(Path(folder, "profile"))
        session = onnxruntime.InferenceSession(ONNX, options, providers=["CPUExecutionProvider"])
        inputs = {i.name: np.zeros(i.shape, np.float32) for i in session.get_inputs()}
        for _ in range(2):
            session.run(None, inputs)
        events = json.loads(Path(session.end_profiling()).read_text())
    kept = []
    for event in events:
        args = {key: event["args"][key] for key in RUN_KEYS if key in event["args"]}
        if args or event["name"] == "model_run":
            kept.append({"name": event["name"], "args": args})
    lines = ",\n".join(json.dumps(event) for event in kept)
    (TARGET / f"onnxruntime_{ONNX.stem}.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    TARGET.mkdir(exist_ok=True)
    dump_xla("concat_training", CONCAT)
    dump_xla("scan", SCAN)
    run_vela("vela_branches")
    run_vela("vela_branches_legacy", "--debug-force-legacy-core")
    plan_relax()
    profile_onnxruntime()
