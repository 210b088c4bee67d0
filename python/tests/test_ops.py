# SPDX-License-Identifier: Apache-2.0
"""Single ops, executors, text kernels and lazy expressions, with numpy alone."""

import threading

import numpy as np
import pytest

import hologram as hg
from hologram import _core

# -- hg.ops ---------------------------------------------------------------------------------------


def test_ops_have_names_signatures_and_help():
    import inspect

    assert len(dir(hg.ops)) > 150
    for name in dir(hg.ops):
        function = getattr(hg.ops, name)
        assert function.__doc__.startswith(name + "(")
    assert list(inspect.signature(hg.ops.softmax).parameters)[:2] == ["input", "dim"]
    with pytest.raises(AttributeError, match="softmax"):
        hg.ops.sofmax


def test_incomplete_gamma_functions_of_large_arguments():
    rows = [  # sums of the series with 40 digits
        (1e5, 99000.0, 0.00075741992117476797, 0.99924258007882523),
        (1e5, 100001.0, 0.50168207890970723, 0.49831792109029277),
        (1e6, 1002500.0, 0.99375964513891169, 0.0062403548610883073),
        (1e7, 9990000.0, 0.0007801532152520487, 0.99921984678474795),
        (1e13, 1e13, 0.5 + 1 / (3 * np.sqrt(2e13 * np.pi)), 0.5 - 1 / (3 * np.sqrt(2e13 * np.pi))),
        (1e9, 1e9 - 2e6, 0.0, 1.0),
    ]
    a, x, lower, upper = np.array(rows).T
    np.testing.assert_allclose(hg.ops.igamma(a, x), lower, rtol=1e-12)
    np.testing.assert_allclose(hg.ops.igammac(a, x), upper, rtol=1e-12)


def test_add_and_out(rng):
    a, b = rng.standard_normal((2, 3, 4)).astype(np.float32)
    np.testing.assert_array_equal(hg.ops.add(a, b), a + b)
    np.testing.assert_array_equal(hg.ops.add(a, b, out=None), a + b)
    out = np.empty_like(a)
    assert hg.ops.add(a, b, out=out) is out
    np.testing.assert_array_equal(out, a + b)
    hg.ops.add(a, b, out=a.T.copy().T)  # strided
    with pytest.raises(ValueError, match="out= names no tensor"):
        hg.ops.add(a, b, out=[])
    with pytest.raises(ValueError):
        hg.ops.add(a, b, out=[out, out.copy()])
    np.testing.assert_array_equal(hg.ops.add(a, 2), a + 2)
    np.testing.assert_array_equal(hg.ops.sub(2.5, a), np.float32(2.5) - a)
    with pytest.raises(ValueError, match=r"3, 4.*2, 3|2, 3.*3, 4"):
        hg.ops.add(a, np.zeros((2, 3), np.float32))
    wide = hg.ops.add(a, b.astype(np.float64))
    assert wide.dtype == np.float64
    np.testing.assert_array_equal(wide, a + b.astype(np.float64))
    with pytest.raises(TypeError, match="attribute|argument"):
        hg.ops.add(a, b, gain=2)
    with pytest.raises(TypeError, match="needs"):
        hg.ops.add(a)


