# SPDX-License-Identifier: Apache-2.0
"""Sphinx over these pages: scripts/python_docs.sh builds them, python/tests/test_docs.py holds them free of warnings."""

import re

import hologram

project = "Hologram"
author = "The Hologram authors"
copyright = author
version = release = hologram.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["README.md", "notebooks"]  # index.rst takes README.md in
nitpicky = False
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # nanobind's signatures have them
autodoc_preserve_defaults = True

html_theme = "alabaster"
html_theme_options = {"description": "Runs and trains PyTorch models without PyTorch", "page_width": "1100px"}
html_show_copyright = False


def carry_pages_outside(app, docname, source):
    """Pages of other folders are not Sphinx's: a link to one gives the file."""
    source[0] = re.sub(r"\[([^\]]+)\]\((\.\./\w+\.md)(#[\w-]+)?\)", r"{download}`\1 <\2>`", source[0])


def setup(app):
    app.connect("source-read", carry_pages_outside)
