"""``plan_sizes``: one plan for a graph at several sizes of its symbolic dimensions.

Offsets are the same at all sizes, so that the plan is one layout (see
``cpplan.packing.sizes.solve``). The bytes of the buffers at a size are those of the graph bound to
its values. Ops run in the same order at all sizes. Aliases in place have the same bytes at every
size, and become one buffer. Placements within other tensors are not used, because their offsets
would change with the size.

Plans made from a layout for several sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from cpplan.model.byte_sizes import parse_bytes
from cpplan.model.errors import InputError, located
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.model.plan_data import Progress, Status
from cpplan.model.printable import quote
from cpplan.model.problem import Ints, Problem
from cpplan.model.residency import Residency, choose_residency
from cpplan.packing.bounds import lower_bound
from cpplan.packing.problem import as_program
from cpplan.packing.shortfall import explain_shortfall
from cpplan.packing.sizes.arenas import Report, SizesObjective
from cpplan.packing.sizes.size_set import SizesLayout
from cpplan.packing.sizes.solve import layout_for_sizes
from cpplan.program.anf import Program
from cpplan.program.binding import bind
from cpplan.program.liveness import to_problem
from cpplan.runtime.deadline import Deadline
from cpplan.runtime.interrupts import first_interrupt_ending, holding_interrupts
from cpplan.solving.plan_maker import make_plan
from cpplan.solving.request import Request
from cpplan.solving.run import Run
from cpplan.solving.sizes.choices import Choices, choose, merge_related
from cpplan.solving.sizes.sizes_plan import PlannedLevel, PlannedSize, SizesPlan, size_label
from cpplan.symbolic.at_values import narrow_to
from cpplan.symbolic.layout import symbolic_layout
from cpplan.verification.verifier import verify


def plan_sizes(
    source: Graph | Program,
    sizes: Sequence[Mapping[str, int]],
    *,
    time_limit: float = 60.0,
    order: str = "given",
    in_place: bool = False,
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
    """Plan with one offset for every buffer at all given sizes, and the arena needed at each.

    :func:`~cpplan.solve` plans at the bounds of the variables: its plan holds for all smaller
    sizes, but only the arena at the bounds is minimised. This function is for known sizes. Only
    these count, so that variables need no bounds. The topmost buffers, which decide the arenas at
    smaller sizes, are chosen for all of them.

    Parameters
    ----------
    source
        A graph of symbolic sizes, or a program of one.
    sizes
        Values of all variables for each size: ``[{"N": 1}, {"N": 8}]``. A variable with a single
        value within its bounds may be left out.
    time_limit
        Seconds for the whole run; then the best layout so far is returned.
    order
        ``"given"`` keeps the order of the graph or the program. ``"search"`` takes the order that
        needs the fewest bytes with every variable at its largest value.
    in_place
        Let ops overwrite inputs that they read last, where the model allows it. The aliases are
        chosen with every variable at its largest value. (There is no ``placement``: offsets within
        another tensor would change with the size.)
    prefix_stable
        True to minimise also the arena at every size, from the largest to the smallest, each with
        the earlier ones at their minimum. If false, only the first level is minimised.
    objective
        First level: the ``"largest"`` arena, or the worst ``"ratio"`` of an arena to the lower
        bound of that size alone.
    capacities
        Limit on the arena at each size (``262144``, ``"256 KiB"``, ``None`` for no limit). They
        come before all levels.
    inputs, outputs, constants
        Handling of the model's boundary: see :class:`~cpplan.model.residency.Residency`.
    workers
        Threads; by default one a core. With one worker, if the time limit does not end the search,
        the same input and seed give the same plan.
    seed
        Seed of random choices.
    deterministic
        Count work instead of time, with one worker.
    progress
        Called with each improvement: with the largest arena and its bound if that is the first
        level, else with ``None`` for both.

    Returns
    -------
    SizesPlan
        Verified at every size; without offsets if no layout within the capacities was found.
        Bounds hold for its order and its aliases in place.

    Raises
    ------
    InputError
        If an option is not understood, the graph has no variables, or a size lacks a value or has a
        value out of its bounds.

    Examples
    --------
    Both tensors are live together. ``b`` grows less, so it lies below:

    >>> from cpplan.model.graph import Op, Tensor
    >>> from cpplan.model.symbols import Symbols
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
    request = Request(
        time_limit=time_limit, order=order, in_place=in_place, placement=False, objective="total",
        inputs=inputs, outputs=outputs, constants=constants, workers=workers, seed=seed,
        deterministic=deterministic,
    )  # fmt: skip
    budget = request.budget()
    deadline = budget.deadline
    residency = choose_residency(inputs, outputs, constants)
    program, listed = _within_sizes(source, sizes)
    limits = [None if limit is None else parse_bytes(limit) for limit in capacities]
    run = Run(request, budget, residency, request.sharing, target=None, limit=None)
    told = replace(request, progress=progress)
    with first_interrupt_ending(deadline):
        choices = choose(run, program, listed)
    merged = [
        merge_related(_problem(choices.program, values, residency), choices.relations)
        for values in listed
    ]
    problems, rows = [problem for problem, _ in merged], merged[0][1]
    layout = layout_for_sizes(
        problems[0],
        np.array([problem.size for problem in problems]),
        budget,
        prefix_stable=prefix_stable,
        objective=objective,
        capacities=limits,
        labels=[size_label(values) for values in listed],
        report=_reporter(told, deadline, objective, limited=any(x is not None for x in limits)),
    )
    with holding_interrupts() as hold:
        hold()  # check and return the plan even if the user presses Ctrl-C again
        plan = plan_of(run, choices, listed, problems, rows, layout)
        if plan.offset is not None:
            verify(program, plan)
    return sizes_plan_of(layout, listed, plan, deadline.elapsed())


