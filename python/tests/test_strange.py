# SPDX-License-Identifier: Apache-2.0
"""Tensors and values that look like others: each is taken for what it is, or refused with a sentence."""

import copy
import gc
import pickle
import sys
import threading

import numpy as np
import pytest
from conftest import pointwise

import hologram as hg


def want(a):
    return np.maximum(a + a, 0) * a


A = np.arange(-3, 5, dtype=np.float32)


class Sub(np.ndarray):
    pass


class WithArray:
    def __array__(self, dtype=None, copy=None):
        return A


class WithInterface:
    __array_interface__ = A.__array_interface__


@pytest.mark.parametrize("given", [A.view(Sub), WithArray(), WithInterface(), A.tolist(), memoryview(A), np.repeat(A, 2)[::2]])
def test_it_is_taken(given):
    np.testing.assert_array_equal(pointwise()(given, A), want(A))


@pytest.mark.parametrize(
    "given, error, sentence",
    [
        (np.ma.masked_array(A, A > 0), TypeError, "mask"),
        (A.astype(">f4"), ValueError, ">f4"),
        (A.astype(np.float16), ValueError, "f16"),
        (A.astype(np.uint16), ValueError, "uint16"),
        (A.astype(object), ValueError, "object"),
        (A.astype("M8[s]"), ValueError, "datetime64"),
        (A.view("V4"), ValueError, "V4"),
        (A.astype(np.complex64), ValueError, "c64"),
        (np.float32(3), ValueError, "rank"),
        (np.zeros((1,) * 13, np.float32), ValueError, "13 dims"),
        ("abc", TypeError, "Cannot cast|not a tensor"),
        (None, TypeError, "NoneType"),
        ([[1, 2], [3]], ValueError, "inhomogeneous|sequence"),
        (WithArray, TypeError, "not a tensor"),
    ],
)
def test_it_is_refused(given, error, sentence):
    model = pointwise()
    with pytest.raises(error, match=sentence):
        model(given, A)
    np.testing.assert_array_equal(model(A, A), want(A))


def test_masks_are_lost_nowhere():
    masked = np.ma.masked_array(A, A > 0)
    for use in (lambda: hg.ops.relu(masked), lambda: hg.kernel("k", "x*2")(masked), lambda: hg.Var(masked), lambda: hg.to_numpy(masked)):
        with pytest.raises(TypeError, match="mask"):
            use()


@pytest.mark.parametrize("dtype, number", [("int8", 300), ("int8", -129), ("uint8", 256), ("int16", 1 << 15), ("int32", 1 << 31)])
def test_numbers_that_a_dtype_does_not_hold(dtype, number):
    g = hg.Graph()
    g.output("y", hg.ops.permute(g.input("x", (), dtype), []))
    model = g.model()
    with pytest.raises(ValueError, match=str(number)):
        model(number)
    least = np.iinfo(dtype).min
    assert model(least) == least and model(int(np.iinfo(dtype).max)) == np.iinfo(dtype).max


def test_copies_of_a_model():
    model = pointwise()
    for other in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other(A, A), want(A))
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(model.session())


def test_a_var_is_no_truth_value():
    v = hg.Var(A)
    assert (v == v).numpy().all() and not (v != v).numpy().any()
    np.testing.assert_array_equal((v == 1.0).numpy(), A == 1)
    with pytest.raises(ValueError, match="ambiguous"):
        bool(v > 0)
    assert bool(hg.Var(np.float32(2)) > 1.0) and not bool(hg.Var(np.float32(2)) > 3.0)
    assert float(hg.Var(np.float32(2)) * 3) == 6.0 and len(v) == 8
    assert len({v, v}) == 1
    with pytest.raises(TypeError):
        len(hg.Var(np.float32(2)))


def test_exceptions_in_callbacks_end_the_training():
    rng = np.random.default_rng(0)
    g = hg.Graph()
    g.output("y", hg.ops.linear(g.input("x", ("n", 4)), g.parameter("w", rng.standard_normal((2, 4)).astype(np.float32))))
    trainer = hg.Trainer(g.model(), loss="mse")
    x, y = np.ones((8, 4), np.float32), np.ones((8, 2), np.float32)

    def fails(event):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        trainer.fit(x, y, epochs=3, callbacks=fails)
    assert trainer.fit(x, y, epochs=3)[-1].loss < 10


def test_ten_thousand_calls_leak_nothing():
    model, kernel, executor = pointwise(), hg.kernel("k", "x*x + 1"), hg.Executor("cpu")
    out = np.empty_like(A)

    def calls(n):
        for _ in range(n):
            model(A, A)
            model(A, b=A, out=out)
            kernel(A)
            executor.add(A, A)
        gc.collect()
        return sys.getrefcount(A), len(gc.get_objects()), resident()

    calls(500)
    references, objects, before = calls(500)
    later_references, later_objects, after = calls(9500)
    assert later_references == references
    assert later_objects <= objects + 20
    assert after - before < 8 << 20


