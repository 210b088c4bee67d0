# SPDX-License-Identifier: Apache-2.0
"""Trainers beside torch's, and models as modules of torch."""

import copy
import pickle

import numpy as np
import pytest
from conftest import mlp

import hologram as hg
from hologram import _core

torch = pytest.importorskip("torch", "2.5")


def torch_mlp(weights):
    layers = []
    for i, (w, b) in enumerate(weights):
        layer = torch.nn.Linear(w.shape[1], w.shape[0])
        layer.load_state_dict({"weight": torch.from_numpy(w.copy()), "bias": torch.from_numpy(b.copy())})
        layers += [layer] + ([torch.nn.ReLU()] if i + 1 < len(weights) else [])
    return torch.nn.Sequential(*layers)


@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw", "rmsprop"])
def test_the_trainer_follows_torch(kind, rng):
    model, weights = mlp(rng)
    net = torch_mlp(weights)
    ours = {"sgd": hg.SGD(0.1, momentum=0.9), "adam": hg.Adam(1e-2), "adamw": hg.AdamW(1e-2), "rmsprop": hg.RMSprop(1e-2)}
    theirs = {
        "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
        "adam": lambda p: torch.optim.Adam(p, 1e-2),
        "adamw": lambda p: torch.optim.AdamW(p, 1e-2),
        "rmsprop": lambda p: torch.optim.RMSprop(p, 1e-2),
    }
    trainer, optimizer = hg.Trainer(model, loss="mse", optimizer=ours[kind]), theirs[kind](net.parameters())
    x, y = torch.randn(20, 8), torch.randn(20, 3)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=8)  # 8, 8, 4
    losses = []
    trainer.fit(loader, epochs=5, callbacks=lambda e: losses.append(e.loss) if not e.is_epoch else None)
    want = []
    for _ in range(5):
        for a, b in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(net(a), b)
            loss.backward()
            optimizer.step()
            want.append(loss.item())
    np.testing.assert_allclose(losses, want, rtol=1e-4)
    state = trainer.state_dict()
    assert all(isinstance(v, torch.Tensor) for v in state.values())
    torch.testing.assert_close(state["0.weight"], net[0].weight.detach(), rtol=1e-3, atol=1e-4)
    trainer.load_state_dict({f"{i // 2}.{n}": v for key, v in net.state_dict().items() for i, n in [(int(key[0]), key[2:])]})
    torch.testing.assert_close(torch.from_numpy(trainer.parameters()["0.weight"]), net[0].weight.detach(), rtol=0, atol=0)


def test_torchs_optimizers_drive_a_trainer(rng):
    model, weights = mlp(rng)
    net = torch_mlp(weights)
    trainer = hg.Trainer(model, loss="mse", optimizer=None)
    a = torch.optim.NAdam(trainer.torch_parameters(), 1e-2)
    b = torch.optim.NAdam(net.parameters(), 1e-2)
    schedules = [torch.optim.lr_scheduler.ExponentialLR(o, 0.9) for o in (a, b)]
    for i in range(6):
        x, y = torch.randn(7, 8), torch.randn(7, 3)
        a.zero_grad(set_to_none=bool(i % 2)), b.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x), y)
        loss.backward()
        np.testing.assert_allclose(trainer.backward(x, y), loss.item(), rtol=1e-4)
        torch.testing.assert_close(torch.from_numpy(trainer.gradients()["0.weight"]), net[0].weight.grad, rtol=1e-3, atol=1e-6)
        a.step(), b.step()
        [s.step() for s in schedules]
    torch.testing.assert_close(trainer.state_dict()["0.weight"], net[0].weight.detach(), rtol=1e-4, atol=1e-5)
    trainer.zero_grad()
    assert not trainer.gradients()["1.bias"].any()
    with pytest.raises(ValueError, match="optimizer=None"):
        hg.Trainer(model, loss="mse").backward(x, y)


# -- wrap -----------------------------------------------------------------------------------------


