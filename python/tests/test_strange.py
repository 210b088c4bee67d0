# SPDX-License-Identifier: Apache-2.0
"""Tensors and values that resemble others: each is recognized for what it is, or rejected with a sentence."""

import copy
import ctypes
import gc
import io
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
    """A call does not read memory that the previous call lent."""
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
    """Every bit pattern of up to 16 bits, or random patterns."""
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


# -- Structures, text and buffers -------------------------------------------------------------------


def difference():
    g = hg.Graph()
    g.output("y", g.input("a", ("n",)) - g.input("b", ("n",)) * 2.0)
    return g.model()


def test_dicts_give_inputs_by_name():
    model, b = difference(), np.ones_like(A)
    for given in ({"a": A, "b": b}, {"b": b, "a": A}, [{"b": b, "a": A}]):
        np.testing.assert_array_equal(model(given), A - 2)
    np.testing.assert_array_equal(model({"b": b}, a=A), A - 2)
    np.testing.assert_array_equal(model({"p": A, "q": b}), A - 2)  # no names of inputs: in order
    for given in ([{"b": b}, A], {"b": A, "c": b}, (A, {"a": b})):
        with pytest.raises(TypeError, match="at place"):
            model(*given) if isinstance(given, tuple) else model(given)
    with pytest.raises(TypeError, match="2 inputs"):
        model({"b": b})
    with pytest.raises(TypeError, match="given twice"):
        model({"a": A}, a=A)


def test_structures_that_do_not_end():
    model = difference()
    itself, one, other, deep = [], [], [], A
    itself.append(itself)
    one.append(other), other.append(one)
    for _ in range(100_000):
        deep = [deep]
    for given in (itself, one, {"x": itself}, deep):
        with pytest.raises((RecursionError, TypeError)):
            model(given, A)
    while isinstance(deep, list):  # flattened here, because of Python's recursion limit
        deep = deep.pop()


def test_arrays_of_ctypes():
    numbers = (ctypes.c_float * 8)(*A)
    np.testing.assert_array_equal(pointwise()(numbers, numbers), want(A))
    np.testing.assert_array_equal(hg.ops.relu(numbers), np.maximum(A, 0))
    out = (ctypes.c_float * 8)()
    pointwise()(A, A, out=out)
    np.testing.assert_array_equal(out, want(A))
    square = ((ctypes.c_int * 3) * 2)((1, 2, 3), (4, 5, 6))
    np.testing.assert_array_equal(hg.ops.permute(square, [1, 0]), [[1, 4], [2, 5], [3, 6]])


def test_an_object_that_is_neither_true_nor_false():
    class Neither:
        def __bool__(self):
            raise ZeroDivisionError("neither")

    with pytest.raises(ZeroDivisionError):
        hg.ops.sum(A, [0], Neither())
    with pytest.raises(ZeroDivisionError):
        pointwise().session(profile=Neither())


@pytest.mark.parametrize(
    "call, error, sentence",
    [
        (lambda: hg.ops.rand([1 << 64]), ValueError, "18446744073709551616 does not fit"),
        (lambda: hg.ops.rand([1.5]), TypeError, "1.5|float"),
        (lambda: hg.named.LayerNorm([1.5]), TypeError, "float"),
        (lambda: hg.Graph().input("x", (1.5,)), TypeError, "float"),
        (lambda: hg.Graph().input("x", (1 << 70,)), ValueError, "does not fit"),
        (lambda: pointwise().session(memory_limit=1.5), TypeError, "float"),
        (lambda: pointwise()(**{"\ud800": A}), TypeError, r"no input '\\ud800'"),
        (lambda: pointwise().save("/tmp/\udcff.hgm"), ValueError, "not UTF-8"),
        (lambda: hg.load("\udcff.hgm"), ValueError, "not UTF-8"),
        (lambda: hg.load(io.StringIO("m.hgm")), TypeError, "'rb'"),
        (lambda: pointwise()(Newer(), A), ValueError, "DLPack 2"),
    ],
)
def test_what_is_refused_with_a_sentence(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()


class Newer:
    """A future version of DLPack, whose structures are unknown."""

    def __dlpack__(self, **options):
        fields = (ctypes.c_uint64 * 16)()
        ctypes.cast(fields, ctypes.POINTER(ctypes.c_uint32))[0] = 2
        self.fields = fields
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(fields), b"dltensor_versioned", None)

    def __dlpack_device__(self):
        return (1, 0)
