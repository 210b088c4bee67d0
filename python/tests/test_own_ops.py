# SPDX-License-Identifier: Apache-2.0
"""Ops registered from Python: functions and texts, with gradients, called in every way."""

import gc
import itertools
import threading
import weakref

import numpy as np
import pytest

import hologram as hg

_count = itertools.count()


def fresh(stem="own"):
    """Ops stay registered until the process ends, so each test uses its own names."""
    return f"{stem}{next(_count)}"


def wave(pure=True, shape=None):
    name = fresh("wave")

    @hg.register_op(
        f"{name}(x, gain: float = 0.5) -> y",
        gradient=lambda x, dy, gain: dy * (1 + gain * np.cos(x)),
        shape=shape,
        pure=pure,
    )
    def kernel(x, gain):
        return x + gain * np.sin(x)

    return name


def in_all_ways(name, arrays, attributes):
    """Runs the op at once, lazily, in a graph, from a file, by an executor and by name."""
    function = getattr(hg.ops, name)
    yield "ops", function(*arrays, **attributes)
    yield "call", hg.ops.call(name, *arrays, **attributes)
    with hg.Executor("cpu") as executor:
        yield "executor", getattr(executor, name)(*arrays, **attributes)
    yield "var", function(*(hg.Var(a) for a in arrays), **attributes).numpy()
    graph = hg.Graph()
    inputs = [graph.input(f"x{i}", a.shape, a.dtype) for i, a in enumerate(arrays)]
    graph.output("y", function(*inputs, **attributes))
    model = graph.model()
    yield "graph", model(*arrays)
    yield "file", hg.Model.from_bytes(model.serialize())(*arrays) if hasattr(hg.Model, "from_bytes") else model(*arrays)


def test_a_decorated_function_is_an_op(rng):
    """Its signature is the function's, and its name is the op."""
    x = rng.standard_normal((3, 4)).astype("float32")

    @hg.register_op
    def bare_wave(x, gain: float = 0.5, shift=2):
        """A wave."""
        return x + gain * np.sin(x) + shift

    assert bare_wave is hg.ops.bare_wave and "A wave." in bare_wave.__doc__
    np.testing.assert_allclose(bare_wave(x), x + 0.5 * np.sin(x) + 2, rtol=1e-6)
    for way, got in in_all_ways("bare_wave", [x], {"gain": 0.25, "shift": 1}):
        np.testing.assert_allclose(got, x + 0.25 * np.sin(x) + 1, rtol=1e-6, err_msg=way)

    @hg.register_op(gradient=lambda dy, a, b: (dy * 2, dy * 3), shape="like a")
    def bare_sum(a, b=None, *, places: list[int] = [1, 2], words="sum"):
        assert words == "sum" and list(places) == [1, 2]
        return 2 * a if b is None else 2 * a + 3 * b

    np.testing.assert_allclose(bare_sum(x), 2 * x)
    v, w = hg.Var(x), hg.Var(x + 1)
    np.testing.assert_allclose(bare_sum(v, w).grad(w).numpy(), np.full_like(x, 3))

    @hg.register_op(shape=lambda xs: (xs.shape, xs.shape))
    def bare_pair(x) -> tuple[np.ndarray, np.ndarray]:
        return x + 1, x - 1

    up, down = bare_pair(x)
    np.testing.assert_array_equal(up - down, np.full_like(x, 2))

    @hg.register_op
    def bare_total(*xs):
        return sum(xs)

    np.testing.assert_allclose(bare_total(x, x, x), 3 * x, rtol=1e-6)

    def rest(x, **named):
        return x

    for function, message in [(lambda x: x, "needs a signature"), (rest, r"takes \*\*named")]:
        with pytest.raises(TypeError, match=message):
            hg.register_op(function)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int32", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(), (1,), (0,), (7,), (3, 0), (2, 3, 4)])
def test_a_function_is_an_op(dtype, shape, rng):
    name = fresh()
    hg.register_op(f"{name}(x) -> y", lambda x: x[...] if x.dtype == bool else x + x, shape="like x")
    x = np.asarray(rng.standard_normal(shape) * 5).astype(dtype)
    want = x if dtype == "bool" else x + x
    for way, got in in_all_ways(name, [x], {}):
        assert got.dtype == want.dtype and got.shape == want.shape, way
        np.testing.assert_array_equal(got, want, err_msg=way)


