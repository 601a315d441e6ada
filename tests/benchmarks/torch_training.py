"""Peak memory of training steps against recomputed operations: PyTorch's planner, and ours.

Each way of training runs once in this process, on the CPU, and the bytes that torch's allocator
hands out are counted by its own events. The first step compiles and plans; the second is measured.
Operations are those that ``torch.utils.flop_counter`` knows, and attention on the CPU by its own
formula, in both graphs of a compiled step.
Gradients are compared with those of eager torch. Rows are added to a CSV file one by one, and those
that are there are not measured again.

    python tests/benchmarks/torch_training.py --model gpt2 --csv training.csv
"""

from __future__ import annotations

import argparse
import copy
import csv
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from cpplan.io.torch import last_report
from cpplan.io.torch.costs import formula_of
from cpplan.io.torch.training import backend, compiled_graph
from cpplan.io.torch.training.backend import cpplan
from cpplan.io.torch.training.work import WORKS
from cpplan.io.torch.workspaces import count_allocated
from cpplan.model.errors import CpplanError
from tests.benchmarks.training_models import MODELS

BUDGETS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
# Those of the llama in pytorch/pytorch#197838.
LLAMA_BUDGETS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35)
PARTS = (0.9, 0.7, 0.5, 0.3)
LLAMA_PARTS = (0.9, 0.7, 0.5, 0.4, 0.35, 0.3, 0.25, 0.2)
COLUMNS = (
    "model", "way", "cost", "peak", "unplanned", "predicted", "extra_flops", "extra_work", "bound",
    "least", "gradients", "loss", "seconds",
)  # fmt: skip
# Part of a peak of PyTorch's planner that ours is asked for.
BELOW = 0.98
MIB = 1 << 20


def step(module: nn.Module, called: Callable[..., Any], inputs: tuple) -> torch.Tensor:
    torch.manual_seed(0)
    for weight in module.parameters():
        weight.grad = None
    loss = called(*inputs)
    loss.backward()
    return loss.detach()


def operations_in(module: torch.fx.GraphModule) -> int:
    """Operations of the nodes of a graph module, of those that have a formula."""
    total = 0
    for node in module.graph.nodes:
        formula = formula_of(node.target)
        if formula is not None:
            args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
            total += formula(*args, **kwargs, out_val=node.meta["val"])
    return total


class Operations(TorchDispatchMode):
    """Counts the operations of ops that have a formula while they run."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = op(*args, **kwargs)
        formula = formula_of(op)
        if formula is not None:
            self.total += formula(*args, **kwargs, out_val=result)
        return result


# Graph modules compiled since the last look.
compiled_modules: list[torch.fx.GraphModule] = []


def recorded(module: torch.fx.GraphModule) -> Any:
    compiled_modules.append(module)
    return compiled_graph.boxed(module)


backend.boxed = recorded


class Counted:
    """Operations, bytes and gradients of the second step of a way to train."""

    def __init__(self, module: nn.Module, inputs: tuple, compile_: Callable[[nn.Module], Any]):
        module = copy.deepcopy(module)
        torch._dynamo.reset()
        compiled_modules.clear()
        start = time.process_time()
        called = compile_(module)
        step(module, called, inputs)
        self.seconds = time.process_time() - start
        for weight in module.parameters():
            weight.grad = None
        found = count_allocated(lambda: step(module, called, inputs))
        self.peak = found.most
        self.loss = found.result
        self.gradients = [w.grad.clone() for w in module.parameters() if w.grad is not None]
        if compiled_modules:
            self.operations = sum(map(operations_in, compiled_modules))
        else:
            with Operations() as counter:
                step(module, called, inputs)
            self.operations = counter.total


def policy(context: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    """Selective checkpointing: matrix products and attention are saved."""
    heavy = ("mm", "addmm", "bmm", "convolution", "_scaled_dot_product_flash_attention_for_cpu")
    kept = op._overloadpacket.__name__ in heavy
    return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE


def budgeted(part: float, solver: str) -> Callable[[nn.Module], Any]:
    """PyTorch's planner at a budget of saved bytes."""

    def compiled(module: nn.Module) -> Any:
        from torch._dynamo.backends.common import aot_autograd
        from torch._functorch import config
        from torch._functorch.partitioners import min_cut_rematerialization_partition

        def partition(*args: Any, **kwargs: Any) -> Any:
            changed = {
                "activation_memory_budget": part,
                "activation_memory_budget_solver": solver,
            }
            with config.patch(changed):
                return min_cut_rematerialization_partition(*args, **kwargs)

        run = aot_autograd(
            fw_compiler=lambda graph, inputs: recorded(graph),
            partition_fn=partition,
            # Else it saves statistics of batch norms that the forward pass then overwrites.
            keep_inference_input_mutations=True,
        )
        return torch.compile(module, backend=run)

    return compiled


def planned(settings: dict[str, Any], **limits: Any) -> Callable[[nn.Module], Any]:
    """Our planner within limits on what the step allocates, or on its work."""
    options = {"resident": "outside", **limits, **settings}
    return lambda module: torch.compile(module, backend=cpplan, options=options)


def full(module: Any) -> Any:
    """Every layer is a checkpoint region."""
    module.run = lambda *given: checkpoint(*given, use_reentrant=False)
    return module


