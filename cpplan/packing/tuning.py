"""Thresholds, turns and shares of the time of packing."""

from __future__ import annotations

from dataclasses import dataclass

from cpplan.runtime.budget import tuned


@dataclass(frozen=True, slots=True)
class PackingTuning:
    """Thresholds, turns and shares of the time of packing.

    Attributes
    ----------
    many_buffers
        Buffers from which what looks at every pair is left out: other work of that length, or
        compiled loops, will find more.
    grace
        Seconds for the quickest plan where none are left for it.
    soon
        Seconds that a heuristic without loops may take before they are compiled.
    compiling_share
        Of the time left, for compiling before first plans: nearly everything that improves on them
        needs it.
    at_once
        Buffers up to which a plan is made and checked sooner than any compiled loop is loaded.
    most_effort
        Longest turn of all searches, as a multiple of the first.
    nodes_a_buffer
        Nodes of the exact search a buffer in the first turn.
    first_nodes_a_buffer
        The same, before the exact searches first change places; twice as many every time.
    full_share
        Of the most live bytes: where no step has fewer, next to nothing can be wasted anywhere, and
        a corner has one way or two. The niche search is then by far the likeliest to find a packing
        without waste, and others to find nothing.
    full_nodes_a_buffer
        Nodes of the exact search a buffer in the first turn where all steps are that full.
    full_canonical_share
        Of these nodes, for the canonical search.
    probing_nodes_a_buffer
        The same as ``nodes_a_buffer``, of the first look that comes before other searches.
    probing_buffers
        Buffers from which that look comes before most heuristics, which take longer.
    probing_heuristics
        Heuristics that come before it nevertheless.
    work
        CP-SAT's deterministic time for each run of the first turn.
    windows
        Windows of the first turn, where few buffers live at once; fewer, where none helps.
    windows_at_once
        Windows after which others have their turn if the peak is no lower.
    wide_windows
        The same, where many do.
    wheels
        Rounds of first fit outwards from the fullest step in the first turn, where many live at
        once.
    staged_insertions
        Insertions in stages of the first turn, where there are many buffers.
    rules
        Priority rules of the first turn.
    insertions_a_buffer
        Insertions a buffer in the first turn.
    ejections
        Ejections of the first turn.
    rankings_a_buffer
        Rankings a buffer in the first turn.
    slices
        Times that a turn of local search looks up beside other searches.
    few_buffers
        Buffers that CP-SAT mostly settles before anything compiled is loaded.
    cp_sat_at_once
        Buffers above which CP-SAT takes longer to begin than others need for their first turn.
    most_to_eject
        Buffers above which ejection takes seconds to start.
    canonical_share
        Of the nodes, for the canonical search; the niche search, where it applies, has the others.
    insertion_buffers
        Buffers up to which insertion looks at all of them at once.
    canonical_buffers
        Buffers of the canonical search at most: a node looks at every buffer of its component.
    canonical_entries
        Pairs of buffer and section of the canonical search at most.
    niche_buffers
        Buffers of the niche search at most.
    niche_entries
        Pairs of buffer and section of the niche search at most.
    pools_first_moves
        With several pools: moves of hill climbing in the first turn.
    pools_first_liquid_work
        CP-SAT's deterministic time a run on live bytes alone in the first turn: it is much quicker
        there, and what it finds can mostly be packed.
    pools_liquid_runs
        Such runs in one turn, as long as each gains something.
    pools_first_work
        CP-SAT's deterministic time on everything in the first turn.
    pools_ordered_buffers
        Buffers up to which first fit is tried in more orders than the portfolio's: O(n²) each.
    sizes_largest_share
        With several sizes: of all the time, for the largest arena of the layout.
    sizes_alone_share
        Of the rest, for every size alone.
    sizes_moves_a_buffer
        Moves a buffer of local search in the first turn.
    sizes_first_work
        CP-SAT's deterministic time in the first turn.
    sizes_turns_share
        Of the time, for all levels in turns; the rest is for those after the first that is not
        proved.
    sizes_top_pairs
        Pairs of a section and a buffer live in it up to which the topmost buffer is bounded: beyond
        that, tables take a gigabyte.
    sizes_compiled
        Buffers placed that take as long as compiling, which the first use of the loop does.
    section_entries
        Pairs of a section and a buffer live in it up to which CP-SAT places buffers, or shares
        storages: presolve writes one constraint a section, and beyond that needs gigabytes.
    pools_entries
        The same, times the pools, with several pools.
    storages_literals
        Literals up to which CP-SAT shares storages: beyond that it takes minutes to begin.
    storages_improved
        Buffers up to which stages by size are tried, whose tables take gigabytes beyond that.
    window_least, window_lives
        Insertion in windows: buffers that a first window meets, at least, and as a multiple of
        those live on average.
    window_moves, window_wider, window_longer
        Moves in a first window; growth of the buffers and of the moves from one to the next.
    window_step, window_near
        Part of the way from the peak to the target that each aim takes, and part of the target
        within which the aim is the target itself.
    window_tries
        Windows around a buffer after which the aim is raised.
    window_patience
        Windows spent on buffers that a move by force put on top.
    wheel_step, wheel_longest, wheel_shorter
        Squeaky wheel: a limit as a part of the way from the target to the best peak, at first and
        at most; factor of it after a limit that was not met, divisor after one that was.
    wheel_patience
        Rounds in vain after which a limit is given up.
    wheel_blame
        Least and most by which a buffer that found no room comes earlier, as a power of e on its
        size.
    ejection_step, ejection_longest
        Guided ejection: a limit as a part of the way from the best peak to the target, at first and
        at most.
    ejection_longer, ejection_shorter
        Factors of that part after a limit that was met and after one that was not.
    ejection_patience
        Moves a buffer before a limit is given up: where it can be met at all, it mostly is soon.
    ejection_relocations
        Other buffers moved after each one placed.
    insertion_epoch
        Insertion: moves after which weights are halved and a limit out of reach is raised.
    insertion_learning, insertion_tenure
        Weight that an ejection adds to a buffer, and moves for which it is held once placed.
    rule_totals
        Priority rules: weights of totals against width and size, from none to nearly first.
    rule_blurs
        Standard deviations of the noise added to a new rule (logarithms of sizes).
    rule_changes, rule_changed
        The same where a rule of the elite is changed, and parts of the buffers changed there.
    rule_elite
        Rules kept to be changed.
    tie_spreads
        Exact searches: standard deviations of the noise on logarithms of keys that break ties;
        little keeps what is good, much finds what is new.
    canonical_first_nodes
        Canonical search: nodes of each tree in the first round; twice as many every round.
    canonical_limits
        Parts of the way from the smallest limit to the largest that every round tries.
    canonical_kept_bytes
        Bytes of the trees that are kept: all take turns, so that the first serve as well as any.
    wheel_apart
        Mean lifespans between two centres of the squeaky wheel's starts.
    full_steps
        Fullest first: parts of the most live bytes from which a step is full; one pass for each.
    rankings_share
        Of what is left there, for more than one ranking of a part: others are still to be placed.
    placed_rows, shuffled_rows
        Buffers of a part placed after its first ranking, and of these under shuffled rankings.
    shuffled_ranks
        Standard deviations of ranks in shuffled rankings, as parts of their number.
    size_classes
        Classes for each doubling of the size: with many, little is wasted within slots; with few,
        each has about as many buffers live at every step.
    checked
        Time kept for the check of the last plan with all that it claims, as a multiple of the time
        that its offsets take to check.
    """

    many_buffers: int = 2000
    grace: float = 1.0
    soon: float = 1.0
    compiling_share: float = 0.5
    at_once: int = 200_000
    most_effort: int = 4**10
    nodes_a_buffer: int = 500
    first_nodes_a_buffer: int = 10
    full_share: float = 0.999
    full_nodes_a_buffer: int = 10_000
    full_canonical_share: float = 0.01
    probing_nodes_a_buffer: int = 100
    probing_buffers: int = 200
    probing_heuristics: int = 3
    work: float = 0.0025
    windows: int = 1000
    windows_at_once: int = 3
    wide_windows: int = 1
    wheels: int = 60
    staged_insertions: int = 100_000
    rules: int = 50
    insertions_a_buffer: int = 300
    ejections: int = 20_000
    rankings_a_buffer: int = 10
    slices: int = 10
    few_buffers: int = 40
    cp_sat_at_once: int = 150
    most_to_eject: int = 30_000
    canonical_share: float = 0.2
    insertion_buffers: int = 5_000
    canonical_buffers: int = 5_000
    canonical_entries: int = 1_000_000
    niche_buffers: int = 5_000
    niche_entries: int = 1_000_000
    pools_first_moves: int = 40
    pools_first_liquid_work: float = 0.4
    pools_liquid_runs: int = 4
    pools_first_work: float = 0.05
    pools_ordered_buffers: int = 5_000
    sizes_largest_share: float = 0.3
    sizes_alone_share: float = 0.4
    sizes_moves_a_buffer: int = 20
    sizes_first_work: float = 0.02
    sizes_turns_share: float = 0.8
    sizes_top_pairs: int = 2_000_000
    sizes_compiled: int = 20_000
    section_entries: int = 1_000_000
    pools_entries: int = 400_000
    storages_literals: int = 200_000
    storages_improved: int = 10_000
    window_least: int = 300
    window_lives: int = 4
    window_moves: int = 1000
    window_wider: float = 1.5
    window_longer: int = 2
    window_step: float = 0.5
    window_near: float = 0.001
    window_tries: int = 3
    window_patience: int = 60
    wheel_step: float = 0.4
    wheel_longest: float = 0.8
    wheel_shorter: float = 1.5
    wheel_patience: int = 25
    wheel_blame: tuple[float, ...] = (0.5, 1.5)
    ejection_step: float = 0.3
    ejection_longest: float = 0.5
    ejection_longer: float = 1.5
    ejection_shorter: float = 0.5
    ejection_patience: int = 3
    ejection_relocations: int = 1
    insertion_epoch: int = 50_000
    insertion_learning: float = 0.1
    insertion_tenure: int = 2
    rule_totals: tuple[float, ...] = (0.0, 0.1, 1.0, 10.0, 100.0, 1000.0)
    rule_blurs: tuple[float, ...] = (0.0, 0.003, 0.01, 0.03, 0.1)
    rule_changes: tuple[float, ...] = (0.001, 0.003, 0.01, 0.03)
    rule_changed: tuple[float, ...] = (1.0, 0.3, 0.1, 0.01)
    rule_elite: int = 4
    tie_spreads: tuple[float, ...] = (0.05, 0.15, 0.3)
    canonical_first_nodes: int = 500
    canonical_limits: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75)
    canonical_kept_bytes: int = 1 << 28
    wheel_apart: float = 1.5
    full_steps: tuple[float, ...] = (0.75, 0.6, 0.95)
    rankings_share: float = 0.3
    placed_rows: int = 300_000
    shuffled_rows: int = 100_000
    shuffled_ranks: tuple[float, ...] = (0.01, 0.03, 0.1)
    size_classes: tuple[float, ...] = (0.5, 1.0, 2.0)
    checked: float = 2.5


def active() -> PackingTuning:
    """The thresholds and shares in use: the defaults, or those of the call."""
    return tuned(PackingTuning)
