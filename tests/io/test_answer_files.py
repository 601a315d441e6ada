"""Other planners' answers for a model, read from files that these planners write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cpplan.cli.main import main
from cpplan.comparison.rivals.listings import read_answers
from cpplan.model.errors import InputError

DATASETS = Path(__file__).parents[2] / "datasets"
PROFILE = DATASETS / "rivals/onnxruntime_squeezenet1_1.json"


def test_profile_of_a_runtime_gives_its_two_peaks():
    in_use, arena = read_answers(PROFILE)
    # Within half a percent of what a plan in place needs, 3928576; the arena held 5 MiB.
    assert (in_use.name, in_use.peak, in_use.offset) == ("onnxruntime", 3939744, None)
    assert (arena.name, arena.peak) == ("onnxruntime_arena", 5243552)


def test_the_command_line_lists_them(capsys):
    model, listing = DATASETS / "hand/chain.json", DATASETS / "rivals/relax_squeezenet1_1.txt"
    paths = ["--answers", str(PROFILE), "--answers", str(listing)]
    arguments = ["compare", str(model), *paths, "--algorithm", "bump", "--json", "-"]
    assert main(arguments) == 0
    rows = {row["algorithm"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["onnxruntime"]["status"] == rows["tvm"]["status"] == "stated"
    assert rows["tvm"]["bytes"] == 6349088
    assert rows["tvm"]["seconds"] is None
    assert main(arguments[:-2]) == 0
    assert "stated" in capsys.readouterr().out
    remat = ["--remat", "--memory-limit", "50%"]
    assert main(["compare", str(model), *paths, *remat]) == 2
    assert "not with --remat" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "JSON"),
        ("[", "JSON"),
        ("{}", "expected a list of events"),
        ("[1]", "expected a list of events"),
        ("[]", "no figures of an arena"),
        ('[{"name": "model_run"}]', "no figures of an arena"),
        ('[{"args": {"mem_bytes_requested_in_use": "x"}}]', "expected integers"),
        ('[{"args": 3}]', "no figures of an arena"),
    ],
)
def test_bad_profiles_are_refused(tmp_path, text, complaint):
    path = tmp_path / "profile.json"
    path.write_text(text)
    with pytest.raises(InputError, match=complaint) as error:
        read_answers(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("name", ["missing.json", "missing.txt", "model.onnx", "none"])
def test_other_files_are_refused(tmp_path, name):
    with pytest.raises(InputError, match=name):
        read_answers(tmp_path / name)


def test_a_text_that_is_no_listing_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("")
    with pytest.raises(InputError, match="not a listing that is understood"):
        read_answers(path)
