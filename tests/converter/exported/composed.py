# SPDX-License-Identifier: Apache-2.0
"""Random modules with torch.export features other than ops: control flow, function transforms, written state,
data-dependent sizes, and inputs and outputs in trees of all kinds. PyTorch 2.13 cannot save programs with torch.func's
grad, vjp or jacobians."""
import collections
import dataclasses
import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as hop_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

WIDTH = 4
vmap = torch.func.vmap


@dataclasses.dataclass
class Pair:
    first: Any
    second: Any = None


Named = collections.namedtuple("Named", "left right")
torch.export.register_dataclass(Pair, serialized_type_name="composed.Pair")
torch.utils._pytree._register_namedtuple(Named, serialized_type_name="composed.Named")


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def count(m, x, least, most):
    """Returns a data-dependent number in [least, most)."""
    k = ((x.float().abs().sum() * 10).long() % (most - least) + least).item()
    torch._check(k >= least)
    torch._check(k < most)
    return k


def rows(m, x, y):
    """Selects a data-dependent number of rows."""
    k = count(m, x, 1, WIDTH + 1)
    return m.weight[:k].to(x.dtype).sum(0) + x


def made(m, x, y):
    k = count(m, x, 0, 6)
    return x + torch.arange(k).sum().to(x.dtype) * 0.1 + torch.full((k, 2), 0.5, dtype=x.dtype).sum() + torch.zeros(k, WIDTH).cumsum(0).sum().to(x.dtype)


def chosen(m, x, y):
    at = (x > 0).nonzero()
    return x.index_put((at[:, 0], at[:, 1]), y[at[:, 0], at[:, 1]] * 0.5)


def kept(m, x, y):
    keep = x[:, 0] > 0
    return x + x[keep].sum(0) + torch.where(keep)[0].sum().to(x.dtype) * 0.1


def ranked(m, x, y):
    labels = (x * 2).round().long()
    values, inverse, counts = torch.unique(labels, return_inverse=True, return_counts=True)
    return x + values[inverse].to(x.dtype) * 0.1 + counts[inverse].to(x.dtype) * 0.1


def repeated(m, x, y):
    times = (x[:, 0].abs() * 2).long().clamp(max=3)
    return x + torch.repeat_interleave(y, times, 0).sum(0) * 0.1


def counted(m, x, y):
    m.steps.add_(1)
    m.total.mul_(0.5).add_(x.detach().sum(0).tanh())
    return x + m.total + m.steps.to(x.dtype) * 0.1


def cached(m, x, y):
    m.table[1] = y.detach().amax(0).tanh()
    m.table[:, 1:3].mul_(0.5)
    m.table.index_copy_(0, m.places[:1], x.detach().mean(0, keepdim=True))
    return x + m.table.sum(0) + m.table.t()[1].sum()


def replaced(m, x, y):
    m.steps += 2
    m.table.copy_(m.table.roll(1, 0) + m.steps.to(x.dtype) * 0.1)
    return x * 0.5 + m.table[0]


def filled(m, x, y):
    z = torch.zeros_like(x)
    z[:, 1:3] = y[:, 1:3]
    z[..., 0].add_(x[..., 0]).mul_(0.5)
    z.view(-1)[-1:].fill_(0.25)
    return z + x


def written(m, x, y):
    """Writes to the module's input, which the program returns to its caller."""
    m.given.mul_(0.5).add_(0.25)
    return x + m.given


def forward_mode(m, x, y):
    value, tangent = torch.func.jvp(lambda a: (a.sin() * y).cumsum(1), (x,), (y.cos(),))
    return value * 0.2 + tangent * 0.2


def with_gradient(m, x, y):
    with torch.enable_grad():
        z = x.detach().requires_grad_()
        gradient, = torch.autograd.grad((z.sin() * y).sum(), z)
    return gradient


def without_gradient(m, x, y):
    with torch.no_grad():
        z = m.linear(x)
        with torch.enable_grad():
            z = z * y
    return z.tanh() + m.linear(x)


def loop_until(m, x, y):
    i, v = while_loop(lambda i, v: (v.abs().max() > 0.4) & (i < 12), lambda i, v: (i + 1, v * 0.6), (torch.zeros((), dtype=torch.long), x))
    return v + i.to(x.dtype) * 0.1


def loop_around(m, x, y):
    """The body reads tensors and weights from outside the loop."""
    return while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, (m.linear(v) + y).tanh()), (torch.tensor(0), x))[1]


def branch_in_loop(m, x, y):
    return while_loop(lambda i, v: i < 4, lambda i, v: (i + 1, torch.cond(v.sum() > 0, lambda a: a * 0.5, lambda a: a + 0.25, (v,))),
                      (torch.tensor(1), x))[1]


