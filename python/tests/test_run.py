# SPDX-License-Identifier: Apache-2.0
"""Loading and calling models, with numpy alone."""

import io
import pickle
import sys

import numpy as np
import pytest
from conftest import mlp_numpy, pointwise

import hologram as hg


def test_a_model_answers_as_numpy(small, rng, tmp_path):
    model, weights = small
    model.save(tmp_path / "m.hgm")
    loaded = hg.load(tmp_path / "m.hgm")
    for n in (1, 5, 0, 17, 5):
        x = rng.standard_normal((n, 8)).astype(np.float32)
        y = loaded(x)
        assert y.dtype == np.float32 and y.shape == (n, 3)
        np.testing.assert_allclose(y, mlp_numpy(weights, x), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(y, model(x))


def test_sources(small, tmp_path):
    model, _ = small
    path = tmp_path / "m.hgm"
    model.save(str(path))
    x = np.ones((2, 8), np.float32)
    want = model(x)
    data = path.read_bytes()
    assert data == model.serialize()
    for source in (path, str(path), data, bytearray(data), memoryview(data), io.BytesIO(data)):
        np.testing.assert_array_equal(hg.load(source)(x), want)
    np.testing.assert_array_equal(hg.load(path, verify_weights=True)(x), want)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model))(x), want)


def test_errors_are_pythons(small, tmp_path):
    model, _ = small
    with pytest.raises(FileNotFoundError, match="none.hgm"):
        hg.load(tmp_path / "none.hgm")
    bad = tmp_path / "bad.hgm"
    bad.write_bytes(model.serialize()[:200])
    with pytest.raises(hg.CorruptModelError):
        hg.load(bad)
    with pytest.raises(ValueError):  # the same one
        hg.load(bad)
    with pytest.raises(ValueError, match=r"\[2, 7\].*8|8.*\[2, 7\]"):
        model(np.zeros((2, 7), np.float32))
    with pytest.raises(ValueError, match="f64|float64"):
        model(np.zeros((2, 8)))
    with pytest.raises(TypeError, match="1 inputs"):
        model()
    with pytest.raises(TypeError, match="'z'"):
        model(z=np.zeros((2, 8), np.float32))
    with pytest.raises(TypeError, match="no tensor|not a tensor"):
        model(object())
    with pytest.raises(ValueError, match="complex256|float128|element type"):
        model(np.zeros((2, 8), np.longdouble))
    with pytest.raises(MemoryError, match=r"\d"):
        model.session(memory_limit=64)(np.zeros((2, 8), np.float32))
    with pytest.raises(TypeError, match="sped"):
        model.session(sped=1)
    with pytest.raises(ValueError, match="device"):
        model.session(device="tpu")
    np.testing.assert_array_equal(model(np.zeros((2, 8), np.float32)).shape, (2, 3))  # still works


def test_by_name_and_nested(rng):
    model = pointwise()
    a, b = rng.standard_normal((2, 5)).astype(np.float32)
    want = model(a, b)
    for got in (model(a=a, b=b), model(b=b, a=a), model(a, b=b)):
        np.testing.assert_array_equal(got, want)
    for nested in ((a, b), [a, b], {"p": a, "q": [b]}):
        np.testing.assert_array_equal(model(nested), want)
    np.testing.assert_array_equal(model(b=b, **{"a": a}), want)
    with pytest.raises(TypeError):
        model(a, b, a)
    with pytest.raises(TypeError):
        model(a, a=a)


def several():
    g = hg.Graph()
    x = g.input("x", ("n", 3))
    g.output("double", x + x)
    g.output("sum", hg.ops.sum(x, [1]))
    return g.model()


def test_several_outputs_and_out():
    model = several()
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    double, total = model(x)
    np.testing.assert_array_equal(double, 2 * x)
    np.testing.assert_array_equal(total, x.sum(1))
    for _ in range(3):
        out = [np.empty((2, 3), np.float32), np.empty(2, np.float32)]
        assert model(x, out=out) is out
        np.testing.assert_array_equal(out[0], double)
        np.testing.assert_array_equal(out[1], total)
    wide = np.zeros((2, 6), np.float32)
    model(x, out=[wide[:, ::2], None])
    np.testing.assert_array_equal(wide[:, ::2], double)
    np.testing.assert_array_equal(wide[:, 1::2], 0)
    with pytest.raises(ValueError, match="shape|\\[2, 4\\]|2, 3"):
        model(x, out=[np.empty((2, 4), np.float32), None])
    with pytest.raises(ValueError, match="2 outputs|outputs"):
        model(x, out=np.empty((2, 3), np.float32))
    locked = np.empty((2, 3), np.float32)
    locked.flags.writeable = False
    with pytest.raises(ValueError, match="read only"):
        model(x, out=[locked, None])
    np.testing.assert_array_equal(model(x)[0], double)


def test_out_may_be_an_input():
    model = pointwise()
    a = np.array([1, -2, 3], np.float32)
    for _ in range(3):
        b = a.copy()
        model(b, b, out=b)
        np.testing.assert_array_equal(b, [2, 0, 18])


