"""An index beyond an array is named and ends the process, where that is asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cpplan.runtime.loop_cache import CHECKS

PROGRAM = """
import sys
import numpy as np
from cpplan.runtime.loop_compiler.loop import compiled_loop

@compiled_loop
def diagonal(numbers, count):
    total = 0
    for k in range(count):
        total += numbers[k, k]
    return total

@compiled_loop
def before(numbers, k):
    row = numbers[k - 1]
    return row[0]

numbers = np.arange(12).reshape(3, 4)
print(diagonal(numbers, 3), before(numbers, 1), flush=True)
print(eval(sys.argv[1]))
"""


@pytest.mark.skipif(os.name == "nt", reason="the check writes by a function of POSIX")
@pytest.mark.parametrize(
    ("call", "line", "fault"),
    [
        ("diagonal(numbers, 4)", 10, "3 of an axis of 3"),
        ("before(numbers, 0)", 15, "-1 of an axis"),
    ],
)
def test_an_index_beyond_its_axis_is_named(tmp_path: Path, call: str, line: int, fault: str):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    given = {CHECKS: "1", "CPPLAN_CACHE": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, str(program), call],
        env={**os.environ, **given},
        capture_output=True,
        text=True,
    )
    assert (run.returncode < 0, run.stdout) == (True, "15 0\n")
    assert run.stderr.startswith(f"{program}:{line}: index {fault}")
