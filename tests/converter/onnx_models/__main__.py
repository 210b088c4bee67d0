#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random models of one ONNX op each, converted and run, beside onnx's reference evaluator.

usage: onnx_models BIN WORK [--count N] [--seed S]
Exits with 77 where Python has no onnx. A case that fails prints the seed that makes it again alone.
"""
import argparse, json, pathlib, shutil, subprocess, sys

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from onnx.reference import ReferenceEvaluator
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

FLOATS = [np.float32, np.float64]
INTEGERS = [np.int32, np.int64, np.int8, np.uint8]
UNARY = "Abs Neg Sqrt Exp Log Sin Cos Tanh Sigmoid Erf Floor Ceil Round Sign Relu Softplus Softsign Reciprocal".split()
BINARY = "Add Sub Mul Div Max Min Equal Less LessOrEqual Greater GreaterOrEqual".split()
REDUCED = "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare".split()


class Case:
    """Inputs that stay open, constants, the op and its attributes."""

    def __init__(self, op, inputs, constants=(), opset=21, outputs=1, answer=None, bits=False, **attributes):
        self.answer = answer  # where onnx's evaluator knows the newest version alone
        self.bits = bits      # whether all bits must be equal
        self.op, self.inputs, self.constants, self.opset = op, list(inputs), list(constants), opset
        self.outputs, self.attributes = outputs, attributes

    def model(self):
        names = [f"x{i}" for i in range(len(self.inputs))]
        fixed = [f"c{i}" if c is not None else "" for i, c in enumerate(self.constants)]
        node = helper.make_node(self.op, names + fixed, [f"y{i}" for i in range(self.outputs)], **self.attributes)
        made = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
                for n, x in zip(names, self.inputs)]
        given = [numpy_helper.from_array(c, n) for n, c in zip(fixed, self.constants) if c is not None]
        results = [helper.make_empty_tensor_value_info(f"y{i}") for i in range(self.outputs)]
        graph = helper.make_graph([node], self.op, made, results, given)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)


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
        # Backwards from before the first element is from that one; numpy, and so onnx's evaluator, takes none.
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
    # Before opset 13 all dims from the axis on are one.
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
    if "auto_pad" in made:  # which onnx's evaluator computes in another way than ONNX Runtime and Conv
        return Case("AveragePool", [x], **made)
    made["pads"] = [min(made["pads"][:dims])] * (2 * dims)  # of others onnx's evaluator drops places or mixes up the dims
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
    """Integers of 8 bits: all the same limit, both limits, small ones or any."""
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
    """None, one number, or one for each of so many places."""
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
    """What is certain is drawn always, in halves too, where most numbers near 1 become it."""
    p = rng.integers(0, 2, 20000).astype(rng.choice([np.float16, np.float32, np.float64]))
    return Case("Bernoulli", [p], opset=15, answer=p)


MAKERS = [unary, binary, reduced, sliced, moved, gathered, along, extreme, convolved, pooled, multiplied, resized, padded, bits,
          integer_product, integer_convolution, diagonals, certain]


def batch(tool, jobs, folder):
    (folder / "jobs.json").write_text(json.dumps(jobs))
    done = subprocess.run([tool, "--batch", folder / "jobs.json"], capture_output=True, text=True)
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if len(answers) != len(jobs):
        sys.exit(f"{tool} ended with {done.returncode} after {len(answers)} of {len(jobs)} jobs: {done.stderr[-300:]}")
    return answers


def differs(case, got, want):
    want = np.asarray(want)
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if case.bits:
        return "" if got.tobytes() == want.tobytes() else "bits differ"
    if not np.allclose(got.astype(np.float64), want.astype(np.float64), 1e-4, 1e-4, equal_nan=True):
        return "values differ"
    return ""


X = np.ones((2, 3), np.float32)
REFUSED = [  # cases, and words of the sentence that refuses them
    (Case("QuantizeLinear", [X], [np.float32(np.inf), np.uint8(0)]), "scale, input 1, is not finite"),
    (Case("QuantizeLinear", [X], [np.array([1, np.nan, 1], np.float32), np.zeros(3, np.uint8)], axis=1), "scale, input 1, is not finite"),
    (Case("DequantizeLinear", [X.astype(np.uint8)], [np.float32(-np.inf), np.uint8(0)]), "scale, input 1, is not finite"),
    (Case("ScatterND", [X], [np.zeros((1, X.ndim + 1), np.int64), np.zeros(1, np.float32)]), "more columns than the data has dims"),
    *((Case(op, [np.ones((1, 4, 5, 5), np.uint8)], [np.ones(shape, np.int8), *zeros]), "")  # zero points that do not fit, or weights
      for op in ("ConvInteger", "MatMulInteger") for shape in ((), (4,), (3, 4, 3, 3), (5, 5))
      for zeros in ([None, np.ones(2, np.int8)], [np.ones(7, np.uint8)], [np.ones((3, 3), np.uint8)])),
    (Case("Col2Im", [np.ones((2, 4, 6), np.float32)], [np.array([6, 2, 2]), np.array([2, 2, 1])]), ""),  # of 10 places
    (Case("RNN", [np.ones((4, 3, 1), np.float32)], [np.float32(1), np.ones((1, 1, 1), np.float32)], hidden_size=1), "without directions"),
    *((Case("RNN", [np.ones((4, 3, 1), np.float32)], [np.ones((1, 1, 1), np.float32)] * 2, hidden_size=1, activations=["ScaledTanh"], **given),
       "'ScaledTanh' has not its alpha and beta") for given in ({}, {"activation_alpha": [1.0]}, {"activation_beta": [1.0]})),
    (Case("Pad", [np.float32(1)], [np.array([0, 2]), None, np.array([-1])]), "axes of a number"),
    (Case("CumSum", [np.float32(1)], [np.int32(-1)], exclusive=1), "no axis"),
    (Case("Range", [], [np.ones(0, np.int64)] * 3), "not one number"),
    (Case("ArgMin", [X], keepdims=2), "neither 0 nor 1"),
    (Case("GatherND", [X], [np.zeros((1, 1), np.int64)], batch_dims=-1), "'batch_dims' is -1"),
    *((Case("Resize", [X[None, None]], [None, np.array([1, 1, *[by] * X.ndim], np.float32)], mode=mode), "scale")
      for by in (1e30, 1e-30, 0, -1, np.inf, np.nan) for mode in ("nearest", "linear")),
]


def refusals(given):
    """The cases of REFUSED that something else became of."""
    jobs = []
    for i, (case, _) in enumerate(REFUSED):
        folder = given.work / f"refused_{i}"
        folder.mkdir(parents=True)
        onnx.save(case.model(), folder / "model.onnx")
        jobs.append({"model": str(folder / "model.onnx"), "output_dir": str(folder), "check": False})
    bad = 0
    for (case, words), answer in zip(REFUSED, batch(given.bin / "hg-convert", jobs, given.work)):
        if answer["status"] != "unsupported" or words not in answer["message"]:
            bad += 1
            print(f"{case.op} should be refused with '{words}': {answer}")
    return bad


def turned_pads(given):
    """Pads as torch.onnx.export turns those of F.pad round, as rows of two: the sizes they give are known."""
    folder = given.work / "turned_pads"
    folder.mkdir(parents=True)
    numbers = {"pads": [1, 2, 0, 3, 0, 0, 0, 0], "rows": [-1, 2], "from": [-1], "to": [-2**63 + 1], "axis": [0], "step": [-1], "flat": [-1]}
    nodes = [helper.make_node("Reshape", ["pads", "rows"], ["a"]), helper.make_node("Slice", ["a", "from", "to", "axis", "step"], ["b"]),
             helper.make_node("Transpose", ["b"], ["c"], perm=[1, 0]), helper.make_node("Reshape", ["c", "flat"], ["d"]),
             helper.make_node("Pad", ["x", "d"], ["y"])]
    x = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    graph = helper.make_graph(nodes, "turned", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(np.array(v, np.int64), n) for n, v in numbers.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
    np.save(folder / "x.npy", x)
    model = str(folder / "model.hgm")
    subprocess.run([given.bin / "hg-convert", folder / "model.onnx", "-o", model], check=True, capture_output=True)
    shape = json.loads(subprocess.run([given.bin / "hg-info", model, "--json"], capture_output=True, text=True).stdout)["outputs"][0]["shape"]
    subprocess.run([given.bin / "hg-run", model, "--input", f"x={folder}/x.npy", "--output-dir", folder], check=True, capture_output=True)
    want = np.pad(x, ((0, 0), (0, 0), (0, 3), (1, 2)))
    if shape == list(want.shape) and np.array_equal(np.load(folder / "y.npy"), want):
        return 0
    print(f"turned pads give {shape} instead of {list(want.shape)}, or other numbers")
    return 1


def quotients(given):
    """Sizes that Div rounds towards 0: (n - 1) / 4 + 1, as torch.export writes those of a stride, and (n - 9) / 4 + 3."""
    folder = given.work / "quotients"
    folder.mkdir(parents=True)
    numbers = {"one": [1], "nine": [9], "four": [4], "three": [3]}
    nodes = [helper.make_node("Shape", ["x"], ["n"]), helper.make_node("Sub", ["n", "one"], ["a"]), helper.make_node("Div", ["a", "four"], ["b"]),
             helper.make_node("Add", ["b", "one"], ["c"]), helper.make_node("Sub", ["n", "nine"], ["d"]), helper.make_node("Div", ["d", "four"], ["e"]),
             helper.make_node("Add", ["e", "three"], ["f"]), helper.make_node("Concat", ["c", "f"], ["g"], axis=0),
             helper.make_node("ConstantOfShape", ["g"], ["y"])]
    graph = helper.make_graph(nodes, "quotients", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["c", "f"])],
                              [numpy_helper.from_array(np.array(v, np.int64), n) for n, v in numbers.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
    model = str(folder / "model.hgm")
    subprocess.run([given.bin / "hg-convert", folder / "model.onnx", "-o", model], check=True, capture_output=True)
    said = json.loads(subprocess.run([given.bin / "hg-info", model, "--json"], capture_output=True, text=True).stdout)
    bad = said["outputs"][0]["shape"] != ["floordiv(max(0, n - 1), 4) + 1", "-floordiv(max(-n + 9, 0), 4) + floordiv(max(0, n - 9), 4) + 3"]
    if bad:
        print("quotients of sizes are computed as the graph runs:", said["outputs"][0]["shape"])
    for n in range(14):
        np.save(folder / "x.npy", np.zeros(n, np.float32))
        subprocess.run([given.bin / "hg-run", model, "--input", f"x={folder}/x.npy", "--output-dir", folder], check=True, capture_output=True)
        want = (int((n - 1) / 4) + 1, int((n - 9) / 4) + 3)
        if np.load(folder / "y.npy").shape != want:
            bad = True
            print(f"quotients of {n} give {np.load(folder / 'y.npy').shape} instead of {want}")
    return int(bad)


def floats_of_sizes(given):
    """n / 49 * 49 rounds twice, to less than some n; sizes and numbers stand beside each other in one tensor of floats."""
    folder = given.work / "floats"
    folder.mkdir(parents=True)
    nodes = [helper.make_node("Shape", ["x"], ["n"], end=1), helper.make_node("Cast", ["n"], ["a"], to=TensorProto.FLOAT), helper.make_node("Div", ["a", "whole"], ["b"]),
             helper.make_node("Mul", ["b", "whole"], ["c"]), helper.make_node("Cast", ["c"], ["d"], to=TensorProto.INT64),
             helper.make_node("ConstantOfShape", ["d"], ["y"]), helper.make_node("Shape", ["x"], ["e"]), helper.make_node("Cast", ["e"], ["z"], to=TensorProto.FLOAT)]
    graph = helper.make_graph(nodes, "floats", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
                              [helper.make_empty_tensor_value_info(name) for name in ("y", "z")], [numpy_helper.from_array(np.array([49], np.float32), "whole")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "model.onnx")
    hgm = str(folder / "model.hgm")
    done = subprocess.run([given.bin / "hg-convert", folder / "model.onnx", "-o", hgm], capture_output=True, text=True)
    if done.returncode:
        print(f"floats of sizes: {done.stderr}")
        return 1
    bad = 0
    for n in (1, 7, 27, 30, 54, 98):
        x = np.zeros((n, 3), np.float32)
        np.save(folder / "x.npy", x)
        subprocess.run([given.bin / "hg-run", hgm, "--input", f"x={folder}/x.npy", "--output-dir", folder], check=True, capture_output=True)
        y, z = ReferenceEvaluator(model).run(None, {"x": x})
        if np.load(folder / "y.npy").shape != y.shape or not np.array_equal(np.load(folder / "z.npy"), z):
            bad = 1
            print(f"floats of the size {n} give {np.load(folder / 'y.npy').shape} and {np.load(folder / 'z.npy')} instead of {y.shape} and {z}")
    return bad


def far_steps(given):
    """A step beyond all that follows, of sizes and of a range."""
    folder, most = given.work / "far_steps", 2**63 - 1
    folder.mkdir(parents=True)
    numbers = {"one": [1], "far": [most], "low": most - 1, "high": most, "five": 5}
    nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Slice", ["s", "one", "far", "", "far"], ["y0"]),
             helper.make_node("Range", ["low", "high", "five"], ["y1"])]
    graph = helper.make_graph(nodes, "far", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4, 2])],
                              [helper.make_empty_tensor_value_info(y) for y in ("y0", "y1")],
                              [numpy_helper.from_array(np.array(v, np.int64), n) for n, v in numbers.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
    np.save(folder / "x.npy", np.zeros((3, 4, 2), np.float32))
    hgm = str(folder / "model.hgm")
    done = subprocess.run([given.bin / "hg-convert", folder / "model.onnx", "-o", hgm], capture_output=True, text=True)
    if not done.returncode:
        done = subprocess.run([given.bin / "hg-run", hgm, "--input", folder / "x.npy", "--output-dir", folder], capture_output=True, text=True)
    got = done.returncode or [np.load(folder / f"{y}.npy").tolist() for y in ("y0", "y1")]
    if got != [[4], [most - 1]]:
        print(f"far steps: {got} {done.stderr}")
    return int(got != [[4], [most - 1]])


def endless_loops(given):
    """Rounds without end, and with a condition that is passed on, are refused before they are unrolled."""
    bad = 0
    for name, trips, passed in (("most", 2**31 - 1, False), ("passed", 2**31 - 1, True), ("open", None, True)):
        folder = given.work / f"endless_{name}"
        folder.mkdir(parents=True)
        info = helper.make_tensor_value_info
        body = helper.make_graph([helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Identity", ["d"], ["e"]), helper.make_node("Add", ["v", "v"], ["w"])],
                                 "body", [info("i", TensorProto.INT64, []), info("c", TensorProto.BOOL, []), info("v", TensorProto.FLOAT, [3])],
                                 [info("e", TensorProto.BOOL, []), info("w", TensorProto.FLOAT, [3])])
        inputs = ["" if trips is None else "n", "yes" if passed else "", "x"]
        graph = helper.make_graph([helper.make_node("Loop", inputs, ["y"], body=body)], "endless", [info("x", TensorProto.FLOAT, [3])],
                                  [info("y", TensorProto.FLOAT, [3])], [numpy_helper.from_array(np.array(trips or 0, np.int64), "n"),
                                                                        numpy_helper.from_array(np.array(True), "yes")])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
        try:
            done = subprocess.run([given.bin / "hg-convert", folder / "model.onnx", "--no-check"], capture_output=True, text=True, timeout=10)
            if done.returncode == 3 and "a loop runs more than 100000 times" in done.stderr:
                continue
            why = done.stderr
        except subprocess.TimeoutExpired:
            why = "it takes more than 10 s"
        bad += 1
        print(f"an endless loop, {name}: {why}")
    return bad


def just_below(given):
    """Slices to and from one and two below the size, in both directions, of sizes down to 0."""
    folder, bad = given.work / "just_below", 0
    folder.mkdir(parents=True)
    numbers = {"zero": [0], "one": [1], "two": [2], "far": [2**31 - 1], "back": [-1], "first": [-(2**31)]}
    nodes = [helper.make_node("Shape", ["x"], ["n"]), helper.make_node("Sub", ["n", "one"], ["a"]), helper.make_node("Sub", ["n", "two"], ["b"])]
    cuts = [["zero", "a"], ["zero", "b"], ["a", "far"], ["b", "far"], ["b", "a"], ["a", "first", "zero", "back"], ["far", "a", "zero", "back"]]
    nodes += [helper.make_node("Slice", ["x", *cut], [f"y{k}"]) for k, cut in enumerate(cuts)]
    graph = helper.make_graph(nodes, "below", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
                              [helper.make_empty_tensor_value_info(f"y{k}") for k in range(len(cuts))],
                              [numpy_helper.from_array(np.array(v, np.int64), n) for n, v in numbers.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "model.onnx")
    hgm = str(folder / "model.hgm")
    subprocess.run([given.bin / "hg-convert", folder / "model.onnx", "-o", hgm], check=True, capture_output=True)
    for n in range(5):
        x = np.arange(n, dtype=np.float32)
        np.save(folder / "x.npy", x)
        done = subprocess.run([given.bin / "hg-run", hgm, "--input", folder / "x.npy", "--output-dir", folder], capture_output=True, text=True)
        got = done.returncode or [np.load(folder / f"y{k}.npy").tolist() for k in range(len(cuts))]
        want = [y.tolist() for y in ReferenceEvaluator(model).run(None, {"x": x})]
        if got != want:
            bad = 1
            print(f"slices just below {n}: {got} instead of {want} {done.stderr}")
    return bad


def named_sizes(given):
    """Names are sums and products of others that the inputs tell, or names, whatever stands in them."""
    folder, bad = given.work / "named", 0
    folder.mkdir(parents=True)
    for names, shapes, want in (
            (["batch-size", "seq-len", "batch-size"], [(2, 3, 2), (1, 5, 1)], ["batch_size", "seq_len", "batch_size"]),
            (["h*w", "max(n, 2)"], [(6, 2), (5, 1)], ["h_w", "max_n__2_"]), (["n", "m", "m + n", "2*n"], [(2, 3, 5, 4), (1, 4, 5, 2)], ["n", "m", "m + n", "2*n"]),
            (["2*n + 1", "n*n"], [(5, 4), (3, 1)], ["2*n + 1", "n*n"]), (["batch_size + 1", "batch-size", "batch_size"], [(3, 5, 2), (2, 7, 1)],
                                                                         ["batch_size + 1", "batch_size_", "batch_size"])):
        inputs = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, [name]) for i, name in enumerate(names)]
        graph = helper.make_graph([helper.make_node("Neg", [f"x{i}"], [f"y{i}"]) for i in range(len(names))], "named", inputs,
                                  [helper.make_empty_tensor_value_info(f"y{i}") for i in range(len(names))])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
        hgm = str(folder / "model.hgm")
        done = subprocess.run([given.bin / "hg-convert", folder / "model.onnx", "-o", hgm], capture_output=True, text=True)
        said = done.stderr if done.returncode else [line.split("[")[1].rstrip("]") for line in done.stdout.splitlines() if line.startswith("  input")]
        for sizes in shapes if said == want else []:
            for i, size in enumerate(sizes):
                np.save(folder / f"x{i}.npy", np.ones(size, np.float32))
            ran = subprocess.run([given.bin / "hg-run", hgm, *[a for i in range(len(sizes)) for a in ("--input", f"{folder}/x{i}.npy")], "--output-dir", folder],
                                 capture_output=True, text=True)
            said = said if not ran.returncode else ran.stderr
        if said != want:
            bad = 1
            print(f"sizes named {names}: {said}")
    return bad


def parted_sizes(given):
    """Parts of a shape stay sizes: [n, m, 3] split after the first turns to [m, 3, n]."""
    folder = given.work / "parted"
    folder.mkdir(parents=True)
    nodes = [helper.make_node("Shape", ["x"], ["sizes"]), helper.make_node("Split", ["sizes", "counts"], ["first", "rest"], axis=0),
             helper.make_node("Concat", ["rest", "first"], ["turned"], axis=0), helper.make_node("Reshape", ["x", "turned"], ["y"])]
    graph = helper.make_graph(nodes, "parted", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "m", 3])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["a", "b", "c"])],
                              [numpy_helper.from_array(np.array([1, 2]), "counts")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
    model = str(folder / "model.hgm")
    subprocess.run([given.bin / "hg-convert", folder / "model.onnx", "-o", model], check=True, capture_output=True)
    shape = json.loads(subprocess.run([given.bin / "hg-info", model, "--json"], capture_output=True, text=True).stdout)["outputs"][0]["shape"]
    if shape == ["m", 3, "n"]:
        return 0
    print(f"parts of a shape give {shape}")
    return 1


def open_resizes(given):
    """Resize from and to open sizes is one interpolation; pytorch_half_pixel gives a single element its own place."""
    bad = 0
    for mode in ("half_pixel", "pytorch_half_pixel", "align_corners"):
        folder = given.work / f"open_{mode}"
        folder.mkdir(parents=True)
        nodes = [helper.make_node("Shape", ["t"], ["n"]), helper.make_node("Concat", ["kept", "n"], ["sizes"], axis=0),
                 helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear", coordinate_transformation_mode=mode)]
        made = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [1, 2, "h", "w"]), ("t", ["i", "k"]))]
        graph = helper.make_graph(nodes, "resize", made, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, "i", "k"])],
                                  [numpy_helper.from_array(np.array([1, 2]), "kept")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
        onnx.save(model, folder / "model.onnx")
        hgm = str(folder / "model.hgm")
        subprocess.run([given.bin / "hg-convert", folder / "model.onnx", "-o", hgm], check=True, capture_output=True)
        ops = json.loads(subprocess.run([given.bin / "hg-info", hgm, "--json"], capture_output=True, text=True).stdout)["ops"]
        if "interpolate" not in ops or sum(ops.values()) > 3:
            bad = 1
            print(f"Resize {mode} of open sizes is {ops}")
        for h, w, i, k in ((4, 5, 7, 1), (1, 5, 1, 4), (3, 1, 1, 6), (5, 4, 2, 3), (4, 4, 1, 1), (3, 4, 3, 8)):
            feeds = {"x": np.random.default_rng(h).normal(size=(1, 2, h, w)).astype(np.float32), "t": np.zeros((i, k), np.float32)}
            for name, value in feeds.items():
                np.save(folder / f"{name}.npy", value)
            subprocess.run([given.bin / "hg-run", hgm, *[a for n in feeds for a in ("--input", f"{n}={folder}/{n}.npy")], "--output-dir", folder],
                           check=True, capture_output=True)
            why = np.abs(np.load(folder / "y.npy") - ReferenceEvaluator(model).run(None, feeds)[0]).max()
            if not why < 1e-5:
                bad = 1
                print(f"Resize {mode} from {h, w} to {i, k} differs by {why}")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    shutil.rmtree(given.work, ignore_errors=True)
    cases, jobs = [], []
    for seed in range(given.seed, given.seed + given.count):
        rng = np.random.default_rng(seed)
        case = MAKERS[seed % len(MAKERS)](rng)
        folder = given.work / str(seed)
        folder.mkdir(parents=True)
        model = case.model()
        try:
            with np.errstate(all="ignore"):
                feeds = {f"x{i}": x for i, x in enumerate(case.inputs)}
                want = ReferenceEvaluator(model).run(None, feeds) if case.answer is None else [case.answer]
        except Exception:  # what the specification does not allow
            continue
        onnx.save(model, folder / "model.onnx")
        for i, x in enumerate(case.inputs):
            np.save(folder / f"x{i}.npy", x)
        cases.append((seed, case, want))
        jobs.append({"model": str(folder / "model.onnx"), "output_dir": str(folder), "check": False})
    converted = batch(given.bin / "hg-convert", jobs, given.work)
    bad, refused = refusals(given) + turned_pads(given) + quotients(given) + floats_of_sizes(given) + named_sizes(given) + far_steps(given) + endless_loops(given) + just_below(given) + parted_sizes(given) + open_resizes(given), 0
    kept, runs = [], []
    for (seed, case, want), answer in zip(cases, converted):
        if answer["status"] == "ok":
            folder = given.work / str(seed)
            kept.append((seed, case, want))
            runs.append({"model": str(folder / "model.hgm"), "output_dir": str(folder),
                         "inputs": [f"x{i}={folder}/x{i}.npy" for i in range(len(case.inputs))]})
        elif answer["status"] == "unsupported":
            refused += 1
            print(f"refused: {case.op}: {answer['message'][:200]}")
        else:
            bad += 1
            print(f"--seed {seed} --count 1: {case.op} {case.attributes}: {answer['message'][:200]}")
    for (seed, case, want), answer in zip(kept, batch(given.bin / "hg-run", runs, given.work)):
        why = "" if answer.get("status", "ok") == "ok" else answer["message"]
        for i, expected in enumerate(want):
            why = why or differs(case, np.load(given.work / str(seed) / f"y{i}.npy"), expected)
        if why:
            bad += 1
            print(f"--seed {seed} --count 1: {case.op} {case.attributes} of {[x.shape for x in case.inputs]}: {why}")
    print(f"{len(kept) - bad} of {len(cases)} as the reference evaluator, {refused} refused, {bad} wrong")
    sys.exit(1 if bad or refused > len(cases) // 20 else 0)


main()
