"""Checks of a serialized program before torch makes a graph from it.

torch evaluates strings from the JSON of an archive: sizes are Python expressions; names of ops are
looked up attribute by attribute, beginning at ``torch`` (``torch.os.system``); names of nodes
become source code; specifications of nested inputs import modules. So these checks allow only
identifiers as names, expressions of integers as sizes, and torch's computing operators as ops.
Everything else that planning does not need is removed.
"""

from __future__ import annotations

import ast
import dataclasses
import keyword
import re
from typing import Any

import torch
from torch._export.serde import schema
from torch._export.serde.serialize import _SYM_OPS
from torch._export.serde.union import _Union
from torch._ops import HigherOrderOperator, OpOverload

from cpplan.model.errors import InputError

TRUSTED = "if you trust the file, load it with torch.export.load and pass the program"

_NAMESPACES = ("aten", "prims", "quantized_decomposed", "torchvision")
# One opens a file, the other writes to standard output.
_REFUSED = ("from_file", "_print")
_HIGHER_ORDER = ("cond", "while_loop", "wrap_with_autocast", "wrap_with_set_grad_enabled")
_NAME = re.compile(r"[A-Za-z_]\w{0,999}", re.ASCII)
_SYMBOL = re.compile(r"_?(s|u|zf|zuf)[0-9]{1,12}", re.ASCII)
_LONGEST_EXPRESSION = 20_000
# Classes of sympy and of torch's own functions, as sympy's ``srepr`` spells them.
_POWERS = ("Pow", "PowByNatural", "FloatPow", "LShift", "RShift")
# fmt: off
_FUNCTIONS = (
    "Add", "Mul", "Max", "Min", "Abs", "Eq", "Ne", "Lt", "Le", "Gt", "Ge", "Equality",
    "Unequality", "StrictLessThan", "LessThan", "StrictGreaterThan", "GreaterThan", "And",
    "Or", "Not", "Piecewise", "ExprCondPair", "Tuple", "floor", "ceiling", "FloorDiv",
    "ModularIndexing", "Where", "PythonMod", "Mod", "CleanDiv", "CeilToInt", "FloorToInt",
    "CeilDiv", "FloatTrueDiv", "IntTrueDiv", "TruncToFloat", "TruncToInt", "RoundToInt",
    "ToFloat", "Identity",
)
# fmt: on
_FLOAT = re.compile(r"-?[0-9.]{1,40}(e[+-]?[0-9]{1,3})?", re.ASCII)
_MOST_EXPONENT = 64
_MOST_POWERS = 3


def check_program(program: schema.ExportedProgram) -> None:
    """Raise unless a serialized program can be made a graph without running code from it.

    Metadata, guards and calling conventions are removed from the program: planning does not need
    them.

    Raises
    ------
    InputError
        Names the node, symbol or name that is refused, and says what was expected.
    """
    module = program.graph_module
    # torch.export writes programs whose ops may overwrite their inputs: TRAINING allows that.
    program.guards_code, program.verifiers = [], ["TRAINING"]
    module.metadata, module.module_call_graph, module.treespec_namedtuple_fields = {}, [], {}
    for symbol in program.range_constraints:
        if not _SYMBOL.fullmatch(symbol):
            raise InputError(f"range of {_shown(symbol)}: expected a symbol such as 's77'")
    waiting: list[Any] = [module.graph, module.signature]
    while waiting:
        value = waiting.pop()
        if isinstance(value, (list, tuple)):
            waiting.extend(value)
        elif isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, _Union):
            kind = str(value.type)  # the tag refuses comparison with tags of other unions
            if kind == "as_operator":
                _check_operator(value.value, None)
            elif kind == "as_name":
                _check_name(value.value)
            waiting.append(value.value)
        elif dataclasses.is_dataclass(value):
            _check_fields(value)
            waiting.extend(getattr(value, field.name) for field in dataclasses.fields(value))


def _check_fields(value: Any) -> None:
    """Raise if an object of the JSON is not allowed; its members are not checked here."""
    if isinstance(value, schema.Node):
        value.metadata = {}
        _check_operator(value.target, value.name)
    elif isinstance(value, schema.CustomObjArgument):
        raise InputError(f"custom objects can only be unpickled: {TRUSTED}")
    elif isinstance(value, schema.SymExpr):
        _check_expression(value.expr_str)
    elif isinstance(value, schema.Graph):
        for held in (value.tensor_values, value.sym_int_values, value.sym_float_values):
            for name in held:
                _check_name(name)
    _check_name(getattr(value, "name", None))


