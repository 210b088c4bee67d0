# SPDX-License-Identifier: Apache-2.0
"""Modules, how they are exported, and other inputs for which the file must compute the same results."""
import inspect
from dataclasses import dataclass, field
from typing import Any, Callable

import torch
import torch.nn.functional as F
from torch import nn

import composed
import quantized
from torch.export import Dim

N = Dim("n", min=1, max=64)
AUTO = Dim.AUTO


@dataclass
class Case:
    name: str
    module: Callable[[], nn.Module]
    args: tuple
    kwargs: dict = field(default_factory=dict)
    dynamic: Any = None
    others: list = field(default_factory=list)
    refused: list = field(default_factory=list)  # inputs that the export's guards reject; hg-run must also reject them
    decompose: str = ""  # "core", or "train" for the decompositions of training
    strict: bool = False
    options: tuple = ()
    exit: int = 0
    words: tuple = ()
    difference: Any = None  # replaces the default comparison
    traced: str = ""  # an --input option: the traced module must have outputs of the same names
    random: bool = False  # torch.export may reject it, and its guards may reject inputs that eager PyTorch accepts


all_cases: list[Case] = []


def case(*args, decomposed=True, name="", **more):
    """Adds what makes a module, or a function as the forward method of one: exported, and with its core aten decomposition."""
    def add(module):
        if "self" in inspect.signature(module).parameters:
            module = type(module.__name__, (nn.Module,), {"forward": module})
        title = name or module.__name__
        all_cases.append(Case(title, module, args, **more))
        if decomposed:
            all_cases.append(Case(title + "_core", module, args, decompose="core", **more))
        return module
    return add


def rand(*sizes):
    return torch.randn(*sizes)


torch.manual_seed(0)


@case(rand(3, 4), dynamic=({0: N},), others=[(rand(1, 4),), (rand(7, 4),)])
class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.second(F.gelu(self.first(x)))


@case(rand(2, 3, 16, 16), dynamic=({0: N, 2: AUTO, 3: AUTO},), others=[(rand(1, 3, 20, 24),)])
class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1, stride=2), nn.BatchNorm2d(8)
        self.depthwise, self.head = nn.Conv2d(8, 8, 3, groups=8), nn.Linear(8, 5)
        self.eval()

    def forward(self, x):
        x = F.relu6(self.norm(self.conv(x)))
        return self.head(F.adaptive_avg_pool2d(F.hardswish(self.depthwise(x)), 1).flatten(1))


@case(rand(2, 5, 16), dynamic=({0: N, 1: Dim("t", min=1, max=128)},),
      others=[(rand(1, 1, 16),), (rand(3, 9, 16),)])
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
        self.eval()

    def forward(self, x):
        return self.layer(x)


@case(rand(2, 3), dynamic=({0: N},), others=[(rand(5, 3),)], traced="x:f32[n,3]", decomposed=False)
def named_outputs(self, x):
    return {"logits": x * 2, "last_hidden_state": x + 1, "aux": x.exp()}


@case(rand(2, 3), dynamic=({0: N},), traced="x:f32[n,3]", decomposed=False)
def some_named_outputs(self, x):
    return x * 2, {"l": x + 1, "k": x.exp()}, x.sin()


@case({"b": rand(2, 3), "a": [rand(2), (rand(3),)]}, kwargs={"scale": rand(3), "twice": True},
      others=[(({"b": rand(2, 3), "a": [rand(2), (rand(3),)]},), {"scale": rand(3), "twice": True})])
def nested(self, tree, *, scale=None, twice=False, missing=None):
    y = tree["b"] * scale + tree["a"][1][0]
    if twice:
        y = y * 2
    return {"z": [y, None, (tree["a"][0],)], "a": y.sum()}


@case(rand(4), others=[(rand(4),)])
class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.register_buffer("total", torch.ones(4), persistent=False)

    def forward(self, x):
        self.steps.add_(1)
        self.total += x
        return self.total * 2 + self.steps