def test_attributes(rng):
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    e = np.exp(x - x.max(-1, keepdims=True))
    np.testing.assert_allclose(hg.ops.softmax(x, -1), e / e.sum(-1, keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(hg.ops.softmax(x, dim=-1), hg.ops.softmax(x, 2))
    np.testing.assert_allclose(hg.ops.sum(x, [0, 2]), x.sum((0, 2)), rtol=1e-5)
    np.testing.assert_array_equal(hg.ops.permute(x, [2, 0, 1]), x.transpose(2, 0, 1))
    np.testing.assert_array_equal(hg.ops.concat([x, x], 1), np.concatenate([x, x], 1))
    values, indices = hg.ops.topk(x, 2)
    np.testing.assert_array_equal(values, -np.sort(-x, -1)[..., :2])
    assert indices.dtype == np.int64
    assert hg.ops.cast(x, np.float64).dtype == np.float64
    assert hg.ops.cast(x, "f16").dtype == np.float16
    with pytest.raises(TypeError, match="dim"):
        hg.ops.softmax(x, dim="last")


def test_integers_that_a_double_cannot_hold():
    a = np.array([0], np.int64)
    assert hg.ops.add(a, 2**62 + 1)[0] == 2**62 + 1


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round"])
def test_roundings_keep_integers(name):
    op = getattr(hg.ops, name)
    for dtype in ("int64", "int32", "int16", "int8", "uint8"):
        x = np.array([[3, 0], [100, 7]], dtype).T
        for value in (x, x[:0], x[0, 0].reshape(())):
            y = op(value)
            assert y.dtype == dtype and y.shape == value.shape and not np.shares_memory(y, value)
            np.testing.assert_array_equal(y, value)
    large = np.array([2**53 + 1, -(2**62) - 1])
    np.testing.assert_array_equal(op(large), large)
    np.testing.assert_array_equal(op(hg.Var(large)).numpy(), large)
    with pytest.raises(ValueError, match="floats, but is bool"):
        op(np.array([True]))
    if name == "round":
        with pytest.raises(ValueError, match="floats, but is i64"):
            op(large, decimals=-1)


def test_results_do_not_look_at_what_was_lent():
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    y = hg.ops.permute(a, [1, 0])
    a[:] = 0
    np.testing.assert_array_equal(y, np.arange(6, dtype=np.float32).reshape(2, 3).T)


def test_random_ops_of_two_tensors_equal_numpy(rng):
    pairs = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum}
    for _ in range(500):
        name = list(pairs)[rng.integers(len(pairs))]
        shape = tuple(int(n) for n in rng.integers(0, 5, rng.integers(0, 4)))
        dtype = [np.float32, np.float64, np.int64, np.int32][rng.integers(4)]
        a = (rng.standard_normal(shape) * 9).astype(dtype)
        other = tuple(1 if rng.integers(4) == 0 else n for n in shape)
        b = np.asarray((rng.standard_normal(other) * 9).astype(dtype))
        got = getattr(hg.ops, name)(a, b)
        np.testing.assert_array_equal(got, pairs[name](a, b), err_msg=f"{name} {shape} {other} {dtype}")


def test_random_pads_and_rolls_equal_numpy(rng):
    for trial in range(2000):
        rank, dtype = int(rng.integers(1, 6)), ["f32", "f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool"][rng.integers(10)]
        shape = tuple(int(n) for n in rng.choice([0, 1, 2, 3, 4, 5, 6, 7, 8], rank, p=[0.02, *[0.98 / 8] * 8]))
        if rng.integers(3) == 0:
            shape = (*shape[:-1], int(rng.integers(9, 70)))
        values = rng.integers(0, 2 if dtype == "bool" else 100, shape).astype(np.float32)
        x = hg.ops.cast(values, dtype)
        given = f"trial {trial}: {dtype} {shape}"
        if rng.integers(2):
            dims = [int(d) for d in rng.permutation(rank)[: rng.integers(1, rank + 1)]]
            shifts = [int(n) for n in rng.integers(-9, 10, len(dims))]
            got, want = hg.ops.roll(x, shifts, dims), np.roll(values, shifts, dims)
            given += f" rolled by {shifts} along {dims}"
        else:
            mode = ["constant", "constant", "constant", "edge", "reflect", "wrap"][rng.integers(6)]
            count = rank if mode == "constant" else rank - 2
            if count < 1 or mode != "constant" and min(shape) < 4:
                continue
            pads = rng.integers(-min(2, min(shape) // 2), 4, (count, 2)) * (rng.random((count, 1)) < 0.6)
            pads = pads if mode == "constant" else np.maximum(pads, 0)
            fill = {"constant_values": int(rng.integers(2 if dtype == "bool" else 100))} if mode == "constant" else {}
            wide = np.pad(values, [(0, 0)] * (rank - count) + [(max(b, 0), max(e, 0)) for b, e in pads], mode, **fill)
            want = wide[(..., *(slice(-min(b, 0), n + min(e, 0)) for (b, e), n in zip(pads, wide.shape[rank - count :])))]
            names = {"constant": "constant", "edge": "replicate", "reflect": "reflect", "wrap": "circular"}
            got = hg.ops.pad(x, [int(n) for n in pads[::-1].ravel()], names[mode], float(fill.get("constant_values", 0)) if fill else None)
            given += f" padded by {pads.tolist()}, {mode} {fill}"
        np.testing.assert_array_equal(hg.ops.cast(got, "f32"), want, err_msg=given)


def test_many_threads_of_ops(rng):
    a = rng.standard_normal(1000).astype(np.float32)
    failures = []

    def work(k):
        for _ in range(200):
            if not np.array_equal(hg.ops.mul(a, float(k)), a * np.float32(k)):
                failures.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not failures


# -- hg.Executor ----------------------------------------------------------------------------------


def test_executor():
    a = np.ones((2, 3), np.float32)
    with hg.Executor(backend="cpu") as ex:
        assert ex.backend == "cpu"
        np.testing.assert_array_equal(ex.add(a, a), a + a)
        np.testing.assert_array_equal(hg.ops.add(a, a), a + a)
        before = ex.counters()
        ex.add(a, a)
        assert ex.counters()["hits"] == before["hits"] + 1
        r = ex.rand([4])
        ex.seed(0)
        again = ex.rand([4])
        ex.seed(0)
        np.testing.assert_array_equal(again, ex.rand([4]))
        assert r.shape == (4,)
    assert ex.is_freed
    with pytest.raises(RuntimeError, match="freed"):
        ex.add(a, a)
    with pytest.raises(RuntimeError, match="freed"):
        with ex:
            pass
    ex.free()  # twice is no error
    with pytest.raises(ValueError, match="backend 'tpu'"):
        hg.Executor(backend="tpu")
    auto = hg.Executor(backend="auto")
    np.testing.assert_array_equal(auto.add(a, a), a + a)


def a_device():
    """An executor on the first Vulkan device, which may be software."""
    found = hg.devices()[1:]
    return hg.Executor(backend="vulkan", gpu_name=found[0].name) if found else None


def test_vulkan_or_the_reason_why_not():
    if all(each.type == "software" for each in hg.devices()[1:]):
        with pytest.raises(hg.UnsupportedError, match="GPU|driver|loader|Vulkan"):
            hg.Executor(backend="vulkan")
        assert hg.Executor(backend="auto").notes  # it says why
    if a_device():
        assert a_device().backend == "vulkan"


def test_vulkan_tensors(rng):
    a = rng.standard_normal((3, 4)).astype(np.float32)
    v = hg.to_vulkan(a)
    assert isinstance(v, hg.VulkanTensor)
    assert v.shape == (3, 4) and v.dtype == np.float32
    np.testing.assert_array_equal(v.numpy(), a)
    np.testing.assert_array_equal(v.cpu().numpy(), a)
    np.testing.assert_array_equal(np.asarray(v), a)
    assert hg.to_vulkan(a.astype(np.float64)).dtype == np.float32
    whole = hg.to_vulkan(np.arange(3))
    assert whole.dtype == np.int64
    assert type(hg.to_vulkan([a, a])) is list and type(hg.to_vulkan((a, a))) is tuple
    assert type(hg.from_vulkan([v])) is list
    np.testing.assert_array_equal(np.asarray(hg.from_vulkan(v)), a)
    with pytest.raises(TypeError):
        hg.from_vulkan(a)
    with hg.create_executor_for_tensor(v) as ex:
        w = ex.relu(ex.add(v, v))
        assert isinstance(w, hg.VulkanTensor)
        np.testing.assert_allclose(w.numpy(), np.maximum(2 * a, 0), rtol=1e-6)
    v.free()
    with pytest.raises(ValueError, match="freed"):
        hg.Executor("cpu").relu(v)
    assert "freed" in repr(v)


def test_one_upload_and_no_round_trip(rng):
    a, b = rng.standard_normal((2, 4096)).astype(np.float32)
    ex = a_device()
    if ex is None:
        pytest.skip("there is no Vulkan device")
    with ex:
        hg.to_vulkan(a)  # the data that prepares a device is also uploaded
        before = ex.counters()
        va, vb = hg.to_vulkan([a, b])
        assert va.is_on_device
        assert ex.counters()["uploads"] == before["uploads"] + 2
        y = ex.relu(ex.add(va, vb))
        before = ex.counters()
        y = ex.relu(hg.ops.add(va, vb))
        between = ex.counters()
        # A call uploads a table of a few bytes, but no tensor.
        assert between["upload_bytes"] - before["upload_bytes"] < 256 < a.nbytes
        assert between["downloads"] == before["downloads"]
        np.testing.assert_allclose(y.numpy(), np.maximum(a + b, 0), rtol=1e-6)
        assert ex.counters()["downloads"] == between["downloads"] + 1
        whole = hg.to_vulkan(np.arange(3))
        assert whole.dtype == np.int64 and whole.numpy().tolist() == [0, 1, 2]
        np.testing.assert_array_equal(hg.ops.add(a, b), a + b)  # numpy arrays are uploaded, and results downloaded
        out = np.empty_like(a)
        hg.ops.add(va, b, out=out)
        np.testing.assert_array_equal(out, a + b)


# -- Tensor utilities -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype",
    ["float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64", "complex128"],
)
def test_round_trips_are_bit_exact(dtype, rng):
    a = rng.integers(0, 2, 64).astype(bool) if dtype == "bool" else rng.integers(0, 256, 64).astype(np.uint8).view(dtype)
    back = hg.to_numpy(hg.from_numpy(a))
    assert back.dtype == a.dtype and back.tobytes() == a.tobytes()
    assert back.__array_interface__["data"] == a.__array_interface__["data"]
    assert _core.copy(a, "numpy").tobytes() == a.tobytes()


def test_validate_and_match():
    a = np.ones(3, np.float32)
    assert hg.validate_tensor_compatible(a)
    with pytest.raises(TypeError):
        hg.validate_tensor_compatible("text")
    with pytest.raises(ValueError, match="element type"):
        hg.validate_tensor_compatible(np.array(["a"]))
    assert isinstance(hg.match_device(a, hg.from_numpy(a)), hg.VulkanTensor)
    assert isinstance(hg.match_device(hg.from_numpy(a), a), np.ndarray)


# -- hg.kernel ------------------------------------------------------------------------------------


def test_the_polynomial():
    k = hg.kernel("polynomial", "a*x*x + b*x + c")
    x = np.array([1, 2, 3, 4], np.float32)
    want = [9, 23, 41, 63]
    np.testing.assert_array_equal(k(a=2, b=8, c=-1, x=x), want)
    assert k.parameters == ["a", "x", "b", "c"]
    np.testing.assert_array_equal(k(2, x, 8, -1), want)
    out = np.empty(4, np.float32)
    assert k(2, x, 8, -1, out=out) is out
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(k.grad(2.0, x, 8.0, -1.0, wrt=["x"])["x"], [12, 16, 20, 24])
    with pytest.raises(TypeError, match="'d'"):
        k(a=2, b=8, d=-1, x=x)
    with pytest.raises(ValueError, match="column"):
        hg.kernel("wrong", "a +* b")
    import pickle

    np.testing.assert_array_equal(pickle.loads(pickle.dumps(k))(2, x, 8, -1), want)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int32", "uint8"])
def test_kernels_of_any_dtype(dtype):
    k = hg.kernel("poly", "a*x*x + b*x + c")
    x = np.array([[1, 2], [3, 4]], dtype)
    y = k(a=2, b=8, c=1, x=x)
    assert y.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(y, 2 * x * x + 8 * x + 1)


def test_kernels_broadcast_strided_and_empty(rng):
    k = hg.kernel("mix", "(1 - t) * a + t * b")
    base = rng.standard_normal((6, 8)).astype(np.float32)
    for a in (base[::2], base[:, 1::3], base.T, base[:0], base[2], np.broadcast_to(base[0], (3, 8))):
        b = np.float32(2) + a[..., :1]
        np.testing.assert_allclose(k(t=0.25, a=a, b=b), np.float32(0.75) * a + np.float32(0.25) * b, rtol=1e-5, atol=1e-6)
    two = hg.kernel("two", "low = min(a, b); high = max(a, b)")
    low, high = two(base, base * 0)
    np.testing.assert_array_equal(low, np.minimum(base, 0))
    np.testing.assert_array_equal(high, np.maximum(base, 0))
    place = hg.kernel("place", "id()")
    np.testing.assert_array_equal(place(shape=(2, 3)), np.arange(6).reshape(2, 3))
    struct = hg.kernel("momentum", "p.mass * p.speed")
    np.testing.assert_array_equal(struct(p={"mass": base, "speed": 2.0}), base * 2)


# -- hg.Var ---------------------------------------------------------------------------------------


KERNELS = {
    "numbers": ("a*x*x + b*x + c", {"a": 2.0, "b": 8, "c": -1}),
    "two outputs": ("y = x*a; z = y + b", {"a": 3, "b": 0.5}),
    "a choice": ("x > 0 ? x : a*x", {"a": 0.1}),
    "members": ("p.a*x - p.b", {"p": {"a": 2.0, "b": 3}}),
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64"])
@pytest.mark.parametrize("shape", [(3, 4), (), (0, 2)])
def test_kernels_in_expressions_and_graphs_give_the_same_bits(name, dtype, shape, rng):
    text, numbers = KERNELS[name]
    kernel = hg.kernel(name.replace(" ", "_"), text)
    x = np.asarray(rng.standard_normal(shape) * 5).astype(dtype)
    wanted = kernel(x=x, **numbers)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    lazy = kernel(x=hg.Var(x), **numbers)
    graph = hg.Graph()
    built = kernel(x=graph.input("x", shape, dtype), **numbers)
    for i, value in enumerate(built if isinstance(built, tuple) else (built,)):
        graph.output(f"y{i}", value)
    run = graph.model()(x)
    for results in (lazy, run if isinstance(run, (tuple, list)) else (run,)):
        results = results if isinstance(results, (tuple, list)) else (results,)
        assert len(results) == len(wanted)
        for got, want in zip(results, wanted):
            got = np.asarray(got.value() if isinstance(got, hg.Var) else got)
            assert got.dtype == want.dtype and got.shape == want.shape and got.tobytes() == want.tobytes()


def test_kernels_in_expressions_have_their_derivatives(rng):
    x, dy = (rng.standard_normal((3, 4)).astype("float32") for _ in range(2))
    leaf = hg.Var(x)
    polynomial = hg.kernel("polynomial", "a*x*x + b*x")
    (dx,) = hg.vjp([polynomial(2.0, leaf, 8)], [leaf], [hg.Var(dy)])
    np.testing.assert_array_equal(dx.value(), polynomial.grad(2.0, x, 8, wrt=["x"], output_gradients=[dy])["x"])
    own = hg.kernel("own", "y = x*x", backward="dx = dy*10")
    np.testing.assert_array_equal(own(own(leaf)).grad(leaf).value(), np.full_like(x, 100))
    with pytest.raises(TypeError, match="'a' is missing"):
        polynomial(x=leaf)
    with pytest.raises(ValueError, match="out="):
        own(leaf, out=x)


def test_lazy(rng):
    a_, b_ = rng.standard_normal((2, 3, 4)).astype(np.float32)
    a, b = hg.Var(a_), hg.Var(b_)
    y = 2 - (a * b + a) / 4
    assert y.shape == (3, 4) and y.dtype == np.float32
    np.testing.assert_allclose(y.numpy(), 2 - (a_ * b_ + a_) / 4, rtol=1e-6)
    np.testing.assert_allclose((a_ + b).numpy(), a_ + b_)
    np.testing.assert_allclose((a - b_).numpy(), a_ - b_)
    np.testing.assert_allclose((-abs(a) ** 2).numpy(), -(a_**2), rtol=1e-5)
    np.testing.assert_allclose((a @ hg.ops.permute(b, [1, 0])).numpy(), a_ @ b_.T, rtol=1e-5)
    assert "*" in str(a * b)
    g = hg.ops.sum(a * a * b).grad(a)
    np.testing.assert_allclose(g.numpy(), 2 * a_ * b_, rtol=1e-6)
    ga, gb = (a * b).grad([a, b])
    np.testing.assert_array_equal(ga.numpy(), b_)
    np.testing.assert_array_equal(gb.numpy(), a_)
    np.testing.assert_allclose((a * a * a).grad(a).grad(a).numpy(), 6 * a_, rtol=1e-5)
    with pytest.raises(ValueError, match="3, 4"):
        a @ b
    one, two = hg.evaluate([a + b, a - b])
    np.testing.assert_array_equal(one, a_ + b_)
    np.testing.assert_array_equal(two, a_ - b_)
    jac = hg.jacobian(a * 2, a)
    assert jac.shape == (3, 4, 3, 4)


def test_leaves_are_read_again():
    memory = np.ones(3, np.float32)
    a = hg.Var(memory)
    y = a * 3
    np.testing.assert_array_equal(y.numpy(), [3, 3, 3])
    a.set(np.full(3, 2, np.float32))
    np.testing.assert_array_equal((a * 3).numpy(), [6, 6, 6])
    x = hg.Var.variable("x", (3,))
    y = x + 1
    with pytest.raises(ValueError):
        y.numpy()
    x.set(memory)
    np.testing.assert_array_equal(y.numpy(), [2, 2, 2])


def test_values_stay_when_the_plan_runs_again():
    kept = []
    for i in range(5):
        kept.append((hg.Var(np.full(8, i, np.float32)) * 2).numpy())
    for i, y in enumerate(kept):
        np.testing.assert_array_equal(y, np.full(8, 2.0 * i))


# -- hg.Graph -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_a_graph_promotes_as_ops_do(seed):
    rng = np.random.default_rng(seed)
    names = ["float32", "float64", "float16", "int64", "int32", "int8", "uint8", "bool"]
    op = rng.choice(["add", "mul", "sub", "div", "maximum", "lt", "pow", "concat", "sin"])

    def operand():
        if op != "concat" and rng.random() < 0.35:
            return [True, 3, -2, 0.5, 2.0][rng.integers(5)]
        rank = 1 if op == "concat" else rng.integers(0, 3)
        return np.asarray(rng.integers(1, 5, (3,) * rank)).astype(rng.choice(names))

    values = [operand() for _ in range(1 if op == "sin" else 2)]
    if not any(isinstance(v, np.ndarray) for v in values):
        values[0] = np.ones(3, rng.choice(names))
    function = getattr(hg.ops, op)
    graph = hg.Graph()
    inputs = [graph.input(f"x{i}", v.shape, v.dtype) if isinstance(v, np.ndarray) else v for i, v in enumerate(values)]
    try:
        want = function(values, dim=0) if op == "concat" else function(*values)
    except (ValueError, OverflowError):
        with pytest.raises(ValueError):
            graph.output("y", function(inputs, dim=0) if op == "concat" else function(*inputs))
        return
    graph.output("y", function(inputs, dim=0) if op == "concat" else function(*inputs))
    got = graph.model()(*(v for v in values if isinstance(v, np.ndarray)))
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_array_equal(got, want)


def test_numbers_of_a_graph_fit_or_are_refused():
    graph = hg.Graph()
    x = graph.input("x", (3,), "int64")
    y = x * 0.5 + 1
    assert y.dtype == "float32"
    graph.output("y", y)
    np.testing.assert_array_equal(graph.model()(np.array([1, 2, 3])), [1.5, 2, 2.5])
    assert (graph.input("b", (2,), "bool") + 1).dtype == "int64"
    u = graph.input("u", (2,), "uint8")
    with pytest.raises(ValueError, match="300 does not fit a tensor of u8"):
        hg.ops.where(u > 1, u, 300)
    wrapped = hg.Graph()
    wrapped.output("y", wrapped.input("u", (2,), "uint8") + 300)
    np.testing.assert_array_equal(wrapped.model()(np.array([1, 250], np.uint8)), np.array([45, 38], np.uint8))
    with pytest.raises(ValueError, match="gather: indices must be i64, but are f64"):
        hg.ops.gather(x, 0, 0.5)


def test_calls_by_position_equal_calls_by_name():
    """Calls with tensors by position run around the interpreter."""
    import copy
    import pickle
    import weakref

    x = np.arange(12, dtype=np.float32).reshape(3, 4) - 6
    for value in (x, x.T, x[::-1, ::2], x[:0], np.float32(3) * np.ones(()), x.astype("int32")):
        for result in (hg.ops.add(value, value), hg.ops.add(value, 2), hg.ops.add(2, value)):
            assert result.flags.owndata or result.base is not value
        np.testing.assert_array_equal(hg.ops.add(value, value), hg.ops.add(input=value, other=value))
        np.testing.assert_array_equal(hg.ops.relu(value), np.maximum(value, 0))
    frozen = x.copy()
    frozen.flags.writeable = False
    same = hg.ops.detach(frozen)
    same += 1  # memory of its own
    np.testing.assert_array_equal(frozen, x)
    assert hg.ops.add(2, 3) == 5 and hg.ops.sum(x) == x.sum()
    with pytest.raises(TypeError, match="missing|needs"):
        hg.ops.add(x)
    with pytest.raises(ValueError, match="add"):
        hg.ops.add(x, np.ones(3, np.float32))
    with pytest.raises(TypeError, match="not a tensor"):
        hg.ops.add(x, object())
    for function in (hg.ops.add, hg.ops.layer_norm):
        assert pickle.loads(pickle.dumps(function)) is function and copy.deepcopy(function) is function
        assert weakref.ref(function)() is function
    executor = hg.Executor("cpu", seed=3)
    with executor:
        assert hg.ops.add(x, x).sum() == 2 * x.sum() and executor.counters()["plans"] == 1
        executor._base, base = None, executor._base
        with pytest.raises(RuntimeError, match="was freed"):
            hg.ops.add(x, x)
        executor._base = base
