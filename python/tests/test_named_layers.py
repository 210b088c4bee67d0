# SPDX-License-Identifier: Apache-2.0
"""Layers of named blocks equal torch's: outputs, gradients and sizes."""

import numpy as np
import pytest

import hologram as hg
from hologram import named as nn


_LAYERS = [
    ("Conv1d", (3, 4, 3), {"stride": 2, "padding": 1, "dilation": 2}, (2, 3, 9)), ("Conv1d", (4, 6, 2), {"groups": 2, "bias": False}, (2, 4, 5)),
    ("Conv2d", (3, 4, (3, 2)), {"padding": (1, 0)}, (2, 3, 6, 5)), ("MaxPool1d", (2,), {}, (2, 3, 8)), ("MaxPool1d", (3, 1, 1), {"dilation": 2}, (2, 3, 9)),
    ("MaxPool2d", (2,), {"ceil_mode": True}, (2, 3, 5, 7)), ("MaxPool2d", ((3, 2), 2, 1), {}, (2, 3, 6, 6)), ("AvgPool1d", (3, 2, 1), {}, (2, 3, 8)),
    ("AvgPool2d", (2,), {}, (2, 3, 6, 4)), ("AvgPool2d", ((2, 3),), {"padding": 1, "count_include_pad": False}, (2, 3, 6, 6)),
    ("Flatten", (), {}, (2, 3, 4, 5)), ("Flatten", (0, 1), {}, (2, 3, 4)), ("GroupNorm", (2, 4), {"eps": 1e-3}, (2, 4, 5)),
    ("GroupNorm", (2, 4), {"affine": False}, (2, 4, 3, 3)), ("LeakyReLU", (0.2,), {}, (4, 5)), ("ELU", (), {"alpha": 0.7}, (4, 5)), ("SiLU", (), {}, (4, 5)),
    ("Softplus", (2, 1), {}, (4, 5)), ("LogSoftmax", (1,), {}, (4, 5)), ("L1Loss", (), {"reduction": "sum"}, (4, 5)), ("HuberLoss", (), {"delta": 0.3}, (4, 5)),
    ("CrossEntropyLoss", (), {"label_smoothing": 0.1}, (4, 5)), ("CrossEntropyLoss", (), {"ignore_index": 1, "reduction": "sum"}, (4, 5)), ("BCELoss", (), {}, (4, 5)),
    ("BCEWithLogitsLoss", (), {"reduction": "none"}, (4, 5)),
]  # fmt: skip


