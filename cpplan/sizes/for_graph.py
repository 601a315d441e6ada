"""``plan_sizes``: a graph of symbolic sizes planned for some of them at once.

Offsets stay while sizes change, so what is planned is one layout (see ``cpplan.sizes.planning``) of
the buffers' bytes at each size, which are those of the graph bound to its values. Ops run in one
order at all sizes. No tensor is written over another or within one: the price of that would be a
choice for each size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from cpplan.anf import Program
from cpplan.bounds import lower_bound
from cpplan.byte_sizes import parse_bytes
from cpplan.cores import available_cores
from cpplan.deadline import Deadline
from cpplan.errors import InputError
from cpplan.graph import Graph
from cpplan.interrupts import holding_interrupts
from cpplan.liveness import to_problem
from cpplan.plan import Plan, Progress, Status
from cpplan.printable import quote
from cpplan.problem import Ints, Problem
from cpplan.residency import Residency, choose_residency
from cpplan.search_options import check_search_options
from cpplan.sizes.best_layout import Report
from cpplan.sizes.levels import SizesObjective
from cpplan.sizes.planning import layout_for_sizes
from cpplan.sizes.sizes_layout import SizesLayout
from cpplan.sizes.sizes_plan import PlannedLevel, PlannedSize, SizesPlan, size_label
from cpplan.stages.plan_maker import make_plan
from cpplan.stages.run import Run
from cpplan.stages.shortfall import explain_shortfall
from cpplan.stages.sources import as_program
from cpplan.symbolic.binding import bind
from cpplan.symbolic.layout import symbolic_layout
from cpplan.symbolic.narrowing import narrow_to
from cpplan.verifier import verify

ORDERS = ("given", "search")
# Of the time, for the order of ops.
ORDER_SHARE = 0.4


def plan_sizes(
    source: Graph | Program,
    sizes: Sequence[Mapping[str, int]],
    *,
    time_limit: float = 60.0,
    order: str = "given",
    prefix_stable: bool = False,
    objective: SizesObjective = "largest",
    capacities: Sequence[int | str | None] = (),
    inputs: str = "reuse",
    outputs: str = "keep",
    constants: str | None = None,
    workers: int | None = None,
    seed: int = 0,
    deterministic: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> SizesPlan:
    """One offset for every buffer that holds at several sizes, and the arena needed at each.

    :func:`~cpplan.solve` plans at the bounds of the variables: its plan holds at all sizes below,
    but only the arena at the bounds is made small. Here the sizes that will be used are known. Only
    they count, so that variables need no bounds; and which buffers lie on top, where a smaller size
    leaves bytes free, is chosen with all of them in view. Nothing is done in place or placed within
    another tensor.

    Parameters
    ----------
    source
        A graph of symbolic sizes, or a program of one.
    sizes
        Values of all variables, for each size: ``[{"N": 1}, {"N": 8}]``. One that has a single
        value within its bounds may be left out.
    time_limit
        Seconds for everything; the best layout so far is returned when they are over.
    order
        ``"given"``: ops run in the order in which the graph lists them, or the program has them.
        ``"search"``: in the order that needs the fewest bytes with every variable at its largest.
        All that is proved is for this order.
    prefix_stable
        Go on to minimise the arena at every size, from the largest to the smallest, with what came
        before at its minimum. Otherwise, all but the largest are what the layout happens to need.
    objective
        What comes first: the ``"largest"`` arena, or the worst ``"ratio"`` of an arena to the bytes
        that this size planned alone needs at least.
    capacities
        What the arena may have at each size (``262144``, ``"256 KiB"``, ``None`` for any number of
        bytes). They come before all else.
    inputs, outputs, constants
        What the arena holds of the model's boundary: see :class:`~cpplan.residency.Residency`.
    workers
        Threads; as many as there are cores if left out. With one, and where time does not end the
        search, the same input and seed give the same plan.
    seed
        For random choices.
    deterministic
        Count work instead of time, with one worker.
    progress
        Called with each improvement: of the largest arena and its bound, or with neither where that
        is not what comes first.

    Returns
    -------
    SizesPlan
        Verified at every size; without offsets if none that keep the capacities were found.

    Raises
    ------
    InputError
        If an option is not understood, the graph has no variables, or a size lacks a value or has
        one out of its bounds.

    Examples
    --------
    Both tensors are live together. ``b`` grows less, so it lies below:

    >>> from cpplan.graph import Op, Tensor
    >>> from cpplan.symbols import Symbols
    >>> a = Tensor("a", shape=("100*n",), dtype="int8", kind="input")
    >>> b = Tensor("b", shape=("n + 9",), dtype="int8", kind="output")
    >>> op = Op("f", inputs=("a",), outputs=("b",))
    >>> graph = Graph("g", (a, b), (op,), Symbols({"n": (1, None)}))
    >>> found = plan_sizes(graph, [{"n": 1}, {"n": 11}], prefix_stable=True)
    >>> found.status, [(size.arena, size.alone) for size in found.sizes]
    ('optimal', [(120, 110), (1120, 1120)])
    >>> found.plan.at(n=1).offset("a"), found.plan.at(n=5).shape("a")
    (20, (500,))
    """
    if order not in ORDERS:
        raise InputError(f"order={order!r} is not understood: expected one of {', '.join(ORDERS)}")
    check_search_options(time_limit, workers, seed, deterministic=deterministic)
    deadline = Deadline(time_limit, deterministic=deterministic)
    residency = choose_residency(inputs, outputs, constants)
    threads = 1 if deterministic else workers or available_cores()
    program, listed = _within_sizes(source, sizes)
    limits = [None if limit is None else parse_bytes(limit) for limit in capacities]
    run = Run(
        deadline=deadline, residency=residency, pools=None, objective="total",
        sharing=frozenset(), algorithm=None, goal=None, ceiling=None,
        workers=threads, seed=seed, progress=None,
    )  # fmt: skip
    if order == "search":
        program = _search_order(run, program, listed)
    problems = [_problem(program, values, residency) for values in listed]
    layout = layout_for_sizes(
        problems[0],
        np.array([problem.size for problem in problems]),
        deadline,
        prefix_stable=prefix_stable,
        objective=objective,
        capacities=limits,
        labels=[size_label(values) for values in listed],
        workers=threads,
        seed=seed,
        report=_reporter(progress, deadline, objective, limited=any(x is not None for x in limits)),
    )
    with holding_interrupts() as hold:
        hold()  # what was found is checked and handed out, however impatient the user
        plan = _make_plan(run, program, listed, problems, layout)
        if plan.offset is not None:
            verify(program, plan)
    return _sizes_plan(layout, listed, plan, deadline.elapsed())


def _within_sizes(
    source: Graph | Program, sizes: Sequence[Mapping[str, int]]
) -> tuple[Program, list[dict[str, int]]]:
    """The program with no variable beyond the sizes, and these with variables in one order."""
    program = as_program(source)
    if not isinstance(program, Program):
        raise InputError("plan_sizes needs a graph: a bare problem has no symbolic dimensions")
    graph = program.graph
    if graph.symbols is None:
        raise InputError(f"graph {graph.name!r} has no symbolic dimensions: plan it with solve")
    if isinstance(sizes, (str, Mapping)) or not isinstance(sizes, Sequence) or not sizes:
        raise InputError(f"sizes must be a list of values, as [{{'N': 8}}], not {quote(sizes)}")
    dims = graph.symbols.dims
    single = {
        name: within.lower
        for name, within in dims.items()
        if within.lower is not None and within.lower == within.upper
    }
    listed = []
    for number, given in enumerate(sizes):
        if not isinstance(given, Mapping):
            raise InputError(f"size {number}: expected values, as {{'N': 8}}, not {quote(given)}")
        values = {**single, **given}
        try:
            bind(graph, values)
        except InputError as error:
            raise InputError(f"size {number}: {error}") from error
        listed.append({name: values[name] for name in dims})
    return Program(narrow_to(graph, listed), program.order), listed


def _search_order(run: Run, program: Program, listed: Sequence[Mapping[str, int]]) -> Program:
    """The program in the best order found with every variable at its largest."""
    most = {name: max(values[name] for values in listed) for name in listed[0]}
    largest = Program(bind(program.graph, most), program.order)
    share = run.deadline.share(ORDER_SHARE)
    packed, _ = replace(run, deadline=share).search(largest, (), ())
    if share.cancelled:
        run.deadline.cancel()
    assert isinstance(packed.source, Program)
    return Program(program.graph, packed.source.order)


def _problem(program: Program, values: Mapping[str, int], residency: Residency) -> Problem:
    return to_problem(Program(bind(program.graph, values), program.order), residency)


def _reporter(
    progress: Callable[[Progress], None] | None,
    deadline: Deadline,
    objective: SizesObjective,
    *,
    limited: bool,
) -> Report:
    def report(values: tuple[int, ...], bounds: tuple[int, ...], source: str) -> None:
        if progress is None:
            return
        if objective == "largest":
            level = int(limited)
            progress(Progress(deadline.elapsed(), values[level], bounds[level], source))
        else:
            progress(Progress(deadline.elapsed(), None, None, source))

    return report


def _make_plan(
    run: Run,
    program: Program,
    listed: Sequence[Mapping[str, int]],
    problems: Sequence[Problem],
    layout: SizesLayout,
) -> Plan:
    """The layout as a plan at the size with the largest arena, and what depends on variables."""
    needed: Ints = layout.lower_bound if layout.arena is None else layout.arena
    k = int(np.argmax(needed))
    here = Program(bind(program.graph, listed[k]), program.order)
    packed = run.place(here, layout.alone_offset[k], layout.found_by or "no plan")
    plan = make_plan(packed, run.residency, runtime=layout.runtime or 0.0, history=())
    if layout.offset is None:
        plan = replace(
            plan, status=layout.status, offset=None, peak=None, found_by=None,
            message=_shortfall(problems, layout),
        )  # fmt: skip
    else:
        peak = int(needed[k])
        status: Status = "optimal" if peak == plan.lower_bound else "feasible"
        plan = replace(plan, offset=layout.offset, peak=peak, status=status)
    found = symbolic_layout(program.graph, plan)
    return replace(plan, symbols=replace(found, sizes=tuple(listed)))


def _shortfall(problems: Sequence[Problem], layout: SizesLayout) -> str:
    """Why there is no plan: a size that does not fit alone, or all of them together."""
    for k, capacity in enumerate(layout.capacities):
        bound = lower_bound(problems[k])
        if capacity is not None and bound.value > capacity:
            alone = int(layout.alone[k])
            return f"{layout.labels[k]} {explain_shortfall(problems[k], bound, alone, capacity)}"
    if layout.status == "infeasible":
        return f"no layout is within all capacities: at some size {layout.bound[0]} B are missing"
    return (
        "no layout within all capacities was found in time: at some size the best needs "
        f"{layout.value[0]} B more"
    )


def _sizes_plan(
    layout: SizesLayout, listed: Sequence[Mapping[str, int]], plan: Plan, runtime: float
) -> SizesPlan:
    limits = layout.capacities or (None,) * len(listed)
    sizes = tuple(
        PlannedSize(
            values,
            None if layout.arena is None else int(layout.arena[k]),
            int(layout.lower_bound[k]),
            int(layout.alone[k]),
            int(layout.alone_bound[k]),
            limits[k],
        )
        for k, values in enumerate(listed)
    )
    rows = zip(layout.levels, layout.value, layout.bound, strict=True)
    levels = tuple(PlannedLevel(name, int(value), int(bound)) for name, value, bound in rows)
    return SizesPlan(layout.status, sizes, levels, plan, runtime)
