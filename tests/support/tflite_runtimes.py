"""The runtimes of TFLite models, as tests use them: LiteRT and TFLite Micro."""

from __future__ import annotations

import os
import re
import tempfile
from typing import NamedTuple

import numpy as np
import pytest
from ai_edge_litert import interpreter
from ai_edge_litert import schema_py_generated as schema

RUNS = 3
_NUMPY = {
    getattr(schema.TensorType, name): np.dtype(dtype)
    for name, dtype in (
        ("FLOAT32", "f4"), ("INT8", "i1"), ("INT16", "i2"), ("INT32", "i4"), ("BOOL", "?"),
    )
}  # fmt: skip
# Numbers for one standard deviation: of int8 and int16, as activations are scaled in tests.
_SPREAD = {"i1": 32, "i2": 8192}


class Recorded(NamedTuple):
    """Bytes of the arena that TFLite Micro used."""

    head: int
    tail: int


def draw_inputs(data: bytes) -> list[list[np.ndarray]]:
    """Inputs for some runs, of a standard normal; truth values and counts from its sign."""
    main = schema.ModelT.InitFromPackedBuf(data, 0).subgraphs[0]
    draw, runs = np.random.default_rng(0), []
    for _ in range(RUNS):
        values = []
        for number in main.inputs:
            tensor = main.tensors[number]
            dtype = _NUMPY[tensor.type]
            value = draw.normal(size=tensor.shape) * _SPREAD.get(dtype.str[1:], 1)
            if dtype.kind == "b":
                value = value > 0
            elif dtype.kind == "i":
                value = np.clip(value, np.iinfo(dtype).min, np.iinfo(dtype).max)
            values.append(value.astype(dtype))
        runs.append(values)
    return runs


def litert(
    data: bytes, *, delegates: bool = True, reference: bool = False
) -> interpreter.Interpreter:
    """LiteRT, with its default delegates, which put operators of their own in, or without.

    Its reference kernels, unlike the others, round all shapes alike.
    """
    resolver = interpreter.OpResolverType
    kernels = resolver.AUTO if delegates else resolver.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    made = interpreter.Interpreter(
        model_content=data,
        experimental_op_resolver_type=resolver.BUILTIN_REF if reference else kernels,
    )
    made.allocate_tensors()
    return made


def run_litert(data: bytes, runs: list[list[np.ndarray]], **kernels: bool) -> list[np.ndarray]:
    """Outputs of all runs, one after another, of the kernels of :func:`litert`."""
    made, outputs = litert(data, **kernels), []
    for values in runs:
        for value, entry in zip(values, made.get_input_details(), strict=True):
            made.set_tensor(entry["index"], value)
        made.invoke()
        outputs += [made.get_tensor(entry["index"]) for entry in made.get_output_details()]
    return outputs


def micro(data: bytes, arena: int = 1 << 17):
    """TFLite Micro, which takes the offsets in a file at their word."""
    runtime = pytest.importorskip(
        "tflite_micro.python.tflite_micro.runtime", reason="needs the package tflite-micro"
    )
    return runtime.Interpreter.from_bytes(data, arena_size=arena)


def run_micro(data: bytes, runs: list[list[np.ndarray]], arena: int = 1 << 17) -> list[np.ndarray]:
    """Outputs of all runs, one after another, in an arena of ``arena`` bytes."""
    made, outputs = micro(data, arena), []
    count = len(schema.ModelT.InitFromPackedBuf(data, 0).subgraphs[0].outputs)
    for values in runs:
        for number, value in enumerate(values):
            made.set_input(value, number)
        made.invoke()
        outputs += [np.array(made.get_output(number)) for number in range(count)]
    return outputs


def record(data: bytes, arena: int = 1 << 17) -> Recorded:
    """Bytes of the arena by TFLite Micro's recording allocator, which prints to stderr."""
    made = micro(data, arena)
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            made.print_allocations()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        file.seek(0)
        text = file.read().decode()
    return Recorded(
        *(int(re.findall(rf"allocation {part} (\d+) bytes", text)[-1]) for part in Recorded._fields)
    )


def equal(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return all(map(np.array_equal, one, other)) and len(one) == len(other)
