"""Models in which nodes run again: valid, the same numbers, and the lifespans that were planned."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import cpplan
from cpplan.io.plan_json import plan_from_dict, plan_to_dict
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph
from cpplan.program.liveness import to_problem

onnx = pytest.importorskip("onnx")
from onnx import helper, parser  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

from cpplan.io.onnx.model import read_onnx  # noqa: E402
from cpplan.io.onnx.reorder import reorder_onnx  # noqa: E402


def model(text: str) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')


def wiring(proto: onnx.ModelProto) -> list[tuple[str, ...]]:
    """Name, inputs and outputs of every node."""
    return [(node.name, *node.input, "->", *node.output) for node in proto.graph.node]


def assert_same(one: onnx.ModelProto, other: onnx.ModelProto) -> None:
    """Both are valid, have the same inputs and outputs, and compute the same bits."""
    for proto in (one, other):
        onnx.checker.check_model(proto, full_check=True)
    assert list(one.graph.input) == list(other.graph.input)
    assert [v.name for v in one.graph.output] == [v.name for v in other.graph.output]
    rng = np.random.default_rng(0)
    values = {}
    for value in one.graph.input:
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        values[value.name] = (4 * rng.standard_normal(shape)).astype(dtype)
    results = [ReferenceEvaluator(proto).run(None, values) for proto in (one, other)]
    for value, a, b in zip(one.graph.output, *results, strict=True):
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes()), value.name


def stays(program: cpplan.Program) -> dict[str, tuple[int, int, int]]:
    """Lifespan and size of every buffer."""
    problem = to_problem(program)
    columns = problem.lower.tolist(), problem.upper.tolist(), problem.size.tolist()
    return dict(zip(problem.names, zip(*columns, strict=True), strict=True))


def inside(buffer: str) -> str:
    """The name that a buffer has in the model written: in the bodies of ``if~1``, ``x`` is ``x~1``.

    The buffer ``if~1/0/x`` is ``if~1/0/x~1``.
    """
    call, *within = buffer.split("/")
    return buffer + call[len(call.split("~")[0]) :] if within else buffer


def assert_planned(proto: onnx.ModelProto, order: list[str]) -> onnx.ModelProto:
    """The model written is the one planned: the same numbers, steps, buffers and lifespans."""
    written = reorder_onnx(proto, order)
    assert_same(proto, written)
    graph, again = read_onnx(proto), read_onnx(written)
    assert len(again.ops) == len(order)
    planned, runs = stays(cpplan.to_anf(graph, order)), Counter(order)
    for tensor in (t.name for t in graph.tensors if t.kind == "output" and t.name in planned):
        last = runs[graph.source(tensor).name] - 1
        if last:
            # What the last run writes keeps the output's name.
            planned[f"{tensor}~0"] = planned.pop(tensor)
            planned[tensor] = planned.pop(f"{tensor}~{last}")
    assert stays(cpplan.to_anf(again)) == {inside(name): stay for name, stay in planned.items()}
    return written


# --- names, by hand ------------------------------------------------------------------------------

CHAIN = "g (float[4] x) => (float[4] y) { a = Exp(x) b = Neg(a) c = Abs(b) y = Add(a, c) }"


def test_a_reader_gets_the_newest_copy() -> None:
    written = assert_planned(model(CHAIN), ["Exp_0", "Neg_1", "Exp_0", "Abs_2", "Exp_0", "Add_3"])
    assert wiring(written) == [
        ("Exp_0", "x", "->", "a"),
        ("Neg_1", "a", "->", "b"),
        ("Exp_0~1", "x", "->", "a~1"),
        ("Abs_2", "b", "->", "c"),
        ("Exp_0~2", "x", "->", "a~2"),
        ("Add_3", "a~2", "c", "->", "y"),
    ]


def test_an_output_is_what_the_last_run_writes() -> None:
    loaded = model("g (float[4] x) => (float[4] y, float[4] z) { y = Exp(x) z = Neg(y) }")
    written = assert_planned(loaded, ["Exp_0", "Exp_0", "Neg_1", "Exp_0"])
    assert wiring(written) == [
        ("Exp_0", "x", "->", "y~0"),
        ("Exp_0~1", "x", "->", "y~1"),
        ("Neg_1", "y~1", "->", "z"),
        ("Exp_0~2", "x", "->", "y"),
    ]


def test_names_that_are_taken_are_passed_over() -> None:
    # A tensor, a constant, a node, and a tensor of a branch bear the names of copies.
    loaded = model(
        """g (float[4] x, bool c) => (float[4] y) <float[4] "b~1" = {1,2,3,4}>
        { a = Exp(x) "a~1" = Add(a, "b~1") b = Neg(x)
          d = If(c) <then_branch = t () => (float[4] p) { "b~2" = Abs(x) p = Neg("b~2") },
                     else_branch = e () => (float[4] q) { q = Neg(b) }>
          y = Sum(a, b, "a~1", d) }""".replace('"', "")
        .replace("a~1", "a_1")
        .replace("b~1", "b_1")
        .replace("b~2", "b_2")
    )
    names = {"a_1": "a~1", "b_1": "b~1", "b_2": "b~2"}
    branch = loaded.graph.node[3].attribute[0].g
    for node in (*loaded.graph.node, *branch.node):
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    loaded.graph.initializer[0].name = "b~1"
    loaded.graph.node[2].name = "Exp_0~1"
    order = ["Exp_0", "Exp_0~1", "Exp_0", "Exp_0", "Add_1", "Exp_0~1", "If_3", "Sum_4"]
    written = reorder_onnx(loaded, order)
    assert wiring(written)[:6] == [
        ("Exp_0", "x", "->", "a"),
        ("Exp_0~1", "x", "->", "b"),
        ("Exp_0~2", "x", "->", "a~2"),
        ("Exp_0~3", "x", "->", "a~3"),
        ("Add_1", "a~3", "b~1", "->", "a~1"),
        ("Exp_0~1~1", "x", "->", "b~3"),
    ]
    assert_same(loaded, written)


def test_a_model_written_can_be_written_again() -> None:
    once = reorder_onnx(model(CHAIN), ["Exp_0", "Neg_1", "Exp_0", "Abs_2", "Add_3"])
    twice = reorder_onnx(once, ["Exp_0", "Neg_1", "Exp_0~1", "Abs_2", "Exp_0~1", "Add_3"])
    assert wiring(twice)[-2:] == [
        ("Exp_0~1~1", "x", "->", "a~1~1"),
        ("Add_3", "a~1~1", "c", "->", "y"),
    ]
    assert_same(once, twice)


# --- views, constants, bodies --------------------------------------------------------------------


def test_a_view_stays_with_the_run_it_was_made_of() -> None:
    # r is a view of the first a, also after a has been computed again; then one of the second.
    loaded = model(
        """g (float[2,3] x) => (float[6] y, float[2,3] z) <int64[1] s = {6}>
        { a = Exp(x) r = Reshape(a, s) y = Neg(r) z = Abs(a) }"""
    )
    first = ["Exp_0", "Reshape_1", "Exp_0", "Abs_3", "Neg_2"]
    assert wiring(assert_planned(loaded, first))[-1] == ("Neg_2", "r", "->", "y")
    unit = ["Exp_0", "Reshape_1", "Abs_3", "Exp_0", "Reshape_1", "Neg_2"]
    assert wiring(assert_planned(loaded, unit))[-3:] == [
        ("Exp_0~1", "x", "->", "a~1"),
        ("Reshape_1~1", "a~1", "s", "->", "r~1"),
        ("Neg_2", "r~1", "->", "y"),
    ]


def test_constants_and_shapes_are_there_once() -> None:
    loaded = model(
        """g (float[2,3] x) => (float[2,3] y) <float[2,3] w = {1,2,3,4,5,6}>
        { v = Neg(w) a = Exp(x) s = Shape(a) b = Add(a, v) r = Reshape(b, s) y = Add(r, v) }"""
    )
    written = assert_planned(loaded, ["Exp_1", "Add_3", "Exp_1", "Add_3", "Reshape_4", "Add_5"])
    assert [node.op_type for node in written.graph.node] == [
        *("Neg", "Exp", "Shape", "Add", "Exp", "Add", "Reshape", "Add")
    ]
    assert [tensor.name for tensor in written.graph.initializer] == ["w"]


def test_branches_capture_the_newest_copy() -> None:
    loaded = model(
        """g (float[3] x, bool c) => (float[3] y)
        { a = Exp(x) b = Neg(a)
          d = If(c) <then_branch = t () => (float[3] p) { u = Abs(a) p = Mul(u, a) },
                     else_branch = e () => (float[3] q) { q = If(c) <
                       then_branch = tt () => (float[3] r) { r = Neg(a) },
                       else_branch = ee () => (float[3] v) { v = Add(a, a) }> }>
          y = Add(b, d) }"""
    )
    order = ["Exp_0", "Neg_1", "Exp_0", "If_2", "Exp_0", "If_2", "Add_3"]
    written = assert_planned(loaded, order)
    first, second = (str(written.graph.node[k]) for k in (3, 5))
    assert "a~1" in first
    assert "a~2" in second
    assert not {'"a"', '"a~2"', '"u~1"'} & set(first.split())
    assert not {'"a"', '"a~1"', '"u"', '"r"'} & set(second.split())
    assert wiring(written)[-1] == ("Add_3", "b", "d~1", "->", "y")


def test_a_loop_captures_the_newest_copy_and_what_it_defines_is_its_own() -> None:
    loaded = model(
        """g (float[3] x) => (float[3] y) <int64 n = {3}, bool go = {1}>
        { a = Exp(x) b = Neg(a)
          d = Loop(n, go, b) <body = l (int64 i, bool k, float[3] v) => (bool k2, float[3] w)
                <float[3] e = {1,2,3}> { k2 = Identity(k) u = Mul(v, e) w = Add(u, a) }>
          y = Add(d, a) }"""
    )
    order = ["Exp_0", "Neg_1", "Exp_0", "Loop_2", "Exp_0", "Loop_2", "Add_3"]
    written = assert_planned(loaded, order)
    first, second = (written.graph.node[k].attribute[0].g for k in (3, 5))
    assert [list(node.input) for node in first.node] == [["k"], ["v", "e"], ["u", "a~1"]]
    assert [list(node.input) for node in second.node] == [["k~1"], ["v~1", "e~1"], ["u~1", "a~2"]]
    assert [value.name for value in second.input] == ["i~1", "k~1", "v~1"]
    assert [value.name for value in second.output] == ["k2~1", "w~1"]
    assert [tensor.name for tensor in second.initializer] == ["e~1"]


# --- what the model says of its tensors ----------------------------------------------------------


def test_copies_have_the_types_and_notes_of_what_they_copy() -> None:
    loaded = onnx.shape_inference.infer_shapes(model(CHAIN))
    note = loaded.graph.quantization_annotation.add()
    note.tensor_name = "a"
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="scale")
    order = ["Exp_0", "Neg_1", "Exp_0", "Abs_2", "Add_3", "Add_3"]
    written = reorder_onnx(loaded, order).graph
    types = {value.name: value.type for value in written.value_info}
    assert list(types) == ["a", "b", "c", "a~1", "y~0"]
    assert types["a~1"] == types["a"]
    assert types["y~0"] == loaded.graph.output[0].type
    assert [n.tensor_name for n in written.quantization_annotation] == ["a", "a~1"]
    assert written.quantization_annotation[1].quant_parameter_tensor_names[0].value == "scale"


def test_symbolic_dimensions_get_the_extents_of_the_plan() -> None:
    loaded = model("g (float[N] x) => (float[N] y, float[N] z) { y = Exp(x) z = Neg(y) }")
    written = reorder_onnx(loaded, ["Exp_0", "Neg_1", "Exp_0"], {"N": 5})
    (copy,) = written.graph.value_info
    assert (copy.name, copy.type.tensor_type.shape.dim[0].dim_value) == ("y~0", 5)


# --- what is refused -----------------------------------------------------------------------------


def test_what_draws_numbers_does_not_run_again() -> None:
    for seed, message in (
        ("<seed = 1.0>", "op 'RandomNormalLike_0' runs twice, but may not"),
        ("", "op 'RandomNormalLike_0' runs twice, but may not"),
    ):
        loaded = model(
            f"g (float[4] x) => (float[4] y) {{ a = RandomNormalLike {seed} (x) y = Neg(a) }}"
        )
        with pytest.raises(InputError) as caught:
            reorder_onnx(loaded, ["RandomNormalLike_0", "RandomNormalLike_0", "Neg_1"])
        assert str(caught.value).startswith("ONNX model 'g': ")
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)


# --- at random -----------------------------------------------------------------------------------


def random_model(seed: int) -> onnx.ModelProto:
    """Arithmetic, views, shapes and branches; some of what is read on is an output too."""
    rng, names, lines, asked = random.Random(seed), ["x"], list[str](), list[str]()
    for k in range(10):
        one, other = rng.choice(names[-4:]), rng.choice(names[-4:])
        what = rng.randrange(6)
        if what == 0:
            lines.append(f"s{k} = Shape({one})")
            asked.append(f"s{k}")
            continue
        if what == 1 and asked:
            lines.append(f"t{k} = Reshape({one}, {rng.choice(asked)})")
        elif what == 2:
            lines.append(
                f"t{k} = If(c)"
                f" <then_branch = a{k} () => (float[2,3] p{k})"
                f" {{ m{k} = Tanh({other}) p{k} = Add(m{k}, {one}) }},"
                f" else_branch = b{k} () => (float[2,3] q{k})"
                f" {{ n{k} = Shape({one}) q{k} = Reshape({other}, n{k}) }}>"
            )
        else:
            lines.append(f"t{k} = {rng.choice(['Add', 'Sub', 'Max'])}({one}, {other})")
        names.append(f"t{k}")
    kept = sorted(rng.sample(names[1:], min(2, len(names) - 1)))
    lines.append(f"y = Sum({', '.join(names)})")
    outputs = ", ".join(f"float[2,3] {name}" for name in [*kept, "y"])
    return model(f"g (float[2,3] x, bool c) => ({outputs}) {{ {' '.join(lines)} }}")


def repeating_order(graph: Graph, seed: int) -> list[str]:
    """Every op once, in some order, and between them any that has already run."""
    rng, done, order = random.Random(seed), set[int](), list[str]()
    while len(done) < len(graph.ops):
        ready = [k for k in range(len(graph.ops)) if done.issuperset(graph.predecessors[k])]
        first = [k for k in ready if k not in done]
        k = rng.choice(first if rng.random() < 0.6 else ready)
        done.add(k)
        order.append(graph.ops[k].name)
    return order


@pytest.mark.parametrize("seed", range(40))
def test_random_orders_that_repeat_ops(seed: int) -> None:
    loaded = random_model(seed)
    assert_planned(loaded, repeating_order(read_onnx(loaded), seed))


@pytest.mark.parametrize("seed", range(10))
def test_a_plan_with_repeated_ops_fits_the_model_written(seed: int) -> None:
    loaded = random_model(seed)
    del loaded.graph.output[:-1]  # no name but y is an output's, and y is computed once
    graph = read_onnx(loaded)
    order = [name for name in repeating_order(graph, seed) if name != graph.ops[-1].name]
    plan = cpplan.solve(cpplan.to_anf(graph, [*order, graph.ops[-1].name]))
    written = reorder_onnx(loaded, plan.order)
    again = read_onnx(written)
    names = tuple(op.name for op in again.ops)
    # The same buffers by the same names at the same offsets; ops and views have names of their own.
    views = {t.name: again.root[t.name] for t in again.tensors if t.view_of is not None}
    buffers = tuple(map(inside, plan.buffers))
    moved = replace(plan, order=names, base_cost=plan.cost, views=views, buffers=buffers)
    cpplan.verify(again, moved)
    assert cpplan.execute(written, moved).arena_bytes == plan.peak
    alone = cpplan.solve(again)
    assert (alone.peak, alone.lower_bound) == (plan.peak, plan.lower_bound)


def test_the_same_bytes_every_time() -> None:
    loaded = random_model(3)
    order = repeating_order(read_onnx(loaded), 3)
    one, other = (reorder_onnx(loaded, order).SerializeToString() for _ in range(2))
    assert one == other


# --- models that have copies already -------------------------------------------------------------


def test_a_model_written_with_copies_is_planned_again(tmp_path):
    """t of 32 B is made again for y; in the model written, its maker runs again, as it may.

    Once: x (kept), t, u and v meet, 192 B; with t made anew, 160 B are enough.
    """
    first = model("""
        again (float[8] x) => (float[8] y) {
            t = Exp(x)
            u = Concat<axis = 0>(t, t)
            v = Neg(u)
            w = ReduceSum(v)
            y = Add(t, w) }""")
    options = {"remat": True, "memory_limit": 160, "inputs": "keep", "time_limit": 10}
    plan = cpplan.solve(read_onnx(first), **options)
    assert plan.order.count("Exp_0") == 2
    written = reorder_onnx(first, plan.order)
    assert_same(first, written)
    path = tmp_path / "written.onnx"
    onnx.save(written, path)
    graph = cpplan.load(path)
    (copied,) = (name for name in graph.op if name.endswith("~1"))
    original = copied.removesuffix("~1")
    # The op of which there is a copy runs a third time: names pass over those that there are.
    order = [op.name for op in graph.ops]
    program = cpplan.to_anf(graph, [*order[: order.index(original) + 1], *order])
    twice = cpplan.solve(program, time_limit=10)
    assert len(twice.order) > len(graph.ops)
    assert {"t", "t~1", "t~2"} <= {*twice.buffers}
    cpplan.verify(graph, twice)
    cpplan.simulate(graph, twice)
    again = reorder_onnx(written, twice.order)
    assert_same(first, again)
    assert f"{original}~2" in {node.name for node in again.graph.node}
    results = cpplan.execute(path, twice).outputs
    assert (
        results["y"].tobytes() == cpplan.execute(path, cpplan.solve(graph)).outputs["y"].tobytes()
    )
    remat = cpplan.solve(graph, **options)
    assert remat.offset is not None
    cpplan.simulate(graph, remat)
    assert_same(first, reorder_onnx(written, remat.order))


def test_an_output_that_runs_again_is_executed_where_the_plan_says():
    """y is computed, overwritten by z's copy, and computed again: its bytes are the last copy's."""
    proto = model("""
        again (float[4] x) => (float[4] y, float[4] z) {
            y = Exp(x)
            z = Neg(y) }""")
    graph = read_onnx(proto)
    program = cpplan.to_anf(graph, ["Exp_0", "Neg_1", "Exp_0"])
    plan = cpplan.solve(program, inputs="keep")
    assert plan.io_map is not None
    assert plan.io_map["y"] == ("arena", int(plan.offset[plan.row["y~1"]]))
    assert plan.outputs == ("y", "z")
    cpplan.verify(graph, plan)
    outputs = cpplan.execute(proto, plan).outputs
    assert outputs["y"].tobytes() == (-outputs["z"]).tobytes()
    assert plan_from_dict(plan_to_dict(plan)).io_map == plan.io_map
