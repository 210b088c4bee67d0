# SPDX-License-Identifier: Apache-2.0
"""Random nodes of com.microsoft: products, activations, norms, embeddings."""
import numpy as np

from case import Case, either, fixed, flag, maybe, open_, sizes, values


def fused_mat_mul(rng):
    batch = sizes(rng, int(rng.integers(0, 3)), 4)
    m, k, n = sizes(rng, 3)
    ta, tb = flag(rng), flag(rng)
    ba = flag(rng) if batch else 0
    bb = flag(rng) if batch else 0

    def shaped(rows, columns, swapped, behind):
        inner = (columns, rows) if swapped else (rows, columns)
        return (inner[0], *batch, inner[1]) if behind else (*batch, *inner)

    dtype = rng.choice([np.float32, np.float64])
    a, b = values(rng, shaped(m, k, ta, ba), dtype), values(rng, shaped(k, n, tb, bb), dtype)
    return Case("FusedMatMul", [open_(a), either(rng, b)], transA=ta, transB=tb, transBatchA=ba, transBatchB=bb,
                alpha=float(rng.choice([1, 0.5, -2])))


def transpose_mat_mul(rng):
    m, k, n = sizes(rng, 3)
    ta, tb = flag(rng), flag(rng)
    return Case("TransposeMatMul", [open_(values(rng, (k, m) if ta else (m, k))), open_(values(rng, (n, k) if tb else (k, n)))],
                transA=ta, transB=tb, alpha=float(rng.choice([1, 0.25])))


def fused_gemm(rng):
    m, k, n = sizes(rng, 3)
    ta, tb = flag(rng), flag(rng)
    name = str(rng.choice(["Relu", "LeakyRelu", "Tanh", "Sigmoid", "HardSigmoid", "Elu", "Softplus", "Softsign"]))
    alpha = 0.3 if name in ("LeakyRelu", "HardSigmoid", "Elu") else None
    c = [None, values(rng, (n,)), values(rng, (m, n))][int(rng.integers(0, 3))]
    return Case("FusedGemm", [open_(values(rng, (k, m) if ta else (m, k))), fixed(values(rng, (n, k) if tb else (k, n))),
                              None if c is None else fixed(c)],
                transA=ta, transB=tb, alpha=float(rng.choice([1, 0.5])), beta=float(rng.choice([1, 2])), activation=name,
                activation_alpha=alpha, activation_beta=0.4 if name == "HardSigmoid" else None)


def fused_conv(rng):
    dims, groups = 2, int(rng.integers(1, 3))
    kernel = [int(k) for k in rng.integers(1, 4, dims)]
    x = values(rng, (2, 2 * groups, *(int(d) for d in rng.integers(5, 8, dims))))
    w = values(rng, (3 * groups, 2, *kernel))
    name = str(rng.choice(["Relu", "LeakyRelu", "Tanh", "Sigmoid", "HardSigmoid", "Clip"]))
    parameters = {"LeakyRelu": [0.2], "HardSigmoid": [0.3, 0.4], "Clip": [-0.5, 1.5]}.get(name)
    bias = maybe(rng, fixed(values(rng, (3 * groups,))))
    pads = [int(p) for p in rng.integers(0, 2, 2 * dims)]
    shape = [2, 3 * groups] + [d + pads[i] + pads[i + dims] - kernel[i] + 1 for i, d in enumerate(x.shape[2:])]
    z = maybe(rng, open_(values(rng, shape))) if name == "Relu" else None
    return Case("FusedConv", [open_(x), fixed(w), bias, z], activation=name, activation_params=parameters, group=groups,
                kernel_shape=kernel, pads=pads)


def activation(rng):
    x = values(rng, sizes(rng, int(rng.integers(1, 4))) + (8,)) * np.float32(3)
    kind = int(rng.integers(0, 4))
    if kind == 0:
        return Case("Gelu", [open_(x)])
    if kind == 1:
        return Case("BiasGelu", [open_(x), fixed(values(rng, (8,)))])
    if kind == 2:
        return Case("FastGelu", [open_(x), maybe(rng, fixed(values(rng, (8,))))])
    return Case("QuickGelu", [open_(x)], alpha=float(rng.choice([1.702, 1, 0.5])))


