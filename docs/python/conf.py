# SPDX-License-Identifier: Apache-2.0
"""Sphinx configuration: the target python_docs builds these pages, python/tests/test_docs.py fails on any warning."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import hologram

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import measurements

project = "Hologram"
author = "The Hologram authors"
copyright = author
version = release = hologram.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["README.md", "notebooks"]  # index.rst includes README.md
nitpicky = False
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # nanobind's signatures include them
autodoc_preserve_defaults = True

html_theme = "alabaster"
html_theme_options = {"description": "Runs and trains PyTorch models without PyTorch", "page_width": "1100px"}
html_show_copyright = False


def carry_pages_outside(app, docname, source):
    """Links to pages in other folders, which Sphinx does not build, become downloads."""
    source[0] = re.sub(r"\[([^\]]+)\]\((\.\./\w+\.md)(#[\w-]+)?\)", r"{download}`\1 <\2>`", source[0])


def show_measurements(app, docname, source):
    """Inserts the output of `scripts/measurements.py NAME` after each paragraph that names it."""

    def with_table(found):
        data = json.loads((measurements.FOLDER / f"{found[1]}.json").read_text())
        return found[0] + "\n" + re.sub(r"^## (.*)", r"**\1.**", measurements.markdown(data)) + "\n"

    source[0] = re.sub(r"(?:.+\n)*.*`scripts/measurements\.py (\w+)`.*\n(?:.+\n)*", with_table, source[0])


def show_ops(app, docname, source):
    """Appends the output of `hg-convert --list-ops` to the page of the ops, if the program is found."""
    program = os.environ.get("HOLOGRAM_CONVERT") or shutil.which("hg-convert")
    if docname == "ops" and program:
        listed = subprocess.run([program, "--list-ops"], check=True, capture_output=True, text=True).stdout
        source[0] += "\n" + listed.removeprefix("# Ops\n\n")


def keep_bars(app, what, name, object, options, lines):
    """The texts of ops write |x| for absolute values, not for substitutions of reStructuredText."""
    lines[:] = [line.replace("|", "\\|") for line in lines]


def setup(app):
    app.connect("autodoc-process-docstring", keep_bars)
    app.connect("source-read", show_ops)
    app.connect("source-read", show_measurements)
    app.connect("source-read", carry_pages_outside)
