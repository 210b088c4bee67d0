# SPDX-License-Identifier: Apache-2.0
"""Random nodes, one function per kind of op."""
import numpy as np
from onnx import TensorProto, helper

from case import Case

FLOATS = [np.float32, np.float64]
INTEGERS = [np.int32, np.int64, np.int8, np.uint8]
UNARY = "Abs Neg Sqrt Exp Log Sin Cos Tanh Sigmoid Erf Floor Ceil Round Sign Relu Softplus Softsign Reciprocal".split()
BINARY = "Add Sub Mul Div Max Min Equal Less LessOrEqual Greater GreaterOrEqual".split()
REDUCED = "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare".split()


def shape(rng, least=0, most=4):
    return tuple(int(rng.choice([0, 1, 2, 3, 5], p=[0.05, 0.2, 0.25, 0.25, 0.25])) for _ in range(rng.integers(least, most + 1)))


def solid(rng, rank):
    return tuple(int(d) for d in rng.integers(1, 6, rank))


def values(rng, size, dtype):
    if np.issubdtype(dtype, np.floating):
        return rng.normal(0, 1.5, size).astype(dtype)
    return rng.integers(0 if dtype == np.uint8 else -5, 6, size).astype(dtype)


def axis(rng, rank):
    return int(rng.integers(-rank, rank))


def unary(rng):
    op = rng.choice(UNARY)
    x = values(rng, shape(rng), rng.choice(FLOATS))
    return Case(op, [np.abs(x) + x.dtype.type(0.1) if op in ("Sqrt", "Log", "Reciprocal") else x])


def binary(rng):
    dtype = rng.choice(FLOATS + INTEGERS)
    whole = shape(rng)
    other = tuple(d if rng.random() < 0.7 else 1 for d in whole)[int(rng.integers(0, len(whole) + 1)):]
    a, b = values(rng, whole, dtype), values(rng, other, dtype)
    op = rng.choice(BINARY)
    if op == "Div":
        b = np.where(b == 0, dtype(3), b)
    return Case(op, [a, b] if rng.random() < 0.5 or op == "Div" else [b, a])


def reduced(rng):
    x = values(rng, solid(rng, int(rng.integers(1, 5))), rng.choice(FLOATS))
    count = int(rng.integers(0, x.ndim + 1))
    axes = rng.permutation(x.ndim)[:count].astype(np.int64) - (x.ndim if rng.random() < 0.5 else 0)
    op, keep = rng.choice(REDUCED), int(rng.integers(0, 2))
    if rng.random() < 0.5:
        return Case(op, [x], [axes] if count else [], keepdims=keep, noop_with_empty_axes=int(rng.integers(0, 2)))
    old = {"axes": axes.tolist()} if count else {}
    return Case(op, [x], opset=12, keepdims=keep, **old)


def sliced(rng):
    x = values(rng, solid(rng, int(rng.integers(1, 4))), rng.choice(FLOATS + INTEGERS))
    axes = rng.permutation(x.ndim)[: int(rng.integers(1, x.ndim + 1))].astype(np.int64)
    bound = lambda: rng.choice([-9, -3, -2, -1, 0, 1, 2, 4, 2**31], len(axes)).astype(np.int64)
    steps = rng.choice([-3, -2, -1, 1, 2], len(axes)).astype(np.int64)
    starts, ends, whole = bound(), bound(), [slice(None)] * x.ndim
    for at, start, end, step in zip(axes, starts, ends, steps):
        # A negative step from before the first element starts at that element; numpy and onnx's evaluator select
        # nothing.
        whole[at] = slice(max(start, -x.shape[at]) if step < 0 else start, end, step)
    return Case("Slice", [x], [starts, ends, axes, steps], answer=x[tuple(whole)])


