# SPDX-License-Identifier: Apache-2.0
"""Modules in memory, and files, as models; torch.compile. Skipped where there is no hg-convert."""

import copy
import signal
import subprocess
import threading

import numpy as np
import pytest

import hologram as hg

torch = pytest.importorskip("torch", "2.5")
from hologram import _core
from hologram.__main__ import main
from hologram._convert import converter

if not hasattr(_core, "convert_file"):
    pytest.skip("this build has no converter", allow_module_level=True)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.drop = torch.nn.Linear(8, 16), torch.nn.Linear(16, 3), torch.nn.Dropout(0.5)

    def forward(self, x):
        return self.b(self.drop(torch.relu(self.a(x))))


def test_a_module_in_memory(tmp_path):
    net = Net().eval()
    model = hg.convert(net, torch.randn(4, 8), dynamic="n", output=tmp_path / "net.hgm")
    assert model.inputs[0].shape == ("n", 8) and model.memory(n=3).peak_bytes > 0 and model.flops(n=2) == 2 * model.flops(n=1)
    for n in (1, 2, 9):
        x = torch.randn(n, 8)
        torch.testing.assert_close(model(x), net(x).detach(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(hg.load(tmp_path / "net.hgm")(x.numpy()), net(x).detach().numpy(), rtol=1e-4, atol=1e-5)
    report = model.report
    assert report.ok and len(report.checks) == 2
    assert [check["sizes"] for check in report.checks] == [{"n": 4}, {"n": 7}]
    assert "largest error" in str(report)
    assert sum(report.ops.values()) > 0
    assert not net.training
    fixed = hg.convert(net, torch.randn(4, 8))
    assert fixed.inputs[0].shape == (4, 8) and len(fixed.report.checks) == 1


@pytest.mark.parametrize("dynamic", ["n", {"x": {0: "n"}}, {"x": ["n", None]}, [{0: "n"}], {0: "n"}, True])
def test_ways_to_say_dynamic(dynamic):
    if dynamic == {0: "n"}:
        dynamic = {0: {0: "n"}}
    model = hg.convert(Net().eval(), (torch.randn(1, 8),), dynamic=dynamic)
    assert model(torch.randn(5, 8)).shape == (5, 3)


def test_torchs_own_way():
    shapes = {"x": {0: torch.export.Dim("batch", min=2, max=64)}}
    model = hg.convert(Net().eval(), (torch.randn(4, 8),), dynamic=shapes)
    assert model.inputs[0].shape == ("batch", 8) and model.graph.symbols == ["batch"]
    assert [check["sizes"] for check in model.report.checks] == [{"batch": 4}, {"batch": 7}]
    assert model(torch.randn(5, 8)).shape == (5, 3)
    with pytest.raises(ValueError, match="batch is 65.*at most 64"):
        model(torch.randn(65, 8))
    full = hg.convert(Net().eval(), (torch.randn(64, 8),), dynamic=shapes)
    assert [check["sizes"] for check in full.report.checks] == [{"batch": 64}, {"batch": 63}]


class Two(torch.nn.Module):
    def forward(self, x, pair=None, *rest, **named):
        y = x.sum(0)
        for each in [*(pair or ()), *rest, *named.values()]:
            y = y + each.sum(0)
        return y


def _dim(name):
    return torch.export.Dim(name)


NAMED = {
    "a word": ("n", [("n", 3), ("n", 3), ("n", 3)]),
    "True": (True, [("n", 3), ("n", 3), ("n", 3)]),
    "words by place": ({0: {0: "n"}}, [("n", 3), (4, 3), (4, 3)]),
    "words in a structure": ({"x": ["n", None], "pair": ({0: "m"}, {0: "n"})}, [("n", 3), ("m", 3), ("n", 3)]),
    "Dim": (lambda: {"x": {0: _dim("n")}, "pair": ({0: _dim("m")}, None)}, [("n", 3), ("m", 3), (4, 3)]),
    "in order": (lambda: ({0: _dim("m")}, ({0: _dim("n")}, {0: _dim("m")})), [("m", 3), ("n", 3), ("m", 3)]),
    "named as another is by torch": (lambda: {"x": {0: torch.export.Dim.DYNAMIC}, "pair": ({0: _dim("s0")}, {0: _dim("s40")})}, None),
    "hints": (lambda: {"x": {0: torch.export.Dim.AUTO}, "pair": ({0: _dim("n")}, {0: torch.export.Dim.AUTO})}, [None, ("n", 3), None]),
}  # fmt: skip


@pytest.mark.parametrize("form", NAMED)
def test_sizes_have_the_users_names(form):
    dynamic, want = NAMED[form]
    dynamic = dynamic() if callable(dynamic) else dynamic
    x, pair = torch.randn(4, 3), (torch.randn(4, 3), torch.randn(4, 3))
    model = hg.convert(Two(), (x, pair), dynamic=dynamic)
    shapes = [spec.shape for spec in model.inputs]
    if want is None:
        assert [shape[0] for shape in shapes[1:]] == ["s0", "s40"] and len({shape[0] for shape in shapes}) == 3
    else:
        assert all(shape == each for shape, each in zip(shapes, want) if each is not None)
    symbols = model.graph.symbols
    assert len(model.report.checks) == 2 and set(model.report.checks[1]["sizes"]) == set(symbols)
    sizes = {name: 5 + i for i, name in enumerate(symbols)}
    assert model.memory(**sizes).peak_bytes > 0
    model.session(dims=sizes)
    given = [torch.randn(sizes.get(shape[0], 4), 3) for shape in shapes]
    torch.testing.assert_close(model(*given), Two()(given[0], given[1:]), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="zz"):
        model.memory(zz=3)


@pytest.mark.parametrize("way", ["compile", "train"])
def test_no_gradient_passes_through_no_grad(way):
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))

        def forward(self, x):
            with torch.no_grad():
                scale = self.w * 2
            return (self.w * scale * x).sum()

    net, x = Scaled(), torch.ones(3)
    if way == "compile":
        import hologram.torch  # noqa: F401 - registers the backend

        torch.compile(net, backend="hologram")(x).backward()
        torch.testing.assert_close(net.w.grad, torch.tensor([2.0, 4.0, 6.0]))
    else:
        trainer = hg.Trainer(hg.convert(net, x), loss="output", optimizer=hg.SGD(lr=1.0))
        trainer.step(x)
        np.testing.assert_allclose(trainer.parameters()["w"], [-1.0, -2.0, -3.0])


