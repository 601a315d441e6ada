"""Compiled loops compute what Python computes, and refuse what they do not know."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest

from cpplan.runtime.loop_compiler import compiled_loop
from cpplan.runtime.loop_compiler.kinds import LoopError

SIGNED = (-7, -6, -1, 0, 1, 5, 6, 7, 2**62)
LIMIT, HALF = 3, 0.5


@pytest.fixture(autouse=True)
def own_store(monkeypatch, tmp_path):
    monkeypatch.setenv("CPPLAN_CACHE", str(tmp_path))


class Pair(NamedTuple):
    left: np.ndarray
    right: np.ndarray


@compiled_loop
def arithmetic(a, b):
    return a + b, a - b, a * b, a // b, a % b, a & b, a | b, a ^ b, -a, ~a, abs(a), a / b


@pytest.mark.parametrize("b", [b for b in SIGNED if b])
def test_integers_divide_as_in_python(b):
    for a in SIGNED:
        if abs(a) + abs(b) < 100:
            assert arithmetic(a, b) == arithmetic.python(a, b)


@compiled_loop
def words(a, b):
    shifted = a << b, a >> b
    return shifted, a * b + np.uint64(1), a % b, a // b, ~a, a > b, np.int64(a >> np.uint64(1))


def test_words_have_no_sign():
    a, b = np.uint64(2**63 + 12345), np.uint64(7)
    with np.errstate(over="ignore"):
        assert words(a, b) == words.python(a, b)


@compiled_loop
def compared(a, b):
    if a < b <= LIMIT or (not (a > b + 1) and a > HALF):
        return 1 if a != b else 2
    return 0 if a >= b else -1


def test_numbers_are_compared_as_in_python():
    for a in (-1, 0, 2, 3, 4):
        for b in (-1.0, 0.0, 2.5, 3.0):
            assert compared(a, b) == compared.python(a, b)
            assert compared(a, int(b)) == compared.python(a, int(b))


@compiled_loop
def minimum(a, b, c):
    return min(a, b, c), max(a, b, c), max(a, HALF)


def test_extremes_take_the_wider_kind():
    assert minimum(3, -2, 7) == (-2, 7, 3.0)
    assert minimum(0, 1.5, -4) == (-4.0, 1.5, 0.5)


@compiled_loop
def widened(count):
    total, found = 0, False
    for k in range(count):
        total += k * HALF
        found = k
    return total, found


def test_a_variable_becomes_as_wide_as_what_it_is_given():
    assert widened(5) == (5.0, 4)
    assert widened(0) == (0.0, 0)


@compiled_loop
def steps(numbers, first, last):
    seen = 0
    for k in range(last, first, -2):
        if numbers[k] == 2:
            continue
        if numbers[k] > 8:
            break
        seen = 10 * seen + k
        k = 0
    for number in numbers:
        seen += number
    for shift in (4, 2):
        seen += shift
    while True:
        seen -= 1
        if seen % 7 == 0:
            return seen, k


def test_loops_go_on_and_end_as_in_python():
    numbers = np.array([3, 2, 9, 1, 2, 5, 0])
    assert steps(numbers, 0, 6) == steps.python(numbers, 0, 6)


@compiled_loop
def exchanged(pair, other, table):
    one, two = pair, other
    for _ in range(3):
        one, two = two, one
    one.left[0], one.left[1] = one.left[1], one.left[0]
    low, high = table
    low[1] += high[2]
    table[1, 0] -= len(table) + len(low)
    row = table[0]
    return fill(row, two.right[0]) + one[1][0]


@compiled_loop
def fill(row, value):
    for k in range(len(row)):
        row[k] = value
    return value


def test_arrays_rows_and_tuples_are_the_callers():
    def arguments():
        pair, other = (Pair(np.arange(k, k + 2), np.arange(k, k + 2)) for k in (3, 7))
        return pair, other, np.arange(6).reshape(2, 3)

    mine, pythons = arguments(), arguments()
    assert exchanged(*mine) == exchanged.python(*pythons)
    for one, same in zip(mine, pythons, strict=True):
        assert np.array_equal(one, same)


@compiled_loop
def stored(small, flags, real, big):
    small[0], flags[1], real[0], big[0] = 5, small[1] > 2, small[1], big[1] ^ np.uint64(3)
    flags[0] = not flags[1] and small[5] > 0
    return small[0] + flags[1], real[1]


def test_entries_keep_their_types():
    def arguments():
        small = np.array([0, -3, 4, 1, 2, 1], np.int32)
        return small, np.zeros(2, bool), np.full(2, 0.1), np.full(2, 2**64 - 1, np.uint64)

    mine, pythons = arguments(), arguments()
    assert stored(*mine) == stored.python(*pythons)
    for one, same in zip(mine, pythons, strict=True):
        assert np.array_equal(one, same)


@compiled_loop
def guarded(numbers, k):
    return k < len(numbers) and numbers[k] > 1


def test_what_decides_nothing_is_not_read():
    assert not guarded(np.arange(3), 2**40)
    assert guarded(np.arange(3), 2)


@compiled_loop
def nothing(numbers):
    if numbers[0]:
        return
    numbers[0] = 1


def test_a_loop_without_a_result_returns_none():
    numbers = np.zeros(1, np.int64)
    assert nothing(numbers) is None
    assert nothing(numbers) is None
    assert numbers[0] == 1


@compiled_loop
def mixes(a, b):
    return a + b


@compiled_loop  # noqa: RET503
def ends_without(a):
    if a < 1:
        return 1


@compiled_loop
def slices(a):
    return a[1:]


@compiled_loop
def last_entry(a):
    return a[-1]


@compiled_loop
def unknown(a):
    return a + never_defined  # noqa: F821


@compiled_loop
def unset(a):
    if a > 0:
        pass
    return later


later = "text"


@pytest.mark.parametrize(
    ("loop", "arguments", "message"),
    [
        (mixes, (1, np.uint64(1)), "int and unsigned int do not mix"),
        (ends_without, (1,), "ends_without may end without returning a value"),
        (slices, (np.arange(3),), "compiled loops have no Slice"),
        (last_entry, (np.arange(3),), "-1 is no index from 0 on"),
        (unknown, (1,), "never_defined is not known"),
        (unset, (1,), "'text' is no number"),
        (mixes, (1,), "mixes takes 2 arguments"),
        (mixes, (1, "a"), "compiled loops take no str"),
        (mixes, (np.arange(4)[::2], 1), "compiled loops take contiguous arrays only"),
        (mixes, (np.zeros(2, np.float16), 1), "compiled loops have no arrays of float16"),
    ],
)
def test_what_loops_do_not_know_is_an_error(loop, arguments, message):
    with pytest.raises(LoopError, match=message):
        loop(*arguments)


def test_errors_name_the_line():
    line = slices.first_line + 2
    with pytest.raises(LoopError, match=rf"test_language\.py, line {line}: "):
        slices(np.arange(3))


@compiled_loop
def draws(random, spans, found, weight):
    total = 0.0
    for k in range(len(spans)):
        found[k] = random.integers(0, spans[k]) + random.integers(-5, 7)
        total += random.random() ** HALF + math.log(1.0 - random.random())
        weight[k] += math.floor(total)
    return total, random.integers(0, 1)


@pytest.mark.parametrize("kind", [np.random.PCG64, np.random.MT19937, np.random.Philox])
def test_generators_draw_the_numbers_that_numpy_draws(kind):
    """Spans at which it takes other words, or refuses half of them."""
    spans = np.array([1, 2, 3, 2**31 + 1, 2**32 - 1, 2**32, 2**32 + 1, 3 * 2**61, 2**63 - 1] * 9)

    def arguments():
        return np.random.Generator(kind(5)), spans, spans.copy(), np.ones(len(spans), np.float32)

    mine, pythons = arguments(), arguments()
    assert draws(*mine) == draws.python(*pythons)
    for one, same in zip(mine[1:], pythons[1:], strict=True):
        assert np.array_equal(one, same)
    assert mine[0].random() == pythons[0].random()


@compiled_loop
def unknown_draw(random):
    return random.normal()


@compiled_loop
def whole_power(a):
    return a**2


@pytest.mark.parametrize(
    ("loop", "argument", "message"),
    [
        (unknown_draw, np.random.default_rng(0), r"generators have random\(\) and integers"),
        (whole_power, 3, "a power has a float"),
    ],
)
def test_other_draws_and_powers_are_errors(loop, argument, message):
    with pytest.raises(LoopError, match=message):
        loop(argument)


@compiled_loop
def first(numbers, others):
    return numbers[0], others[0]


def test_arrays_of_each_kind_have_code_of_their_own():
    """One after another, so that code for the last kind is there."""
    kinds = (np.int64, np.longlong, np.int32, np.float64, np.float32, bool, np.uint64)
    arrays = [np.ones(3, kind) for kind in kinds]
    for numbers in (*arrays, *arrays):
        assert first(numbers, numbers) == (1, 1)
    for other in (np.ones((3, 3), np.int64), np.ones(3, ">i8")):
        with pytest.raises(LoopError):
            first(arrays[0], other)


def test_arrays_that_are_not_aligned_are_refused():
    odd = np.zeros(25, np.int8)[1:].view(np.int64)
    assert not odd.flags.aligned
    assert first(np.ones(3, np.int64), np.ones(3, np.int64)) == (1, 1)
    with pytest.raises(LoopError, match="contiguous arrays only"):
        first(np.ones(3, np.int64), odd)