def skip_norm(rng):
    b, s = sizes(rng, 2)
    h = int(rng.choice([1, 4, 8, 17]))
    x, skip = values(rng, (b, s, h)), values(rng, (b, s, h))
    if rng.random() < 0.3:
        skip = skip[:1] if rng.random() < 0.5 else skip[0]
    gamma, beta, bias = values(rng, (h,)), values(rng, (h,)), values(rng, (h,))
    epsilon = float(rng.choice([1e-12, 1e-5, 0.1])) if h > 1 else 0.1
    sums = {"outputs": 4, "keep": (0, 3)} if rng.random() < 0.5 else {}
    if rng.random() < 0.5:
        return Case("SkipLayerNormalization", [open_(x), open_(skip), fixed(gamma), maybe(rng, fixed(beta)), maybe(rng, fixed(bias))],
                    epsilon=epsilon, **sums)
    return Case("SkipSimplifiedLayerNormalization", [open_(x), open_(skip), fixed(gamma), maybe(rng, fixed(bias))], epsilon=epsilon, **sums)


def simplified_norm(rng):
    shape = sizes(rng, int(rng.integers(1, 4))) + (int(rng.choice([2, 8, 17])),)
    axis = int(rng.integers(-len(shape), len(shape)))
    dtype = rng.choice([np.float32, np.float64])
    return Case("SimplifiedLayerNormalization", [open_(values(rng, shape, dtype)), fixed(values(rng, shape[axis % len(shape):], dtype))],
                domain="", opset=17, axis=axis, epsilon=float(rng.choice([1e-5, 0.1])))


def embedding(rng):
    b, s = sizes(rng, 2)
    h = 8
    ids = rng.integers(0, 11, (b, s)).astype(np.int32)
    segments = rng.integers(0, 2, (b, s)).astype(np.int32)
    with_segments = rng.random() < 0.6
    mask = maybe(rng, open_(rng.integers(0, 2, (b, s)).astype(np.int32)))
    at = maybe(rng, open_(rng.integers(0, 7, (b if rng.random() < 0.5 else 1, s)).astype(np.int32)), 0.4)
    outputs = {"outputs": 3} if rng.random() < 0.5 else {"outputs": 2}
    return Case("EmbedLayerNormalization",
                [open_(ids), open_(segments) if with_segments else None, fixed(values(rng, (11, h))), fixed(values(rng, (7, h))),
                 fixed(values(rng, (2, h))) if with_segments else None, fixed(values(rng, (h,))), fixed(values(rng, (h,))), mask, at],
                epsilon=1e-6, **outputs)


def other(rng):
    kind = int(rng.integers(0, 6))
    if kind == 0:
        x = values(rng, sizes(rng, 3))
        return Case("Trilu", [open_(x), maybe(rng, fixed(np.int64(rng.integers(-3, 4))))], upper=flag(rng))
    if kind == 1:
        x = values(rng, sizes(rng, 2))
        return Case("ExpandDims", [open_(x), fixed(np.int32(rng.integers(-3, 3)))])
    if kind == 2:
        n = int(rng.integers(1, 5))
        return Case("Inverse", [open_(values(rng, (2, n, n)) + 4 * np.eye(n, dtype=np.float32))])
    if kind == 3:
        return Case("CDist", [open_(values(rng, (3, 4))), open_(values(rng, (5, 4)))], metric=str(rng.choice(["euclidean", "sqeuclidean"])))
    if kind == 4:
        data = values(rng, sizes(rng, 3))
        count = int(rng.integers(1, 4))
        index = np.stack([rng.integers(0, d, (4,)) for d in data.shape[:count]], -1).astype(np.int64)
        return Case("GatherND", [open_(data), open_(index)])
    x = values(rng, (2, 9, 3))
    return Case("UnfoldTensor", [open_(x)], dim=1, size=int(rng.integers(1, 5)), step=int(rng.integers(1, 3)))


MAKERS = [fused_mat_mul, transpose_mat_mul, fused_gemm, fused_conv, activation, skip_norm, simplified_norm, embedding, other]