@pytest.mark.parametrize("seed", range(25))
def test_random_calls(seed):
    """Broadcast inputs, strides, dtypes and attributes, compared with numpy."""
    rng = np.random.default_rng(seed)
    name = fresh()
    hg.register_op(f"{name}(x, y, scale: float, shift: int = 2, flip: bool = False, word: str = \"none\") -> z",
                   lambda x, y, scale, shift, flip, word: (x - y if flip else x + y) * scale + shift)  # fmt: skip
    shape = tuple(rng.integers(0, 5, rng.integers(0, 4)))
    x, y = (np.asarray(rng.standard_normal(tuple(1 if rng.random() < 0.3 else n for n in shape)), "float32") for _ in range(2))
    if x.ndim and rng.random() < 0.5:
        x = np.repeat(x, 2, 0)[::-2]
    if y.ndim > 1 and rng.random() < 0.5:
        y = np.ascontiguousarray(y.T).T
    scale, shift, flip = float(rng.integers(-3, 4)), int(rng.integers(-5, 6)), bool(rng.integers(2))
    want = ((x - y if flip else x + y) * np.float32(scale) + np.float32(shift)).astype("float32")
    for way, got in in_all_ways(name, [x, y], {"scale": scale, "shift": shift, "flip": flip}):
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6, err_msg=way)


