"""Every operator that plans executes at every opset that has it, and computes what ONNX says."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import parser  # noqa: E402
from support.onnx_versions import Case, lowered_cases, old_forms  # noqa: E402
from support.plan_verdicts import first_fit  # noqa: E402
from support.split_plans import plan_in_pieces, random_pieces  # noqa: E402

import cpplan  # noqa: E402
from cpplan.cli.main import main  # noqa: E402
from cpplan.io.onnx.kernels import make_kernel  # noqa: E402
from cpplan.io.onnx.model import read_onnx  # noqa: E402
from cpplan.model.errors import CpplanError, InputError  # noqa: E402


def runs(case: Case, graph: cpplan.Graph, *, cut: bool) -> None:
    """Check the results of a case in a planned arena, in place and, if asked, in random pieces."""
    in_place = any(op.in_place for op in graph.ops)
    computes(case, cpplan.solve(graph, in_place=True, workers=1) if in_place else first_fit(graph))
    if cut and any(op.axes for op in graph.ops):
        computes(case, plan_in_pieces(graph, random_pieces(random.Random(0), graph)))


def computes(case: Case, plan: cpplan.Plan) -> None:
    """Check the results of a case by a plan."""
    done = cpplan.execute(case.model, plan, inputs=case.inputs)
    for value, expected in zip(case.model.graph.output, case.results, strict=True):
        if expected is not None and value.name in done.outputs:
            found = done.outputs[value.name]
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape), case.name
            narrow = found.dtype.itemsize < 4 and found.dtype.kind not in "iub"
            same = np.allclose(
                found.astype(np.complex128), expected.astype(np.complex128),
                rtol=0.3 if narrow else 1e-3, atol=0.3 if narrow else 1e-4, equal_nan=True,
            )  # fmt: skip
            assert same, case.name


def by_opset(cases: Iterable[Case]) -> dict[str, list[Case]]:
    """Operator and opset -> its cases."""
    found: dict[str, list[Case]] = {}
    for case in cases:
        found.setdefault(f"{case.operator[1]}-{case.opset}", []).append(case)
    return found


@pytest.mark.parametrize("cases", by_opset(old_forms()).values(), ids=by_opset(old_forms()))
def test_forms_of_all_opsets_compute_what_the_operators_say(cases: list[Case]) -> None:
    for case in cases:
        runs(case, read_onnx(case.model), cut=case is cases[0])


QDQ = """
    <ir_version: 8, opset_import: ["" : {opset}]>
    net (float[1,2,6,6] x) => (float[1,3,6,6] y)
    <float s = {{0.05}}, uint8 z = {{128}}, float t = {{0.25}}, int8 o = {{0}}> {{
        a = QuantizeLinear(x, s, z)
        b = DequantizeLinear(a, s, z)
        v = DequantizeLinear(w, t, o)
        c = Conv <pads = [1, 1, 1, 1]> (b, v)
        d = Relu(c)
        e = QuantizeLinear(d, s, z)
        y = DequantizeLinear(e, s, z)
    }}"""


@pytest.mark.parametrize("options", [(), ("--split", "--in-place")], ids=["whole", "split"])
@pytest.mark.parametrize("opset", [10, 13, 17, 21])
def test_the_command_line_executes_quantized_models(
    opset: int, options: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = parser.parse_model(QDQ.format(opset=opset))
    weights = np.random.default_rng(0).integers(-9, 9, (3, 2, 3, 3)).astype(np.int8)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    path, plan = str(tmp_path / "net.onnx"), str(tmp_path / "plan.json")
    onnx.save(model, path)
    assert main(["plan", path, "-q", "--time-limit", "1", "-o", plan, *options]) == 0
    assert main(["verify", path, plan, "--execute"]) == 0
    assert "execution  ok" in capsys.readouterr().out


BRANCHES = {
    1: ("t = Clip<min = -0.5, max = 0.5>(x)", "e = Add<broadcast = 1, axis = 0>(x, two)"),
    6: ("t = PRelu(x, three)", "e = Softmax(x)"),
    10: ("q = QuantizeLinear(x, s, z) t = DequantizeLinear(q, s, z)", "e = Dropout(x)"),
    17: ("q = QuantizeLinear(x, s, z) t = DequantizeLinear(q, s, z)", "e = Softmax(x)"),
}


@pytest.mark.parametrize("opset", BRANCHES)
def test_bodies_have_the_forms_of_their_opset(opset: int) -> None:
    then, other = BRANCHES[opset]
    for chosen in (0, 1):
        model = parser.parse_model(f"""
            <ir_version: 8, opset_import: ["" : {opset}]>
            net (float[2,3] x) => (float[2,3] y)
            <bool c = {{{chosen}}}, float s = {{0.5}}, uint8 z = {{9}}, float[2] two = {{1, 2}},
             float[3] three = {{1, 2, 3}}> {{
                y = If (c) <
                    then_branch = a () => (float[2,3] t) {{ {then} }},
                    else_branch = b () => (float[2,3] e) {{ {other} }}
                >
            }}""")
        # Conditions that are constant are folded; a kernel sees the whole node.
        (node,) = model.graph.node
        values = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
        x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
        found = make_kernel(node, {}, {"": opset})({**values, "x": x})["y"]
        branch = (other, then)[chosen]
        alone = parser.parse_graph(
            f"g (float[2,3] x, float s, uint8 z, float[2] two, float[3] three) "
            f"=> (float[2,3] {'et'[chosen]}) {{ {branch} }}"
        )
        for inner in alone.node:
            given = {name: ({**values, "x": x})[name] for name in inner.input}
            values |= make_kernel(inner, {}, {"": opset})(given)
        np.testing.assert_array_equal(found, values["et"[chosen]])


SCAN = """
    <ir_version: 8, opset_import: ["" : 8]>
    net (float[2,2] start, float[2,3,2] steps) => (float[2,2] sum, float[2,3,2] sums) {
        sum, sums = Scan <num_scan_inputs = 1, body = add (float[2] a, float[2] b) =>
            (float[2] c, float[2] d) { c = Add(a, b) d = Identity(c) }> (lengths, start, steps)
    }"""


@pytest.mark.parametrize("lengths", [None, [3, 1]], ids=["whole", "lengths"])
def test_scans_of_opset_8_scan_every_sequence_of_a_batch(lengths: list[int] | None) -> None:
    model = parser.parse_model(SCAN)
    start = np.ones((2, 2), np.float32)
    steps = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    sums = start[:, None] + steps.cumsum(1)
    last = sums[:, -1].copy()
    if lengths is None:
        model.graph.node[0].input[0] = ""
    else:
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(lengths), "lengths"))
        sums[1, 1:], last[1] = 0, start[1] + steps[1, 0]
    done = cpplan.execute(
        model, cpplan.solve(read_onnx(model)), inputs={"start": start, "steps": steps}
    )
    np.testing.assert_array_equal(done.outputs["sum"], last)
    np.testing.assert_array_equal(done.outputs["sums"], sums)


def test_random_draws_of_classes_follow_their_probabilities() -> None:
    node = onnx.helper.make_node("Multinomial", ["x"], ["y"], sample_size=4000, seed=1.0)
    shares = np.array([[0.5, 0.3, 0.2], [0.0, 0.1, 0.9]])
    with np.errstate(divide="ignore"):
        found = make_kernel(node, {}, {"": 17})({"x": np.log(shares)})["y"]
    counts = [np.bincount(row, minlength=3) / 4000 for row in found]
    np.testing.assert_allclose(counts, shares, atol=0.03)


@pytest.mark.parametrize("opset", [1, 6])
def test_operands_that_are_broadcast_from_an_axis_are_not_cut(opset: int) -> None:
    # Rows of 3: as last axes they would be cut with the last axis of x.
    text = f"""<ir_version: 8, opset_import: ["" : {opset}]>
        net (float[3,4,3] x, float[3] b) => (float[3,4,3] y) {{
            y = Add <broadcast = 1, axis = %s> (x, b) }}"""
    assert read_onnx(parser.parse_model(text % 0)).ops[0].axes == ()
    assert len(read_onnx(parser.parse_model(text % 2)).ops[0].axes) == 3


def test_shapes_are_known_before_constants_may_be_integers() -> None:
    model = parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 8]>
        net (float[2,3,4] x, float[4,6] y) => (float[4,6] z) {
            s = Shape(y)
            z = Reshape(x, s)
        }""")
    graph = read_onnx(model)
    assert graph.tensor["z"].shape == (4, 6)
    assert cpplan.execute(model, cpplan.solve(graph)).steps == 1


