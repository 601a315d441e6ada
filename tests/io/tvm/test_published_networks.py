"""Published networks, through TVM's importer of torch: the same bits with planned memory."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

tvm = pytest.importorskip("tvm", reason="cpplan[tvm] is not installed")
torch = pytest.importorskip("torch", reason="cpplan[torch] is not installed")

from support.relax_models import compiled, run, static_plan_bytes  # noqa: E402
from tvm import relax  # noqa: E402

import cpplan.tvm  # noqa: E402
from cpplan.zoo.torchvision_models import import_torchvision  # noqa: E402

VISION = (
    "resnet18", "mobilenet_v2", "mobilenet_v3_small", "shufflenet_v2_x0_5", "squeezenet1_1",
    "mnasnet0_5",
)  # fmt: skip
_SIZES = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
}  # fmt: skip
# Two layers of each, with the task.
LANGUAGE: dict[str, tuple[str, dict[str, int]]] = {
    "bert": ("MaskedLM", _SIZES),
    "electra": ("MaskedLM", {**_SIZES, "embedding_size": 32}),
    "albert": ("MaskedLM", {**_SIZES, "embedding_size": 32}),
    "distilbert": ("MaskedLM", {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64}),
    "opt": (
        "CausalLM",
        {
            "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "ffn_dim": 64,
            "word_embed_proj_dim": 32,
        },
    ),
}  # fmt: skip

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("torchvision") is None, reason="cpplan[zoo] is not installed"),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),
]


class Logits(torch.nn.Module):
    """A language model that returns its logits alone."""

    def __init__(self, net: Any):
        super().__init__()
        self.net = net

    def forward(self, tokens: Any) -> Any:
        return self.net(tokens).logits


def check(net: Any, x: Any) -> None:
    """Both plans give TVM's own results; the searched one, results included, is no larger."""
    from tvm.relax.frontend.torch import from_exported_program

    with torch.no_grad():
        exported = torch.export.export(net.eval(), (x,))
    module = relax.transform.DecomposeOpsForInference()(from_exported_program(exported))
    module = relax.get_pipeline("zero")(module)
    expected = [each.tobytes() for each in run(compiled(module), [x.numpy()])]
    peaks = []
    for options in ({}, {"order": "search", "in_place": True, "outputs": "keep"}):
        planned = compiled(module, cpplan.tvm.pipeline(**options))
        assert [each.tobytes() for each in run(planned, [x.numpy()])] == expected
        (main,) = (each for each in cpplan.tvm.last_plans() if each.name == "main")
        peaks.append(main.plan.peak)
    given, kept = peaks
    assert max(given, kept) <= static_plan_bytes(module)


@pytest.mark.parametrize("name", VISION)
def test_networks_of_torchvision(name: str) -> None:
    torch.manual_seed(0)
    check(import_torchvision().models.get_model(name), torch.randn(1, 3, 64, 64))


@pytest.mark.parametrize("form", LANGUAGE)
def test_language_models(form: str) -> None:
    import_torchvision()  # which transformers imports too
    import transformers

    torch.manual_seed(0)
    task, sizes = LANGUAGE[form]
    config = transformers.AutoConfig.for_model(form, vocab_size=64, use_cache=False, **sizes)
    net = getattr(transformers, f"AutoModelFor{task}").from_config(config)
    check(Logits(net), torch.randint(64, (1, 8)))
