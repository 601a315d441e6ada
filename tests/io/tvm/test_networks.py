"""Networks of the kinds that users have, through TVM's importers: equal bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

tvm = pytest.importorskip("tvm", reason="cpplan[tvm] is not installed")

from support.relax_models import (  # noqa: E402
    Model,
    built,
    compiled,
    random_values,
    run,
    static_plan_bytes,
)
from tvm import relax  # noqa: E402
from tvm.relax import op  # noqa: E402
from tvm.script import ir as I  # noqa: E402
from tvm.script import relax as R  # noqa: E402
from tvm.script import tirx as T  # noqa: E402

import cpplan.tvm  # noqa: E402

PLANS = ({}, {"order": "search", "in_place": True})


def check(module, inputs: list[np.ndarray]) -> list[int]:
    """Peaks of the function ``main`` with each set of options; results equal each time."""
    expected = [(each.shape, each.tobytes()) for each in run(compiled(module), inputs)]
    peaks = []
    for options in PLANS:
        planned = compiled(module, cpplan.tvm.pipeline(**options))
        for _ in range(2):
            found = [(each.shape, each.tobytes()) for each in run(planned, inputs)]
            assert found == expected
        (main,) = (each for each in cpplan.tvm.last_plans() if each.name == "main")
        # Without a plan, the whole network is one kernel.
        peaks.append(0 if main.plan is None else main.plan.peak)
    return peaks


def training_step() -> Model:
    """Gradients of a loss by TVM's own differentiation."""

    def loss(builder, x, w, v, wanted):
        hidden = builder.emit(op.nn.relu(op.matmul(x, w)))
        error = builder.emit(op.subtract(op.matmul(hidden, v), wanted))
        return op.sum(op.multiply(error, error))

    shapes = (8, 16), (16, 32), (32, 4), (8, 4)
    module = built(loss, *shapes)
    weights = list(module["main"].params[1:3])
    module = relax.transform.Gradient("main", require_grads=weights)(module)
    adjoint = module["main_adjoint"].with_attr("global_symbol", "main")
    return tvm.IRModule({"main": adjoint}), random_values(*shapes)


def attention(builder, x, keys, values):
    """A token's attention over a cache that it extends; the cache is an output."""
    keys = builder.emit(op.concat([keys, x], axis=0))
    values = builder.emit(op.concat([values, op.tanh(x)], axis=0))
    scores = builder.emit(op.matmul(x, op.permute_dims(keys)))
    found = builder.emit(op.matmul(op.nn.softmax(scores), values))
    return builder.emit(relax.Tuple([op.add(found, x), relax.Tuple([keys, values])]))


def fixed_cache() -> Model:
    shapes = (1, 8), (5, 8), (5, 8)
    return built(attention, *shapes), random_values(*shapes)


RELAX = {"training step": training_step, "cache": fixed_cache}


@pytest.mark.parametrize("name", RELAX)
def test_networks_of_relax(name: str) -> None:
    module, inputs = RELAX[name]()
    given, searched = check(module, inputs)
    assert searched <= given <= static_plan_bytes(module)


@I.ir_module
class Decoder:
    """A decoder's step whose cache has any length up to 64."""

    @R.function
    def main(
        x: R.Tensor((1, 8), "float32"),
        keys: R.Tensor(("length", 8), "float32"),
        values: R.Tensor(("length", 8), "float32"),
    ):
        length = T.int64()  # noqa: F841
        R.func_attr({"tir_var_upper_bound": {"length": 64}, "tir_var_lower_bound": {"length": 1}})
        with R.dataflow():
            k = R.concat((keys, x), axis=0)
            v = R.concat((values, R.tanh(x)), axis=0)
            scores = R.matmul(x, R.permute_dims(k))
            found = R.matmul(R.nn.softmax(scores), v)
            y = R.add(R.nn.relu(R.add(found, x)), x)
            R.output(y, k, v)
        return (y, (k, v))


@pytest.mark.parametrize("steps", [1, 7])
def test_cache_of_a_decoder_grows_step_by_step(steps: int) -> None:
    """The caches leave the function; what is between lies in one storage for every length."""
    usual = compiled(Decoder)
    planned = compiled(Decoder, cpplan.tvm.pipeline(order="search", in_place=True, steps=steps))
    (found,) = cpplan.tvm.last_plans()
    assert found.plan.peak > 0
    assert len(found.steps) == steps
    x, k, v = random_values((1, 8), (1, 8), (1, 8))
    for _ in range(64):
        y, *cache = run(planned, [x, k, v])
        for mine, theirs in zip((y, *cache), run(usual, [x, k, v]), strict=True):
            assert mine.tobytes() == theirs.tobytes()
        x, (k, v) = y, cache
    assert len(k) == 65


