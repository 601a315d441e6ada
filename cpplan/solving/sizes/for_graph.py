"""``plan_sizes``: one plan for a graph at several sizes of its symbolic dimensions.

Offsets are the same at all sizes, so that the plan is one layout (see
``cpplan.packing.sizes.solve``). The bytes of the buffers at a size are those of the graph bound to
its values. Ops run in the same order at all sizes. Aliases in place have the same bytes at every
size, and become one buffer. Placements within other tensors are not used, because their offsets
would change with the size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from cpplan.model.byte_sizes import parse_bytes
from cpplan.model.errors import InputError, located
from cpplan.model.graph import Graph
from cpplan.model.plan_data import Progress
from cpplan.model.printable import quote
from cpplan.model.problem import Problem
from cpplan.model.residency import Residency, choose_residency
from cpplan.packing.problem import as_program
from cpplan.packing.sizes.arenas import Report, SizesObjective
from cpplan.packing.sizes.solve import layout_for_sizes
from cpplan.program.anf import Program
from cpplan.program.binding import bind
from cpplan.program.liveness import to_problem
from cpplan.runtime.deadline import Deadline
from cpplan.runtime.interrupts import holding_interrupts, interrupts_ending
from cpplan.solving.request import Request
from cpplan.solving.run import Run
from cpplan.solving.sizes.choices import choose, merge_related
from cpplan.solving.sizes.results import plan_of, sizes_plan_of
from cpplan.solving.sizes.sizes_plan import SizesPlan, size_label
from cpplan.symbolic.at_values import narrow_to
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
    with interrupts_ending(deadline):
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
        report=_reporter(progress, deadline, objective, limited=any(x is not None for x in limits)),
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
