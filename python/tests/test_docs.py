# SPDX-License-Identifier: Apache-2.0
"""Runs each Python block of docs/python and README, page by page, in order, and the notebooks. Sphinx builds the pages without a
warning."""

import importlib.util
import json
import pathlib
import re
import subprocess
import sys

import pytest

import hologram as hg

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


def test_readme(tmp_path, monkeypatch):
    """The blocks expect a net, a loader and x from the reader."""
    if not has("torch") or not has("convert"):
        pytest.skip("needs torch and the converter")
    import torch

    monkeypatch.chdir(tmp_path)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 16, 16), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 14 * 14, 5))
    x = torch.randn(2, 3, 224, 224)
    data = torch.utils.data.TensorDataset(torch.randn(6, 3, 224, 224), torch.randint(5, (6,)))
    scope = {"net": net, "torch": torch, "x": x, "loader": torch.utils.data.DataLoader(data, batch_size=3)}
    with torch.no_grad():
        want = net(x)
    for block in re.findall(r"^```python\n(.*?)^```", (FOLDER.parents[1] / "README.md").read_text(), re.M | re.S):
        exec(compile(block, "README.md", "exec"), scope)
    torch.testing.assert_close(torch.as_tensor(scope["y"]), want, rtol=1e-4, atol=1e-5)
    assert torch.jit.load("model.pt")(x).shape == want.shape
    assert pathlib.Path("model.hgm").stat().st_size > 0


NOTEBOOKS = sorted((FOLDER / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path):
    for cell in json.loads(path.read_text())["cells"]:
        assert not cell.get("outputs") and not cell.get("execution_count"), "a notebook is kept without outputs"
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    if not has("torch") or not has("convert"):
        pytest.skip("needs torch and the converter")
    book = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(book, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}).execute()


def test_there_are_notebooks():
    assert {path.stem for path in NOTEBOOKS} >= {"digits", "finetune", "own_kernel"}


def test_sphinx(tmp_path):
    """No warnings, and each public name is in the reference."""
    pytest.importorskip("sphinx"), pytest.importorskip("myst_parser")
    if not has("torch"):
        pytest.skip("hologram.nn and hologram.torch need torch")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", tmp_path / "trees", FOLDER, tmp_path / "html"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    from sphinx.util.inventory import InventoryFile

    with open(tmp_path / "html" / "objects.inv", "rb") as file:
        shown = InventoryFile.load(file, "", lambda base, path: path)
    names = {name for kind, rows in shown.items() if kind.startswith("py:") for name in rows}
    modules = {"distributed", "named", "nn", "ops", "torch"}
    public = [name for name in dir(hg) if not name.startswith("_") and getattr(hg, name) is not importlib]
    missing = {f"hologram.{name}" for name in public} - names
    missing |= {f"hologram.{module}.{name}" for module in modules - {"ops"} for name in getattr(hg, module).__all__} - names
    assert not missing, f"reference.rst does not show {', '.join(sorted(missing))}"
