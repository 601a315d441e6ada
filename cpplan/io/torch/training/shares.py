"""Limits given as shares, and graphs that keep theirs only nearly.

A share limits every training graph to this part of its own peak without a plan: graphs are planned
one by one, the first before the others are traced, so that the peak of all is not known. A graph
break may leave a graph of a few ops none of which can be kept in less. It is planned at the least
peak found if the bytes that it misses its share by are few beside all that the process has held.
"""

from __future__ import annotations

import sys

import torch

from cpplan.model.byte_sizes import format_bytes

# Bytes beyond a share are few up to this part of what the process has held at most.
SMALL = 0.01


def is_small(missed: int, process: int) -> bool:
    """True if bytes beyond a share are few beside the peak of the process.

    Examples
    --------
    >>> is_small(1 << 10, 1 << 20), is_small(1 << 15, 1 << 20)
    (True, False)
    """
    return missed <= SMALL * process


def process_peak() -> int:
    """Bytes that this process has held at most, on the host or on one GPU by torch's allocator.

    Where the system does not count what a process holds on the host (Windows), only GPUs count.
    """
    held = [0]
    if sys.platform != "win32":
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        held.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)
    if torch.cuda.is_initialized():
        devices = range(torch.cuda.device_count())
        held += [torch.cuda.max_memory_allocated(device) for device in devices]
    return max(held)


def line_on_missed(name: str, share: str, limit: int, peak: int, process: int) -> str:
    """The line of logging on a graph that misses its share by few bytes.

    Examples
    --------
    >>> line_on_missed("step", "60%", 600, 1000, 1 << 30)
    "step: planned at 1000 B, above its share of 600 B (60%): no schedule within was found, and \
the 400 B beyond it are small beside the process's peak of 1.00 GiB"
    """
    return (
        f"{name}: planned at {format_bytes(peak)}, above its share of {format_bytes(limit)} "
        f"({share}): no schedule within was found, and the {format_bytes(peak - limit)} beyond it "
        f"are small beside the process's peak of {format_bytes(process)}"
    )