def test_an_operator_without_a_kernel_is_named_with_its_opset() -> None:
    model = parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17, "my.domain" : 3]>
        net (float[4] x) => (float[4] y) { y = my.domain.Mine(x) }""")
    plan = cpplan.solve(read_onnx(model))
    with pytest.raises(InputError, match=r"op 'Mine_0': .* my\.domain\.Mine, opset 3, "):
        cpplan.execute(model, plan)


@pytest.mark.parametrize("opset", [11, 16, 23])
def test_norms_that_onnx_runtime_has_at_every_opset(opset: int) -> None:
    """Its optimizer writes them in ONNX's domain, which may have them later or not at all."""
    model = parser.parse_model(f"""
        <ir_version: 7, opset_import: ["" : {opset}]>
        net (float[2,4] x) => (float[2,4] y) <float[4] s = {{1, 2, 3, 4}}> {{
            a = LayerNormalization <epsilon = 0.0> (x, s)
            y = SimplifiedLayerNormalization <epsilon = 0.0> (a, s)
        }}""")
    plan = cpplan.solve(read_onnx(model), split=True, time_limit=1)
    given = np.array([[1, 2, 3, 6], [-1, 0, 5, 4]], np.float32)
    scale = np.arange(1, 5, dtype=np.float32)
    norm = (given - given.mean(1, keepdims=True)) / given.std(1, keepdims=True) * scale
    wanted = norm / np.sqrt((norm**2).mean(1, keepdims=True)) * scale
    done = cpplan.execute(model, plan, inputs={"x": given})
    np.testing.assert_allclose(done.outputs["y"], wanted, rtol=1e-5)
    faulty = parser.parse_model("""
        <ir_version: 7, opset_import: ["" : 11]>
        net (float[2,4] x) => (float[2,4] y) { y = SimplifiedLayerNormalization (x) }""")
    with pytest.raises(InputError, match="op 'SimplifiedLayerNormalization_0'"):
        read_onnx(faulty)


