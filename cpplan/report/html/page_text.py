"""One HTML file from a body, styles, scripts and data, which cannot send requests.

Names in the data may be hostile text. They occur in the file once, as JSON without characters that
are special in HTML, and scripts show them only as text. A content security policy allows the
styles and scripts in the file, by their hashes, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from importlib import resources
from string import Template
from typing import Any

from cpplan.model.printable import printable

_PLACE = "cpplan.report.html"
# Styles and scripts of pages that show a line chart and tables.
TABLE_STYLES = ("base.css", "batch.css", "print.css")
TABLE_SCRIPTS = (
    "text.js",
    "elements.js",
    "colours.js",
    "redraw.js",
    "line_chart.js",
    "table.js",
    "downloads.js",
)
# Characters that end a script element or open a comment in one. JSON is ASCII here, so that line
# separators (U+2028) and marks of writing direction are escaped already.
_ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&'"}


def fill_page(
    body: str, *, title: str, data: Any, styles: Sequence[str], scripts: Sequence[str]
) -> str:
    """The text of a page of the folder ``page``, with its styles, scripts and data."""
    style = "\n".join(_read(name) for name in styles)
    parts = "\n".join(_read(name) for name in scripts)
    script = f'(() => {{\n"use strict";\n{parts}\n}})();'
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return Template(_read("page.html")).substitute(
        policy=policy,
        title=html.escape(printable(title)),
        body=_read(body),
        style=style,
        data=escape_json(data),
        script=script,
    )


def escape_json(data: Any) -> str:
    """JSON that is safe in a ``<script>`` element: compact, ASCII, without ``<``, ``>``, ``&``."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).translate(_ESCAPES)


def _read(name: str) -> str:
    return (resources.files(_PLACE) / "page" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Hash by which a content security policy allows an inline element of this text."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
