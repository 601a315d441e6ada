"""Writer of expressions, as text and in postfix, with ``%``, ``min`` and ``ceildiv``."""

from __future__ import annotations

import re

from cpplan.model.shapes.folding import fold
from cpplan.model.shapes.terms import Atom, Monomial, Terms, as_constant, scale

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
CALLS = {
    "max": "max", "Max": "max", "min": "min", "Min": "min",
    "ceildiv": "ceildiv", "CeilDiv": "ceildiv", "floordiv": "//", "FloorDiv": "//",
    "mod": "%", "Mod": "%", "floor": "floor", "ceil": "ceil", "ceiling": "ceil",
}  # fmt: skip
# The largest literal that the parser reads.
LITERAL = 2**62


def write_name(name: str) -> str:
    """Text of a variable: its name, between backquotes unless the plain name can be read back."""
    dunder = name.startswith("__") and name.endswith("__")
    if IDENTIFIER.fullmatch(name) and name not in CALLS and not dunder:
        return name
    return "`" + name.replace("`", "``") + "`"


def write(terms: Terms) -> str:
    """Infix text, which can be read back."""
    # Sums begin with a positive term if they have one.
    parts = sorted((_term(m, c) for m, c in fold(terms)), key=lambda part: part[0])
    text = "".join(f" {'-' if minus else '+'} {part}" for minus, part in parts)
    return ("-" if parts[0][0] else "") + text[3:] if parts else "0"


def postfix(terms: Terms) -> tuple[int | str, ...]:
    """Postfix form: each operator follows its two operands."""
    found: list[int | str] = []
    for at, (monomial, c) in enumerate(fold(terms)):
        begun = c != 1 or not monomial
        if begun:
            found.append(c)
        for atom in monomial:
            found += _atom_postfix(atom)
            if begun:
                found.append("*")
            begun = True
        if at:
            found.append("+")
    return tuple(found) or (0,)


def _atom_postfix(atom: Atom) -> list[int | str]:
    if atom.kind == "variable":
        return [write_name(atom.name)]
    operator = {"floordiv": "//", "mod": "%", "max": "max"}[atom.kind]
    found = list(postfix(atom.args[0]))
    for arg in atom.args[1:]:
        found += [*postfix(arg), operator]
    return found


def _term(monomial: Monomial, c: int) -> tuple[bool, str]:
    """True if a term is subtracted, and its text without that sign."""
    factors = []
    for atom in monomial:
        flipped, text, call = _atom(atom)
        c = -c if flipped else c
        factors.append(text if call else f"({text})")
    if len(factors) == 1 and c == 1:
        return False, text  # an operator that needs no parentheses
    if abs(c) != 1 or not factors:
        factors.insert(0, _integer(abs(c)))
    return c < 0, "*".join(factors)


def _atom(atom: Atom) -> tuple[bool, str, bool]:
    """True if the text is the atom's negative; the text; and True if it binds like a call."""
    if atom.kind == "variable":
        return False, write_name(atom.name), True
    if atom.kind == "max":
        flipped = all(arg[0][1] < 0 for arg in atom.args if arg)
        args = [scale(arg, -1) if flipped else arg for arg in atom.args]
        return flipped, f"{'min' if flipped else 'max'}({', '.join(map(write, args))})", True
    p, d = atom.args
    if atom.kind == "floordiv" and p and p[0][1] < 0:
        return True, f"ceildiv({write(scale(p, -1))}, {write(d)})", True
    operator = "//" if atom.kind == "floordiv" else " % "
    return False, f"{_operand(p)}{operator}{_operand(d)}", False


def _operand(terms: Terms) -> str:
    value = as_constant(terms)
    text = write(terms)
    plain = value is not None and value >= 0
    single = len(terms) == 1 and len(terms[0][0]) == 1 and terms[0][1] == 1
    if plain or (single and terms[0][0][0].kind in ("variable", "max")):
        return text
    return f"({text})"


def _integer(c: int) -> str:
    return str(c) if c <= LITERAL else f"({_integer(c // LITERAL)}*{LITERAL} + {c % LITERAL})"