def networks() -> dict[str, Callable]:
    """Modules of torch, each with its inputs, by name."""
    from torch import cat, nn, randn
    from torch.nn import functional as F

    class Net(nn.Module):
        def __init__(self, forward, *layers):
            super().__init__()
            self.layers, self.run = nn.ModuleList(layers), forward

        def forward(self, *inputs):
            return self.run(self.layers, *inputs)

    def residual(n, x):
        y = F.relu(n[1](n[0](x)))
        return F.relu(n[3](n[2](y)) + x)

    def depthwise(n, x):
        y = F.hardswish(n[1](F.silu(n[0](x))))
        return y * F.sigmoid(y.mean((2, 3), keepdim=True)) + x

    def inception(n, x):
        branches = n[0](x), n[1](F.relu(n[0](x))), F.max_pool2d(x, 3, 1, 1)
        return F.relu(n[2](cat(branches, 1)))

    def dense(n, x):
        values = [x]
        for layer in n:
            values.append(F.relu(layer(cat(values, 1))))
        return cat(values, 1)

    def encoder(n, x):
        q, k, v = (n[j](x) for j in range(3))
        y = F.softmax(q @ k.transpose(1, 2) / 4, -1) @ v
        return n[4](F.gelu(n[3](x + y))) + x

    def swiglu(n, x):
        y = x * (x * x).mean(-1, keepdim=True).add(1e-5).rsqrt()
        return n[2](F.silu(n[0](y)) * n[1](y)) + x

    def unet(n, x):
        one = F.relu(n[0](x))
        two = F.relu(n[1](F.max_pool2d(one, 2)))
        up = F.interpolate(two, scale_factor=2.0, mode="nearest")
        return n[2](cat([up, one], 1))

    def perceptron(n, x):
        y = x.flatten(1)
        return F.log_softmax(n[1](F.relu(n[0](y))), -1)

    def two_outputs(n, x):
        y = F.relu(n[0](x))
        return F.avg_pool2d(y, 2), (F.max_pool2d(y, 2), y + 1)

    conv = nn.Conv2d
    image, tokens = randn(1, 8, 8, 8), randn(2, 6, 16)
    return {
        "residual": (Net(residual, conv(8, 8, 3, 1, 1), nn.BatchNorm2d(8), conv(8, 8, 3, 1, 1),
                         nn.BatchNorm2d(8)), image),
        "depthwise": (Net(depthwise, conv(8, 8, 3, 1, 1, groups=8), conv(8, 8, 1)), image),
        "dilated": (Net(lambda n, x: F.relu6(n[0](x)) - x, conv(8, 8, 3, 1, 2, 2)), image),
        "inception": (Net(inception, conv(8, 8, 1), conv(8, 4, 3, 1, 1), conv(20, 8, 1)), image),
        "dense": (Net(dense, *(conv(8 + 4 * k, 4, 3, 1, 1) for k in range(3))), image),
        "transposed": (Net(lambda n, x: F.tanh(n[0](x)), nn.ConvTranspose2d(8, 4, 2, 2)), image),
        "u-net": (Net(unet, conv(8, 4, 3, 1, 1), conv(4, 8, 3, 1, 1), conv(12, 2, 1)), image),
        "encoder": (Net(encoder, *(nn.Linear(16, 16) for _ in range(3)), nn.Linear(16, 32),
                        nn.Linear(32, 16)), tokens),
        "swiglu": (Net(swiglu, nn.Linear(16, 32), nn.Linear(16, 32), nn.Linear(32, 16)), tokens),
        "perceptron": (Net(perceptron, nn.Linear(512, 32), nn.Linear(32, 10)), image),
        "two outputs": (Net(two_outputs, conv(8, 4, 3)), image),
        "layer norm": (Net(lambda n, x: n[1](n[0](x)) + x, nn.LayerNorm(16), nn.Linear(16, 16)),
                       tokens),
    }  # fmt: skip


NAMES = (
    "residual", "depthwise", "dilated", "inception", "dense", "transposed", "u-net", "encoder",
    "swiglu", "perceptron", "two outputs", "layer norm",
)  # fmt: skip


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", NAMES)
def test_networks_of_torch(name: str) -> None:
    torch = pytest.importorskip("torch", reason="cpplan[torch] is not installed")
    from tvm.relax.frontend.torch import from_exported_program

    torch.manual_seed(0)
    net, inputs = networks()[name]
    exported = torch.export.export(net.eval(), (inputs,))
    module = relax.transform.DecomposeOpsForInference()(from_exported_program(exported))
    module = relax.get_pipeline("zero")(module)
    given, searched = check(module, [inputs.numpy()])
    assert searched <= given <= static_plan_bytes(module)


@pytest.mark.parametrize("name", ["relu_chain", "branches"])
def test_networks_of_onnx(name: str) -> None:
    from onnx import TensorProto, helper, numpy_helper
    from tvm.relax.frontend.onnx import from_onnx

    (weights,) = random_values((3, 2, 1, 1))
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("HardSwish" if name == "branches" else "Sigmoid", ["a"], ["c"]),
        helper.make_node("Mul", ["b", "c"], ["d"]),
        helper.make_node("Concat", ["d", "b"], ["y"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 2, 4, 4))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 6, 4, 4))],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    module = relax.transform.DecomposeOpsForInference()(from_onnx(model))
    given, searched = check(module, random_values((1, 2, 4, 4)))
    assert searched <= given <= static_plan_bytes(module)