class AboveThree(torch.nn.Module):
    def forward(self, x):
        return x + 1 if x.shape[0] > 3 else x


def test_a_refused_size_has_a_name(tmp_path):
    x = torch.randn(8, 2)
    program = torch.export.export(AboveThree(), (x,), dynamic_shapes={"x": {0: torch.export.Dim.AUTO}}, strict=False)
    torch.export.save(program, tmp_path / "m.pt2")
    own = hg.convert(AboveThree(), x, dynamic={"x": {0: torch.export.Dim("batch", min=4)}})
    for model, name in ((own, "batch"), (hg.convert(tmp_path / "m.pt2"), None)):
        name = name or model.inputs[0].shape[0]
        with pytest.raises(ValueError) as caught:
            model(torch.zeros(3, 2))
        said = str(caught.value)
        assert said.startswith(f"{name} is 3, but the model was converted for {name} at least 4, because of ")
        assert said.endswith(f" at torch.export's range of x.shape[0]; {name} is dim 0 of 'x'")


def test_sizes_that_depend_on_others_have_names():
    class Halves(torch.nn.Module):
        def forward(self, x, y):
            return x + y[::2] + y[1::2]

    n = torch.export.Dim("n", min=2, max=50)
    model = hg.convert(Halves(), (torch.randn(4, 3), torch.randn(8, 3)), dynamic={"x": {0: n}, "y": {0: 2 * n}})
    assert [spec.shape for spec in model.inputs] == [("n", 3), ("2*n", 3)]
    assert [check["sizes"] for check in model.report.checks] == [{"n": 4}, {"n": 7}]
    x, y = torch.randn(5, 3), torch.randn(10, 3)
    torch.testing.assert_close(model(x, y), Halves()(x, y))
    with pytest.raises(ValueError):
        model(x, torch.randn(9, 3))


