# SPDX-License-Identifier: Apache-2.0
"""Inputs of calls: arrays of any strides and dtype, through numpy, the buffer protocol and DLPack."""

import array
import gc
import sys

import numpy as np
import pytest
from conftest import pointwise

import hologram as hg
from hologram import _core

# Older versions import neither bools nor read-only arrays.
EXCHANGES_ALL = np.lib.NumpyVersion(np.__version__) >= "2.1.0"


def test_inputs_are_borrowed():
    # The library reads the array at its own address.
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for view in (x, x[1:], x.T, x[:, ::2], x[::-1]):
        dtype, shape, strides, address = _core.describe(view)
        assert address == view.__array_interface__["data"][0]
        assert shape == view.shape
        assert strides == tuple(s // 4 for s in view.strides)
    # Nothing writes to the array or keeps it.
    model = pointwise()
    a = np.arange(-4, 4, dtype=np.float32)
    before, count = a.copy(), sys.getrefcount(a)
    for _ in range(10):
        model(a, a)
    np.testing.assert_array_equal(a, before)
    assert sys.getrefcount(a) == count


def test_read_only_inputs():
    a = np.ones(4, np.float32)
    a.flags.writeable = False
    np.testing.assert_array_equal(pointwise()(a, a), [2, 2, 2, 2])


def test_strided_inputs(rng):
    model = pointwise(shape=("n", "m"))
    base = rng.standard_normal((6, 10)).astype(np.float32)
    for view in (base[::2], base[:, 1:7:3], base.T, base[::-1, ::-1], np.broadcast_to(base[0], (3, 10)), base[:0]):
        np.testing.assert_array_equal(model(view, view), np.maximum(view + view, 0) * view)


def test_unaligned_inputs():
    raw = np.zeros(4 * 4 + 1, np.uint8)
    odd = raw[1:].view(np.float32)
    odd[:] = [1, -2, 3, 4]
    np.testing.assert_array_equal(pointwise()(odd, odd), [2, 0, 18, 32])
    record = np.zeros(3, np.dtype([("a", "u1"), ("x", "<f4")]))
    record["x"] = [1, 2, 3]
    np.testing.assert_array_equal(pointwise()(record["x"], record["x"]), [2, 8, 18])
    big = np.arange(3, dtype=">f4")
    with pytest.raises(ValueError, match="big-endian .>f4.; pass x.astype"):
        pointwise()(big, big)
    big = big.astype(big.dtype.newbyteorder("="))
    np.testing.assert_array_equal(pointwise()(big, big), [0, 2, 8])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int32", "int16", "int8"])
def test_dtypes(dtype):
    a = np.array([1, -2, 3, 0], dtype)
    y = pointwise(dtype)(a, a)
    assert y.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(y, np.maximum(a + a, 0) * a)


@pytest.mark.parametrize("dtype", ["uint8", "bool"])
def test_movement_dtypes(dtype):
    g = hg.Graph()
    g.output("y", hg.ops.permute(g.input("x", ("n", 2), dtype), [1, 0]))
    x = np.array([[0, 1], [1, 1]], dtype)
    y = g.model()(x)
    assert y.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(y, x.T)


def test_buffer_protocol():
    model = pointwise()
    floats = array.array("f", [1, -2, 3])
    np.testing.assert_array_equal(model(floats, memoryview(floats)), [2, 0, 18])
    np.testing.assert_array_equal(model([1, -2, 3], [1.0, -2.0, 3.0]), [2, 0, 18])
    with pytest.raises((TypeError, ValueError)):
        pointwise("int64")([1.5], [2])  # would lose the fraction


class Exporter:
    """A tensor that supports only DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **kwargs):
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


ODD = {
    "0 dims": np.array(-2, np.float32), "nothing": np.zeros((0, 3), np.float32), "one": np.full((1, 1), -2, np.float32),
    "backwards": np.arange(6, dtype=np.float32)[::-1], "every second": np.arange(6, dtype=np.float32)[::2],
    "turned": np.arange(6, dtype=np.float32).reshape(2, 3).T, "repeated": np.broadcast_to(np.float32(3), (4, 2)),
    "of Fortran": np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)), "a diagonal": np.arange(9, dtype=np.float32).reshape(3, 3).diagonal(),
}  # fmt: skip


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("way", ["numpy", "read only", "buffer", "dlpack", "torch", "hologram"])
def test_odd_arrays_by_every_protocol(kind, way):
    a = ODD[kind].copy(order="K") if kind in ("0 dims", "nothing", "one") else ODD[kind]
    if way == "read only":
        a = a.view()
        a.flags.writeable = False
    given = a
    if way == "buffer":
        given = memoryview(a)
    elif way == "dlpack":
        given = Exporter(a if a.flags.writeable else a.copy())
    elif way == "torch":
        given = pytest.importorskip("torch").from_numpy(a.copy())
    elif way == "hologram":
        given = hg.from_numpy(a)
    model = pointwise(shape=("n", "m")[: a.ndim])
    want, before = np.maximum(a + a, 0) * a, a.copy()
    for got in (model(given, given), model(given, b=given), model.session(threads=1)(b=given, a=given)):
        np.testing.assert_array_equal(np.asarray(got), want)
        assert tuple(got.shape) == a.shape
    np.testing.assert_array_equal(a, before)
    np.testing.assert_array_equal(np.asarray(hg.ops.add(given, given)), a + a)
    np.testing.assert_array_equal(hg.to_numpy(hg.kernel("k", "x*x")(given)), a * a)


def test_dlpack():
    a = np.array([1, -2, 3], np.float32)
    assert _core.describe(Exporter(a))[3] == a.__array_interface__["data"][0]
    np.testing.assert_array_equal(pointwise()(Exporter(a), a), [2, 0, 18])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (2, 3, 4)])
def test_arrays_export_dlpack(dtype, shape, rng):
    if dtype == "bool" and not EXCHANGES_ALL:
        pytest.skip("this numpy imports no bools")
    given = np.asarray(rng.standard_normal(shape) * 3).astype(dtype)
    for view in (given, given.T, given[..., ::2] if shape else given):
        array = hg.from_numpy(view)
        assert array.__dlpack_device__() == (1, 0)
        got = np.from_dlpack(array)
        np.testing.assert_array_equal(got, view)
        assert got.dtype == view.dtype
        if view.size:
            assert got.__array_interface__["data"][0] == view.__array_interface__["data"][0]
    torch = sys.modules.get("torch")
    if torch is not None:
        got = torch.from_dlpack(hg.from_numpy(given))
        np.testing.assert_array_equal(got.numpy(), given)
        assert given.size == 0 or got.data_ptr() == given.__array_interface__["data"][0]


def test_dlpack_outlives_its_array():
    capsule = hg.from_numpy(np.arange(1000.0)).__dlpack__()
    del capsule  # nobody consumed it
    kept = np.from_dlpack(hg.from_numpy(np.arange(100000.0)))
    gc.collect()
    np.testing.assert_array_equal(kept, np.arange(100000.0))
    fixed = np.arange(4.0)
    fixed.setflags(write=False)
    if EXCHANGES_ALL:
        assert not np.from_dlpack(hg.from_numpy(fixed)).flags.writeable
    with pytest.raises(BufferError, match="CPU alone"):
        hg.from_numpy(fixed).__dlpack__(dl_device=(2, 0))
    array = hg.from_numpy(np.arange(3.0))
    array.free()
    with pytest.raises(ValueError):
        array.__dlpack__()
