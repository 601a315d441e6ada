"""Entries of arrays: their addresses, and how they are read and written."""

from __future__ import annotations

from cpplan.runtime.loop_compiler.blocks import Blocks
from cpplan.runtime.loop_compiler.kinds import (
    INT,
    Array,
    LoopError,
    Value,
    described,
    pointer,
)
from cpplan.runtime.loop_compiler.numbers import cast, converted
from cpplan.runtime.loop_compiler.scope import Scope


def address(scope: Scope, array: Value, index: list[Value]) -> str:
    """Pointer to an entry, or to the first one of a row."""
    assert isinstance(array.kind, Array)
    blocks, lengths, stored = scope.blocks, array.parts[1:], array.kind.stored
    place = "0"
    for k, length in enumerate(lengths):
        if k:
            place = blocks.add(f"mul i64 {place}, {length}")
        if k < len(index):
            number = cast(blocks, index[k], INT).parts[0]
            if scope.checks:
                scope.checks.check(blocks, scope.line, number, length)
            place = blocks.add(f"add i64 {place}, {number}") if k else number
    held = pointer(stored)
    return blocks.add(f"getelementptr inbounds {stored}, {held} {array.parts[0]}, i64 {place}")


def entry(scope: Scope, array: Value, index: list[Value]) -> Value:
    """An entry of an array, or a row of one."""
    kind = array.kind
    assert isinstance(kind, Array)
    if len(index) > kind.dimensions:
        raise LoopError(f"{described(kind)} has no entry of {len(index)} indices")
    place = address(scope, array, index)
    if len(index) == kind.dimensions:
        return read(scope.blocks, kind, place)
    row = Array(kind.item, kind.stored, kind.dimensions - len(index))
    return Value(row, (place, *array.parts[1 + len(index) :]))


def read(blocks: Blocks, kind: Array, place: str) -> Value:
    """Entry at an address, as a number of the kind that it is read as."""
    stored = kind.stored
    part = blocks.add(f"load {stored}, {pointer(stored)} {place}")
    if stored == "i8":
        part = blocks.add(f"icmp ne i8 {part}, 0")
    elif stored == "i32":
        part = blocks.add(f"sext i32 {part} to i64")
    elif stored == "float":
        part = blocks.add(f"fpext float {part} to double")
    return Value(kind.item, (part,))


def write(blocks: Blocks, kind: Array, place: str, value: Value) -> None:
    """Store a number at an address, as the array stores its entries."""
    part, stored = converted(blocks, value, kind.item).parts[0], kind.stored
    if stored == "i8":
        part = blocks.add(f"zext i1 {part} to i8")
    elif stored == "i32":
        part = blocks.add(f"trunc i64 {part} to i32")
    elif stored == "float":
        part = blocks.add(f"fptrunc double {part} to float")
    blocks.act(f"store {stored} {part}, {pointer(stored)} {place}")