def test_names_of_sizes_that_no_input_has_alone():
    class Pairs(torch.nn.Module):
        def forward(self, x, y):
            return x[::2] + x[1::2], y * 2

    n, m = torch.export.Dim("n", min=2, max=50), torch.export.Dim("m", min=2, max=50)
    model = hg.convert(Pairs(), (torch.randn(8, 3), torch.randn(5)), dynamic={"x": {0: 2 * n}, "y": {0: m}})
    assert [spec.shape for spec in model.inputs] == [("2*n", 3), ("m",)]
    assert [check["sizes"] for check in model.report.checks] == [{"n": 4, "m": 5}, {"n": 7, "m": 8}]


def test_integers_beyond_those_of_f64_are_compared_as_integers():
    from hologram._check import _compare

    want = torch.tensor([2**53, 2**53 + 1])
    assert _compare(torch, "y", want, want.clone())["largest_error"] == 0
    assert _compare(torch, "y", want, torch.tensor([2**53, 2**53]))["largest_error"] == 1


def test_names_in_args_and_kwargs():
    a, b, c = torch.randn(3, 2), torch.randn(4, 2), torch.randn(5, 2)
    for dynamic in (
        [["n", None], [{0: "k"}], ["m", None]],
        {"x": {0: _dim("n")}, "pair": [{0: _dim("k")}], "rest": ({0: _dim("m")},)},
    ):
        model = hg.convert(Two(), (a, [c], b), dynamic=dynamic)
        assert [spec.shape[0] for spec in model.inputs] == ["n", "k", "m"]
        given = torch.randn(6, 2), torch.randn(9, 2), torch.randn(2, 2)
        torch.testing.assert_close(model(*given), Two()(given[0], [given[1]], given[2]), rtol=1e-4, atol=1e-5)
    model = hg.convert(Two(), (), example_kwargs={"pair": [b, c], "x": a}, dynamic={"pair": [{0: "m"}, None], "x": {0: "n"}})
    assert {spec.name: spec.shape[0] for spec in model.inputs} == {"pair_0": "m", "pair_1": 5, "x": "n"}


@pytest.mark.parametrize(
    "dynamic, message",
    [
        ({"x": {0: "n"}, 1: {0: "n"}}, "'n' to sizes that differ: 4.*and 6"),
        ({"x": {0: "n", 1: "n"}}, "'n' to sizes that differ: 4.*and 3"),
        (lambda: {"x": {0: _dim("n")}, "y": {0: _dim("n")}}, "'n' to sizes that differ: 4 and 6"),
        ({"x": {2: "n"}}, "dim 2 of input x, which has 2"),
        ({"x": {-3: "n"}}, "dim -3 of input x, which has 2"),
        ({"x": ["n", None, "m"]}, "dim 2 of input x, which has 2"),
        ({"z": {0: "n"}}, "'z', the inputs are x, y"),
        ([["n"], ["m"], ["k"]], "3 entries for 2 inputs"),
        ({"x": {0: "n 1"}}, "'n 1'"),
    ],
)
def test_names_that_do_not_fit_are_refused(dynamic, message, tmp_path):
    class Both(torch.nn.Module):
        def forward(self, x, y):
            return x.sum() + y

    x, y = torch.randn(4, 3), torch.randn(6, 3)
    dynamic = dynamic() if callable(dynamic) else dynamic
    with pytest.raises(ValueError, match=message):
        hg.convert(Both(), (x, y), dynamic=dynamic)
    torch.export.save(torch.export.export(Both(), (x, y)), tmp_path / "both.pt2")
    with pytest.raises(ValueError):
        hg.convert(tmp_path / "both.pt2", (x, y), names=["x", "y"], dynamic=dynamic)
    with pytest.raises(ValueError, match="example_inputs"):
        hg.convert(tmp_path / "both.pt2", dynamic="n")


