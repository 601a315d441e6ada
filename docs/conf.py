"""Settings of Sphinx: ``python -m sphinx -W -b html docs OUT`` builds without a network."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import cpplan

project = "cpplan"
release = version = cpplan.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc", "notebook_pages"]
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = f"cpplan {release}"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_show_copyright = False

myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"
numpydoc_show_class_members = False
# Types are in the signatures; docstrings name none.
numpydoc_xref_param_type = False
