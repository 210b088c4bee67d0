# SPDX-License-Identifier: Apache-2.0
"""Random calls of quantized_decomposed's ops, and models in the form that pt2e produces.

Inputs include 16-bit floats, numbers far out of range, infinities and NaN. Integers must be equal, and floats equal up
to rounding.
"""
import random

import numpy
import torch
import torch.nn.functional as F
from torch import nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401: registers the ops

ops = torch.ops.quantized_decomposed
BOUNDS = {torch.uint8: (0, 255), torch.int8: (-128, 127), torch.int16: (-32768, 32767), torch.int32: (-2**31, 2**31 - 1)}
NAMES = ("quantize_per_tensor", "dequantize_per_tensor", "quantize_per_channel", "dequantize_per_channel", "quantize_per_token",
         "dequantize_per_token", "quantize_per_channel_group", "dequantize_per_channel_group", "fake_quant_per_channel",
         "choose_qparams", "choose_qparams_symmetric", "choose_qparams_per_token", "choose_qparams_per_token_asymmetric",
         "convert_element_type")


def difference(got, want):
    if got.shape != tuple(want.shape) or got.dtype != want.numpy().dtype:
        return f"is {got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"
    if not want.dtype.is_floating_point:
        return "" if (got == want.numpy()).all() else f"has other integers: {got.ravel()[:8]}, not {want.ravel()[:8]}"
    if not numpy.allclose(got, want.numpy(), rtol=1e-6, atol=0, equal_nan=True):
        return f"is {got.ravel()[:8]}, not {want.ravel()[:8]}"
    return ""