def test_the_check_takes_sizes_that_the_module_takes():
    class Places(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(8, 4)

        def forward(self, x):
            return self.table.weight[: x.shape[0]] + x

    model = hg.convert(Places(), torch.randn(7, 4), dynamic={"x": {0: torch.export.Dim("n", max=8)}})
    assert [check["sizes"] for check in model.report.checks] == [{"n": 7}, {"n": 6}]
    x = torch.randn(8, 4)
    module = Places()
    model = hg.convert(module, torch.randn(4, 4), dynamic={"x": {0: torch.export.Dim("n", max=8)}})
    torch.testing.assert_close(model(x), module(x).detach())


class Nested(torch.nn.Module):
    def forward(self, x, pair):
        return {"sum": x + pair[0], "rest": [pair[1] * 2, (x, None)]}


def test_structures_come_back():
    net = Nested()
    x, a, b = torch.randn(3, 4, 5)
    model = hg.convert(net, (x, (a, b)))
    for given in ((x, (a, b)), (x, a, b)):
        got, want = model(*given), net(x, (a, b))
        assert set(got) == {"sum", "rest"} and isinstance(got["rest"], list) and isinstance(got["rest"][1], tuple)
        torch.testing.assert_close(got["sum"], want["sum"])
        torch.testing.assert_close(got["rest"][0], want["rest"][0])
        assert got["rest"][1][1] is None


class Unsupported(torch.nn.Module):
    def forward(self, x):
        return torch.special.airy_ai(x) + torch.binomial(x.abs(), torch.sigmoid(x))


def test_all_unsupported_ops_in_one_exception():
    with pytest.raises(hg.UnsupportedError) as caught:
        hg.convert(Unsupported(), torch.randn(3, 3))
    ops = " ".join(each["op"] for each in caught.value.ops)
    assert "airy_ai" in ops and "binomial" in ops
    assert "airy_ai" in str(caught.value)


class Writes(torch.nn.Module):
    def forward(self, x):
        x.add_(1)
        return x * 2


def test_refusals():
    with pytest.raises(hg.UnsupportedError, match="writes to its inputs"):
        hg.convert(Writes(), torch.randn(3))
    with pytest.raises(FileNotFoundError):
        hg.convert("none.pt2")
    with pytest.raises(TypeError, match="Module"):
        hg.convert(3, torch.randn(3))
    with pytest.raises(TypeError, match="example_inputs"):
        hg.convert(Net())
    with pytest.raises(ValueError, match="'z'"):
        hg.convert(Net(), torch.randn(2, 8), dynamic={"z": {0: "n"}})


def test_the_check_sees_a_difference(monkeypatch):
    from hologram import _convert

    class Sneaky(Net):
        def forward(self, x):
            return super().forward(x) * (1 if torch.compiler.is_exporting() else 1.01)

    with pytest.raises(hg.MismatchError) as caught:
        hg.convert(Sneaky().eval(), torch.randn(4, 8))
    assert not caught.value.report.ok
    assert _convert is not None


def test_files(tmp_path):
    net = Net().eval()
    x = torch.randn(4, 8)
    torch.export.save(torch.export.export(net, (x,)), tmp_path / "net.pt2")
    model = hg.convert(tmp_path / "net.pt2")
    torch.testing.assert_close(model(x), net(x).detach(), rtol=1e-4, atol=1e-5)
    (tmp_path / "bad.pt2").write_bytes(b"nothing")
    with pytest.raises(hg.CorruptModelError):
        hg.convert(tmp_path / "bad.pt2")


class Many(torch.nn.Module):
    def forward(self, first, *rest, scale=1, **others):
        y = torch.cat([first, *rest]) * scale
        for other in others.values():
            y = y + other
        return y


def test_arguments_that_forward_does_not_name():
    a, b, s = torch.randn(3, 5), torch.randn(4, 5), torch.tensor(2.0)
    model = hg.convert(Many(), (a, b), dynamic=[["n", None], ["m", None]])
    c, d = torch.randn(7, 5), torch.randn(2, 5)
    torch.testing.assert_close(model(c, d), torch.cat([c, d]))
    model = hg.convert(Many(), (a, b), example_kwargs={"scale": s}, dynamic={0: {0: "n"}})
    torch.testing.assert_close(model(c, b, s), torch.cat([c, b]) * 2)
    model = hg.convert(Many(), (a, b), example_kwargs={"scale": s, "shift": s})
    torch.testing.assert_close(model(a, b, s, s), torch.cat([a, b]) * 2 + 2)


def test_no_inputs():
    class Nothing(torch.nn.Module):
        def forward(self):
            return torch.arange(3) * 2

    model = hg.convert(Nothing(), ())
    assert model.report.ok and model().tolist() == [0, 2, 4]


def test_torch_script_needs_hg_convert(tmp_path, monkeypatch):
    net = Net().eval()
    x = torch.randn(4, 8)
    torch.jit.trace(net, x).save(str(tmp_path / "net.pt"))
    program = converter()
    if program is not None and "without libtorch" not in subprocess.run([program, "--version"], capture_output=True, text=True).stdout:
        torch.testing.assert_close(hg.convert(tmp_path / "net.pt", x)(x), net(x).detach(), rtol=1e-4, atol=1e-5)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("HOLOGRAM_CONVERT", raising=False)
    with pytest.raises(hg.UnsupportedError, match="TorchScript.*needs libtorch"):
        hg.convert(tmp_path / "net.pt", x)


def test_the_converter_needs_no_other_program(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("HOLOGRAM_CONVERT", raising=False)
    net = Net().eval()
    x = torch.randn(4, 8)
    torch.testing.assert_close(hg.convert(net, x)(x), net(x).detach(), rtol=1e-4, atol=1e-5)
    assert capfd.readouterr() == ("", "")  # a library says nothing
    with pytest.raises(ValueError, match="--colour"):
        hg.convert(net, x, options=["--colour"])
    torch.export.save(torch.export.export(net, (x,)), tmp_path / "net.pt2")
    assert main(["convert", f"{tmp_path}/net.pt2", "--no-check"]) == 0
    torch.testing.assert_close(hg.load(tmp_path / "net.hgm")(x), net(x).detach(), rtol=1e-4, atol=1e-5)
    assert "wrote" in capfd.readouterr().out
    assert main(["convert", f"{tmp_path}/net.pt2", "--colour"]) == 1


def test_ctrl_c_stops_a_conversion(monkeypatch):
    started = threading.Event()
    run = _core.convert_file

    def told(words):
        started.set()
        return run(words)

    monkeypatch.setattr(_core, "convert_file", told)

    def interrupt():
        started.wait()
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        for _ in range(100):
            hg.convert(Net().eval(), torch.randn(4, 8))
    thread.join()


def test_a_converted_module_trains():
    torch.manual_seed(2)
    net = Net().eval()
    model = hg.convert(net, torch.randn(4, 8), dynamic="n")
    x = torch.randn(64, 8)
    y = torch.stack([x[:, 0], x[:, 1], x[:, 2]], 1)
    trainer = hg.Trainer(model, loss="mse", lr=1e-2)
    before = trainer.evaluate(x, y)["loss"]
    trainer.fit(x, y, epochs=30)
    assert trainer.evaluate(x, y)["loss"] < before / 2
    net.load_state_dict(trainer.state_dict())
    torch.testing.assert_close(net(x).detach(), trainer.model()(x), rtol=1e-4, atol=1e-4)


# -- torch.compile --------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def fresh():
    yield
    torch._dynamo.reset()


def test_compile_for_inference():
    import hologram.torch  # noqa: F401 - registers the backend

    net = Net().eval()
    compiled = torch.compile(net, backend="hologram")
    for n in (4, 4, 7, 1, 9):
        x = torch.randn(n, 8)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), net(x), rtol=1e-4, atol=1e-5)


