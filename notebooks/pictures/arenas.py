"""Draw the picture of the README: the arena of one training step, planned three ways.

Run it where matplotlib is (``.[plot]``); it writes ``arenas.svg`` beside itself.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt

import cpplan
from cpplan.model.byte_sizes import format_bytes

HERE = Path(__file__).parent
MODEL = HERE.parents[1] / "datasets" / "ordering" / "vgg11_training.json"


def draw() -> None:
    """Three arenas side by side, addresses to one scale."""
    mpl.use("agg")
    mpl.rcParams.update({"svg.hashsalt": "cpplan", "font.size": 9, "svg.fonttype": "none"})
    graph = cpplan.load(MODEL)
    options = {"order": "search", "workers": 1}
    plans = {
        "given order": cpplan.solve(graph, workers=1),
        "searched order": cpplan.solve(graph, time_limit=30, **options),
        "two ops run again": cpplan.solve(
            graph, remat=True, cost_limit=1.02, time_limit=30, **options
        ),
    }
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), sharey=True)
    top = max(plan.peak for plan in plans.values())
    for ax, (title, plan) in zip(axes, plans.items(), strict=True):
        cpplan.report.plot_arena(plan, ax)
        ax.get_legend().remove()
        cost = f", +{plan.cost / plan.base_cost - 1:.1%} work" if plan.cost > plan.base_cost else ""
        ax.set_title(f"{title}\n{format_bytes(plan.peak)}{cost}", fontsize=10)
        ax.set_ylim(0, 1.02 * top)
        ax.label_outer()
    figure.tight_layout()
    figure.savefig(HERE / "arenas.svg", metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    draw()
