"""The bound "minimum cut", proved again from the flow that a plan carries.

While an op runs, the ops that have run before it form a set ``D`` that is closed under
predecessors: it holds the op's ancestors, but neither the op nor its descendants. A flow starts at
the ancestors (and at present storages), is conserved at every other op, and ends at the op, its
descendants and kept storages. It leaves ``D`` only through storages that an op of ``D`` has begun
and an op outside needs, since all other arcs lead from later ops to earlier ones. So the flow that
arrives is at most the bytes of these storages, in every order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NoReturn

from cpplan.model.certificates import CutFlow
from cpplan.model.errors import VerificationError
from cpplan.model.graph import Graph
from cpplan.model.residency import Residency
from cpplan.verification.access_trace import Access
from cpplan.verification.around import Surroundings
from cpplan.verification.footprint import bytes_in_bodies, with_ends
from cpplan.verification.runs import Run
from cpplan.verification.storages import Storages, relaxed_storages


def minimum_cut_bytes(
    graph: Graph,
    residency: Residency,
    flow: CutFlow,
    accesses: Sequence[Access],
    runs: Sequence[Run],
    ends: tuple[Sequence[str], Sequence[str]] = ((), ()),
    sharing: Collection[str] = (),
) -> int:
    """Bytes that one op needs in every order that runs each op once, as a flow proves.

    If bytes may be shared, the flow passes through the stretches of
    :func:`~cpplan.verification.storages.relaxed_storages`.

    Raises
    ------
    VerificationError
        If the certificate is not a flow.
    """
    if sharing:
        storages = relaxed_storages(graph, residency, sharing, accesses, runs)
    else:
        storages = Storages(graph, residency, repeats=False)
    op, beside = proved_by_flow(storages, with_ends(graph, *ends), flow)
    inside = bytes_in_bodies(graph, accesses, runs)
    own = sum(storages.size[root] for root in storages.accessed[op]) - storages.saved[op]
    return inside.constants + storages.untouched(kept=True) + own + int(inside.most[op]) + beside


def proved_by_flow(
    storages: Storages, predecessors: Sequence[Sequence[int]], flow: CutFlow
) -> tuple[int, int]:
    """Position of the certificate's op, and bytes live while it runs besides those it accesses.

    Raises
    ------
    VerificationError
        Names the part of the certificate that is not a flow.
    """
    ops = storages.graph.ops
    number = {op.name: k for k, op in enumerate(ops)}
    around, here = Surroundings(predecessors), _known(number, flow.op)
    before, after = around.before(here), around.after(here)
    gained, into, out_of = [0] * len(ops), Counter[str](), Counter[str]()
    kept, own, ending = set(storages.kept), set(storages.accessed[here]), 0
    for rows, through, sign, boundary in (
        (flow.begun, into, -1, storages.brought),
        (flow.ended, out_of, 1, kept),
    ):
        for storage, name, amount in rows:
            if storage not in storages.size or storage in own:
                _refuse(f"storage {storage!r} is not one that op {flow.op!r} leaves untouched")
            through[storage] += _positive(amount)
            if name is not None:
                if _known(number, name) not in storages.accessors[storage]:
                    _refuse(f"op {name!r} does not access {storage!r}")
                gained[number[name]] += sign * amount
            elif storage not in boundary:
                _refuse(f"{storage!r} is neither brought nor kept by the caller, as it says")
            else:
                ending += amount if sign > 0 else 0
    for name, earlier, amount in flow.waits:
        one, other = _known(number, name), _known(number, earlier)
        gained[one] -= _positive(amount)
        gained[other] += amount
    idle = around.all_wait((number[name], number[earlier]) for name, earlier, _ in flow.waits)
    if idle is not None:
        _refuse(f"op {ops[idle[0]].name!r} does not wait for {ops[idle[1]].name!r}")
    for storage in {*into, *out_of}:
        if not into[storage] == out_of[storage] <= storages.size[storage]:
            _refuse(
                f"{into[storage]} B flow into {storage!r}, {out_of[storage]} B out of it, and it "
                f"has {storages.size[storage]} B"
            )
    for k, op in enumerate(ops):
        later = k == here or k in after
        if later:
            ending += gained[k]
        elif gained[k] and k not in before:
            _refuse(f"op {op.name!r} does not pass on what flows into it")
    return here, ending


def _known(number: Mapping[str, int], name: str) -> int:
    if name not in number:
        _refuse(f"it names unknown op {name!r}")
    return number[name]


def _positive(amount: object) -> int:
    if type(amount) is not int or amount <= 0:
        _refuse(f"an amount must be a positive number of bytes, not {amount!r}")
    return amount


def _refuse(why: str) -> NoReturn:
    raise VerificationError(f"the certificate is not a valid flow: {why}")
