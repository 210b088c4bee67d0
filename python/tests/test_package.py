# SPDX-License-Identifier: Apache-2.0
"""The package itself: its names, types and requirements."""

import ast
import os
import pathlib
import re
import subprocess
import sys

import hologram as hg


def test_every_name_is_there():
    for name in hg.__all__ if hasattr(hg, "__all__") else []:
        assert getattr(hg, name) is not None
    assert re.match(r"\d+\.\d+\.\d+$", hg.__version__)


def test_torch_is_not_needed():
    program = """
import sys
sys.modules["torch"] = None
import numpy as np
import hologram as hg
graph = hg.Graph()
graph.output("y", hg.ops.relu(graph.input("x", ("n",))))
assert graph.model()(np.array([-1, 2], np.float32)).tolist() == [0, 2]
assert hg.kernel("k", "x * 2")(np.ones(2)).tolist() == [2, 2]
assert (hg.Var(np.ones(2)) + 1).numpy().tolist() == [2, 2]
assert not [name for name in sys.modules if name.startswith(("torch.", "pandas", "scipy", "onnx"))]
for name in ("nn", "torch"):
    try:
        getattr(hg, name)
    except ImportError as error:
        assert "torch" in str(error), error
    else:
        raise AssertionError(name)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_there_are_types():
    folder = pathlib.Path(hg.__file__).parent
    assert (folder / "py.typed").exists()
    stubs = ast.parse((folder / "_core.pyi").read_text(encoding="utf-8"))
    names = {node.name for node in stubs.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    assert {"ModelBase", "Session", "ExecutorBase", "KernelBase", "Var"} <= names