def scanned(m, x, y):
    carry, out = scan(lambda c, row: ((c * 0.5 + row).tanh(), c + row), x.sum(0) * 0, x)
    return out + carry


def scanned_back(m, x, y):
    carry, out = scan(lambda c, col: (c * 0.5 + col, (c * col).tanh()), y[:, 0] * 1, x, dim=1, reverse=True)
    return out.reshape(WIDTH, -1).t() * 0.3 + carry[:, None] * 0.2 if out.shape[0] == WIDTH else out * 0.3 + carry[:, None] * 0.2


def scanned_tree(m, x, y):
    def step(carry, row):
        h = (carry["h"] * 0.5 + row[0] + row[1].sin()).tanh()
        return {"h": h, "n": carry["n"] + 1}, (h * 2, carry["n"] * 1)
    carry, (out, numbers) = scan(step, {"h": x.sum(0) * 0, "n": torch.zeros((), dtype=torch.long)}, (x, y))
    return out + numbers[:, None].to(x.dtype) * 0.1 + carry["n"].to(x.dtype) * 0.1


def recurrent(m, x, y):
    return F.pad(scan(lambda h, row: (m.cell(row[None], h), h[0] * 1), x.new_zeros(1, WIDTH), x)[1], (0, 0))


def gathered(m, x, y):
    return associative_scan(lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (x.sigmoid(), y), 0, combine_mode="generic")[1]