@pytest.mark.parametrize("size", [1, 64, 1024, 1025, 5000])  # around the size from which outputs are lent, not copied
def test_outputs_are_owned(size):
    model = pointwise()
    kept = []
    for i in range(20):
        a = np.full(size, i, np.float32)
        kept.append(model(a, a))
    for i, y in enumerate(kept):
        np.testing.assert_array_equal(y, np.full(size, 2.0 * i * i))
    y = kept[3]
    del kept, model
    y += 1  # writable
    np.testing.assert_array_equal(y, np.full(size, 19.0))


def test_sizes_and_out_take_turns():
    """Memory that one call lends to the session does not receive the next call's result."""
    model = pointwise()
    out = np.zeros(2000, np.float32)
    rng = np.random.default_rng(3)
    kept = []
    for _ in range(300):
        a = rng.standard_normal(int(rng.choice([3, 2000]))).astype(np.float32)
        want = np.maximum(a + a, 0) * a
        if rng.integers(3) == 0:
            got = model(a, b=a, out=out[: a.size])
            np.testing.assert_array_equal(got, want)
        else:
            kept.append((model(a, a) if rng.integers(2) else model(b=a, a=a), want))
    for got, want in kept:
        np.testing.assert_array_equal(got, want)


def test_random_calls_equal_numpy(rng):
    """Changing sizes and strides, in any order: the same as numpy each time."""
    model = pointwise(shape=("n", "m"))
    for _ in range(400):
        n, m = rng.integers(0, 9, 2)
        a, b = (rng.standard_normal((int(n) * 2, int(m) * 2)).astype(np.float32)[::2, ::2] for _ in "ab")
        want = np.maximum(a + b, 0) * a
        if rng.integers(2):
            out = np.full((int(n), int(m) + 1), np.nan, np.float32)[:, :-1]
            model(a, b, out=out)
            np.testing.assert_array_equal(out, want)
        else:
            np.testing.assert_array_equal(model(b=b, a=a), want)


def test_data_decides_a_shape():
    g = hg.Graph()
    x = g.input("x", ("n",))
    g.output("where", hg.ops.nonzero(x))
    model = g.model()
    for values in ([0, 1, 0, 2], [0, 0], [3], [1, 1, 1, 1], []):
        values = np.array(values, np.float32)
        np.testing.assert_array_equal(model(values), np.argwhere(values))


def test_library(tmp_path, rng):
    square = hg.Graph()
    x = square.input("x", ("n",))
    square.output("y", x * x)
    hg.save_library({"square": square.model(), "pair": pointwise()}, tmp_path / "f.hgm")
    library = hg.load(tmp_path / "f.hgm")
    a = rng.standard_normal(5).astype(np.float32)
    np.testing.assert_array_equal(library.square(a), a * a)
    np.testing.assert_array_equal(library["pair"](a, a), np.maximum(a + a, 0) * a)
    assert library.functions() == ["square", "pair"]
    np.testing.assert_array_equal(library.session("square", threads=1)(a), a * a)
    read = hg.load((tmp_path / "f.hgm").read_bytes())
    assert read.functions() == ["square", "pair"]
    np.testing.assert_array_equal(hg.load(tmp_path / "f.hgm", verify_weights=True).square(a), a * a)
    with pytest.raises(hg.NotFoundError, match="there are square, pair"):
        library.session("cube")
    with pytest.raises(AttributeError, match="square"):
        library.cube
    with pytest.raises((KeyError, LookupError)):
        library["cube"]


def test_functions_take_what_models_take(tmp_path):
    scaled = hg.Graph()
    x, w = scaled.input("x", ("n", 3)), scaled.parameter("w", np.arange(3, dtype=np.float32))
    scaled.output("double", x + x)
    scaled.output("scaled", x * w)
    hg.save_library({"scaled": scaled.model()}, tmp_path / "functions.hgm")
    library = pickle.loads(pickle.dumps(hg.load((tmp_path / "functions.hgm").read_bytes())))
    a = np.arange(12, dtype=np.float32).reshape(4, 3)[::2]
    out = [np.empty((2, 3), np.float32) for _ in range(2)]
    for double, scaled in (library.scaled(a), library.scaled(x=a), library.scaled(a, out=out)):
        np.testing.assert_array_equal(double, 2 * a)
        np.testing.assert_array_equal(scaled, a * np.arange(3))
    with pytest.raises(ValueError, match=r"\[2, 4\].*3"):
        library.scaled(np.zeros((2, 4), np.float32))
    torch = sys.modules.get("torch")
    if torch is not None:
        double, scaled = library.scaled(torch.from_numpy(a.copy()))
        assert isinstance(double, torch.Tensor) and torch.equal(scaled, torch.from_numpy(a * np.arange(3, dtype=np.float32)))


def test_a_library_takes_models_only(tmp_path):
    with pytest.raises(TypeError, match="'k' is a Kernel; add it to a hg.Graph and give graph.model()"):
        hg.save_library({"k": hg.kernel("k", "x*x")}, tmp_path / "k.hgm")
    with pytest.raises(TypeError, match="'k' is a int"):
        hg.save_library({"k": 3}, tmp_path / "k.hgm")
    assert not (tmp_path / "k.hgm").exists()
    with pytest.raises(TypeError, match=r"takes no PosixPath: hg.load\(path\) reads a file"):
        hg.Library(tmp_path / "k.hgm")