def test_compile_for_training():
    import copy

    import hologram.torch  # noqa: F401

    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
    twin = copy.deepcopy(net)
    compiled = torch.compile(net, backend="hologram")
    a, b = torch.optim.SGD(net.parameters(), 0.1), torch.optim.SGD(twin.parameters(), 0.1)
    for _ in range(4):
        x = torch.randn(5, 8)
        a.zero_grad(), b.zero_grad()
        one, two = compiled(x).square().mean(), twin(x).square().mean()
        one.backward(), two.backward()
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-6)
        for p, q in zip(net.parameters(), twin.parameters()):
            torch.testing.assert_close(p.grad, q.grad, rtol=1e-3, atol=1e-6)
        a.step(), b.step()


def test_explain_lists_what_runs_eagerly():
    found = hg.torch.explain(Net().eval(), torch.randn(4, 8))
    assert found.graphs == found.converted == 1 and not found.fallbacks

    def half(x):
        y = torch.special.airy_ai(x)
        return y + 1

    found = hg.torch.explain(half, torch.randn(3))
    assert found.converted == 0 and len(found.fallbacks) == 1
    assert any("airy_ai" in name for name in found.unsupported)
    assert "airy_ai" in str(found)
    x = torch.randn(3)
    torch.testing.assert_close(torch.compile(half, backend="hologram")(x), half(x))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_runs_here_breaks_the_graphs_of_others(backend):
    import hologram.nn

    kernel = hg.kernel("k", "a*x*x")
    net = torch.nn.Sequential(hologram.nn.Linear(5, 8), hologram.nn.ReLU(), torch.nn.Linear(8, 2))
    wrapped = hg.torch.wrap(hg.convert(torch.nn.Linear(2, 2), torch.randn(3, 2)))

    def run(x):
        return kernel(2.0, wrapped(net(x))) + hg.ops.relu(x[:, :2])

    x = torch.randn(3, 5)
    torch.testing.assert_close(torch.compile(run, backend=backend)(x), run(x))
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    torch.compile(run, backend=backend)(a).sum().backward()
    run(b).sum().backward()
    torch.testing.assert_close(a.grad, b.grad)


