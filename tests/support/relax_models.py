"""Relax modules for tests: small kinds of networks, and random ones."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op
from tvm.script import relax as R

import cpplan.tvm
from cpplan.io.tvm.passes import PlannedFunction

# A module, and inputs of its function ``main``.
Model = tuple[Any, list[np.ndarray]]

# Options of the planner that modules are tried with.
OPTIONS = (
    {},
    {"in_place": True},
    {"order": "search", "in_place": True},
    {"remat": True, "cost_limit": 1.5, "in_place": True, "time_limit": 2},
)


def random_values(*shapes: tuple[int, ...], seed: int = 0) -> list[np.ndarray]:
    """Arrays of normal random numbers."""
    draw = np.random.default_rng(seed)
    return [draw.standard_normal(shape).astype("float32") for shape in shapes]


def built(body: Callable[..., Any], *shapes: tuple[Any, ...], **attributes: Any) -> Any:
    """A module whose function ``main`` is made by ``body(builder, *parameters)``."""
    builder = relax.BlockBuilder()
    parameters = [relax.Var(f"x{k}", R.Tensor(shape, "float32")) for k, shape in enumerate(shapes)]
    with builder.function("main", parameters, attrs=attributes):
        with builder.dataflow():
            result = builder.emit_output(body(builder, *parameters))
        builder.emit_func_output(result)
    return builder.get()


def branchy() -> Model:
    """Two branches that are joined, and a result that is kept over both."""

    def body(builder, x, w):
        first = builder.emit(op.nn.relu(op.matmul(x, w)))
        left = builder.emit(op.nn.softmax(first))
        right = builder.emit(op.exp(op.negative(first)))
        both = builder.emit(op.concat([left, right], axis=1))
        return op.sum(op.multiply(both, both), axis=[1], keepdims=True)

    return built(body, (4, 32), (32, 32)), random_values((4, 32), (32, 32))


def twice_read() -> Model:
    """Ops that read one tensor twice, and views."""

    def body(builder, x):
        square = builder.emit(op.multiply(x, x))
        again = builder.emit(op.multiply(square, square))
        flat = builder.emit(op.reshape(again, (1, 24)))
        return op.add(op.exp(flat), flat)

    return built(body, (4, 6)), random_values((4, 6))


def several_outputs() -> Model:
    """A split with an unused part, and outputs in nested tuples."""

    def body(builder, x):
        parts = builder.emit(op.split(op.exp(x), 3, axis=1))
        first, last = (builder.emit(relax.TupleGetItem(parts, k)) for k in (0, 2))
        total = builder.emit(op.add(first, last))
        return relax.Tuple([total, relax.Tuple([op.nn.relu(total), first])])

    return built(lambda builder, x: builder.emit(body(builder, x)), (2, 12)), random_values((2, 12))


def random_net(seed: int, ops: int = 12) -> Model:
    """A random network of elementwise ops, products, joins, splits, views and reductions."""
    draw = random.Random(seed)

    def body(builder, x, w):
        values = [x, builder.emit(op.matmul(x, w))]
        for _ in range(ops):
            a, b = draw.choice(values), draw.choice(values)
            made = draw.choice(
                (
                    lambda a, b: op.nn.relu(a),
                    lambda a, b: op.add(a, b),
                    lambda a, b: op.multiply(a, a),
                    lambda a, b: op.nn.softmax(a),
                    lambda a, b: op.permute_dims(op.reshape(a, (8, 4))),
                    lambda a, b: op.reshape(op.permute_dims(op.reshape(a, (8, 4))), (4, 8)),
                    lambda a, b: op.matmul(a, w),
                    lambda a, b: op.strided_slice(op.concat([a, b], 1), [1], [0], [16], [2]),
                    lambda a, b: op.tanh(op.cumsum(a, axis=1)),
                    lambda a, b: relax.TupleGetItem(
                        builder.emit(op.split(op.concat([a, b], 0), 2, axis=0)), 1
                    ),
                    lambda a, b: op.add(a, op.mean(b, axis=[0], keepdims=True)),
                )
            )(a, b)
            made = builder.emit(op.tanh(made))
            if [int(extent) for extent in made.ty.shape.values] != [4, 8]:
                made = builder.emit(op.reshape(made, (4, 8)))
            values.append(made)
        return builder.emit(relax.Tuple([values[-1], draw.choice(values[2:])]))

    return built(body, (4, 8), (8, 8)), random_values((4, 8), (8, 8), seed=seed)


def compiled(module: Any, pipeline: Any = "default") -> relax.VirtualMachine:
    """A virtual machine that runs a module."""
    return relax.VirtualMachine(
        tvm.compile(module, target="llvm", relax_pipeline=pipeline), tvm.cpu()
    )


def without_planner() -> Any:
    """TVM's default pipeline without its planner, which frees storages that branches still need."""
    names = (
        "LegalizeOps", "RewriteDataflowReshape", "ToNonDataflow", "RemovePurityChecking",
        "CallTIRRewrite", "LowerAllocTensor", "KillAfterLastUse", "LowerRuntimeBuiltin",
        "ComputePrimValue", "VMShapeLower", "AttachGlobalSymbol",
    )  # fmt: skip
    return tvm.transform.Sequential([getattr(relax.transform, name)() for name in names])


def arrays(value: Any) -> list[np.ndarray]:
    """The arrays in a result, in nested tuples too."""
    if hasattr(value, "numpy"):
        return [value.numpy()]
    return [array for each in value for array in arrays(each)]


def run(machine: relax.VirtualMachine, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Results of the function ``main``."""
    return arrays(machine["main"](*(tvm.runtime.tensor(each) for each in inputs)))


def static_plan_bytes(module: Any) -> int:
    """Bytes of the storages that TVM's own planner gives the function ``main``."""
    names = (
        "LegalizeOps", "RewriteDataflowReshape", "ToNonDataflow", "RemovePurityChecking",
        "CallTIRRewrite", "StaticPlanBlockMemory",
    )  # fmt: skip
    planned = tvm.transform.Sequential([getattr(relax.transform, name)() for name in names])(module)
    return sum(
        int(binding.value.args[0].values[0])
        for block in planned["main"].body.blocks
        for binding in block.bindings
        if isinstance(binding.value, relax.Call)
        and getattr(binding.value.op, "name", "") == "relax.memory.alloc_storage"
    )


def equal(found: list[np.ndarray], expected: list[np.ndarray]) -> bool:
    """True if all arrays have the same bytes."""
    return [(a.shape, a.tobytes()) for a in found] == [(a.shape, a.tobytes()) for a in expected]


def check(
    module: Any, inputs: list[np.ndarray], *, expected_of: Any = "default", **options: Any
) -> list[PlannedFunction]:
    """Plans of a module that gives the same results with its memory planned and without."""
    expected = run(compiled(module, expected_of), inputs)
    planned = compiled(module, cpplan.tvm.pipeline(**options))
    assert equal(run(planned, inputs), expected)
    # Storages are taken again from the runtime's pool.
    assert equal(run(planned, inputs), expected)
    return list(cpplan.tvm.last_plans())


def storages_of(module: Any, **options: Any) -> int:
    """Number of storages in the planned module."""
    lowered = tvm.transform.Sequential(
        [
            getattr(relax.transform, name)()
            for name in (
                "LegalizeOps", "RewriteDataflowReshape", "ToNonDataflow", "RemovePurityChecking",
                "CallTIRRewrite",
            )
        ]
    )(module)  # fmt: skip
    return cpplan.tvm.PlanMemory(**options)(lowered)["main"].script().count("alloc_storage")
