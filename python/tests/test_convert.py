# SPDX-License-Identifier: Apache-2.0
"""Modules in memory and files converted to models. Skipped without the converter."""

import collections
import dataclasses
import gc
import pickle
import re
import signal
import subprocess
import threading
import weakref
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import hologram as hg

torch = pytest.importorskip("torch", "2.5")
from hologram import _core
from hologram.__main__ import main
from hologram._convert import converter
from nets import Net

if not hasattr(_core, "convert_file"):
    pytest.skip("this build has no converter", allow_module_level=True)
reads_scripts = pytest.mark.skipif(converter() is None, reason="there is no hg-convert that reads TorchScript")


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


def test_integers_beyond_those_of_f64_are_compared_as_integers():
    from hologram._check import compare

    want = torch.tensor([2**53, 2**53 + 1])
    assert compare(torch, "y", want, want.clone(), "f64")["largest_error"] == 0
    assert compare(torch, "y", want, torch.tensor([2**53, 2**53]), "f64")["largest_error"] == 1


class Coarse(torch.nn.Module):
    """As T5's norm: a sum in another dtype than input and output."""

    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype

    def forward(self, x):
        return x * torch.rsqrt(x.to(self.dtype).pow(2).mean(-1, keepdim=True)).to(x.dtype)


@pytest.mark.parametrize("inside", [torch.float32, torch.bfloat16])
def test_an_output_is_as_exact_as_the_coarsest_part_of_it(inside):
    x = torch.randn(64, 999, dtype=torch.float64 if inside is torch.float32 else torch.float32)
    allowed = [each["allowed"] for each in hg.convert(Coarse(inside), x).report.checks[0]["outputs"]]
    exact = [each["allowed"] for each in hg.convert(Coarse(x.dtype), x).report.checks[0]["outputs"]]
    assert allowed[0] > 100 * exact[0]


class Spherical(torch.nn.Module):
    def forward(self, x):
        return torch.special.spherical_bessel_j0(x)


def test_spherical_bessel_j0_of_numbers_of_all_sizes():
    x = torch.tensor([0.0, -0.0, 1e-30, 0.3, -25.064407, 310.27228, 1e6, -1e6, torch.inf, -torch.inf, torch.nan])
    torch.testing.assert_close(hg.convert(Spherical(), x)(x), Spherical()(x), rtol=2e-6, atol=0, equal_nan=True)


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


def test_results_of_a_structure_go_with_the_last_of_it():
    net, x = Nested(), torch.randn(3, 4, 5)
    model, compiled = hg.convert(net, (x[0], (x[1], x[2]))), torch.compile(net, backend=hg.torch.backend)
    gc.collect()
    gc.disable()
    try:
        for call in (model, model.session(threads=1), compiled):
            for _ in range(3):
                result = call(x[0], (x[1], x[2]))
                parts = [weakref.ref(part) for part in (result["sum"], result["rest"][0])]
                del result
                assert [part() for part in parts] == [None, None]
    finally:
        gc.enable()


class Pair(NamedTuple):
    a: object
    b: object


@dataclasses.dataclass
class Record:
    a: object
    b: object


torch.utils._pytree.register_dataclass(Record)

RESULTS = {
    "a named tuple": lambda x: Pair(x + 1, [x * 2, None]),
    "a dataclass": lambda x: Record(x + 1, {"of": (x * 2,)}),
    "a tuple of one": lambda x: (x + 1,),
    "a list of one": lambda x: [x + 1],
    "an ordered dict": lambda x: collections.OrderedDict(z=x + 1, a=x * 2),
    "a default dict": lambda x: collections.defaultdict(list, {2: [x + 1], 1: x}),
    "a deque": lambda x: collections.deque([x + 1, (x * 2, x)]),
    "what is empty": lambda x: (x + 1, (), {}, [], None),
    "numbers": lambda x: {"size": x.shape[0], "half": x.shape[0] / 2, "flag": True, "x": x + 1},
    "torch's own": lambda x: torch.topk(x, 2),
}


