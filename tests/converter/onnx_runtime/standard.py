# SPDX-License-Identifier: Apache-2.0
"""Random nodes of the default domain, in all opset versions: pointwise ops, reductions, and ops that move elements."""
import numpy as np

from case import Case, either, fixed, flag, open_, values

NEWEST = 26  # opset versions are less than this
INTEGERS = [np.int8, np.uint8, np.int32, np.int64]
SPECIAL = [np.inf, -np.inf, np.nan, 0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.5, 1e-30, -1e30, 88.0, -104.0, 1.0, -1.0]


def standard(op, inputs, opset, **more):
    return Case(op, inputs, domain="", opset=int(opset), **more)


def dims(rng, least=0, most=4, empty=0.04):
    chance = [empty, 0.2, 0.26 - empty, 0.3, 0.24]
    return tuple(int(rng.choice([0, 1, 2, 3, 5], p=chance)) for _ in range(int(rng.integers(least, most + 1))))


def axis(rng, rank):
    return int(rng.integers(-rank, rank)) if rank else 0


def floats(rng):
    return [np.float32, np.float64][flag(rng)]


def any_type(rng):
    return INTEGERS[int(rng.integers(4))] if rng.random() < 0.4 else floats(rng)


def ints(*given):
    return np.array(given, np.int64)


UNARY = {
    "Abs": 7, "Neg": 7, "Sqrt": 7, "Exp": 7, "Log": 7, "Sin": 7, "Cos": 7, "Tan": 7, "Asin": 7, "Acos": 7, "Atan": 7, "Sinh": 9,
    "Cosh": 9, "Asinh": 9, "Acosh": 9, "Atanh": 9, "Tanh": 7, "Sigmoid": 7, "Erf": 9, "Floor": 7, "Ceil": 7, "Round": 11, "Sign": 9,
    "Relu": 7, "Softplus": 7, "Softsign": 7, "Reciprocal": 7, "HardSwish": 14, "Mish": 18, "IsNaN": 9, "IsInf": 10, "Identity": 7,
    "Elu": 7, "Selu": 7, "Celu": 12, "LeakyRelu": 7, "HardSigmoid": 7, "ThresholdedRelu": 10, "Shrink": 9, "Gelu": 20, "Clip": 7}


def unary(rng):
    op = str(rng.choice(list(UNARY)))
    x = values(rng, dims(rng), np.float32 if rng.random() < 0.7 else floats(rng)) * 2
    if x.size and rng.random() < 0.5:
        at = rng.integers(0, x.size, 3)
        x.reshape(-1)[at] = rng.choice(SPECIAL, 3).astype(x.dtype)
    given = {}
    if op in ("Elu", "LeakyRelu", "HardSigmoid", "ThresholdedRelu", "Celu", "Selu"):
        given["alpha"] = float(rng.choice([0.1, 1.0, 1.7]))
    if op == "HardSigmoid":
        given["beta"] = float(rng.choice([0.2, 0.5]))
    if op == "Selu":
        given["gamma"] = float(rng.choice([1.05, 2.0]))
    if op == "Shrink":
        given |= {"lambd": 0.7, "bias": float(rng.choice([0.0, 0.3]))}
    if op == "Gelu":
        given["approximate"] = str(rng.choice(["none", "tanh"]))
    if op == "IsInf":
        given |= {"detect_positive": flag(rng), "detect_negative": flag(rng)}
    if op == "Clip":
        given = {"min": -0.5} if flag(rng) else {"max": 0.75}
        return standard(op, [open_(x)], int(rng.integers(7, 11)), **given)
    first = UNARY[op]
    return standard(op, [open_(x)], rng.integers(first, NEWEST), **given)


def clip(rng):
    x = values(rng, dims(rng), any_type(rng))
    low, high = (np.array(v, x.dtype) for v in rng.permutation([1, 3]))
    bounds = [either(rng, low) if flag(rng) else None, either(rng, high) if flag(rng) else None]
    return standard("Clip", [open_(x), *bounds], rng.integers(12, NEWEST))


