"""Models with their nodes in another order: valid, the same nodes, and the same numbers."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from support.weighted_models import with_random_weights

import cpplan
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan

onnx = pytest.importorskip("onnx")
from onnx import helper, numpy_helper, parser  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

from cpplan.io.onnx.model import read_onnx  # noqa: E402
from cpplan.io.onnx.reorder import reorder_onnx, write_reordered  # noqa: E402

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


def model(text: str, *, opset: int = 17) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}, "my" : 1]> {text}')


def random_order(graph: Graph, seed: int) -> list[str]:
    rng, waiting, order = random.Random(seed), set(range(len(graph.ops))), list[str]()
    while waiting:
        ready = [k for k in sorted(waiting) if waiting.isdisjoint(graph.predecessors[k])]
        waiting.discard(k := rng.choice(ready))
        order.append(graph.ops[k].name)
    return order


def kinds(proto: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in proto.graph.node]


def assert_same(one: onnx.ModelProto, other: onnx.ModelProto, extra: tuple[str, ...] = ()) -> None:
    """Both are valid, and compute the same bits."""
    onnx.checker.check_model(one, full_check=True)
    onnx.checker.check_model(other, full_check=True)
    rng = np.random.default_rng(0)
    constants = {tensor.name for tensor in one.graph.initializer}
    values = {}
    for value in other.graph.input:
        if value.name not in constants:
            type_ = value.type.tensor_type
            dtype = helper.tensor_dtype_to_np_dtype(type_.elem_type)
            shape = [dim.dim_value for dim in type_.shape.dim]
            values[value.name] = (4 * rng.standard_normal(shape)).astype(dtype)
    names = [*(value.name for value in one.graph.output), *extra]
    results = [ReferenceEvaluator(proto).run(names, values) for proto in (one, other)]
    for name, a, b in zip(names, *results, strict=True):
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes()), name


def nodes(proto: onnx.ModelProto) -> list[bytes]:
    """The nodes in no order, but for their names."""
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in proto.graph.node]
    for node in copies:
        node.ClearField("name")
    return sorted(node.SerializeToString(deterministic=True) for node in copies)


# --- whole models --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["light_squeezenet", "light_shufflenet"])
def test_light_models_compute_the_same_in_any_order(name: str) -> None:
    loaded = with_random_weights(LIGHT / f"{name}.onnx")
    order = random_order(read_onnx(loaded), seed=1)
    reordered = reorder_onnx(loaded, order)
    assert nodes(reordered) == nodes(loaded)
    # The logits too: softmax may hide what lies before it.
    assert_same(loaded, reordered, (loaded.graph.node[-1].input[0],))
    assert [op.name for op in read_onnx(reordered).ops] == order


def test_the_given_order_gives_the_model_back() -> None:
    loaded = model("g (float[4] x) => (float[4] y) { a = Exp(x) b = Neg(x) y = Add(a, b) }")
    order = [op.name for op in read_onnx(loaded).ops]
    for node, name in zip(loaded.graph.node, order, strict=True):
        node.name = name
    assert reorder_onnx(loaded, order) == loaded


def random_model(seed: int) -> onnx.ModelProto:
    """Branching arithmetic, with nodes that ask for shapes and nodes that reshape by them."""
    rng, names, lines, asked = random.Random(seed), ["x"], list[str](), list[str]()
    for k in range(14):
        one, other = rng.choice(names), rng.choice(names)
        what = rng.randrange(6)
        if what == 0:
            lines.append(f"s{k} = Shape({one})")
            asked.append(f"s{k}")
            continue
        if what == 1 and asked:
            lines.append(f"s{k} = Identity({rng.choice(asked)})")
            asked.append(f"s{k}")
            continue
        if what == 2 and asked:
            lines.append(f"t{k} = Reshape({one}, {rng.choice(asked)})")
        elif what == 3:
            lines.append(
                f"t{k} = If(c)"
                f" <then_branch = a{k} () => (float[2,3] p{k}) {{ p{k} = Tanh({other}) }},"
                f" else_branch = b{k} () => (float[2,3] q{k})"
                f" {{ n{k} = Shape({one}) q{k} = Reshape({other}, n{k}) }}>"
            )
        else:
            lines.append(f"t{k} = {rng.choice(['Add', 'Sub', 'Max'])}({one}, {other})")
        names.append(f"t{k}")
    lines.append(f"y = Sum({', '.join(names)})")
    return model(f"g (float[2,3] x, bool c) => (float[2,3] y) {{ {' '.join(lines)} }}")


@pytest.mark.parametrize("seed", range(30))
def test_random_models_compute_the_same_in_any_order(seed: int) -> None:
    loaded = random_model(seed)
    order = random_order(read_onnx(loaded), seed)
    reordered = reorder_onnx(loaded, order)
    assert_same(loaded, reordered)
    # Only a shape that is asked for too early is answered by a constant.
    answered = ["Shape" if kind == "Constant" else kind for kind in kinds(reordered)]
    assert sorted(answered) == sorted(kinds(loaded))
    assert [op.name for op in read_onnx(reordered).ops] == order


@pytest.mark.parametrize("seed", range(10))
def test_models_with_shuffled_nodes_are_written_in_an_order_that_runs(seed: int) -> None:
    loaded = random_model(seed)
    shuffled = onnx.ModelProto()
    shuffled.CopyFrom(loaded)
    for k, node in enumerate(loaded.graph.node):
        node.name = shuffled.graph.node[k].name = f"node {k}"
    listed = list(shuffled.graph.node)
    random.Random(seed).shuffle(listed)
    shuffled.graph.node.extend(listed)
    del shuffled.graph.node[: len(listed)]
    order = [op.name for op in read_onnx(shuffled).ops]
    assert sorted(order) == sorted(op.name for op in read_onnx(loaded).ops)
    assert_same(loaded, reorder_onnx(shuffled, order))


# --- what the reader folds -----------------------------------------------------------------------


def test_what_is_folded_runs_as_soon_as_it_can() -> None:
    loaded = model(
        """g (float[2,3] x) => (float[2,3] y) <float[2,3] w = {1,2,3,4,5,6}>
        { a = Exp(x) b = Neg(a) s = Shape(a) c = Abs(b) d = Reshape(c, s) v = Neg(w)
          y = Add(d, v) }"""
    )
    order = [op.name for op in read_onnx(loaded).ops]
    assert order == ["Exp_0", "Neg_1", "Abs_3", "Reshape_4", "Add_6"]
    reordered = reorder_onnx(loaded, order)
    # The constant v at once; the shape of a while a is there anyway.
    assert kinds(reordered) == ["Neg", "Exp", "Shape", "Neg", "Abs", "Reshape", "Add"]
    assert_same(loaded, reordered)


def test_a_shape_that_comes_too_late_becomes_a_constant() -> None:
    loaded = model(
        """g (float[2,3] x, float[6] z) => (float[2,3] y, float[2,3] u)
        { a = Exp(x) s = Shape(a) i = Identity(s) u = Reshape(z, i) y = Neg(a) }"""
    )
    reordered = reorder_onnx(loaded, ["Reshape_3", "Exp_0", "Neg_4"])
    assert kinds(reordered) == ["Constant", "Identity", "Reshape", "Exp", "Neg"]
    assert_same(loaded, reordered)


def test_a_body_that_asks_for_a_shape_too_early_gets_a_constant() -> None:
    loaded = model(
        """g (float[2,3] x, float[6] z, bool c) => (float[2,3] y, float[2,3] u)
        { a = Exp(x)
          u = If(c) <then_branch = t () => (float[2,3] p) { s = Shape(a) p = Reshape(z, s) },
                     else_branch = e () => (float[2,3] q) { q = Neg(x) }>
          y = Neg(a) }"""
    )
    reordered = reorder_onnx(loaded, ["If_1", "Exp_0", "Neg_2"])
    branch = next(a.g for a in reordered.graph.node[0].attribute if a.name == "then_branch")
    assert [node.op_type for node in branch.node] == ["Constant", "Reshape"]
    assert_same(loaded, reordered)


def test_symbolic_dimensions_get_the_extents_of_the_plan() -> None:
    loaded = model(
        """g (float[N,3] x, float[M] z) => (float[N,3] y, float[N,3] u)
        { a = Exp(x) s = Shape(a) u = Reshape(z, s) y = Neg(a) }"""
    )
    reordered = reorder_onnx(loaded, ["Reshape_2", "Exp_0", "Neg_3"], {"N": 2, "M": 6})
    assert kinds(reordered) == ["Constant", "Reshape", "Exp", "Neg"]
    assert [d.dim_value for d in reordered.graph.output[1].type.tensor_type.shape.dim] == [2, 3]
    assert_same(loaded, reordered)


# --- bodies, functions, files --------------------------------------------------------------------


def test_branches_stay_as_they_are_and_what_they_capture_comes_before() -> None:
    loaded = model(
        """g (float[3] x, bool c) => (float[3] y, float[3] z)
        { a = Exp(x) b = Neg(x)
          y = If(c) <then_branch = t () => (float[3] p) { p = Abs(b) },
                     else_branch = e () => (float[3] q) { r = Neg(x) q = Mul(r, r) }>
          z = Abs(a) }"""
    )
    reordered = reorder_onnx(loaded, ["Neg_1", "If_2", "Exp_0", "Abs_3"])
    assert kinds(reordered) == ["Neg", "If", "Exp", "Abs"]
    assert nodes(reordered) == nodes(loaded)
    assert_same(loaded, reordered)
    with pytest.raises(InputError, match="op 'If_2' runs before 'Neg_1', whose result it reads"):
        reorder_onnx(loaded, ["If_2", "Neg_1", "Exp_0", "Abs_3"])


def test_functions_are_inlined_and_their_nodes_reordered() -> None:
    loaded = model(
        """g (float[3] x) => (float[3] y) { a = my.twice(x) b = my.twice(a) c = Neg(x)
          y = Add(b, c) }
        <domain: "my", opset_import: ["" : 17]> twice (v) => (w) { t = Exp(v) w = Add(t, v) }"""
    )
    graph = read_onnx(loaded)
    order = random_order(graph, seed=3)
    reordered = reorder_onnx(loaded, order)
    assert not reordered.functions
    assert [op.name for op in graph.ops] != order
    assert sorted(kinds(reordered)) == ["Add", "Add", "Add", "Exp", "Exp", "Neg"]
    assert_same(loaded, reordered)


def test_nodes_without_outputs_keep_their_places_in_the_order() -> None:
    loaded = model("g (float[3] x) => (float[3] y) { a = Exp(x) y = Neg(x) }")
    for name in ("first", "second"):
        loaded.graph.node.append(helper.make_node("Send", ["a"], [], name, domain="my"))
    reordered = reorder_onnx(loaded, ["Exp_0", "second", "Neg_1", "first"])
    assert kinds(reordered) == ["Exp", "Send", "Neg", "Send"]
    assert [node.name for node in reordered.graph.node] == ["Exp_0", "second", "Neg_1", "first"]


def external(folder: Path) -> Path:
    loaded = model("g (float[4] x) => (float[4] y) { a = Add(x, w) b = Neg(x) y = Mul(a, b) }")
    loaded.graph.initializer.append(numpy_helper.from_array(np.arange(4, dtype=np.float32), "w"))
    path = folder / "model.onnx"
    onnx.save_model(
        loaded, path, save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    return path


def test_weights_in_other_files_stay_beside_or_move_in(tmp_path: Path) -> None:
    path, order = external(tmp_path), ["Neg_1", "Add_0", "Mul_2"]
    assert_same(onnx.load(path), reorder_onnx(path, order))
    beside, elsewhere = tmp_path / "reordered.onnx", tmp_path / "other" / "reordered.onnx"
    elsewhere.parent.mkdir()
    for target, kept in ((beside, True), (elsewhere, False)):
        write_reordered(path, order, target)
        written = onnx.load(target, load_external_data=False)
        assert (written.graph.initializer[0].external_data != []) is kept
        assert kinds(written) == ["Neg", "Add", "Mul"]
        assert_same(onnx.load(path), onnx.load(target))
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "model.onnx",
        "other",
        "reordered.onnx",
        "weights.bin",
    ]


def test_weights_that_no_onnx_file_holds_go_to_a_file_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cpplan.io.onnx import reorder

    rng = np.random.default_rng(0)
    loaded = model(
        """g (float[64,64] x, bool t) => (float[64,64] y) {
        a = Add(x, w) b = Mul(x, v) c = Add(a, u)
        y = If(t) <then_branch = p () => (float[64,64] q) { q = MatMul(a, b) },
                   else_branch = n () => (float[64,64] r) { r = MatMul(c, b) }> }"""
    )
    for name in "wvu":
        array = rng.standard_normal((64, 64), np.float32)
        loaded.graph.initializer.append(numpy_helper.from_array(array, name))
    path, target = tmp_path / "m.onnx", tmp_path / "to" / "m.onnx"
    target.parent.mkdir()
    onnx.save_model(loaded, path, save_as_external_data=True, location="w.bin", size_threshold=1024)
    monkeypatch.setattr(reorder, "MOST_BYTES", 40_000)  # the weights take 49,152 B
    write_reordered(path, ["Mul_1", "Add_0", "Add_2", "If_3"], target)
    assert sorted(file.name for file in target.parent.iterdir()) == ["m.onnx", "m.onnx.data"]
    assert target.stat().st_size < 4096
    written = onnx.load(target, load_external_data=False)
    places = [{e.key: e.value for e in t.external_data} for t in written.graph.initializer[:3]]
    assert [place["location"] for place in places] == ["m.onnx.data"] * 3
    assert [int(place["offset"]) for place in places] == [0, 16384, 32768]
    assert_same(onnx.load(path), onnx.load(target))
    onnx.checker.check_model(target)

    # A model that holds its weights itself cannot be written, and leaves nothing behind.
    (target.parent / "m.onnx").unlink()
    (target.parent / "m.onnx.data").unlink()
    with pytest.raises(InputError, match=r"m\.onnx: cannot be written: an ONNX file holds less"):
        write_reordered(onnx.load(path), ["Mul_1", "Add_0", "Add_2", "If_3"], target)
    (tmp_path / "w.bin").write_bytes(b"short")
    with pytest.raises(InputError, match=r"m\.onnx: its weights cannot be read"):
        write_reordered(path, ["Mul_1", "Add_0", "Add_2", "If_3"], target)
    assert list(target.parent.iterdir()) == []


def test_a_model_of_three_gibibytes_is_written_without_reading_its_weights(tmp_path: Path) -> None:
    loaded = model(
        "g (float[4] x, int64[4] i) => (float[4] y) { a = Gather(w, i) b = Neg(x) y = Mul(a, b) }"
    )
    weight = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[3 << 28])
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="w.bin")
    loaded.graph.initializer.append(weight)
    path = tmp_path / "m.onnx"
    path.write_bytes(loaded.SerializeToString())
    with open(tmp_path / "w.bin", "wb") as stream:
        stream.truncate(3 << 30)  # a sparse file
    write_reordered(path, ["Neg_1", "Gather_0", "Mul_2"], tmp_path / "beside.onnx")
    assert kinds(onnx.load(tmp_path / "beside.onnx", load_external_data=False)) == [
        "Neg",
        "Gather",
        "Mul",
    ]


def test_nothing_is_written_where_something_is_wrong(tmp_path: Path) -> None:
    loaded = model("g (float[4] x) => (float[4] y) { y = Exp(x) }")
    with pytest.raises(InputError, match="cannot be written"):
        write_reordered(loaded, ["Exp_0"], tmp_path / "none" / "m.onnx")
    with pytest.raises(InputError, match="unknown op"):
        write_reordered(loaded, ["Exp"], tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_loaded_model_is_left_as_it_was() -> None:
    loaded = model("g (float[N] x) => (float[N] y) { a = Exp(x) b = Neg(x) y = Add(a, b) }")
    before = loaded.SerializeToString(deterministic=True)
    reorder_onnx(loaded, ["Neg_1", "Exp_0", "Add_2"], {"N": 3})
    assert loaded.SerializeToString(deterministic=True) == before


# --- plans, and what is refused ------------------------------------------------------------------

FORK = "g (float[4] x) => (float[4] y) { a = Exp(x) b = Neg(x) y = Add(a, b) }"


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (["Exp_0", "Neg_1"], "op 'Add_2' is missing from the order"),
        (["Exp_0", "Neg_1", "Sub_2"], "order names unknown op 'Sub_2'"),
        (["Add_2", "Exp_0", "Neg_1"], "op 'Add_2' runs before 'Exp_0', whose result it reads"),
    ],
)
def test_an_order_that_is_none_is_refused(order: list[str], message: str, tmp_path: Path) -> None:
    path = tmp_path / "fork.onnx"
    onnx.save(model(FORK), path)
    for source, where in ((model(FORK), "ONNX model 'g': "), (path, f"{path}: ")):
        with pytest.raises(InputError) as caught:
            reorder_onnx(source, order)
        assert str(caught.value).startswith(where + message)
        assert "\n" not in str(caught.value)


def test_random_nodes_without_a_seed_cannot_change_places() -> None:
    loaded = model(
        """g (float[4] x) => (float[4] y)
        { a = RandomNormalLike(x) b = RandomUniformLike(x) y = Add(a, b) }"""
    )
    with pytest.raises(InputError, match="which comes before it in sequence 'random'"):
        reorder_onnx(loaded, ["RandomUniformLike_1", "RandomNormalLike_0", "Add_2"])


def test_a_plan_gives_its_order_back() -> None:
    loaded = model(FORK)
    plan = cpplan.solve(cpplan.to_anf(read_onnx(loaded), ["Neg_1", "Exp_0", "Add_2"]))
    assert kinds(reorder_onnx(loaded, plan.order)) == ["Neg", "Exp", "Add"]


@pytest.mark.parametrize("seed", range(5))
def test_a_plan_is_one_of_the_reordered_model_too(seed: int) -> None:
    loaded = random_model(seed)
    graph = read_onnx(loaded)
    plan = cpplan.solve(cpplan.to_anf(graph, random_order(graph, seed)))
    reordered = reorder_onnx(loaded, plan.order)
    again = cpplan.solve(read_onnx(reordered), capacity=plan.peak)
    assert again.order == plan.order
    cpplan.verify(read_onnx(reordered), plan)
    assert cpplan.execute(reordered, plan).steps == len(graph.ops)


def test_names_that_nodes_share_stay_apart_in_any_order() -> None:
    # The folded node bears the name of an op, and comes to lie before it.
    loaded = model(
        """g (float[4] x) => (float[4] y) <float[4] w = {1,2,3,4}>
        { a = Exp(x) b = Neg(x) v = Neg(w) y = Sum(a, b, v) }"""
    )
    for node in loaded.graph.node:
        node.name = "node"
    order = [op.name for op in read_onnx(loaded).ops]
    assert order == ["node", "node_1", "node_3"]
    reordered = reorder_onnx(loaded, ["node_1", "node", "node_3"])
    names = [node.name for node in reordered.graph.node]
    assert names == ["node_2", "node_1", "node", "node_3"]
    assert [op.name for op in read_onnx(reordered).ops] == ["node_1", "node", "node_3"]


def test_a_plan_without_an_order_says_so(tmp_path: Path) -> None:
    none = np.zeros(0, np.int64)
    with pytest.raises(InputError, match="plan 'p' is for a bare problem: it has no order"):
        Plan("p", "optimal", (), none, none, none, none).export(tmp_path / "p.onnx", model(FORK))