def test_wrap_trains_as_torch_does(rng):
    model, weights = mlp(rng)
    ours = torch.nn.Sequential(hg.torch.wrap(model), torch.nn.Tanh(), torch.nn.Linear(3, 2))
    theirs = torch.nn.Sequential(torch_mlp(weights), torch.nn.Tanh(), torch.nn.Linear(3, 2))
    theirs[2].load_state_dict(ours[2].state_dict())
    a, b = torch.optim.AdamW(ours.parameters(), 1e-2), torch.optim.AdamW(theirs.parameters(), 1e-2)
    assert len(list(ours.parameters())) == len(list(theirs.parameters()))
    for i in range(10):
        x = torch.randn(4 + i % 3, 8)
        x1, x2 = x.clone().requires_grad_(), x.clone().requires_grad_()
        a.zero_grad(), b.zero_grad()
        y1, y2 = ours(x1).square().mean(), theirs(x2).square().mean()
        torch.testing.assert_close(y1, y2, rtol=1e-4, atol=1e-6)
        y1.backward(), y2.backward()
        torch.testing.assert_close(x1.grad, x2.grad, rtol=1e-4, atol=1e-6)
        for p, q in zip(ours.parameters(), theirs.parameters()):
            torch.testing.assert_close(p.grad, q.grad, rtol=1e-3, atol=1e-6)
        a.step(), b.step()
    assert set(ours[0].state_dict()) == {"0.weight", "0.bias", "1.weight", "1.bias"}
    with torch.no_grad():
        torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-5)
    again = pickle.loads(pickle.dumps(ours[0]))
    torch.testing.assert_close(again(x), ours[0](x))
    other = copy.deepcopy(ours[0])
    torch.testing.assert_close(other(x), ours[0](x))
    with torch.no_grad():
        next(other.parameters()).zero_()
    assert not torch.equal(other(x), ours[0](x))


def test_wrap_uses_parameters_where_they_lie(rng):
    """Any write to parameters is noticed, also with torch.func.functional_call and load_state_dict(assign=True)."""
    model, weights = mlp(rng)
    ours, theirs = hg.torch.wrap(model), torch_mlp(weights)
    names = {"0.weight": "0.weight", "0.bias": "0.bias", "1.weight": "2.weight", "1.bias": "2.bias"}
    x = torch.randn(5, 8)
    places = [p.data_ptr() for p in ours.parameters()]

    def compare():
        for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
            with mode():
                torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-5)

    compare()
    ours(x).sum().backward()
    assert [p.data_ptr() for p in ours.parameters()] == places
    with torch.no_grad():
        ours.get_parameter("0.weight")[1] = 3
        theirs.get_parameter("0.weight")[1] = 3
    ours.get_parameter("1.bias").data.fill_(7)
    theirs.get_parameter("2.bias").data.fill_(7)
    ours.get_parameter("0.bias").detach().numpy()[0] = -4
    theirs.get_parameter("0.bias").detach().numpy()[0] = -4
    compare()
    assert [p.data_ptr() for p in ours.parameters()] == places
    turned = torch.randn(8, 16).t()
    ours.get_parameter("0.weight").data, theirs.get_parameter("0.weight").data = turned, turned
    compare()
    ours.load_state_dict({a: theirs.get_parameter(b).detach() * 2 for a, b in names.items()}, assign=True)
    theirs.load_state_dict({b: theirs.get_parameter(b).detach() * 2 for b in names.values()})
    compare()
    other = {a: p.detach() + 1 for a, p in ours.named_parameters()}
    got = torch.func.functional_call(ours, other, (x,))
    torch.testing.assert_close(got, torch.func.functional_call(theirs, {names[a]: p for a, p in other.items()}, (x,)), rtol=1e-4, atol=1e-4)
    compare()
    ours.get_parameter("0.bias").data = torch.zeros(3)
    with pytest.raises(ValueError, match=r"0.bias.*16"):
        ours(x)
    ours.double()
    with pytest.raises(ValueError, match="float32|f32"):
        ours(x)