class Random(nn.Module):
    """One op with random arguments. 16-bit results are returned as f32, which represents them exactly."""

    def __init__(self, seed):
        super().__init__()
        r = random.Random(seed)
        torch.manual_seed(seed)
        self.op = NAMES[seed % len(NAMES)]
        self.overload = r.choice(("default", "tensor", "tensor2"))
        self.dtype = torch.int8 if self.op == "choose_qparams_per_token" else r.choice(list(BOUNDS))
        self.low, self.high = BOUNDS[self.dtype]
        if r.random() < 0.3:  # 4-bit values in 8 bits, and other parts of the range
            self.low, self.high = (0, 15) if self.dtype == torch.uint8 else (-8, 7)
        self.group = r.choice((2, 4, 8, 64))
        self.channels = 1 if self.group == 64 else 8 // self.group
        self.axis = r.choice((1, 1, -1)) if self.op != "fake_quant_per_channel" else 1
        self.with_zeros = r.random() < 0.8
        self.out = r.choice((None, torch.float32, torch.float16, torch.bfloat16))
        self.exact = r.random() < 0.5  # powers of two produce ties
        self.input_dtype = r.choice((torch.float32, torch.float32, torch.float16, torch.bfloat16))
        if self.op in ("fake_quant_per_channel", "quantize_per_channel_group"):
            self.input_dtype = torch.float32
        count = {"quantize_per_channel": 8, "dequantize_per_channel": 8, "fake_quant_per_channel": 8}.get(self.op, 1)
        if "group" in self.op:
            count = 5 * self.channels
        exponents = torch.tensor([r.uniform(-6, 3) for _ in range(count)], dtype=torch.float64)
        scales = torch.exp2((exponents * 3).round()) if self.exact else 10 ** exponents
        self.scale = scales[0].item()
        scale_dtype = torch.float32 if self.op == "fake_quant_per_channel" or r.random() < 0.6 else torch.float64
        near = 100 if self.dtype != torch.uint8 else 255
        low = 0 if self.dtype == torch.uint8 else -100
        zeros = torch.tensor([r.randint(max(low, self.low), min(near, self.high)) for _ in range(count)])
        self.zero = int(zeros[0])
        self.register_buffer("scales", scales.to(scale_dtype))
        self.register_buffer("zeros", zeros.to(r.choice((torch.int64, torch.int32))))
        if "group" in self.op:
            self.scales, self.zeros = self.scales.view(5, -1), self.zeros.view(5, -1)
        self.register_buffer("least", torch.tensor(self.low))
        self.register_buffer("most", torch.tensor(self.high))
        self.eps = r.choice((1e-8, 1.1920928955078125e-07, 1e-3))
        self.special = r.random() < 0.5 and "group" not in self.op

    def inputs(self, rows, seed):
        torch.manual_seed(seed)
        if self.op.startswith("dequantize"):
            low, high = BOUNDS[self.dtype]
            return (torch.randint(low, high + 1, (rows, 8), dtype=torch.int64).to(self.dtype),)
        scale = self.scales.flatten()[:1].float() if self.op.startswith(("quant", "fake")) else torch.tensor([3.0])
        levels = (torch.randn(rows, 8) * 200 * 2).round() / 2
        x = levels * scale if self.exact else torch.randn(rows, 8) * 200 * scale
        if self.special and rows:
            x[0, :4] = torch.tensor([float("inf"), -float("inf"), float("nan"), -0.0])[torch.randperm(4)][:4]
            if self.op.startswith("choose"):
                x[0] = torch.where(x[0].isfinite() | (torch.rand(8) < 0.3), x[0], torch.zeros(8))
        return (x.to(self.input_dtype).float(),) if self.input_dtype != torch.float32 else (x,)

    def forward(self, x):
        y = self.call(x if self.op.startswith("dequantize") else x.to(self.input_dtype))
        # torch.export wrongly assumes f64 and i64 results for choose_qparams_per_token.
        return tuple(v.float() if v.dtype in (torch.float16, torch.bfloat16) or self.op == "choose_qparams_per_token" else v
                     for v in (y if isinstance(y, tuple) else (y,)))

    def call(self, x):
        op, low, high, dtype = getattr(ops, self.op), self.low, self.high, self.dtype
        if self.op.endswith("_per_tensor"):
            op = getattr(op, self.overload)
            more = {"out_dtype": self.out} if self.op.startswith("de") else {}
            if self.overload == "default":
                return op(x, self.scale, self.zero, low, high, dtype, **more)
            if self.overload == "tensor":
                return op(x, self.scales, self.zeros, low, high, dtype, **more)
            return op(x, self.scales, self.zeros, self.least, self.most, dtype, **more)
        if self.op == "quantize_per_channel":
            return op(x, self.scales, self.zeros, self.axis, low, high, dtype)
        if self.op == "dequantize_per_channel":
            return op(x, self.scales, self.zeros if self.with_zeros else None, self.axis, low, high, dtype, out_dtype=self.out)
        if self.op == "fake_quant_per_channel":
            return op(x, self.scales, self.zeros, self.axis, low, high)
        if self.op.endswith("_per_token"):
            rows = x.shape[:1] + (1,)
            scales = self.scales.expand(rows) * torch.arange(1, 9).to(self.scales.dtype)[x.shape[0] % 8]
            zeros = self.zeros.expand(rows)
            if self.op == "quantize_per_token":
                return op(x, scales, zeros, low, high, dtype)
            if self.op == "dequantize_per_token":
                return op(x, scales, zeros, low, high, dtype, self.out or torch.float32)
            return op(x, dtype)
        if self.op == "quantize_per_channel_group":
            return op(x, self.scales, self.zeros, low, high, dtype, self.group)
        if self.op == "dequantize_per_channel_group":
            return op(x, self.scales, self.zeros if self.with_zeros else None, low, high, dtype, self.group, self.out or torch.float32)
        if self.op in ("choose_qparams", "choose_qparams_symmetric"):
            return op.tensor(x, min(self.low, 0), self.high, self.eps, dtype)
        if self.op == "convert_element_type":
            return op.no_fuse(x if not x.dtype.is_floating_point else x.nan_to_num(0, 50, -50).clamp(0, 100), self.out or dtype)
        return op(x, dtype)


