# SPDX-License-Identifier: Apache-2.0
"""Random nodes of com.microsoft on 8-bit integers and low-bit weights."""
import numpy as np

from case import activations, Case, either, fixed, flag, maybe, open_, sizes, values, weights_of


def scale(rng, shape=()):
    return fixed(rng.uniform(0.01, 0.1, shape).astype(np.float32))


def point(rng, dtype, shape=()):
    return fixed(values(rng, shape, dtype) // 4 + (64 if dtype == np.uint8 else 0))


def pick(rng):
    return rng.choice([np.uint8, np.int8])


def pair(rng):
    dtype = pick(rng)
    whole = sizes(rng, 3)
    other = tuple(d if rng.random() < 0.7 else 1 for d in whole)
    op = str(rng.choice(["QLinearAdd", "QLinearMul"]))
    return Case(op, [open_(values(rng, whole, dtype)), scale(rng), point(rng, dtype), open_(values(rng, other, dtype)), scale(rng), point(rng, dtype),
                     scale(rng), point(rng, dtype)], tolerance=0)


def single(rng):
    dtype = pick(rng)
    x = values(rng, sizes(rng, int(rng.integers(1, 4))), dtype)
    op = str(rng.choice(["QLinearLeakyRelu", "QLinearSigmoid", "QLinearSoftmax"]))
    more = {"QLinearLeakyRelu": {"alpha": 0.2}, "QLinearSoftmax": {"opset": int(rng.choice([11, 13])), "axis": int(rng.integers(-x.ndim, x.ndim))}}
    made = Case(op, [open_(x), scale(rng), point(rng, dtype), fixed(np.float32(1 / 256)), fixed(dtype(0 if dtype == np.uint8 else -128))], quanta=1)
    made.attributes = more.get(op, {})
    return made


def joined(rng):
    dtype = pick(rng)
    shape = sizes(rng, 3)
    if rng.random() < 0.5:
        parts = sum(([open_(values(rng, shape, dtype)), scale(rng), point(rng, dtype)] for _ in range(int(rng.integers(1, 4)))), [])
        return Case("QLinearConcat", [scale(rng), point(rng, dtype), *parts], axis=int(rng.integers(-3, 3)), quanta=1)
    shown = open_(rng.integers(0, 2, shape).astype(bool))
    return Case("QLinearWhere", [shown, open_(values(rng, shape, dtype)), scale(rng), point(rng, dtype), open_(values(rng, shape, dtype)), scale(rng),
                                 point(rng, dtype), scale(rng), point(rng, dtype)], quanta=1)


def pooled(rng):
    dtype = pick(rng)
    last = flag(rng)
    h, w, c = (int(d) for d in rng.integers(4, 8, 3))
    x = values(rng, (2, h, w, c) if last else (2, c, h, w), dtype)
    kernel = [int(k) for k in rng.integers(1, 4, 2)]
    pads = [int(p) for p in rng.integers(0, np.array(kernel * 2))]
    kind = int(rng.integers(0, 3))
    if kind == 0:
        return Case("QLinearGlobalAveragePool", [open_(x), scale(rng), point(rng, dtype), scale(rng), point(rng, dtype)], channels_last=last, quanta=1)
    if kind == 1:
        return Case("QLinearAveragePool", [open_(x), scale(rng), point(rng, dtype), scale(rng), point(rng, dtype)], channels_last=last, quanta=1,
                    kernel_shape=kernel, pads=pads, strides=[int(s) for s in rng.integers(1, 3, 2)], count_include_pad=flag(rng))
    return Case("NhwcMaxPool", [open_(values(rng, (2, h, w, c), dtype))], kernel_shape=kernel, pads=pads, strides=[int(s) for s in rng.integers(1, 3, 2)])


def convolved(rng):
    dtype, last, groups = np.uint8, flag(rng), int(rng.integers(1, 3))
    h, w = (int(d) for d in rng.integers(4, 8, 2))
    kernel = [int(k) for k in rng.integers(1, 4, 2)]
    x = values(rng, (2, h, w, 2 * groups) if last else (2, 2 * groups, h, w), dtype)
    channels = 3 * groups
    each = (channels,) if flag(rng) else ()
    bias = maybe(rng, fixed(rng.integers(-1000, 1000, (channels,)).astype(np.int32)))
    return Case("QLinearConv", [open_(x), scale(rng), point(rng, dtype), fixed(weights_of(rng, (channels, 2, *kernel), np.int8)), scale(rng, each),
                                fixed(np.zeros(each, np.int8)), fixed(np.float32(0.5)), point(rng, dtype), bias],
                channels_last=last, group=groups, kernel_shape=kernel, pads=[int(p) for p in rng.integers(0, 2, 4)], tolerance=0)


def product(rng):
    m, k, n = sizes(rng, 3, 9)
    dtype = pick(rng)
    each = (n,) if flag(rng) else ()
    b = fixed(weights_of(rng, (k, n), dtype))
    kind = int(rng.integers(0, 3))
    bias = maybe(rng, fixed(values(rng, (n,))))
    if kind == 0:
        return Case("DynamicQuantizeMatMul", [open_(values(rng, (2, m, k))), b, scale(rng, each), maybe(rng, point(rng, dtype, each)), bias], tolerance=2e-3)
    if kind == 1:
        return Case("MatMulIntegerToFloat", [open_(values(rng, (2, m, k), np.uint8)), b, scale(rng), scale(rng, each), maybe(rng, point(rng, np.uint8)),
                                             maybe(rng, point(rng, dtype, each)), bias])
    turned = flag(rng)
    c = maybe(rng, fixed(rng.integers(-1000, 1000, (n,)).astype(np.int32)))
    out = [fixed(np.float32(0.5)), point(rng, np.uint8)] if flag(rng) else []
    ta = flag(rng)
    return Case("QGemm", [open_(values(rng, (k, m) if ta else (m, k), np.uint8)), scale(rng), point(rng, np.uint8), fixed(weights_of(rng, (n, k) if turned else (k, n), dtype)), scale(rng, each),
                          point(rng, dtype, each), c, *out], transA=ta, transB=turned, alpha=float(rng.choice([1, 0.5])), tolerance=0 if out else 1e-4)


def attention(rng):
    b, s, heads, size = (int(rng.integers(1, 4)) for _ in range(4))
    size *= 4
    width, total = int(rng.integers(1, 9)), 3 * heads * size
    each = (total,) if flag(rng) else ()
    dtype = pick(rng)
    mask = maybe(rng, open_(rng.integers(1, s + 1, b).astype(np.int32)))
    return Case("QAttention", [open_(values(rng, (b, s, width), np.uint8)), fixed(weights_of(rng, (width, total), dtype)), fixed(values(rng, (total,))),
                               scale(rng), scale(rng, each), mask, point(rng, np.uint8), point(rng, dtype, each)],
                num_heads=heads, unidirectional=flag(rng), tolerance=1e-3)


def lstm(rng):
    steps, batch, inner, hidden = sizes(rng, 4, 6)
    way = str(rng.choice(["forward", "reverse", "bidirectional"]))
    both = 2 if way == "bidirectional" else 1
    inputs = [open_(values(rng, (steps, batch, inner)))]
    weights, dtype = [], pick(rng)
    for rows in (inner, hidden):
        each = (both, 4 * hidden) if flag(rng) else (both,)
        zero = np.zeros(each, dtype)  # per channel, it is 0 or the same u8 for all
        if len(each) == 1 or dtype == np.uint8:
            zero = np.full(each, values(rng, (), dtype) // 4 + (64 if dtype == np.uint8 else 0), dtype)
        inputs.append(fixed(weights_of(rng, (both, rows, 4 * hidden), dtype)))
        weights += [fixed(rng.uniform(0.002, 0.008, each).astype(np.float32)), fixed(zero)]
    state = lambda: maybe(rng, open_(values(rng, (both, batch, hidden))))
    lengths = maybe(rng, either(rng, rng.integers(0 if flag(rng) else 1, steps + 1, batch).astype(np.int32)), 0.4)
    inputs += [maybe(rng, fixed(values(rng, (both, 8 * hidden)))), lengths, state(), state(), maybe(rng, fixed(values(rng, (both, 3 * hidden))), 0.3), *weights]
    return Case("DynamicQuantizeLSTM", inputs, outputs=3, direction=way, hidden_size=hidden, input_forget=maybe(rng, flag(rng), 0.3),
                **activations(rng, 3, both))


def few_bits(rng):
    rows, columns = int(rng.integers(1, 9)), int(rng.choice([16, 32, 40, 70]))
    bits, block = int(rng.choice([2, 4, 8])), int(rng.choice([16, 32]))
    blocks = -(-columns // block)
    packed = rng.integers(0, 256, (rows, blocks, block * bits // 8)).astype(np.uint8)
    scales = rng.uniform(0.01, 0.1, (rows, blocks)).astype(np.float32)
    zero = None
    if rng.random() < 0.6:
        zero = rng.integers(0, 256, (rows, -(-blocks * bits // 8))).astype(np.uint8)
    if rng.random() < 0.4:
        scales = scales.ravel()
        zero = None if zero is None else zero.ravel()
    return Case("MatMulNBits", [open_(values(rng, (2, 3, columns))), fixed(packed), fixed(scales), None if zero is None else fixed(zero), None,
                                maybe(rng, fixed(values(rng, (rows,))))], N=rows, K=columns, bits=bits, block_size=block, tolerance=2e-3)


def normal_floats(rng):
    rows, columns, block = int(rng.integers(1, 9)), int(rng.choice([16, 32, 64])), 16
    packed = rng.integers(0, 256, rows * columns // 2).astype(np.uint8)
    scales = rng.uniform(0.5, 2, rows * columns // block).astype(np.float32)
    return Case("MatMulBnb4", [open_(values(rng, (3, columns))), fixed(packed), fixed(scales)], N=rows, K=columns, block_size=block, quant_type=flag(rng),
                tolerance=1e-3)


def gathered(rng):
    rows, columns, block = 7, int(rng.choice([32, 64])), int(rng.choice([16, 32]))
    bits = int(rng.choice([4, 8]))
    data = rng.integers(0, 256, (rows, columns * bits // 8)).astype(np.uint8)
    blocks = columns // block
    zero = maybe(rng, fixed(rng.integers(0, 256, (rows, -(-blocks * bits // 8))).astype(np.uint8)))
    return Case("GatherBlockQuantized", [fixed(data), open_(rng.integers(-rows, rows, sizes(rng, 2)).astype(np.int64)),
                                         fixed(rng.uniform(0.01, 0.1, (rows, blocks)).astype(np.float32)), zero],
                bits=bits, block_size=block, quantize_axis=1, gather_axis=0)


def linear(rng):
    dtype = pick(rng)
    x = values(rng, (2, 3, 4)) * np.float32(4)
    axis = int(rng.integers(0, 3))
    each = () if flag(rng) else (x.shape[axis],)
    made = {} if not each else {"axis": axis}
    if flag(rng):
        return Case("QuantizeLinear", [open_(x), scale(rng, each), point(rng, dtype, each)], tolerance=0, **made)
    return Case("DequantizeLinear", [open_(values(rng, x.shape, dtype)), scale(rng, each), point(rng, dtype, each)], **made)


MAKERS = [pair, single, joined, pooled, convolved, product, lstm, attention, few_bits, normal_floats, gathered, linear]