def _check_name(name: Any) -> None:
    if name is None or name == "":  # arguments that are given by position, results without a name
        return
    if not isinstance(name, str) or not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise InputError(f"name {_shown(name)}: expected an identifier")


def _check_operator(target: Any, node: Any) -> None:
    found = _find_operator(target) if isinstance(target, str) else None
    if found is None:
        raise InputError(
            f"node {_shown(node)}: op {_shown(target)} is not on the list of safe operators: "
            f"{TRUSTED}"
        )


def _find_operator(target: str) -> Any:
    """The operator with this name, or ``None`` if it may do anything but compute."""
    parts = target.split(".")
    if parts[:3] == ["torch", "ops", "higher_order"] and len(parts) == 4:
        found = (
            getattr(torch.ops.higher_order, parts[3], None) if parts[3] in _HIGHER_ORDER else None
        )
        return found if isinstance(found, HigherOrderOperator) else None
    if parts[:2] == ["torch", "ops"] and len(parts) == 5:
        namespace, name, overload = parts[2:]
        qualified = f"{namespace}::{name}" + ("" if overload == "default" else f".{overload}")
        if namespace not in _NAMESPACES or name in _REFUSED or not _NAME.fullmatch(name):
            return None
        # Other operators of these namespaces belong to TorchScript, and some of them write files.
        if not _NAME.fullmatch(overload) or not torch._C._dispatch_has_kernel(qualified):
            return None
        packet = getattr(getattr(torch.ops, namespace), name, None)
        found = getattr(packet, overload, None)
        return found if isinstance(found, OpOverload) else None
    return next((op for op in _SYM_OPS if target == f"{op.__module__}.{op.__name__}"), None)


def _check_expression(text: Any) -> None:
    """Raise unless a text is an expression of numbers and symbols in sympy's own spelling."""
    try:
        if not isinstance(text, str) or len(text) > _LONGEST_EXPRESSION:
            raise ValueError
        _check_tree(ast.parse(text, mode="eval").body, 0)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(
            f"size {_shown(text)}: expected sums, products and quotients of symbols"
        ) from error


def _check_tree(tree: ast.expr, powers: int) -> None:
    match tree:
        case ast.Name(id=name):
            _need(name in ("true", "false") or bool(_SYMBOL.fullmatch(name)))
        case ast.Constant() | ast.UnaryOp():
            _need(_number(tree) is not None)
        case ast.Call(
            func=ast.Name(id="Symbol"), args=[ast.Constant(value=str(name))], keywords=given
        ):
            _need(bool(_SYMBOL.fullmatch(name)))
            _need(all(isinstance(_value(each), bool) for each in given))
        case ast.Call(
            func=ast.Name(id="Float"), args=[ast.Constant(value=str(digits))], keywords=given
        ):
            _need(bool(_FLOAT.fullmatch(digits)))
            _need(all(_value(each) in range(1, 129) for each in given))
        case ast.Call(func=ast.Name(id="Integer" | "Rational"), args=args, keywords=[]):
            _need(1 <= len(args) <= 2 and all(_number(each) is not None for each in args))
        case ast.Call(func=ast.Name(id=name), args=[base, exponent], keywords=[]) if (
            name in _POWERS
        ):
            _need(powers < _MOST_POWERS and _is_small(exponent))
            _check_tree(base, powers + 1)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            for each in args:
                _check_tree(each, powers)
        case _:
            raise ValueError


def _value(given: ast.keyword) -> object:
    """Value of a keyword argument if it is a constant, else ``None``."""
    plain = given.arg is not None and isinstance(given.value, ast.Constant)
    return given.value.value if plain and isinstance(given.value, ast.Constant) else None


def _number(tree: ast.expr) -> int | None:
    match tree:
        case (
            ast.Constant(value=int(value))
            | ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value)))
        ):
            return int(value) if value < 1 << 64 else None
    return None


def _is_small(exponent: ast.expr) -> bool:
    """True if an exponent is a small number."""
    numbers = [exponent]
    match exponent:
        case ast.Call(func=ast.Name(id="Integer" | "Rational"), args=args, keywords=[]):
            numbers = args
    values = [_number(each) for each in numbers]
    return bool(values) and all(value is not None and value <= _MOST_EXPONENT for value in values)


def _need(condition: bool) -> None:
    if not condition:
        raise ValueError


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
