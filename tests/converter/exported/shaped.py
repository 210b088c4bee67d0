# SPDX-License-Identifier: Apache-2.0
"""Random modules with views, writes and arithmetic on sizes: dynamic sizes of every kind (ranges, derived, equal,
numbers as inputs), strided and complex examples, state that many calls change, tied weights, and results that are
inputs, weights or views. A step is kept if eager PyTorch accepts it at all sizes used for the module."""
import math
import random

import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

SIZES = [(3, 4), (5, 2), (6, 7), (2, 3)]  # n and m; the first pair is exported
MOST = 600  # elements of a value


# Views: x -> view, or several views.
VIEWS = {
    "t": lambda x, p: x.transpose(p.a % x.dim(), p.b % x.dim()),
    "flat": lambda x, p: x.reshape(-1),
    "flatten": lambda x, p: x.flatten(p.a % x.dim()),
    "unflatten": lambda x, p: x.unflatten(p.a % x.dim(), (-1, 2)),
    "first": lambda x, p: x.select(p.a % x.dim(), p.b % 2),
    "last": lambda x, p: x.select(p.a % x.dim(), -1),
    "middle": lambda x, p: x.select(p.a % x.dim(), x.shape[p.a % x.dim()] // 2),
    "narrow": lambda x, p: x.narrow(p.a % x.dim(), 1, x.shape[p.a % x.dim()] - 1),
    "half": lambda x, p: x[: (x.shape[0] + 1) // 2],
    "behind": lambda x, p: x[x.shape[0] // 2:],
    "steps": lambda x, p: x[p.a % 2:: 2],
    "ends": lambda x, p: x[..., -2:],
    "from_other": lambda x, p: x[: p.y.shape[0]] if p.y.dim() else x[:1],
    "none": lambda x, p: x[:, None],
    "dots": lambda x, p: x[..., None, 0:1],
    "expand": lambda x, p: x.unsqueeze(0).expand(2, *x.shape),
    "expand_as": lambda x, p: x[:1].expand_as(x),
    "diagonal": lambda x, p: x.diagonal(p.a % 2),
    "unfold": lambda x, p: x.unfold(p.a % x.dim(), 2, 1),
    "movedim": lambda x, p: x.movedim(0, -1),
    "squeeze": lambda x, p: x.squeeze(p.a % x.dim()),
    "chunks": lambda x, p: x.chunk(2, p.a % x.dim())[0],
    "split": lambda x, p: x.split([x.shape[0] // 2, x.shape[0] - x.shape[0] // 2])[p.b % 2],
    "unbind": lambda x, p: x.unbind(1)[p.b % 2],
    "mT": lambda x, p: x.mT,
    "detach": lambda x, p: x.detach(),
    "alias": lambda x, p: x.view_as(x),
    "strided": lambda x, p: torch.as_strided(x.contiguous(), (x.shape[0], 1), (x.numel() // x.shape[0], 1)),
}
# New values.
PLAIN = {
    "add": lambda x, p: x + p.y, "mul": lambda x, p: x * p.y, "sub": lambda x, p: p.y - x * 0.5,
    "tanh": lambda x, p: x.tanh(), "sin": lambda x, p: torch.sin(x), "neg": lambda x, p: -x, "clone": lambda x, p: x.clone(),
    "contiguous": lambda x, p: x.contiguous(), "relu": lambda x, p: F.relu(x), "abs": lambda x, p: abs(x) + 1,
    "sum": lambda x, p: x.sum(p.a % x.dim(), keepdim=p.b % 2 == 0), "mean": lambda x, p: x.mean(), "var": lambda x, p: x.var(p.a % x.dim(), correction=0),
    "amax": lambda x, p: x.amax(p.a % x.dim()), "softmax": lambda x, p: x.softmax(p.a % x.dim()), "cumsum": lambda x, p: x.cumsum(p.a % x.dim()),
    "norm": lambda x, p: x.norm(dim=p.a % x.dim()), "logsumexp": lambda x, p: x.logsumexp(p.a % x.dim()), "flip": lambda x, p: x.flip(p.a % x.dim()),
    "roll": lambda x, p: x.roll(p.b, p.a % x.dim()), "roll_size": lambda x, p: x.roll(x.shape[0] // 2, 0),
    "cat": lambda x, p: torch.cat([x, p.y], p.a % x.dim()), "stack": lambda x, p: torch.stack([x, p.y], p.a % (x.dim() + 1)),
    "matmul": lambda x, p: x @ p.y, "matmul_t": lambda x, p: x @ p.y.mT, "outer": lambda x, p: x.reshape(-1)[:3, None] * p.y.reshape(-1)[None, :2],
    "einsum": lambda x, p: torch.einsum("ij,kj->ik", x, p.y), "repeat": lambda x, p: x.repeat(2, *[1] * (x.dim() - 1)),
    "repeat_size": lambda x, p: x[:1].repeat(p.y.shape[0], *[1] * (x.dim() - 1)), "tile": lambda x, p: x.tile(2),
    "interleave": lambda x, p: x.repeat_interleave(2, p.a % x.dim()), "pad": lambda x, p: F.pad(x, (p.a % 2, p.b % 2), value=0.5),
    "pad_size": lambda x, p: F.pad(x, (0, x.shape[-1] // 2)), "tril": lambda x, p: x.tril(p.a % 2), "triu": lambda x, p: x.triu(p.a % 2 - 1),
    "sort": lambda x, p: x.sort(p.a % x.dim(), descending=p.b % 2 == 1)[0], "topk": lambda x, p: x.topk(2, p.a % x.dim())[p.b % 2].to(x.dtype),
    "argmax": lambda x, p: x.argmax(p.a % x.dim()).to(x.dtype), "kthvalue": lambda x, p: x.kthvalue(2, p.a % x.dim())[0],
    "median": lambda x, p: x.median(p.a % x.dim())[0], "where": lambda x, p: torch.where(x > 0, x, p.y), "masked": lambda x, p: x.masked_fill(p.y > 0.2, 0.25),
    "clamp": lambda x, p: x.clamp(-0.5, 0.75), "lerp": lambda x, p: x.lerp(p.y, 0.3), "addcmul": lambda x, p: torch.addcmul(x, x, p.y, value=0.5),
    "gather": lambda x, p: x.gather(0, (p.y.abs() * 3).long() % x.shape[0]), "index": lambda x, p: x[(p.y.reshape(-1).abs() * 3).long() % x.shape[0]],
    "take": lambda x, p: torch.take(x, (p.y.abs() * 5).long() % x.numel()), "index_add": lambda x, p: x.index_add(0, (p.y.reshape(-1).abs() * 3).long() % x.shape[0], p.y.reshape(-1, *[1] * (x.dim() - 1)).expand(-1, *x.shape[1:])),
    "scatter": lambda x, p: x.scatter(0, (p.y.abs() * 3).long() % x.shape[0], 0.5), "put": lambda x, p: x.index_put(((p.y.reshape(-1).abs() * 3).long() % x.shape[0],), torch.tensor(0.3, dtype=x.dtype)),
    "conv": lambda x, p: F.conv1d(x[None], p.m.kernel.repeat(1, x.shape[0], 1), padding=1)[0],
    "avg": lambda x, p: F.avg_pool1d(x[None], 2, 1, 1)[0], "max_pool": lambda x, p: F.max_pool1d(x[None], 2, 1)[0],
    "adaptive": lambda x, p: F.adaptive_avg_pool1d(x[None], 2)[0], "interpolate": lambda x, p: F.interpolate(x[None], size=x.shape[-1] * 2, mode="linear")[0],
    "interpolate_scale": lambda x, p: F.interpolate(x[None], scale_factor=1.5, mode="nearest")[0],
    "layer_norm": lambda x, p: F.layer_norm(x, x.shape[-1:]), "linear": lambda x, p: F.linear(x[..., :2], p.m.tied), "tied": lambda x, p: x[..., :2] @ p.m.same.weight[:2],
    "cross": lambda x, p: torch.cdist(x, p.y), "trace": lambda x, p: x.diagonal().sum(), "kron": lambda x, p: torch.kron(x[:1], p.y[:1]),
    "bucketize": lambda x, p: torch.bucketize(x, p.m.edges).to(x.dtype), "one_hot": lambda x, p: F.one_hot((x.abs() * 2).long() % 3, 3).to(x.dtype),
    "round": lambda x, p: (x * 4).round().to(torch.int32).to(x.dtype), "remainder": lambda x, p: torch.remainder(x, 0.7), "floor_divide": lambda x, p: (x / 0.3).floor() % 3,
    "nan": lambda x, p: torch.where(x > 1, torch.tensor(float("nan"), dtype=x.dtype), x).nan_to_num(0.5), "cast": lambda x, p: x.double().float().to(x.dtype),
    "diff": lambda x, p: x.diff(dim=p.a % x.dim()), "cummax": lambda x, p: x.cummax(p.a % x.dim())[0], "rot90": lambda x, p: x.rot90(p.a, (0, 1)),
    "meshgrid": lambda x, p: torch.meshgrid(x.reshape(-1)[:2], p.y.reshape(-1)[:3], indexing="ij")[p.a % 2], "vander": lambda x, p: torch.vander(x.reshape(-1)[:3], 3),
    "block_diag": lambda x, p: torch.block_diag(x, p.y), "cartesian": lambda x, p: torch.cartesian_prod(x.reshape(-1)[:2], p.y.reshape(-1)[:2]),
    "unique": lambda x, p: torch.unique((x * 2).round()).sum() + x, "nonzero": lambda x, p: x[x > 0.1].sum() + x, "where_at": lambda x, p: x + torch.where(x > 0)[0].sum(),
    "histc": lambda x, p: torch.bincount((x.abs() * 2).long().reshape(-1) % 4, minlength=4).to(x.dtype), "masked_scatter": lambda x, p: x.masked_scatter(x > 0, p.y.reshape(-1).repeat(20)),
    "index_copy": lambda x, p: x.index_copy(0, torch.tensor([1, 0]), x[:2] * 0.5), "complex": lambda x, p: torch.view_as_real(torch.complex(x, x.cos()) * 1j).reshape(-1),
    "polar": lambda x, p: torch.polar(x.abs(), x).real, "fft": lambda x, p: torch.fft.rfft(x).abs(), "item": lambda x, p: x * x.reshape(-1)[0].item(),
    "expm1": lambda x, p: torch.special.expm1(x.clamp(max=1)), "hypot": lambda x, p: torch.hypot(x, p.y), "atan2": lambda x, p: torch.atan2(x, p.y), "prelu": lambda x, p: F.prelu(x, p.m.slope),
}
# Sizes as numbers.
SIZED = {
    "arange": lambda x, p: torch.arange(x.shape[0], dtype=x.dtype), "arange_odd": lambda x, p: torch.arange(1, 2 * x.shape[0] + 1, 2).to(x.dtype),
    "zeros": lambda x, p: x.new_zeros(x.shape[0], p.y.numel() // 2 + 1) + 0.5, "full": lambda x, p: torch.full((x.shape[0], 2), 0.5, dtype=x.dtype),
    "full_size": lambda x, p: torch.full((2,), x.shape[0] / 4, dtype=x.dtype), "eye": lambda x, p: torch.eye(x.shape[0], x.shape[-1], dtype=x.dtype),
    "linspace": lambda x, p: torch.linspace(0, 1, x.shape[0], dtype=x.dtype), "scaled": lambda x, p: x / x.shape[0], "root": lambda x, p: x / math.sqrt(x.shape[-1]),
    "power": lambda x, p: x * (x.shape[0] ** 2 % 7), "float": lambda x, p: x + x.shape[0] / 3, "mod": lambda x, p: x + x.numel() % 4,
    "tensor": lambda x, p: x + torch.tensor(x.shape[0]).to(x.dtype), "max": lambda x, p: x * torch.sym_max(x.shape[0], 4),
    "min": lambda x, p: x[: torch.sym_min(x.shape[0], 3)], "indices": lambda x, p: torch.triu_indices(x.shape[0], x.shape[0]).to(x.dtype),
    "ones_like": lambda x, p: torch.ones_like(x) * 0.5, "empty": lambda x, p: x[:0].sum() + x.shape[0], "view_sizes": lambda x, p: x.reshape(x.shape[0] * x.shape[1], *x.shape[2:]),
    "view_other": lambda x, p: x.reshape(p.y.shape), "number": lambda x, p: x * p.m.number, "cat_sizes": lambda x, p: torch.cat([x, x.new_ones(2 * x.shape[0] + 1, *x.shape[1:])]),
    "ceil": lambda x, p: x + math.ceil(x.shape[0] / 2), "floor": lambda x, p: x + int(x.shape[0] * 0.7), "chunk_sum": lambda x, p: sum(c.sum() for c in x.chunk(3)) + x,
    "tensor_list": lambda x, p: torch.tensor([x.shape[0], x.dim()]).to(x.dtype), "stack_sizes": lambda x, p: torch.stack([torch.tensor(s) for s in x.shape]).to(x.dtype),
    "mask": lambda x, p: x.masked_fill(torch.arange(x.shape[0]) .reshape(-1, *[1] * (x.dim() - 1)) > x.shape[0] // 2, 0.5), "causal": lambda x, p: torch.ones(x.shape[0], x.shape[0], dtype=torch.bool).tril().to(x.dtype),
}


def written(z, p):
    z[0] = p.y.reshape(-1)[0]


# Writes to values whose views are read afterwards; a step may return the value that it writes to.
WRITES = {
    "mul_": lambda x, p: x.mul_(0.5), "add_y": lambda x, p: x.add_(p.y), "row": lambda x, p: x[0].fill_(0.25), "column": lambda x, p: x[..., 0].add_(0.5),
    "copy_view": lambda x, p: x.t().copy_(p.y), "transposed": lambda x, p: x.transpose(0, -1).mul_(0.5), "flat_": lambda x, p: x.view(-1)[:2].neg_(),
    "diagonal_": lambda x, p: x.diagonal().add_(1), "slice_": lambda x, p: x[1:].copy_(x[:-1].clone()), "assign": lambda x, p: written(x, p) or x,
    "masked_": lambda x, p: x.masked_fill_(x > 0.5, 0.25), "put_": lambda x, p: x.__setitem__(x > 0.3, 0.1) or x, "half_": lambda x, p: x[: x.shape[0] // 2].tanh_(),
    "index_": lambda x, p: x.index_fill_(0, torch.tensor([0, 1]), 0.3), "swap": lambda x, p: x.copy_(x.flip(0)), "narrow_": lambda x, p: x.narrow(-1, 0, 1).zero_(),
    "clamp_": lambda x, p: x.clamp_(-0.5, 0.5), "step_": lambda x, p: x[::2].sub_(0.25), "unbind_": lambda x, p: x.unbind(0)[1].mul_(2), "scatter_": lambda x, p: x.scatter_(0, (x.abs() * 2).long() % 2, 0.1),
    "as_strided_": lambda x, p: x.as_strided((2,), (1,)).add_(0.5), "out": lambda x, p: torch.add(x, 1, out=x), "accumulate": lambda x, p: x.index_put_((torch.tensor([0, 0, 1]),), torch.tensor(0.5, dtype=x.dtype), accumulate=True),
}


# State.
def ring(m, x):
    m.memory[m.at % 4] = x.detach().mean().to(m.memory.dtype)
    m.at += 1
    return m.memory.sum()


def moving(m, x):
    m.total.mul_(0.5).add_(x.detach().reshape(-1)[:2] * 0.5)
    return m.total * 1


def seen(m, x):
    m.count += x.shape[0]
    return m.count.to(x.dtype) * 0.1


def shifted(m, x):
    m.memory.copy_(torch.cat([m.memory[1:], x.detach().reshape(-1)[:1]]))
    return m.memory[None] * 0.5


def of_view(m, x):
    part = m.grid[1:]
    part.t()[0].add_(x.detach().amax())
    part.clamp_(-2, 2)
    return m.grid * 0.5


def of_both(m, x):
    m.grid.mul_(0.5)
    before = m.grid[0] * 1
    m.grid[0] += 1
    return before + m.grid[0] + m.total


def replaced(m, x):
    m.total = m.total * 0.5 + x.detach().sum() * 0.1
    return m.total


def flagged(m, x):
    m.flag.logical_not_()
    return torch.where(m.flag, x, x * 0.5)


STATES = {f.__name__: f for f in (ring, moving, seen, shifted, of_view, of_both, replaced, flagged)}


class P:
    """What a step may use in addition to its value."""

    def __init__(self, m, y, a, b):
        self.m, self.y, self.a, self.b = m, y, a, b


def fits(x):
    return isinstance(x, torch.Tensor) and x.numel() <= MOST and x.dim() <= 4


class Shaped(nn.Module):
    def __init__(self, seed):
        super().__init__()
        draw = random.Random(seed)
        self.dtype = draw.choice([torch.float32, torch.float32, torch.float64])
        torch.manual_seed(seed)
        self.same = nn.Linear(2, 3, bias=False)
        self.tied = self.same.weight
        self.kernel, self.slope = nn.Parameter(torch.randn(2, 1, 3) * 0.3), nn.Parameter(torch.tensor([0.2]))
        self.to(self.dtype)
        self.number = draw.choice([0.5, 3, True])
        for name, value in (("memory", torch.zeros(4)), ("total", torch.ones(2)), ("grid", torch.randn(3, 2)), ("edges", torch.tensor([-1., 0., 0.5]))):
            self.register_buffer(name, value.to(self.dtype), persistent=draw.random() < 0.8)
        self.register_buffer("at", torch.tensor(0))
        self.register_buffer("count", torch.tensor(2))
        self.register_buffer("flag", torch.tensor(draw.random() < 0.5))
        self.eval()
        self.plan, self.shown = [], draw.randrange(8)
        self.draw_plan(draw, seed)

    def draw_plan(self, draw, seed):
        wanted = draw.randint(4, 14)
        known = [inputs_of(seed, k, self.dtype) for k in range(len(SIZES))]
        buffers = {k: v.clone() for k, v in self.named_buffers()}
        for _ in range(60):
            if len(self.plan) >= wanted:
                break
            room = draw.choices([VIEWS, PLAIN, SIZED, WRITES, STATES], [3, 5, 3, 3, 1])[0]
            step = (draw.choice(list(room)), draw.randrange(64), draw.randrange(64), draw.randrange(4), draw.randrange(4))
            self.plan.append(step)
            for args, kwargs in known:
                try:
                    for name, value in buffers.items():
                        getattr(self, name).copy_(value) if getattr(self, name).shape == value.shape else setattr(self, name, value.clone())
                    values = self.values(*torch.utils._pytree.tree_map(copied, (args, kwargs)))
                except Exception:  # it rejects these sizes
                    self.plan.pop()
                    break
                last = values[-1]
                if not fits(last) or not last.isfinite().all() or last.numel() and last.abs().max() > 50:
                    self.plan.pop()
                    break
        for name, value in buffers.items():
            setattr(self, name, value)

    def values(self, args, kwargs):
        leaves = [leaf for leaf in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        values = [torch.view_as_real(leaf).flatten(-2).to(self.dtype) if leaf.is_complex() else leaf for leaf in leaves]
        numbers = [leaf for leaf in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(leaf, (int, float, bool)) and not isinstance(leaf, torch.Tensor)]
        for number in numbers:
            values.append(values[0] * number)
        for name, at, other, a, b in self.plan:
            x = values[-1 - at % min(3, len(values))] if at % 4 else values[at % len(values)]
            y = values[other % len(values)]
            if name in STATES:
                values.append(STATES[name](self, x))
            elif name in WRITES:
                if not x.is_floating_point():
                    raise ValueError
                WRITES[name](x, P(self, y, a, b))
                values.append(x)
            else:
                values.append({**VIEWS, **PLAIN, **SIZED}[name](x, P(self, y, a, b)))
        return values

    def forward(self, *args, **kwargs):
        values = self.values(args, kwargs)
        last = values[-1]
        kinds = [lambda: last, lambda: tuple(values[-3:]), lambda: (last, values[0], last), lambda: {"last": last, "size": values[0].shape[0] * 2 + 1, "weight": self.tied},
                 lambda: [last, self.grid, self.edges, None, 3, 0.5, True], lambda: (values[-2:], {"x": args[0] if isinstance(args[0], torch.Tensor) else last}),
                 lambda: (last, last.reshape(-1)[:1], self.memory), lambda: values]
        return kinds[self.shown]()


def copied(leaf):
    if not isinstance(leaf, torch.Tensor):
        return leaf
    return torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype).copy_(leaf)


def signature_of(seed):
    """Returns the inputs: dims, dtypes, memory layouts, and the constraints on dynamic sizes."""
    draw = random.Random(f"signature {seed}")
    dims = [("n",), ("n", "m"), ("m", "n"), ("n", 4), ("2n", "m"), ("n+1",), ("n", "n"), ("2", "n", "m"), ("n", 1), (), ("3n", 2), ("2n+1", 2), (4, 2)]
    shapes = [draw.choice([("n", "m"), ("n", 4), ("n",), ("m", "n"), ("n", "m", 2)])] + [draw.choice(dims) for _ in range(draw.randrange(3))]
    kinds = [draw.choice(["plain"] * 6 + ["strided", "sliced", "complex", "long"] if k else ["plain"] * 6 + ["strided", "sliced"]) for k in range(len(shapes))]
    numbers = [draw.choice([2, 0.5, True]) for _ in range(draw.choice([0, 0, 0, 1]))]
    return shapes, kinds, numbers, draw.choice(["auto"] * 5 + ["dim", "ranges", "dynamic", "closed"]), draw.choice(["flat", "flat", "flat", "list", "dict", "kwargs"])


def number_of(dim, n, m):
    return {"n": n, "m": m, "2n": 2 * n, "3n": 3 * n, "n+1": n + 1, "2n+1": 2 * n + 1}.get(dim) or int(dim)


def tensor_of(shape, kind, dtype):
    if kind == "complex":
        return torch.randn(shape, dtype=torch.complex128 if dtype == torch.float64 else torch.complex64)
    if kind == "long":
        return torch.randint(0, 4, shape)
    if kind == "strided" and len(shape) > 1:
        return torch.randn(shape[::-1], dtype=dtype).permute(*range(len(shape))[::-1])
    if kind == "sliced" and shape:
        return torch.randn(*shape[:-1], 2 * shape[-1], dtype=dtype)[..., ::2]
    return torch.randn(shape, dtype=dtype)


def packed(tensors, numbers, tree):
    if tree == "list":
        return (tensors[:1], *tensors[1:], *numbers), {}
    if tree == "dict":
        return ({"b": tensors[0], "a": tuple(tensors[1:])}, *numbers), {}
    if tree == "kwargs":
        return (tensors[0], *numbers), {f"k{i}": t for i, t in enumerate(tensors[1:])}
    return (*tensors, *numbers), {}


def inputs_of(seed, k, dtype):
    shapes, kinds, numbers, _, tree = signature_of(seed)
    generator = torch.random.get_rng_state()
    torch.manual_seed(seed * 10 + k)
    n, m = SIZES[k]
    tensors = [tensor_of([number_of(d, n, m) for d in shape], kind, dtype) for shape, kind in zip(shapes, kinds)]
    torch.random.set_rng_state(generator)
    return packed(tensors, numbers, tree)


def dynamic_of(seed, args, kwargs):
    shapes, _, _, how, _ = signature_of(seed)
    if how == "closed":
        return None
    n, m = Dim("n", min=2, max=64), Dim("m", min=1 if how == "ranges" else 2, max=32 if how == "ranges" else None)
    if how == "dim":
        n, m = Dim("n"), Dim("m")
    named = {"n": n, "m": m, "2n": 2 * n, "3n": 3 * n, "n+1": n + 1, "2n+1": 2 * n + 1}
    if how in ("auto", "dynamic"):
        named = {k: Dim.AUTO if how == "auto" else Dim.DYNAMIC for k in named}
    dynamic = torch.export.ShapesCollection()
    tensors = [leaf for leaf in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    order = range(len(shapes)) if not isinstance(args[0], dict) else [*range(1, len(shapes)), 0]  # dict leaves are sorted
    for leaf, k in zip(tensors, order, strict=True):
        dynamic[leaf] = {i: named[d] for i, d in enumerate(shapes[k]) if d in named}
    return dynamic