def moved(rng):
    x = values(rng, shape(rng, 1), rng.choice(FLOATS + INTEGERS))
    kind = rng.integers(0, 5)
    if kind == 0:
        return Case("Transpose", [x], perm=rng.permutation(x.ndim).tolist())
    if kind == 1:
        return Case("Flatten", [x], axis=int(rng.integers(-x.ndim, x.ndim + 1)), opset=13)
    if kind == 2:
        return Case("Concat", [x] * int(rng.integers(1, 4)), axis=axis(rng, x.ndim))
    if kind == 3:
        return Case("Unsqueeze", [x], [np.array([axis(rng, x.ndim + 1)], np.int64)])
    return Case("Tile", [x], [rng.integers(1, 3, x.ndim).astype(np.int64)])


def gathered(rng):
    x = values(rng, solid(rng, int(rng.integers(1, 4))), rng.choice(FLOATS + INTEGERS))
    at = axis(rng, x.ndim)
    size = x.shape[at]
    if rng.random() < 0.5:
        return Case("Gather", [x, rng.integers(-size, size, shape(rng, 0, 2)).astype(np.int64)], axis=at)
    index = rng.integers(-size, size, tuple(int(rng.integers(1, d + 1)) if i != at % x.ndim else 4 for i, d in enumerate(x.shape)))
    return Case("GatherElements", [x, index.astype(np.int64)], axis=at)


def along(rng):
    x = values(rng, solid(rng, int(rng.integers(1, 4))), rng.choice(FLOATS))
    op, at = rng.choice(["Softmax", "LogSoftmax", "Hardmax"]), axis(rng, x.ndim)
    if rng.random() < 0.5:
        return Case(op, [x], axis=at)
    # Before opset 13, all dims from the axis on are treated as one.
    flat = x.reshape(int(np.prod(x.shape[: at % x.ndim])), -1)
    power = np.exp(flat - flat.max(1, keepdims=True))
    soft = power / power.sum(1, keepdims=True)
    first = (np.arange(flat.shape[1]) == flat.argmax(1)[:, None]).astype(x.dtype)
    answer = {"Softmax": soft, "LogSoftmax": np.log(soft), "Hardmax": first}[op]
    return Case(op, [x], axis=at, opset=11, answer=answer.reshape(x.shape).astype(x.dtype))


def extreme(rng):
    x = values(rng, solid(rng, int(rng.integers(1, 4))), rng.choice(FLOATS + [np.int32]))
    return Case(rng.choice(["ArgMax", "ArgMin"]), [x], axis=axis(rng, x.ndim), keepdims=int(rng.integers(0, 2)),
                select_last_index=int(rng.integers(0, 2)))


