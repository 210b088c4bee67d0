# SPDX-License-Identifier: Apache-2.0
"""Training with numpy alone."""

import signal
import sys
import threading
import types

import numpy as np
import pytest
from conftest import mlp, mlp_numpy

import hologram as hg


@pytest.fixture
def data(rng):
    x = rng.standard_normal((50, 8)).astype(np.float32)
    return x, np.stack([x[:, 0] - x[:, 1], x[:, 2], -x[:, 3]], 1)


def test_fit_learns(small, data):
    model, weights = small
    x, y = data
    t = hg.Trainer(model, loss="mse", optimizer="adamw", lr=1e-2)
    before = t.evaluate(x, y)["loss"]
    np.testing.assert_allclose(before, np.mean((mlp_numpy(weights, x) - y) ** 2), rtol=1e-4)
    history = t.fit(x, y, epochs=30, batch_size=16)
    assert len(history) == 30 and history[-1].epoch == 30
    assert t.evaluate(x, y)["loss"] < before / 4
    assert t.updates == 30 * 4  # 16, 16, 16, and 2
    assert history["loss"][-1] < history["loss"][0]
    np.testing.assert_array_equal(model(x), hg.load(model.serialize())(x))  # the model stays
    np.testing.assert_allclose(np.mean((t.model()(x) - y) ** 2), t.evaluate(x, y)["loss"], rtol=1e-4)