def selective(module: Any) -> Any:
    """Every layer is a checkpoint region that saves matrix products."""

    def contexts() -> Any:
        return create_selective_checkpoint_contexts(policy)

    module.run = lambda *given: checkpoint(*given, use_reentrant=False, context_fn=contexts)
    return module


class Table:
    """The rows of a CSV file, to which new ones are added at once."""

    def __init__(self, path: Path):
        self.path = path
        self.rows: list[dict[str, str]] = []
        if path.exists():
            with path.open(newline="", encoding="utf-8") as file:
                self.rows = list(csv.DictReader(file))
        else:
            path.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")

    def has(self, model: str, way: str, cost: str) -> bool:
        return any((r["model"], r["way"], r["cost"]) == (model, way, cost) for r in self.rows)

    def add(self, row: dict[str, Any]) -> None:
        self.rows.append({key: str(row.get(key, "")) for key in COLUMNS})
        with self.path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, COLUMNS, lineterminator="\n").writerow(self.rows[-1])

    def unbeaten(self, model: str) -> Iterator[dict[str, str]]:
        """PyTorch's rows that no row beats: by a lower peak at no more operations repeated."""
        theirs = [row for row in self._measured(model) if row["way"].startswith(("dp", "ilp"))]
        for row in theirs:
            if not any(
                int(other["peak"]) < int(row["peak"])
                and float(other["extra_flops"]) <= float(row["extra_flops"])
                for other in self._measured(model)
            ):
                yield row

    def _measured(self, model: str) -> list[dict[str, str]]:
        return [row for row in self.rows if row["model"] == model and row["peak"]]


def ways(
    name: str, unplanned: int, table: Table, cost: str, settings: dict[str, Any]
) -> Iterator[tuple[str, str, Callable[[nn.Module], Any]]]:
    """Ways to train, each by name and by what its plan makes least; each compiles a module."""
    llama = name.startswith("llama")
    for part in LLAMA_BUDGETS if llama else BUDGETS:
        for solver in ("dp", "ilp"):
            yield f"{solver} {part}", "", budgeted(part, solver)
    if llama or name.startswith("gpt2"):
        yield "full checkpointing", "", full
        yield "selective checkpointing", "", selective
    for part in LLAMA_PARTS if llama else PARTS:
        yield f"cpplan {part}", cost, planned(settings, memory_limit=int(part * unplanned))
    yield "cpplan least", cost, planned(settings, cost_limit=1)
    for row in table.unbeaten(name):
        limit = int(BELOW * int(row["peak"]))
        yield f"cpplan below {row['way']}", cost, planned(settings, memory_limit=limit)


def measure(name: str, table: Table, args: argparse.Namespace) -> None:
    """Measure the ways to train a model that are not in the table."""
    torch.manual_seed(0)
    module, inputs = MODELS[name]()
    torch.backends.mkldnn.set_flags(name != "lstm")
    torch._dynamo.config.allow_rnn = True
    settings = {
        "time_limit": args.time_limit, "deterministic": not args.clock, "cache": False,
        "on_infeasible": "best", "cost": args.cost,
    }  # fmt: skip
    eager = Counted(module, inputs, lambda module: module)
    print(f"{name}: eager {eager.peak / MIB:.1f} MiB, {eager.operations / 1e9:.2f} Gflop")
    for way, cost, compile_ in ways(name, eager.peak, table, args.cost, settings):
        if table.has(name, way, cost) or not way.startswith(tuple(args.ways)):
            continue
        row: dict[str, Any] = {"model": name, "way": way, "cost": cost, "unplanned": eager.peak}
        try:
            found = Counted(module, inputs, compile_)
        except (CpplanError, RuntimeError) as error:
            said = str(error).strip().splitlines()[-1][:120]
            print(f"  {way:24} failed: {said}", flush=True)
            table.add({**row, "gradients": f"failed: {said}"})
            continue
        pairs = list(zip(eager.gradients, found.gradients, strict=True))
        equal = torch.equal(eager.loss, found.loss) and all(torch.equal(a, b) for a, b in pairs)
        close = all(torch.allclose(a, b, 1e-3, 1e-5) for a, b in pairs)
        row |= {
            "peak": found.peak,
            "extra_flops": round(found.operations / eager.operations - 1, 6),
            "gradients": "equal" if equal else "close" if close else "differ",
            "loss": float(found.loss),
            "seconds": round(found.seconds, 1),
        }
        if way.startswith("cpplan"):
            report = last_report()
            row |= {
                "predicted": report.predicted_peak,
                "extra_work": round(report.schedule.extra_work, 6),
                "bound": round(report.schedule.extra_bound, 6),
                "least": report.schedule.least,
            }
        table.add(row)
        print("  " + " ".join(f"{k}={v}" for k, v in row.items() if k != "model"), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", choices=MODELS, action="append")
    parser.add_argument("--time-limit", type=float, default=20, help="for each plan")
    parser.add_argument("--clock", action="store_true", help="seconds by the clock, not by work")
    parser.add_argument("--ways", nargs="*", default=[""], help="only names that begin so")
    parser.add_argument("--cost", choices=WORKS, default="flops", help="what is to be least")
    parser.add_argument("--csv", type=Path, default=Path("training.csv"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    table = Table(args.csv)
    for name in args.model or MODELS:
        measure(name, table, args)


if __name__ == "__main__":
    main()
