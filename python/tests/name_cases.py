# SPDX-License-Identifier: Apache-2.0
"""Random calls of functions that hg.ops and torch share, for torch_names.py.

A family draws (name, positional arguments, named arguments) as torch takes them; sizes 0 and 1 are among them.
"""

import numpy as np
import torch
import torch.nn.functional as F

DTYPES = [torch.float32, torch.float64, torch.int64, torch.int32, torch.bool]


class Draw:
    def __init__(self, rng):
        self.rng = rng

    def int(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def one(self, *values):
        return values[self.int(0, len(values) - 1)]

    def flip(self):
        return self.int(0, 1) == 1

    def shape(self, low=0, high=4):
        return [self.one(0, 1, 1, 2, 2, 3, 3, 4, 5) for _ in range(self.int(low, high))]

    def whole(self, shape, low=-9, high=9, dtype=torch.int64):
        return torch.from_numpy(np.asarray(self.rng.integers(low, high + 1, shape))).to(dtype)

    def real(self, *shape, dtype=torch.float64):
        return torch.from_numpy(np.asarray(self.rng.standard_normal(shape))).to(dtype)

    def tensor(self, shape, dtype=None):
        dtype = dtype or self.one(*DTYPES)
        return self.real(*shape, dtype=dtype) if dtype.is_floating_point else self.whole(shape, 0 if dtype is torch.bool else -9, 1 if dtype is torch.bool else 9, dtype)

    def dim(self, rank):
        return self.int(-rank, rank - 1) if rank else self.one(0, -1)

    def dims(self, rank, most=None):
        count = self.int(1, most or max(rank, 1)) if rank else 0
        picked = self.rng.permutation(rank)[:count]
        return [int(d) - (rank if self.flip() else 0) for d in picked]

    def some(self, **named):
        """Some of the named arguments; others keep their defaults."""
        return {key: value for key, value in named.items() if self.flip()}


def _unary(d):
    name = d.one("abs", "acosh", "asinh", "atan", "ceil", "cos", "cosh", "erf", "exp", "expm1", "floor", "frac", "isfinite", "isnan", "neg",
                 "negative", "absolute", "arctan", "sigmoid", "sign", "sin", "sinh", "square", "tanh", "trunc", "fix", "relu", "gelu", "silu",
                 "mish", "selu", "relu6", "softsign", "tanhshrink", "logsigmoid", "hardswish", "hardsigmoid", "rsqrt", "sqrt", "log1p", "reciprocal")  # fmt: skip
    return name, [d.real(*d.shape())], {}


def _activation(d):
    x = d.real(*d.shape())
    name, args, named = d.one(
        ("leaky_relu", [x], d.some(negative_slope=0.2)), ("elu", [x], d.some(alpha=0.7)), ("celu", [x], d.some(alpha=0.7)),
        ("softplus", [x, 2], d.some(threshold=1)), ("hardtanh", [x, -0.5], d.some(max_val=0.3)), ("hardshrink", [x], d.some(lambd=0.3)),
        ("softshrink", [x, 0.2], {}), ("threshold", [x, 0.1, 7.0], {}), ("gelu", [x], d.some(approximate="tanh")), ("nan_to_num", [x, 1.0], {}),
        ("clamp", [x, -0.5], d.some(max=0.5)), ("clip", [x], {"max": 0.1}), ("clamp_min", [x, 0.1], {}), ("clamp_max", [x, 0.1], {}),
        ("round", [x], d.some(decimals=1)), ("dropout", [x, 0.5, False], {}), ("logit", [x, 0.1], {}), ("polygamma", [1, x.abs() + 0.5], {}),
    )  # fmt: skip
    return name, args, named


def _binary(d):
    name = d.one("add", "sub", "mul", "div", "subtract", "multiply", "divide", "true_divide", "maximum", "minimum", "fmax", "fmin", "eq", "ne", "lt",
                 "le", "gt", "ge", "less", "greater", "not_equal", "atan2", "hypot", "copysign", "logaddexp", "rsub", "floor_divide", "remainder",
                 "fmod", "pow", "xlogy", "lerp", "addcmul", "addcdiv", "where", "masked_fill", "bitwise_and", "bitwise_xor", "gcd", "logical_or")  # fmt: skip
    shape = d.shape()
    other = [1 if d.int(0, 3) == 0 else n for n in shape][d.int(0, len(shape)) :]
    if name in ("bitwise_and", "bitwise_xor", "gcd"):
        return name, [d.whole(shape), d.whole(other)], {}
    a, b = d.real(*shape), d.real(*other)
    if name in ("floor_divide", "remainder", "fmod"):
        return name, [a * 9, b + torch.where(b < 0, -0.5, 0.5)], {}
    if name == "pow":
        return name, [a.abs() + 0.1, d.one(b, 2, 0.5)], {}
    if name == "xlogy":
        return name, [a, b.abs()], {}
    if name == "lerp":
        return name, [a, a * 2, d.one(0.3, torch.rand(shape, dtype=torch.float64))], {}
    if name in ("addcmul", "addcdiv"):
        return name, [a, a + 1, b + torch.where(b < 0, -0.5, 0.5)], d.some(value=0.5)
    if name == "where":
        return name, [d.tensor(shape, torch.bool), a, d.one(b, 0.0)], {}
    if name == "masked_fill":
        return name, [a, d.tensor(shape, torch.bool), d.one(1.5, float("-inf"))], {}
    if name in ("add", "sub", "subtract", "rsub"):
        return name, [a, d.one(b, 2.5) if name != "rsub" else b], d.some(alpha=2)
    if name in ("div", "divide"):
        return name, [a, b + torch.where(b < 0, -0.5, 0.5)], d.one({}, {"rounding_mode": "floor"}, {"rounding_mode": "trunc"}, {"rounding_mode": None})
    return name, [a, b], {}


def _shapes(d):
    x = d.tensor(d.shape())
    shape, rank = list(x.shape), x.dim()
    count = x.numel()
    dim = d.dim(rank)
    name = d.one("reshape", "view", "flatten", "ravel", "permute", "transpose", "swapaxes", "t", "movedim", "squeeze", "unsqueeze", "expand",
                 "broadcast_to", "repeat", "tile", "repeat_interleave", "flip", "roll", "cat", "concat", "stack", "hstack", "vstack", "narrow", "select",
                 "split", "chunk", "unbind", "diagonal", "tril", "triu", "unflatten", "slice_scatter", "select_scatter", "atleast_1d", "numel",
                 "view_as", "as_strided", "broadcast_tensors", "concatenate")  # fmt: skip
    if name in ("reshape", "view"):
        divisors = [n for n in range(1, count + 1) if count % n == 0]
        target = d.one([-1], [count], *([[n, -1] for n in divisors]), *([[n, count // n] for n in divisors])) if count else shape
        return name, [x, target], {}
    if name == "flatten":
        a, b = sorted((d.int(0, max(rank - 1, 0)), d.int(0, max(rank - 1, 0))))
        return name, [x, *d.one([], [a], [a, b], [a - max(rank, 1), b])], {}
    if name == "permute":
        return name, [x, d.dims(rank, rank) if rank < 1 else [int(n) - (rank if d.flip() else 0) for n in d.rng.permutation(rank)]], {}
    if name in ("transpose", "swapaxes"):
        return name, [x, dim, d.dim(rank)], {}
    if name == "t":
        return name, [d.tensor(d.shape(0, 2))], {}
    if name == "movedim":
        return name, [x, dim, d.dim(rank)], {}
    if name == "squeeze":
        return name, [x, *d.one([], [dim], [tuple(d.dims(rank))])], {}
    if name == "unsqueeze":
        return name, [x, d.int(-rank - 1, rank)], {}
    if name in ("expand", "broadcast_to"):
        front = d.shape(0, 2)
        narrow = [1 if d.flip() else n for n in shape]
        wide = [n if d.flip() or name != "expand" or narrow[i] != n else -1 for i, n in enumerate(shape)]
        return name, [d.tensor(narrow, x.dtype), front + wide], {}
    if name in ("repeat", "tile"):
        return name, [x, [d.int(0, 2) for _ in range(rank + (d.int(0, 1) if name == "repeat" else d.int(-min(rank, 1), 1)))]], {}
    if name == "repeat_interleave":
        x = d.tensor(d.shape(1, 3))
        dim = d.dim(x.dim())
        counts = d.whole([x.shape[dim]], 0, 3)
        return d.one((name, [x, d.int(0, 3)], {}), (name, [x, d.int(0, 3), dim], {}), (name, [x, counts], {"dim": dim}))
    if name == "flip":
        return name, [x, d.dims(rank)], {}
    if name == "roll":
        return d.one((name, [x, d.int(-3, 3)], {}), (name, [x, d.int(-3, 3), dim], {}) if rank else (name, [x, 1], {}))
    if name in ("cat", "concat", "concatenate", "hstack", "vstack"):
        shape = d.shape(1, 3)
        axis = d.dim(len(shape)) if name[0] == "c" else 0 if name == "vstack" else min(1, len(shape) - 1)
        parts = [list(shape) for _ in range(d.int(1, 3))]
        for each in parts:
            if len(shape) > 1 or name != "vstack":
                each[axis] = d.int(0, 3)
        return name, [[d.tensor(each, x.dtype) for each in parts], *([axis] if name[0] == "c" else [])], {}
    if name == "stack":
        return name, [[d.tensor(shape, x.dtype) for _ in range(d.int(1, 3))], *d.one([], [d.int(-rank - 1, rank)])], {}
    if name in ("view_as",):
        return name, [x, d.tensor([count])], {}
    if name == "broadcast_tensors":
        return name, [x, d.tensor([1] * min(rank, 1))], {}
    if name in ("diagonal", "tril", "triu"):
        x = d.tensor(d.shape(2, 4))
        if name == "diagonal":
            a, b = d.rng.permutation(x.dim())[:2]
            return name, [x, d.int(-2, 2), *d.one([], [int(a), int(b)])], {}
        return name, [x, d.int(-2, 2)], {}
    if name in ("atleast_1d", "numel", "ravel"):
        return name, [x], {}
    x = d.tensor(d.shape(1, 4))
    shape, rank = list(x.shape), x.dim()
    dim = d.dim(rank)
    n = shape[dim]
    if name == "narrow":
        start = d.int(0, n)
        return name, [x, dim, start, d.int(0, n - start)], {}
    if name == "split":
        cut = d.int(0, n)
        return name, [x, d.one(d.int(1, 4), [cut, n - cut]), dim], {}
    if name == "chunk":
        return name, [x, d.int(1, 4), dim], {}
    if name == "unbind":
        return name, [x, dim], {}
    if name == "as_strided":
        return name, [d.tensor([12]), [2, 3], [d.int(0, 3), d.int(1, 3)], *d.one([], [d.int(0, 2)])], {}
    if name == "unflatten":
        return name, [x, dim, [1, n] if d.flip() or n == 0 else [-1, n]], {}
    if name == "slice_scatter":
        start, end = d.one(None, d.int(-n - 1, n + 1)), d.one(None, d.int(-n - 1, n + 1))
        step = d.int(1, 2)
        src = x.index_select(dim, torch.arange(n)[slice(start, end, step)]).clone()
        return name, [x, src, dim, start, end, step], {}
    if n == 0:
        return "numel", [x], {}
    index = d.int(-n, n - 1)
    return ("select", [x, dim, index], {}) if name == "select" else ("select_scatter", [x, x.select(dim, 0), dim, index], {})


def _create(d):
    size = d.shape(0, 3)
    dtype = d.one({}, {"dtype": torch.float64}, {"dtype": torch.int64}, {"dtype": torch.float32})
    a, b, c = d.int(-5, 5), d.int(-5, 12), d.int(1, 4)
    low, high = sorted((a, b))
    return d.one(
        ("zeros", [size], dtype), ("zeros", size or [2], dtype), ("ones", [size], dtype), ("full", [size, d.one(3, 2.5, True)], {}),
        ("full", [size, 3], dtype), ("eye", [c], dtype), ("eye", [c, d.int(0, 3)], {}), ("arange", [abs(b)], dtype), ("arange", [low, high], dtype),
        ("arange", [low, high, c], {}), ("arange", [high, low, -c], {}), ("arange", [low + 0.5, high + 1.0, 0.5], {}), ("arange", [low, high + 0.5], {}),
        ("linspace", [-1, 2.5, d.int(0, 5)], {}), ("zeros_like", [d.tensor(size)], {}), ("ones_like", [d.tensor(size)], dtype),
        ("full_like", [d.tensor(size, torch.float64), 2.5], {}),
    )  # fmt: skip


def _reductions(d):
    x = d.real(*[max(n, 1) for n in d.shape()])
    rank = x.dim()
    dim, dims, keep = d.dim(rank), d.dims(rank), d.some(keepdim=True)
    name = d.one("sum", "mean", "prod", "all", "any", "amax", "amin", "argmax", "argmin", "max", "min", "median", "std", "var", "norm", "logsumexp",
                 "cumsum", "cumprod", "cummax", "logcumsumexp", "sort", "argsort", "topk", "kthvalue", "unique", "count_nonzero", "nanmedian", "msort",
                 "normalize", "softmax", "log_softmax", "softmin", "cummin", "unique_consecutive")  # fmt: skip
    if name in ("sum", "mean", "all", "any"):
        if name in ("sum", "all", "any"):
            x = d.one(x, d.whole(x.shape), d.tensor(x.shape, torch.bool), d.real(*d.shape()))
            rank = x.dim()
            dims, dim = d.dims(rank), d.dim(rank)
        return d.one((name, [x], {}), (name, [x, dim], keep), (name, [x, dims], keep) if dims else (name, [x], {}))
    if name == "prod":
        return d.one((name, [x], {}), (name, [x, dim], keep))
    if name in ("amax", "amin"):
        return d.one((name, [x], {}), (name, [x, dim], keep), (name, [x, dims], keep) if dims else (name, [x], {}))
    if name in ("argmax", "argmin", "median", "nanmedian", "max", "min"):
        other = (name, [x, x * -1], {}) if name in ("max", "min") else (name, [x], {})
        return d.one((name, [x], {}), (name, [x, dim], keep), (name, [x], {"dim": dim}), other)
    if name in ("std", "var"):
        x = d.real(*[n + 1 for n in d.shape()])
        dim = d.dim(x.dim())
        if x.dim() == 0:
            return name, [x, False], {}
        return d.one((name, [x, False], {}), (name, [x, dim], {"correction": 0, **keep}), (name, [x, dim, False], keep), (name, [x, [dim]], {"unbiased": False}))
    if name == "norm":
        return d.one((name, [x], {}), (name, [x, 1, dim], keep), (name, [x, 2, dim], keep), (name, [x, float("inf")], {}))
    if name == "logsumexp":
        return name, [x, d.one(dim, dims or dim)], keep
    if name in ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"):
        return name, [x, dim], {}
    if name in ("softmax", "log_softmax", "softmin"):
        return name, [x, dim], {}
    if name == "count_nonzero":
        return name, [x, *d.one([], [dim])], {}
    if name == "normalize":
        return name, [x], {"dim": dim}
    if name == "unique":
        return name, [d.whole(d.shape(), 0, 3), True, d.flip(), d.flip()], {}
    if name == "unique_consecutive":
        return name, [d.whole(d.shape(1, 1), 0, 2)], {"return_inverse": d.flip(), "return_counts": d.flip()}
    if name in ("sort", "argsort"):
        return name, [x, dim], d.some(descending=True)
    x = d.real(*[n + 1 for n in d.shape(1, 3)])
    dim = d.dim(x.dim())
    if name == "msort":
        return name, [x], {}
    k = d.int(1, x.shape[dim])
    return ("kthvalue", [x, k, dim], keep) if name == "kthvalue" else ("topk", [x, k, dim, d.flip()], {})


def _indices(d):
    x = d.real(*[n + 1 for n in d.shape(1, 3)])
    dim = d.dim(x.dim())
    n = x.shape[dim]
    index = d.whole([d.int(0, 4)], 0, n - 1)
    like = d.whole(x.shape, 0, n - 1)
    source = d.real(*[len(index) if i == dim % x.dim() else k for i, k in enumerate(x.shape)])
    line = torch.sort(d.real(d.int(1, 6)))[0]
    return d.one(
        ("gather", [x, dim, like], {}), ("index_select", [x, dim, index], {}), ("scatter", [x, dim, like * 0, d.one(1.5, x[..., :])], {}),
        ("scatter_add", [x, dim, like, x * 2], {}), ("scatter_reduce", [x, dim, like, x * 2, d.one("sum", "prod", "amax", "amin", "mean")], d.some(include_self=False)),
        ("index_add", [x, dim, index, source], d.some(alpha=2)), ("index_put", [x, [d.whole([3], 0, x.shape[0] - 1)], d.real(3, *x.shape[1:])], {"accumulate": True}), ("nonzero", [(x > 0) * x], d.some(as_tuple=True)), ("masked_select", [x, x > 0], {}),
        ("take_along_dim", [x, like, dim], {}), ("as_strided_scatter", [d.real(12), d.real(2, 3), (2, 3), (3, 1)], d.some(storage_offset=2)), ("searchsorted", [line, x], d.some(right=True)), ("bucketize", [x, line], d.some(right=True)),
        ("isin", [like, index], d.some(invert=True)), ("bincount", [index], d.some(minlength=3)), ("where", [x > 0], {}), ("one_hot", [index, n], {}),
        ("embedding", [index, d.real(n, 3)], {}), ("histc", [x, 5, -1, 1], {}),
    )  # fmt: skip


def _matrices(d):
    a, b, c, n = (d.int(0, 4) for _ in range(4))
    beta = d.some(beta=0.5, alpha=2)
    m, k = d.real(a, b), d.real(b, c)
    q = d.real(n, 2, 4)
    heads = [d.real(2, 2, 3, 4) for _ in range(3)]
    return d.one(
        ("mm", [m, k], {}), ("bmm", [d.real(n, a, b), d.real(n, b, c)], {}), ("mv", [m, d.real(b)], {}), ("dot", [d.real(b), d.real(b)], {}),
        ("outer", [d.real(a), d.real(b)], {}), ("matmul", [m, k], {}), ("addmm", [d.real(c), m, k], beta), ("addmv", [d.real(a), m, d.real(b)], beta),
        ("baddbmm", [d.real(n, a, c), d.real(n, a, b), d.real(n, b, c)], beta), ("linear", [m, d.real(c, b)], d.some(bias=d.real(c))),
        ("trace", [m], {}), ("cdist", [d.real(a, 3), d.real(b, 3)], d.some(p=1.0)), ("cosine_similarity", [d.real(2, 3, 4), d.real(2, 3, 4)], d.some(dim=-1)),
        ("pairwise_distance", [d.real(3, 4), d.real(3, 4)], d.some(p=1.0)), ("bilinear", [d.real(5, 2), d.real(5, 3), d.real(4, 2, 3)], d.some(bias=d.real(4))),
        ("scaled_dot_product_attention", heads, d.some(is_causal=True, scale=0.3)), ("scaled_dot_product_attention", [q, q, q], {}),
        ("scaled_dot_product_attention", [*heads, d.one(d.real(3, 3), torch.ones(3, 3, dtype=torch.bool).tril())], {}),
        ("scaled_dot_product_attention", [d.real(2, 4, 3, 4), *heads[1:]], {"enable_gqa": True}), ("det", [d.real(3, 3)], {}), ("matrix_exp", [d.real(3, 3)], {}),
    )  # fmt: skip


def _layers(d):
    n, c, groups = d.int(1, 2), d.one(2, 4), d.one(1, 2)
    dims = d.int(1, 3)
    spatial = [d.int(4, 6) for _ in range(dims)]
    x = d.real(n, c, *spatial)
    lone = d.one(x, x[0])
    pool = d.one([2], [3, 2], [3, 1, 1], [2, None, 1])
    kernel = [d.int(1, 3) for _ in range(dims)]
    weight, bias = d.real(3 * groups, c // groups, *kernel), d.real(3 * groups)
    flipped = d.real(c, 3, *kernel)
    bounds = [d.int(0, 2) for _ in range(2 * d.int(1, dims))]
    scale = d.one({"size": [d.int(1, 8) for _ in range(dims)]}, {"scale_factor": 2}, {"scale_factor": [1.5] * dims})
    linear = ["linear", "bilinear", "trilinear"][dims - 1]
    image = d.real(n, c, 5, 6)
    return d.one(
        (f"conv{dims}d", [lone, weight, *d.one([], [bias]), ], {"groups": groups, **d.some(stride=2, padding=1, dilation=1)}),
        (f"conv{dims}d", [x, weight, bias, 1, d.one("same", "valid"), 1, groups], {}),
        (f"conv_transpose{dims}d", [lone, flipped, None, 2, 1], d.some(output_padding=1)), (f"max_pool{dims}d", [lone, *pool], {}),
        (f"max_pool{dims}d", [x, 2], {"return_indices": True}), (f"avg_pool{dims}d", [lone, *pool], d.some(count_include_pad=False, ceil_mode=True)),
        (f"adaptive_avg_pool{dims}d", [lone, d.int(1, 3)], {}), (f"adaptive_max_pool{dims}d", [lone, d.int(1, 3)], d.some(return_indices=True)),
        ("layer_norm", [x, x.shape[-2:]], d.some(weight=d.real(*x.shape[-2:]), eps=1e-3)), ("rms_norm", [x, x.shape[-1:]], d.some(weight=d.real(x.shape[-1]))),
        ("group_norm", [x, groups, d.real(c), d.real(c)], {}), ("instance_norm", [x], {}), ("batch_norm", [x, d.real(c), d.real(c).abs() + 0.1], d.some(weight=d.real(c), eps=0.1)),
        ("batch_norm", [x, None, None, None, None, True], {}), ("pad", [x, bounds], d.some(value=2.5)), ("pad", [x, [d.int(-1, 2) for _ in bounds]], {}),
        ("pad", [d.real(n, c, *spatial), [1, 2] * dims], {"mode": d.one("reflect", "replicate", "circular")}),
        ("interpolate", [x], {"mode": d.one("nearest", "area"), **scale}), ("interpolate", [x], {"mode": linear, "align_corners": d.flip(), **scale}),
        ("unfold", [d.one(image, image[0]), 2], d.some(stride=2, padding=1)), ("fold", [d.real(n, c * 4, 20), (5, 6), 2], {}),
        ("glu", [d.real(n, 4, 6)], d.some(dim=1)), ("pixel_shuffle", [d.real(n, 8, 2, 3), 2], {}), ("pixel_unshuffle", [d.real(n, 2, 4, 6), 2], {}),
        ("prelu", [x, d.real(c)], {}), ("grid_sample", [image, d.real(n, 3, 3, 2)], d.some(align_corners=True)), ("softmax", [x, 1], {"dtype": torch.float32}),
    )  # fmt: skip


def _losses(d):
    shape = [d.int(1, 4), d.int(1, 4)]
    x, y = d.real(*shape), d.real(*shape)
    p, classes = torch.sigmoid(y), d.whole([shape[0]], 0, shape[1] - 1)
    signs = d.whole([shape[0]], 0, 1).double() * 2 - 1
    reduction = d.one({}, {"reduction": "sum"}, {"reduction": "none"})
    lengths = [d.whole([2], 4, 5), d.whole([2], 1, 2)]
    name, args, named = d.one(
        ("mse_loss", [x, y], {}), ("l1_loss", [x, y], {}), ("mse_loss", [x, y], {"weight": p}), ("smooth_l1_loss", [x, y], d.some(beta=0.5)), ("huber_loss", [x, y], d.some(delta=0.5, weight=p)),
        ("cross_entropy", [x, classes], d.some(label_smoothing=0.1, weight=p[0])), ("nll_loss", [x, classes], d.some(weight=p[0])),
        ("binary_cross_entropy", [p, torch.sigmoid(x)], d.some(weight=p)), ("binary_cross_entropy_with_logits", [x, p], d.some(pos_weight=p[0])),
        ("kl_div", [x, p], d.some(log_target=True)), ("kl_div", [x, p], {"reduction": "batchmean"}), ("poisson_nll_loss", [x, p], d.some(full=True, log_input=True)),
        ("cosine_embedding_loss", [x, y, signs], d.some(margin=0.1)), ("margin_ranking_loss", [x[:, 0], y[:, 0], signs], d.some(margin=0.1)),
        ("hinge_embedding_loss", [x[:, 0], signs], d.some(margin=0.5)), ("triplet_margin_loss", [x, y, p], d.some(swap=True, p=1)),
        ("soft_margin_loss", [x[:, 0], signs], {}), ("multi_margin_loss", [x, classes], d.some(margin=0.5)), ("multilabel_soft_margin_loss", [x, (p > 0.5).double()], d.some(weight=p[0])),
        ("ctc_loss", [torch.log_softmax(d.real(5, 2, 4), -1), d.whole([2, 3], 1, 3), *lengths], {}),
    )  # fmt: skip
    return name, args, {**reduction, **named}


def _bags(d, rows):
    index = d.whole([d.int(1, 6)], 0, rows - 1)
    starts = torch.tensor([0, *sorted(d.int(0, len(index)) for _ in range(d.int(0, 2)))])
    mode = d.one("sum", "mean", "max")
    named = {"mode": mode, **d.some(padding_idx=d.int(-rows, rows - 1))}
    if mode == "sum" and d.flip():
        named["per_sample_weights"] = d.real(len(index))
    if d.flip():
        return index.reshape(1, -1), {**named, **({"per_sample_weights": named["per_sample_weights"][None]} if "per_sample_weights" in named else {})}
    last = d.flip()
    return index, {**named, "offsets": torch.cat([starts, torch.tensor([len(index)])]) if last else starts, "include_last_offset": last}


def _heads(d):
    time, steps, batch, heads, features = d.int(1, 3), d.int(1, 4), d.int(1, 2), d.one(1, 2), 4
    alone = d.flip()
    query, key = ([n, features] if alone else [n, batch, features] for n in (time, steps))
    causal = d.flip() and time == steps
    masks = {"attn_mask": torch.ones(time, steps, dtype=torch.bool).triu(1)} if causal else d.some(attn_mask=d.one(
        d.real(time, steps), d.real((1 if alone else batch) * heads, time, steps), d.whole([time, steps], 0, 1, torch.bool) & False))
    if not causal and d.flip():
        hidden = torch.zeros(([] if alone else [batch]) + [steps], dtype=torch.bool)
        hidden[..., 1:] = d.flip()
        masks["key_padding_mask"] = hidden
    biases = d.one((None, None), (d.real(1, 1, features), d.real(1, 1, features)))
    separate = d.flip()
    named = {"need_weights": d.flip(), "average_attn_weights": d.flip(), "is_causal": causal, "use_separate_proj_weight": separate, **masks}
    if separate:
        named.update({f"{part}_proj_weight": d.real(features, features) for part in "qkv"})
    args = [d.real(*query), d.real(*key), d.real(*key), features, heads, None if separate else d.real(3 * features, features),
            d.one(None, d.real(3 * features)), *biases, d.flip(), 0.0, d.real(features, features), d.one(None, d.real(features))]  # fmt: skip
    return "multi_head_attention_forward", args, named


def _functional(d):
    dims, n, c = d.int(1, 3), d.int(1, 2), d.one(2, 4)
    x = d.real(n, c, *(d.int(4, 6) for _ in range(dims)))
    lone, flat, two = d.one(x, x[0]), d.real(d.int(0, 4), d.int(1, 4)), d.int(2, 3)
    image = d.real(n, c, *(d.int(5, 8) for _ in range(two)))
    pooled, places = getattr(F, f"max_pool{dims}d")(lone, 2, return_indices=True)
    size = [n, c, *(d.int(1, 4) for _ in range(two))]
    bags, options = _bags(d, 5)
    rows, classes = d.int(1, 3), d.int(2, 4)
    in_place = d.one(("celu_", d.some(alpha=0.7)), ("elu_", d.some(alpha=0.7)), ("hardtanh_", d.some(min_val=-0.5)), ("leaky_relu_", d.some(negative_slope=0.2)),
                     ("relu_", {}), ("rrelu_", d.some(lower=0.2)), ("selu_", {}), ("threshold_", {"threshold": 0.1, "value": 3.0}))  # fmt: skip
    var, reduction = d.real(rows, classes).abs(), d.one("none", "mean", "sum")
    triple = [d.real(rows, classes) for _ in range(3)]
    return d.one(
        (f"max_pool{dims}d_with_indices", [lone, 2], d.some(stride=1)), (f"adaptive_max_pool{dims}d_with_indices", [lone, 2], {}),
        (f"lp_pool{dims}d", [lone, d.one(1, 2, 3.0, float("inf"), -float("inf")), 2], d.some(stride=1, ceil_mode=True)),
        (f"max_unpool{dims}d", [pooled, places, 2], d.some(output_size=lone.shape[-dims:])),
        (f"fractional_max_pool{two}d", [image, 2], {"output_size": d.int(1, 3), "_random_samples": torch.rand(n, c, two, dtype=torch.float64), **d.some(return_indices=True)}),
        (f"fractional_max_pool{two}d_with_indices", [image, 2], {"output_ratio": [0.5] * two, "_random_samples": torch.rand(n, c, two, dtype=torch.float64)}),
        ("affine_grid", [d.real(n, two, two + 1), size], {"align_corners": d.flip()}), ("channel_shuffle", [x, d.one(1, 2)], {}), ("native_channel_shuffle", [x, 2], {}),
        ("conv_tbc", [d.real(5, n, 3), d.real(2, 3, 4), d.real(4)], d.some(pad=1)), ("local_response_norm", [x, d.int(1, 4)], d.some(alpha=0.1, beta=0.5, k=2.0)),
        ("pdist", [flat], d.some(p=d.one(0.0, 1.0, 3.0, float("inf")))), ("embedding_bag", [bags, d.real(5, 3)], options), _heads(d), _heads(d),
        ("upsample", [x], {"scale_factor": 2}), ("upsample_nearest", [x], {"size": [3] * dims}), ("upsample_bilinear", [d.real(n, c, 3, 4)], {"scale_factor": 2}),
        (in_place[0], [x], in_place[1]), ("rrelu", [x], d.some(lower=0.1, upper=0.3)), (f"dropout{dims}d", [x, d.one(0.0, 1.0), True], {}),
        (f"dropout{dims}d", [x, 0.5, False], {}), ("alpha_dropout", [x, 0.5], {}), ("feature_alpha_dropout", [x, 1.0, True], {}), ("alpha_dropout", [x, 1.0, True], {}),
        ("gaussian_nll_loss", [*triple[:2], d.one(var, var[:, 0], var[:, :1], 0.5)], {"reduction": reduction, **d.some(full=True, eps=0.3)}),
        ("triplet_margin_with_distance_loss", triple, {"reduction": reduction, **d.some(margin=0.5, swap=True)}),
        ("linear_cross_entropy", [triple[0], d.real(5, classes), d.whole([rows], 0, 4)], {"reduction": reduction, **d.some(linear_bias=d.real(5), weight=d.real(5).abs(), label_smoothing=0.1, ignore_index=2)}),
        ("linear_cross_entropy", [triple[0], d.real(5, 2, classes), d.whole([rows, 2], 0, 4)], {"reduction": reduction}),
    )  # fmt: skip


def _elements(d):
    shape = d.shape()
    x, y, n = d.real(*shape), d.real(*shape), d.tensor(shape)
    whole = d.whole(shape)
    z = torch.complex(x, y)
    broken = torch.where(d.tensor(shape, torch.bool), x, d.one(float("nan"), float("inf"), -float("inf"), 0.0))
    near = d.one(n.clone(), torch.where(d.tensor(shape, torch.bool), n, n + 1) if n.dtype != torch.bool else ~n)
    return d.one(
        ("isclose", [n, near], d.some(atol=0.5, rtol=0.1)), ("isclose", [broken, broken.clone()], d.some(equal_nan=True)), ("allclose", [n, near], d.some(atol=2.0)),
        ("equal", [n, near], {}), ("equal", [x, d.real(*d.shape())], {}), ("isneginf", [d.one(broken, whole)], {}), ("isposinf", [d.one(broken, whole)], {}),
        ("is_nonzero", [d.tensor([1])], {}), ("is_complex", [d.one(z, x)], {}), ("is_signed", [n], {}), ("is_same_size", [x, d.real(*d.shape(0, 1))], {}),
        ("fill", [n, d.one(2, 0, 1)], {}), ("fill", [x, torch.tensor(1.5)], {}), ("float_power", [d.one(x.abs(), whole, x.float().abs()), d.one(2, 0.5, y, 3)], {}),
        ("float_power", [2.5, n], {}), ("heaviside", [broken, y], {}), ("deg2rad", [d.one(x, whole)], {}), ("rad2deg", [d.one(x, whole)], {}),
        ("ldexp", [x, whole], {}), ("ldexp", [whole, whole], {}), ("logaddexp2", [broken, y], {}), ("positive", [n], {}), ("clone", [n], {}),
        ("mvlgamma", [x.abs() + 2, d.int(1, 4)], {}), ("multigammaln", [x.abs() + 2, 2], {}), ("frexp", [d.one(broken, x.float(), x * 1e300)], {}),
        ("real", [d.one(x, z)], {}), ("imag", [z], {}), ("complex", [x, y], {}), ("polar", [x, y], {}), ("conj_physical", [d.one(x, z)], {}), ("resolve_conj", [x], {}),
        ("angle", [d.one(broken, z, whole)], {}), ("sgn", [d.one(x, z, whole)], {}), ("isreal", [d.one(z, x, z.real + 0j)], {}),
        ("entr", [d.one(broken, x.abs())], {}), ("expit", [d.one(broken, whole)], {}), ("psi", [x.abs() + 0.1], {}), ("gammaln", [x], {}), ("gammainc", [x.abs() + 0.1, y.abs()], {}),
        ("gammaincc", [x.abs() + 0.1, y.abs()], {}), ("i0", [d.one(x, whole)], {}), ("i0e", [x], {}), ("i1", [x], {}), ("i1e", [x], {}), ("ndtr", [d.one(broken, whole)], {}),
        ("log_ndtr", [x * 9], {}), ("ndtri", [torch.sigmoid(x * 20)], {}), ("xlog1py", [d.one(x, whole), y.abs()], {}), ("xlog1py", [broken * 0, y], {}),
        (d.one("abs_", "ceil_", "cos_", "exp_", "erf_", "neg_", "sigmoid_", "trunc_", "zero_", "square_", "sinc_", "deg2rad_"), [x], {}),
        ("clamp_", [x, -0.5], d.some(max=0.5)), ("fill_", [n, 1], {}), ("nan_to_num_", [broken], d.some(nan=2.0)), ("round_", [x], d.some(decimals=1)),
        ("dropout_", [x, 0.5, False], {}), ("xlogy_", [x, y.abs()], {}),
    )  # fmt: skip


def _statistics(d):
    shape = [n or 2 for n in d.shape()]
    x, rank = d.real(*shape), len(shape)
    dim, keep = d.dim(rank), d.some(keepdim=True)
    broken = torch.where(d.real(*shape) > 1, float("nan"), x)
    line = torch.sort(d.real(d.int(1, 6)))[0]
    at_least = d.real(*[d.int(3, 5) for _ in range(d.int(1, 3))])
    inner = d.dim(at_least.dim())
    table = d.real(*[d.int(2, 5) for _ in range(d.int(1, 2))])
    pair = d.one({}, {"dim": dim, **keep})
    spread = ("std_mean", "var_mean")[d.int(0, 1)]
    q = d.one(0.3, 0, 1.0, torch.rand(d.int(1, 3), dtype=torch.float64), torch.tensor(0.5, dtype=torch.float64))
    ends = {key: d.tensor([d.int(0, 2) if i == inner % at_least.dim() else n for i, n in enumerate(at_least.shape)], torch.float64) for key in ("prepend", "append")}
    observed = table.shape[-1]
    return d.one(
        ("aminmax", [x], pair), (spread, [at_least, *d.one([], [inner], [[inner]])], {}), (spread, [at_least], {"dim": inner, "correction": 0, **keep}),
        (spread, [at_least, False], {}), ("nansum", [d.one(broken, d.whole(shape)), *d.one([], [dim])], {}), ("nanmean", [broken, *d.one([], [dim])], keep if rank else {}),
        ("dist", [x, x * 2], d.some(p=d.one(1, 3.0, float("inf")))),
        *[(name, [d.one(x, broken), q, *d.one([], [dim])], d.some(keepdim=True, interpolation=d.one("linear", "lower", "higher", "nearest", "midpoint"))) for name in ("quantile", "nanquantile")],
        ("cov", [table], d.some(correction=0)), ("cov", [table], {"fweights": d.whole([observed], 1, 3), **d.some(aweights=torch.rand(observed, dtype=torch.float64))}),
        ("cov", [table], {"aweights": torch.rand(observed, dtype=torch.float64)}), ("corrcoef", [table], {}),
        ("diff", [d.one(at_least, at_least > 0, d.whole(at_least.shape)), *d.one([], [2], [0])], {"dim": inner}), ("diff", [at_least, 1, inner], d.some(**ends)),
        (d.one("trapezoid", "trapz", "cumulative_trapezoid"), [at_least], {"dim": inner, **d.some(dx=0.5)}), (d.one("trapezoid", "cumulative_trapezoid"), [at_least, at_least * 2], {"dim": inner}),
        ("trapezoid", [at_least, torch.arange(at_least.shape[-1])], {}), ("gradient", [at_least], {**d.some(edge_order=2), **d.one({}, {"spacing": 0.5}, {"dim": inner})}),
        ("gradient", [at_least], {"spacing": (torch.cumsum(torch.rand(at_least.shape[inner], dtype=torch.float64), 0),), "dim": inner, **d.some(edge_order=2)}),
        ("logspace", [-1, 2.5, d.int(0, 5)], d.some(base=2.0)), (d.one("tril_indices", "triu_indices"), [d.int(0, 4), d.int(0, 4)], d.some(offset=d.int(-2, 2))),
        ("tensor", [d.one(2, 2.5, True, [1, 2], [[1.5], [2]], [])], d.some(dtype=torch.float64)), ("scalar_tensor", [2], {}),
        (d.one("hann_window", "hamming_window", "blackman_window", "bartlett_window", "kaiser_window"), [d.int(0, 7), d.flip()], d.some(dtype=torch.float64)),
        ("bucketize", [x, line], {}),
    )  # fmt: skip


def _joined(d):
    x = d.tensor(d.shape())
    rank, shape = x.dim(), list(x.shape)
    dim = d.dim(rank)
    n = d.int(1, 6)
    many = [d.tensor([d.int(0, 3)] if d.flip() else [], torch.float64) for _ in range(d.int(1, 3))]
    wide = d.tensor([4, 6, d.one(2, 4)])
    cut = d.one(2, [1, 3], [0, 2, 9])
    full = d.real(*[n + 1 for n in d.shape(1, 3)])
    axis = d.dim(full.dim())
    size = full.shape[axis]
    index = torch.from_numpy(d.rng.permutation(size)[: d.int(0, size)])
    source = d.real(*[len(index) if i == axis % full.dim() else k for i, k in enumerate(full.shape)])
    letters = {each: d.int(1, 3) for each in "abcdij"}

    def of(equation):
        return "einsum", [equation, *[d.real(*[letters[each] for each in term.replace(" ", "").replace("...", "ij")]) for term in equation.partition("->")[0].split(",")]], {}

    return d.one(
        (d.one("atleast_1d", "atleast_2d", "atleast_3d"), [x], {}), ("atleast_2d", [x, d.tensor([2])], {}), ("dstack", [[x, x]], {}),
        ("column_stack", [[d.tensor([3], torch.float64), d.tensor([3, 2], torch.float64)]], {}), ("tensor_split", [wide, d.one(cut, 4, 5), d.int(0, 2)], {}),
        (d.one("hsplit", "vsplit", "dsplit"), [wide, cut], {}), ("hsplit", [d.tensor([4]), 2], {}), ("split_with_sizes", [wide, [1, 3]], {}),
        ("rot90", [d.tensor(d.shape(2, 4)), d.int(-3, 5)], {}), ("rot90", [d.tensor(d.shape(3, 4)), 1, [2, 0]], {}), ("meshgrid", many, {"indexing": d.one("ij", "xy")}),
        ("cartesian_prod", [d.tensor([d.int(0, 3)], torch.int64) for _ in range(d.int(1, 3))], {}), ("combinations", [d.tensor([n])], d.some(r=d.int(0, 3), with_replacement=True)),
        ("block_diag", [d.tensor(d.shape(0, 2), torch.float64) for _ in range(d.int(1, 3))], {}), ("diag_embed", [d.tensor(d.shape(1, 3))], d.some(offset=d.int(-2, 2))),
        ("diag_embed", [d.tensor(d.shape(2, 3)), 0, 0, 2], {}), ("diag", [d.tensor(d.shape(1, 2)), *d.one([], [d.int(-1, 1)])], {}), ("diagflat", [x], d.some(offset=1)),
        ("broadcast_shapes", [(2, 1), (3,)], {}), ("index_fill", [full, axis, index, 2.5], {}), ("index_fill", [full, axis, index, torch.tensor(1.5, dtype=torch.float64)], {}),
        ("index_copy", [full, axis, index, source], {}), ("take", [full, d.whole(d.shape(), -full.numel(), full.numel() - 1)], {}),
        ("put", [full, d.whole([3], -full.numel(), full.numel() - 1), d.real(3), True], {}), ("unravel_index", [d.whole([4], 0, full.numel() - 1), tuple(full.shape)], {}), ("argwhere", [x], {}),
        ("tensordot", [d.real(2, 3, 4), d.real(3, 4, 5)], {}), ("tensordot", [d.real(2, 3, 4), d.real(4, 5, 2)], {"dims": ([0, 2], [2, 0])}), ("inner", [d.real(2, 3), d.real(4, 3)], {}),
        ("inner", [d.real(), d.real(3)], {}), ("kron", [d.real(*d.shape(0, 3)), d.real(*d.shape(0, 3))], {}), ("cross", [d.real(2, 3), d.real(2, 3)], d.some(dim=-1)),
        ("vdot", [d.real(4), d.real(4)], {}), ("addr", [d.real(3), d.real(2), d.real(3)], d.some(beta=0.5, alpha=2)), ("addbmm", [d.real(2, 4), d.real(5, 2, 3), d.real(5, 3, 4)], d.some(beta=0.5)),
        of(d.one("ab,bc->ac", "ab,bc", "aab->b", "ab->", "ab,ab->a", "a,b->ab", "a,b,c->abc", "abc,acd->abd", "...a,ab->...b", "...a,...b", "ab,bc,cd->ad", "aa->a", "abc->cab", "ab,cb,db->acd")), of(d.one("ab,ac->bc", "abc,c", "a...,b...->ab...", "abcd->ad")),
        ("inverse", [d.real(d.int(1, 2), 3, 3)], {}), ("matrix_power", [d.real(3, 3), d.int(-2, 4)], {}), ("chain_matmul", [d.real(2, 3), d.real(3, 4), d.real(4, 1)], {}),
        ("logdet", [d.real(3, 3)], {}), ("cholesky_solve", [d.real(3, 2), d.real(3, 3).tril() + 3 * torch.eye(3)], {}), ("cholesky_solve", [d.real(3, 2), d.real(3, 3).triu() + 3 * torch.eye(3), True], {}),
        ("cholesky_inverse", [d.real(3, 3).tril() + 3 * torch.eye(3)], {}), ("triangular_solve", [d.real(3, 2), d.real(3, 3).triu() + 3 * torch.eye(3)], {}),
        ("triangular_solve", [d.real(3, 2), d.real(3, 3).tril() + 3 * torch.eye(3)], {"upper": False, "transpose": d.flip()}), ("adjoint", [d.one(d.real(2, 3), torch.complex(d.real(2, 3), d.real(2, 3)))], {}),
    )  # fmt: skip


FAMILIES = [_elements, _statistics, _joined, _unary, _activation, _binary, _shapes, _shapes, _create, _reductions, _indices, _matrices, _layers, _losses, _functional]
