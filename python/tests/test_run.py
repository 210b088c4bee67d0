# SPDX-License-Identifier: Apache-2.0
"""Loading and calling models, with numpy alone."""

import array
import ast
import gc
import io
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from conftest import mlp, mlp_numpy, pointwise

import hologram as hg
from hologram import _core


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


def test_inputs_are_borrowed():
    # The address that the library sees is the array's.
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for view in (x, x[1:], x.T, x[:, ::2], x[::-1]):
        dtype, shape, strides, address = _core.describe(view)
        assert address == view.__array_interface__["data"][0]
        assert shape == view.shape
        assert strides == tuple(s // 4 for s in view.strides)
    # And nothing writes to it, nor keeps it.
    import sys

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
    with pytest.raises(ValueError, match="element type"):
        pointwise()(big, big)


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
        pointwise("int64")([1.5], [2])  # would lose the half


class Exporter:
    """Nothing but DLPack."""

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


@pytest.mark.parametrize("size", [1, 64, 1024, 1025, 5000])  # around where outputs are lent, not copied
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
    """What one call lends to the session is no place of the next one's result."""
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
    """Sizes that come and go, strides, in and out of order: the same as numpy each time."""
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


def test_sessions(small, rng):
    model, weights = small
    x = rng.standard_normal((4, 8)).astype(np.float32)
    want = model(x)
    for options in (
        {"threads": 1},
        {"threads": 2, "device": "cpu"},
        {"memory_limit": "64M"},
        {"memory_limit": 1 << 26, "precision": "float32"},
        {"low_memory": True},
        {"dims": {"n": 4}},
        {"device": "auto"},
        {"checkpoint": "sqrt", "seed": 3, "most_rounds": 10},
    ):
        np.testing.assert_allclose(model.session(**options)(x), want, rtol=1e-5, atol=1e-6)
    rough = model.session(precision="bfloat16")(x)
    np.testing.assert_allclose(rough, want, rtol=0.05, atol=0.05)


@pytest.mark.parametrize(
    "options",
    [{"autotune": True}, {"disabled_passes": ["*"]}, {"kernels": ["linear=loops"]}, {"lazy_allocation": True}, {"first_run": 5},
     {"keep_all_values": True}, {"profile": True}, {"tuning": b""}, {"gpu_name": ""}, {"memory_limit": "1G", "low_memory": True}],
    ids=lambda options: next(iter(options)),
)  # fmt: skip
def test_further_options_change_no_result(options, small, rng):
    model, _ = small
    x = rng.standard_normal((4, 8)).astype(np.float32)
    np.testing.assert_allclose(model.session(**options)(x), model(x), rtol=1e-5, atol=1e-6)


def test_seeds_decide_what_is_drawn():
    g = hg.Graph()
    g.output("y", hg.ops.dropout(g.input("x", ("n",)), 0.5, training=True))
    model, x = g.model(), np.ones(200, np.float32)

    def runs(**options):
        session = model.session(**options)
        return [session(x).tolist() for _ in range(3)]

    first = runs(seed=3)
    assert first == runs(seed=3) and first[0] != first[1]
    assert first != runs(seed=4)
    assert runs(seed=3, first_run=1)[:2] == first[1:]


def test_memory(small):
    model, _ = small
    memory = model.memory(n=64)
    assert memory.peak_bytes >= memory.arena_bytes >= memory.arena_lower_bound > 0
    assert memory.weights_bytes > 0
    assert model.memory(n=640).arena_bytes > memory.arena_bytes
    model(np.zeros((2, 8), np.float32))
    assert model.memory().arena_bytes < memory.arena_bytes
    assert model.flops(n=1) > 0
    assert "<svg" in model.memory_svg(n=4)


def test_profile(small):
    model, _ = small
    profile = model.profile(np.zeros((4, 8), np.float32))
    assert len(profile) > 0 and profile.total_ms > 0
    assert {row.op for row in profile} & {"linear", "matmul"}
    assert "linear" in str(profile) and "total" in str(profile)
    assert profile._repr_html_().startswith("<table>")
    assert len(model.profile(n=3)) == len(model.profile()) > 0
    with pytest.raises(ValueError, match="profile=True"):
        model.session().profile()


def test_graph(small):
    model, _ = small
    text = str(model.graph)
    assert "linear" in text and "relu" in text and "0.weight" in text
    assert model.graph.ops == ["linear", "relu", "linear"]
    assert model.graph._repr_svg_().lstrip().startswith("<")
    assert "svg" in model.graph._repr_svg_()[:200]
    assert model.inputs == [("x", "float32", ("n", 8))]
    assert model.outputs == [("y", "float32", ("n", 3))]
    assert model.inputs[0].name == "x"
    assert "x: float32[n, 8]" in repr(model)
    assert set(model.parameters()) == {"0.weight", "0.bias", "1.weight", "1.bias"}
    with pytest.raises(ValueError):
        model.parameters()["0.weight"][...] = 0


def test_devices():
    devices = hg.devices()
    assert devices[0].kind == "cpu"
    assert all(each.kind == "vulkan" for each in devices[1:])


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


def test_sizes_are_planned_once():
    """The model's own session keeps what it planned, for threads in turn, too: the shape rule of an op tells."""
    asked = []
    function = hg.register_op("asked(x) -> y", lambda x: x + 1, shape=lambda x: asked.append(x.shape) or x.shape)
    graph = hg.Graph()
    graph.output("y", function(graph.input("x", ("n",))))
    model = graph.model()

    def call(n):
        np.testing.assert_array_equal(model(np.ones(n, np.float32)), np.full(n, 2))

    def asked_for(n):
        before = len(asked)
        thread = threading.Thread(target=call, args=(n,))
        thread.start()
        thread.join()
        call(n)
        return len(asked) - before

    assert asked_for(3) > 0 and asked_for(5) > 0
    assert [asked_for(n) for n in (3, 5, 3)] == [0, 0, 0]


def test_torch_is_not_needed():
    program = """
import sys
sys.modules["torch"] = None
import numpy as np
import hologram as hg
graph = hg.Graph()
graph.output("y", hg.ops.relu(graph.input("x", ("n",))))
assert graph.model()(np.array([-1, 2], np.float32)).tolist() == [0, 2]
assert hg.kernel("k", "x * 2")(np.ones(2)).tolist() == [2, 2]
assert (hg.Var(np.ones(2)) + 1).numpy().tolist() == [2, 2]
assert not [name for name in sys.modules if name.startswith(("torch.", "pandas", "scipy", "onnx"))]
for name in ("nn", "torch"):
    try:
        getattr(hg, name)
    except ImportError as error:
        assert "torch" in str(error), error
    else:
        raise AssertionError(name)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_there_are_types():
    folder = pathlib.Path(hg.__file__).parent
    assert (folder / "py.typed").exists()
    stubs = ast.parse((folder / "_core.pyi").read_text(encoding="utf-8"))
    names = {node.name for node in stubs.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    assert {"ModelBase", "Session", "ExecutorBase", "KernelBase", "Var"} <= names


# -- Threads, the GIL and Ctrl-C ------------------------------------------------------------------


def test_many_threads(small, rng):
    model, weights = small
    data = [rng.standard_normal((n, 8)).astype(np.float32) for n in range(1, 9)]
    want = [model(x) for x in data]
    failures = []

    def work(seed):
        order = np.random.default_rng(seed).integers(0, 8, 200)
        for i in order:
            if not np.array_equal(model(data[i]), want[i]):
                failures.append(i)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def heavy():
    """Some seconds of work."""
    g = hg.Graph()
    x = g.input("x", ("n", "n"))
    y = x
    for _ in range(200):
        y = hg.ops.matmul(y, x)
    g.output("y", y)
    return g.model()


def test_the_gil_is_released():
    session = heavy().session(threads=1)
    x = np.zeros((400, 400), np.float32)
    session(x)
    ticks, done = [0], threading.Event()

    def tick():
        while not done.is_set():
            ticks[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    before = ticks[0]
    session(x)
    during = ticks[0] - before
    done.set()
    thread.join()
    assert during > 3


def test_ctrl_c_stops_a_run():
    session = heavy().session(threads=1)
    x = np.zeros((1500, 1500), np.float32)
    timer = threading.Timer(0.3, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        session(x)
    timer.join()
    handler = signal.getsignal(signal.SIGINT)
    assert handler is signal.default_int_handler
    small = np.zeros((4, 4), np.float32)
    np.testing.assert_array_equal(session(small), small)


def test_a_forked_child_runs():
    model, weights = mlp(np.random.default_rng(1), (64, 512, 64))
    x = np.ones((256, 64), np.float32)
    want = model.session(threads=2)(x)
    session = model.session(threads=2)
    session(x)
    child = os.fork()
    if child == 0:
        ok = np.array_equal(session(x), want) and np.array_equal(model(x), want)
        os._exit(0 if ok else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_every_name_is_there():
    for name in hg.__all__ if hasattr(hg, "__all__") else []:
        assert getattr(hg, name) is not None
    assert re.match(r"\d+\.\d+\.\d+$", hg.__version__)


def test_a_session_that_cannot_be_fails_at_once(small):
    model, _ = small
    with pytest.raises(ValueError, match="threads is -1; it must not be negative"):
        model.session(threads=-1)
    with pytest.raises(ValueError, match="no_such"):
        model.session(kernels=["linear=no_such"])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (2, 3, 4)])
def test_arrays_export_dlpack(dtype, shape, rng):
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
    del capsule  # nobody took it
    kept = np.from_dlpack(hg.from_numpy(np.arange(100000.0)))
    gc.collect()
    np.testing.assert_array_equal(kept, np.arange(100000.0))
    fixed = np.arange(4.0)
    fixed.setflags(write=False)
    assert not np.from_dlpack(hg.from_numpy(fixed)).flags.writeable
    with pytest.raises(BufferError, match="CPU alone"):
        hg.from_numpy(fixed).__dlpack__(dl_device=(2, 0))
    array = hg.from_numpy(np.arange(3.0))
    array.free()
    with pytest.raises(ValueError):
        array.__dlpack__()
