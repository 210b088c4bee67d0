# SPDX-License-Identifier: Apache-2.0
"""Devices with and without Vulkan, tensor utilities, custom ops in unusual places."""

import gc
import os
import re
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from test_ops import a_device
from test_strange import resident

import hologram as hg

DTYPES = ["float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"]


@pytest.fixture
def device():
    executor = a_device()
    if executor is None:
        pytest.skip("there is no Vulkan device")
    with executor:
        yield executor


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0, 2), (5, 7)])
def test_through_a_device_and_back_bit_by_bit(device, dtype, shape, rng):
    size = np.dtype(dtype).itemsize * int(np.prod(shape))
    given = rng.integers(0, 2 if dtype == "bool" else 256, size).astype(np.uint8).view(dtype).reshape(shape)
    for view in (given, given.T):
        got = hg.to_vulkan(view)
        assert got.shape == view.shape and got.dtype == view.dtype
        assert got.numpy().tobytes() == view.tobytes()
        assert np.asarray(hg.from_vulkan(got)).tobytes() == view.tobytes()
        assert got.cpu().is_on_host


def test_lists_keep_their_type_and_go_in_one_submission(device, rng):
    arrays = [rng.standard_normal(n).astype(t) for n, t in ((4, "float32"), (3, "float64"), (2, "int64"), (0, "float32"))]
    for kind in (list, tuple):
        before = device.counters()
        made = hg.to_vulkan(kind(arrays))
        after = device.counters()
        assert type(made) is kind and type(hg.from_vulkan(made)) is kind
        assert after["submits"] - before["submits"] <= 1
        assert [m.dtype for m in made] == ["float32", "float32", "int64", "float32"]
        for m, a in zip(made, arrays):
            np.testing.assert_array_equal(m.numpy(), a.astype(m.dtype))
    assert hg.to_vulkan([]) == [] and hg.to_vulkan(()) == ()
    assert [str(hg.to_vulkan(x).dtype) for x in (1.5, np.float64(1.5), np.zeros(2), 3)] == ["float32"] * 3 + ["int64"]
    kept = hg.to_vulkan(arrays[0], keep_on_gpu=False)
    assert isinstance(kept, hg.VulkanTensor) and not kept.is_on_device


