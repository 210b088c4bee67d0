# SPDX-License-Identifier: Apache-2.0
"""help() is enough to work: every public name has a docstring and named arguments."""

import inspect
import re

import pytest

import hologram as hg

try:
    import torch
except ImportError:
    torch = None

MODULES = ["hologram", "ops", "named", "distributed"] + (["nn", "torch"] if torch is not None else [])


def _members(path, owner):
    names = getattr(owner, "__all__", None) or [name for name in dir(owner) if not name.startswith("_")]
    for name in names:
        if torch is not None or name not in ("nn", "torch"):
            yield f"{path}.{name}", getattr(owner, name)


def _is_ours(value):
    return (getattr(value, "__module__", None) or "").startswith("hologram")


def _faults(path, value):
    said = inspect.getdoc(value) or ""
    if type(value).__name__ in ("nb_func", "nb_method"):  # the first line is nanobind's own
        if re.search(r"\barg\d", said.partition("\n")[0]):
            yield f"{path}: its arguments have no names"
        said = "\n".join(said.splitlines()[1:])
    if not said.strip():
        yield f"{path} says nothing"
    if not inspect.isclass(value):
        return
    for name, member in vars(value).items():
        if name.startswith("_") or name.endswith("_") or name == "__init__":
            continue
        member = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
        if callable(member) or inspect.isdatadescriptor(member):
            yield from _faults(f"{path}.{name}", getattr(value, name, member) if callable(member) else member)


@pytest.mark.parametrize("module", MODULES)
def test_everything_says_what_it_does(module):
    owner = hg if module == "hologram" else getattr(hg, module)
    found = [] if owner.__doc__ else [f"{module} says nothing"]
    count = 0
    for path, value in _members(module, owner):
        if _is_ours(value) and not inspect.ismodule(value):
            count += 1
            found += _faults(path, value)
    assert not found
    assert count > 3


def test_help_of_an_op_has_its_text_arguments_and_defaults():
    assert "x * sigmoid(x)" in hg.ops.silu.__doc__ and "shape and dtype of x" in hg.ops.silu.__doc__
    assert "Smallest element so far" in hg.ops.cummin.__doc__ and "cummin(x, dim: int) -> values, indices" in hg.ops.cummin.__doc__
    said = hg.ops.softmax.__doc__
    assert said.startswith("softmax(") and "dim" in said
    assert "dim" in inspect.signature(hg.ops.softmax).parameters and "out" in inspect.signature(hg.ops.softmax).parameters