def test_one_step_of_sgd_equals_numpy(rng, data):
    model, [(w, b)] = mlp(rng, (8, 3))
    x, y = data
    t = hg.Trainer(model, loss="mse", optimizer=hg.SGD(lr=0.1))
    loss = t.step(x, y)
    error = x @ w.T + b - y
    np.testing.assert_allclose(loss, np.mean(error**2), rtol=1e-5)
    dy = 2 * error / error.size
    p = t.parameters()
    np.testing.assert_allclose(p["0.weight"], w - 0.1 * dy.T @ x, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(p["0.bias"], b - 0.1 * dy.sum(0), rtol=1e-4, atol=1e-6)


def test_parameters_are_writable_views(small, data):
    model, _ = small
    x, y = data
    t = hg.Trainer(model, loss="mse", optimizer="sgd", lr=0.0)
    p = t.parameters()
    for value in p.values():
        value[...] = 0
    np.testing.assert_allclose(t.step(x, y), np.mean(y**2), rtol=1e-5)
    np.testing.assert_allclose(t.evaluate(x, y)["loss"], np.mean(y**2), rtol=1e-5)
    assert not t.model()(x).any()


def test_batches_equal_arrays(rng, data):
    x, y = data
    options = dict(loss="mse", optimizer=hg.Adam(lr=1e-2))
    a, b = hg.Trainer(mlp(np.random.default_rng(3))[0], **options), hg.Trainer(mlp(np.random.default_rng(3))[0], **options)
    batches = [(x[i : i + 16], y[i : i + 16]) for i in range(0, 50, 16)]
    ha = a.fit(x, y, epochs=3, batch_size=16, shuffle=False)
    hb = b.fit(batches, epochs=3, validation=batches)
    for name, value in a.parameters().items():
        np.testing.assert_array_equal(value, b.parameters()[name])
    np.testing.assert_allclose(ha["loss"], hb["loss"], rtol=1e-12)
    np.testing.assert_allclose(hb["val_loss"][-1], b.evaluate(x, y)["loss"], rtol=1e-5)
    with pytest.raises(ValueError, match="iterator"):
        b.fit(iter(batches), epochs=2)
    with pytest.raises(ValueError, match="no batches"):
        b.fit([])
    with pytest.raises(ValueError, match="finish=True"):  # it would train all epochs again
        b.fit(batches, epochs=3, finish=True)
    with pytest.raises(ValueError, match="1 inputs and 1 targets"):
        b.fit([(x, y, y)])


def random_fit(rng):
    """A function that makes equal trainers, one that trains one and returns its batches, and data for a plain loop."""
    kind, n, batch = rng.choice(["mse", "l1", "cross_entropy"]), int(rng.integers(1, 24)), int(rng.choice([1, 2, 3, 4, 7, 8, 32]))
    dtype = rng.choice(["float32", "float64"])
    start = {name: rng.standard_normal(shape).astype(dtype) for name, shape in (("a", (7, 3)), ("b", (7,)), ("c", (3, 7)))}
    g = hg.Graph()
    h = hg.ops.tanh(hg.ops.linear(g.input("x", ("n", 3), dtype=dtype), g.parameter("a", start["a"]), g.parameter("b", start["b"])))
    h = hg.ops.dropout(h, p=0.3) if rng.random() < 0.4 else h
    g.output("y", hg.ops.linear(h, g.parameter("c", start["c"])))
    model, x = g.model(), np.asfortranarray(rng.standard_normal((n, 3)).astype(dtype))
    y = rng.integers(0, 3, n) if kind == "cross_entropy" else np.repeat(rng.standard_normal((n, 3)).astype(dtype), 2, 0)[::2]
    schedule = [None, "cosine", hg.Schedule("step", period=2, gamma=0.5)][rng.integers(3)]
    options = dict(loss=str(kind), optimizer=["sgd", "adamw", "rmsprop"][rng.integers(3)], schedule=schedule, lr=0.01,
                   accumulate=int(rng.choice([1, 1, 2, 3])), clip_norm=float(rng.choice([0, 0.3])), seed=int(rng.integers(5)))  # fmt: skip
    shuffle, epochs = bool(rng.random() < 0.7), int(rng.integers(1, 5))

    def make(source=model, **more):
        return hg.Trainer(source, **options, **more)

    def fit(trainer, most=None, **more):
        rows = []

        def on_event(event):
            rows.extend([] if event.is_epoch else [(event.epoch, event.loss, event.lr)])
            return event.is_epoch or len(rows) != most

        trainer.fit(x, y, epochs=epochs, batch_size=batch, shuffle=shuffle, callbacks=on_event, **more)
        return rows

    plain = not shuffle and options["accumulate"] == 1 and schedule != "cosine"
    return make, fit, [(x[i : i + batch], y[i : i + batch]) for i in range(0, n, batch)] * epochs if plain else None


@pytest.mark.parametrize("seed", range(60))
def test_a_fit_is_a_loop_that_may_stop_anywhere(seed, tmp_path):
    rng = np.random.default_rng(seed)
    make, fit, batches = random_fit(rng)
    trainer = make()
    rows = fit(trainer)

    def assert_equal(other, found):
        assert found == rows
        for name, value in trainer.parameters().items():
            np.testing.assert_array_equal(value, other.parameters()[name])

    again = make(threads=2)
    assert_equal(again, fit(again))
    stopped = make()
    before = fit(stopped, most=int(rng.integers(1, len(rows) + 1)))
    if rng.random() < 0.7:
        stopped.save(tmp_path / "stopped.hgm")
        stopped = make(tmp_path / "stopped.hgm")
    assert_equal(stopped, before + fit(stopped, finish=True))
    if batches is not None:
        loop = make()
        losses = [loop.step(*batch) for batch in batches]
        assert_equal(loop, [(epoch, loss, lr) for (epoch, _, lr), loss in zip(rows, losses, strict=True)])


def test_classes_metrics_validation_and_callbacks(rng):
    model, _ = mlp(rng, (8, 16, 4))
    x = rng.standard_normal((64, 8)).astype(np.float32)
    y = np.argmax(x[:, :4], 1)
    events = []
    t = hg.Trainer(model, loss="cross_entropy", optimizer="adamw", lr=1e-2, metrics=["accuracy"])
    history = t.fit(x, y, epochs=40, batch_size=16, validation_data=(x, y), callbacks=events.append)
    assert t.evaluate(x, y)["accuracy"] > 0.9
    assert history[-1].val_metrics["accuracy"] == t.evaluate(x, y)["accuracy"]
    assert len([e for e in events if not e.is_epoch]) == 160
    assert history[-1]["val_loss"] < history[0].val_loss
    stopped = t.fit(x, y, epochs=10, callbacks=[lambda e: not e.is_epoch])
    assert len(stopped) == 1

    def fails(event):
        raise RuntimeError("of the callback")

    with pytest.raises(RuntimeError, match="of the callback"):
        t.fit(x, y, callbacks=[fails])
    t.fit(x, y)  # goes on


def test_resume_is_exact(tmp_path, data):
    x, y = data
    options = dict(loss="mse", optimizer="adam", lr=1e-2, schedule=hg.Schedule("step", period=3, gamma=0.5))
    a = hg.Trainer(mlp(np.random.default_rng(3))[0], **options)
    a.fit(x, y, epochs=2)
    a.save(tmp_path / "half.hgm")
    b = hg.Trainer(tmp_path / "half.hgm", **options)
    assert b.updates == a.updates
    a.step(x, y), b.step(x, y)
    for name, value in a.parameters().items():
        np.testing.assert_array_equal(value, b.parameters()[name])


def test_a_rate_that_was_set_is_resumed(tmp_path, data):
    x, y = data
    a = hg.Trainer(mlp(np.random.default_rng(3))[0], "mse", "sgd", lr=0.125)
    a.lr = 0.03125
    a.save(tmp_path / "set.hgm")
    assert hg.Trainer(tmp_path / "set.hgm", "mse", "sgd", lr=0.125).lr == 0.03125
    assert hg.Trainer(tmp_path / "set.hgm", "mse", "sgd", lr=0.25).lr == 0.25
    assert hg.Trainer(tmp_path / "set.hgm", "mse", "sgd", lr=0.125, resume=False).lr == 0.125


@pytest.mark.parametrize("schedule", [hg.Schedule("step", by_epoch=True, period=1, gamma=0.5), hg.Schedule("plateau", patience=0, threshold=2)])
def test_schedules_by_epoch_of_batches(data, schedule):
    x, y = data
    rates = []
    for given in ((x, y), ([(x[:32], y[:32]), (x[32:], y[32:])],)):
        t = hg.Trainer(mlp(np.random.default_rng(3))[0], "mse", "sgd", lr=0.125, schedule=schedule)
        rates.append([event.lr for event in t.fit(*given, epochs=3)])
    assert rates[0] == rates[1]
    assert rates[0][2] < 0.125


def test_a_plateau_of_a_metric(data):
    x, y = data
    rates = []
    for given in ((x, y), ([(x[:32], y[:32]), (x[32:], y[32:])],)):
        t = hg.Trainer(mlp(np.random.default_rng(3))[0], "mse", "sgd", lr=0.125, metrics="mean_error",
                       schedule=hg.Schedule("plateau", mode="max", patience=0, gamma=0.5))  # fmt: skip
        with pytest.raises(ValueError, match="validation data"):
            t.fit(*given, epochs=1)
        rates.append([event.lr for event in t.fit(*given, epochs=3, validation=(x, y))])
    assert rates == [[0.125, 0.125, 0.0625]] * 2  # the error falls
    with pytest.raises(ValueError, match="mode is 'max'"):
        hg.Schedule("step", mode="max")


def test_validation_of_any_kind(data):
    x, y = data
    batches = [(x[:32], y[:32]), (x[32:50], y[32:50])]
    for given in ((x, y), (batches,)):
        t = hg.Trainer(mlp(np.random.default_rng(3))[0], "mse", "sgd", lr=0.0)
        losses = [t.fit(*given, validation=each)[-1].val_loss for each in ((x[:50], y[:50]), batches)]
        np.testing.assert_allclose(losses, t.evaluate(x[:50], y[:50])["loss"], rtol=1e-6)
    with pytest.raises(ValueError, match="no batches to validate with"):
        t.fit(x, y, validation=iter(()))


def test_validation_without_targets(rng):
    g = hg.Graph()
    y = hg.ops.linear(g.input("x", ("n", 4)), g.parameter("w", rng.standard_normal((4, 4)).astype(np.float32)))
    g.output("loss", hg.ops.mean(y * y))
    t = hg.Trainer(g.model(), "output", "sgd", lr=0.0)
    x = rng.standard_normal((7, 4)).astype(np.float32)
    for rows, validation in ((7, x), (1, x[:1]), (7, (x,)), (7, [x[:3], x[3:]])):
        for given in (x, [(x[:4],), (x[4:],)]):
            want = t.evaluate(x[:rows])["loss"]
            assert t.fit(given, validation=validation)[-1].val_loss == pytest.approx(want, rel=1e-5)


def test_frozen_and_rules(small, data):
    model, weights = small
    x, y = data
    t = hg.Trainer(model, loss="mse", rules=[{"pattern": "0.*", "frozen": True}], optimizer="sgd", lr=0.1)
    assert set(t.trained) == {"1.weight", "1.bias"}
    t.fit(x, y, epochs=2)
    np.testing.assert_array_equal(t.parameters()["0.weight"], weights[0][0])
    assert not np.array_equal(t.parameters()["1.weight"], weights[1][0])


def test_targets_that_are_probabilities():
    torch = pytest.importorskip("torch")
    net = torch.nn.Linear(4, 3)
    model = hg.convert(net, torch.randn(5, 4), dynamic="n")
    loss = {"kind": "cross_entropy", "target_type": ("float32", ["n", 3]), "label_smoothing": 0.1}
    trainer = hg.Trainer(model, loss=loss, optimizer=hg.SGD(lr=0.1))
    x, y = torch.randn(6, 4), torch.softmax(torch.randn(6, 3), 1)
    want = torch.nn.functional.cross_entropy(net(x), y, label_smoothing=0.1)
    assert trainer.step(x, y) == pytest.approx(float(want), rel=1e-5)
    with pytest.raises(TypeError, match="pair of dtype and shape"):
        hg.Trainer(model, loss={"kind": "cross_entropy", "target_type": "float32"})


@pytest.mark.parametrize("traced_training", [False, True])
def test_instance_norm_with_running_statistics_trains_as_traced(traced_training):
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    norm = torch.nn.InstanceNorm2d(2, affine=True, track_running_stats=True)
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 1), norm).train(traced_training)
    norm.running_mean.fill_(0.25)
    x, y = torch.randn(3, 1, 4, 4), torch.randn(3, 2, 4, 4)
    model = hg.convert(net, x)
    assert any("instance_norm" in each for each in model.report.notes)
    trainer = hg.Trainer(model, loss="mse", optimizer=hg.SGD(lr=0.1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        loss = torch.nn.functional.mse_loss(net(x), y)
        assert trainer.step(x, y) == pytest.approx(float(loss.detach()), rel=1e-4)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    before = {name: value.copy() for name, value in trainer.buffers().items()}
    np.testing.assert_allclose(before["1.running_mean"], norm.running_mean, rtol=1e-4)
    trainer.evaluate(x, y)
    for name, value in trainer.buffers().items():
        np.testing.assert_array_equal(value, before[name])


def test_errors(small, data):
    model, _ = small
    x, y = data
    with pytest.raises(ValueError, match="msee"):
        hg.Trainer(model, loss="msee")
    with pytest.raises(ValueError, match="adamv"):
        hg.Trainer(model, optimizer="adamv")
    with pytest.raises(TypeError, match="beta3"):
        hg.Trainer(model, optimizer={"kind": "adam", "beta3": 1})
    with pytest.raises(TypeError, match="trheads"):
        hg.Trainer(model, trheads=1)
    with pytest.raises(ValueError, match="pattern"):
        hg.Trainer(model, rules=[{"pattern": "none.*", "frozen": True}])
    t = hg.Trainer(model, loss="mse")
    with pytest.raises(ValueError, match="49|50"):
        t.fit(x, y[:-1])
    with pytest.raises(ValueError, match="finite|nan|NaN"):
        t.step(x * np.nan, y)
    with pytest.raises(MemoryError):
        hg.Trainer(model, loss="mse", memory_limit=1000).step(x, y)


def test_a_mask_is_not_what_makes_nan():
    mask = np.full((2, 3), -np.inf, np.float32)
    g = hg.Graph()
    scores = hg.ops.linear(g.input("x", ("n", 3)), g.parameter("weight", np.ones((3, 3), np.float32)))
    g.output("y", hg.ops.softmax(hg.ops.add(scores, g.constant(mask)), -1))
    x = np.ones((2, 3), np.float32)
    with pytest.raises(ValueError, match="is nan: softmax '[^']*' .*is the first that is not finite"):
        hg.Trainer(g.model(), loss="mse").step(x, x)
    g.output("lost", hg.ops.sum(hg.ops.add(scores, g.constant(mask))))
    with pytest.raises(ValueError, match="the constant '[^']*' is not finite"):
        hg.Trainer(g.model(), loss={"kind": "output", "output": "lost"}).step(x)


def test_load_state_dict(small, data):
    model, weights = small
    t = hg.Trainer(model, loss="mse")
    state = {name: value * 2 for name, value in t.parameters().items()}
    t.load_state_dict(state)
    np.testing.assert_array_equal(t.parameters()["0.weight"], weights[0][0] * 2)
    with pytest.raises(ValueError, match="0.bias"):
        t.load_state_dict({"0.weight": state["0.weight"]})
    with pytest.raises(ValueError, match="0.weight"):
        t.load_state_dict({**state, "0.weight": state["0.bias"]})


def test_the_same_weights_for_every_thread_count(data):
    x, y = data
    runs = []
    for threads in (1, 2):
        t = hg.Trainer(mlp(np.random.default_rng(3))[0], loss="mse", threads=threads)
        t.fit(x, y, epochs=2)
        runs.append(t.parameters())
    for name in runs[0]:
        np.testing.assert_array_equal(runs[0][name], runs[1][name])


def test_a_progress_bar(data, monkeypatch):
    """A tqdm bar with one step per batch, followed by the results of the epoch."""
    bars = []

    class Bar:
        def __init__(self, total=None, unit=None):
            self.total, self.unit, self.count, self.words, self.is_closed = total, unit, 0, [], False
            bars.append(self)

        def update(self, n):
            self.count += n

        def set_postfix(self, words):
            self.words.append(words)

        def close(self):
            self.is_closed = True

    module = types.ModuleType("tqdm.auto")
    module.tqdm = Bar
    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", module)
    x, y = data
    t = hg.Trainer(mlp(np.random.default_rng(3))[0], loss="mse")
    t.fit(x, y, epochs=2, batch_size=16, validation_data=(x, y), progress=True)
    (bar,) = bars
    assert (bar.total, bar.count, bar.unit, bar.is_closed) == (8, 8, "batch", True)
    assert [each["epoch"] for each in bar.words] == ["1/2", "2/2"] and set(bar.words[0]) == {"epoch", "loss", "val_loss"}
    t.fit(x, y, progress=False)
    t.fit(x, y)  # standard error is no terminal
    assert len(bars) == 1
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)  # not installed
    t.fit(x, y, progress=True)


def test_ctrl_c_stops_a_fit(data):
    x, y = data
    t = hg.Trainer(mlp(np.random.default_rng(3), (8, 512, 512, 3))[0], loss="mse")
    timer = threading.Timer(0.3, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        t.fit(x, y, epochs=10**6)
    timer.join()
    assert t.updates > 0
    t.fit(x, y)


def test_batches_that_are_dicts():
    rng = np.random.default_rng(3)
    g = hg.Graph()
    x, w = g.input("x", ("n", 3)), g.parameter("w", rng.standard_normal((3, 3)).astype(np.float32))
    g.output("y", hg.ops.linear(x, w) - g.input("z", ("n", 3)) * 2.0)
    a, b, y = (rng.standard_normal((5, 3)).astype(np.float32) for _ in range(3))
    trainer = hg.Trainer(g.model(), loss="mse", optimizer="sgd", lr=0.0)
    want = trainer.step([a, b], y)
    assert trainer.step({"x": a, "z": b}, y) == trainer.step({"z": b, "x": a}, {"target": y}) == want
    history = trainer.fit([{"target": y, "z": b, "x": a}, (a, b, y), [{"z": b, "x": a}, y]], epochs=2)
    assert [event.loss for event in history] == pytest.approx([want, want])
    for wrong in ({"z": b, "x": a}, {"z": b, "x": a, "targets": y}, {"x": a, "y": y, "z": b}):
        with pytest.raises((TypeError, ValueError), match="at place|tensors"):
            trainer.fit([wrong])
