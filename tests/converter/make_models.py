# SPDX-License-Identifier: Apache-2.0
"""Writes the files that convert_test passes to hg-convert: small models, and files that are not models.

Usage: make_models.py FOLDER. Without torch it writes only a file `skipped`.
"""
import warnings
import zipfile
from typing import List, Optional

from maker import folder

import torch
from torch import nn

warnings.simplefilter("ignore")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 3)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


class Two(nn.Module):
    def forward(self, left, right):
        return left + right, left * right


class Rows(nn.Module):
    """Tracing turns len(x) into a number, so the trace is right only for a batch of two."""

    def forward(self, x):
        return x.view(len(x), 2, 2) * 2


class Baked(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = Rows()

    def forward(self, x):
        return self.head(torch.relu(x))


class Positions(nn.Module):
    """A short table whose entries are read from past * past + 8 on."""

    def __init__(self):
        super().__init__()
        self.positions = nn.Embedding(16, 8)
        self.words = nn.Embedding(50, 8)

    def forward(self, ids: torch.Tensor, past: torch.Tensor):
        start = past.size(1) * past.size(1) + 8
        at = torch.arange(start, start + ids.size(1))
        return torch.cat([past, self.words(ids) + self.positions(at)], 1)


class Halved(nn.Module):
    """Sizes divisible by a power of two are restored."""

    def __init__(self, pool, up):
        super().__init__()
        self.pool, self.up = pool, up

    def forward(self, x):
        return x + self.up(self.pool(x))


class Numbers(nn.Module):
    """Tracing turns Python numbers into tensors, which must not affect the result's dtype."""

    def forward(self, x):
        return x + 1.5, x * 0.5


class Product(nn.Module):
    def forward(self, left, right):
        return torch.matmul(left, right)


class Unsupported(nn.Module):
    def forward(self, x):
        y = torch.special.airy_ai(x) + torch.binomial(x.abs(), torch.sigmoid(x))
        return y + torch.special.airy_ai(y)


class Detached(nn.Module):  # its gradient is x^2 + 4 x + 2 + mean(x) + sum(x) + max(x)
    def forward(self, x: torch.Tensor):
        with torch.no_grad():
            square = x * x
        double = x * 2
        double.detach().mul_(3)  # changes only the numbers
        triple = x * 3
        triple.detach_()
        pair: List[float] = torch.stack([x.sum(), x.prod()]).tolist()
        numbers = float(x.mean()) + pair[0]
        return square * x + x.data * x + double + triple * x + x * numbers + x * x.max().item()


class Codec(nn.Module):
    """Methods over shared weights and a buffer; reset has no output."""

    def __init__(self):
        super().__init__()
        self.table = nn.Linear(64, 64, bias=False)
        self.register_buffer("last", torch.zeros(64))

    @torch.jit.export
    def encode(self, x: torch.Tensor, scale: float) -> torch.Tensor:
        code = self.table(x) * scale
        self.last.copy_(code[0])
        return code

    @torch.jit.export
    def decode(self, z: torch.Tensor) -> torch.Tensor:
        return self.table(z) + self.last

    @torch.jit.export
    def reset(self):
        self.last.zero_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.table(x)


class Frozen(nn.Module):
    """Non-tensor attributes that methods set."""

    scale: float
    calls: int
    shapes: List[int]
    cache: Optional[torch.Tensor]

    def __init__(self):
        super().__init__()
        self.scale = 1.5
        self.calls = 0
        self.shapes = [1, 2]
        self.cache = None
        self.tensors = [torch.zeros(2), torch.ones(2)]
        self.register_buffer("total", torch.zeros(2))

    @torch.jit.export
    def add(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.total.add_(x)
        return self.total * 1

    @torch.jit.export
    def read_calls(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.calls

    @torch.jit.export
    def set_scale(self, x: torch.Tensor) -> torch.Tensor:
        self.scale = 2.5
        return x * self.scale

    @torch.jit.export
    def scaled(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale

    @torch.jit.export
    def note_shape(self, x: torch.Tensor) -> torch.Tensor:
        self.shapes.append(x.size(0))
        return x * 2

    @torch.jit.export
    def read_shapes(self, x: torch.Tensor) -> torch.Tensor:
        return x + len(self.shapes)

    @torch.jit.export
    def keep(self, x: torch.Tensor) -> torch.Tensor:
        self.cache = x * 2
        return x

    @torch.jit.export
    def read_cache(self, x: torch.Tensor) -> torch.Tensor:
        cache = self.cache
        if cache is not None:
            x = x + cache
        return x + 1

    @torch.jit.export
    def write_list(self, x: torch.Tensor) -> torch.Tensor:
        self.tensors[0].add_(x)
        return x * 3

    @torch.jit.export
    def read_list(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.tensors[0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


class Noisy(nn.Module):
    def forward(self, x):
        return x + torch.rand(3), x * 2


class Far(nn.Module):
    """Default values take neither the body of the `if` nor an iteration of the loop."""

    def forward(self, x):
        rounds = 0
        if bool(x.abs().max() > 50):
            x = x / 2
        while bool(x.abs().max() > 10):
            x = x * 0.5
            rounds += 1
        return x, rounds


class Never(nn.Module):
    def forward(self, x):
        if bool(x.abs().sum() < 0):
            return x * 2
        return x + 1


class Many(nn.Module):
    """Seven branches that no value takes."""

    def forward(self, x):
        y = x
        if bool(x.abs().sum() < 0):
            y = y * 2
        if bool(x.abs().sum() < -1):
            y = y * 3
        if bool(x.abs().sum() < -2):
            y = y * 4
        if bool(x.abs().sum() < -3):
            y = y * 5
        if bool(x.abs().sum() < -4):
            y = y * 6
        if bool(x.abs().sum() < -5):
            y = y * 7
        if bool(x.abs().sum() < -6):
            y = y * 8
        return y


class Endless(nn.Module):
    def forward(self, x):
        while bool(x.sum() > 5):
            x = x * 1.0
        return x


class Raises(nn.Module):
    def forward(self, x):
        if bool(x.sum() > 1e6):
            raise ValueError("too large")
        return x * 2


class Head(nn.Module):
    def forward(self, x):
        return x[:5] * 2, torch.nonzero(x[0] > 2)


class Squeezed(nn.Module):
    def forward(self, x):
        return x.squeeze(1)


class Chunked(nn.Module):
    def forward(self, x):
        a, b, c = x.chunk(3)
        return a[:1] + b[:1] * c[:1], x[:100].sum(1)


class Thirds(nn.Module):
    def forward(self, x):
        a, b, c = x.chunk(3)
        return a.sum(0) + b.mean(0), c


def save(name, module, *inputs):
    torch.manual_seed(0)
    torch.jit.trace(module.eval(), inputs, check_trace=False).save(str(folder / name))


def rewrite(source, target, change):
    """Copies an archive with changed code."""
    with zipfile.ZipFile(folder / source) as old, zipfile.ZipFile(folder / target, "w") as new:
        for info in old.infolist():
            data = old.read(info)
            if info.filename.endswith(".py"):
                data = change(data.decode()).encode()
            elif info.filename.endswith(".debug_pkl"):
                continue
            new.writestr(info.filename, data)


torch.manual_seed(0)
net = Net()
save("net.pt", net, torch.randn(2, 4))
save("conv.pt", nn.Conv2d(3, 4, 3), torch.randn(1, 3, 8, 8))
save("two.pt", Two(), torch.randn(2, 4), torch.randn(2, 4))
save("baked.pt", Baked(), torch.randn(2, 4))
save("squeezed.pt", Squeezed(), torch.randn(2, 1, 6))
save("chunked.pt", Chunked(), torch.randn(6, 4))
save("numbers.pt", Numbers(), torch.arange(3))
save("product.pt", Product(), torch.randn(3, 4), torch.randn(4))
save("unsupported.pt", Unsupported(), torch.randn(4, 4))
save("noisy.pt", Noisy(), torch.randn(2, 3))
torch.jit.script(net).save(str(folder / "scripted.pt"))
torch.jit.script(nn.Linear(6, 3)).save(str(folder / "linear.pt"))
torch.jit.script(Thirds()).save(str(folder / "thirds.pt"))
torch.jit.script(Positions()).save(str(folder / "positions.pt"))
torch.jit.script(Halved(nn.MaxPool3d(4), nn.ConvTranspose3d(1, 1, 4, 4))).save(
    str(folder / "volume.pt")
)
torch.jit.script(Halved(nn.MaxPool2d(128), nn.ConvTranspose2d(3, 3, 128, 128))).save(
    str(folder / "image.pt")
)
torch.jit.script(Detached()).save(str(folder / "detached.pt"))
for module in (Far, Never, Many, Endless, Raises, Head, Codec, Frozen):
    torch.jit.script(module()).save(str(folder / (module.__name__.lower() + ".pt")))
tuned = Net()
tuned.first.requires_grad_(False)
save("tuned.pt", tuned, torch.randn(2, 4))
torch.save(net.state_dict(), str(folder / "state_dict.pt"))
torch.save({"model": net.state_dict(), "epoch": 3}, str(folder / "checkpoint.pt"))
torch.save(net, str(folder / "pickled.pt"))
torch.save(net.state_dict(), str(folder / "old_state_dict.pt"), _use_new_zipfile_serialization=False)
if hasattr(torch, "export") and hasattr(torch.export, "save"):
    torch.export.save(torch.export.export(net, (torch.randn(2, 4),)), str(folder / "exported.pt2"))

with torch.no_grad():
    net.first.weight[0, 0] = float("nan")
save("nan.pt", net, torch.randn(2, 4))

rewrite("two.pt", "newer.pt", lambda code: code.replace("torch.mul(", "torch.mul_of_the_future("))
rewrite("two.pt", "newer_argument.pt", lambda code: code.replace("torch.mul(left, right)", "torch.mul(left, right, speed=2)"))
rewrite("two.pt", "custom.pt", lambda code: code.replace("torch.mul(left, right)", "ops.acme.wave(left, right, 2., gain=3)"))
rewrite("two.pt", "custom_two.pt", lambda code: code.replace("torch.mul(left, right)", "ops.acme.wave(left, 2., other=right, gain=3)"))
for name, arguments in (("nms", "0.5"), ("roi_align", "0.5, 2, 2, 0, False")):
    call = f"ops.torchvision.{name}(left, right, {arguments})"
    rewrite("product.pt", name + ".pt", lambda code: code.replace("torch.matmul(left, right)", call))
whole = (folder / "net.pt").read_bytes()
(folder / "truncated.pt").write_bytes(whole[: len(whole) // 2])
(folder / "made").write_text(torch.__version__ + "\n")