def segments(m, x, y):
    n = x.shape[0]
    first, second = x.split([n // 2, n - n // 2])
    return torch.cat([second * 0.5, first]) + (n % 3) * 0.1


def sized(m, x, y):
    n, k = x.shape
    return x.repeat(2, 1)[n // 2: n // 2 + n].reshape(n * k // 2, 2).flip(1).reshape(n, k) * (1 / (1 + n)) + torch.arange(n)[:, None].to(x.dtype) * 0.1


def padded(m, x, y):
    n = x.shape[0]
    return F.pad(x, (0, 0, n, 1))[n: 2 * n] + x.new_ones(n + 1, WIDTH).sum(0) * 0.05


def empty(m, x, y):
    return torch.cat([x[:0], x * 0.5, y[y.shape[0]:]]) + x[:0].sum(0) + torch.empty(0, WIDTH, dtype=x.dtype).prod(0) * 0.25


def complex_product(m, x, y):
    a, b = (torch.view_as_complex(each.reshape(-1, 2, 2)) for each in (x, y))
    return torch.view_as_real(a * b.conj() * 0.5).flatten(1)


def narrow(m, x):
    """Returns x as small numbers of the module's other dtype."""
    return (x * 2).round().abs().clamp(max=5).to(m.other)


def wide(x, of):
    return of.to(x.dtype) * 0.1


def branch_of_others(m, x, y):
    a, b = narrow(m, x), narrow(m, y)
    return x + wide(x, torch.cond(a.sum() > 4, lambda a, b: torch.where(a > b, a, b), lambda a, b: a * 1, (a, b)))


def scan_of_others(m, x, y):
    a = narrow(m, x)
    carry, out = scan(lambda c, row: (torch.maximum(c, row), torch.minimum(c, row) + row * (row > 2)), a.amin(0) * 1, a)
    return x + wide(x, out) + wide(x, carry)


def loop_of_others(m, x, y):
    i, a = while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, torch.where(a > 1, a * 1, a + a)), (torch.tensor(0, dtype=torch.int32), narrow(m, x)))
    return x + wide(x, a) + wide(x, i)


def state_of_others(m, x, y):
    m.others[0] = narrow(m, x).amax(0)
    m.others.copy_(m.others.flip(0))
    return x + wide(x, m.others).sum(0) + hop_map(lambda row: wide(x, row.sort()[0]), narrow(m, y))


def looked_up(m, x, y):
    at = (x * 3).long() % 5
    return m.embed(at).mean(1).to(x.dtype) + (at // 2).to(x.dtype) * 0.1 + torch.bitwise_xor(at, 3).float().to(x.dtype) * 0.1


def normed(m, x, y):
    return m.norm(x) * 0.5 + m.norm.running_mean * 0.1 + m.norm.num_batches_tracked.to(x.dtype) * 0.01


def attended(m, x, y):
    return m.attention(x[None], y[None], y[None], need_weights=False)[0][0]


def sequences(m, x, y):
    return m.lstm(x[:, None])[0][:, 0]


STEPS = {
    "add": lambda m, x, y: x + y * 0.5,
    "sin": lambda m, x, y: x.sin(),
    "linear": lambda m, x, y: m.linear(x).tanh(),
    "softmax": lambda m, x, y: x.softmax(0) + y.amax(1, keepdim=True) * 0.2,
    "topk": lambda m, x, y: x.topk(2, 1)[0].repeat(1, 2) + x.sort(1)[0] * 0.5,
    "constant": lambda m, x, y: x + torch.tensor([0.5, -0.25, 0.0, 1.0], dtype=x.dtype) + torch.tensor(2) * 0.1,
    "zero_d": lambda m, x, y: x - x.mean() + torch.where(x.sum() > 0, x.amax(), y.amin()) * 0.3,
    "checkpoint": lambda m, x, y: torch.utils.checkpoint.checkpoint(lambda a: m.linear(a).sin(), x, use_reentrant=False),
    "function": lambda m, x, y: Doubled.apply(x) * 0.25,
    "cond": lambda m, x, y: torch.cond(x.sum() > 0, lambda a, b: a * 0.5 + b, lambda a, b: (a - b).cos(), (x, y)),
    "cond_around": lambda m, x, y: torch.cond((x > 1).any() & (y.amax() > 0), lambda a: m.linear(a).tanh(), lambda a: (a * y).sin(), (x,)),
    "cond_of_size": lambda m, x, y: torch.cond(x.shape[0] > 3, lambda a: a.cumsum(0) * 0.2, lambda a: a.flip(0), (x,)),
    "cond_of_state": lambda m, x, y: torch.cond(m.steps > 1, lambda a: a * 0.5, lambda a: a + 0.5, (x,)),
    "cond_of_trees": lambda m, x, y: sum(torch.cond(y.mean() < 0, lambda a, b: (a.sin(), b * 0.5), lambda a, b: (b * 1, a.cos()), (x, y))),
    "cond_twice": lambda m, x, y: torch.cond(x.amax() > 1, lambda a: torch.cond(a.amin() < -1, lambda b: b * 0.5, lambda b: b.tanh(), (a,)), lambda a: a - 0.5, (x,)),
    "while_count": lambda m, x, y: while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 0.5 + 0.1), (torch.tensor(0), x))[1],
    "while_until": loop_until, "while_around": loop_around, "cond_in_while": branch_in_loop,
    "scan": scanned, "scan_back": scanned_back, "scan_tree": scanned_tree, "scan_cell": recurrent,
    "map": lambda m, x, y: hop_map(lambda row, v: (row * v).sin(), x, y.sum(0)),
    "map_tree": lambda m, x, y: hop_map(lambda each: {"a": each[0] + each[1], "b": (each[0].sum(),)}, (x, y))["a"],
    "associative_scan": gathered,
    "maximum_scan": lambda m, x, y: associative_scan(torch.maximum, x, 1, reverse=True, combine_mode="generic"),
    "vmap": lambda m, x, y: vmap(lambda a, b: (a @ m.weight.to(a.dtype)).tanh() + b.sum(), in_dims=(0, None))(x, y),
    "vmap_columns": lambda m, x, y: vmap(lambda a, b: a.softmax(0) * b, in_dims=1, out_dims=1)(x, y),
    "vmap_twice": lambda m, x, y: vmap(vmap(lambda a, b: (a * b).sin()))(x, y),
    "jvp": forward_mode, "autograd": with_gradient, "no_grad": without_gradient,
    "counted": counted, "cached": cached, "replaced": replaced, "filled": filled, "written": written,
    "rows_of_data": rows, "made": made, "nonzero": chosen, "mask": kept, "unique": ranked, "repeats": repeated,
    "cond_of_others": branch_of_others, "scan_of_others": scan_of_others, "while_of_others": loop_of_others, "state_of_others": state_of_others,
    "segments": segments, "sized": sized, "padded": padded, "empty": empty, "complex": complex_product,
    "embedding": looked_up, "norm": normed, "attention": attended, "lstm": sequences,
}
DTYPES = {torch.float32: 3, torch.float64: 1, torch.float16: 1}
CLOSE = {torch.float32: 2e-4, torch.float64: 1e-9, torch.float16: 2e-2}
LEFT_OUT = {torch.float16: ("complex", "norm")}  # no complex numbers of f16; a norm of three elements is only rounding
NARROW = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool, torch.float16, torch.bfloat16)
ORDINARY = ["add", "sin", "linear", "constant"]  # placed between the features under test