def windows(rng, dims):
    kernel = [int(k) for k in rng.integers(1, 4, dims)]
    made = {"strides": [int(s) for s in rng.integers(1, 3, dims)], "kernel_shape": kernel}
    if rng.random() < 0.3:
        made["auto_pad"] = str(rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID"]))
    else:
        made["pads"] = [int(p) for p in rng.integers(0, np.array(kernel * 2))]
    return made


def convolved(rng):
    dims, groups = int(rng.integers(1, 3)), int(rng.integers(1, 3))
    made = windows(rng, dims)
    if "auto_pad" not in made:
        made["dilations"] = [int(d) for d in rng.integers(1, 3, dims)]
    x = values(rng, (2, 2 * groups, *(int(d) for d in rng.integers(5, 9, dims))), np.float32)
    w = values(rng, (3 * groups, 2, *made["kernel_shape"]), np.float32)
    bias = [values(rng, (3 * groups,), np.float32)] if rng.random() < 0.5 else []
    return Case("Conv", [x], [w, *bias], group=groups, **made)


def pooled(rng):
    dims = int(rng.integers(1, 3))
    x = values(rng, (2, 3, *(int(d) for d in rng.integers(5, 9, dims))), np.float32)
    if rng.random() < 0.5:
        return Case("AveragePool", [x], count_include_pad=int(rng.integers(0, 2)), **windows(rng, dims))
    made = windows(rng, dims)
    if "auto_pad" in made:  # onnx's evaluator differs from ONNX Runtime and Conv
        return Case("AveragePool", [x], **made)
    made["pads"] = [min(made["pads"][:dims])] * (2 * dims)  # for others, onnx's evaluator drops places or confuses dims
    return Case("MaxPool", [x], **made)


def multiplied(rng):
    m, k, n = solid(rng, 3)
    batch = shape(rng, 0, 2)
    if rng.random() < 0.5:
        return Case("MatMul", [values(rng, (*batch, m, k), np.float32), values(rng, (k, n), np.float32)])
    a, b = int(rng.integers(0, 2)), int(rng.integers(0, 2))
    c = [[], [values(rng, (n,), np.float32)], [values(rng, (m, 1), np.float32)]][int(rng.integers(0, 3))]
    return Case("Gemm", [values(rng, (k, m) if a else (m, k), np.float32), values(rng, (n, k) if b else (k, n), np.float32), *c],
                transA=a, transB=b, alpha=float(rng.choice([1, 0.5])), beta=float(rng.choice([1, 2])))


def resized(rng):
    x = values(rng, (1, 2, *solid(rng, 2)), np.float32)
    sizes = np.array([1, 2, *rng.integers(1, 9, 2)], np.int64)
    mode = str(rng.choice(["nearest", "linear", "cubic"]))
    return Case("Resize", [x], [None, None, sizes], mode=mode, nearest_mode=str(rng.choice(["floor", "ceil", "round_prefer_floor"])),
                coordinate_transformation_mode=str(rng.choice(["half_pixel", "asymmetric", "align_corners"])))


def padded(rng):
    x = values(rng, solid(rng, int(rng.integers(1, 4))), np.float32)
    mode = str(rng.choice(["constant", "edge"]))
    return Case("Pad", [x], [rng.integers(0, 3, 2 * x.ndim).astype(np.int64)], mode=mode)


def bits(rng):
    kinds = [[np.float32, np.int32], [np.float64, np.int64], [np.float16, np.int16], [np.int8, np.uint8]]
    source, to = rng.permutation(kinds[int(rng.integers(0, len(kinds)))])
    size = shape(rng)
    x = np.frombuffer(rng.bytes(int(np.prod(size)) * np.dtype(source).itemsize), source).reshape(size)
    return Case("BitCast", [x], opset=26, answer=np.asarray(x).view(to), bits=True, to=helper.np_dtype_to_tensor_dtype(np.dtype(to)))


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
    inputs, constants = ([a], [b, *zeros]) if rng.random() < 0.7 else ([a, b], zeros)
    return Case("MatMulInteger", inputs, constants, answer=answer, bits=True)


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
    inputs, constants = ([x], [w, *zeros]) if rng.random() < 0.8 else ([x, w], zeros)
    return Case("ConvInteger", inputs, constants, answer=answer.reshape(x.shape[0], -1, *out).astype(np.int32), bits=True, group=groups,
                strides=strides, dilations=dilations, pads=pads)


def diagonals(rng):
    x = values(rng, solid(rng, 2), rng.choice(FLOATS + INTEGERS))
    kinds = [TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT8, TensorProto.INT64, TensorProto.BOOL]
    return Case("EyeLike", [x], k=int(rng.integers(-2, 3)), dtype=int(rng.choice(kinds)))


def certain(rng):
    """Probabilities 0 and 1 must always produce 0 and 1, also in f16, in which most numbers near 1 round to it."""
    p = rng.integers(0, 2, 20000).astype(rng.choice([np.float16, np.float32, np.float64]))
    return Case("Bernoulli", [p], opset=15, answer=p)


MAKERS = [unary, binary, reduced, sliced, moved, gathered, along, extreme, convolved, pooled, multiplied, resized, padded, bits,
          integer_product, integer_convolution, diagonals, certain]
