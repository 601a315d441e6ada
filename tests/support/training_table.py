"""The tables of measured training steps in the guide, from the rows of the study's CSV files.

python tests/support/training_table.py    # writes the guide's tables anew
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROWS = ROOT / "notebooks/09_training.csv"
INDUCTOR_ROWS = ROOT / "tests/benchmarks/inductor_training.csv"
PAGE = ROOT / "docs/guide/training_measured.md"
MODELS = {
    "llama32": "llama, 32 layers, width 128, 1024 tokens",
    "gpt2_thin": "GPT-2, width 192, dropout, 2 × 256 tokens",
    "gpt2": "GPT-2 small, dropout, 8 × 128 tokens",
    "vit_b_16": "ViT-B/16, 16 images",
    "vit_thin": "ViT of 12 layers, width 192, 4 images",
    "resnet50": "ResNet-50, 8 images",
    "convnext_tiny": "ConvNeXt-T, 4 images",
    "unet": "U-Net, 4 images of 128²",
    "lstm": "LSTM, 2 layers, 16 × 32 words",
}
HEAD = (
    "model", "asked", "measured", "predicted", "operations repeated",
    "PyTorch's least peak at no more of them", "its fewest operations at no more bytes",
    "gradients",
)  # fmt: skip
INDUCTOR_MODELS = {
    "gpt2": "GPT-2, 3 layers, width 192, dropout, 4 × 128 tokens",
    "vit": "ViT, 3 layers, width 192, dropout, 16 images of 112²",
    "convnext": "ConvNeXt, 2 stages, width 48, 8 images of 96²",
    "unet": "U-Net, width 16, 4 images of 96²",
    "lstm": "LSTM, 2 layers, width 128, 16 × 12 words",
    "resnet18": "ResNet-18, 16 images of 96²",
}
INDUCTOR_HEAD = (
    "by inductor", "partition", "measured", "operations repeated", "first and last loss",
    "largest difference of a loss from inductor's own", "from eager torch's",
)  # fmt: skip
MIB = 1 << 20


def table() -> str:
    """The table of steps run in the order of the plan, as Markdown."""
    with ROWS.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["peak"]]
    lines = ["| " + " | ".join(HEAD) + " |", "|---" * len(HEAD) + "|"]
    for model, name in MODELS.items():
        ours = [r for r in rows if r["model"] == model and r["way"].startswith("cpplan")]
        lines += [f"| {name} | {_cells(row, rows)} |" for row in ours]
    return "\n".join(lines)


def inductor_table() -> str:
    """The table of twenty steps run by inductor, as Markdown."""
    with INDUCTOR_ROWS.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    lines = ["| " + " | ".join(INDUCTOR_HEAD) + " |", "|---" * len(INDUCTOR_HEAD) + "|"]
    for model, name in INDUCTOR_MODELS.items():
        lines += [f"| {name} | {_inductor_cells(row)} |" for row in rows if row["model"] == model]
    return "\n".join(lines)


def _inductor_cells(row: dict[str, str]) -> str:
    own = row["way"] == "inductor"
    part = int(row["peak"]) / int(row["eager"])
    return " | ".join(
        (
            "its own" if own else f"cpplan, {_asked(row['way'])}",
            f"{int(row['peak']) / MIB:.1f} MiB ({part:.1%})",
            "" if own else f"{float(row['extra_flops']):.1%}",
            f"{float(row['first_loss']):.4f}, {float(row['last_loss']):.4f}",
            "" if own else _difference(row["loss_difference"]),
            _difference(row["eager_difference"]),
        )
    )


def _difference(text: str) -> str:
    return text if float(text) else "equal"


def _cells(row: dict[str, str], rows: list[dict[str, str]]) -> str:
    theirs = [
        other
        for other in rows
        if other["model"] == row["model"] and other["way"].startswith(("dp", "ilp"))
    ]
    work, peak = float(row["extra_flops"]), int(row["peak"])
    smallest = min(
        (other for other in theirs if float(other["extra_flops"]) <= work),
        key=lambda other: int(other["peak"]),
        default=None,
    )
    cheapest = min(
        (other for other in theirs if int(other["peak"]) <= peak),
        key=lambda other: float(other["extra_flops"]),
        default=None,
    )
    return " | ".join(
        (
            _asked(row["way"]), f"{peak / MIB:.1f} MiB ({_part(row)})",
            f"{int(row['predicted']) / MIB:.1f} MiB", f"{work:.1%}",
            _named(smallest, _part), _named(cheapest, lambda r: f"{float(r['extra_flops']):.1%}"),
            row["gradients"],
        )
    )  # fmt: skip


def _named(row: dict[str, str] | None, value: Callable[[dict[str, str]], str]) -> str:
    if row is None:
        return "none"
    differs = ", wrong gradients" if row["gradients"] == "differ" else ""
    return f"{value(row)} (`{row['way']}`{differs})"


def _asked(way: str) -> str:
    asked = way.removeprefix("cpplan ")
    if asked == "least":
        return "least peak, no operation repeated"
    if asked.startswith("below"):
        return f"98% of PyTorch's `{asked.removeprefix('below ')}`"
    return f"{float(asked):.0%}"


def _part(row: dict[str, str]) -> str:
    return f"{int(row['peak']) / int(row['unplanned']):.1%}"


def main() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    for made in (table(), inductor_table()):
        _replace(lines, made.splitlines())
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _replace(lines: list[str], made: Sequence[str]) -> None:
    """Put a table in the place of the one whose first column has the same head."""
    start = made[0][: made[0].index("|", 1) + 1]
    [first] = [k for k, line in enumerate(lines) if line.startswith(start)]
    last = first
    while last < len(lines) and lines[last].startswith("|"):
        last += 1
    lines[first:last] = made


if __name__ == "__main__":
    main()
