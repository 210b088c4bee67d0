# SPDX-License-Identifier: Apache-2.0
"""Each block of Python on the pages of docs/python runs, page by page, in order."""

import importlib.util
import pathlib
import re

import pytest

from hologram import _core

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "docs" / "python"
PAGES = sorted(FOLDER.glob("*.md"))


def has(requirement):
    if requirement == "convert":
        return hasattr(_core, "convert_file")
    if requirement == "torch" and importlib.util.find_spec("torch") is not None:
        import torch

        return tuple(int(n) for n in torch.__version__.split(".")[:2]) >= (2, 5)
    return importlib.util.find_spec(requirement) is not None


def test_there_are_pages():
    assert len(PAGES) >= 6


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope = {"__name__": "__main__"}
    for found in re.finditer(r"^```python(?: requires=(\S+))?\n(.*?)^```", page.read_text(), re.M | re.S):
        if found[1] and not all(map(has, found[1].split(","))):
            continue
        line = page.read_text()[: found.start(2)].count("\n")
        code = compile("\n" * line + found[2], str(page), "exec")
        if found[1] and "convert" in found[1]:
            import hologram.torch  # noqa: F401 - registers the backend, as importing it once does
        exec(code, scope)
