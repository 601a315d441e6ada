"""Weights that layers share are held once, and have one gradient."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="cpplan[torch] is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning:copyreg")

from torch import nn  # noqa: E402

from cpplan.io.torch import read_torch, training_module  # noqa: E402


class Language(nn.Module):
    """Scores tokens with the embedding that it reads them with; without tokens after, its loss."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm = nn.Embedding(11, 4), nn.BatchNorm1d(4)
        self.score = nn.Linear(4, 11)
        self.score.weight = self.embed.weight

    def forward(self, tokens):
        return self.score(self.norm(self.embed(tokens)))


class Loss(Language):
    def forward(self, tokens):
        return super().forward(tokens).square().mean()


TOKENS = torch.tensor([3, 1, 7, 3])


def test_a_shared_weight_is_one_constant_under_two_names():
    graph = read_torch(torch.export.export(Language().eval(), (TOKENS,)))
    shared = [t for t in graph.tensors if t.shape == (11, 4)]
    assert [(t.kind, t.view_of) for t in shared] == [
        ("constant", None),
        ("constant", (shared[0].name, 0)),
    ]
    whole = {t.name for t in graph.tensors if t.kind == "constant" and t.view_of is None}
    assert len(whole) == 1 + 1 + 2 + 3  # embedding, bias, the norm's weights and statistics


def test_a_part_of_a_storage_is_a_constant_of_its_own():
    module = nn.Linear(4, 4)
    both = torch.arange(8.0)
    module.bias, module.other = nn.Parameter(both[:4]), nn.Parameter(both[4:])
    graph = read_torch(torch.export.export(module, (torch.ones(2, 4),)))
    assert all(t.view_of is None for t in graph.tensors if t.kind == "constant")


def test_a_shared_weight_has_one_gradient():
    module = Loss()
    joint = training_module(module, (TOKENS,))
    parameters = [p.detach().clone() for p in module.parameters()]
    buffers = [b.clone() for b in module.buffers()]
    *_, loss, embed, scale, shift, bias = joint(*parameters, *buffers, TOKENS)
    expected = module(TOKENS)
    expected.backward()
    assert torch.equal(loss, expected)
    assert torch.allclose(embed, module.embed.weight.grad)
    for found, own in ((scale, module.norm.weight), (shift, module.norm.bias)):
        assert torch.allclose(found, own.grad)
    assert torch.allclose(bias, module.score.bias.grad)