@pytest.mark.parametrize("kind, args, named, shape", _LAYERS)
def test_a_layer_equals_torchs(kind, args, named, shape, rng):
    torch = pytest.importorskip("torch")
    theirs = getattr(torch.nn, kind)(*args, **named)
    x = rng.standard_normal(shape).astype(np.float32)
    data = {"x": x}
    if kind.endswith("Loss"):
        data["target"] = rng.random(shape).astype(np.float32)
        if kind == "CrossEntropyLoss":
            data["target"] = rng.integers(0, shape[1], shape[0])
        if kind == "BCELoss":
            data["x"] = rng.random(shape).astype(np.float32)
    layer = getattr(nn, kind)(*args, **named)
    blocks = [nn.Input(name, ("n", *value.shape[1:]), str(value.dtype)) for name, value in data.items()]
    wired = layer.input("x").input("target") if "target" in data else layer.input("x")
    program = hg.compile(nn.Group([*blocks, wired.output("y")]), gradients_of="x")
    if hasattr(layer, "to_json"):
        assert nn.from_json(layer.to_json()) == layer
    parameters = program.initial_parameters(seed=3)
    for (name, ours), value in zip(parameters.items(), theirs.parameters()):
        assert ours.shape == tuple(value.shape), name
        value.data = torch.from_numpy(ours)
    tensors = [torch.from_numpy(value) for value in data.values()]
    tensors[0].requires_grad_()
    want = theirs(*tensors)
    seed = rng.standard_normal(tuple(want.shape)).astype(np.float32)
    want.backward(torch.from_numpy(seed))
    outputs, gradients = program.evaluate(parameters, data, output_gradients={"y": seed})
    np.testing.assert_allclose(outputs["y"], want.detach(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gradients["x"], tensors[0].grad, rtol=1e-4, atol=1e-5)
    for (name, _), value in zip(parameters.items(), theirs.parameters()):
        np.testing.assert_allclose(gradients[name], value.grad, rtol=1e-4, atol=1e-5)


def test_sizes_of_blocks_are_learned(rng):
    model = nn.Group([nn.Input("x", ("n", 3, 8, 8)), nn.Conv2d(4, 3, padding=1), nn.GroupNorm(2), nn.SiLU(), nn.MaxPool2d(2), nn.Flatten(),
                      nn.Linear(10).output("y")])  # fmt: skip
    program = hg.compile(model)
    shapes = {name: value.shape for name, value in program.initial_parameters().items()}
    assert shapes["y.weight"] == (10, 64) and shapes["2.weight"] == (4,)
    assert program.evaluate(program.initial_parameters(), {"x": rng.standard_normal((5, 3, 8, 8)).astype(np.float32)})["y"].shape == (5, 10)


@pytest.mark.parametrize("has_states", [False, True])
@pytest.mark.parametrize(
    "kind, named",
    [("RNN", {}), ("RNN", {"nonlinearity": "relu", "num_layers": 2}), ("RNN", {"bias": False, "bidirectional": True}), ("LSTM", {}),
     ("LSTM", {"batch_first": True, "num_layers": 2, "bidirectional": True}), ("LSTM", {"proj_size": 2, "num_layers": 2}), ("GRU", {}),
     ("GRU", {"batch_first": True, "bidirectional": True, "num_layers": 3}), ("GRU", {"bias": False})],
)  # fmt: skip
def test_a_recurrent_layer_equals_torchs(kind, named, has_states, rng, tmp_path):
    torch = pytest.importorskip("torch")
    theirs = getattr(torch.nn, kind)(3, 4, **named)
    steps, batch = 5, 2
    data = {"x": rng.standard_normal((batch, steps, 3) if named.get("batch_first") else (steps, batch, 3)).astype(np.float32)}
    places = named.get("num_layers", 1) * (2 if named.get("bidirectional") else 1)
    sizes = [named.get("proj_size") or 4, 4][: 2 if kind == "LSTM" else 1]
    if has_states:
        data |= {f"{each}0": rng.standard_normal((places, batch, n)).astype(np.float32) for each, n in zip("hc", sizes)}
    layer = getattr(nn, kind)(4, **named)  # the features are those of x
    assert (getattr(nn, kind)(3, 4, **named) == layer) is False
    at = {"x": 0 if named.get("batch_first") else 1}  # the dim that is open
    inputs = [nn.Input(name, tuple("n" if d == at.get(name, 1) else n for d, n in enumerate(value.shape))) for name, value in data.items()]
    for name in data:
        layer = layer.input(name)
    names = ["y", "h", "c"][: 1 + len(sizes)]
    for name in names:
        layer = layer.output(name)
    group = nn.Group([*inputs, layer])
    for name in names:
        group = group.output(name)
    program = hg.compile(group, gradients_of=list(data))
    if hasattr(layer, "to_json"):
        assert nn.from_json(layer.to_json()) == layer
    parameters = program.initial_parameters(seed=3)
    assert [f"y.{name}" for name, _ in theirs.named_parameters()] == list(parameters)
    for ours, value in zip(parameters.values(), theirs.parameters()):
        value.data = torch.from_numpy(ours)
    tensors = [torch.from_numpy(value).requires_grad_() for value in data.values()]
    states = tuple(tensors[1:]) if kind == "LSTM" else tensors[1] if has_states else ()
    y, last = theirs(tensors[0], states) if has_states else theirs(tensors[0])
    want = dict(zip(names, [y, *(last if kind == "LSTM" else [last])]))
    seeds = {name: rng.standard_normal(tuple(value.shape)).astype(np.float32) for name, value in want.items()}
    torch.autograd.backward(list(want.values()), [torch.from_numpy(each) for each in seeds.values()])
    outputs, gradients = program.evaluate(parameters, data, output_gradients=seeds)
    for name, value in want.items():
        np.testing.assert_allclose(outputs[name], value.detach(), rtol=1e-5, atol=1e-6)
    for name, value in [*zip(data, tensors), *zip(parameters, theirs.parameters())]:
        np.testing.assert_allclose(gradients[name], value.grad, rtol=1e-4, atol=1e-5)
    program.model(parameters).save(tmp_path / "recurrent.hgm")
    again = hg.load(tmp_path / "recurrent.hgm")(*data.values())
    np.testing.assert_array_equal(again[0] if isinstance(again, tuple) else again["y"], outputs["y"])


def test_a_recurrent_model_is_trained():
    x = np.linspace(0, 6, 64, dtype=np.float32).reshape(16, 4, 1)
    model = nn.Group([nn.Input("x", ("n", 4, 1)), nn.LSTM(8, batch_first=True), nn.Linear(1).output("y")])
    trainer = hg.Trainer(model, loss="mse", optimizer=hg.Adam(lr=0.02))
    losses = trainer.fit(x, np.sin(x), epochs=60, batch_size=16, shuffle=False, progress=False)
    assert losses[-1].loss < losses[0].loss / 10


def test_recurrent_layers_refuse():
    for kind, settings, message in (
        ("LSTM", {"num_layers": 0}, "num_layers is 0, expected at least 1"), ("RNN", {"nonlinearity": "cos"}, "expected tanh or relu"),
        ("LSTM", {"proj_size": 4}, "proj_size is 4, expected 0 to hidden_size - 1, 3"), ("GRU", {"hidden_size": 0}, "hidden_size is 0"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            getattr(nn, kind)(**{"hidden_size": 4, **settings})
    with pytest.raises(ValueError, match=r"GRU: x must be \[time, batch, features\], but is"):
        hg.compile(nn.Group([nn.Input("x", ("n", 3)), nn.GRU(4).output("y")]))
    state = nn.Group([nn.Input("x", (5, "n", 3)), nn.Input("h", (1, "n", 4)), nn.GRU(4, num_layers=2).input("x").input("h").output("y")])
    with pytest.raises(ValueError, match=r"an initial state must be \[2, n, 4\], but is \[1, n, 4\]"):
        hg.compile(state)
    for wrong in ((1, 4, 2), (1, 1, 8), (1, 2, 6)):
        state = nn.Group([nn.Input("x", (3, 2, 4)), nn.Input("h", wrong), nn.GRU(4).input("x").input("h").output("y")])
        with pytest.raises(ValueError, match=r"an initial state must be \[1, 2, 4\]"):
            hg.compile(state)