class Batch(nn.Module):
    """Random calls of the seeds from `first` on, each with its own input."""

    COUNT = 28

    def __init__(self, first):
        super().__init__()
        self.calls = nn.ModuleList(Random(seed) for seed in range(first * self.COUNT, (first + 1) * self.COUNT))

    def forward(self, *inputs):
        return tuple(y for call, x in zip(self.calls, inputs) for y in call(x))

    def inputs(self, round):
        """Returns the example for round 0, and then inputs with 1, 7 and 0 rows."""
        def rows(call):
            if "group" in call.op:
                return 5
            return (4, 1, 7, 1 if call.op.startswith("choose_qparams") and not call.op.startswith("choose_qparams_per_token") else 0)[round]
        return tuple(call.inputs(rows(call), 100 * k + round)[0] for k, call in enumerate(self.calls))

    def dynamic(self):
        return (tuple({} if "group" in call.op else {0: torch.export.Dim(f"n{k}", min=0, max=64)} for k, call in enumerate(self.calls)),)


class Levels(nn.Module):
    """A module's weight as integers per channel, as written by convert_pt2e. Its scales are powers of two."""

    def __init__(self, weight):
        super().__init__()
        scales = torch.exp2((weight.detach().abs().flatten(1).amax(1) / 127).log2().ceil())
        self.register_buffer("scales", scales)
        self.register_buffer("zeros", torch.zeros_like(scales, dtype=torch.int64))
        self.register_buffer("levels", ops.quantize_per_channel(weight.detach(), scales, self.zeros, 0, -127, 127, torch.int8))

    def forward(self):
        return ops.dequantize_per_channel(self.levels, self.scales, self.zeros, 0, -127, 127, torch.int8)


def through(x, scale, zero):
    """Static per-tensor quantization of activations."""
    levels = ops.quantize_per_tensor(x, scale, zero, -128, 127, torch.int8)
    return ops.dequantize_per_tensor(levels, scale, zero, -128, 127, torch.int8)


class StaticNet(nn.Module):
    """Scales are powers of two and biases have few bits, so all sums are exact in any order, and results must be
    equal."""

    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(4, 5)
        for layer in (self.conv, self.head):
            layer.bias.data.mul_(4096).round_().div_(4096)
        self.conv_levels, self.head_levels = Levels(self.conv.weight), Levels(self.head.weight)

    def forward(self, x):
        x = through(x, 1 / 32, -3)
        y = through(F.relu(F.conv2d(x, self.conv_levels(), self.conv.bias, padding=1)), 1 / 64, -128)
        z = through(y + through(x.amax(1, keepdim=True), 1 / 32, 1), 1 / 16, -60)
        return through(F.linear(z.mean((2, 3)), self.head_levels(), self.head.bias), 1 / 128, 5)


