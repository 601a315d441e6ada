"""Readable text on one line for names and numbers of any length and content."""

from __future__ import annotations

# Characters of a name in a table or a list, and of a whole message.
NAME, MESSAGE = 80, 1000
_LONGEST = 4096


def printable(text: str, most: int = NAME) -> str:
    """``text`` with control characters escaped, cut to about ``most`` characters.

    Control characters, Unicode line ends, marks that change the direction of writing, and lone
    surrogates become Python's escapes; a longer text loses its middle.
    """
    if len(text) > most:
        tail = most // 3
        text = f"{text[: most - tail - 1]}…{text[len(text) - tail :]}"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def quote(value: object) -> str:
    """``repr(value)``, also for integers with more digits than Python writes by default."""
    if isinstance(value, int) and value.bit_length() > _LONGEST:
        return f"an integer of {value.bit_length()} bits"
    return repr(value)
