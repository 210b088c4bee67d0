# SPDX-License-Identifier: Apache-2.0
"""Models of named blocks, with numpy alone; compared with torch if it is installed."""

import threading

import numpy as np
import pytest

import hologram as hg
from hologram import named as nn


def network(loss=True):
    blocks = [
        nn.Input("x", ("n", 4)),
        nn.Linear(8).input("x").output("hidden"),
        nn.ReLU().output("positive"),
        nn.Group([nn.Linear(8), nn.Tanh().output("change"), nn.Call("add").input("h").input("change")])
        .input("positive", "h").output("deep"),
        nn.Linear(2).input("deep").output("y"),
    ]  # fmt: skip
    if loss:
        blocks += [nn.Input("target", ("n", 2)), nn.MSELoss().input("y").input("target").output("loss")]
    return nn.Group(blocks)


def numbers(parameters):
    return {name: array.astype(np.float64) for name, array in parameters.items()}


def forward(p, x):
    hidden = x @ p["hidden.weight"].T + p["hidden.bias"]
    h = np.maximum(hidden, 0)
    deep = h + np.tanh(h @ p["deep.0.weight"].T + p["deep.0.bias"])
    return hidden, deep, deep @ p["y.weight"].T + p["y.bias"]


@pytest.fixture
def data(rng):
    return {"x": rng.standard_normal((5, 4)).astype(np.float32), "target": rng.standard_normal((5, 2)).astype(np.float32)}


def test_outputs_are_numpys(data):
    program = hg.compile(nn.Group([*network(False).blocks]).output("deep").output("y"))
    assert program.inputs == ["x"] and program.outputs == ["deep", "y"]
    parameters = program.initial_parameters(3)
    assert [each[0] for each in program.parameters] == list(parameters)
    got = program.evaluate(parameters, {"x": data["x"]})
    _, deep, y = forward(numbers(parameters), data["x"].astype(np.float64))
    np.testing.assert_allclose(got["deep"], deep, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got["y"], y, rtol=1e-5, atol=1e-6)


