# SPDX-License-Identifier: Apache-2.0
"""Random models of eager-mode and FX quantization as TorchScript, against the modules in PyTorch.

  python3 tests/converter/quantized_modules.py build/bin FOLDER [--count 60] [--seed 1]

Static quantization with the settings of FBGEMM (7-bit inputs, weights by channel) and QNNPACK, with 7-bit weights on processors
without VNNI, where sums of PyTorch saturate otherwise; dynamic quantization of linear and recurrent layers and cells; and embeddings,
which are equal. Most numbers are equal. PyTorch rounds products of scales and integers in another order, so a level may differ by one,
and later layers carry that on; how it rounds means that lie between two levels depends on the memory
layout. Skipped without torch.
"""
import random
import sys
import warnings
from pathlib import Path

from batch import batch, converted, options, with_hg_run

try:
    import numpy as np
    import torch
    from torch import nn
    from torch.ao import quantization as tq
    from torch.ao.quantization import quantize_fx
except ImportError:
    print("no Python with torch and numpy: quantized modules are left out")
    sys.exit(77)
warnings.simplefilter("ignore")

CHANNELS, SIZE, RUNS = 8, 12, 3
AVERAGES = {"avg_pool", "bilinear", "adaptive", "leaky", "leaky_"}


class Layers(nn.Module):
    """A chain of random layers on [n, CHANNELS, spatial...]."""

    def __init__(self, rng, dims, eager):
        super().__init__()
        self.quant, self.dequant = (tq.QuantStub(), tq.DeQuantStub()) if eager else (nn.Identity(), nn.Identity())
        self.float = nn.quantized.FloatFunctional
        self.eager, self.dims, self.kinds = eager, dims, []
        layers = []
        for _ in range(rng.randint(1, 5)):
            layers.append(self.layer(rng))
            if self.kinds[-1] in AVERAGES:  # later layers would enlarge how it rounds
                break
        self.layers = nn.ModuleList(layers)
        self.head = rng.choice(["mean", "pool", "flatten", "none", "linear", "std", "max"]) if dims == 2 else rng.choice(["none", "flatten", "linear"])
        if self.kinds[-1] in AVERAGES:
            self.head = "none"
        self.last = nn.Linear(CHANNELS, 5) if self.head == "linear" else nn.Identity()

    def conv(self, rng, transposed=False):
        groups = rng.choice((1, 1, 2, CHANNELS if self.dims < 3 else 2))  # libtorch 1.13 computes 3-d depthwise ones wrongly
        kernel = rng.choice((1, 3, 3, 2))
        kind = f"Conv{'Transpose' if transposed else ''}{self.dims}d"
        options = {"stride": rng.choice((1, 1, 2)), "groups": groups, "bias": rng.random() < 0.8}
        if transposed:
            options["padding"] = rng.choice((0, 1)) if kernel == 3 else 0
        else:
            options |= {"padding": rng.choice((0, 1, 2)) if kernel > 1 else 0, "dilation": rng.choice((1, 1, 2)) if self.dims < 3 else 1}
        return getattr(nn, kind)(CHANNELS, CHANNELS, kernel, **options)

    def layer(self, rng):
        kinds = ["conv", "conv", "conv_relu", "conv_bn", "conv_bn_relu", "relu", "add", "add_relu", "cat", "mul", "number", "moved", "parts"]
        if self.dims == 2:
            kinds += ["hardswish", "elu", "leaky", "leaky_", "sigmoid", "tanh", "relu6", "hardtanh", "max_pool", "avg_pool", "up", "bilinear", "transposed", "batch_norm", "layer_norm", "group_norm", "instance_norm", "hardsigmoid", "dropout", "clamp", "adaptive"]
            kinds += ["prelu", "gelu", "masked", "exact", "index", "sorted"] if self.eager else []
        kind = rng.choice(kinds)
        self.kinds.append(kind)
        if kind == "conv":
            return self.conv(rng)
        if kind == "conv_relu":
            return nn.Sequential(self.conv(rng), nn.ReLU())
        if kind.startswith("conv_bn"):
            norm = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}[self.dims](CHANNELS)
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
            return nn.Sequential(self.conv(rng), norm, *([nn.ReLU()] if kind.endswith("relu") else []))
        if kind == "transposed":
            return self.conv(rng, True)
        if kind == "batch_norm":
            return nn.BatchNorm2d(CHANNELS)
        if kind == "max_pool":
            return nn.MaxPool2d(rng.choice((2, 3)), stride=rng.choice((1, 2)), padding=rng.choice((0, 1)), ceil_mode=rng.random() < 0.3)
        if kind == "avg_pool":
            return nn.AvgPool2d(2, stride=rng.choice((1, 2)), padding=rng.choice((0, 1)), count_include_pad=rng.random() < 0.5)
        if kind in ("add", "add_relu", "cat", "mul", "number"):
            self.amount = rng.choice((0.5, -1.5, 3, 2.25, -0.1))
            return nn.quantized.FloatFunctional() if self.eager else nn.Identity()
        simple = {"relu": nn.ReLU, "hardswish": nn.Hardswish, "elu": nn.ELU, "leaky": nn.LeakyReLU, "sigmoid": nn.Sigmoid, "tanh": nn.Tanh,
                  "relu6": nn.ReLU6, "hardtanh": nn.Hardtanh, "hardsigmoid": nn.Hardsigmoid, "dropout": nn.Dropout}
        if kind in simple:
            return simple[kind]()
        if kind == "prelu":
            layer = nn.PReLU(rng.choice((1, CHANNELS)), init=rng.uniform(0.05, 0.6))
            with torch.no_grad():
                layer.weight.mul_(torch.rand(layer.num_parameters) + 0.5)
            return layer
        if kind == "group_norm":
            return nn.GroupNorm(2, CHANNELS)
        if kind == "instance_norm":
            return nn.InstanceNorm2d(CHANNELS, affine=True)
        if kind == "layer_norm":
            return nn.LayerNorm(CHANNELS)
        if kind == "up":
            return nn.Upsample(scale_factor=2, mode="nearest")
        if kind == "bilinear":
            return nn.Upsample(scale_factor=2, mode="bilinear", align_corners=rng.random() < 0.5)
        if kind == "adaptive":
            return nn.AdaptiveAvgPool2d(1)  # PyTorch computes windows larger than its input wrongly
        return nn.Identity()

    def step(self, kind, layer, x):
        if kind in ("add", "add_relu", "cat", "mul", "number"):
            f = layer if self.eager else None
            if kind == "cat":
                x = f.cat([x, x], 1) if f else torch.cat([x, x], 1)
                return x[:, ::2]
            if kind == "number":
                return f.add_scalar(x, self.amount) if f else x * self.amount
            if kind == "add":
                return f.add(x, x.flip(0)) if f else x + x.flip(0)
            if kind == "mul":
                return f.mul(x, x) if f else x * x
            return f.add_relu(x, x) if f else torch.relu(x + x)
        if kind == "moved":
            return x.transpose(1, -1).contiguous().transpose(1, -1)
        if kind == "parts":
            a, b = x.chunk(2, 1)
            return torch.cat([b, a], 1) if not self.eager else a.repeat(1, 2, *[1] * self.dims)
        if kind == "layer_norm":
            return layer(x.transpose(1, -1).contiguous()).transpose(1, -1)
        if kind == "leaky_":
            return nn.functional.leaky_relu(x, 0.1, inplace=self.eager)
        if kind == "gelu":
            return nn.functional.gelu(x)
        if kind == "masked":
            return x.masked_fill(x > 0.5, 0.3)
        if kind == "exact":
            return nn.functional.interpolate(x, scale_factor=1.5, mode="nearest-exact")
        if kind == "index":
            return x[:, [3, 0, 7, 1, 6, 2, 5, 5]]
        if kind == "sorted":
            return torch.sort(x, 1, descending=True)[0]
        if kind == "clamp":
            return torch.clamp(x, -0.5, 0.75)
        return layer(x)

    def forward(self, x):
        x = self.quant(x)
        for kind, layer in zip(self.kinds, self.layers):
            x = self.step(kind, layer, x)
        if self.head == "mean":
            x = x.mean((2, 3))
        elif self.head == "pool":
            x = nn.functional.adaptive_avg_pool2d(x, 1).flatten(1)
        elif self.head == "std":
            x = x.std((2, 3))
        elif self.head == "max":
            x = x.max(1)[0]
        elif self.head == "flatten":
            x = x.flatten(1)
        elif self.head == "linear":
            x = self.last(x.transpose(1, -1).contiguous())
        return self.dequant(x)