def broadcast(rng, dtype, count=2, empty=0.04):
    whole = dims(rng, empty=empty)
    return [values(rng, tuple(d if rng.random() < 0.7 else 1 for d in whole)[int(rng.integers(0, len(whole) + 1)) if i else 0:], dtype)
            for i in range(count)]


def binary(rng):
    op = str(rng.choice("Add Sub Mul Div Equal Less LessOrEqual Greater GreaterOrEqual Pow Mod PRelu Max Min".split()))
    dtype = any_type(rng) if op not in ("PRelu",) else np.float32
    a, b = broadcast(rng, dtype)
    given, first = {}, {"LessOrEqual": 12, "GreaterOrEqual": 12, "Mod": 10, "Pow": 7, "Max": 12, "Min": 12}.get(op, 9)
    if op in ("Div", "Mod"):
        b = np.where(b == 0, dtype(3), b).astype(dtype)
    if op == "Mod":
        given["fmod"] = 1 if np.issubdtype(dtype, np.floating) else flag(rng)
    if op == "Pow":
        if np.issubdtype(dtype, np.floating):
            a = np.abs(a) + dtype(0.1)
            if flag(rng):
                b, first = values(rng, b.shape, np.int64) % 5, 12
        else:
            a, b, first = (a % 5).astype(dtype), (b % 4).astype(dtype), 12
    if op == "PRelu":
        return standard(op, [open_(np.broadcast_to(a, np.broadcast_shapes(a.shape, b.shape)).copy()), either(rng, b)], rng.integers(9, NEWEST))
    swapped = flag(rng) and op not in ("Div", "Mod", "Pow")
    return standard(op, [either(rng, b), open_(a)] if swapped else [open_(a), either(rng, b)], rng.integers(first, NEWEST), **given)


def logic(rng):
    op = str(rng.choice("And Or Xor Not BitwiseAnd BitwiseOr BitwiseXor BitwiseNot BitShift Where Equal".split()))
    if op in ("And", "Or", "Xor", "Equal"):
        a, b = (x > 0 for x in broadcast(rng, np.float32))
        return standard(op, [open_(a), open_(b)], rng.integers(11, NEWEST))
    if op == "Not":
        return standard(op, [open_(values(rng, dims(rng)) > 0)], rng.integers(7, NEWEST))
    if op == "BitShift":
        a, b = broadcast(rng, np.uint8)
        return standard(op, [open_(a), open_((b % 8).astype(np.uint8))], rng.integers(11, NEWEST), direction=str(rng.choice(["LEFT", "RIGHT"])))
    if op == "Where":
        c, a, b = broadcast(rng, any_type(rng), 3)
        return standard(op, [open_(c > 0), open_(a), either(rng, b)], rng.integers(9, NEWEST))
    a, b = broadcast(rng, INTEGERS[int(rng.integers(4))])
    return standard(op, [open_(a)] if op == "BitwiseNot" else [open_(a), open_(b)], rng.integers(18, NEWEST))


def several(rng):
    op = str(rng.choice(["Sum", "Mean", "Max", "Min"]))
    dtype = floats(rng) if op in ("Sum", "Mean") else any_type(rng)
    return standard(op, [open_(x) for x in broadcast(rng, np.float32 if op in ("Sum", "Mean") else dtype, int(rng.integers(1, 5)))],
                    rng.integers(8 if op in ("Sum", "Mean") else 12, NEWEST))


def converted(rng):
    types = [*INTEGERS, np.float32, np.float64, np.float16, np.int16, np.bool_]
    a, b = (types[int(rng.integers(len(types)))] for _ in range(2))
    x = rng.uniform(0, 100, dims(rng)) * (1 if b == np.uint8 or a in (np.uint8, np.bool_) else rng.choice([1, -1]))
    x = (x > 50) if a == np.bool_ else x.astype(a)
    from onnx import helper
    to = helper.np_dtype_to_tensor_dtype(np.dtype(b))
    if rng.random() < 0.3:
        return standard("CastLike", [open_(x), open_(np.zeros((2,), b))], rng.integers(15, NEWEST))
    return standard("Cast", [open_(x)], rng.integers(9, NEWEST), to=to)


REDUCED = "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum ReduceLogSumExp".split()