# Why operators of ONNX do not plan, or are not executed -> these.
NOT_RUN = {
    "strings": """
        CategoryMapper LabelEncoder-1 RegexFullMatch StringConcat StringNormalizer StringSplit
    """,
    "sequences": """
        ConcatFromSequence SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert
        SequenceLength SequenceMap SplitToSequence
    """,
    "optional values": "Optional OptionalGetElement OptionalHasElement-15",
    "maps": "CastMap DictVectorizer ZipMap",
    "sizes that follow from values": "Unique-11",
    "no kernel": "Gradient",
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_operator_of_onnx_runs_at_every_version() -> None:
    failed: list[str] = []
    versions: dict[tuple[str, str], set[int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.deprecated:
            versions.setdefault((schema.domain, schema.name), set()).add(schema.since_version)
    reached: set[tuple[str, str, int]] = set()
    for case in (*old_forms(), *lowered_cases()):
        graph = None
        for form in (case, case.stored()) if len(case.inputs) > 1 else (case,):
            try:
                graph = read_onnx(form.model)
            except InputError:
                continue
            break
        if graph is None:
            continue
        try:
            runs(form, graph, cut=True)
        except (AssertionError, CpplanError) as error:
            failed.append(f"{form.name}: {str(error)[:200]}")
            continue
        reached.add((*form.operator, max(v for v in versions[form.operator] if v <= form.opset)))
    listed = {name for names in NOT_RUN.values() for name in names.split()}
    missing = {
        f"{kind}-{version}"
        for (domain, kind), held in versions.items()
        for version in held
        if (domain, kind, version) not in reached and kind not in listed
    }
    assert not failed
    assert missing == {name for name in listed if "-" in name}