def test_graph_breaks():
    import hologram.torch  # noqa: F401

    def broken(x):
        y = torch.relu(x) * 2
        torch._dynamo.graph_break()
        return y + 1

    x = torch.randn(4)
    torch.testing.assert_close(torch.compile(broken, backend="hologram")(x), broken(x))
    found = hg.torch.explain(broken, x)
    assert found.graphs == 2 and found.breaks


def test_a_script_module_in_memory(tmp_path):
    if converter() is None:
        pytest.skip("there is no hg-convert that reads TorchScript")

    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(8, 3)

        def forward(self, x, scale):
            y = self.a(x) * scale
            if x.size(0) > 3:
                y = y + 1
            return y, {"sum": y.sum()}

    x, scale = torch.randn(4, 8), torch.tensor(2.0)
    for module in (torch.jit.script(Two().eval()), torch.jit.trace(Net().eval(), x)):
        args = (x, scale) if "scale" in str(module.forward.schema) else (x,)
        model = hg.convert(module, args, dynamic={"x": {0: "n"}}, output=tmp_path / "m.hgm")
        assert model.report.ok and [check["sizes"] for check in model.report.checks] == [{"n": 4}, {"n": 7}]
        for n in (1, 2, 6):
            given = (torch.randn(n, 8), *args[1:])
            want, got = module(*given), model(*given)
            if len(args) == 2:
                torch.testing.assert_close(got[1]["sum"], want[1]["sum"].detach(), rtol=1e-4, atol=1e-4)
                want, got = want[0], got[0]
            torch.testing.assert_close(got, want.detach(), rtol=1e-4, atol=1e-5)
    with pytest.raises(TypeError, match="without example_kwargs"):
        hg.convert(module, None, example_kwargs={"x": x})


@pytest.mark.parametrize("dynamic", [None, True, False])
def test_open_sizes_run_here_and_further_ones_eagerly(dynamic):
    from hologram.torch import _compile

    made = []

    def counted(graph, inputs):
        made.append(_compile._BySize(graph, inputs, {}, False))
        return made[-1]

    net = Net().eval()
    compiled = torch.compile(lambda x: net(x) * x.shape[0] + x[:, :3].sum(0), backend=counted, dynamic=dynamic)
    sizes = [3, 5, 3, 1, 2, *range(6, 30)] if dynamic else [3, 5, 3, 1, 2, 6]
    for n in sizes:
        x = torch.randn(n, 8)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), net(x) * n + x[:, :3].sum(0), rtol=1e-4, atol=1e-5)
    assert all(graph.plain is not None for each in made for graph in each.made.values())
    if dynamic:  # torch captured it once or twice (a size of 1 is another), not for each size
        assert len(made) <= 3 and max(len(each.made) for each in made) == _compile._BySize.MOST


