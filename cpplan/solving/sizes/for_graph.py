"""``plan_sizes``: a graph of symbolic sizes planned for some of them at once.

Offsets retention while sizes change, so what is planned is one layout (see
``cpplan.packing.sizes.solve``) of
the buffers' bytes at each size, which are those of the graph bound to its values. Ops run in one
order at all sizes. What is written in place is one buffer with what it is written over, since both
have the same bytes at every size; nothing is placed within another tensor, where it would move.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from cpplan.model.byte_sizes import parse_bytes
from cpplan.model.errors import InputError, located
from cpplan.model.graph import Graph
from cpplan.model.plan import Progress
from cpplan.model.printable import quote
from cpplan.model.problem import Problem
from cpplan.model.residency import Residency, choose_residency
from cpplan.packing.problem import as_program
from cpplan.packing.sizes.arenas import Report
from cpplan.packing.sizes.levels import SizesObjective
from cpplan.packing.sizes.solve import layout_for_sizes
from cpplan.program.anf import Program
from cpplan.program.binding import bind
from cpplan.program.liveness import to_problem
from cpplan.runtime.deadline import Deadline
from cpplan.runtime.interrupts import holding_interrupts
from cpplan.solving.request import Request
from cpplan.solving.run import Run
from cpplan.solving.sizes.choices import choose, merge_related
from cpplan.solving.sizes.results import plan_of, sizes_plan_of
from cpplan.solving.sizes.sizes_plan import SizesPlan, size_label
from cpplan.symbolic.narrowing import narrow_to
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
    """One offset for every buffer that holds at several sizes, and the arena needed at each.

    :func:`~cpplan.solve` plans at the bounds of the variables: its plan holds at all sizes below,
    but only the arena at the bounds is made small. Here the sizes that will be used are known. Only
    they count, so that variables need no bounds; and which buffers lie on top, where a smaller size
    leaves bytes free, is chosen with all of them in view.

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
    in_place
        Let ops write over what they are the last to read, where the model says that they may: what
        is best with every variable at its largest. (There is no ``placement``: what lies within
        another tensor would move with the size.)
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
        What the arena holds of the model's boundary: see
        :class:`~cpplan.model.residency.Residency`.
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
        Verified at every size; without offsets if none that keep the capacities were found. All
        that is proved is for its order, and for what is done in place in it.

    Raises
    ------
    InputError
        If an option is not understood, the graph has no variables, or a size lacks a value or has
        one out of its bounds.

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
        hold()  # what was found is checked and handed out, however impatient the user
        plan = plan_of(run, choices, listed, problems, rows, layout)
        if plan.offset is not None:
            verify(program, plan)
    return sizes_plan_of(layout, listed, plan, deadline.elapsed())


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