def reduced(rng):
    op = str(rng.choice(REDUCED))
    x = values(rng, dims(rng, empty=0.03), np.float32 if rng.random() < 0.7 else rng.choice([np.float64, np.int32, np.int64]))
    if op == "ReduceLogSum":
        x = np.abs(x) + x.dtype.type(1)
    if op == "ReduceProd" and np.issubdtype(x.dtype, np.integer):
        x = (x % 4).astype(x.dtype)
    count = int(rng.integers(0, x.ndim + 1))
    axes = rng.permutation(x.ndim)[:count].astype(np.int64) - (x.ndim if flag(rng) else 0)
    keep, late = flag(rng), 13 if op == "ReduceSum" else 18
    if flag(rng):
        given = [fixed(axes)] if count or flag(rng) else []
        return standard(op, [open_(x), *given], rng.integers(late, NEWEST), keepdims=keep, noop_with_empty_axes=flag(rng))
    return standard(op, [open_(x)], rng.integers(7 if count == 0 or (axes >= 0).all() else 11, late), keepdims=keep,
                    axes=axes.tolist() if count else None)


def extreme(rng):
    x = values(rng, dims(rng, 1, empty=0), any_type(rng))
    if flag(rng):
        x = (x * 2).astype(np.int32).astype(x.dtype)  # ties
    late = flag(rng)
    at = axis(rng, x.ndim)
    return standard(str(rng.choice(["ArgMax", "ArgMin"])), [open_(x)], rng.integers(12, NEWEST) if late else rng.integers(11, 12), axis=at,
                    keepdims=flag(rng), select_last_index=flag(rng) if late else None)


def along(rng):
    x = values(rng, dims(rng, 1), floats(rng)) * rng.choice([1, 30])
    op = str(rng.choice(["Softmax", "LogSoftmax", "Hardmax", "LpNormalization", "CumSum"]))
    at = axis(rng, x.ndim)
    if op == "CumSum":
        x = x if flag(rng) else x.astype(np.int32)
        where = np.array(at, rng.choice([np.int32, np.int64]))
        return standard(op, [open_(x), fixed(where)], rng.integers(11, NEWEST), exclusive=flag(rng), reverse=flag(rng))
    if op == "LpNormalization":
        return standard(op, [open_(x)], rng.integers(7, 22), axis=at, p=int(rng.integers(1, 3)))
    version = int(rng.integers(7, NEWEST))
    return standard(op, [open_(x.astype(np.float32) if op == "Hardmax" else x)], version,
                    axis=at if version >= 11 else at % x.ndim)


def best(rng):
    x = values(rng, dims(rng, 1, empty=0), np.float32 if flag(rng) else any_type(rng))
    at = axis(rng, x.ndim)
    k = int(rng.integers(0, x.shape[at] + 1))
    version = int(rng.integers(7, NEWEST))
    if version < 10:
        return standard("TopK", [open_(x.astype(np.float32))], version, outputs=2, axis=at % x.ndim, k=max(k, 1))
    late = {"largest": flag(rng), "sorted": 1} if version >= 11 else {}
    return standard("TopK", [open_(x if late else x.astype(np.float32)), either(rng, ints(k)) if k else fixed(ints(1))], version, outputs=2, axis=at, **late)


def sliced(rng):
    x = values(rng, dims(rng, 1), any_type(rng))
    axes = rng.permutation(x.ndim)[: int(rng.integers(1, x.ndim + 1))]
    kind = rng.choice([np.int32, np.int64])
    bound = lambda: rng.choice([-9, -3, -2, -1, 0, 1, 2, 4, 9], len(axes))  # ONNX Runtime takes INT_MAX for both ends
    version = int(rng.integers(7, NEWEST))
    starts, ends = bound(), bound()
    if version < 10:
        return standard("Slice", [open_(x)], version, axes=axes.tolist(), starts=starts.tolist(), ends=ends.tolist())
    axes = axes - (x.ndim if flag(rng) and version >= 11 else 0)
    how = either if rng.random() < 0.3 else lambda _, v: fixed(v)
    steps = rng.choice([-3, -2, -1, 1, 2], len(axes)) if flag(rng) else np.ones(len(axes))
    return standard("Slice", [open_(x), how(rng, starts.astype(kind)), how(rng, ends.astype(kind)), fixed(axes.astype(kind)),
                              fixed(steps.astype(kind)) if (steps != 1).any() or flag(rng) else None], version)