@pytest.mark.parametrize("kind", RESULTS)
def test_results_of_any_structure_come_back(kind):
    class Module(torch.nn.Module):
        def forward(self, x):
            return RESULTS[kind](x)

    model = hg.convert(Module(), torch.randn(3, 4), dynamic="n")
    assert model.report.ok and len(model.report.checks) == 2
    again = pickle.loads(pickle.dumps(model))
    for x in (torch.randn(5, 4), torch.randn(3, 4).numpy()):
        want = RESULTS[kind](torch.as_tensor(x))
        for call in (model, again, model.session(threads=1)):
            got = call(x)
            assert type(got) is type(want)
            leaves, tree = torch.utils._pytree.tree_flatten(got)
            wanted, wanted_tree = torch.utils._pytree.tree_flatten(want)
            assert tree == wanted_tree
            for a, b in zip(leaves, wanted, strict=True):
                assert isinstance(a, type(x) if isinstance(b, torch.Tensor) else type(b))
                assert b is None or torch.equal(torch.as_tensor(a), torch.as_tensor(b))


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
    for takes_a_model in (hg.load, hg.torch.wrap, hg.Trainer):
        with pytest.raises(TypeError, match=r"a Net is no model; .*hologram.convert\(\)"):
            takes_a_model(Net())


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


def _onnx():
    """An ONNX file of y = relu(x + w), x: float32[n, 3], by the rules of protobuf: a field is its number, its kind and what it holds."""

    def field(number, value):
        if isinstance(value, int):
            return bytes([number << 3, value])
        data = value.encode() if isinstance(value, str) else value
        return bytes([number << 3 | 2, len(data)]) + data

    def tensor(name):
        dims = field(1, field(2, "n")) + field(1, field(1, 3))
        return field(1, name) + field(2, field(1, field(1, 1) + field(2, dims)))

    def node(op, inputs, output):
        return field(1, b"".join(field(1, each) for each in inputs) + field(2, output) + field(4, op))

    weight = field(1, 3) + field(2, 1) + field(8, "w") + field(9, np.array([1, -2, 3], "<f4").tobytes())
    graph = node("Add", ["x", "w"], "s") + node("Relu", ["s"], "y") + field(2, "g") + field(5, weight)
    graph += field(11, tensor("x")) + field(12, tensor("y"))
    return field(1, 8) + field(7, graph) + field(8, field(2, 17))


def test_an_onnx_file(tmp_path, capfd):
    (tmp_path / "net.onnx").write_bytes(_onnx())
    x = np.arange(-6, 6, dtype=np.float32).reshape(4, 3)
    want = np.maximum(x + np.float32([1, -2, 3]), 0)
    model = hg.convert(tmp_path / "net.onnx")
    assert model.inputs == [("x", "float32", ("n", 3))] and model.report.ops == {"add": 1, "relu": 1}
    np.testing.assert_array_equal(model(x), want)
    assert main(["convert", f"{tmp_path}/net.onnx", "-o", f"{tmp_path}/made.hgm", "--no-check"]) == 0
    np.testing.assert_array_equal(hg.load(tmp_path / "made.hgm")(x), want)
    assert main(["convert", f"{tmp_path}/none.onnx"]) == 2
    assert "none.onnx" in capfd.readouterr().err


def test_the_command_line_converts_and_checks(tmp_path):
    net, x = Net().eval(), torch.randn(4, 8)
    torch.export.save(torch.export.export(net, (x,)), tmp_path / "net.pt2")
    assert main(["convert", f"{tmp_path}/net.pt2", "-o", f"{tmp_path}/net.hgm"]) == 0
    torch.testing.assert_close(hg.load(tmp_path / "net.hgm")(x), net(x).detach(), rtol=1e-4, atol=1e-5)


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


