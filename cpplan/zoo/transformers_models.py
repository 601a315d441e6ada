"""Language models of transformers, in the sizes that their authors published."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from cpplan.model.errors import InputError
from cpplan.zoo.packages import need_packages
from cpplan.zoo.source import MODES, Options
from cpplan.zoo.torchvision_models import import_torchvision

if TYPE_CHECKING:
    from cpplan.zoo.network import Network

__all__ = ["MODES", "OPTIONS", "build", "names"]

OPTIONS: Mapping[str, int | None] = {"batch": 1, "length": 128}

_MASKED, _CAUSAL, _SEQUENCES = "MaskedLM", "CausalLM", "Seq2SeqLM"
# Model -> type of its configuration, task, and the sizes that differ from the type's defaults.
_MODELS: Mapping[str, tuple[str, str, Mapping[str, int]]] = {
    "albert-base": (
        "albert",
        _MASKED,
        {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072},
    ),
    "bart-base": (
        "bart",
        _SEQUENCES,
        {
            "d_model": 768,
            "encoder_layers": 6,
            "decoder_layers": 6,
            "encoder_attention_heads": 12,
            "decoder_attention_heads": 12,
            "encoder_ffn_dim": 3072,
            "decoder_ffn_dim": 3072,
        },
    ),
    "bart-large": ("bart", _SEQUENCES, {}),
    "bert-base": ("bert", _MASKED, {}),
    "bert-large": (
        "bert",
        _MASKED,
        {
            "hidden_size": 1024,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "intermediate_size": 4096,
        },
    ),
    "distilbert-base": ("distilbert", _MASKED, {}),
    "electra-small": ("electra", _MASKED, {}),
    "gpt2": ("gpt2", _CAUSAL, {}),
    "gpt2-medium": ("gpt2", _CAUSAL, {"n_embd": 1024, "n_layer": 24, "n_head": 16}),
    "gpt2-large": ("gpt2", _CAUSAL, {"n_embd": 1280, "n_layer": 36, "n_head": 20}),
    "gpt2-xl": ("gpt2", _CAUSAL, {"n_embd": 1600, "n_layer": 48, "n_head": 25}),
    "llama-7b": ("llama", _CAUSAL, {}),
    "opt-125m": ("opt", _CAUSAL, {}),
    "roberta-base": (
        "roberta",
        _MASKED,
        {"vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1},
    ),
    "t5-small": ("t5", _SEQUENCES, {"decoder_start_token_id": 0}),
    "t5-base": (
        "t5",
        _SEQUENCES,
        {
            "d_model": 768,
            "d_ff": 3072,
            "num_layers": 12,
            "num_heads": 12,
            "decoder_start_token_id": 0,
        },
    ),
}


def names() -> tuple[str, ...]:
    need_packages("torch", "transformers")
    return tuple(_MODELS)


def build(model: str, options: Options) -> Network:
    if find_spec("torchvision") is not None:
        import_torchvision()  # which transformers imports too
    import torch
    import transformers

    from cpplan.zoo.network import LanguageModel, Network

    form, task, sizes = _MODELS[model]
    config = transformers.AutoConfig.for_model(form, use_cache=False, **sizes)
    length = options.number("length")
    longest = _longest(config)
    if longest is not None and length > longest:
        raise InputError(f"length {length}: {model} reads at most {longest} tokens")
    module = getattr(transformers, f"AutoModelFor{task}").from_config(config)
    if task == _CAUSAL:
        module.loss_type = f"For{task}"  # which it would take anyway, with a warning
    tokens = torch.randint(config.vocab_size, (options.number("batch"), length))
    network = LanguageModel(
        module,
        causal=task == _CAUSAL,
        pairs=task == _SEQUENCES,
        training=options.training,
    )
    count = 2 if task == _SEQUENCES or options.training else 1
    return Network(network, tuple(tokens.clone() for _ in range(count)))


def _longest(config: Any) -> int | None:
    """The most tokens for which the model has position weights; ``None`` if not limited."""
    positions: int | None = getattr(config, "max_position_embeddings", None)
    if positions is not None and config.model_type == "roberta":
        return positions - int(config.pad_token_id) - 1  # it counts from there
    return positions
