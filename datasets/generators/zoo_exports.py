"""Graphs of well-known models, inference and training, as torch traces them.

Run by hand, ``python datasets/generators/zoo_exports.py``, in an environment of its own with the
versions in ``datasets/README.md``: others may trace other ops. Nothing is computed but shapes, and
nothing is downloaded. Running it twice changes nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cpplan.io.graph_json import write_graph
from cpplan.io.zoo_names import read_named
from cpplan.model.graph import Graph

FOLDER = Path(__file__).resolve().parents[1] / "zoo"

# File -> the model's name. Training at batch sizes at which activations outweigh the weights.
SOURCES = {
    "resnet18.infer": "zoo://torchvision/resnet18",
    "resnet50.infer": "zoo://torchvision/resnet50",
    "mobilenet_v2.infer": "zoo://torchvision/mobilenet_v2",
    "mobilenet_v3_large.infer": "zoo://torchvision/mobilenet_v3_large",
    "efficientnet_b0.infer": "zoo://torchvision/efficientnet_b0",
    "densenet121.infer": "zoo://torchvision/densenet121",
    "inception_v3.infer": "zoo://torchvision/inception_v3",
    "squeezenet1_1.infer": "zoo://torchvision/squeezenet1_1",
    "shufflenet_v2_x1_0.infer": "zoo://torchvision/shufflenet_v2_x1_0",
    "vit_b_16.infer": "zoo://torchvision/vit_b_16",
    "swin_t.infer": "zoo://torchvision/swin_t",
    "convnext_tiny.infer": "zoo://torchvision/convnext_tiny",
    "nasnetalarge.infer": "zoo://timm/nasnetalarge",
    "unet.infer": "zoo://cpplan/unet",
    "randwire.infer": "zoo://cpplan/randwire",
    "transformer.infer": "zoo://cpplan/transformer",
    "gpt2.infer": "zoo://transformers/gpt2",
    "bert-base.infer": "zoo://transformers/bert-base",
    "t5-small.infer": "zoo://transformers/t5-small",
    "resnet18.train": "zoo://torchvision/resnet18?batch=32&mode=train",
    "mobilenet_v2.train": "zoo://torchvision/mobilenet_v2?batch=32&mode=train",
    "densenet121.train": "zoo://torchvision/densenet121?batch=32&mode=train",
    "vit_b_16.train": "zoo://torchvision/vit_b_16?batch=8&mode=train",
    "unet.train": "zoo://cpplan/unet?batch=4&mode=train",
    "lstm.train": "zoo://cpplan/lstm?batch=20&length=8&mode=train",
    "transformer.train": "zoo://cpplan/transformer?batch=16&mode=train",
    "gpt2.train": "zoo://transformers/gpt2?batch=4&mode=train",
}


def export(file: str) -> Graph:
    """The graph that belongs into a file."""
    return read_named(SOURCES[file])


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for file in sys.argv[1:] or SOURCES:
        write_graph(export(file), FOLDER / f"{file}.json.gz")


if __name__ == "__main__":
    main()
