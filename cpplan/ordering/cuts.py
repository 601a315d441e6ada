"""A bound on the peak of every order, by minimum cuts: the fewest bytes live while an op runs.

In every order, the ops that run before an op ``u`` form a downset ``D``: closed under predecessors,
with all ancestors of ``u``, without ``u`` and its descendants. The bytes live while ``u`` runs
depend on ``D`` alone: the bytes of the storages that ``u`` accesses, and of the storages that an op
of ``D`` has begun (or that are present) and an op outside ``D`` needs (or that are kept). The
minimum of these bytes over all ``D`` is a minimum cut between the ancestors and ``u`` with its
descendants, ``D`` on the source's side (a closure problem, Picard 1976, with a pair of nodes for
each storage):

* ``v → p`` of unlimited capacity for each predecessor ``p`` of ``v``: if ``v`` has run, so has
  ``p``;
* ``v → begun → ended → v`` for each ``v`` that accesses a storage: the arc in the middle has the
  storage's bytes as capacity and is cut if one of its ops has run and another has not; the other
  arcs have unlimited capacity;
* a storage that is present is begun at the source; one that is kept ends at the sink.

The largest of these minima bounds every order. An op whose live bytes in some order seen are at
most the bound cannot raise it: only the other ops need a cut. Each cut gives a new order: ``D``
first, then ``u``, then the rest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

import numpy as np

from cpplan.model.certificates import CutFlow
from cpplan.model.order_problem import OrderProblem
from cpplan.model.problem import Ints
from cpplan.runtime.deadline import Deadline

NAME = "minimum cut"
# Approximate seconds of a cut for each arc, where time is counted in work.
_SECONDS_PER_ARC = 3e-7
# Approximate longest time of the first cut for each arc, seconds by the clock.
_MOST_SECONDS_PER_ARC = 5e-6
# Links of an op up to which a set of them would only take memory.
_FEW_LINKS = 8


class OrderCuts:
    """Minimum cuts, one op after another, in a search that can be stopped and continued.

    Parameters
    ----------
    problem
        Ops and storages; the precedences have no cycle.
    forced
        Bytes that are live while each op runs, whatever the order, shape ``(ops,)``.
    order
        A valid order to start from: the lower its peak, the fewer ops need a cut.

    Attributes
    ----------
    bounds
        Lower bound on the bytes live while each op runs, in every order, shape ``(ops,)``: the
        minimum cut if it has been computed, else the forced bytes.
    order, peak
        The best order seen, and its peak, bytes.
    """

    def __init__(self, problem: OrderProblem, forced: Ints, order: Sequence[int] | Ints):
        self.problem = problem
        self.bounds: Ints = forced.copy()
        self.order: Ints = np.asarray(order, np.int64)
        self.peak = problem.peak(self.order)
        # Fewest bytes live while each op runs, over all orders seen.
        self._seen = np.empty(len(problem), np.int64)
        self._seen[self.order] = problem.pressure(self.order)
        self._settled = np.zeros(len(problem), bool)
        self._network = CutNetwork(problem)

    @property
    def bound(self) -> int:
        """Lower bound on the peak of every order, bytes; 0 if there are no ops."""
        return int(self.bounds.max(initial=0))

    def run(
        self, deadline: Deadline, *, enough: int | None = None, above: int | None = None
    ) -> None:
        """Cut the ops that may raise the bound, in order of falling bytes.

        It ends at a bound of ``enough`` bytes, or when the next cut may take longer than the time
        left: a cut cannot be stopped once begun. If ``above`` is given, all ops are cut at which
        more bytes than that may be live, unless their bounds are known to be as high as they go.
        """
        longest = _MOST_SECONDS_PER_ARC * self._network.arcs
        while not deadline.expired():
            if not deadline.deterministic and deadline.remaining() <= longest:
                return
            settled = self._settled | ((above is not None) & (self._seen == self.bounds))
            most = np.where(settled, -1, self._seen)
            least = self.bound if above is None else above
            if most.max(initial=-1) <= least or (enough is not None and self.bound >= enough):
                return
            op = int(most.argmax())
            begin = deadline.elapsed()
            self.bounds[op], done = self.least(op)
            longest = max(longest, deadline.elapsed() - begin)
            deadline.spend(_SECONDS_PER_ARC * self._network.arcs)
            self._settled[op] = True
            before, after = self.order[done[self.order]], self.order[~done[self.order]]
            self._see(np.concatenate([before, [op], after[after != op]]))

    def least(self, op: int) -> tuple[int, np.ndarray]:
        """Fewest bytes live while an op runs, and flags of the ops that run before it."""
        return self._network.minimum(op)

    def certificate(self, op: int | None = None) -> CutFlow | None:
        """Flow that proves the bound of an op; ``None`` if ops or storages have no names.

        By default, of the op that proves the bound of all. Only call it when the bound comes from a
        minimum cut.
        """
        problem = self.problem
        if len(problem.names) < len(problem) or len(problem.storages) < len(problem.size):
            return None
        if op is None:
            op = int(np.where(self._settled, self.bounds, -1).argmax())
        return self._network.certificate(op)

    def _see(self, order: Ints) -> None:
        """Record an order: lower the fewest bytes seen for each op, and keep the best order."""
        pressure = self.problem.pressure(order)
        self._seen[order] = np.minimum(self._seen[order], pressure)
        peak = int(pressure.max(initial=0))
        if peak < self.peak:
            self.order, self.peak = order, peak


class CutNetwork:
    """The flow network of a problem; for each op, decided nodes are merged with source or sink.

    Parameters
    ----------
    problem
        Ops and storages; the precedences have no cycle.

    Attributes
    ----------
    arcs
        Number of arcs, the same for every op.
    """

    def __init__(self, problem: OrderProblem):
        self.problem = problem
        self._source, self._sink = len(problem), len(problem) + 1
        self._nodes = len(problem) + 2
        links = [(op, other) for op, before in enumerate(problem.predecessors) for other in before]
        self._waits = len(links)
        begun, ended = [], []
        earlier, later = _quick(problem.predecessors), _quick(problem.successors)
        for storage, ops in enumerate(problem.accessed_by):
            among = set(ops)
            # Only ops that wait for no other op that accesses the storage can access it first.
            first = [op for op in ops if among.isdisjoint(earlier[op])]
            last = [op for op in ops if among.isdisjoint(later[op])]
            begun.append(self._source if problem.present[storage] else self._joined(first))
            ended.append(self._sink if problem.kept[storage] else self._joined(last))
            links += [(op, begun[-1]) for op in first if begun[-1] > self._sink]
            links += [(ended[-1], op) for op in last if ended[-1] > self._sink]
        arcs = np.array([*links, *zip(begun, ended, strict=True)], np.int64)
        self._tails, self._heads = arcs.reshape(-1, 2).T
        self._links = len(links)
        self.arcs = len(self._tails)

    def _joined(self, ops: list[int]) -> int:
        """The op, if there is only one, else a new node that stands for all of them."""
        if len(ops) == 1:
            return ops[0]
        self._nodes += 1
        return self._nodes - 1

    def minimum(self, op: int) -> tuple[int, np.ndarray]:
        """Fewest bytes live while an op runs, over all orders, and flags of the ops run before it.

        Bytes live during the first op only (``entry``) are not counted. The flags have shape
        ``(ops,)``.
        """
        least, done, _ = self._solve(op)
        return least, done

    def certificate(self, op: int) -> CutFlow:
        """Maximum flow of an op's cut, by names of ops and storages.

        Flow through a node that stands for several ops is divided among these ops; if one of them
        is merged with the source or the sink, that op gets all of it.
        """
        problem, (_, _, flow) = self.problem, self._solve(op)
        names, storages = problem.names, problem.storages
        earlier, later = (
            set(_reached(links, op)) for links in (problem.predecessors, problem.successors)
        )
        waits = [
            (names[tail], names[head], amount)
            for tail, head, amount in zip(
                self._tails[: self._waits].tolist(), self._heads.tolist(), flow.tolist(),
                strict=False,
            )
            if amount
        ]  # fmt: skip
        joined: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for k in range(self._waits, self._links):
            tail, head, amount = int(self._tails[k]), int(self._heads[k]), int(flow[k])
            if amount:
                joined[max(tail, head)].append((min(tail, head), amount))
        begun: list[tuple[str, str | None, int]] = []
        ended: list[tuple[str, str | None, int]] = []
        for storage, amount in enumerate(flow[self._links :].tolist()):
            if not amount:
                continue
            arc, accessed = self._links + storage, problem.accessed_by[storage]
            for rows, node, outer, side in (
                (begun, int(self._tails[arc]), self._source, earlier),
                (ended, int(self._heads[arc]), self._sink, later),
            ):
                if node == outer:
                    rows.append((storages[storage], None, amount))
                    continue
                merged = next((accessor for accessor in accessed if accessor in side), None)
                parts = [(merged, amount)] if merged is not None else joined[node]
                if node < len(problem):
                    parts = [(node, amount)]
                rows += [(storages[storage], names[part], size) for part, size in parts]
        return CutFlow(names[op], tuple(begun), tuple(ended), tuple(waits))

    def _solve(self, op: int) -> tuple[int, np.ndarray, Ints]:
        """The results of :meth:`minimum`, and the flow through every arc."""
        from ortools.graph.python.max_flow import SimpleMaxFlow

        problem, source, sink = self.problem, self._source, self._sink
        limit = np.zeros(self.arcs, np.int64)
        limit[: self._links] = int(problem.size.sum()) + 1
        limit[self._links :] = problem.size
        # Storages that the op accesses are live in any case.
        accessed = list(problem.accesses[op])
        limit[self._links + np.array(accessed, np.int64)] = 0
        least = problem.base + int(problem.extra[op]) + int(problem.size[accessed].sum())
        place = np.arange(self._nodes)
        place[_reached(problem.predecessors, op)] = source
        place[[op, *_reached(problem.successors, op)]] = sink
        # A storage that an ancestor accesses has begun; one that a descendant accesses is needed.
        tails, heads = self._tails[: self._links], self._heads[: self._links]
        place[heads[place[tails] == source]] = source
        place[tails[place[heads] == sink]] = sink
        tails, heads = place[self._tails], place[self._heads]
        forced = (tails == source) & (heads == sink)
        least += int(limit[forced].sum())
        open_arcs = (tails != heads) & (heads != source) & (tails != sink) & (limit > 0) & ~forced
        flow = SimpleMaxFlow()
        arcs = flow.add_arcs_with_capacity(tails[open_arcs], heads[open_arcs], limit[open_arcs])
        status = flow.solve(source, sink)
        assert status == flow.OPTIMAL
        done = place == source
        done[flow.get_source_side_min_cut()] = True
        through = np.where(forced, limit, 0)
        through[open_arcs] = flow.flows(arcs)
        return least + flow.optimal_flow(), done[: len(problem)], through


def _quick(links: Sequence[Sequence[int]]) -> list[Collection[int]]:
    """The links of every op, as a set if there are many.

    Two sets are compared in time linear in the smaller one: an op with thousands of predecessors is
    compared with every storage that it accesses.
    """
    return [set(others) if len(others) > _FEW_LINKS else others for others in links]


def _reached(links: Sequence[Sequence[int]], start: int) -> list[int]:
    """Nodes reached from the start along the links, without the start."""
    found = dict.fromkeys(links[start])
    stack = list(found)
    while stack:
        for other in links[stack.pop()]:
            if other not in found:
                found[other] = None
                stack.append(other)
    return list(found)
