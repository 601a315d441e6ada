"""Facts of TVM's kernels, read from their TIR."""

from __future__ import annotations

import pytest

pytest.importorskip("tvm", reason="cpplan[tvm] is not installed")

from tvm.script import tirx as T

from cpplan.io.tvm.kernels import joined, read_kernel, with_offsets


@T.prim_func(s_tir=True)
def relu(x: T.Buffer((4, 8), "float32"), y: T.Buffer((4, 8), "float32")):
    for i, j in T.grid(4, 8):
        with T.sblock("relu"):
            a, b = T.axis.remap("SS", [i, j])
            y[a, b] = T.max(x[a, b], T.float32(0))


@T.prim_func(s_tir=True)
def mirrored(x: T.Buffer((8, 8), "float32"), y: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(8, 8):
        with T.sblock("mirrored"):
            a, b = T.axis.remap("SS", [i, j])
            y[a, b] = x[b, a]


@T.prim_func(s_tir=True)
def running_sum(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
    for i, j in T.grid(8, 8):
        with T.sblock("sum"):
            a, b = T.axis.remap("SR", [i, j])
            with T.init():
                y[a] = T.float32(0)
            y[a] = y[a] + x[b]


@T.prim_func(s_tir=True)
def added(
    x: T.Buffer((8,), "float32"), other: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")
):
    for i in range(8):
        with T.sblock("added"):
            a = T.axis.spatial(8, i)
            y[a] = x[a] + other[a]


@T.prim_func(s_tir=True)
def normalized(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
    total = T.sblock_alloc_buffer((1,), "float32")
    for i in range(8):
        with T.sblock("total"):
            a = T.axis.reduce(8, i)
            with T.init():
                total[0] = T.float32(0)
            total[0] = total[0] + x[a]
    for i in range(8):
        with T.sblock("normalized"):
            a = T.axis.spatial(8, i)
            y[a] = x[a] / total[0]


@T.prim_func(s_tir=True)
def read_later(
    x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32"), z: T.Buffer((8,), "float32")
):
    for i in range(8):
        with T.sblock("first"):
            a = T.axis.spatial(8, i)
            y[a] = x[a]
    for i in range(8):
        with T.sblock("second"):
            a = T.axis.spatial(8, i)
            z[a] = x[7 - a]


@T.prim_func(s_tir=True)
def by_address(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
    T.evaluate(T.call_extern("int32", "copy", x.data, y.data))


@pytest.mark.parametrize(
    ("function", "result", "operands", "may"),
    [
        (relu, 1, [0], True),
        (mirrored, 1, [0], False),
        (running_sum, 1, [0], False),
        (added, 2, [0], True),
        (added, 2, [1], True),
        (added, 2, [0, 1], True),
        (normalized, 1, [0], True),
        (read_later, 1, [0], False),
        (read_later, 2, [0], False),
        (by_address, 1, [0], False),
    ],
)
def test_result_goes_over_an_operand_only_where_no_element_is_read_later(
    function, result, operands, may
):
    assert read_kernel(function).may_join([result], operands) is may


def test_reads_and_writes_are_those_of_the_loops():
    kernel = read_kernel(normalized)
    assert (kernel.read, kernel.written, kernel.opaque) == ({0}, {1}, frozenset())
    assert kernel.pure
    assert kernel.cost >= 16


def test_parameters_used_by_their_address_are_opaque():
    kernel = read_kernel(by_address)
    assert kernel.opaque == {0, 1}
    assert not kernel.pure


def test_joined_kernel_has_one_parameter_for_both():
    both = joined(added, [(2, [0, 1])])
    assert len(both.params) == 1
    kernel = read_kernel(both)
    assert kernel.read == kernel.written == {0}


def test_offsets_are_multiples_of_the_alignment():
    for parameter in with_offsets(relu, 64).params:
        assert parameter.ty.offset_factor == 16