def test_wrap_in_training_and_eval_mode():
    g = hg.Graph()
    x = g.input("x", ("n", 3, 4, 4))
    w, b = g.parameter("bn.weight", np.ones(3, np.float32)), g.parameter("bn.bias", np.zeros(3, np.float32))
    mean, var = g.buffer("bn.running_mean", np.zeros(3, np.float32)), g.buffer("bn.running_var", np.ones(3, np.float32))
    g.output("y", hg.ops.relu(hg.ops.batch_norm(x, mean, var, w, b)))
    ours = hg.torch.wrap(g.model())
    theirs = torch.nn.Sequential(torch.nn.BatchNorm2d(3), torch.nn.ReLU())
    for training in (True, True, False, True, False):
        ours.train(training), theirs.train(training)
        x = torch.randn(5, 3, 4, 4) * 2 + 1
        x1, x2 = x.clone().requires_grad_(), x.clone().requires_grad_()
        y1, y2 = ours(x1), theirs(x2)
        torch.testing.assert_close(y1, y2, rtol=1e-4, atol=1e-5)
        dy = torch.randn_like(y2)
        y1.backward(dy), y2.backward(dy)
        torch.testing.assert_close(x1.grad, x2.grad, rtol=1e-3, atol=1e-5)
        own = dict(ours.named_buffers())
        torch.testing.assert_close(own["bn.running_mean"], theirs[0].running_mean, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(own["bn.running_var"], theirs[0].running_var, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not hasattr(_core, "convert_file"), reason="this build has no converter")
def test_batches_are_counted_in_training_alone():
    theirs = torch.nn.Sequential(torch.nn.Conv2d(2, 4, 1), torch.nn.BatchNorm2d(4), torch.nn.ReLU())
    model = hg.convert(theirs, torch.randn(3, 2, 4, 4), dynamic="n")
    ours = hg.torch.wrap(model)
    for training in (True, False, True, False):
        for enabled in (True, False):
            x = torch.randn(2, 2, 4, 4)
            with torch.set_grad_enabled(enabled):
                torch.testing.assert_close(ours.train(training)(x), theirs.train(training)(x), rtol=1e-4, atol=1e-5)
            for name, value in theirs.named_buffers():
                torch.testing.assert_close(ours.get_buffer(name), value, rtol=1e-4, atol=1e-5)
    x, y = torch.randn(8, 2, 4, 4), torch.randn(8, 4, 4, 4)
    trainer = hg.Trainer(model, loss="mse", rules=[{"pattern": "1.*", "frozen": True}])
    trainer.step(x, y)
    assert trainer.buffers()["1.num_batches_tracked"] == 0
    trainer = hg.Trainer(model, loss="mse")
    trainer.step(x, y)
    trainer.evaluate(x, y)
    assert trainer.buffers()["1.num_batches_tracked"] == 1


@pytest.mark.parametrize("way", ["wrap", "layer"])
def test_an_empty_batch_moves_no_statistics(way):
    theirs = torch.nn.BatchNorm2d(3)
    if way == "layer":
        ours = hg.nn.BatchNorm2d(3)
    else:
        g = hg.Graph()
        given = {n: np.full(3, v, np.float32) for n, v in (("weight", 1), ("bias", 0), ("running_mean", 0), ("running_var", 1))}
        values = [(g.buffer if n.startswith("running") else g.parameter)(n, v) for n, v in given.items()]
        g.output("y", hg.ops.batch_norm(g.input("x", ("n", 3, 2, 2)), *values[2:], *values[:2]))
        ours = hg.torch.wrap(g.model())
    for n in (4, 0, 5):
        x = torch.randn(n, 3, 2, 2)
        for layer in (ours, theirs):
            layer.zero_grad()
            layer(x).square().sum().backward()
        for name in ("weight", "bias"):
            torch.testing.assert_close(ours.get_parameter(name).grad, theirs.get_parameter(name).grad, rtol=1e-4, atol=1e-4)
        for name in ("running_mean", "running_var"):
            torch.testing.assert_close(ours.get_buffer(name), theirs.get_buffer(name), rtol=1e-4, atol=1e-5)


def test_wrap_drops_in_forward_what_it_drops_in_backward():
    g = hg.Graph()
    x = g.input("x", ("n",))
    g.output("y", hg.ops.dropout(x * g.parameter("w", np.ones(1, np.float32)), 0.5))
    ours = hg.torch.wrap(g.model())
    x = torch.ones(1000, requires_grad=True)
    y = ours(x)
    z = ours(x)
    assert not torch.equal(y, z)  # other numbers each time
    y.sum().backward()
    torch.testing.assert_close(x.grad, y.detach())
    assert 300 < (y == 0).sum() < 700
    ours.eval()
    assert torch.equal(ours(x), x)


class Twice(torch.nn.Module):
    def forward(self, w):
        return 2 * w


def test_wrap_is_copied_as_modules_are(rng):
    wrapped = hg.torch.wrap(mlp(rng)[0])
    x = torch.randn(2, 8)
    next(wrapped.parameters()).requires_grad_(False)
    calls = []
    wrapped.register_forward_hook(lambda *_: calls.append(1))
    twin = copy.deepcopy(wrapped)
    torch.testing.assert_close(twin(x), wrapped(x))
    assert len(calls) == 2
    wrapped._forward_hooks.clear()  # a lambda cannot be pickled
    read = pickle.loads(pickle.dumps(wrapped.eval()))
    assert not read.training and twin.training
    for each in (twin, read):
        assert [p.requires_grad for p in each.parameters()] == [p.requires_grad for p in wrapped.parameters()]
    with torch.no_grad():
        for p in twin.parameters():
            p.zero_()
    assert not twin(x).any() and wrapped(x).any()
    torch.nn.utils.parametrize.register_parametrization(read.get_submodule("1"), "weight", Twice())
    with torch.no_grad():
        wrapped.get_submodule("1").weight.mul_(2)
    torch.testing.assert_close(read(x), wrapped(x))
