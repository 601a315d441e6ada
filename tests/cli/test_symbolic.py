"""Plans for every value of a model's dimensions at the command line: made, verified, executed."""

import pytest

from cpplan.cli.main import main

onnx = pytest.importorskip("onnx")

BRANCHES = """
    <ir_version: 8, opset_import: ["" : 17]>
    net (float[N,16] x, bool c) => (float[N,16] y) {
        a = Relu(x)
        b = If(c) <
            then_branch = yes () => (float[N,16] t) { t = Exp(a) },
            else_branch = no () => (float[N,16] e) { q = Tanh(a) e = Mul(q, a) }
        >
        y = Add(a, b)
    }
"""


@pytest.fixture
def model(tmp_path) -> str:
    """Costs follow from N, as in every model that is read from ONNX."""
    path = tmp_path / "net.onnx"
    onnx.save(onnx.parser.parse_model(BRANCHES), path)
    return str(path)


@pytest.mark.parametrize("options", [[], ["--in-place", "--order", "search"]])
def test_a_plan_for_bounds_is_verified_at_its_bounds_and_at_values(
    model, tmp_path, capsys, options
):
    plan = str(tmp_path / "plan.json")
    assert main(["plan", model, "--dim", "N=2:8", *options, "-q", "-o", plan]) == 0
    capsys.readouterr()
    sizes = []
    for dims in ([], ["--dim", "N=2:8"], ["--dim", "N=4"]):
        assert main(["verify", model, plan, *dims]) == 0
        sizes.append(int(capsys.readouterr().out.split("buffers within ")[1].split()[0]))
    # Every buffer has 64 N bytes but the condition's one.
    assert sizes[0] == sizes[1] > sizes[2] > sizes[0] / 2
    assert main(["verify", model, plan, "--dim", "N=4", "--execute"]) == 0


@pytest.mark.parametrize(
    ("dims", "code", "message"),
    [
        (["--dim", "N=9"], 2, "dimension 'N' is 9, above its upper bound 8"),
        (["--dim", "N=2:9"], 4, "claims a cost of 512, but it is 576"),
        (["--dim", "M=1"], 2, "no symbolic dimension 'M'"),
    ],
)
def test_what_a_plan_does_not_hold_for_is_named(model, tmp_path, capsys, dims, code, message):
    plan = str(tmp_path / "plan.json")
    assert main(["plan", model, "--dim", "N=2:8", "-q", "-o", plan]) == 0
    capsys.readouterr()
    assert main(["verify", model, plan, *dims]) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_several_sizes_are_verified_without_a_word_on_bounds(model, tmp_path, capsys):
    plan = str(tmp_path / "sizes.json")
    assert main(["sizes", model, "--at", "N=1", "--at", "N=8", "-q", "-o", plan]) == 0
    assert main(["verify", model, plan]) == 0
    assert "simulation ok" in capsys.readouterr().out


def test_the_trade_off_of_a_graph_with_bodies_of_symbolic_sizes(model, capsys):
    assert main(["pareto", model, "--dim", "N=2:8", "--points", "2", "--time-limit", "4"]) == 0
    # Relu's, Tanh's and Mul's results and the condition: 3 x 64 x 8 + 1 bytes.
    assert "1537 B" in capsys.readouterr().out