@case(rand(4, 3, 5), others=[(rand(4, 3, 5),)])
class TrainedNorms(nn.Module):
    """In training mode. After decomposition, the running statistics are results of the op."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.BatchNorm1d(3, momentum=0.7), nn.BatchNorm1d(3, affine=False)
        self.instance = nn.InstanceNorm1d(3, track_running_stats=True)

    def forward(self, x):
        y = self.instance(self.second(self.first(x)))
        return y, self.first.running_var * 1, self.second.running_mean + 0, self.instance.running_var * 2


@case(rand(4), others=[(rand(4),)])
def writes(self, x):
    x.mul_(2)
    y = torch.zeros(4)
    y[1:3] = x[1:3]
    y[0].add_(5)
    return y + 1


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 6)
        self.out = nn.Linear(6, 10, bias=False)
        self.out.weight = self.embed.weight
        self.register_buffer("flipped", torch.arange(12.).view(3, 4).t())

    def forward(self, ids):
        return self.out(self.embed(ids)) + self.flipped[0, 1]


case(torch.randint(0, 2, (2, 5)), dynamic=({0: N, 1: AUTO},),
     others=[(torch.randint(0, 2, (1, 3)),)], name="Tied")(Tied)


@case(rand(6, 4), dynamic=({0: AUTO},), others=[(rand(9, 4),), (rand(2, 4),)])
class Sizes(nn.Module):
    def forward(self, x):
        n, k = x.shape
        half = n // 2
        y = torch.cat([x[:half], x[half:]]).view(n * k // k, k)
        return y * (n % 3) + torch.sym_max(n, 3) + torch.sym_float(n) / 2 - torch.sym_min(half, 4) + (n ** 2), n * 2 + 1


@case(rand(3, 4), dynamic=({0: AUTO},), others=[(rand(5, 4),), (rand(2, 4),)])
def list_of_sizes(self, x):
    return x + torch.tensor([x.shape[0], 2, x.shape[0] * 2 + 1, 4]), torch.tensor([x.shape[0] / 2, 0.5])


@case(rand(3, 4), dynamic=({0: AUTO},), others=[(rand(5, 4),), (rand(9, 4),)])
def powers_of_sizes(self, x):
    n = x.shape[0]
    return x * (n ** 2 % 7), x.new_zeros(n ** 3 // 4 + 2)


@case(rand(12), rand(4), dynamic=({0: AUTO}, {0: AUTO}), others=[(rand(6), rand(2))],
      refused=[(rand(3), rand(1)), (rand(12), rand(3)), (rand(60), rand(20))])
def branches(self, x, y):
    torch._check(x.shape[0] <= 50)
    z = x.sin() if x.shape[0] > 4 else x.cos()
    return z.view(-1, 3, y.shape[0])


@case(torch.tensor([2, 5, 1]), rand(6), dynamic=(None, {0: AUTO}),
      options=("--input", "at:i64[3]=1..2"))
def unbacked(self, at, x):
    k = at[0].item()
    torch._check(k >= 1)
    torch._check(k < x.shape[0])
    return x[:k] * 2, torch.ones(k)


@case(rand(4, 3), rand(8, 3), dynamic=({0: N}, {0: 2 * N}), others=[(rand(3, 3), rand(6, 3))])
class Twice(nn.Module):
    def forward(self, a, b):
        return b.view(a.size(0), 2, 3).sum(1) + a


@case(rand(8, 3), dynamic=({0: 4 * N},), others=[(rand(4, 3),), (rand(20, 3),)])
def derived(self, x):
    return x.view(-1, 4, 3).mean(1)


@case(rand(5), 3, dynamic=({0: N}, AUTO), others=[(rand(7), 2)], decomposed=False)
class Number(nn.Module):
    def forward(self, x, k: int):
        return x * k + x[:k].sum()


@case(rand(3, 4), rand(9), 3, dynamic=(None, {0: AUTO}, AUTO), others=[(rand(3, 4), rand(7), 7)], strict=True, decomposed=False)
class StrictNumber(nn.Module):
    """The guards of a strict export refer to inputs by number, not by name."""
    def forward(self, x, y, k: int):
        return x.repeat(k, 1), y[:k] * k


@case(rand(3, 4), others=[(rand(3, 4) - 5,), (rand(3, 4) + 5,)])
class Cond(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda v: (v.sin(), v.sum(0)), lambda v: (v.cos() * 2, v[1] * 1),
                          (x,))


@case(rand(3, 4), dynamic=({0: N},), others=[(rand(9, 4),), (rand(2, 4),)])
def cond_on_size(self, x):
    return torch.cond(x.shape[0] > 4, lambda v: v.sin(), lambda v: v.cos(), (x,))


@case(rand(3, 4), others=[(rand(3, 4) * 100,)])
class While(nn.Module):
    def forward(self, x):
        from torch._higher_order_ops.while_loop import while_loop
        return while_loop(lambda i, v: (v.abs().max() > 0.5) & (i < 20), lambda i, v: (i + 1, v * 0.5),
                          (torch.zeros((), dtype=torch.long), x))


@case(rand(3), rand(5, 3), others=[(rand(3), rand(5, 3))])
class Scan(nn.Module):
    def forward(self, start, xs):
        from torch._higher_order_ops.scan import scan
        return scan(lambda carry, x: (carry * 0.5 + x, (carry + x).tanh()), start, xs)


@case(rand(5, 3), rand(3), others=[(rand(5, 3), rand(3))])
class Map(nn.Module):
    def forward(self, xs, y):
        from torch._higher_order_ops.map import map as hop_map
        return hop_map(lambda x, v: x.sin() + v, xs, y)


@case(rand(4, 5), others=[(rand(4, 5),)])
def out_arguments(self, x):
    y, values, indices = x * 1, torch.zeros_like(x), torch.zeros_like(x, dtype=torch.int64)
    last, first = y.unbind(0)[-1], values[0]
    torch.mul(x - 1, y, out=y)
    torch.sort(x, 1, out=(values, indices))
    return y, last, first + 1, indices[1]


@case(rand(3, 4), others=[(rand(3, 4),)])
class NoGrad(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        with torch.no_grad():
            y = self.linear(x)
        return y + self.linear(x)


def with_nan(*sizes):
    x = torch.randint(-3, 4, sizes).float()
    return torch.where(torch.rand(sizes) < 0.2, torch.tensor(float("nan")), x)


@case(with_nan(9, 40), dynamic=({0: N},), others=[(with_nan(n, 40),) for n in (1, 2, 5, 17, 30, 60)])
def mode_of_nan(self, x):
    return *x.mode(0), *x.mode(1), *x.double().mode(1), x.bfloat16().mode(1)[0].float(), x.half().mode(1)[1]


@case(torch.tensor([1., 0., -2., 0., 3.]), others=[(torch.tensor([0., 0., 1., 0., 0.]),), (torch.zeros(5),)])
def non_zero(self, x):
    at = x.nonzero()
    return x[at[:, 0]] * 2, at


@case(torch.tensor([1, 2, 3]), others=[(torch.tensor([3, 0, 1]),)])
class Item(nn.Module):
    def forward(self, x):
        n = x[0].item()
        torch._check(n >= 0)
        torch._check(n < 100)
        return torch.ones(n, 2) * n


@case(rand(2, 5), torch.tensor([1, 3]), others=[(rand(2, 5), torch.tensor([0, 4]))], decomposed=False)
def asserted(self, x, at):
    return torch.tensor_split(x, at, dim=1)


@case(rand(2, 3, 8), rand(2, 3, 8), others=[(rand(2, 3, 8), rand(2, 3, 8))])
def attention(self, q, k):
    mask = torch.ones(3, 3, dtype=torch.bool).tril()
    nothing = torch.zeros(3, 3).index_fill(0, torch.tensor([1]), -float("inf"))
    weights = torch.ops.aten._scaled_dot_product_attention_math(q, k, k, nothing)[1]
    some = F.scaled_dot_product_attention(q, k, k, attn_mask=nothing)
    return F.scaled_dot_product_attention(q, k, k, attn_mask=mask), F.scaled_dot_product_attention(q, k, k, is_causal=True), some, weights


@case(rand(4, 6), others=[(rand(4, 6),)])
def many_results(self, x):
    values, indices = x.topk(2, dim=1)
    low, high = x.aminmax(dim=0)
    first, *_, last = x.chunk(3, dim=1)
    a, b = x.split([2, 4], dim=1)
    return values, indices, low, high, first, last, b, torch.stack(x.unbind(1)[1:3]), x.std(dim=1, correction=0)


@case(rand(4, 6), others=[(rand(4, 6),)])
def indexing(self, x):
    at = torch.tensor([2, 0, 1])
    return x[:, at], x[at, None, at], x[x > 0].sum(), x[..., -1], x[::2, 1:5:3], x.gather(1, at.view(1, 3))


@case(rand(4, 6), others=[(rand(4, 6),)])
class Constants(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.arange(6.)

    def forward(self, x):
        y = x + self.table + torch.tensor([1., 2., 3., 4., 5., 6.])
        y = y.masked_fill(y < 0, float("-inf")).to(torch.float64).clamp(min=-1e3)
        return y.to(torch.int64), torch.full((2, 3), 7), torch.arange(0, 1, 0.25), y.new_zeros(2), torch.zeros_like(x, dtype=torch.bool)


@case(rand(2, 5, 4), others=[(rand(2, 5, 4),)])
class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.gru = nn.LSTM(4, 6, batch_first=True, bidirectional=True), nn.GRU(12, 3)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        return self.gru(y)[0], h, c


@case(rand(2, 3, 8, 8), others=[(rand(2, 3, 8, 8),)])
def images(self, x):
    return (F.interpolate(x, scale_factor=2, mode="bilinear"), F.max_pool2d(x, 2), F.avg_pool2d(x, 3, 1, 1),
            F.pad(x, (1, 2, 0, 1), mode="reflect"), F.pixel_shuffle(x.repeat(1, 4, 1, 1), 2), F.group_norm(x, 3),
            F.interpolate(x, size=(5, 7), mode="nearest"), F.unfold(x, 3))


@case(rand(3, 4), dynamic=({0: N},), others=[(rand(7, 4),), (rand(1, 4),)])
class Vmap(nn.Module):
    """Regions of vmap stay in the program until it is decomposed."""
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 5))

    def forward(self, x):
        vmap = torch.func.vmap
        one = vmap(lambda row: (row @ self.weight, row.sum() * row))(x)
        each = vmap(vmap(lambda a, b: a * b + a.sin(), in_dims=(0, None)), in_dims=(None, 0))(x[0], x[:, 1])
        return one, each, vmap(lambda row: row.softmax(0), in_dims=1)(x)


@case(rand(5, 3), rand(5, 3), others=[(rand(5, 3), rand(5, 3))])
class AssociativeScan(nn.Module):
    def forward(self, a, x):
        from torch._higher_order_ops.associative_scan import associative_scan
        return (associative_scan(lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (a, x), 0, combine_mode="generic"),
                associative_scan(torch.maximum, x, 1, reverse=True, combine_mode="generic"))


@case(rand(5, 3), dynamic=({0: AUTO},), others=[(rand(7, 3),), (rand(9, 3),)], refused=[(rand(15, 3),), (rand(20, 3),)])
class OneRow(nn.Module):
    """At the size of the export there is one part, whose dim is dropped."""
    def forward(self, x):
        return x[:(x.shape[0] + 5) // 10].squeeze(0) * 2


@case(rand(5, 3), rand(5, 3), dynamic=({0: N}, {0: N}), others=[(rand(9, 3), rand(9, 3)), (rand(1, 3), rand(1, 3))], decomposed=False)
class AssociativeScanOp(nn.Module):
    """In the form of exports for a GPU."""
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.tensor([0.5, 1.0, -1.0]))

    def forward(self, a, x):
        from torch._higher_order_ops.associative_scan import associative_scan_op
        return associative_scan_op(lambda a, x, b, y, scale: (a * b, b * x + y * 1), (a, x), (self.scale,))


@case(torch.tensor([[1, 2], [2, 0]]), dynamic=({0: N},),
      others=[(torch.tensor([[3, 3], [1, 9], [0, 0]]),), (torch.tensor([[5, 6]]),)])
class RenormedEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Embedding(10, 4, max_norm=1.0), nn.Embedding(10, 6, max_norm=2.0, norm_type=1.0)

    def forward(self, at):
        return self.first(at), self.second(at), self.first.weight * 1


@case(torch.tensor([0, 1 + 2j, -3]), others=[(torch.tensor([-1j, 0, 0]),)])
def powers_of_zero(self, z):
    return torch.view_as_real(z ** -1), torch.view_as_real(z ** -0.5), torch.view_as_real(z ** z), torch.view_as_real(z ** 1.5)


@case(rand(3, 8), torch.randn(3, 5, dtype=torch.complex64), others=[(rand(3, 8), torch.randn(3, 5, dtype=torch.complex64))])
def fourier(self, x, z):
    fft = torch.fft
    return (torch.view_as_real(fft.rfft(x, norm="ortho")), fft.irfft(z, n=9), fft.irfft2(z, s=(4, 7), norm="forward"),
            torch.view_as_real(fft.fft2(x)), torch.view_as_real(fft.ifft(z, dim=0)), fft.hfft(z), torch.view_as_real(fft.ihfft(x).resolve_conj()),
            torch.view_as_real(fft.fftn(z, s=(2, 6), norm="ortho")), torch.view_as_real(fft.rfftn(x, dim=(1, 0))))


@case(rand(4, 6).double(), torch.tensor([[0, 2], [1, 3], [5, 0], [4, 4]]),
      others=[(rand(4, 6).double(), torch.tensor([[1, 2], [3, 3], [0, 0], [5, 4]]))])
class NumbersOfDoubles(nn.Module):
    """No number is rounded to 32 bits."""
    def forward(self, x, at):
        y = x.masked_fill(x > 1, 0.1).index_fill(1, at[0], 0.3).index_add(0, at[1] % 4, x[:2], alpha=0.7)
        z = x.scatter(1, at, 0.1)
        z[0, 1:3] = 0.7
        return (x.lerp(y, 0.1), y, z, x.index_put((at[:, 0] % 4, at[:, 1]), torch.tensor(0.9, dtype=torch.float64)), torch.where(x > 0, x, 0.1),
                torch.full_like(x, 0.1), x.clamp(-0.1, 0.3), x.addcmul(x, y, value=0.1), F.pad(x, (1, 1), value=0.1))


@case(torch.randint(0, 10, (12,)), torch.tensor([0, 3, 3, 8]), others=[(torch.randint(0, 10, (12,)), torch.tensor([0, 1, 5, 12]))])
class Bags(nn.Module):
    """PyTorch does not check for descending offsets; the check must not draw any."""
    def __init__(self):
        super().__init__()
        self.bags = nn.ModuleList([nn.EmbeddingBag(10, 4, mode=mode, padding_idx=skipped, dtype=torch.float64) for mode in ("sum", "mean", "max") for skipped in (None, 2)])

    def forward(self, at, offsets):
        return [bag(at, offsets) for bag in self.bags]


@case(rand(2, 3, 12, 13), rand(5), dynamic=({0: AUTO, 2: AUTO, 3: AUTO}, {0: AUTO}), others=[(rand(3, 3, 15, 9), rand(3))], decomposed=False)
class GuardsOfReals(nn.Module):
    """Sizes are products with fractions, so guards on them cannot be evaluated at conversion."""
    def forward(self, x, y):
        torch._check(x.shape[2] ** 0.5 < 20)
        small = F.interpolate(x, scale_factor=0.7, mode="bilinear", recompute_scale_factor=True)
        return small, F.interpolate(x, scale_factor=(0.3, 0.9), mode="bicubic", recompute_scale_factor=True), torch.isin(y.round(), x[0, 0].round())


@case(rand(4, 5), dynamic=({0: N},), others=[(rand(1, 5),)])
class RandomizedRelu(nn.Module):
    def __init__(self):
        super().__init__()
        self.relu = nn.RReLU()
        self.eval()

    def forward(self, x):
        return self.relu(x)


@case(rand(3, 4, 4), others=[(rand(3, 4, 4),)])
class Decompositions(nn.Module):
    """After decomposition, errors of matrices are effects, which tokens order."""
    def forward(self, a):
        m, linalg = a @ a.mT + 4 * torch.eye(4), torch.linalg
        lower = linalg.cholesky(m)
        return (lower, linalg.inv(m), linalg.det(m), linalg.solve(m, a), linalg.eigvalsh(m), linalg.svdvals(a), *linalg.slogdet(m),
                linalg.pinv(m), linalg.qr(m)[1].abs(), torch.logdet(m), linalg.solve_triangular(lower, a, upper=False), linalg.eigh(m)[0])


@case(rand(3, 4), exit=4, words=("depends on the order in which it computes",), decomposed=False)
class WritesAcross(nn.Module):
    """PyTorch rejects overlapping dense arguments; for others, it reads elements that it has already overwritten."""
    def forward(self, x):
        y = x * 2
        y.div_(y[:, :1])
        return y


@case(rand(3, 4), others=[(rand(3, 4),)], decomposed=False)
def writes_beside(self, x):
    y = x * 2
    y[:, 1:] -= y[:, :1]
    y.mul_(y)
    y[1:].t().add_(y[0, :, None])
    return y


@case(composed.Named(rand(3, 4), (rand(3, 4),)), dynamic=(composed.Named({0: AUTO}, ({0: AUTO},)),), strict=True, decomposed=False,
      others=[(composed.Named(rand(5, 4), (rand(5, 4),)),)])
class GuardsOfFields(nn.Module):
    """Strict exports refer to fields of an input in their guards."""
    def forward(self, pair):
        return pair.left * pair.right[0]


@case(rand(3, 4), dynamic=({0: AUTO},), others=[(rand(2, 4),), (rand(7, 4),)], refused=[(rand(1, 4),)])
class TrainedRows(nn.Module):
    """One row has no variance."""
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(x)


class Tangent(nn.Module):
    def forward(self, x, y):
        return torch.func.jvp(lambda v: v.sin() * v, (x,), (y,))


case(rand(3, 4), rand(3, 4), dynamic=({0: N}, {0: N}), others=[(rand(1, 4), rand(1, 4))], name="Tangent_core", decompose="core", decomposed=False)(Tangent)
case(rand(3, 4), rand(3, 4), name="Tangent", exit=3, words=("save program.run_decompositions()",), decomposed=False)(Tangent)


@case(rand(3, 4), rand(3, 4), dynamic=({0: AUTO}, {0: AUTO}), others=[(rand(1, 4), rand(2, 4))])
class SinesOfSums(nn.Module):
    """The check uses large numbers. Rounding of the sums decides their sines."""
    def forward(self, x, y):
        from torch._higher_order_ops.map import map as hop_map
        return hop_map(lambda row, v: (row * v).sin(), x, y.sum(0))


# Sizes of the check, if ranges and guards reject the default sizes.
@case(rand(5, 4), rand(5, 3), dynamic=({}, {0: AUTO, 1: AUTO}), others=[(rand(5, 4), rand(7, 2))],
      words=("checked with s17=5, s94=3", "checked with s17=6, s94=2"), decomposed=False)
class SizesOfGuards(nn.Module):
    """The second dims are equal, and the rows are at least those of x: no single size may change alone."""
    def forward(self, x, y):
        z = y.clone()
        z.chunk(2, 1)[-1].copy_(torch.zeros_like(z.chunk(2, 1)[-1]))
        z[-x.size(0):] = z.numel()
        z.diagonal().add_(x.size(0))
        return z, (z + y).sum(0)


@case(rand(3, 4), rand(9, 3), rand(2, 2, 2), others=[(rand(3, 4), rand(9, 3), rand(2, 2, 2))], decomposed=False)
class Diagonals(nn.Module):
    def forward(self, x, tall, cube):
        x, tall, wrapped, cube = x.clone(), tall.clone(), tall.clone(), cube.clone()
        x[1:].fill_diagonal_(3)
        tall.fill_diagonal_(1.5)
        wrapped.fill_diagonal_(2, wrap=True)
        return x, tall, wrapped, cube.fill_diagonal_(7)


@case(rand(3, 2), rand(5, 2), others=[(rand(3, 2), rand(5, 2))], decomposed=False)
class PaddedSequences(nn.Module):
    def forward(self, x, y):
        return nn.utils.rnn.pad_sequence([x, y]), nn.utils.rnn.pad_sequence([y, x], batch_first=True, padding_value=2.0)


@case(rand(5), dynamic=({0: AUTO},), words=("takes no other sizes than", "nothing else is checked"), decomposed=False)
class OneSizeOfGuards(nn.Module):
    """Of the two sizes that split into three parts, a guard admits only one."""
    def forward(self, x):
        a, b, c = x.split(2)
        return (a if x.shape[0] < 6 else b) * 2, x.cumsum(0)


@case(rand(1 << 23), dynamic=({0: Dim("n", min=1 << 23)},), words=("nothing is checked: the program itself refuses all sizes",),
      decomposed=False)
class NoSizeOfGuards(nn.Module):
    """The smallest size is larger than those that the check tries."""
    def forward(self, x):
        return x * 2


# Changes that --input may make.
case(rand(3, 4), dynamic=({0: N},), name="Narrowed", decomposed=False,
     options=("--input", "x:f32[5,4]"), words=("f32[5, 4]",))(Mlp)
all_cases[-1].args = (rand(5, 4),)
case(rand(3, 4), dynamic=({0: N},), name="Renamed", decomposed=False,
     options=("--input", "x:f32[batch,4]"), words=("f32[batch, 4]",), others=[(rand(9, 4),)])(Mlp)
case(rand(3, 4), dynamic=({0: N},), name="Widened", decomposed=False, exit=1,
     options=("--input", "x:f32[n,m]"), words=("size 1 is 4 in the program",))(Mlp)
case(rand(3, 4), dynamic=({0: N},), name="OtherDtype", decomposed=False, exit=1,
     options=("--input", "x:f64[n,4]"), words=("dtype is f32, not f64",))(Mlp)


# As written by convert_pt2e.
case(rand(2, 3, 8, 8), dynamic=({0: N},), others=[(rand(5, 3, 8, 8),), (rand(1, 3, 8, 8),)],
     difference=quantized.difference)(quantized.StaticNet)
case(rand(3, 8), dynamic=({0: N},), others=[(rand(1, 8),), (rand(7, 8) * 100,)])(quantized.DynamicNet)
