"""Dataclasses and named tuples as JSON-ready values and back, by the types of their fields.

A field of a common type needs nothing else to be written, checked and read: text, numbers, true or
false, lists of these, other dataclasses, and ``None``. What has another form in JSON brings
``to_dict``, and a function that reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from cpplan.model.certificates import KINDS

_SCALARS = (str, bool, int, float)
_NAMES = {kind: name for name, kind in KINDS.items()}
Writer = Callable[[Any], Any]
# Types of fields that lie in rooms above the model, and are read by functions of their own.
_ABOVE = {"SymbolicLayout": object}
_NOTHING: Mapping[str, Writer] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Form:
    """The JSON form of values of one type.

    Attributes
    ----------
    types
        Python types of the JSON value, ``NoneType`` left out: ``(int, float)`` for a number.
    null
        True if it may be ``null``.
    words
        The words it must be one of, if it must.
    item
        Form of each item of a list of any length.
    row
        Forms of the items of a list that has just these; of a named tuple, say.
    made
        The dataclass or named tuple that is made of it.
    kinds
        The named tuples of which one is made of it, as its field ``kind`` says.
    """

    types: tuple[type, ...]
    null: bool = False
    words: tuple[str, ...] = ()
    item: Form | None = None
    row: tuple[Form, ...] = ()
    made: type | None = None
    kinds: tuple[type, ...] = ()

    def read(self, value: Any) -> Any:
        """The value of a field, from a JSON value of this form."""
        if value is None:
            return None
        if self.item is not None:
            return tuple(value if _is_plain(self.item) else map(self.item.read, value))
        if self.row:
            items = [form.read(item) for form, item in zip(self.row, value, strict=True)]
            return tuple(items) if self.made is None else self.made(*items)
        if self.made is not None:
            return read_fields(self.made, value)
        if self.kinds:
            fields = {key: item for key, item in value.items() if key != "kind"}
            return read_fields(KINDS[value["kind"]], fields)
        return value


@cache
def forms(kind: type) -> Mapping[str, Form]:
    """Form of every field of a dataclass or named tuple."""
    hints = get_type_hints(kind, localns=_ABOVE)
    return {name: form_of(hint) for name, hint in hints.items()}


def form_of(hint: Any) -> Form:
    """The JSON form of a type."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        others = [form_of(arg) for arg in args if arg is not NoneType]
        types = tuple(dict.fromkeys(kind for other in others for kind in other.types))
        first = others[0] if len(others) == 1 else Form(types)
        kinds = tuple(kind for other in others for kind in other.kinds)
        null = NoneType in args
        return Form(types, null, first.words, first.item, first.row, first.made, kinds)
    if origin is Literal:
        return Form((str,), words=args)
    if origin is tuple and args[-1] is not Ellipsis:
        return Form((list,), row=tuple(map(form_of, args)))
    if origin in (tuple, Sequence):
        return Form((list,), item=form_of(args[0]))
    if hint is float:
        return Form((int, float))
    if hint in _SCALARS:
        return Form((hint,))
    if hint in _NAMES:
        return Form((dict,), kinds=(hint,))
    if is_dataclass(hint) or hasattr(hint, "to_dict") or origin is Mapping:
        return Form((dict,), made=hint if origin is None else None)
    if hasattr(hint, "_fields"):
        return Form((list,), row=tuple(forms(hint).values()), made=hint)
    return Form((object,))


def read_fields(kind: type, values: Mapping[str, Any], **others: Any) -> Any:
    """A dataclass made of a JSON object, which has been checked, and of ``others`` as they are."""
    known = forms(kind)
    return kind(**{name: known[name].read(value) for name, value in values.items()}, **others)


def to_json(value: Any) -> Any:
    """A field's value as JSON-ready values."""
    if value is None or isinstance(value, _SCALARS):
        return value
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if type(value) in _NAMES:
        fields_of = {name: to_json(getattr(value, name)) for name in value._fields}
        return {"kind": _NAMES[type(value)], **fields_of}
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    if is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    return list(map(to_json, value))


def changed_fields(
    value: Any, names: Iterable[str] | None = None, own: Mapping[str, Writer] = _NOTHING
) -> dict[str, Any]:
    """The fields of a dataclass as JSON-ready values, without those at their defaults."""
    kind: type = type(value)
    known = _fields(kind)
    found = {}
    for name in known if names is None else names:
        default, write = known[name]
        item = getattr(value, name)
        if item is not default and item != default:
            found[name] = own.get(name, write)(item)
    return found


@cache
def _fields(kind: type) -> Mapping[str, tuple[Any, Writer]]:
    """Field -> its default value, or what equals no value; and a function that writes it."""
    known = forms(kind)
    return {
        field.name: (
            field.default if field.default_factory is MISSING else field.default_factory(),
            list if _is_plain(known[field.name].item) else to_json,
        )
        for field in fields(cast("Any", kind))
    }


def _is_plain(form: Form | None) -> bool:
    """True if values of this form, if it is given, are the same in Python and JSON."""
    return form is not None and form.types[0] in _SCALARS
