# SPDX-License-Identifier: Apache-2.0
"""Ways through several parts of the package, from the first line to a file."""

import json

import numpy as np
import pytest

import hologram as hg
from conftest import mlp, mlp_numpy
from test_own_ops import fresh

torch = pytest.importorskip("torch")


def learn(trainer, inputs, targets):
    """Trains for 200 steps, after which the loss is less than a quarter of the first."""
    first = trainer.step(inputs, targets)
    for _ in range(200):
        last = trainer.step(inputs, targets)
    assert last < first / 4


def traced(model, inputs, folder):
    """The profile of a run, and the events of its Chrome trace."""
    profile = model.session(profile=True).profile(inputs)
    profile.save_trace(folder / "trace.json")
    return profile, json.loads((folder / "trace.json").read_text())["traceEvents"]


def test_a_file_is_fine_tuned_in_torch_and_saved(tmp_path, rng):
    """A model from a file, beside torch's layers in one network, trained by torch's optimizer, saved with its new weights."""
    model, _ = mlp(rng)
    model.save(tmp_path / "base.hgm")
    torch.manual_seed(0)
    body = hg.torch.wrap(hg.load(tmp_path / "base.hgm"))
    net = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Tanh(), body, torch.nn.Linear(3, 2))
    x, y = torch.randn(32, 5), torch.randint(0, 2, (32,))
    before = {name: value.clone() for name, value in body.state_dict().items()}
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    losses = []
    for _ in range(80):
        loss = torch.nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2
    assert all(not torch.equal(value, before[name]) for name, value in body.state_dict().items())
    body.model().save(tmp_path / "tuned.hgm")
    h = net[1](net[0](x)).detach()
    expected = mlp_numpy([(body.state_dict()[f"{i}.weight"].numpy(), body.state_dict()[f"{i}.bias"].numpy()) for i in (0, 1)], h.numpy())
    np.testing.assert_allclose(hg.load(tmp_path / "tuned.hgm")(h.numpy()), expected, rtol=1e-4, atol=1e-5)


def test_an_own_op_is_trained_and_traced(tmp_path, rng):
    """An op registered in Python, in a module that is converted, trained, saved and profiled as a Chrome trace."""
    name = fresh("swirl")

    @hg.register_op(f"{name}(x, gain: float = 0.5) -> y", gradient=lambda x, dy, gain: dy * (1 + gain * np.cos(x)), shape="like x")
    def swirl(x, gain):
        return x + gain * np.sin(x)

    g = hg.Graph()
    x = g.input("x", ("n", 4))
    h = hg.ops.call(name, hg.ops.linear(x, g.parameter("w", rng.standard_normal((6, 4)).astype(np.float32))), gain=0.25)
    g.output("y", hg.ops.linear(h, g.parameter("v", rng.standard_normal((1, 6)).astype(np.float32))))
    trainer = hg.Trainer(g.model(), loss="mse", optimizer="adamw", lr=2e-2)
    inputs = rng.standard_normal((64, 4)).astype(np.float32)
    targets = np.sin(inputs.sum(1, keepdims=True)).astype(np.float32)
    learn(trainer, inputs, targets)
    trainer.save(tmp_path / "own.hgm")
    model = hg.load(tmp_path / "own.hgm")
    weights = model.state_dict()
    h = inputs @ np.asarray(weights["w"]).T
    np.testing.assert_allclose(model(inputs), (h + 0.25 * np.sin(h)) @ np.asarray(weights["v"]).T, rtol=1e-3, atol=1e-4)
    profile, events = traced(model, inputs, tmp_path)
    assert name in {each["cat"] for each in events} and len(events) == len(profile)
    assert all(each["ph"] == "X" and each["dur"] >= 0 for each in events)
    ends = [each["ts"] + each["dur"] for each in events]
    assert all(each["ts"] == pytest.approx(end, abs=1e-6) for each, end in zip(events[1:], ends))


def test_an_own_op_in_a_converted_module(tmp_path, rng):
    """An op of torch.library and of this package, in a module that torch.export converts: trained, saved and traced."""
    name = fresh("ripple")
    library = torch.library.Library("acme", "FRAGMENT")
    library.define(f"{name}(Tensor x, float gain) -> Tensor")
    library.impl(name, lambda x, gain: x + gain * torch.sin(x), "CompositeExplicitAutograd")
    torch.library.register_fake(f"acme::{name}", lambda x, gain: torch.empty_like(x), lib=library)
    op = hg.register_op(f"acme.{name}(x, gain: float) -> y", lambda x, gain: x + gain * np.sin(x),
                        gradient=lambda x, dy, gain: dy * (1 + gain * np.cos(x)), shape="like x")  # fmt: skip

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = torch.nn.Linear(4, 6), torch.nn.Linear(6, 1)

        def forward(self, x):
            return self.last(getattr(torch.ops.acme, name)(self.first(x), 0.25))

    torch.manual_seed(0)
    net, x = Net(), torch.randn(64, 4)
    model = hg.convert(net, x, "n", options=["--custom", f"acme.{name}(x, gain: float) -> like x"])
    np.testing.assert_allclose(model(x), net(x).detach(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(op(x.numpy(), 0.25), x.numpy() + 0.25 * np.sin(x.numpy()), rtol=1e-6)
    trainer = hg.Trainer(model, loss="mse", optimizer="adamw", lr=2e-2)
    targets = torch.sin(x.sum(1, keepdim=True))
    learn(trainer, x, targets)
    trainer.save(tmp_path / "own.hgm")
    tuned = hg.load(tmp_path / "own.hgm")
    net.load_state_dict(tuned.state_dict())
    np.testing.assert_allclose(tuned(x), net(x).detach(), rtol=1e-4, atol=1e-5)
    _, events = traced(tuned, x, tmp_path)
    assert f"acme.{name}" in {each["cat"] for each in events}