class DynamicNet(nn.Module):
    """Chooses the quantization parameters of the input in each run: per tensor and per row."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 5), nn.Linear(8, 5)
        self.first_levels, self.second_levels = Levels(self.first.weight), Levels(self.second.weight)

    def forward(self, x):
        scale, zero = ops.choose_qparams.tensor(x, -128, 127, 1.1920928955078125e-07, torch.int8)
        levels = ops.quantize_per_tensor.tensor(x, scale, zero, -128, 127, torch.int8)
        whole = ops.dequantize_per_tensor.tensor(levels, scale, zero, -128, 127, torch.int8)
        scale, zero = ops.choose_qparams_per_token_asymmetric(x, torch.int8)
        levels = ops.quantize_per_token(x, scale, zero, -128, 127, torch.int8)
        rows = ops.dequantize_per_token(levels, scale, zero, -128, 127, torch.int8, torch.float32)
        return F.relu(F.linear(whole, self.first_levels(), self.first.bias)) + F.linear(rows, self.second_levels(), self.second.bias)


class Chain(nn.Module):
    """Random layers in the form of convert_pt2e. All scales are powers of two, and biases are multiples of the products of
    scales, so all sums are exact in any order, and results must be equal."""

    KINDS = ("conv", "conv", "conv", "linear", "pool", "relu", "cat", "turn", "part", "add", "again", "mean", "twice")

    def __init__(self, seed):
        super().__init__()
        r = random.Random(seed)
        torch.manual_seed(seed)
        self.channels = 4
        self.first = self.levels(r)
        self.steps, self.weights = [], nn.ParameterList()
        for _ in range(r.randint(1, 6)):
            step = {"kind": r.choice(self.KINDS), "to": self.levels(r), "relu": r.random() < 0.5, "rounds": r.random() < 0.8,
                    "keeps": r.random() < 0.2}
            if step["kind"] in ("conv", "linear"):
                self.product(r, step)
            self.steps.append(step)

    @staticmethod
    def levels(r):
        dtype = r.choice((torch.int8, torch.uint8))
        low, high = BOUNDS[dtype]
        if r.random() < 0.2:
            low, high = (0, 127) if dtype == torch.uint8 else (-127, 127)
        return 2.0 ** r.randint(-7, -4), r.choice((low, r.randint(low, high), 0)), low, high, dtype

    def product(self, r, step):
        conv = step["kind"] == "conv"
        groups = r.choice((1, 1, 2, self.channels)) if conv else 1
        kernel = r.choice((1, 2, 3)) if conv else 1
        step |= {"groups": groups, "stride": r.choice((1, 1, 2)), "padding": r.randint(0, kernel // 2), "dilation": r.choice((1, 1, 2)),
                 "by_channel": r.random() < 0.7, "bias": r.random() < 0.7, "index": len(self.weights), "dtype": r.choice((torch.int8, torch.int8, torch.uint8))}
        low, high = BOUNDS[step["dtype"]]
        shape = (self.channels, self.channels // groups, kernel, kernel) if conv else (self.channels, self.channels)
        count = self.channels if step["by_channel"] else 1
        scales = torch.exp2(torch.randint(-8, -5, (count,)).float())
        zeros = torch.randint(-3, 4, (count,)) if r.random() < 0.3 else torch.zeros(count, dtype=torch.int64)
        if step["dtype"] == torch.uint8:
            zeros = zeros + 128
        values = [torch.randint(low, high + 1, shape).to(step["dtype"]), scales, zeros, (torch.randint(-100, 100, (self.channels,)) * 2.0**-10)]
        for value in values:
            self.weights.append(nn.Parameter(value, requires_grad=False))

    def weight(self, step):
        levels, scales, zeros, bias = (self.weights[step["index"] + k] for k in range(4))
        low, high = BOUNDS[step["dtype"]]
        if step["by_channel"]:
            w = ops.dequantize_per_channel(levels, scales, zeros, 0, low, high, step["dtype"])
        else:
            w = ops.dequantize_per_tensor.tensor(levels, scales, zeros, low, high, step["dtype"])
        return w, bias if step["bias"] else None

    @staticmethod
    def through(x, to):
        return ops.dequantize_per_tensor(ops.quantize_per_tensor(x, *to), *to)

    def forward(self, x):
        now = self.first
        x = self.through(x, now)
        kept = []
        for step in self.steps:
            kind, to = step["kind"], step["to"]
            if kind == "conv":
                w, b = self.weight(step)
                if x.shape[-1] + 2 * step["padding"] < step["dilation"] * (w.shape[-1] - 1) + 1 or x.shape[-2] + 2 * step["padding"] < step["dilation"] * (w.shape[-1] - 1) + 1:
                    continue
                x = F.conv2d(x, w, b, step["stride"], step["padding"], step["dilation"], step["groups"])
            elif kind == "linear":
                x = F.linear(x.permute(0, 2, 3, 1), *self.weight(step)).permute(0, 3, 1, 2)
            elif kind == "pool":
                x = F.max_pool2d(x, 2, 1, 1)
            elif kind == "relu":
                x = torch.relu(x)
            elif kind == "cat":
                x = torch.cat([x, torch.relu(x)], 1)[:, ::2]
            elif kind == "turn":
                x = x.transpose(2, 3)
            elif kind == "part":
                x = x.reshape(x.shape[0], 2, 2, *x.shape[2:]).flip(1).flatten(1, 2)
            elif kind == "add":
                x = x + x.flip(1)
            elif kind == "again":
                kept.append(x)
            elif kind == "mean":
                x = F.max_pool2d(torch.relu(x), 1)
            elif kind == "twice":
                x = self.through(x, now)
            if step["keeps"]:
                kept.append(x)
            if step["relu"]:
                x = torch.relu(x)
            if step["rounds"] or kind in ("conv", "linear", "add"):
                now = now if kind in ("pool", "cat", "turn", "part", "relu") and step["keeps"] else to
                x = self.through(x, now)
        return tuple([x, *kept])
