"""Files of graphs with many ops: read, planned and checked in memory linear in them."""

from __future__ import annotations

from cpplan import Graph, Op, Residency, Tensor, to_anf
from cpplan.io.graph_json import graph_from_dict, graph_to_dict
from cpplan.verification import around, footprint
from cpplan.verification.access_trace import replay


def chain(count: int) -> Graph:
    tensors = [Tensor(f"t{k}", 64 + k % 3) for k in range(count)]
    ops = [Op("op0", outputs=("t0",))]
    ops += [Op(f"op{k}", inputs=(f"t{k - 1}",), outputs=(f"t{k}",)) for k in range(1, count)]
    return Graph("chain", tuple(tensors), tuple(ops))


def test_a_graph_made_in_bulk_is_the_one_made_one_by_one():
    graph = chain(300)
    values = graph_to_dict(graph)
    again = graph_from_dict(values)
    assert again == graph
    values["ops"][7]["cost"] = 0.5  # then each op is made by itself
    assert graph_from_dict(values).op["op7"].cost == 0.5


def test_the_checker_s_bit_sets_are_of_few_ops_at_a_time(monkeypatch):
    """For all ops at once the bit sets would have ops² bits."""
    monkeypatch.setattr(around, "MOST_BITS", 1 << 14)
    monkeypatch.setattr(around, "LEAST_COLUMNS", 16)
    widest = []

    class Watched(footprint.Surroundings):
        def at_or_before(self, chosen):
            widest.append(len(chosen))
            return super().at_or_before(chosen)

    monkeypatch.setattr(footprint, "Surroundings", Watched)
    graph = chain(600)
    demands = replay(to_anf(graph), Residency())
    forced = footprint.forced_live_bytes(graph, Residency(), (), *demands, enough=1 << 40)
    assert forced == 131
    assert (max(widest), sum(widest)) == ((1 << 14) // 600, 600)
