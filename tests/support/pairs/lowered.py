"""Cells of ExecuTorch, where cpplan plans as a pass of another compiler."""

from __future__ import annotations

import random

import torch
from support.executorch_models import bytes_of, finish, lower, run, same
from support.pairs.cells import TIME_LIMIT
from support.pairs.options import Cell, fields_of
from support.torch_networks import ROWS, WIDTH, RandomNetwork

from cpplan.io.executorch import planning_pass, verify_program

# Fields of a request that the pass takes.
_TAKEN = ("order", "in_place", "workers", "seed", "deterministic", "algorithm")


def false_program(cell: Cell, number: int) -> list[str]:
    """Everything false about a program that is planned so: its results, its bytes, its repetition.

    Freedoms that are left out never take fewer bytes.
    """
    rng = random.Random(f"executorch {number}")
    torch.manual_seed(number)
    inputs = (torch.randn(ROWS, WIDTH),)
    edge = lower(RandomNetwork(rng), inputs)
    fields = fields_of(cell)
    options = {name: fields[name] for name in _TAKEN}
    planned = finish(edge, planning_pass(**options, time_limit=TIME_LIMIT))
    verify_program(planned)
    finds = []
    if not same(run(planned, inputs), run(finish(edge), inputs)):
        finds.append("the program computes something else")
    if not cell["deterministic"] or cell["algorithm"] is not None:
        return finds
    again = finish(edge, planning_pass(**options, time_limit=TIME_LIMIT))
    if again.buffer != planned.buffer:
        finds.append("the same seed gave another program")
    for name, off in (("order", "given"), ("in_place", False)):
        less = finish(edge, planning_pass(**{**options, name: off}, time_limit=TIME_LIMIT))
        if bytes_of(less) < bytes_of(planned):
            finds.append(f"{bytes_of(planned)} B, but {bytes_of(less)} B with {name}={off!r}")
    return finds
