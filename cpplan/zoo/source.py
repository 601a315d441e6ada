"""Parser of model names, ``zoo://family/model?option=value&option=value``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from urllib.parse import unquote

from cpplan.model.errors import InputError

SCHEME = "zoo://"
_FORM = f"{SCHEME}family/model?option=value&option=value"
MODES = ("infer", "train")
# Largest extent of a tensor: a typing error is reported before a model is traced.
_LARGEST = 2**31 - 1


@dataclass(frozen=True)
class Source:
    """The parts of a model's name.

    Attributes
    ----------
    text
        The name as it was given.
    given
        Options as text.
    """

    text: str
    family: str
    model: str
    given: Mapping[str, str]


@dataclass(frozen=True)
class Options:
    """The options that a model is built with.

    Attributes
    ----------
    mode
        ``infer``, or ``train`` for the loss and its gradients.
    numbers
        Option of the family -> its value: as given, or the family's default; ``None`` leaves it to
        the model.
    """

    mode: str
    numbers: Mapping[str, int | None]

    @property
    def training(self) -> bool:
        return self.mode == "train"

    def number(self, name: str, default: int = 1) -> int:
        """The value of an option, or ``default`` if it is left to the model."""
        found = self.numbers[name]
        return default if found is None else found


def is_named(source: object) -> bool:
    """True if this is the name of a model rather than a file."""
    return isinstance(source, str) and source.startswith(SCHEME)


def parse_source(text: str) -> Source:
    """Split a name into its parts.

    Raises
    ------
    InputError
        If the name has another form, or an option twice.
    """
    rest, _, query = text.removeprefix(SCHEME).partition("?")
    family, _, model = rest.partition("/")
    if not is_named(text) or not family or not model:
        raise InputError(f"{text}: no name of a model: expected {_FORM}")
    given: dict[str, str] = {}
    for part in query.split("&") if query else ():
        option, equals, value = map(unquote, part.partition("="))
        if not option or not equals or not value:
            raise InputError(f"{text}: {part!r} is no option: expected option=value")
        if option in given:
            raise InputError(f"{text}: option {option!r} is given twice")
        given[option] = value
    return Source(text, unquote(family), unquote(model), given)


def read_options(source: Source, known: Mapping[str, int | None], modes: Iterable[str]) -> Options:
    """Check the options of a source against the options of its family.

    Parameters
    ----------
    known
        Option -> default, for options with a number.
    modes
        Modes of the family, the default first; none if there is no choice.

    Raises
    ------
    InputError
        If an option is unknown, or its value not understood.
    """
    modes = tuple(modes)
    names = [*known, "mode"] if modes else list(known)
    numbers = dict(known)
    for option, value in source.given.items():
        if option not in names:
            raise InputError(
                f"{source.text}: {source.family} has no option {option!r}: "
                + (f"expected {_listed(names)}" if names else "expected none")
            )
        if option == "mode":
            if value not in modes:
                raise InputError(f"{source.text}: mode {value!r}: expected {_listed(modes)}")
            continue
        if not value.isascii() or not value.isdigit() or not 0 < int(value[:11]) <= _LARGEST:
            raise InputError(
                f"{source.text}: {option} {value!r}: expected an integer from 1 to {_LARGEST}"
            )
        numbers[option] = int(value)
    return Options(source.given.get("mode", modes[0] if modes else "infer"), numbers)


def unknown(source: Source, what: str, name: str, names: Iterable[str]) -> InputError:
    """Error for an unknown name; lists the known names, or only similar ones if there are many."""
    names = list(names)
    if len(names) <= 8:
        return InputError(f"{source.text}: no {what} {name!r}: expected {_listed(names)}")
    near = get_close_matches(name, names, n=5, cutoff=0.5)
    told = f"near are {_listed(near, 'and')}" if near else f"there are {len(names)}"
    return InputError(
        f"{source.text}: no {what} {name!r}: {told}; cpplan.zoo.names({source.family!r}) lists them"
    )


def _listed(names: Iterable[str], last: str = "or") -> str:
    *most, end = names
    return f"{', '.join(most)} {last} {end}" if most else end