def split(rng):
    x = values(rng, dims(rng, 1, empty=0), any_type(rng))
    at, version = axis(rng, x.ndim), int(rng.integers(7, NEWEST))
    size = x.shape[at]
    parts = int(rng.integers(1, size + 1))
    cuts = np.sort(rng.integers(0, size + 1, parts - 1))
    pieces = np.diff(np.concatenate([[0], cuts, [size]])).astype(np.int64)
    if version < 11:
        at %= x.ndim
    if version < 13:
        even = size % parts == 0 and flag(rng)
        return standard("Split", [open_(x)], version, outputs=parts, axis=at, split=None if even else pieces.tolist())
    if version >= 18 and flag(rng):
        return standard("Split", [open_(x)], version, outputs=parts, axis=at, num_outputs=parts)
    return standard("Split", [open_(x), fixed(pieces)], version, outputs=parts, axis=at)


def shaped(rng):
    x = values(rng, dims(rng), any_type(rng))
    op = str(rng.choice("Reshape Flatten Squeeze Unsqueeze Expand Tile Transpose Shape Size Concat".split()))
    if op == "Reshape":
        target = list(rng.permutation(x.shape)) if x.ndim else [1]
        version = int(rng.integers(7, NEWEST))
        zero = flag(rng) if version >= 14 else None
        if target and 0 not in target and flag(rng):
            target[int(rng.integers(len(target)))] = -1
        if x.ndim and not zero and flag(rng) and len(target) == x.ndim and x.shape[0] == target[0]:
            target[0] = 0
        return standard(op, [open_(x), either(rng, ints(*target)) if rng.random() < 0.2 else fixed(ints(*target))], version, allowzero=zero)
    if op == "Flatten":
        version = int(rng.integers(9, NEWEST))
        return standard(op, [open_(x)], version, axis=int(rng.integers(-x.ndim if version >= 11 else 0, x.ndim + 1)))
    if op == "Squeeze":
        ones = [i for i, d in enumerate(x.shape) if d == 1]
        version = int(rng.integers(7, NEWEST))
        back = x.ndim if flag(rng) and version >= 11 else 0
        axes = [i - back for i in ones if flag(rng)]
        if version < 13:
            return standard(op, [open_(x)], version, axes=axes or None)
        return standard(op, [open_(x), fixed(ints(*axes)) if axes else None], version)
    if op == "Unsqueeze":
        count, version = int(rng.integers(1, 3)), int(rng.integers(7, NEWEST))
        axes = rng.permutation(x.ndim + count)[:count] - (x.ndim + count if flag(rng) and version >= 11 else 0)
        if version < 13:
            return standard(op, [open_(x)], version, axes=sorted(axes.tolist()))
        return standard(op, [open_(x), fixed(axes.astype(np.int64))], version)
    if op == "Expand":
        target = [int(rng.choice([1, d])) if d != 1 else int(rng.integers(1, 4)) for d in x.shape]
        target = [2] * int(rng.integers(0, 2)) + target if flag(rng) else target[int(rng.integers(0, len(target) + 1)):]
        return standard(op, [open_(x), either(rng, ints(*target))], rng.integers(8, NEWEST))
    if op == "Tile":
        return standard(op, [open_(x), either(rng, rng.integers(0, 4, x.ndim).astype(np.int64))], rng.integers(7, NEWEST))
    if op == "Transpose":
        return standard(op, [open_(x)], rng.integers(7, NEWEST), perm=rng.permutation(x.ndim).tolist() if x.ndim and flag(rng) else None)
    if op == "Shape":
        late = flag(rng)
        return standard(op, [open_(x)], rng.integers(15, NEWEST) if late else rng.integers(7, 15),
                        start=int(rng.integers(-5, 5)) if late and flag(rng) else None, end=int(rng.integers(-5, 5)) if late and flag(rng) else None)
    if op == "Size":
        return standard(op, [open_(x)], rng.integers(7, NEWEST))
    at = axis(rng, max(x.ndim, 1))
    x = x if x.ndim else x.reshape(1)
    other = lambda: values(rng, tuple(int(rng.integers(0, 4)) if i == at % x.ndim else d for i, d in enumerate(x.shape)), x.dtype)
    version = int(rng.integers(7, NEWEST))
    return standard(op, [open_(x), *[either(rng, other()) for _ in range(int(rng.integers(0, 3)))]], version, axis=at if version >= 11 else at % x.ndim)


