# SPDX-License-Identifier: Apache-2.0
"""Small models that need no converter, and code shared by tests."""

import importlib.util
import signal
import sys

import numpy as np
import pytest

if importlib.util.find_spec("torch") is not None:
    import torch

    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 5):  # Debian 12 has 1.13; pyproject.toml names the oldest version
        sys.modules["torch"] = None  # its import fails, so that tests of torch are skipped

import hologram as hg  # noqa: E402

signal.signal(signal.SIGINT, signal.default_int_handler)  # processes that a shell starts in the background ignore it


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def fresh_dynamo():
    """Removes everything compiled after each test."""
    import torch

    yield
    torch._dynamo.reset()


def mlp(rng, sizes=(8, 16, 3), batch="n"):
    """A network of linear layers with relu between them, and its weights."""
    g = hg.Graph()
    x = g.input("x", (batch, sizes[0]))
    weights = []
    for i, (n, m) in enumerate(zip(sizes, sizes[1:])):
        w = (rng.standard_normal((m, n)) / n**0.5).astype(np.float32)
        b = rng.standard_normal(m).astype(np.float32)
        weights.append((w, b))
        x = hg.ops.linear(x, g.parameter(f"{i}.weight", w), g.parameter(f"{i}.bias", b))
        if i + 2 < len(sizes):
            x = hg.ops.relu(x)
    g.output("y", x)
    return g.model(), weights


def mlp_numpy(weights, x):
    for i, (w, b) in enumerate(weights):
        x = x @ w.T + b
        if i + 1 < len(weights):
            x = np.maximum(x, 0)
    return x


@pytest.fixture
def small(rng):
    return mlp(rng)


def pointwise(dtype="float32", shape=("n",)):
    """y = relu(a + b) * a: three ops."""
    g = hg.Graph()
    a, b = g.input("a", shape, dtype), g.input("b", shape, dtype)
    g.output("y", hg.ops.relu(a + b) * a)
    return g.model()
