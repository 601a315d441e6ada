"""Symbolic dimensions: integers, or expressions of named variables.

An expression is read from text without executing any of it. Provably equal expressions have one
form. An expression can be bounded and evaluated.

>>> height = parse_dim("(h + 1)//2")
>>> height.evaluate({"h": 224}), height.bounds({"h": Range(32, 224)})
(112, Range(lower=16, upper=112))
>>> 2 * height == parse_dim("h + (-h) % 2")
True
"""

from __future__ import annotations

from cpplan.model.shapes.building import ceildiv, dim_max, dim_min, divide_exactly, variable
from cpplan.model.shapes.dim import Dim
from cpplan.model.shapes.parsing import parse_dim
from cpplan.model.shapes.table import ShapeTable
from cpplan.model.shapes.values import Range, check_value

__all__ = [
    "Dim",
    "Range",
    "ShapeTable",
    "ceildiv",
    "check_value",
    "dim_max",
    "dim_min",
    "divide_exactly",
    "parse_dim",
    "variable",
]
