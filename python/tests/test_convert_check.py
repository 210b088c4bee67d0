# SPDX-License-Identifier: Apache-2.0
"""The check of converted modules where PyTorch itself has more than one answer."""

import pytest

import hologram as hg

torch = pytest.importorskip("torch", "2.5")
from hologram import _core

if not hasattr(_core, "convert_file"):
    pytest.skip("this build has no converter", allow_module_level=True)
from hologram import _levels_check
from torch import nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401: registers the ops

quantized = torch.ops.quantized_decomposed


class Quantized(nn.Module):
    """Layers of levels, shifted by a part of a level."""

    def __init__(self, shift=0.0):
        super().__init__()
        torch.manual_seed(3)
        self.weights = [torch.randint(-127, 128, (96, 96), dtype=torch.int8) for _ in range(4)]
        self.biases = [torch.randn(96) for _ in self.weights]
        self.shift = shift

    def forward(self, x):
        for weight, bias in zip(self.weights, self.biases):
            levels = quantized.quantize_per_tensor(x + self.shift * 0.0437, 0.0437, 3, -128, 127, torch.int8)
            x = quantized.dequantize_per_tensor(levels, 0.0437, 3, -128, 127, torch.int8)
            weight = quantized.dequantize_per_tensor(weight, 0.00172, 0, -127, 127, torch.int8)
            x = nn.functional.linear(x, weight, bias).relu()
        return x


def test_levels_between_which_rounding_decides():
    for seed in range(3):
        torch.manual_seed(seed)
        assert hg.convert(Quantized(), torch.randn(64, 96)).report.ok


def test_levels_that_rounding_does_not_explain():
    x = torch.randn(64, 96)
    model = hg.convert(Quantized(), x, check=False)

    def convert(_part, leaves):
        part = _levels_check._with_levels(torch, torch.export.export(Quantized(), (x,)).module())
        return hg.convert(part, tuple(leaves), check=False)

    def compared(shift):
        program = torch.export.export(Quantized(shift), (x,))
        return _levels_check.compare_from_levels(torch, program, convert, [x], ["y"], [model(x)], ["f32"])

    assert compared(0) is not None and compared(0.1) is None
    with pytest.raises(hg.MismatchError):
        hg._check.compare_with_module(torch, Quantized(0.1), model, (x,), {}, [{}])


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_transformer_with_padding(norm_first):
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=norm_first)
    net = nn.TransformerEncoder(layer, 2).eval()
    padding = torch.zeros(3, 5, dtype=torch.bool)
    padding[1, 3:], padding[2, 1:] = True, True
    x = torch.randn(3, 5, 16)
    model = hg.convert(net, x, example_kwargs={"src_key_padding_mask": padding})
    assert model.report.ok and any("fast path" in each for each in model.report.warnings) != norm_first
    want = net(x, src_key_padding_mask=padding)  # with gradients
    torch.testing.assert_close(model(x, padding), want.detach(), rtol=1e-4, atol=1e-5)
    assert torch.backends.mha.get_fastpath_enabled()


def test_rounding_errors_that_the_module_amplifies():
    norm = nn.GroupNorm(2, 4)
    x = torch.full((2, 4, 5, 5), 1000.1)  # a variance of 0, and a mean that is not exactly x
    model = hg.convert(norm, x)
    assert model.report.ok and any("in their last place" in each for each in model.report.notes)

    for seed in range(5):  # every element must move
        torch.manual_seed(seed)
        assert hg.convert(nn.LayerNorm([4, 5]), torch.full((2, 3, 4, 5), float(torch.rand(())))).report.ok

    class Wrong(nn.Module):
        def forward(self, x):
            return norm(x) + (x > 0)

    with pytest.raises(hg.MismatchError):
        hg._check.compare_with_module(torch, Wrong(), model, (x,), {}, [{}])


class Slope(nn.Module):
    def forward(self, x, t):
        return torch.func.jvp(lambda a: a.tanh() * a.sum(), (x,), (t,))


def test_transforms_are_written_out_as_ops():
    assert hg.convert(Slope(), (torch.randn(5), torch.randn(5))).report.ok


class Derivative(nn.Module):
    def forward(self, x):
        return torch.func.grad(lambda a: (a.sin() * a).sum())(x)


def test_what_torch_cannot_save_is_unsupported():
    with pytest.raises(hg.UnsupportedError, match="torch.export cannot"):
        hg.convert(Derivative(), torch.randn(5))


def test_a_message_with_a_name_that_is_no_text(tmp_path):
    onnx = pytest.importorskip("onnx")
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xy")
    node = onnx.helper.make_node("Resize", ["x", "", "x"], ["y"], mode="linear")
    data = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [x], [y])).SerializeToString()
    (tmp_path / "net.onnx").write_bytes(data.replace(b"linear", b"lin\xe5ar"))
    with pytest.raises(hg.HologramError, match="'lin\ufffdar'"):
        hg.convert(tmp_path / "net.onnx")