def test_gradients_are_differences(data):
    program = hg.compile(network(), dtype="float64", gradients_of=["x", "hidden"])
    parameters = program.initial_parameters(1)
    given = {name: array.astype(np.float64) for name, array in data.items()}
    outputs, gradients = program.evaluate(parameters, given, output_gradients={})
    assert set(gradients) == {*parameters, "x", "hidden"}

    def loss():
        return float(program.evaluate(parameters, given)["loss"])

    for name, array in [*parameters.items(), ("x", given["x"])]:
        for at in [0, array.size // 2, array.size - 1]:
            flat = array.reshape(-1)
            old, step = flat[at], 1e-6
            flat[at] = old + step
            above = loss()
            flat[at] = old - step
            below = loss()
            flat[at] = old
            assert abs((above - below) / (2 * step) - gradients[name].reshape(-1)[at]) < 1e-7, name
    np.testing.assert_allclose(outputs["loss"], loss(), rtol=1e-14)


def test_output_gradients_by_name(data):
    program = hg.compile(nn.Group([*network(False).blocks]).output("deep").output("y"), dtype="float64")
    parameters = program.initial_parameters(1)
    x = {"x": data["x"].astype(np.float64)}
    dy, dd = np.ones((5, 2)), np.full((5, 8), 0.5)
    one = program.evaluate(parameters, x, output_gradients={"y": dy})[1]
    two = program.evaluate(parameters, x, {"deep": dd})[1]
    both = program.evaluate(parameters, x, {"y": dy, "deep": dd})[1]
    for name in parameters:
        np.testing.assert_allclose(both[name], one[name] + two[name], rtol=1e-12, atol=1e-14)
    assert not two["y.weight"].any()
    with pytest.raises(ValueError):
        program.evaluate(parameters, x, {"y": dy[:2]})
    with pytest.raises((ValueError, LookupError), match="nothing"):
        program.evaluate(parameters, x, {"nothing": dy})


def test_any_optimizer_trains_it(data):
    program = hg.compile(network(), threads=1)
    parameters = program.initial_parameters(1)
    losses = []
    for _ in range(60):
        outputs, gradients = program.evaluate(parameters, data, {})
        losses.append(float(outputs["loss"]))
        for name, array in parameters.items():
            array -= 0.1 * gradients[name]
    assert losses[-1] < losses[0] / 10


@pytest.mark.parametrize(
    "options",
    [
        {"optimize": "none"}, {"deterministic": True}, {"threads": 1}, {"threads": 2}, {"memory_limit": "64M"},
        {"checkpoint": "sqrt"}, {"autotune": True}, {"lazy_allocation": True}, {"profile": True}, {"seed": 3},
        {"device": "cpu"}, {"precision": "float32"}, {"trainable": ["*"]}, {"frozen": "hidden.*"},
    ],
    ids=str,
)  # fmt: skip
def test_options_change_no_result(data, options):
    plain, other = hg.compile(network()), hg.compile(network(), **options)
    parameters = plain.initial_parameters(2)
    want, want_by = plain.evaluate(parameters, data, {})
    got, by = other.evaluate(parameters, data, {})
    np.testing.assert_allclose(got["loss"], want["loss"], rtol=1e-5)
    frozen = {name for name in parameters if name.startswith("hidden.")} if "frozen" in options else set()
    assert set(by) == set(parameters) - frozen
    for name in by:
        np.testing.assert_allclose(by[name], want_by[name], rtol=1e-4, atol=1e-6)
    if options.get("profile"):
        assert other.profile()
    if options.get("autotune"):
        assert isinstance(other.tuning(), bytes)


@pytest.mark.parametrize("dtype, rate", [("float64", 1e-6), ("float16", 2e-2), ("bfloat16", 1e-1)])
def test_dtypes(data, dtype, rate):
    plain, other = hg.compile(network()), hg.compile(network(), dtype=dtype)
    parameters = plain.initial_parameters(2)
    want = float(plain.evaluate(parameters, data)["loss"])
    got = other.evaluate(parameters, data)["loss"]
    if dtype != "bfloat16":  # which numpy does not know
        assert got.dtype == dtype and abs(float(got) - want) <= rate * want
    assert all(each[1] == dtype for each in other.parameters)


def test_constants_frozen_and_states(data):
    parameters = hg.compile(network()).initial_parameters(2)
    program = hg.compile(network(), constants={"hidden.weight": parameters["hidden.weight"]})
    assert "hidden.weight" not in program.initial_parameters()
    rest = {name: array for name, array in parameters.items() if name != "hidden.weight"}
    want = hg.compile(network()).evaluate(parameters, data)["loss"]
    np.testing.assert_allclose(program.evaluate(rest, data)["loss"], want, rtol=1e-6)
    norm = hg.compile(nn.Group([nn.Input("x", ("n", 3, 4, 4)), nn.BatchNorm2d(3).named("norm").output("y")]), training=True)
    mean = norm.states["norm.running_mean"]
    norm.evaluate(norm.initial_parameters(), {"x": np.ones((2, 3, 4, 4), np.float32)})
    np.testing.assert_allclose(mean, 0.1, rtol=1e-6)  # the program's own memory
    norm.set_state("norm.running_mean", np.zeros(3, np.float32))
    assert not mean.any()


def test_looking_inside(data):
    seen, arenas, hooked = [], [], []
    program = hg.compile(network(), debug=seen.append, on_arena=lambda free, size: arenas.append((free, size)))
    parameters = program.initial_parameters(2)
    program.evaluate(parameters, data)
    hidden, _, _ = forward(numbers(parameters), data["x"].astype(np.float64))
    found = {each["name"]: each for each in seen}
    assert found["hidden"]["shape"] == (5, 8) and abs(found["hidden"]["min"] - hidden.min()) < 1e-5
    np.testing.assert_allclose(found["hidden"]["value"], hidden, rtol=1e-5, atol=1e-5)
    assert arenas and program.memory()["allocations"] == sum(not free for free, _ in arenas)
    program.release_memory()
    assert program.memory()["arena_bytes"] == 0

    plain = hg.compile(network())
    hook = plain.add_hook("positive", hooked.append)
    plain.evaluate(parameters, data)
    np.testing.assert_allclose(hooked[0]["value"], np.maximum(hidden, 0), rtol=1e-5, atol=1e-5)
    plain.remove_hook(hook)
    plain.evaluate(parameters, data)
    assert len(hooked) == 1
    steps = plain.steps(parameters, data)
    assert steps and all(step["op"] for step in steps)
    assert "hidden" in plain.summary() and "hidden" in network().summary()
    plain.plan(n=64)
    plain.plan(gradients=True, n=64)


def test_what_callbacks_raise_comes_back(data):
    def fails(seen):
        raise KeyError("enough")

    program = hg.compile(network())
    parameters = program.initial_parameters()
    hook = program.add_hook("hidden", fails)
    with pytest.raises(KeyError, match="enough"):
        program.evaluate(parameters, data)
    program.remove_hook(hook)
    assert program.evaluate(parameters, data)["loss"] > 0
    hook = program.add_hook("hidden", lambda seen: program.evaluate(parameters, data))
    with pytest.raises(RuntimeError, match="cannot use that program"):
        program.evaluate(parameters, data)


def test_out(data):
    program = hg.compile(network(False))
    parameters = program.initial_parameters()
    out = {"y": np.empty((5, 2), np.float32)}
    assert program.evaluate(parameters, {"x": data["x"]}, out=out) is out
    np.testing.assert_array_equal(out["y"], program.evaluate(parameters, {"x": data["x"]})["y"])
    for wrong in (np.empty((5, 3), np.float32), np.empty((5, 2)), np.empty((2, 5), np.float32).T):
        with pytest.raises(ValueError):
            program.evaluate(parameters, {"x": data["x"]}, out={"y": wrong})


def test_a_cache_of_programs(data):
    cache = nn.PlanCache()
    first = hg.compile(network(), cache=cache)
    parameters = first.initial_parameters()
    want = first.evaluate(parameters, data)["loss"]
    assert hg.compile(network(), cache=cache).evaluate(parameters, data)["loss"] == want
    assert cache.counters() == {"hits": 1, "misses": 1}


@pytest.mark.parametrize(
    "make, sentence",
    [
        (lambda: hg.compile(nn.Group([nn.Input("x", ("n", 4)), nn.Linear(5, 3).output("y")])), "'y'"),
        (lambda: hg.compile(nn.Group([nn.Input("x", ("n", 4)), nn.Linear(3).input("z").output("y")])), "z"),
        (lambda: hg.compile(network(), frozen="nothing.*"), "nothing"),
        (lambda: hg.compile(network(), optimize="some"), "some"),
        (lambda: hg.compile(network(), device="tpu"), "tpu"),
        (lambda: nn.Call("ad"), "add"),
        (lambda: nn.MSELoss("most"), "most"),
        (lambda: nn.Parameter("p", (3,), "many"), "many"),
        (lambda: hg.compile(network(), cache=True), "cache takes a PlanCache.*, not True"),
        (lambda: hg.compile(network(), debug=True), "debug takes a function.*, not True"),
        (lambda: hg.compile(network(), use_amp=True, dtype="float64"), "compute is bf16, which needs dtype f32"),
        (lambda: hg.compile(network(), compute="int8"), "compute is i8; it is f32, f16 or bf16"),
        (lambda: nn.MaxPool2d((2, 2, 2)), "kernel_size has 3 numbers"),
        (lambda: nn.Flatten(start_dim="x"), "start_dim cannot be 'x'"),
        (lambda: hg.compile([nn.Linear(3)]), r"Group\(\[...\]\), not a list"),
        (lambda: nn.Linear(), "Linear takes out_features, and in_features first or not; 0 are given"),
        (lambda: nn.Linear(4, 3, in_features=4), "3 are given"),
        (lambda: nn.Conv2d(8), "Conv2d takes out_channels, kernel_size"),
    ],
)
def test_refusals(make, sentence):
    with pytest.raises((ValueError, LookupError, TypeError), match=sentence):
        make()
    with pytest.raises(TypeError, match="sped"):
        hg.compile(network(), sped=1)


@pytest.mark.parametrize(
    "block, same",
    [
        (nn.Linear(out_features=3), nn.Linear(3)),
        (nn.Linear(4, out_features=3), nn.Linear(4, 3)),
        (nn.Linear(in_features=4, out_features=3), nn.Linear(4, 3)),
        (nn.Linear(3, in_features=4), nn.Linear(4, 3)),
        (nn.Conv2d(8, kernel_size=3), nn.Conv2d(8, 3)),
        (nn.Conv2d(3, 8, kernel_size=(3, 1)), nn.Conv2d(3, 8, (3, 1))),
        (nn.Conv2d(in_channels=3, out_channels=8, kernel_size=3), nn.Conv2d(3, 8, 3)),
        (nn.BatchNorm2d(num_features=3), nn.BatchNorm2d(3)),
        (nn.Embedding(num_embeddings=5, embedding_dim=2), nn.Embedding(5, 2)),
    ],
)
def test_sizes_have_the_names_of_torch(block, same):
    assert block == same


def test_sizes_come_in_the_order_of_torch():
    def weight(block, shape, dtype="float32"):
        program = hg.compile(nn.Group([nn.Input("x", shape, dtype), block.output("y")]))
        return program.initial_parameters()["y.weight"].shape

    for linear in (nn.Linear(3), nn.Linear(4, 3), nn.Linear(in_features=4, out_features=3)):
        assert weight(linear, ("n", 4)) == (3, 4)
    for conv in (nn.Conv2d(8, (3, 1)), nn.Conv2d(2, 8, (3, 1)), nn.Conv2d(2, out_channels=8, kernel_size=(3, 1))):
        assert weight(conv, ("n", 2, 5, 5)) == (8, 2, 3, 1)
    assert weight(nn.Embedding(num_embeddings=5, embedding_dim=2), ("n",), "int64") == (5, 2)


def test_missing_arrays(data):
    program = hg.compile(network())
    parameters = program.initial_parameters()
    with pytest.raises((ValueError, LookupError), match="target"):
        program.evaluate(parameters, {"x": data["x"]})
    with pytest.raises(TypeError, match="'target' is a NoneType"):
        program.evaluate(parameters, {**data, "target": None})
    del parameters["y.bias"]
    with pytest.raises((ValueError, LookupError), match="y.bias"):
        program.evaluate(parameters, data)


def test_blocks_are_data():
    assert network() == network() and network() != network(False)
    block = nn.Linear(3).input("a").output("b").named("c")
    assert (block.type, block.name, block.inputs, block.outputs) == ("Linear", "c", ["a"], ["b"])
    shared = nn.Group([nn.Input("x", ("n", 3)), nn.Linear(3, 3).named("a").output("h"), nn.Linear(3, 3).share("a").output("y")])
    assert len(hg.compile(shared).initial_parameters()) == 2
    every = nn.Group([
        nn.Input("ids", ("n", 6), "int64"), nn.Embedding(10, 16).output("e"),
        nn.Call("reshape", shape=["n", 6, 4, 4]), nn.Conv2d(8, 3, padding=1), nn.BatchNorm2d(8), nn.GELU("tanh"),
        nn.Dropout(0.1), nn.Sigmoid(), nn.LayerNorm(4).output("normed"), nn.Constant("two", np.float32(2)),
        nn.Parameter("gain", (4,), "normal", seed=3),
        nn.Call("mul").input("normed").input("gain").output("scaled"), nn.Call("mul").input("scaled").input("two"), nn.Softmax(-1).output("y"),
    ])  # fmt: skip
    program = hg.compile(every)
    y = program.evaluate(program.initial_parameters(), {"ids": np.arange(12).reshape(2, 6) % 10})["y"]
    assert y.shape == (2, 8, 4, 4)
    np.testing.assert_allclose(y.sum(-1), 1, rtol=1e-5)


def test_threads_take_turns(data):
    program = hg.compile(network(), threads=1)
    parameters = program.initial_parameters()
    want = program.evaluate(parameters, data)["loss"]
    calls, wrong = [], []
    program.add_hook("hidden", calls.append)

    def work():
        for _ in range(50):
            if program.evaluate(parameters, data)["loss"] != want:
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and len(calls) == 200


def test_with_torch(data):
    torch = pytest.importorskip("torch")
    program = hg.compile(network(), gradients_of="x")
    parameters = program.initial_parameters(2, to="torch")
    given = {name: torch.from_numpy(array) for name, array in data.items()}
    outputs, gradients = program.evaluate(parameters, given, {})
    leaves = {name: value.clone().requires_grad_() for name, value in {**parameters, "x": given["x"]}.items()}
    hidden = torch.nn.functional.linear(leaves["x"], leaves["hidden.weight"], leaves["hidden.bias"]).relu()
    deep = hidden + torch.nn.functional.linear(hidden, leaves["deep.0.weight"], leaves["deep.0.bias"]).tanh()
    y = torch.nn.functional.linear(deep, leaves["y.weight"], leaves["y.bias"])
    loss = torch.nn.functional.mse_loss(y, given["target"])
    loss.backward()
    torch.testing.assert_close(outputs["loss"], loss.detach(), rtol=1e-5, atol=1e-6)
    for name, leaf in leaves.items():
        torch.testing.assert_close(gradients[name], leaf.grad, rtol=1e-4, atol=1e-6)


needs_json = pytest.mark.skipif(not hasattr(hg._core, "block_from_json"), reason="this build has no JSON")


@needs_json
def test_blocks_go_through_json_and_pickle(data):
    import copy
    import pickle

    model = network()
    text = model.to_json()
    again = nn.from_json(text)
    assert again == model and again.to_json() == text
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert other == model and other.to_json() == text
        program = hg.compile(other)
        weights = hg.compile(model).initial_parameters(seed=3)
        want = hg.compile(model).evaluate(weights, data)
        for name, value in program.evaluate(weights, data).items():
            np.testing.assert_array_equal(value, want[name])


@needs_json
@pytest.mark.parametrize("text, sentence", [("{", "JSON|json|parse"), ('{"type": "Group", "colour": 1}', "colour"), ("[]", "object")])
def test_json_that_is_no_block(text, sentence):
    with pytest.raises(ValueError, match=sentence):
        nn.from_json(text)


def with_statistics():
    return nn.Group([nn.Input("x", ("n", 3, 6, 6)), nn.Conv2d(8, 3).output("c"), nn.BatchNorm2d().output("norm"), nn.ReLU(),
                     nn.Dropout(0.0), nn.Call("reshape", shape=["n", 128]), nn.Linear(10).output("y")])  # fmt: skip


def test_a_program_is_a_model_that_is_saved(tmp_path, rng):
    program = hg.compile(with_statistics())
    parameters = program.initial_parameters(2)
    program.set_state("norm.running_mean", rng.standard_normal(8).astype(np.float32))
    x = rng.standard_normal((4, 3, 6, 6)).astype(np.float32)
    expected = program.evaluate(parameters, {"x": x})["y"]
    for compiled in (program, hg.compile(with_statistics(), training=True)):
        compiled.set_state("norm.running_mean", program.states["norm.running_mean"])
        model = compiled.model(parameters)
        model.save(tmp_path / "named.hgm")
        loaded = hg.load(tmp_path / "named.hgm")
        np.testing.assert_allclose(loaded(x), expected, rtol=1e-5, atol=1e-6)
    assert set(loaded.parameters_()) == set(parameters)
    parameters["y.bias"][:] = 7  # the model has copies
    np.testing.assert_allclose(model(x), expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="'y.bias' is missing"):
        program.model({name: value for name, value in parameters.items() if name != "y.bias"})
    with pytest.raises(ValueError, match="'y.bias' is f32"):
        program.model({**parameters, "y.bias": np.zeros(3, np.float32)})


def test_named_to_trained_to_file_to_quantized(tmp_path, rng):
    """A named model is trained, saved, read by a session and quantized."""
    x = rng.standard_normal((64, 3, 6, 6)).astype(np.float32)
    labels = rng.integers(0, 10, 64)
    trainer = hg.Trainer(with_statistics(), loss="cross_entropy", optimizer="adamw", lr=1e-2)
    first = trainer.step(x, labels)
    for _ in range(30):
        last = trainer.step(x, labels)
    assert last < first / 4
    trainer.save(tmp_path / "trained.hgm")
    session = hg.load(tmp_path / "trained.hgm").session(threads=1)
    y = session(x)
    assert (y.argmax(1) == labels).mean() > 0.9
    small = hg.quantize(hg.load(tmp_path / "trained.hgm"), least=64)
    assert small.info["quantized"]
    small.save(tmp_path / "small.hgm")
    np.testing.assert_allclose(hg.load(tmp_path / "small.hgm")(x), y, atol=0.05 * np.abs(y).max())


def test_named_models_differentiate_as_others():
    torch = pytest.importorskip("torch")
    block = nn.Group([*network(False).blocks])
    program = hg.compile(block, gradients_of=["x"])
    torch.manual_seed(0)
    parameters = {name: torch.from_numpy(value).requires_grad_() for name, value in program.initial_parameters(3).items()}
    x = torch.randn(5, 4, requires_grad=True)
    y = program.evaluate(parameters, {"x": x})["y"]
    y.square().sum().backward()
    wrapped = hg.torch.wrap(program.model({name: value.detach() for name, value in parameters.items()}))
    again = x.detach().clone().requires_grad_()
    torch.testing.assert_close(wrapped(again), y)
    wrapped(again).square().sum().backward()
    torch.testing.assert_close(x.grad, again.grad)
    others = dict(wrapped.named_parameters())
    for name, value in parameters.items():
        torch.testing.assert_close(value.grad, others[name].grad)
    frozen = hg.compile(block, frozen="hidden.*")
    with pytest.raises(ValueError, match="'hidden.weight' requires a gradient, but is frozen"):
        frozen.evaluate(parameters, {"x": x.detach()})
    with pytest.raises(ValueError, match="gradients_of"):
        hg.compile(block).evaluate({name: value.detach() for name, value in parameters.items()}, {"x": x})
    assert hg.torch.wrap(block)(torch.ones(2, 4)).shape == (2, 2)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_products_in_16_bits(dtype, data):
    """As torch.autocast: parameters, gradients and other ops stay float32."""
    torch = pytest.importorskip("torch")
    options = {"use_amp": True} if dtype == "bfloat16" else {"compute": dtype}
    program, plain = hg.compile(network(), **options), hg.compile(network())
    parameters = program.initial_parameters(seed=1)
    outputs, gradients = program.evaluate(parameters, data, output_gradients={})
    kinds = [step["op"] for step in program.steps(parameters, data)]
    assert outputs["loss"].dtype == np.float32 and all(each.dtype == np.float32 for each in gradients.values())
    p = {name: torch.from_numpy(value).requires_grad_() for name, value in parameters.items()}
    F, x = torch.nn.functional, torch.from_numpy(data["x"])
    with torch.autocast("cpu", getattr(torch, dtype)):
        h = F.relu(F.linear(x, p["hidden.weight"], p["hidden.bias"]).float())
        deep = h + torch.tanh(F.linear(h, p["deep.0.weight"], p["deep.0.bias"]).float())
        loss = F.mse_loss(F.linear(deep, p["y.weight"], p["y.bias"]).float(), torch.from_numpy(data["target"]))
    loss.backward()
    np.testing.assert_allclose(outputs["loss"], loss.item(), rtol=2e-2)
    exact, exact_gradients = plain.evaluate(parameters, data, output_gradients={})
    assert outputs["loss"] != exact["loss"], kinds  # it rounds
    for name, value in p.items():
        scale = np.abs(exact_gradients[name]).max()
        np.testing.assert_allclose(gradients[name], value.grad, atol=3e-2 * scale)
    cache = nn.PlanCache()
    assert hg.compile(network(), cache=cache).evaluate(parameters, data)["loss"] == exact["loss"]
    assert hg.compile(network(), cache=cache, **options).evaluate(parameters, data)["loss"] == outputs["loss"]
    assert cache.counters() == {"hits": 0, "misses": 2}
