"""One HTML file from a body, styles, scripts and data, out of which no request can leave.

Names in the data are hostile text. They are in the file once, as JSON of which no character means
anything to HTML, and scripts show them as text only. A content security policy allows the styles
and scripts that are in the file, by their hashes, and nothing else.
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
# What ends a script element or opens a comment in one. JSON is ASCII here, so that the line ends of
# other scripts (U+2028) and marks that turn the direction of writing are escaped already.
_ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&'"}


def fill_page(
    body: str, *, title: str, data: Any, styles: Sequence[str], scripts: Sequence[str]
) -> str:
    """A page of the folder ``page``, with all it needs.

    Parameters
    ----------
    body
        File of what is in it, for the scripts to fill; ``page.html`` is around it.
    title
        Of the window; any text.
    data
        What the scripts show, JSON-ready.
    styles, scripts
        Files that are put together in this order; scripts share one function's scope.

    Raises
    ------
    ValueError
        If the data holds a number that is not finite.

    Examples
    --------
    >>> text = fill_page("plan.html", title="</title>", data={}, styles=[], scripts=[])
    >>> "<title>&lt;/title&gt;</title>" in text
    True
    """
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
    """JSON that may stand in a ``<script>`` element: compact, ASCII, without ``<``, ``>``, ``&``.

    Examples
    --------
    >>> escape_json({"name": "</script>"})
    '{"name":"\\\\u003c/script\\\\u003e"}'
    """
    return json.dumps(data, separators=(",", ":"), allow_nan=False).translate(_ESCAPES)


def _read(name: str) -> str:
    return (resources.files(_PLACE) / "page" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """What a policy calls an inline element of this text."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
