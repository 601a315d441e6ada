"""XLA's listings: whole dumps of real programs, and small ones whose optimum is known by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cpplan.cli.main import main
from cpplan.comparison.baselines import compare_rows
from cpplan.comparison.rivals.xla_dump import read_xla
from cpplan.io import load
from cpplan.model.errors import InputError
from cpplan.model.problem import Gap, Problem
from cpplan.solving.pipeline import solve

RIVALS = Path(__file__).parents[2] / "datasets/rivals"


def listing(folder: Path, allocations: dict[str, dict[str, tuple]], **options) -> Problem:
    """The problem of allocations -> value -> (first step, last step, offset, size)."""
    assignment, ranges = ["BufferAssignment:"], ["HloLiveRange (max 9):", "  BufferLiveRange:"]
    for title, values in allocations.items():
        assignment.append(f"allocation {title}:")
        for name, (first, last, offset, size) in values.items():
            assignment.append(f" value: <1 {name} @0> (size={size},offset={offset}): f32[]")
            key = name.removesuffix(" (phi)")
            ranges.append(f"    {key if '{' in key else key + '{}'}:{first}-{last}")
    return written(folder, "\n".join(assignment) + "\n", "\n".join(ranges) + "\n", **options)


def written(folder: Path, assignment: str, ranges: str, read: str = "buffer-assignment") -> Problem:
    for kind, text in (("buffer-assignment", assignment), ("live-range", ranges)):
        (folder / f"m-{kind}.txt").write_text(text)
    return read_xla(folder / f"m-{read}.txt")


def theirs(problem: Problem):
    return next(r for r in compare_rows(problem, algorithms=[]) if r.algorithm == "xla")


@pytest.mark.parametrize(
    ("name", "buffers", "peak", "ours"),
    # XLA's own heap is 4.3 % and 0.7 % above what is needed.
    [("concat_training", 32, 393216, 376840), ("scan", 13, 33056, 32836)],
)
@pytest.mark.parametrize("kind", ["buffer-assignment", "live-range"])
def test_real_dumps_are_answers_without_overlap(name, buffers, peak, ours, kind):
    problem = load(RIVALS / f"xla_{name}-{kind}.txt")
    assert len(problem) == buffers
    rows = {row.algorithm: row for row in compare_rows(problem, algorithms=[])}
    assert (rows["xla"].bytes, rows["xla"].status) == (peak, "feasible")
    assert (rows["cpplan"].bytes, rows["cpplan"].status) == (ours, "optimal")


def test_only_temporaries_are_packed(tmp_path):
    problem = listing(
        tmp_path,
        {
            "0: size 64, parameter 0, shape |f32[16]| at ShapeIndex {}": {"x": (0, 9, 0, 64)},
            "1: size 16, output shape is |f32[4]|, maybe-live-out": {"y": (3, 9, 0, 16)},
            "2: size 48, preallocated-temp": {"a": (1, 2, 0, 32), "b": (2, 3, 32, 16)},
        },
    )
    assert list(problem.names) == ["a", "b"]
    assert problem.lower.tolist(), problem.upper.tolist() == ([1, 2], [3, 4])
    assert theirs(problem).bytes == 48


def test_what_begins_where_an_operand_ends_shares_its_bytes(tmp_path):
    # c is written over a at step 2; b is read there too, so that only a and c can share.
    values = {"a": (0, 2, 0, 64), "b": (1, 2, 64, 64), "c": (2, 4, 0, 16), "d": (3, 4, 64, 48)}
    problem = listing(tmp_path, {"0: size 128, preallocated-temp": values})
    assert list(problem.names) == ["a", "b", "d"]
    # Of what a and c fill together, c needs the first 16 bytes only.
    assert problem.gaps == {0: [Gap(3, 5, 0, 16)]}
    assert problem.alignment.tolist() == [64, 64, 64]
    assert solve(problem).peak == theirs(problem).bytes == 128


def test_loop_state_stays_in_place_from_one_turn_to_the_next(tmp_path):
    # Nothing holds bytes 0 to 64 at step 3, but the next turn finds its state where this one did.
    values = {
        "init": (0, 1, 0, 64),
        "param{0} (phi)": (1, 2, 0, 64),
        "next": (4, 6, 0, 64),
        "scratch": (3, 3, 64, 64),
    }
    problem = listing(tmp_path, {"0: size 128, preallocated-temp": values})
    assert list(problem.names) == ["init", "scratch"]
    assert problem.gaps == {0: [Gap(3, 4)]}
    # The scratch may lie there: 64 bytes are enough.
    assert solve(problem).peak == 64


def test_an_assignment_that_overlaps_is_invalid(tmp_path):
    for second in ("b", "b{} (phi)"):
        values = {"a": (0, 4, 0, 64), second: (2, 6, 0, 64)}
        problem = listing(tmp_path, {"0: size 64, preallocated-temp": values})
        assert len(problem) == 2
        assert theirs(problem).status == "invalid"


def test_several_heaps_are_pools(tmp_path):
    problem = listing(
        tmp_path,
        {
            "3: size 64, color 0, preallocated-temp": {"a": (0, 1, 0, 64), "b": (2, 3, 0, 64)},
            "7: size 96, color 1, preallocated-temp": {"c": (0, 1, 32, 64), "d": (2, 3, 0, 32)},
        },
    )
    assert [pool.name for pool in problem.pools] == ["temp3", "temp7"]
    row = theirs(problem)
    assert (row.bytes, row.status) == (160, "feasible")
    assert solve(problem).peak == 128


def test_older_versions_append_the_live_ranges(tmp_path):
    name = "xla_scan-{}.txt"
    parts = [(RIVALS / name.format(k)).read_text() for k in ("buffer-assignment", "live-range")]
    both = tmp_path / "old-buffer-assignment.txt"
    older = parts[0].replace("allocation 0: size", "allocation 0: 0x55d0, size")
    both.write_text(older + "\nTotal bytes used: 1 (1B)\n\nUsed values:\n<0 a @0>\n" + parts[1])
    new = read_xla(RIVALS / name.format("live-range"))
    old = read_xla(both)
    assert old.names == new.names
    assert np.array_equal(old.lower, new.lower)
    assert old.answers == new.answers


@pytest.mark.parametrize(
    ("assignment", "ranges", "complaint"),
    [
        ("", "HloLiveRange", "not a listing"),
        ("BufferAssignment:\n", "HloLiveRange", "cut short"),
        ("BufferAssignment:\n", "HloLiveRange (max 1):\n  BufferLiveRange:\n", "packed nothing"),
        ("BufferAssignment:\n value: <1 a @0> (size=1,offset=0): s8[]\n", "", "2: expected an all"),
        (
            "BufferAssignment:\nallocation 0: size 4, preallocated-temp:\n value: <1 a @0> (size=4",
            "HloLiveRange (max 1):\n  BufferLiveRange:\n",
            ":3: expected an allocation or a value",
        ),
        (
            "BufferAssignment:\nallocation 0: size 4, preallocated-temp:\n"
            " value: <1 a @0> (size=4,offset=0): f32[]\n",
            "HloLiveRange (max 1):\n  BufferLiveRange:\n",
            "'a{}' has no live range",
        ),
        (
            "BufferAssignment:\n",
            "HloLiveRange (max 1):\n  BufferLiveRange:\n    a{}:0-1\n",
            "'a{}' has no allocation",
        ),
        ("BufferAssignment:\n", "HloLiveRange\n  BufferLiveRange:\n    a{}:3-1\n", "first-last"),
    ],
)
def test_bad_listings_are_refused(tmp_path, assignment, ranges, complaint):
    with pytest.raises(InputError, match=complaint) as error:
        written(tmp_path, assignment, ranges)
    assert str(tmp_path) in str(error.value)


def test_both_listings_are_needed(tmp_path, capsys):
    for kind, other in (("buffer-assignment", "live-range"), ("live-range", "buffer-assignment")):
        alone = tmp_path / f"alone-{kind}.txt"
        alone.write_text((RIVALS / f"xla_scan-{kind}.txt").read_text())
        assert main(["compare", str(alone)]) == 2
        assert f"expected XLA's *-{other}.txt beside it" in capsys.readouterr().err
        alone.unlink()


def test_dumps_cut_anywhere_are_read_or_refused(tmp_path):
    kinds = ("buffer-assignment", "live-range")
    whole = [(RIVALS / f"xla_scan-{kind}.txt").read_text() for kind in kinds]
    for which in range(2):
        for end in range(0, len(whole[which]), 97):
            texts = list(whole)
            texts[which] = texts[which][:end]
            try:
                problem = written(tmp_path, *texts)
            except InputError:
                continue
            # Cut below what is read, or between the last values, which no other value needs.
            assert which == 1
            assert len(problem) == 13