def resident():
    with open("/proc/self/statm", encoding="utf-8") as file:
        return int(file.read().split()[1]) * 4096


def test_failed_calls_leak_nothing():
    model = pointwise()
    bad = np.zeros(3, np.float64)
    count = sys.getrefcount(bad)
    for _ in range(200):
        with pytest.raises(ValueError):
            model(bad, bad)
        with pytest.raises(TypeError):
            model(bad, c=bad)
    assert sys.getrefcount(bad) == count


def test_the_memory_of_a_call_may_go_at_once():
    """What the last call lent is not read by the next one."""
    model = pointwise()
    session = model.session(threads=1)
    for size in (4, 3000):
        session(np.ones(size, np.float32), np.ones(size, np.float32), out=np.empty(size, np.float32))
        gc.collect()
        a = np.full(size, 2, np.float32)
        np.testing.assert_array_equal(session(a, a), np.full(size, 8))


def test_threads_with_arrays_of_their_own():
    model = pointwise()
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(300):
            a = rng.standard_normal(int(rng.choice([1, 7, 2000]))).astype(np.float32)
            if not np.array_equal(model(a, a), want(a)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


# -- Round trips ----------------------------------------------------------------------------------


def bits(dtype):
    """Every pattern of up to 16 bits, or random ones."""
    if dtype == "bool":
        return np.array([False, True])
    size = np.dtype(dtype).itemsize
    if size <= 2:
        return np.arange(1 << (8 * size)).astype(f"u{size}").view(dtype)
    return np.random.default_rng(5).integers(0, 256, 4096 * size, dtype=np.uint8).view(dtype)


ALL = ["float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64", "complex128"]


@pytest.mark.parametrize("dtype", ALL)
def test_round_trips_keep_every_bit(dtype):
    x = bits(dtype)
    for back in (hg.to_numpy(hg.from_numpy(x)), hg.from_numpy(x).numpy(), hg.to_numpy(x)):
        assert back.dtype == x.dtype and back.tobytes() == x.tobytes()
    assert hg.to_numpy(x).__array_interface__["data"] == x.__array_interface__["data"]
    for view in (x[::2], x[::-1], x[: x.size // 2 * 2].reshape(2, -1).T, x[:0], x[:1].reshape(())):
        assert hg.to_numpy(hg.from_numpy(view)).tobytes() == view.tobytes()


@pytest.mark.parametrize("dtype", [*ALL, "bfloat16"])
def test_round_trips_of_torch_keep_every_bit(dtype):
    torch = pytest.importorskip("torch")
    if dtype == "bfloat16":
        x = torch.arange(1 << 16).to(torch.int32).to(torch.uint16).view(torch.bfloat16)
    else:
        x = torch.from_numpy(bits(dtype).copy())
    raw = x.view(torch.uint8) if x.dtype != torch.bool else x
    for back in (hg.to_torch(hg.from_torch(x)), hg.from_torch(x).torch(), hg.to_torch(hg.to_numpy(x)) if dtype != "bfloat16" else x):
        assert back.dtype == x.dtype
        assert torch.equal(back.view(torch.uint8) if x.dtype != torch.bool else back, raw)
    if dtype == "bfloat16":
        again = hg.to_torch(hg.to_numpy(x))
        assert again.dtype == torch.bfloat16 and torch.equal(again.view(torch.int16), x.view(torch.int16))
    assert hg.to_torch(hg.from_torch(x)).data_ptr() == x.data_ptr()


# -- torch's ----------------------------------------------------------------------------------------


def test_torchs_views_and_modes():
    torch = pytest.importorskip("torch")
    model = pointwise()
    x = torch.arange(-3.0, 5.0)

    def expected(z):
        return torch.relu(z + z) * z

    c = torch.tensor([1 + 2j, 3 - 4j])
    for given in (x[::2], x[:1].expand(4), c.imag, c.conj().imag, torch._neg_view(x), x[:0], torch.nn.Parameter(x, requires_grad=False)):
        torch.testing.assert_close(model(given, given), expected(given.detach()), rtol=0, atol=0)
    with torch.inference_mode():
        torch.testing.assert_close(model(x * 2, x * 2), expected(x * 2), rtol=0, atol=0)
    leaf = x.clone().requires_grad_()
    with torch.no_grad():
        torch.testing.assert_close(model(leaf, leaf), expected(x), rtol=0, atol=0)
    with pytest.raises(ValueError, match="requires a gradient"):
        model(leaf, x)
    for given in (x.to("meta"), x.to_sparse()):
        with pytest.raises(ValueError, match="^a cannot be read: [^\n]*$"):
            model(given, x)
    with pytest.raises(ValueError):
        torch.func.vmap(lambda z: model(z, z))(x.reshape(2, 4))
    torch.testing.assert_close(model(x, x), expected(x), rtol=0, atol=0)