def padded(rng):
    x = values(rng, dims(rng, 1, empty=0), np.float32)
    mode = str(rng.choice(["constant", "edge", "reflect", "wrap"]))
    most = min(x.shape) if mode in ("reflect", "wrap") else 3
    version = int(rng.integers(19 if mode == "wrap" else 7, NEWEST))
    low = -1 if mode == "constant" and min(x.shape) > 2 else 0
    if version < 11:
        return standard("Pad", [open_(x)], version, mode=mode, pads=rng.integers(low, max(most, 1), 2 * x.ndim).tolist(),
                        value=float(rng.choice([0, 1.5])))
    axes = None
    if version >= 18 and flag(rng):
        axes = rng.permutation(x.ndim)[: int(rng.integers(1, x.ndim + 1))] - (x.ndim if flag(rng) else 0)
    count = x.ndim if axes is None else len(axes)
    pads = rng.integers(low, max(most, 1), 2 * count).astype(np.int64)
    value = either(rng, np.array(rng.choice([0, 1.5]), x.dtype)) if mode == "constant" and flag(rng) else None
    return standard("Pad", [open_(x), fixed(pads), value, None if axes is None else fixed(axes.astype(np.int64))], version, mode=mode)


def gathered(rng):
    x = values(rng, dims(rng, 1, empty=0), any_type(rng))
    at = axis(rng, x.ndim)
    size = x.shape[at]
    kind = rng.choice([np.int32, np.int64])
    op = str(rng.choice(["Gather", "GatherElements", "GatherND"]))
    if op == "Gather":
        return standard(op, [open_(x), either(rng, rng.integers(-size, size, dims(rng, 0, 2)).astype(kind))], rng.integers(11, NEWEST), axis=at)
    if op == "GatherElements":
        index = rng.integers(-size, size, tuple(int(rng.integers(1, d + 1)) if i != at % x.ndim else 4 for i, d in enumerate(x.shape)))
        return standard(op, [open_(x), either(rng, index.astype(kind))], rng.integers(11, NEWEST), axis=at)
    batch = int(rng.integers(0, min(2, x.ndim)))
    depth = int(rng.integers(1, x.ndim - batch + 1))
    lead = x.shape[:batch] + dims(rng, 0, 1, 0)
    index = np.stack([rng.integers(-x.shape[batch + i], x.shape[batch + i], lead) for i in range(depth)], -1).astype(np.int64)
    return standard(op, [open_(x), either(rng, index)], rng.integers(12, NEWEST), batch_dims=batch)


def scattered(rng):
    x = values(rng, dims(rng, 1, empty=0), any_type(rng))
    at = axis(rng, x.ndim)
    reduction = str(rng.choice(["none", "add", "mul", "max", "min"]))
    version = {"none": 11, "add": 16, "mul": 16}.get(reduction, 18)
    given = {} if version == 11 else {"reduction": reduction}
    if flag(rng):
        shape = tuple(int(rng.integers(1, d + 1)) for d in x.shape)
        order = rng.permuted(np.broadcast_to(np.arange(x.shape[at]).reshape([-1 if i == at % x.ndim else 1 for i in range(x.ndim)]), x.shape), axis=at)
        index = order[tuple(slice(0, d) for d in shape)].astype(np.int64)  # each position once
        index = index - (x.shape[at] if flag(rng) else 0)
        return standard("ScatterElements", [open_(x), either(rng, index), open_(values(rng, shape, x.dtype))], rng.integers(version, NEWEST), axis=at, **given)
    depth = int(rng.integers(1, x.ndim + 1))
    places = np.array(list(np.ndindex(*x.shape[:depth])))
    chosen = places[rng.permutation(len(places))[: int(rng.integers(1, len(places) + 1))]].astype(np.int64)
    if given and flag(rng):
        chosen = np.concatenate([chosen, chosen])
    return standard("ScatterND", [open_(x), either(rng, chosen), open_(values(rng, (len(chosen), *x.shape[depth:]), x.dtype))],
                    rng.integers(version, NEWEST), **given)


