"""Models by name, built and traced: without weights, as shipped, and as modules that run."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="cpplan[zoo] is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")  # of what other packages warn

import cpplan  # noqa: E402
from cpplan.io.graph_json import read_graph  # noqa: E402
from cpplan.io.torch import read_torch  # noqa: E402
from cpplan.io.torch.networks import trace_network  # noqa: E402
from cpplan.model.errors import InputError  # noqa: E402
from cpplan.zoo import build_network, names  # noqa: E402
from cpplan.zoo.network import Network  # noqa: E402
from cpplan.zoo.source import Options  # noqa: E402

DATASETS = Path(__file__).resolve().parents[2] / "datasets"
_SPEC = importlib.util.spec_from_file_location(
    "zoo_exports", DATASETS / "generators" / "zoo_exports.py"
)
exports = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(exports)

OWN = ("unet.infer", "transformer.infer", "transformer.train")
INFER, TRAIN = Options("infer", {}), Options("train", {})


def skip_unless_installed(name):
    """Importing these packages is left to cpplan."""
    family = name.split("/")[2]
    if family != "cpplan" and importlib.util.find_spec(family) is None:
        pytest.skip(f"cpplan[zoo] is not installed: {family} is missing")


def tensors(graph, kind):
    return [tensor for tensor in graph.tensors if tensor.kind == kind]


def test_every_export_is_shipped():
    shipped = {path.name for path in exports.FOLDER.glob("*.json.gz")}
    assert shipped == {f"{file}.json.gz" for file in exports.SOURCES}


@pytest.mark.parametrize(
    "file",
    [pytest.param(f, marks=() if f in OWN else pytest.mark.slow) for f in exports.SOURCES],
)
def test_a_model_is_exported_as_it_is_shipped(file):
    skip_unless_installed(exports.SOURCES[file])
    assert exports.export(file) == read_graph(exports.FOLDER / f"{file}.json.gz")


def test_a_model_is_traced_without_its_weights():
    seen = []

    class Wide(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.Linear(4096, 4096) for _ in range(64))
            seen.extend(layer.weight.is_meta for layer in self.layers)
            self.register_buffer("scale", torch.tensor(3.0))
            self.times = int(self.scale)  # buffers have values

        def forward(self, x):
            for layer in self.layers:
                x = layer(x) * self.times
            return x.square().mean()

    def build():
        return Network(Wide(), (torch.ones(2, 4096),))

    for options in (INFER, TRAIN):
        graph = trace_network(build, "wide", options)
        assert sum(tensor.nbytes for tensor in tensors(graph, "constant")) > 4 << 30
    assert seen == [True] * 128


def test_weights_are_the_same_with_and_without_data():
    network = build_network("zoo://cpplan/transformer?length=16&batch=2")
    program = torch.export.export(network.module, network.inputs)
    assert read_torch(program, name="transformer") == cpplan.load(
        "zoo://cpplan/transformer?length=16&batch=2"
    )


def test_a_module_has_the_same_weights_each_time_and_leaves_the_generator_alone():
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    one, other = (build_network("zoo://cpplan/lstm?length=3") for _ in range(2))
    assert torch.equal(before, torch.random.get_rng_state())
    assert not one.module.training
    assert torch.equal(one.module(*one.inputs), other.module(*other.inputs))
    assert one.module(*one.inputs).shape == (1, 3, 10_000)


def test_a_network_for_training_returns_its_loss():
    network = build_network("zoo://cpplan/lstm?length=3&batch=2&mode=train")
    assert network.module.training
    loss = network.module(*network.inputs)
    assert loss.shape == ()
    assert float(loss.detach()) == pytest.approx(math.log(10_000), rel=0.02)


def test_a_batch_scales_activations_and_nothing_else():
    one, four = (cpplan.load(f"zoo://cpplan/unet?size=32&batch={n}") for n in (1, 4))
    assert [t.nbytes * 4 for t in tensors(one, "intermediate")] == [
        t.nbytes for t in tensors(four, "intermediate")
    ]
    assert tensors(one, "constant") == tensors(four, "constant")


@pytest.mark.slow
def test_randomly_wired_networks_differ_by_seed():
    one, other = (cpplan.load(f"zoo://cpplan/randwire?size=64&seed={n}") for n in (1, 2))
    assert one.ops != other.ops


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lstm?size=3", "lstm has no size: it has batch, length"),
        ("unet?length=3", "unet has no length: it has batch, size"),
        ("unet?size=30", "the model cannot be traced"),
        ("nothing", "no model of cpplan 'nothing': expected lstm, randwire, transformer or unet"),
    ],
)
def test_what_a_model_does_not_take(name, message, capfd):
    with pytest.raises(InputError, match=message) as caught:
        cpplan.load(f"zoo://cpplan/{name}")
    assert str(caught.value).startswith(f"zoo://cpplan/{name}: ")
    assert "\n" not in str(caught.value)
    assert capfd.readouterr().err == ""


def test_there_are_names_of_each_family():
    assert "zoo://cpplan/unet" in names("cpplan")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "torchvision/googlenet?batch=2&mode=train",
        "torchvision/fcn_resnet50?batch=2&size=64&mode=train",
        "torchvision/vit_b_32?size=64",
        "timm/vit_tiny_patch16_224?size=64",
        "transformers/albert-base?length=16&mode=train",
        "transformers/opt-125m?length=16&mode=train",
        "transformers/llama-7b?length=16",
        "transformers/roberta-base?length=512",
    ],
)
def test_models_of_every_family_are_planned(name):
    skip_unless_installed(f"zoo://{name}")
    graph = cpplan.load(f"zoo://{name}")
    plan = cpplan.solve(graph, time_limit=30, workers=1)
    cpplan.verify(graph, plan)
    assert plan.peak >= max(tensor.nbytes for tensor in tensors(graph, "output"))


@pytest.mark.slow
def test_texts_longer_than_a_model_reads_are_refused():
    skip_unless_installed("zoo://transformers")
    for name, longest in {"gpt2": 1024, "roberta-base": 512}.items():
        message = f"length {longest + 1}: {name} reads at most {longest} tokens"
        with pytest.raises(InputError, match=message):
            cpplan.load(f"zoo://transformers/{name}?length={longest + 1}")
