"""The guide's table of networks in pieces, from the rows of the study's CSV file.

python tests/support/splitting_table.py    # writes the guide's table anew
"""

from __future__ import annotations

import csv
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROWS = ROOT / "tests/benchmarks/splitting.csv"
PAGE = ROOT / "docs/guide/splitting.md"
MODELS = {
    "unet.infer.json.gz": ("U-Net", "an op in pieces"),
    "mobilenet_v2.onnx": ("MobileNetV2", "the image"),
    "shufflenet_v2_x1_0.infer.json.gz": ("ShuffleNetV2", "the image"),
    "resnet50.infer.json.gz": ("ResNet-50", "the image"),
    "inception_v3.infer.json.gz": ("Inception v3", "the image"),
    "densenet121.infer.json.gz": ("DenseNet-121", "the image"),
    "efficientnet_b0.infer.json.gz": ("EfficientNet-B0", "the image"),
    "convnext_tiny.infer.json.gz": ("ConvNeXt-T", "the image"),
    "vit_b_16.infer.json.gz": ("ViT-B/16", "the image"),
    "swin_t.infer.json.gz": ("Swin-T", "`new_zeros`, which has no axes"),
    "gpt2.infer.json.gz": ("GPT-2, 128 tokens, scores outside", "an op in pieces"),
    "gpt2_1024.infer.json.gz": ("GPT-2, 1,024 tokens, scores outside", "an op in pieces"),
}
"""File -> the network's name, and what needs the bytes of the bound."""

FACTORS = (1.0, 1.02, 1.1, 1.2)


def table() -> str:
    """The table of fewest bytes at four work factors, as Markdown."""
    with ROWS.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    head = ("network", "seconds", "whole", *(f"+{f - 1:.0%}" for f in FACTORS), "bound")
    lines = [
        f"| {' | '.join((*head, 'needed by'))} |",
        "|:---" + "|---:" * len(head[1:]) + "|:---|",
    ]
    for model, (name, need) in MODELS.items():
        of_model = {float(row["at most"]): row for row in rows if row["model"] == model}
        points = [of_model[factor] for factor in FACTORS if factor in of_model]
        if points:
            lines.append(f"| {name} | {_cells(points, of_model)} | {need} |")
    return "\n".join(lines)


def _cells(points: list[dict[str, str]], of_model: dict[float, dict[str, str]]) -> str:
    """Cells of one network: seconds, bytes whole and at each factor, and the bound."""
    first = points[0]
    peaks = (
        f"{int(of_model[factor]['peak']):,}" if factor in of_model else "" for factor in FACTORS
    )
    seconds = " or ".join(sorted({f"{float(row['limit s']):g}" for row in points}))
    return " | ".join((seconds, f"{int(first['whole']):,}", *peaks, f"{int(first['bound']):,}"))


def main() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    made = table().splitlines()
    [first] = [k for k, line in enumerate(lines) if line.startswith("| network |")]
    last = first
    while last < len(lines) and lines[last].startswith("|"):
        last += 1
    lines[first:last] = made
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