def test_ten_thousand_tensors_of_a_device_leak_nothing(device):
    a = np.ones(256, "float32")

    def calls(n):
        for _ in range(n):
            np.from_dlpack(hg.from_numpy(a))
        for _ in range(n // 20):
            device.relu(hg.to_vulkan(a)).numpy()
        gc.collect()
        return sys.getrefcount(a), resident()

    calls(1000)
    references, before = calls(1000)
    later, after = calls(8000)
    assert later == references and after - before < 8 << 20


def test_without_vulkan_all_goes_on():
    """Runs in a process that finds no driver."""
    program = """
import numpy as np, hologram as hg
a = np.arange(4.0, dtype="float32")
assert len(hg.devices()) == 1, hg.devices()
v = hg.to_vulkan([a, a])
assert type(v) is list and isinstance(v[0], hg.VulkanTensor) and not v[0].is_on_device
assert np.array_equal(v[0].numpy(), a) and np.array_equal(np.asarray(hg.from_vulkan(v[1])), a)
assert hg.to_vulkan(a.astype("float64")).dtype == np.float32
auto = hg.Executor("auto")
assert auto.backend == "cpu" and any("CPU" in note for note in auto.notes), auto.notes
assert np.array_equal(auto.relu(v[0]).numpy(), a)
assert hg.create_executor_for_tensor(v[0]).backend == "cpu"
try:
    hg.Executor("vulkan")
except hg.UnsupportedError as error:
    print("refused:", error)
"""
    environment = {**os.environ, "VK_ICD_FILENAMES": "/nowhere.json", "VK_DRIVER_FILES": "/nowhere.json"}
    environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("refused: ") and len(done.stdout) > 20


def test_match_device_and_validate(device, rng):
    a = rng.standard_normal(5).astype("float32")
    on = hg.to_vulkan(a)
    assert hg.match_device(a, on).is_on_device
    assert hg.match_device(on, on) is on
    np.testing.assert_array_equal(hg.match_device(on, a), a)
    assert hg.create_executor_for_tensor(a).backend == "cpu"
    for good in (a, a[::2], a[:0], np.float32(1), on, memoryview(a)):
        assert hg.validate_tensor_compatible(good)
    for bad in ("text", None, {"a": 1}, object()):
        with pytest.raises(TypeError):
            hg.validate_tensor_compatible(bad)
    for bad in (np.array([object()]), np.array(["a"]), np.zeros(2, "datetime64[s]")):
        with pytest.raises((TypeError, ValueError)):
            hg.validate_tensor_compatible(bad)


def test_match_device_of_torch():
    torch = pytest.importorskip("torch", "2.5")
    t = torch.arange(4.0)
    array = hg.from_torch(t)
    assert isinstance(hg.match_device(array, t), torch.Tensor)
    assert isinstance(hg.match_device(t, array), hg.VulkanTensor)
    assert isinstance(hg.match_device(t, np.zeros(1)), np.ndarray)
    assert hg.validate_tensor_compatible(t.requires_grad_())
    for bad in (torch.zeros(2, device="meta"), torch.zeros(2, 2).to_sparse()):
        with pytest.raises((TypeError, ValueError)):
            hg.validate_tensor_compatible(bad)


def test_from_vulkan_gives_what_is_asked_for():
    torch = pytest.importorskip("torch", "2.5")
    array = hg.from_numpy(np.arange(3, dtype=np.float32))
    assert type(hg.from_vulkan(array, device="numpy")) is np.ndarray
    for device in ("cpu", torch.device("cpu")):
        got = hg.from_vulkan(array, device=device)
        assert isinstance(got, torch.Tensor) and got.tolist() == [0, 1, 2] and got.device.type == "cpu"
    assert hg.from_vulkan(array, device="meta").device.type == "meta"
    with pytest.raises(TypeError, match="Tensor"):
        hg.from_vulkan(torch.ones(2))


def test_ops_of_ones_own_on_a_device(device, rng):
    x = rng.standard_normal((3, 5)).astype("float32")
    text = hg.register_op("device_text(x) -> y", "x * x + sin(x)")
    function = hg.register_op("device_function(x) -> y", lambda x: np.cumsum(x, 1))
    np.testing.assert_allclose(text(hg.to_vulkan(x)).numpy(), x * x + np.sin(x), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(function(device.relu(hg.to_vulkan(x))).numpy(), np.cumsum(np.maximum(x, 0), 1), rtol=1e-5, atol=1e-6)


def test_ten_thousand_calls_of_a_kernel_of_ones_own_leak_nothing():
    function = hg.register_op("leak_probe(x) -> y", lambda x: x + 1, gradient=lambda dy: dy)
    x = np.ones(64, "float32")

    def calls(n):
        for _ in range(n):
            function(x)
        gc.collect()
        return sys.getrefcount(x), len(gc.get_objects()), resident()

    calls(500)
    references, objects, before = calls(500)
    later_references, later_objects, after = calls(9500)
    assert later_references == references and later_objects <= objects + 20 and after - before < 8 << 20


def test_ctrl_c_in_a_kernel():
    import time

    ended = []
    function = hg.register_op("sleeper(x) -> y", lambda x: time.sleep(60) or ended.append(True) or x * 1)
    timer = threading.Timer(0.2, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        function(np.ones(3, "float32"))
    timer.join()
    assert not ended
    np.testing.assert_array_equal(hg.ops.relu(np.ones(3, "float32")), 1)


def test_a_forked_child_uses_and_adds_ops():
    function = hg.register_op("before_fork(x) -> y", lambda x: x + 1)
    x = np.ones(5, "float32")
    function(x)
    child = os.fork()
    if child == 0:
        ok = False
        try:
            later = hg.register_op("after_fork(x) -> y", lambda x: x + 2)
            ok = bool((function(x) == 2).all() and (later(x) == 3).all())
        finally:
            os._exit(0 if ok else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_a_forked_child_goes_on_with_all_that_was_made():
    """Forks after several threads ran ops, kernels, expressions, executors, programs and trainers."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((512, 512)).astype("float32")
    graph = hg.Graph()
    graph.output("y", hg.ops.linear(graph.input("x", ("n", 512)), graph.parameter("w", x)))
    model = graph.model()
    kernel, v, executor = hg.kernel("k", "sin(x) * x", threads=2), hg.Var(x), hg.Executor("cpu", threads=2)
    expression, trainer = hg.ops.matmul(v, v), hg.Trainer(model, loss="mse", threads=2)
    program = hg.compile(hg.named.Group([hg.named.Input("x", ("n", 512)), hg.named.Linear(512, 512).output("y")]), threads=2)
    parameters = program.initial_parameters(1)
    calls = [
        lambda: model(x),
        lambda: hg.ops.matmul(x, x),
        lambda: kernel(x),
        lambda: kernel.grad(x, wrt=["x"])["x"],
        lambda: executor.matmul(x, x),
        lambda: expression.numpy(),
        lambda: program.evaluate(parameters, {"x": x}, {})[1]["y.weight"],
        lambda: np.float64(trainer.evaluate(x, x)["loss"]),
        lambda: hg.Executor("cpu", threads=2).matmul(x, x),
        lambda: model.session(threads=2)(x),
    ]
    want = [call() for call in calls]
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)
        ok = False
        try:
            ok = all(np.allclose(call(), each, 1e-5, 1e-5) for call, each in zip(calls, want))
        finally:
            os._exit(0 if ok else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    np.testing.assert_array_equal(calls[0](), want[0])


def test_an_executor_that_is_closed_while_others_use_it(rng):
    """Threads get results or the error, and nothing hangs: the kernel needs the GIL that close() holds."""
    function = hg.register_op("closing(x) -> y", lambda x: x + 1)
    x = rng.standard_normal(100).astype("float32")
    for _ in range(10):
        executor, seen = hg.Executor("cpu"), []

        def work():
            try:
                for _ in range(20):
                    np.testing.assert_allclose(executor.closing(x), x + 1, rtol=1e-6)
            except (RuntimeError, ValueError) as error:
                seen.append(str(error))

        threads = [threading.Thread(target=work) for _ in range(3)]
        [t.start() for t in threads]
        executor.free()
        [t.join(60) for t in threads]
        assert not any(t.is_alive() for t in threads)
        assert all("closed" in each or "freed" in each for each in seen), seen
    np.testing.assert_allclose(function(x), x + 1, rtol=1e-6)


def test_profiles_are_text_and_a_table_of_a_page():
    graph = hg.Graph()
    graph.output("y", hg.ops.relu(graph.input("a<b>&", ("n",)) * 2.0))
    model = graph.model()
    x = np.ones(4, "float32")
    profile = model.profile(x)
    page = profile._repr_html_()
    assert page.count("<tr>") == len(profile) + 1 + page.count("<tfoot>") or page.count("<tr") >= len(profile)
    assert "a<b>" not in page
    assert "ms" in str(profile) and len(list(profile)) == len(profile) > 0
    assert model.graph._repr_svg_().lstrip().startswith("<") and "a<b>" not in model.graph._repr_svg_()


NAMES = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32", "int16": "i16",
         "int8": "i8", "uint8": "u8", "bool": "bool", "complex64": "c64", "complex128": "c128"}


def test_the_text_of_a_tensor_is_torchs(rng):
    torch = pytest.importorskip("torch", "2.5")
    real = (torch.float32, torch.float64)

    def check(tensor):
        # Names of torch's dtypes are longer, so torch moves them to a new line earlier.
        want = re.sub(r"dtype=torch\.(\w+)", lambda found: "dtype=" + NAMES[found[1]], repr(tensor))
        got = repr(hg._core.share(tensor, "array"))
        assert got.replace(",\n       dtype=", ", dtype=") == want.replace(",\n       dtype=", ", dtype="), tensor

    for dtype in (getattr(torch, name) for name in NAMES):
        for shape in ((3,), (), (0,), (2, 0, 3), (2, 2, 3), (50,), (2, 30), (6, 7, 40), (1001,)):
            numbers = torch.arange(int(np.prod(shape)) or 0, dtype=torch.float64).reshape(shape) - 3
            check((numbers * (1 - 0.5j) if dtype.is_complex else numbers).to(dtype))
    for dtype in real:
        for shape, step in (((40,), 0.37), ((12, 300), 1 / 7), ((1, 1, 1, 2000), 0.5), ((1,) * 8 + (10,), 0.5)):
            check((torch.arange(int(np.prod(shape))) * step - 3).reshape(shape).to(dtype))
    inf, nan = float("inf"), float("nan")
    for values in ([1e-5, 1.0, 1000.0], [0.0, -0.0, 0.0], [inf, -inf, nan], [1.0, nan, 2.5], [0.5, 1e9, 2.0], [1.0, 2e8, 3.0],
                   [1.0, 1001.0, 0.0], [-1.5, 22.25, 333.125], [1e-4, 2e-4, 3e-4], [9e-5, 2e-4, 3e-4], [1e300, 1.0, -1e300],
                   [123456.0, 654321.0, 1.0]):
        numbers = torch.tensor(values, dtype=torch.float64)
        check(numbers)
        check(numbers[:, None])
        check(numbers.nan_to_num(1, 1, 1) * (1 - 0.5j))
    for _ in range(200):
        shape = rng.choice([1, 2, 3, 5, 8], rng.integers(1, 4))
        numbers = rng.uniform(-1, 1, shape) * 10.0 ** rng.integers(-6, 10)
        numbers = rng.choice([np.zeros(shape), np.ones(shape), numbers, np.round(numbers)])
        check(torch.from_numpy(numbers).to(real[rng.integers(2)]))


def test_tuning_is_asked_for_while_kernels_are_planned():
    """Planning calls shape rules in Python while it holds a lock that tuning() waits for."""
    function = hg.register_op("planned(x) -> y", lambda x: x + 1, shape=lambda x: x.shape)
    graph = hg.Graph()
    graph.output("y", function(graph.input("x", ("n",))))
    session = graph.model().session(threads=1)
    session(np.ones(1, "float32"))
    stop, seen = threading.Event(), []

    def ask():
        while not stop.is_set():
            seen.append(session.tuning())

    asking = threading.Thread(target=ask)
    asking.start()
    for n in range(2, 80):
        np.testing.assert_array_equal(session(np.ones(n, "float32")), 2)
    stop.set()
    asking.join(60)
    assert not asking.is_alive() and seen


def test_an_expression_with_open_sizes_becomes_a_file(tmp_path):
    """An expression with open sizes and a text kernel in it, its gradient, a model, `hologram run` and hg-run."""
    x = hg.Var.variable("x", ("n", 3))
    bump = hg.kernel("bump", "exp(-x*x) * gain")
    y = bump(x, 2.0).sum(1) + x.reshape(("n", 3))[:, 0]
    slope = y.sum().grad(x)
    assert y.shape == ("n",) and slope.shape == ("n", 3)
    path = tmp_path / "bump.hgm"
    hg.to_model({"y": y, "slope": slope}).save(path)
    given = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    x.set(given)
    expected = {"y": (2 * np.exp(-given**2)).sum(1) + given[:, 0], "slope": -4 * given * np.exp(-given**2) + [1, 0, 0]}
    for name, found in zip(("y", "slope"), hg.evaluate([y, slope])):
        np.testing.assert_allclose(found, expected[name], rtol=1e-5, atol=1e-6)
    np.save(tmp_path / "x.npy", given)
    programs = [[sys.executable, "-m", "hologram", "run"]]
    if "HOLOGRAM_CONVERT" in os.environ:
        programs.append([os.path.join(os.path.dirname(os.environ["HOLOGRAM_CONVERT"]), "hg-run")])
    for k, program in enumerate(programs):
        out = tmp_path / str(k)
        done = subprocess.run([*program, path, "--input", tmp_path / "x.npy", "--output-dir", out], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        for name, value in expected.items():
            np.testing.assert_allclose(np.load(out / f"{name}.npy"), value, rtol=1e-5, atol=1e-6)


def test_open_sizes_of_expressions():
    a, b = hg.Var.variable("a", ("n", "m")), hg.Var.variable("b", ("m",), "float64")
    y = (a @ b.float()).tanh() // 0.25 % 3
    for n, m in ((2, 3), (4, 1)):
        left, right = np.random.default_rng(n).standard_normal((n, m)).astype(np.float32), np.ones(m)
        a.set(left), b.set(right)
        np.testing.assert_allclose(y.numpy(), np.tanh(left @ right) // 0.25 % 3, rtol=1e-5)
    with pytest.raises(ValueError, match=r"'a' is f32\[n, m\]"):
        a.set(np.ones(3, np.float32))
    b.set(np.ones(2))
    with pytest.raises(ValueError, match="m"):
        y.numpy()
    with pytest.raises(ValueError, match="neither a name nor an array"):
        hg.to_model({"y": hg.Var.variable("", 2) * 2})


def test_a_number_of_numpy_is_a_leaf():
    x = hg.Var(np.float64(3))
    assert (x * x).grad(x).item() == 6 and x.dtype == np.float64


def test_vjp_without_seeds():
    x = hg.Var(np.array([1.0, 2.0]))
    (slope,) = hg.vjp([(x * x).sum()], [x])
    np.testing.assert_array_equal(slope.numpy(), [2, 4])
    with pytest.raises(ValueError, match="needs seeds"):
        hg.vjp([x * x], [x])
    value, pullback = hg.vjp(lambda a, b: (a * b, a.sum()), np.array([1.0, 2.0]), np.array([3.0, 5.0]))
    np.testing.assert_array_equal(value[0], [3, 10])
    da, db = pullback((np.array([1.0, 10.0]), np.float64(100)))
    np.testing.assert_array_equal(da, [103, 150])
    np.testing.assert_array_equal(db, [1, 20])


def test_a_tensor_of_one_element_is_a_number():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for tensor in (hg.from_numpy(x), hg.Var(x)):
        assert float(tensor[1, 2]) == 5.0 and int(tensor[0, 1]) == 1 and len(tensor) == 2 and tensor.tolist() == x.tolist()
        assert tensor[1, 0].item() == 3.0
    with pytest.raises(ValueError, match="size 1"):
        float(hg.from_numpy(x))
    with pytest.raises(TypeError, match="without dims"):
        len(hg.from_numpy(np.float32(2)))
    with pytest.raises(TypeError, match="evaluate takes a list of Vars"):
        hg.evaluate(hg.Var(x))
    for call in (lambda: hg.register_op(3), lambda: hg.register_op("no signature")):
        with pytest.raises((TypeError, ValueError), match="signature"):
            call()