def made(rng):
    op = str(rng.choice("OneHot EyeLike Trilu Range ConstantOfShape Compress NonZero Unique ReverseSequence DepthToSpace SpaceToDepth".split()))
    if op == "OneHot":
        index = rng.integers(-4, 6, dims(rng, 1, 3)).astype(rng.choice([np.int64, np.int32]))
        return standard(op, [open_(index), fixed(ints(int(rng.integers(4, 6)))),
                             either(rng, values(rng, (2,), np.float32))], rng.integers(11, NEWEST), axis=axis(rng, index.ndim + 1))
    if op == "EyeLike":
        from onnx import TensorProto
        return standard(op, [open_(values(rng, dims(rng, 2, 2, 0), any_type(rng)))], rng.integers(9, NEWEST), k=int(rng.integers(-2, 3)),
                        dtype=int(rng.choice([TensorProto.FLOAT, TensorProto.INT64])) if flag(rng) else None)
    if op == "Trilu":
        k = either(rng, np.array(rng.integers(-3, 4), np.int64)) if flag(rng) else None
        return standard(op, [open_(values(rng, dims(rng, 2), any_type(rng))), k], rng.integers(14, NEWEST), upper=flag(rng))
    if op == "Range":
        kind = rng.choice([np.float32, np.float64, np.int32, np.int64])
        start, step = kind(rng.integers(-3, 4)), kind(rng.choice([-2, -1, 1, 2]))
        return standard(op, [either(rng, start), either(rng, kind(start + step * rng.integers(-1, 6))), fixed(step)], rng.integers(11, NEWEST))
    if op == "ConstantOfShape":
        from onnx import numpy_helper
        return standard(op, [either(rng, ints(*dims(rng, 0, 3)))], rng.integers(9, NEWEST), value=numpy_helper.from_array(values(rng, (1,), any_type(rng))))
    x = values(rng, dims(rng, 1, empty=0), any_type(rng))
    if op == "Compress":
        at = axis(rng, x.ndim) if flag(rng) else None
        size = x.size if at is None else x.shape[at]
        return standard(op, [open_(x), either(rng, rng.random(int(rng.integers(0, size + 1))) < 0.5)], rng.integers(11, NEWEST), axis=at)
    if op == "NonZero":
        return standard(op, [open_((x * (rng.random(x.shape) < 0.5)).astype(x.dtype))], rng.integers(9, NEWEST))
    if op == "Unique":
        x = (x * 2).astype(np.int32).astype(x.dtype)
        return standard(op, [open_(x)], rng.integers(11, NEWEST), outputs=4, axis=axis(rng, x.ndim) if flag(rng) else None, sorted=flag(rng))
    if op == "ReverseSequence":
        x = values(rng, (3, 4, *dims(rng, 0, 2)), any_type(rng))
        batch = flag(rng)
        return standard(op, [open_(x), either(rng, rng.integers(1, x.shape[1 - batch] + 1, x.shape[batch]).astype(np.int64))], rng.integers(10, NEWEST),
                        batch_axis=batch, time_axis=1 - batch)
    block = int(rng.integers(1, 4))
    if op == "DepthToSpace":
        x = values(rng, (2, 2 * block * block, 3, 2), np.float32)
        return standard(op, [open_(x)], rng.integers(11, NEWEST), blocksize=block, mode=str(rng.choice(["DCR", "CRD"])))
    return standard(op, [open_(values(rng, (2, 2, 3 * block, 2 * block), np.float32))], rng.integers(7, NEWEST), blocksize=block)


MAKERS = [unary, clip, binary, logic, several, converted, reduced, extreme, along, best, sliced, split, shaped, padded, gathered, scattered, made]