def test_a_text_is_an_op(rng):
    name = fresh("poly")
    function = hg.register_op(f"{name}(x, a, b: float = 2) -> y", "a*x*x + b*x")
    x, a = rng.standard_normal((4, 3)).astype("float32"), rng.standard_normal(3).astype("float32")
    for way, got in in_all_ways(name, [x, a], {"b": 0.5}):
        np.testing.assert_allclose(got, a * x * x + 0.5 * x, rtol=1e-5, atol=1e-6, err_msg=way)
    np.testing.assert_allclose(function(x, 2.0), 2 * x * x + 2 * x, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(function(np.arange(3), 0.5), 0.5 * np.arange(3) ** 2 + 2 * np.arange(3))
    va, vx = hg.Var(a), hg.Var(x)
    np.testing.assert_allclose(function(vx, va, b=3).grad(vx).numpy(), 2 * a * x + 3, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(function(vx, va, b=3).grad(va).numpy(), (x * x).sum(0), rtol=1e-5, atol=1e-5)


def test_several_outputs_and_a_shape_rule(rng):
    name = fresh("split")
    function = hg.register_op(
        f"{name}(x, parts: int) -> sums, rest",
        lambda x, parts: (x[: x.shape[0] // parts * parts].reshape(parts, -1).sum(1), x[x.shape[0] // parts * parts :]),
        shape=lambda x, parts: ((parts,), ("float32", ("mod(n, 3)",) if isinstance(x.shape[0], str) else (x.shape[0] % parts,))),
    )
    x = np.arange(8, dtype="float32")
    sums, rest = function(x, parts=3)
    np.testing.assert_array_equal(sums, [1, 5, 9])
    np.testing.assert_array_equal(rest, [6, 7])
    graph = hg.Graph()
    first, second = function(graph.input("x", ("n",)), parts=3)
    graph.output("sums", first)
    graph.output("rest", second)
    model = graph.model()
    for n in (3, 8, 13, 8):
        sums, rest = model(np.ones(n, "float32"))
        np.testing.assert_array_equal(sums, [n // 3] * 3)
        assert rest.shape == (n % 3,)


def test_any_number_of_inputs(rng):
    name = fresh("total")
    function = hg.register_op(f"{name}(xs...) -> y", lambda *xs: sum(xs))
    arrays = [rng.standard_normal(5).astype("float32") for _ in range(4)]
    np.testing.assert_allclose(function(arrays), sum(arrays), rtol=1e-6)


def numeric_gradient(f, x, dy):
    out = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        high, low = x.copy(), x.copy()
        high[i] += 1e-5
        low[i] -= 1e-5
        out[i] = ((f(high) - f(low)) * dy).sum() / 2e-5
    return out


@pytest.mark.parametrize("form", ["function", "text", "both texts", "function of a text"])
def test_gradients_equal_finite_differences(form, rng):
    def kernel(x, y, gain):
        return np.sin(x) * y * gain

    def gradient(x, y, gain, dz):
        return dz * np.cos(x) * y * gain, dz * np.sin(x) * gain

    words = "dx = dz * cos(x) * y * gain; dy = dz * sin(x) * gain"
    text = "sin(x) * y * gain"
    pair = {"function": (kernel, gradient), "text": (kernel, words), "both texts": (text, words),
            "function of a text": (text, gradient)}[form]  # fmt: skip
    function = hg.register_op(f"{fresh()}(x, y, gain: float) -> z", pair[0], gradient=pair[1])
    x, y, seed = rng.standard_normal((3, 4)), rng.standard_normal(4), rng.standard_normal((3, 4))
    vx, vy = hg.Var(x), hg.Var(y)
    dx, dy = hg.vjp([function(vx, vy, gain=1.5)], [vx, vy], [hg.Var(seed)])
    np.testing.assert_allclose(dx.numpy(), numeric_gradient(lambda v: kernel(v, y, 1.5), x, seed), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(dy.numpy(), numeric_gradient(lambda v: kernel(x, v, 1.5), y, seed), rtol=1e-6, atol=1e-8)
    # Gradients that are not requested need not exist.
    np.testing.assert_allclose(function(vx, vy, gain=1.5).grad(vy).numpy(), (np.sin(x) * 1.5).sum(0), rtol=1e-6)


def test_gradients_of_several_outputs(rng):
    function = hg.register_op(
        f"{fresh()}(x) -> s, c",
        lambda x: (np.sin(x), np.cos(x)),
        gradient=lambda s, c, ds, dc: {"dx": ds * c - dc * s},
    )
    x = rng.standard_normal(5)
    v = hg.Var(x)
    s, c = function(v)
    np.testing.assert_allclose((s + 2.0 * c).grad(v).numpy(), np.cos(x) - 2 * np.sin(x), rtol=1e-9)


def test_in_autograd_and_a_trainer(rng):
    torch = pytest.importorskip("torch")
    name = wave()
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    function = getattr(hg.ops, name)
    assert torch.autograd.gradcheck(lambda t: function(t, gain=0.7), x)
    graph = hg.Graph()
    w = graph.parameter("w", np.zeros(4, "float32"))
    graph.output("y", function(graph.input("x", ("n", 4)) + w, gain=0.3))
    trainer = hg.Trainer(graph.model(), loss="mse", optimizer="sgd", lr=0.5)
    data, target = rng.standard_normal((16, 4)).astype("float32"), rng.standard_normal((16, 4)).astype("float32")
    parameter = torch.zeros(4, requires_grad=True)
    optimizer = torch.optim.SGD([parameter], 0.5)
    for _ in range(5):
        loss = trainer.step(data, target)
        optimizer.zero_grad()
        shifted = torch.tensor(data) + parameter
        want = torch.nn.functional.mse_loss(shifted + 0.3 * torch.sin(shifted), torch.tensor(target))
        want.backward()
        optimizer.step()
        assert loss == pytest.approx(want.item(), rel=1e-5)
    np.testing.assert_allclose(trainer.parameters()["w"], parameter.detach(), rtol=1e-4, atol=1e-6)


def test_in_a_named_model(rng):
    from hologram import named as nn

    name = wave()
    model = nn.Group([nn.Input("x", ("n", 4)), nn.Call(name, gain=0.25).output("y")])
    x = rng.standard_normal((3, 4)).astype("float32")
    got = hg.compile(model).evaluate({}, {"x": x})["y"]
    np.testing.assert_allclose(got, x + 0.25 * np.sin(x), rtol=1e-5, atol=1e-6)


def test_a_dotted_name_and_a_file(tmp_path, rng):
    name = "acme." + fresh("wave")
    function = hg.register_op(f"{name}(x) -> y", np.sin)
    x = rng.standard_normal(6).astype("float32")
    np.testing.assert_array_equal(hg.ops.call(name, x), np.sin(x))
    graph = hg.Graph()
    graph.output("y", function(graph.input("x", ("n",))))
    graph.model().save(tmp_path / "m.hgm")
    np.testing.assert_array_equal(hg.load(tmp_path / "m.hgm")(x), np.sin(x))


class Mine(Exception):
    pass


@pytest.mark.parametrize("where", ["kernel", "shape", "gradient"])
def test_what_a_function_raises_comes_out(where, rng):
    def fail(*_, **__):
        raise Mine("of my own")

    kernel = fail if where == "kernel" else lambda x: x * 2
    name = fresh("bad")
    function = hg.register_op(f"{name}(x) -> y", kernel, shape=fail if where == "shape" else None,
                              gradient=lambda dy: fail() if where == "gradient" else dy)  # fmt: skip
    x = rng.standard_normal(1000).astype("float32")
    for attempt in range(3):
        with pytest.raises(Mine, match="of my own") as info:
            if where == "gradient":
                v = hg.Var(x)
                function(v).grad(v).numpy()
            else:
                function(x)
        if hasattr(info.value, "__notes__"):
            assert name in info.value.__notes__[0]
    with pytest.raises(Mine):
        v = hg.Var(x)
        (function(v).grad(v) if where == "gradient" else function(v)).numpy()


def test_what_a_kernel_gives_must_fit():
    x = np.ones((2, 3), "float32")
    cases = [
        (lambda x: x[:1], ValueError, r"output 'y' of '\w+' is \(1, 3\), its shape is \(2, 3\)"),
        (lambda x: x + 1j, TypeError, "is complex64, its dtype is float32"),
        (lambda x: None, (TypeError, ValueError), r"is (object|\(\))"),
        (lambda x: "text", (TypeError, ValueError), "its (dtype|shape) is"),
    ]
    for kernel, error, message in cases:
        with pytest.raises(error, match=message):
            hg.register_op(f"{fresh()}(x) -> y", kernel, shape="like x")(x)
    # As with numpy's out=, a more precise result is rounded.
    got = hg.register_op(f"{fresh()}(x) -> y", lambda x: x.astype("float64") / 3)(x)
    assert got.dtype == np.float32
    with pytest.raises(ValueError, match="gives 2 outputs"):
        hg.register_op(f"{fresh()}(x) -> y, z", lambda x: x)(x)
    with pytest.raises(ValueError, match="shape rule of .* gives 1 shapes for 2 outputs"):
        hg.register_op(f"{fresh()}(x) -> y, z", lambda x: (x, x), shape=lambda x: ((2, 3),))(x)


def test_what_is_registered_must_make_sense():
    name = fresh()
    hg.register_op(f"{name}(x) -> y", "x")
    for call, error, message in [
        (lambda: hg.register_op(f"{name}(x) -> y", "x"), ValueError, "registered already"),
        (lambda: hg.register_op("relu(x) -> y", "x"), ValueError, "registered already"),
        (lambda: hg.register_op("no signature", "x"), ValueError, "signature"),
        (lambda: hg.register_op(f"{fresh()}(x) -> y", 3), TypeError, "a function or a text, not a int"),
        (lambda: hg.register_op(f"{fresh()}(x) -> y", "x + z"), ValueError, "reads 'z', which its signature lacks"),
        (lambda: hg.register_op(f"{fresh()}(x) -> y", "sinn(x)"), ValueError, "unknown function 'sinn'"),
        (lambda: hg.register_op(f"{fresh()}(x) -> y, z", "x"), ValueError, "1 outputs, its signature has 2"),
        (lambda: hg.register_op(f"{fresh()}(x, dy: int = 1) -> y", np.sin), ValueError, "'dy' has two meanings"),
        (lambda: hg.register_op(f"{fresh()}(x) -> y", np.sin, shape="like z"), ValueError, "its inputs are x"),
        (lambda: hg.register_op(f"{fresh()}(x) -> y", "x", shape="like x"), ValueError, "follow from its text"),
        (lambda: hg.register_op(f"{fresh()}(x) -> y", np.sin, gradient=lambda q: q), ValueError, "takes 'q'; there are"),
        (lambda: hg.register_op(f"{fresh()}(xs...) -> y", np.sin, gradient=lambda dy: dy), ValueError, "has none"),
    ]:
        with pytest.raises(error, match=message):
            call()
    with pytest.raises(hg.UnsupportedError, match="gradient"):
        v = hg.Var(np.ones(2, "float32"))
        hg.register_op(f"{fresh()}(x) -> y", np.sin)(v).grad(v).numpy()


def test_inputs_are_lent_and_not_written_to():
    x = np.ones(5000, "float32")
    seen = []
    hg.register_op("lent_probe(x) -> y", lambda x: seen.append(x.__array_interface__["data"][0]) or x * 1)
    hg.ops.lent_probe(x)
    assert seen[-1] == x.__array_interface__["data"][0]

    def write(x):
        x[0] = 3
        return x

    with pytest.raises(ValueError, match="read-only"):
        hg.register_op(f"{fresh()}(x) -> y", write)(x)
    kept = []
    keeper = hg.register_op(f"{fresh()}(x) -> y", lambda x: kept.append(x[2:]) or x * 1)
    with pytest.raises(RuntimeError, match="keeps an array that it was lent"):
        keeper(x)
    kept.clear()


def test_kernels_may_use_the_package(rng):
    inner = wave()
    outer = hg.register_op(f"{fresh()}(x) -> y", lambda x: hg.ops.relu(hg.ops.call(inner, x)) + hg.Var(x).numpy())
    x = rng.standard_normal(9).astype("float32")
    want = np.maximum(x + 0.5 * np.sin(x), 0) + x
    for _ in range(3):
        np.testing.assert_allclose(outer(x), want, rtol=1e-5, atol=1e-6)
    with hg.Executor("cpu") as executor:
        np.testing.assert_allclose(executor.call("relu", outer(x)), np.maximum(want, 0), rtol=1e-5, atol=1e-6)
        stuck = hg.register_op(f"{fresh()}(x) -> y", lambda x: executor.relu(x))
        with pytest.raises(RuntimeError, match="cannot use the executor that it runs on"):
            stuck(x)


def test_a_function_evaluates_what_it_is_a_part_of():
    """A kernel evaluates an expression of the form that runs now: it gets its own plan."""
    depth = []

    def compute(x):
        if len(depth) < 2:
            depth.append(0)
            return (function(hg.Var(x)) * 2.0).numpy()
        return x + 1

    function = hg.register_op("inner.twice(x) -> y", compute, pure=False)
    np.testing.assert_array_equal((function(hg.Var(np.arange(3.0))) * 2.0).numpy(), (np.arange(3.0) + 1) * 8)


def test_many_threads(rng):
    name = wave()
    graph = hg.Graph()
    graph.output("y", getattr(hg.ops, name)(graph.input("x", ("n",))))
    model = graph.model()
    failures = []

    def work(seed):
        x = np.random.default_rng(seed).standard_normal(50 + seed).astype("float32")
        want = x + 0.5 * np.sin(x)
        try:
            for i in range(60):
                np.testing.assert_allclose(model(x), want, rtol=1e-5, atol=1e-6)
                np.testing.assert_allclose(hg.ops.call(name, x), want, rtol=1e-5, atol=1e-6)
                if i % 20 == 0:  # ops are added while others run
                    mine = fresh(f"threaded{seed}_")
                    hg.register_op(f"{mine}(x) -> y", np.cos)
                    np.testing.assert_array_equal(hg.ops.call(mine, x), np.cos(x))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    [t.start() for t in threads]
    [t.join(120) for t in threads]
    assert not any(t.is_alive() for t in threads)
    assert not failures, failures[0]


def test_what_is_not_pure_runs_each_time():
    calls = []
    function = hg.register_op(f"{fresh()}(x) -> y", lambda x: calls.append(1) or x * 1, pure=False)
    graph = hg.Graph()
    x = graph.input("x", (3,))
    graph.output("y", function(x) + function(x))
    model = graph.model()
    calls.clear()
    model(np.ones(3, "float32"))
    assert len(calls) == 2


def test_exceptions_are_let_go_of():
    class Heavy:
        pass

    heavy = Heavy()
    watch = weakref.ref(heavy)

    def fail(x, heavy=heavy):
        error = Mine()
        error.heavy = Heavy()
        nonlocal_watch.append(weakref.ref(error.heavy))
        raise error

    nonlocal_watch = []
    function = hg.register_op(f"{fresh()}(x) -> y", fail)
    with pytest.raises(Mine):
        function(np.ones(2, "float32"))
    gc.collect()
    assert watch() is not None  # the function stays
    assert nonlocal_watch[0]() is None