class Dynamic(nn.Module):
    def __init__(self, rng):
        super().__init__()
        self.first, self.second = nn.Linear(SIZE, 7), nn.Linear(7, CHANNELS, bias=rng.random() < 0.5)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


class Lstm(nn.Module):
    """A layer with a state of zeros, or one of the input."""

    def __init__(self, layer, given, states):
        super().__init__()
        self.layer, self.given, self.first, self.states = layer, given, layer.batch_first, states

    def forward(self, x):
        if self.given:
            h = first_state(x, self.first, self.states)
            y, last = self.layer(x, (h, -h))
        else:
            y, last = self.layer(x)
        return torch.cat([y.flatten(), last[0].flatten(), last[1].flatten()])


class Gru(Lstm):
    def forward(self, x):
        if self.given:
            y, last = self.layer(x, first_state(x, self.first, self.states))
        else:
            y, last = self.layer(x)
        return torch.cat([y.flatten(), last.flatten()])


def first_state(x, batch_first: bool, states: int):
    h = x[:, :1].transpose(0, 1) if batch_first else x[:1]
    return h[:, :, :7].repeat(states, 1, 1)


class LstmCell(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return torch.cat(self.layer(x[:, 1], self.layer(x[:, 0])), 1)


class Cell(LstmCell):
    def forward(self, x):
        return self.layer(x[:, 1], self.layer(x[:, 0]))


def recurrent(rng):
    kind = rng.choice(("LSTM", "LSTM", "GRU", "GRU", "LSTMCell", "GRUCell", "RNNCell"))
    if kind.endswith("Cell"):
        more = {"nonlinearity": rng.choice(("tanh", "relu"))} if kind == "RNNCell" else {}
        layer = getattr(nn, kind)(SIZE, 7, **more)
        return LstmCell(layer) if kind == "LSTMCell" else Cell(layer)
    layers, twice = rng.choice((1, 2)), rng.random() < 0.5
    layer = getattr(nn, kind)(SIZE, 7, layers, batch_first=rng.random() < 0.5, bidirectional=twice)
    return (Lstm if kind == "LSTM" else Gru)(layer, rng.random() < 0.5, layers * (2 if twice else 1))


class Rows(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)


class Bags(nn.Module):
    def __init__(self, layer, rng):
        super().__init__()
        self.layer, self.way = layer, rng.choice(("rows", "offsets", "last", "weights"))
        layer.include_last_offset = self.way == "last"

    def forward(self, x):
        if self.way == "rows":
            return self.layer(x)
        offsets = torch.arange(0, x.numel() + (1 if self.way == "last" else 0), 2)
        return self.layer(x.flatten(), offsets, x.flatten() * 0.25 - 1 if self.way == "weights" else None)


def embedding(rng):
    """A quantized embedding, or one of bags, which may have 4 bits."""
    bag = rng.random() < 0.5
    four = bag and rng.random() < 0.5
    width = SIZE - (2 if four else 1) * rng.randint(0, 3)
    layer = nn.EmbeddingBag(9, width, mode="sum") if bag else nn.Embedding(9, width)
    layer.qconfig = tq.float_qparams_weight_only_qconfig_4bit if four else tq.float_qparams_weight_only_qconfig
    module = tq.convert(tq.prepare(nn.Sequential(layer).eval()))[0]
    return (Bags(module, rng), "bag") if bag else (Rows(module), "embedding")


class Counted(nn.Module):
    """A buffer that decides a branch, and changes between two reads."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        q = torch.quantize_per_tensor(x, 0.05, 100, torch.quint8)
        for _ in range(2):
            q = torch.relu(q) if int(self.count) == 0 else q.flip(1)
            self.count.add_(1)
        self.count.sub_(2)
        return q.dequantize()


def has_vnni():
    info = Path("/proc/cpuinfo")
    return info.exists() and "vnni" in info.read_text()


def drawn(seed):
    """A quantized module, a function that draws its inputs, and a text that says what it is."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    if seed % 40 == 7:
        return Counted().eval(), lambda n: torch.randn(n, SIZE), "counted"
    if rng.random() < 0.1:
        module = tq.quantize_dynamic(Dynamic(rng).eval(), {nn.Linear}, torch.qint8)
        return module, lambda n: torch.randn(n, 3, SIZE), "dynamic"
    if rng.random() < 0.2:
        module = tq.quantize_dynamic(recurrent(rng).eval(), {nn.LSTM, nn.GRU, nn.LSTMCell, nn.GRUCell, nn.RNNCell}, torch.qint8)
        return module, lambda n: torch.randn(n, 4, SIZE), "dynamic recurrent"
    if rng.random() < 0.1:
        module, what = embedding(rng)
        return module, lambda n: torch.randint(0, 9, (n, 4)), what
    engine = rng.choice(("fbgemm", "qnnpack"))
    eager, dims = rng.random() < 0.5, rng.choice((1, 2, 2, 2, 2, 3) if engine == "fbgemm" else (2,))
    module = Layers(rng, dims, eager).eval()

    def draw(n):
        return torch.randn(n, CHANNELS, *[SIZE if dims < 3 else 6] * dims)

    kinds = module.kinds
    config = tq.get_default_qconfig(engine)
    by_tensor = any(kind == "transposed" for kind in kinds)  # has no weights by channel
    weight = tq.default_weight_observer if by_tensor else config.weight
    if not has_vnni():
        weight = weight.with_args(quant_min=-64, quant_max=63)
    config = tq.QConfig(activation=config.activation, weight=weight)
    if eager:
        for i, kind in enumerate(kinds):
            if kind == "prelu":  # has levels of quint8
                module.layers[i].qconfig = tq.QConfig(activation=config.activation, weight=tq.MinMaxObserver.with_args(dtype=torch.quint8))
            if kind.startswith("conv_"):
                names = [f"layers.{i}.{k}" for k in range(len(module.layers[i]))]
                tq.fuse_modules(module, [names], inplace=True)
        module.qconfig = config
        tq.prepare(module, inplace=True)
        module(draw(4)), module(draw(2))
        tq.convert(module, inplace=True)
    else:
        mapping = tq.QConfigMapping().set_global(config)
        module = quantize_fx.prepare_fx(module, mapping, (draw(4),))
        module(draw(4)), module(draw(2))
        module = quantize_fx.convert_fx(module)
    if {"up", "bilinear", "exact"} & set(kinds):  # PyTorch 2.13's script calls an op that older libtorch lacks
        engine += " upsample"
    averages = " averages" if AVERAGES & set(kinds) else ""
    return module, draw, f"{engine} {'eager' if eager else 'fx'} {dims}d{averages}"


def refuses_half(given):
    """Whether hg-convert says why libtorch cannot load layers that are quantized to f16."""
    given.folder.mkdir(parents=True, exist_ok=True)
    path = given.folder / "half.pt"
    try:
        module = tq.quantize_dynamic(nn.Sequential(nn.Linear(SIZE, 3)).eval(), {nn.Linear}, torch.float16)
        torch.jit.trace(module, torch.randn(2, SIZE)).save(str(path))
    except RuntimeError:  # this PyTorch cannot make them
        return True
    job = {"model": str(path), "output_dir": str(given.folder), "inputs": [f"input:f32[n,{SIZE}]"]}
    answer = batch(given.bin / "hg-convert", [job], given.folder)[0]
    print(f"dynamic quantization to f16: {answer['message']}")
    return answer["status"] == "unsupported" and ("f16" in answer["message"] or "fp16" in answer["message"])


def main():
    given = with_hg_run(options(__doc__, 60))
    cases, jobs, refused = [], [], {}
    if not refuses_half(given):
        sys.exit(1)
    for seed in range(given.seed, given.seed + given.count):
        folder = given.folder / str(seed)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with torch.no_grad():
                module, draw, what = drawn(seed)
                x = draw(2)
                module(x)
                script = torch.jit.trace(module, x, check_trace=False) if (seed % 3 or "upsample" in what) and what != "counted" else torch.jit.script(module)
                script.save(str(folder / "model.pt"))
        except Exception as error:  # PyTorch cannot make, run or save this one
            refused[type(error).__name__] = refused.get(type(error).__name__, 0) + 1
            continue
        sizes = ",".join(map(str, x.shape[1:]))
        given_input = f"x:f32[n,{sizes}]" if x.is_floating_point() else f"x:i64[n,{sizes}]=0..8"
        jobs.append({"model": str(folder / "model.pt"), "output_dir": str(folder), "inputs": [given_input]})
        cases.append((seed, folder, module, draw, what))
    runs, wanted = [], []
    for seed, folder, module, draw, what in converted(given, jobs, cases):
        torch.manual_seed(seed + 1)
        for run in range(RUNS):
            x = draw((1, 3, 2)[run])
            np.save(folder / f"x{run}.npy", x.numpy())
            with torch.no_grad():
                wanted.append((f"seed {seed}, run {run}, {what}", module(x).numpy()))
            runs.append({"model": str(folder / "model.hgm"), "inputs": [str(folder / f"x{run}.npy")], "output_dir": str(folder / str(run))})
    equal = close = 0
    for (what, want), job, answer in zip(wanted, runs, batch(given.bin / "hg-run", runs, given.folder)):
        paths = sorted(Path(job["output_dir"]).glob("*.npy"))
        got = np.load(paths[0]) if answer["status"] == "ok" and paths else None
        if got is None or got.shape != want.shape:
            print(f"{what}: {answer}")
            continue
        most = np.abs(want).max(initial=0)
        steps = np.diff(np.unique(want))
        level = most / 100 if "dynamic" in what or not steps.size else np.median(steps)
        apart = np.abs(got - want)
        many, far = (0.65, 2.01) if "averages" in what else (1 / 6, 6.01)
        if apart.max(initial=0) <= (0 if what.endswith("embedding") else 1e-5 * most):
            equal += 1
        elif not what.endswith(("embedding", "bag")) and apart.max() <= far * level and (apart > 0.5 * level).sum() <= 2 + want.size * many:
            close += 1
        else:
            print(f"{what}: wrong by {apart.max() / level:.2f} levels, {(apart > 0.5 * level).mean():.3f} of the numbers differ")
    print(f"{len(cases)} files, {len(wanted) // RUNS} converted, {equal} runs equal, {close} within a level, of {len(wanted)}; PyTorch refused {refused}")
    if equal + close != len(wanted) or equal < 0.6 * len(wanted) or len(wanted) != RUNS * len(cases):
        sys.exit(1)


main()