def _within_sizes(
    source: Graph | Program, sizes: Sequence[Mapping[str, int]]
) -> tuple[Program, list[dict[str, int]]]:
    """The program with bounds narrowed to the sizes, and the sizes with variables in order."""
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
        with located(f"size {number}"):
            bind(graph, values)
        listed.append({name: values[name] for name in dims})
    return Program(narrow_to(graph, listed), program.order), listed


def _problem(program: Program, values: Mapping[str, int], residency: Residency) -> Problem:
    return to_problem(Program(bind(program.graph, values), program.order), residency)


def _reporter(
    request: Request, deadline: Deadline, objective: SizesObjective, *, limited: bool
) -> Report:
    def report(values: tuple[int, ...], bounds: tuple[int, ...], source: str) -> None:
        elapsed, level = deadline.elapsed(), int(limited)
        event = Progress(elapsed, None, None, source)
        if objective == "largest":
            event = Progress(elapsed, values[level], bounds[level], source)
        request.tell(event, deadline)

    return report


def plan_of(
    run: Run,
    choices: Choices,
    listed: Sequence[Mapping[str, int]],
    problems: Sequence[Problem],
    rows: Ints,
    layout: SizesLayout,
) -> Plan:
    """Plan of the layout at the size with the largest arena, with its symbolic expressions.

    Parameters
    ----------
    run
        The run.
    choices
        The order, and the aliases in place used.
    listed
        The sizes.
    problems
        The packing problem at each size.
    rows
        Row of every buffer in these problems, shape ``(buffers,)``.
    layout
        The layout of these problems.
    """
    program, relations = choices
    needed: Ints = layout.lower_bound if layout.arena is None else layout.arena
    k = int(np.argmax(needed))
    here = Program(bind(program.graph, listed[k]), program.order)
    packed = run.place(here, layout.alone_offset[k][rows], layout.found_by or "no plan")
    plan = make_plan(packed, run.residency, runtime=layout.runtime or 0.0, history=())
    if relations:
        # The bound holds only without aliases.
        plan = replace(plan, lower_bound=None, bound_by=None, certificate=None)
    if layout.offset is None:
        plan = replace(
            plan, status=layout.status, offset=None, peak=None, found_by=None,
            message=_shortfall(problems, layout),
        )  # fmt: skip
    else:
        peak = int(needed[k])
        status: Status = "optimal" if peak == plan.lower_bound else "feasible"
        plan = replace(
            plan, offset=layout.offset[rows], peak=peak, status=status, relations=relations,
            sharing=("in place",) if relations else (),
        )  # fmt: skip
    found = symbolic_layout(program.graph, plan)
    return replace(plan, symbols=replace(found, sizes=tuple(listed)))


def _shortfall(problems: Sequence[Problem], layout: SizesLayout) -> str:
    """Message for a missing plan: a size that does not fit alone, or the sizes together."""
    for k, capacity in enumerate(layout.capacities):
        bound = lower_bound(problems[k])
        if capacity is not None and bound.value > capacity:
            alone = int(layout.alone[k])
            return f"{layout.labels[k]} {explain_shortfall(problems[k], bound, alone, capacity)}"
    if layout.status == "infeasible":
        return f"no layout is within all capacities: at some size {layout.bound[0]} B are missing"
    return (
        "no layout within all capacities was found in time: at some size the best layout needs "
        f"{layout.value[0]} B more"
    )


def sizes_plan_of(
    layout: SizesLayout, listed: Sequence[Mapping[str, int]], plan: Plan, runtime: float
) -> SizesPlan:
    """Plan for several sizes with the bytes needed at each, and the seconds it took."""
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
