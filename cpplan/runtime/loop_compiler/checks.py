"""Checks of the indices of arrays in compiled loops, for their authors.

If an index is beyond its array, the check writes the index and its line to standard error and ends
the process. Loops have these checks if ``CPPLAN_CHECK_LOOPS`` is 1; they then run about half as
fast.
"""

from __future__ import annotations

from cpplan.runtime.loop_compiler.blocks import Blocks
from cpplan.runtime.loop_compiler.kinds import pointer

_FAULT = "cpplan_fault"
_STANDARD_ERROR = 2


class IndexChecks:
    """Checks of the indices of one function; ``texts`` are the messages that the checks write."""

    def __init__(self, file: str, function: str):
        self._file, self._function = file, function
        self.texts: list[str] = []

    def check(self, blocks: Blocks, line: int, index: str, length: str) -> None:
        """End the process, at run time, if an index is not below the length of its axis."""
        message = f"{self._file}:{line}: index %lld of an axis of %lld\n\0".encode()
        name = f'@"{self._function}.text{len(self.texts)}"'
        text = f"[{len(message)} x i8]"
        escaped = "".join(f"\\{byte:02X}" for byte in message)
        self.texts.append(f'{name} = private constant {text} c"{escaped}"')
        first = f"getelementptr ({text}, {pointer(text)} {name}, i64 0, i64 0)"
        within = blocks.add(f"icmp ult i64 {index}, {length}")
        arguments = f"{pointer('i8')} {first}, i64 {index}, i64 {length}"
        blocks.demand(within, f"call void @{_FAULT}({arguments})", "unreachable")


def fault_text() -> str:
    """LLVM text of a function that writes an index and a length and ends the process."""
    held = pointer("i8")
    given = f"i32 {_STANDARD_ERROR}, {held} %text, i64 %index, i64 %length"
    return f"""declare i32 @dprintf(i32, {held}, ...)
declare void @abort() noreturn
define internal void @{_FAULT}({held} %text, i64 %index, i64 %length) noreturn {{
  %written = call i32 (i32, {held}, ...) @dprintf({given})
  call void @abort()
  unreachable
}}"""
