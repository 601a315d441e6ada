"""MiniMalloc CSV: every column, its other names, round trips, and every way to be malformed."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.published import minimalloc

from cpplan.io.minimalloc_csv import read_problem, write_problem
from cpplan.model.errors import InputError
from cpplan.model.problem import Gap, Problem


def write(path, text: str):
    path.write_bytes(text.encode())
    return path


def rows(problem: Problem) -> list[tuple]:
    """The fields of a problem that the file format has, as one tuple for each buffer."""
    columns = (problem.lower, problem.upper, problem.size, problem.alignment)
    return [
        (name, *numbers, sorted(problem.gaps.get(k, ())), problem.fixed.get(k), problem.hint.get(k))
        for k, (name, *numbers) in enumerate(
            zip(problem.names, *(column.tolist() for column in columns), strict=True)
        )
    ]


def test_csv_columns_are_read_in_any_order(tmp_path):
    problem = read_problem(
        write(
            tmp_path / "all.csv",
            "hint,id,offset,size,lower,upper,gaps,alignment\n"
            ",a,8,16,0,9,1-2 4-6@0:8,8\n"
            '24,"b,c",,4,2,3,,1\n',
        )
    )
    assert rows(problem) == [
        ("a", 0, 9, 16, 8, [Gap(1, 2), Gap(4, 6, 0, 8)], 8, None),
        ("b,c", 2, 3, 4, 1, [], None, 24),
    ]
    assert problem.name == "all"


def test_end_is_the_last_step_and_so_are_the_ends_of_gaps(tmp_path):
    text = "buffer,start,end,size,gaps\na,0,4,2,1-1 3-3@0:1\n"
    problem = read_problem(write(tmp_path / "p.csv", text))
    assert rows(problem)[0][:6] == ("a", 0, 5, 2, 1, [Gap(1, 2), Gap(3, 4, 0, 1)])
    assert problem.live_bytes().tolist() == [2, 0, 2, 1, 2]


@pytest.mark.parametrize("name", ["id", "buffer", "buffer_id"])
@pytest.mark.parametrize("lower", ["lower", "start", "begin"])
def test_other_names_of_columns(name, lower, tmp_path):
    problem = read_problem(write(tmp_path / "p.csv", f"{name},{lower},upper,size\na,1,2,3\n"))
    assert rows(problem)[0][:4] == ("a", 1, 2, 3)


def test_line_ends_marks_spaces_and_blank_lines(tmp_path):
    text = "\ufeffid, lower ,upper,size\r\na, 1,2 ,3\r\n\r\nb,1,2,3\r\n  \r\n\r\n"
    assert [row[0] for row in rows(read_problem(write(tmp_path / "p.csv", text)))] == ["a", "b"]


def test_a_header_alone_is_a_problem_without_buffers(tmp_path):
    assert len(read_problem(write(tmp_path / "p.csv", "id,lower,upper,size\n"))) == 0


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Problems that use every column."""
    count = draw(st.integers(0, 6))
    lower = draw(st.lists(st.integers(0, 20), min_size=count, max_size=count))
    length = draw(st.lists(st.integers(3, 9), min_size=count, max_size=count))
    size = draw(st.lists(st.integers(0, 2**40), min_size=count, max_size=count))
    alignment = draw(st.lists(st.sampled_from([1, 8]), min_size=count, max_size=count))
    some = st.sets(st.integers(0, count - 1)) if count else st.just(set())
    tag = draw(st.text(alphabet='a é,"\n\r#', max_size=3))
    return Problem(
        tuple(f"{k}{tag}" for k in range(count)),
        lower=np.array(lower, np.int64),
        upper=np.array(lower, np.int64) + np.array(length, np.int64),
        size=np.array(size, np.int64),
        alignment=np.array(alignment, np.int64),
        gaps={k: [Gap(lower[k] + 1, lower[k] + 2, 0, size[k] // 2)] for k in draw(some)},
        fixed={k: 8 * k for k in draw(some)},
        hint={k: 3 * k for k in draw(some)},
    )


@given(problems())
def test_any_problem_reads_back_the_same(tmp_path_factory, problem):
    path = tmp_path_factory.getbasetemp() / "problem.csv"
    write_problem(problem, path)
    assert rows(read_problem(path)) == rows(problem)


def test_offsets_become_fixed_offsets(tmp_path):
    problem = Problem(("a", "b"), lower=[0, 1], upper=[2, 3], size=[4, 8], fixed={0: 8})
    write_problem(problem, tmp_path / "p.csv", offsets=np.array([8, 0]))
    assert read_problem(tmp_path / "p.csv").fixed == {0: 8, 1: 0}
    with pytest.raises(InputError, match="1 offsets for 2 buffers"):
        write_problem(problem, tmp_path / "q.csv", offsets=[8])
    assert not (tmp_path / "q.csv").exists()


FULL = "id,lower,upper,size,alignment,gaps,offset,hint\nz,0,1,1,1,,,\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "p.csv: empty file"),
        ("\n \n", "p.csv: empty file"),
        ("id,lower,upper,size,colour\n", "p.csv: unknown column 'colour'"),
        ("id,lower,upper,size,begin\n", "p.csv: column 'begin' repeats"),
        ("id,lower,upper,end,size\n", "p.csv: column 'end' repeats"),
        ("id,lower,upper\n", "p.csv: missing column 'size'"),
        (FULL + "a,0,1\n", "p.csv:3: 3 fields: expected 8"),
        (FULL + "\n\na,0,1\n", "p.csv:5: 3 fields: expected 8"),
        (FULL + "a,0,x,1,1,,,\n", "p.csv:3: buffer 'a': upper must be an integer, not 'x'"),
        (FULL + "a,0,1,1.5,1,,,\n", "p.csv:3: buffer 'a': size must be an integer, not '1.5'"),
        (FULL + "a,0,1,,1,,,\n", "p.csv:3: buffer 'a': size must be an integer, not ''"),
        (FULL + "a,0,1,²,1,,,\n", "p.csv:3: buffer 'a': size must be an integer, not '²'"),
        (FULL + "a,0,1,-1,1,,,\n", "p.csv:3: buffer 'a': size must not be negative, but is -1"),
        (FULL + "a,-1,1,1,1,,,\n", "p.csv:3: buffer 'a': lower must not be negative"),
        (FULL + f"a,0,1,{2**64},1,,,\n", "p.csv:3: buffer 'a': size must be below 2**62"),
        (FULL + "a,3,3,1,1,,,\n", "p.csv:3: buffer 'a': upper must be greater than lower"),
        (FULL + "a,0,1,1,0,,,\n", "p.csv:3: buffer 'a': alignment must be at least 1"),
        (FULL + "a,0,1,1,4,,6,\n", "p.csv:3: buffer 'a': fixed offset 6 must be"),
        (FULL + "a,0,1,1,4,,-4,\n", "p.csv:3: buffer 'a': offset must not be negative"),
        (FULL + "a,0,1,1,4,,,up\n", "p.csv:3: buffer 'a': hint must be an integer, not 'up'"),
        (FULL + "z,0,1,1,1,,,\n", "p.csv:3: two buffers are named 'z'"),
        (FULL + ",0,1,1,1,,,\n", "p.csv:3: buffer '': id must not be blank"),
        (FULL + "a,0,9,1,1,7-12,,\n", "p.csv:3: buffer 'a': gap 7-12 must"),
        (FULL + "a,0,9,1,1,3-3,,\n", "p.csv:3: buffer 'a': gap 3-3 must not be empty"),
        (FULL + "a,0,9,1,1,3-5 4-6,,\n", "p.csv:3: buffer 'a': gap 4-6 must"),
        (FULL + "a,0,9,4,1,3-5@2:8,,\n", "p.csv:3: buffer 'a': window 2:8"),
        (FULL + "a,0,9,4,1,3-5@2,,\n", "p.csv:3: buffer 'a': gap '3-5@2': expected lower-upper"),
    ],
)
def test_what_is_wrong_is_said_with_file_line_and_buffer(text, message, tmp_path):
    with pytest.raises(InputError) as caught:
        read_problem(write(tmp_path / "p.csv", text))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_errors_late_in_a_long_file_have_their_line(tmp_path):
    lines = ["id,lower,upper,size", *(f"b{k},0,1,1" for k in range(70_000))]
    lines[69_000] = "odd,1,1,1"
    with pytest.raises(InputError, match=r"p\.csv:69001: buffer 'odd': upper must be greater"):
        read_problem(write(tmp_path / "p.csv", "\n".join(lines)))


def test_a_file_that_is_not_text(tmp_path):
    (tmp_path / "p.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"p\.csv: expected UTF-8 text"):
        read_problem(tmp_path / "p.csv")


def test_minimalloc_s_instance_a_is_full():
    challenge = minimalloc("A")
    assert len(challenge) == 154
    assert challenge.live_bytes().max() == 1048576  # its bound is its capacity


# NUL apart: before Python 3.11 the csv module does not know it.
LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")


@given(st.lists(st.text(LETTERS, min_size=1), min_size=1, max_size=4, unique=True))
@example(["\r", "\n", "\r\n", ",", '"', " a ", "\ufeff", "\x85", "\u2028", "\t"])
def test_any_names_come_back(names):
    count = len(names)
    problem = Problem(names, [0] * count, [3] * count, [2] * count)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "names.csv")
        write_problem(problem, path, offsets=range(0, 2 * count, 2))
        assert read_problem(path).names == tuple(names)


@pytest.mark.parametrize("name", ["\0", "a\0,\r\n"])
def test_nul_comes_back_or_is_refused(name, tmp_path):
    path, problem = tmp_path / "names.csv", Problem((name,), [0], [1], [2])
    if sys.version_info >= (3, 11):
        write_problem(problem, path)
        assert read_problem(path).names == (name,)
    else:
        with pytest.raises(InputError, match=r"names\.csv: buffer .* must have no NUL character"):
            write_problem(problem, path)
        assert not path.exists()


@pytest.mark.parametrize("name", ["", "n" * 200_000])
def test_names_that_would_not_come_back_are_refused(name, tmp_path):
    path = tmp_path / "names.csv"
    with pytest.raises(InputError, match=r"names\.csv: buffer .* an id must have from 1 to 131072"):
        write_problem(Problem((name,), [0], [1], [2]), path)
    assert not path.exists()