def test_trained_weights_go_back_into_the_module(tmp_path):
    """Also with tied weights and buffers: load_state_dict() is strict."""

    class Classifier(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm, self.last = torch.nn.Linear(6, 6), torch.nn.BatchNorm1d(6), torch.nn.Linear(6, 6, bias=False)
            self.last.weight = self.first.weight

        def forward(self, x):
            return self.last(torch.relu(self.norm(self.first(x))))

    net, x = Classifier().eval(), torch.randn(32, 6)
    model = hg.convert(net, x, dynamic="n", output=tmp_path / "net.hgm")
    trainer = hg.Trainer(model, loss="mse", lr=1e-2)
    trainer.fit(x, x.flip(1), epochs=2)
    states = {"trained": (trainer.model(), trainer.model().state_dict()), "loaded": (model, hg.load(tmp_path / "net.hgm").state_dict())}
    tool = Path(converter() or "none").parent / "hg-train"
    if tool.exists():
        np.save(tmp_path / "x.npy", x.numpy())
        np.save(tmp_path / "y.npy", x.flip(1).numpy())
        options = ["--input", "x.npy", "--target", "y.npy", "--loss", "mse", "--epochs", "2", "--out", "t.hgm", "--export", "t.npz"]
        subprocess.run([tool, "net.hgm", *options], check=True, cwd=tmp_path, capture_output=True)
        weights = {name: torch.from_numpy(np.array(value)) for name, value in np.load(tmp_path / "t.npz").items()}
        states["exported"] = (hg.load(tmp_path / "t.hgm"), weights)
    for name, (ours, state) in states.items():
        theirs = Classifier().eval()
        theirs.load_state_dict(state)
        torch.testing.assert_close(torch.as_tensor(ours(x)), theirs(x).detach(), rtol=1e-4, atol=1e-5, msg=lambda text: f"{name}: {text}")
        assert (name == "loaded") == torch.equal(theirs.first.weight, net.first.weight)


@reads_scripts
def test_a_script_module_in_memory(tmp_path):
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


@reads_scripts
def test_converting_a_script_module_leaves_its_buffers():
    module = torch.jit.script(torch.nn.BatchNorm1d(3).train())
    hg.convert(module, torch.randn(5, 3))
    assert int(module.num_batches_tracked) == 0 and not module.running_mean.any()


@reads_scripts
def test_modules_with_packed_weights_are_traced():
    from torch.ao import quantization

    torch.manual_seed(0)
    net = quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(8, 5), torch.nn.ReLU()).eval(), {torch.nn.Linear})
    x = torch.randn(4, 8)
    model = hg.convert(net, x, dynamic="n")
    for given in (x, torch.randn(2, 8)):
        torch.testing.assert_close(model(given), net(given), rtol=1e-5, atol=1e-5)
    gru = quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.GRU(8, 5)).eval(), {torch.nn.GRU})
    x = torch.randn(3, 2, 8)
    for got, want in zip(hg.convert(gru, x)(x), gru(x)):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
    with pytest.raises(TypeError, match="a quantized module is converted with example_inputs"):
        hg.convert(net, None, example_kwargs={"input": x})


class OfDict(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 1)

    def forward(self, x, d):
        return self.linear(d["p"]) - 2 * d["q"] + x


def test_members_of_a_dict_are_known_by_name():
    net = OfDict()
    x, p, q, y = torch.randn(4, 1), torch.randn(4, 3), torch.randn(4, 1), torch.randn(4, 1)
    model = hg.convert(net, (x, {"p": p, "q": q}), dynamic="n")
    want = net(x, {"p": p, "q": q})
    again = pickle.loads(pickle.dumps(model))
    for call in (model, again, model.session(threads=1), hg.torch.wrap(model), hg.Trainer(again).model()):
        torch.testing.assert_close(call(x, {"q": q, "p": p}), want)
        torch.testing.assert_close(call(x, p, q), want)
    trainer = hg.Trainer(model, loss="mse")
    loss = float(torch.nn.functional.mse_loss(want, y))
    for batch in ((x, {"p": p, "q": q}), (x, {"q": q, "p": p})):
        assert trainer.evaluate(batch, y)["loss"] == pytest.approx(loss, rel=1e-5)
    torch.testing.assert_close(model({"d_q": q, "d_p": p, "x": x}), want)
    for call in (model, hg.torch.wrap(model)):
        for wrong in ({"p": p, "r": q}, {"p": p, "q": q, "r": q}):
            with pytest.raises(TypeError, match="a dict has 'p', .*'r'; .* had 'p', 'q'"):
                call(x, wrong)


def test_ops_that_draw_draw_different_numbers():
    """Also at the same place in two branches, and between layers with the same op."""

    class Net(torch.nn.Module):
        def forward(self, x):
            def halved(v):
                return torch.nn.functional.dropout(v, 0.5, True)

            sides = [torch.cond(x.sum() > 0, halved, lambda v: v * 1, (x,)) for _ in range(2)]
            return (*sides, halved(x), halved(x), torch.rand_like(x), torch.rand_like(x))

    results = hg.convert(Net(), torch.ones(200))(torch.ones(200))
    assert len({tuple(each.tolist()) for each in results}) == 6
    lstm = torch.nn.LSTM(4, 4, 3, dropout=0.5)
    model = hg.convert(lstm, torch.randn(2, 1, 4))
    streams = re.findall(r"dropout\(.*stream=(\d+)", str(model.graph))
    assert len(streams) == len(set(streams)) == 2, str(model.graph)
