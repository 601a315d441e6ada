"""Storage ids: buffers share whole storages, one after another, without offsets inside.

For runtimes that cannot place a tensor within a block (GPU textures, framework allocators): Relay's
storage tokens, Relax's storages, TFLite's shared objects.

A planner here takes a :class:`~cpplan.model.problem.Problem` and a group label a row, shape
``(n,)``, and
returns a storage number a row, shape ``(n,)``. Buffers that are live together, or whose labels
differ, never get the same number.
"""

from __future__ import annotations

from cpplan.packing.storage_ids.assignment import StorageAssignment
from cpplan.packing.storage_ids.checker import check_assignment
from cpplan.packing.storage_ids.presets import relax_static_plan
from cpplan.packing.storage_ids.solve import ALGORITHMS, share_storages

__all__ = [
    "ALGORITHMS",
    "StorageAssignment",
    "check_assignment",
    "relax_static_plan",
    "share_storages",
]
