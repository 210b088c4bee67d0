# SPDX-License-Identifier: Apache-2.0
"""python -m hologram, with numpy alone."""

import json
import signal
import subprocess
import sys

import numpy as np
import pytest
from conftest import mlp, mlp_numpy

from hologram.__main__ import main


@pytest.fixture
def files(tmp_path, rng):
    model, weights = mlp(rng)
    model.save(tmp_path / "m.hgm")
    x = rng.standard_normal((4, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", np.zeros((4, 3), np.float32))
    return tmp_path, x, weights


def test_run(files, capsys):
    folder, x, weights = files
    assert main(["run", f"{folder}/m.hgm", "--input", f"{folder}/x.npy", "--output-dir", f"{folder}/out"]) == 0
    np.testing.assert_allclose(np.load(folder / "out" / "y.npy"), mlp_numpy(weights, x), rtol=1e-4, atol=1e-5)
    assert "y.npy: float32[4, 3]" in capsys.readouterr().out
    assert main(["run", f"{folder}/m.hgm", "--input", f"x={folder}/x.npy", "--output-dir", f"{folder}/out", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"][0]["shape"] == [4, 3]
    (folder / "out" / "y.npy").write_bytes((folder / "x.npy").read_bytes())
    assert main(["run", f"{folder}/m.hgm", "--input", f"x={folder}/out/y.npy", "--output-dir", f"{folder}/./out"]) == 4
    assert "would replace" in capsys.readouterr().err
    np.testing.assert_array_equal(np.load(folder / "out" / "y.npy"), x)


def test_info(files, capsys):
    folder, _, _ = files
    assert main(["info", f"{folder}/m.hgm", "--dim", "n=2", "--svg", f"{folder}/g.svg", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ops"] == {"linear": 2, "relu": 1} and found["memory"]["peak_bytes"] > 0
    assert "<svg" in (folder / "g.svg").read_text()
    assert main(["info", f"{folder}/m.hgm"]) == 0
    assert "input   x: float32[n, 8]" in capsys.readouterr().out
    assert main(["info", f"{folder}/m.hgm", "--text"]) == 0
    assert "linear" in capsys.readouterr().out


def test_bench(files, capsys):
    folder, _, _ = files
    for words in (["f32[4,8]"], [f"{folder}/x.npy"]):
        assert main(["bench", f"{folder}/m.hgm", "--input", *words, "--repeat", "3", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["latency_ms"]["min"] > 0 and found["weights_bytes"] > 0
    assert main(["bench", f"{folder}/m.hgm", "--repeat", "2", "--profile"]) == 0
    assert "linear" in capsys.readouterr().out


def test_train(files, capsys):
    folder, _, _ = files
    words = ["train", f"{folder}/m.hgm", "--input", f"{folder}/x.npy", "--target", f"{folder}/y.npy", "--epochs", "5",
             "--lr", "0.01", "--out", f"{folder}/t.hgm", "--json", f"{folder}/log.json"]  # fmt: skip
    assert main(words) == 0
    losses = [step["loss"] for step in json.loads((folder / "log.json").read_text())["steps"]]
    assert len(losses) == 5 and losses[-1] < losses[0]
    assert main(["info", f"{folder}/t.hgm"]) == 0


@pytest.mark.parametrize(
    "words, code, sentence",
    [
        (["run", "none.hgm", "--output-dir", "o"], 2, "none.hgm"),
        (["run", "{}/m.hgm", "--input", "none.npy", "--output-dir", "o"], 2, "none.npy"),
        (["run", "{}/m.hgm", "--output-dir", "o"], 4, "1 inputs"),
        (["run", "{}/x.npy", "--output-dir", "o"], 2, ""),
        (["bench", "{}/m.hgm", "--input", "f32[4,9]"], 4, "9"),
        (["info", "{}/m.hgm", "--dim", "n"], 4, "NAME=SIZE"),
        (["info", "{}/m.hgm", "--colour"], 1, "--colour"),
        (["sing"], 1, "sing"),
        (["info", "{}/m.hgm", "--svg", "{}/./m.hgm"], 4, "would replace"),
        (["train", "{}/m.hgm", "--input", "{}/x.npy", "--target", "{}/y.npy", "--out", "{}/./y.npy"], 4, "would replace"),
        (["train", "{}/m.hgm", "--input", "{}/x.npy", "--target", "{}/y.npy", "--out", "{}/t.hgm", "--json", "{}/./m.hgm"], 4,
         "would replace"),
        (["train", "{}/m.hgm", "--input", "{}/x.npy", "--target", "{}/y.npy", "--loss", "msee", "--out", "t.hgm"], 4, "msee"),
    ],
)
def test_refusals(files, capsys, words, code, sentence):
    folder, _, _ = files
    assert main([word.format(folder) for word in words]) == code
    captured = capsys.readouterr()
    assert sentence in captured.err and captured.err


def test_help(capsys):
    assert main(["--help"]) == 0
    assert "convert" in capsys.readouterr().out
    assert main(["--version"]) == 0


def test_ctrl_c_ends_a_command_with_one_line(files):
    folder, _, _ = files
    words = ["train", f"{folder}/m.hgm", "--input", f"{folder}/x.npy", "--target", f"{folder}/y.npy", "--epochs", "1000000000",
             "--out", f"{folder}/t.hgm"]  # fmt: skip
    with subprocess.Popen([sys.executable, "-m", "hologram", *words], stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr.readline().startswith("epoch 1/")
        child.send_signal(signal.SIGINT)
        said = child.stderr.read().splitlines()
    assert child.returncode == 130
    assert said[-1] == "hologram: stopped by Ctrl-C" and all(line.startswith("epoch ") for line in said[:-1])
    assert not (folder / "t.hgm").exists()
