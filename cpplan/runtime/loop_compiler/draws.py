"""Random numbers in compiled loops, equal to the numbers that ``numpy.random.Generator`` draws."""

from __future__ import annotations

import ast

from cpplan.runtime.loop_compiler.blocks import Blocks
from cpplan.runtime.loop_compiler.kinds import FLOAT, INT, LoopError, Value, pointer
from cpplan.runtime.loop_compiler.numbers import converted, operated

INTEGERS = "cpplan_integers"


def drawn(blocks: Blocks, generator: Value, method: str, values: list[Value]) -> Value:
    """Operand of the number that a method of a generator draws."""
    state, of_32, of_64, of_double = generator.parts
    if method == "random" and not values:
        call = _call(blocks, "double", of_double, state)
        return Value(FLOAT, (call,))
    if method == "integers" and len(values) == 2:
        low, high = (converted(blocks, value, INT) for value in values)
        span = operated(blocks, ast.Sub(), high, low).parts[0]
        arguments = f"i64 {state}, i64 {of_32}, i64 {of_64}, i64 {span}"
        number = Value(INT, (blocks.add(f"call i64 @{INTEGERS}({arguments})"),))
        return operated(blocks, ast.Add(), low, number)
    raise LoopError(f"generators have random() and integers(low, high), not {method}")


def _call(blocks: Blocks, returned: str, function: str, state: str) -> str:
    address = blocks.add(f"inttoptr i64 {function} to {pointer(f'{returned} (i64)')}")
    return blocks.add(f"call {returned} {address}(i64 {state})")


def integers_text() -> str:
    """Function that draws a number below a span of up to 63 bits by Lemire's method, as NumPy does.

    The upper half of the product of the span and a random word is the number; a few values of the
    lower half are refused, so that all numbers are equally likely. Spans have up to 63 bits; spans
    of up to 32 bits take 32 random bits, and a span of at most 1 takes none.
    """
    parameters = "i64 %state, i64 %of_32, i64 %of_64, i64 %span"
    return f"""define internal i64 @{INTEGERS}({parameters}) nounwind {{
  %one = icmp slt i64 %span, 2
  br i1 %one, label %none, label %some
none:
  ret i64 0
some:
  %long = icmp ugt i64 %span, 4294967296
  br i1 %long, label %draw64, label %draw32
{_lemire(32, "i64", "4294967296")}
{_lemire(64, "i128", "0")}
}}"""


def _lemire(bits: int, double: str, words: str) -> str:
    """Blocks that draw one of ``words`` words of ``bits`` bits until it is accepted."""
    word, k = f"i{bits}", bits
    lines = [
        f"draw{k}:",
        f"%draw_{k} = inttoptr i64 %of_{k} to {pointer(f'{word} (i64)')}",
        f"%span_{k} = {'zext' if double != 'i64' else 'bitcast'} i64 %span to {double}",
        f"br label %again{k}",
        f"again{k}:",
        f"%drawn_{k} = call {word} %draw_{k}(i64 %state)",
        f"%long_{k} = zext {word} %drawn_{k} to {double}",
        f"%product_{k} = mul {double} %long_{k}, %span_{k}",
        f"%part_{k} = trunc {double} %product_{k} to {word}",
        f"%low_{k} = {'zext' if word != 'i64' else 'bitcast'} {word} %part_{k} to i64",
        f"%upper_{k} = lshr {double} %product_{k}, {k}",
        f"%number_{k} = {'trunc' if double != 'i64' else 'bitcast'} {double} %upper_{k} to i64",
        # Most draws need no division.
        f"%doubt_{k} = icmp ult i64 %low_{k}, %span",
        f"br i1 %doubt_{k}, label %look{k}, label %end{k}",
        f"look{k}:",
        f"%rest_{k} = sub i64 {words}, %span",
        f"%bound_{k} = urem i64 %rest_{k}, %span",
        f"%refused_{k} = icmp ult i64 %low_{k}, %bound_{k}",
        f"br i1 %refused_{k}, label %again{k}, label %end{k}",
        f"end{k}:",
        f"ret i64 %number_{k}",
    ]
    return "\n".join(lines)