class Composed(nn.Module):
    def __init__(self, seed):
        super().__init__()
        draw = random.Random(seed)
        self.dtype = draw.choices(list(DTYPES), DTYPES.values())[0]
        steps = [step for step in STEPS if step not in LEFT_OUT.get(self.dtype, ())]
        self.plan = [(draw.choice(steps if draw.random() < 0.9 else ORDINARY), draw.randrange(8)) for _ in range(draw.randint(2, 5))]
        self.shown, self.other = draw.randrange(6), draw.choice(NARROW)
        self.linear, self.embed, self.cell = nn.Linear(WIDTH, WIDTH), nn.Embedding(5, WIDTH), nn.GRUCell(WIDTH, WIDTH)
        self.norm, self.lstm = nn.BatchNorm1d(WIDTH), nn.LSTM(WIDTH, WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH) * 0.5)
        for name, value in (("steps", torch.tensor(1)), ("places", torch.tensor([2, 0])), ("total", torch.zeros(WIDTH)),
                            ("table", torch.randn(3, WIDTH)), ("others", torch.ones(2, WIDTH, dtype=self.other))):
            self.register_buffer(name, value)
        self.train(draw.random() < 0.5).to(self.dtype).others = self.others.to(self.other)

    def forward(self, tree, *more, scale=None, factor=1.0, ids=None, flag=False, none=None):
        leaves = [leaf for leaf in torch.utils._pytree.tree_leaves((tree, more)) if isinstance(leaf, torch.Tensor)]
        self.given = leaves[0]
        values = leaves[:2]
        if scale is not None:
            values.append(values[0] * scale + (0.5 if flag else factor))
        if ids is not None:
            values.append(values[1] + self.embed(ids).sum(0).to(self.dtype))
        begin = len(values)
        for name, other in self.plan:
            values.append(STEPS[name](self, values[-1], values[other % len(values)]))
        del self.given
        return self.results(values[begin:])

    def results(self, values):
        """Returns the values in trees, as tensors and as numbers."""
        *some, last = values
        kinds = [lambda: tuple(values), lambda: Pair(last, some), lambda: Named(last, {"z": some, "a": last.sum(0)}),
                 lambda: {"last": last, "size": last.shape[0], "none": None, "some": some},
                 lambda: [last, (last > 0, last.mean(), (last * 3).to(torch.int32)), *some], lambda: last]
        return kinds[self.shown]()


def arguments(seed, rows):
    """Returns the positional and named arguments of the seed's module, with `rows` rows."""
    draw, dtype = random.Random(f"arguments {seed}"), Composed(seed).dtype
    x, y = torch.randn(rows, WIDTH, dtype=dtype), torch.randn(rows, WIDTH, dtype=dtype)
    args = draw.choice([lambda: (x, y), lambda: ([x, y],), lambda: ({"b": x, "a": y},), lambda: (Pair(x, y),), lambda: (Named(x, (y,)),),
                        lambda: ((x,), {"y": [y]})])()
    kwargs = {}
    if draw.random() < 0.3:
        kwargs["scale"] = torch.randn((), dtype=dtype)
    if draw.random() < 0.3:
        kwargs["factor"] = draw.choice([0.25, 2])
    if draw.random() < 0.3:
        kwargs["ids"] = torch.randint(0, 5, (draw.choice([0, 1, 3]),))
    if draw.random() < 0.3:
        kwargs["flag"] = draw.random() < 0.5
    if draw.random() < 0.2:
        kwargs["none"] = None
    return args, kwargs


def options(seed):
    """Returns the export options: number of rows, whether it is dynamic, strictness, and decompositions."""
    draw = random.Random(f"options {seed}")
    return {"rows": draw.choice([3, 3, 5, 6]), "open": draw.random() < 0.75, "strict": draw.random() < 0.3,
            "decompose": draw.choice(["core", "train"] + [""] * all(name != "jvp" for name, _ in Composed(seed).plan))}


def difference_of(dtype):
    """Returns the comparison for results of a module of this dtype."""

    def difference(got, want):
        got = torch.from_numpy(got.copy())
        if got.shape != want.shape or got.dtype != want.dtype:
            return f"is {got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"
        if not want.is_floating_point():  # may differ by one because of rounding
            far = (got != want).float().mean() if want.numel() else 0
            return f"{float(far):.2f} of it is wrong" if far > (0 if dtype == torch.float64 else 0.1) else ""
        limit = CLOSE[dtype] * max(1.0, float(want.abs().nan_to_num(0, 0, 0).max()) if want.numel() else 0)
        near = (got - want).abs() <= limit
        if bool((near | (got == want) | (got.isnan() & want.isnan())).all()):
            return ""
        return f"is wrong by {float((got - want).abs().max())} of {float(want.abs().max())}"

    return difference