def test_only_the_gradients_that_are_wanted_are_computed(monkeypatch):
    from hologram.torch import _wrap

    wanted = []
    init = _wrap._Halves.__init__

    def seen(self, model, mode, inputs, options):
        wanted.append((len(model.inputs), list(inputs)))
        init(self, model, mode, inputs, options)

    monkeypatch.setattr(_wrap._Halves, "__init__", seen)
    net = Net().eval()
    compiled = torch.compile(net, backend="hologram")
    x = torch.randn(4, 8)
    for requires in (False, True):
        given, twin = x.clone().requires_grad_(requires), copy.deepcopy(net)
        net.zero_grad()
        compiled(given).square().sum().backward()
        expected = x.clone().requires_grad_(requires)
        twin(expected).square().sum().backward()
        for a, b in zip(net.parameters(), twin.parameters()):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-5)
        if requires:
            torch.testing.assert_close(given.grad, expected.grad, rtol=1e-4, atol=1e-5)
        inputs, indices = wanted[-1]
        assert inputs == 5 and len(indices) == (5 if requires else 4)


def test_a_compiled_graph_of_one_size_is_called_directly():
    net = Net().eval()
    compiled = torch.compile(net, backend="hologram", dynamic=False)
    for _ in range(3):
        for n in (3, 5):  # a graph for each
            x = torch.randn(n, 8, requires_grad=True)
            with torch.no_grad():
                y = compiled(x)
                torch.testing.assert_close(y, net(x), rtol=1e-4, atol=1e-5)
                assert not y.requires_grad
                net.b.weight.mul_(1.1)  # seen by the next call
            (compiled(x) * 2).sum().backward()
            assert x.grad is not None


def test_what_a_graph_writes_to_is_written_to():
    torch.manual_seed(1)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(27, 4),
        torch.nn.BatchNorm1d(4, momentum=0.3),
    )  # fmt: skip
    x = torch.randn(6, 2, 5, 5)
    assert hg.torch.explain(copy.deepcopy(net), x).converted == 1
    twin = copy.deepcopy(net)
    compiled = torch.compile(net, backend="hologram")
    for gradients in (True, True, False):
        for run, module in ((compiled, net), (twin, twin)):
            module.zero_grad()
            with torch.set_grad_enabled(gradients):
                y = run(x)
            if gradients:
                y.square().mean().backward()
        for (name, a), b in zip(net.state_dict().items(), twin.state_dict().values()):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, msg=name)
        for a, b in zip(net.parameters(), twin.parameters()):
            if gradients:
                torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-5)
    assert int(net[1].num_batches_tracked) == 3


def test_results_that_are_one_tensor_or_share_memory_stay_so():
    def f(x, count):
        count.add_(1)
        y = torch.relu(x) * 2
        return y, x.t(), y, count

    def g(x, count):
        count += x.sum()
        x.mul_(2)
        y = x + count
        return y, y

    for function in (f, g):
        compiled = torch.compile(function, backend="hologram")
        for gradients in (False, True):
            x, count = torch.randn(3, 4), torch.zeros(())
            a, b = x.clone(), count.clone()
            with torch.set_grad_enabled(gradients):
                got, want = compiled(x, count), function(a, b)
            for each, other in zip((*got, x, count), (*want, a, b)):
                torch.testing.assert_close(each, other)
            assert got[0] is got[-1] or got[-1] is count
            if function is f:
                got[1].add_(1)
                torch.testing.assert_close(x, a + 1)  # a view of x still
                assert got[0].data_ptr() == got[2].data_ptr()
    whole = torch.arange(6.0)

    def overlapping(a, b):
        a.add_(1)
        return b * 2

    twin = whole.clone()
    got = torch.compile(overlapping, backend="hologram")(whole[:4], whole[2:])
    torch.testing.assert_close(got, overlapping(twin[:4], twin[2:]))
    torch.testing.assert_close(whole, twin)


