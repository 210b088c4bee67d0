# SPDX-License-Identifier: Apache-2.0
"""Random nodes whose results numpy gives exactly: integer products, bits, probabilities 0 and 1, long strides."""
import numpy as np
from onnx import helper

from case import either, fixed, flag, open_
from standard import dims, standard


def bits(rng):
    kinds = [[np.float32, np.int32], [np.float64, np.int64], [np.float16, np.int16], [np.int8, np.uint8]]
    source, to = rng.permutation(kinds[int(rng.integers(0, len(kinds)))])
    size = dims(rng)
    x = np.frombuffer(rng.bytes(int(np.prod(size)) * np.dtype(source).itemsize), source).reshape(size)
    return standard("BitCast", [open_(x)], 26, answer=np.asarray(x).view(to), to=helper.np_dtype_to_tensor_dtype(np.dtype(to)))


def eight_bits(rng, size):
    """Returns 8-bit integers: all at one limit, at both limits, small or arbitrary."""
    dtype = rng.choice([np.uint8, np.int8])
    limits = np.iinfo(dtype)
    kind = rng.integers(0, 4)
    if kind == 0:
        return np.full(size, rng.choice([limits.min, limits.max]), dtype)
    if kind == 1:
        return rng.choice([limits.min, limits.max], size).astype(dtype)
    if kind == 2:
        return np.clip(rng.normal((limits.min + limits.max) / 2, 20, size), limits.min, limits.max).astype(dtype)
    return rng.integers(limits.min, limits.max + 1, size).astype(dtype)


def zero_point(rng, x, count):
    """Returns None, one number, or `count` numbers."""
    kind, limits = rng.integers(0, 3), np.iinfo(x.dtype)
    size = () if kind == 1 or count is None else (count,)
    return None if kind == 0 else rng.integers(limits.min, limits.max + 1, size).astype(x.dtype)


def less(x, zero, shape):
    return x.astype(np.int64) - (0 if zero is None else zero.astype(np.int64).reshape(shape if zero.ndim else ()))


def integer_product(rng):
    m, n = int(rng.integers(1, 9)), int(rng.integers(1, 20))
    k = int(rng.choice([0, 1, 7, 64, 300, 1000, 5000]))
    a, b = eight_bits(rng, (*[(), (2,)][int(rng.integers(0, 2))], m, k)), eight_bits(rng, (k, n))
    zeros = zero_point(rng, a, m if a.ndim == 2 else None), zero_point(rng, b, n)
    answer = (less(a, zeros[0], (m, 1)) @ less(b, zeros[1], (n,))).astype(np.int32)
    inputs = [open_(a), either(rng, b), *(None if zero is None else fixed(zero) for zero in zeros)]
    return standard("MatMulInteger", inputs, 10, answer=answer)


def integer_convolution(rng):
    groups = 1 if rng.random() < 0.7 else int(rng.integers(1, 4))
    channels, outs = int(rng.choice([1, 3, 16, 40, 130])), int(rng.choice([1, 4, 17]))
    kernel = [3, 3] if rng.random() < 0.6 else [int(d) for d in rng.integers(1, 5, 2)]
    strides, dilations = ([1, 1] if rng.random() < 0.6 else [int(d) for d in rng.integers(1, 3, 2)] for _ in range(2))
    pads = [int(p) for p in rng.integers(0, 3, 4)] if rng.random() < 0.5 else [1] * 4
    x = eight_bits(rng, (int(rng.integers(1, 3)), channels * groups, *(int(d) for d in rng.integers(7, 13, 2))))
    w = eight_bits(rng, (outs * groups, channels, *kernel))
    zeros = zero_point(rng, x, None), zero_point(rng, w, outs * groups)
    wide = np.pad(less(x, zeros[0], ()), [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])])
    weight = less(w, zeros[1], (-1, 1, 1, 1)).reshape(groups, outs, channels, *kernel)
    out = [(wide.shape[2 + d] - dilations[d] * (kernel[d] - 1) - 1) // strides[d] + 1 for d in range(2)]
    answer = np.zeros((x.shape[0], groups, outs, *out), np.int64)
    apart = wide.reshape(x.shape[0], groups, channels, *wide.shape[2:])
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            first = (i * dilations[0], j * dilations[1])
            seen = apart[..., first[0]:first[0] + strides[0] * (out[0] - 1) + 1:strides[0], first[1]:first[1] + strides[1] * (out[1] - 1) + 1:strides[1]]
            answer += np.einsum("goc,ngcyx->ngoyx", weight[..., i, j], seen)
    inputs = [open_(x), either(rng, w), *(None if zero is None else fixed(zero) for zero in zeros)]
    return standard("ConvInteger", inputs, 10, answer=answer.reshape(x.shape[0], -1, *out).astype(np.int32), group=groups,
                    strides=strides, dilations=dilations, pads=pads)


def certain(rng):
    """Probabilities 0 and 1 must always produce 0 and 1, also in f16, in which most numbers near 1 round to it."""
    p = rng.integers(0, 2, 20000).astype(rng.choice([np.float16, np.float32, np.float64]))
    return standard("Bernoulli", [open_(p)], 15, answer=p)


def long_strides(rng):
    """SAME where strides exceed the kernel. ONNX Runtime rejects it, crops the input, or returns smaller results than ONNX demands, depending on the op."""
    n, kernel = int(rng.integers(1, 12)), int(rng.integers(1, 4))
    stride = kernel + int(rng.integers(1, 4))
    x = (rng.choice([-1, 1], (2, 1, n)) * rng.integers(1, 100, (2, 1, n))).astype(np.float32)
    given = {"kernel_shape": [kernel], "strides": [stride]}
    if flag(rng):
        answer = np.zeros((2, 1, n * stride), np.float32)
        w = rng.integers(1, 10, kernel).astype(np.float32)
        for k in range(kernel):
            answer[..., k::stride] = x * w[k]
        inputs = [open_(x), fixed(w.reshape(1, 1, kernel))]
        if flag(rng):
            given["output_shape"] = [n * stride]
        if "output_shape" not in given or flag(rng):
            given["auto_pad"] = str(rng.choice(["SAME_UPPER", "SAME_LOWER"]))
        return standard("ConvTranspose", inputs, rng.integers(7, 22), answer=answer, **given)
    given["auto_pad"] = str(rng.choice(["SAME_UPPER", "SAME_LOWER"]))
    out = -(-n // stride)
    total = max(0, (out - 1) * stride + kernel - n)
    before = total // 2 if given["auto_pad"] == "SAME_UPPER" else total - total // 2
    windows = [x[..., max(0, o * stride - before):o * stride - before + kernel] for o in range(out)]
    op = str(rng.choice(["MaxPool", "Conv"]))
    answer = np.stack([w.max(-1) if op == "MaxPool" else w.sum(-1) for w in windows], -1)
    inputs = [open_(x)] if op == "MaxPool" else [open_(x), fixed(np.ones((1, 1, kernel), np.float32))]
    return standard(op, inputs, rng.integers(8, 22), answer=answer, **given)


MAKERS = [bits, integer_product, integer_convolution, certain, long_strides]