def test_what_is_not_supported_trains_eagerly_beside_what_is():
    def part(x, w):
        y = torch.relu(x @ w)
        torch._dynamo.graph_break()
        z = torch.special.i0e(y) * y.cumprod(0)
        torch._dynamo.graph_break()
        return torch.special.airy_ai(z.detach()) + z.tanh()

    x, w = torch.rand(4, 5), torch.rand(5, 3)
    found = hg.torch.explain(part, x, w)
    assert found.graphs == 3 and 0 < len(found.fallbacks) and found.converted + len(found.fallbacks) == 3
    assert len(found.breaks) == 2 and any("airy_ai" in name for name in found.unsupported)
    (x1, w1), (x2, w2) = ([t.clone().requires_grad_() for t in (x, w)] for _ in range(2))
    torch.compile(part, backend="hologram")(x1, w1).sum().backward()
    part(x2, w2).sum().backward()
    torch.testing.assert_close(x1.grad, x2.grad, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(w1.grad, w2.grad, rtol=1e-4, atol=1e-6)


def test_writes_to_inputs_are_as_in_eager():
    def writes(x):
        x.add_(1)
        return x * 2

    x, y = torch.zeros(3), torch.zeros(3)
    torch.testing.assert_close(torch.compile(writes, backend="hologram")(x), writes(y))
    assert torch.equal(x, y)
    assert hg.torch.explain(writes, torch.zeros(3)).converted == 1
    views = hg.torch.explain(lambda x: (x.t(), x * 2), torch.zeros(3, 4))
    assert views.converted == 0 and "a view of an argument" in str(views)


def test_arguments_that_share_memory_later():
    def f(x, y):
        x.add_(1)
        return y * 2

    compiled = torch.compile(f, backend="hologram")
    for take in (lambda b: (b[:4].clone(), b[1:].clone()), lambda b: (b[:4], b[1:])):
        a, b = torch.arange(15.0).view(5, 3), torch.arange(15.0).view(5, 3)
        torch.testing.assert_close(compiled(*take(a)), f(*take(b)))
        torch.testing.assert_close(a, b)


def test_results_lie_in_memory_as_in_eager():
    def f(x):
        y = x * 2
        return y, y[:1], x.t() + 1

    x = torch.randn(3, 4)
    got, want = torch.compile(f, backend="hologram")(x), f(x)
    for a, b in zip(got, want):
        torch.testing.assert_close(a, b)
        assert a.stride() == b.stride()
    got[0].zero_()
    assert not got[1].any()
    alone = torch.compile(lambda x: x.t() + 1, backend="hologram")
    assert alone(x).stride() == alone(x).stride() == (1, 4)
    assert hg.torch.explain(lambda x: x.t() + 1, x).converted == 1


def test_options_of_the_backend():
    net, x = Net().eval(), torch.randn(4, 8)
    for options in ({"threads": 1}, {"freeze": True}, {"precision": "float32", "memory_limit": "64M"}):
        torch._dynamo.reset()
        with torch.no_grad():
            got = torch.compile(net, backend="hologram", options=options)(x)
            torch.testing.assert_close(got, net(x), rtol=1e-4, atol=1e-5)
    torch._dynamo.reset()
    with pytest.raises(Exception, match="thread"):
        torch.compile(net, backend="hologram", options={"thread": 1})(x)


def test_frozen_weights_follow_what_is_written_to_them():
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = torch.nn.Conv2d(2, 4, 3, padding=1), torch.nn.BatchNorm2d(4)

        def forward(self, x):
            return torch.relu(self.norm(self.conv(x)))

    one, two = Block().eval(), Block().eval()  # one code, other weights
    x = torch.randn(3, 2, 6, 6)
    run = [torch.compile(each, backend="hologram", options={"freeze": True}) for each in (one, two)]

    def same():
        with torch.no_grad():
            for compiled, net in zip(run, (one, two)):
                torch.testing.assert_close(compiled(x), net(x), rtol=1e-4, atol=1e-5)

    same()
    same()
    with torch.no_grad():
        one.conv.weight.mul_(2)
        two.norm.running_var.add_(1)
    same()
    two.load_state_dict(one.state_dict())
    same()
    one.conv.weight = torch.nn.Parameter(torch.randn(4, 2, 3, 3))
    same()
    # With gradients nothing is frozen.
    optimizer = torch.optim.SGD(one.parameters(), 0.1)
    for _ in range(3):
        a, b = run[0](x).square().mean(), one(x).square().mean()
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
        optimizer.zero_grad()
        b.backward()
        want = one.conv.weight.grad.clone()
        optimizer.zero_grad()
        a.backward()
        torch.testing.assert_close(one.conv.weight.grad, want, rtol=1e-3, atol=1e-6)
        optimizer.step()
        same()
    assert not any(p.grad is not None for p in two.parameters())
