# SPDX-License-Identifier: Apache-2.0
"""Graphs of random nodes. ONNX Runtime runs each node when it is added."""
import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

MOST = 1e3  # larger numbers are left out
FLOATS = (np.float32, np.float64, np.float16)
onnxruntime.set_default_logger_severity(4)


def session_of(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


class Unfit(Exception):
    """ONNX Runtime rejects the node, or its result is unusable."""


class V:
    """A value of the graph, with its data in each of the tries."""

    def __init__(self, name, arrays, fixed=False):
        self.name, self.arrays, self.fixed = name, arrays, fixed
        self.dtype, self.rank = arrays[0].dtype, arrays[0].ndim

    dims = property(lambda self: list(zip(*(a.shape for a in self.arrays))))
    is_float = property(lambda self: self.dtype in FLOATS)
    is_full = property(lambda self: all(a.size for a in self.arrays))  # extremes and means of empty tensors are undefined
    is_small = property(lambda self: all(a.size <= 4000 for a in self.arrays))

    def info(self, name=None, shape=None):
        return helper.make_tensor_value_info(name or self.name, helper.np_dtype_to_tensor_dtype(self.dtype), shape or [None] * self.rank)


class Builder:
    """Nodes of one graph, which may be nested in another one."""

    def __init__(self, rng, opset, dtype, parent=None, tries=3, prefix=""):
        self.rng, self.opset, self.dtype, self.parent, self.tries, self.prefix = rng, opset, dtype, parent, tries, prefix
        self.values, self.nodes, self.initializers, self.functions = [], [], [], parent.functions if parent else []
        self.sees = True  # whether values of the outer graph are visible
        self.depth = parent.depth + 1 if parent else 0

    # Choices.
    def chance(self, p=0.5):
        return self.rng.random() < p

    def one(self, some):
        return some[int(self.rng.integers(len(some)))]

    def whole(self, low, high):
        return int(self.rng.integers(low, high))

    def visible(self):
        return self.values + (self.parent.visible() if self.parent and self.sees else [])

    def pick(self, fits=lambda v: True):
        found = [v for v in self.visible() if fits(v)]
        if not found:
            raise Unfit("nothing fits")
        late = found[: len(self.values)][-4:]
        return self.one(late if late and self.chance(0.4) else found)

    def floats(self, least=0, full=False):
        return self.pick(lambda v: v.dtype == self.dtype and v.rank >= least and (v.is_full or not full))

    # Parts.
    def name(self):
        return f"{self.prefix}v{len(self.values)}_{len(self.nodes)}"

    def constant(self, array):
        """Returns an initializer or a Constant, possibly an existing one."""
        array = np.asarray(array)
        for v in self.visible():
            if v.fixed and v.dtype == array.dtype and v.arrays[0].shape == array.shape and np.array_equal(v.arrays[0], array):
                return v
        v = V(f"{self.prefix}c{len(self.initializers)}_{len(self.nodes)}", [array] * self.tries, True)
        if self.chance(0.7) and self.sees:
            self.initializers.append(numpy_helper.from_array(array, v.name))
        else:
            self.nodes.append(helper.make_node("Constant", [], [v.name], value=numpy_helper.from_array(array)))
        self.values.append(v)
        return v

    def ints(self, *numbers):
        return self.constant(np.array(numbers, np.int64))

    def weights(self, *shape):
        return self.constant(self.rng.normal(0, 0.7, shape).astype(self.dtype))

    def add(self, op, inputs, outputs=1, domain="", keep=None, **attributes):
        """Adds a node; returns its results, computed by ONNX Runtime."""
        names = [f"{self.name()}_{i}" if keep is None or i in keep else "" for i in range(outputs)]
        given = [v.name if v else "" for v in inputs]
        while given and not given[-1]:
            given.pop()
        node = helper.make_node(op, given, names, domain=domain, **{k: v for k, v in attributes.items() if v is not None})
        return self.try_node(node)

    def try_node(self, node):
        needed = needs(node)
        taken = [v for v in {v.name: v for v in reversed(self.visible())}.values() if v.name in needed]
        names = [n for n in node.output if n]
        graph = helper.make_graph([node], "node", [v.info() for v in taken], [helper.make_empty_tensor_value_info(n) for n in names])
        model = model_of(graph, self.opset, self.functions)
        try:
            session = session_of(model)
            answers = [session.run(None, {v.name: v.arrays[k] for v in taken}) for k in range(self.tries)]
        except Exception as why:
            raise Unfit(str(why)) from why
        made = [V(n, [np.asarray(a[i]) for a in answers]) for i, n in enumerate(names)]
        for v in made:
            if len({a.ndim for a in v.arrays}) > 1 or not v.is_small:
                raise Unfit("it is great")
            for a in v.arrays:
                if a.dtype.kind == "f" and not np.isfinite(a).all() or a.size and a.dtype.kind != "b" and np.abs(a.astype(np.float64)).max() > MOST:
                    raise Unfit("its numbers are great")
        self.nodes.append(node)
        self.values += made
        return made if len(made) > 1 else made[0]

    def grow(self, count, makers):
        for _ in range(count):
            nodes, values, initializers = len(self.nodes), len(self.values), len(self.initializers)
            functions = len(self.functions)
            try:
                self.one(makers)(self)
            except (Unfit, ValueError, IndexError):
                del self.nodes[nodes:], self.values[values:], self.initializers[initializers:], self.functions[functions:]

    def graph(self, name, inputs, outputs):
        return helper.make_graph(self.nodes, name, inputs, outputs, self.initializers)


def needs(node):
    """Returns the names that the node, or a graph in it, reads from outside."""
    found = {n for n in node.input if n}
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            graph = attribute.g
            found |= {o.name for o in graph.output}.union(*[needs(n) for n in graph.node], set())
            found -= {i.name for i in graph.input} | {i.name for i in graph.initializer} | {n for each in graph.node for n in each.output}
    return found


def model_of(graph, opset, functions=(), ir=None):
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid("own", 1)] * bool(functions)
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=ir or 10)


# Makers of nodes.
def unary(g):
    x = g.floats()
    op = g.one(["Neg", "Abs", "Tanh", "Sigmoid", "Relu", "Sin", "Floor", "Softplus", "Identity", "Erf", "Elu", "LeakyRelu", "Sign", "Dropout"])
    g.add(op, [x], alpha=0.3 if op in ("Elu", "LeakyRelu") else None)


def integral(g):
    x = g.pick(lambda v: v.dtype.kind in "iu")
    g.add(g.one(["Neg", "Abs", "Identity", "Sign"]), [x])


def binary(g):
    x = g.pick(lambda v: v.dtype.kind in "fiu")
    y = g.pick(lambda v: v.dtype == x.dtype)
    g.add(g.one(["Add", "Sub", "Mul", "Add", "Max", "Min"]), [x, y] if g.chance() else [y, x])


def several(g):
    x = g.floats()
    g.add(g.one(["Sum", "Max", "Min", "Mean"]), [x] + [g.pick(lambda v: v.dtype == x.dtype) for _ in range(g.whole(0, 3))])


def divided(g):
    x = g.pick(lambda v: v.dtype.kind in "fiu")
    y = g.constant(np.array(g.one([2, 3, 7]), x.dtype))
    op = g.one(["Div", "Div", "Mod", "Pow"])
    if op == "Mod" and x.is_float:
        return g.add(op, [x, y], fmod=1)
    if op == "Pow":
        x, y = g.add("Abs", [x]), g.constant(np.array(g.one([0, 1, 2, 3] + [0.5] * x.is_float), x.dtype))
    g.add(op, [x, y])


def compared(g):
    x = g.pick(lambda v: v.dtype.kind in "fi")
    y = g.pick(lambda v: v.dtype == x.dtype)
    op = g.one(["Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual"])
    g.add(op, [x, y])


def logical(g):
    x = g.pick(lambda v: v.dtype == bool)
    if g.chance(0.3):
        return g.add("Not", [x])
    g.add(g.one(["And", "Or", "Xor"]), [x, g.pick(lambda v: v.dtype == bool)])


def where(g):
    x = g.pick()
    g.add("Where", [g.pick(lambda v: v.dtype == bool), x, g.pick(lambda v: v.dtype == x.dtype)])


def cast(g):
    to = g.one([1, 6, 7, 9, 11, 10] + [helper.np_dtype_to_tensor_dtype(np.dtype(g.dtype))] * 6)
    x = g.pick(lambda v: v.rank < 4)
    if x.is_float and to in (6, 7) and g.chance(0.8):
        x = g.add("Floor", [x])
    if g.opset >= 15 and g.chance(0.3):
        return g.add("CastLike", [x, g.pick()])
    g.add("Cast", [x], to=to)


def clipped(g):
    x = g.floats()
    if g.opset < 11:
        return g.add("Clip", [x], min=-0.5, max=g.one([None, 0.75]))
    bound = lambda b: g.one([None, g.constant(np.array(b, x.dtype))])
    g.add("Clip", [x, bound(-0.5), bound(0.75)])


def axes_of(g, x, some=None):
    some = some if some is not None else g.whole(1, x.rank + 1)
    axes = [int(a) for a in g.rng.permutation(x.rank)[:some]]
    return [a - x.rank if g.chance(0.3) else a for a in axes]


def reduced(g):
    x = g.pick(lambda v: v.is_full and (v.dtype == g.dtype or v.dtype.kind == "i" and v.dtype.itemsize >= 4))
    op = g.one(["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceL2"])
    since = 13 if op == "ReduceSum" else 18
    keep = g.one([0, 1, None])
    if x.rank == 0 or g.chance(0.2):
        return g.add(op, [x], keepdims=keep)
    axes = axes_of(g, x)
    if g.opset >= since:
        return g.add(op, [x, g.ints(*axes)], keepdims=keep)
    g.add(op, [x], axes=axes, keepdims=keep)


def arg(g):
    x = g.floats(1, True)
    last = g.one([0, 1]) if g.opset >= 12 else None
    g.add(g.one(["ArgMax", "ArgMin"]), [x], axis=axes_of(g, x, 1)[0], keepdims=g.one([0, 1]), select_last_index=last)


def top(g):
    x = g.floats(1)
    k = g.ints(g.one([1, 2]))
    if g.opset < 10:
        return g.add("TopK", [x], 2, k=1, axis=axes_of(g, x, 1)[0])
    g.add("TopK", [x, k], 2, axis=axes_of(g, x, 1)[0], keep=g.one([(0, 1), (0,), (1,)]))


def softmax(g):
    x = g.floats(1)
    g.add(g.one(["Softmax", "LogSoftmax"]), [x], axis=axes_of(g, x, 1)[0])


def cumsum(g):
    x = g.floats(1)
    axis = g.constant(np.array(axes_of(g, x, 1)[0], g.one([np.int32, np.int64])))
    g.add("CumSum", [x, axis], exclusive=g.one([0, 1]), reverse=g.one([0, 1]))


def transposed(g):
    x = g.pick(lambda v: v.rank >= 2)
    g.add("Transpose", [x], perm=[int(p) for p in g.rng.permutation(x.rank)] if g.chance(0.8) else None)


def concatenated(g):
    x = g.pick(lambda v: v.rank >= 1)
    axis = g.whole(0, x.rank)
    fits = lambda v: v.dtype == x.dtype and v.rank == x.rank and all(a == b for k, (a, b) in enumerate(zip(v.dims, x.dims)) if k != axis)
    g.add("Concat", [x] + [g.pick(fits) for _ in range(g.whole(0, 3))], axis=axis - x.rank * g.chance(0.3))


def squeezed(g):
    x = g.pick(lambda v: any(d == (1,) * g.tries for d in v.dims))
    axes = [k for k, d in enumerate(x.dims) if d == (1,) * g.tries]
    g.add("Squeeze", [x, g.ints(*axes)]) if g.opset >= 13 else g.add("Squeeze", [x], axes=axes)


def unsqueezed(g):
    x = g.pick(lambda v: v.rank <= 3)
    axis = g.whole(-x.rank - 1 if g.opset >= 11 else 0, x.rank + 1)
    g.add("Unsqueeze", [x, g.ints(axis)]) if g.opset >= 13 else g.add("Unsqueeze", [x], axes=[axis])


def size(g):
    """Returns a size of a value as a tensor of rank 1."""
    x = g.pick(lambda v: v.rank >= 1)
    axis = g.whole(0, x.rank)
    if g.opset >= 15 and g.chance():
        return g.add("Shape", [x], start=axis, end=axis + 1)
    shape = g.add("Shape", [x])
    if g.chance():
        return g.add("Gather", [shape, g.constant(np.array([axis], np.int64))], axis=0)
    return unsqueeze(g, g.add("Gather", [shape, g.constant(np.array(axis, np.int64))]))


def unsqueeze(g, x):
    return g.add("Unsqueeze", [x, g.ints(0)]) if g.opset >= 13 else g.add("Unsqueeze", [x], axes=[0])


def sizes(g):
    s = size(g)
    kind = g.whole(0, 4)
    if kind == 0:
        s = g.add(g.one(["Add", "Mul", "Sub"]), [s, g.ints(g.one([1, 2]))])
    if kind == 1:
        s = g.add("Add", [s, size(g)])
    if g.chance(0.6):
        s = g.add("Cast", [s], to=helper.np_dtype_to_tensor_dtype(np.dtype(g.dtype)))
        g.add(g.one(["Div", "Sub"]), [s, g.constant(np.array([4], g.dtype))])


def reshaped(g):
    x = g.pick(lambda v: v.rank >= 1)
    kind = g.whole(0, 5)
    if kind == 0:
        return g.add("Flatten", [x], axis=g.whole(0, x.rank + 1))
    if kind == 1:
        return g.add("Reshape", [x, g.ints(-1)])
    if kind == 2 and x.rank >= 2:
        if not x.is_full:
            raise Unfit("ONNX Runtime divides by it")
        return g.add("Reshape", [x, g.ints(0, -1)])
    if kind == 3:
        return g.add("Reshape", [x, g.add("Shape", [g.pick(lambda v: [np.prod(a.shape) for a in v.arrays] == [a.size for a in x.arrays])])])
    some = size(g)
    if min(int(a[0]) for a in some.arrays) < 1:
        raise Unfit("ONNX Runtime divides by it")
    parts = g.add("Concat", [g.ints(-1), some], axis=0)
    g.add("Reshape", [x, parts])


def expanded(g):
    x = g.pick(lambda v: v.rank <= 3)
    y = g.pick(lambda v: v.rank <= 3)
    if g.chance():
        return g.add("Expand", [x, g.add("Shape", [y])])
    if x.rank >= 1 and g.chance():
        return g.add("Tile", [x, g.ints(*[g.one([1, 1, 2]) for _ in range(x.rank)])])
    filled = g.add("ConstantOfShape", [g.add("Shape", [y])], value=numpy_helper.from_array(np.array([1.5], g.dtype)))
    g.add("Add", [filled, g.floats()])


def sliced(g):
    x = g.pick(lambda v: v.rank >= 1)
    axis = axes_of(g, x, 1)[0]
    start, end, step = g.one([0, 0, 1, -1, -2, 5]), g.one([1, 2, -1, 2**31, 3]), g.one([1, 1, 1, 2, -1])
    if g.opset < 10:
        return g.add("Slice", [x], starts=[start], ends=[end], axes=[axis])
    if step < 0:
        start, end = g.one([-1, 2, 1]), g.one([-(2**31), -9, 0])
    ends = g.ints(end) if g.chance(0.6) else g.add("Sub", [size(g), g.ints(1)])
    g.add("Slice", [x, g.ints(start), ends, g.ints(axis), g.ints(step) if step != 1 or g.chance() else None])


def split(g):
    x = g.pick(lambda v: v.rank >= 1)
    fixed = [k for k, d in enumerate(x.dims) if len(set(d)) == 1 and d[0] >= 2]
    axis = g.one(fixed)
    n = x.dims[axis][0]
    parts = [n // 2, n - n // 2]
    if g.chance(0.2) and n == 4:
        parts = [1, 0, 3]
    if g.opset >= 13:
        return g.add("Split", [x, g.ints(*parts)], len(parts), axis=axis)
    g.add("Split", [x], len(parts), axis=axis, split=parts)


def gathered(g):
    x = g.pick(lambda v: v.rank >= 1)
    axis = axes_of(g, x, 1)[0]
    if g.chance(0.4):
        index = g.constant(np.array(g.one([0, [0], [[0, -1]], [1, 0]]), g.one([np.int32, np.int64])))
    else:
        index = g.pick(lambda v: v.dtype in (np.int64, np.int32))
    if g.chance(0.2) and g.opset >= 11:
        return g.add("GatherElements", [x, index], axis=axis)
    g.add("Gather", [x, index], axis=axis)


def scattered(g):
    x = g.pick(lambda v: v.rank >= 1 and v.is_float)
    axis = axes_of(g, x, 1)[0]
    index = g.pick(lambda v: v.dtype == np.int64 and v.rank == x.rank)
    updates = g.pick(lambda v: v.dtype == x.dtype and v.dims == index.dims)
    g.add("ScatterElements" if g.opset >= 11 else "Scatter", [x, index, updates], axis=axis)


def padded(g):
    x = g.pick(lambda v: v.rank >= 1 and v.is_float)
    pads = [g.one([0, 0, 1, 2]) for _ in range(2 * x.rank)]
    mode = g.one([None, "edge", "constant"])
    if g.opset < 11:
        return g.add("Pad", [x], pads=pads, mode=mode)
    g.add("Pad", [x, g.ints(*pads), g.one([None, g.constant(np.array(0.5, x.dtype))])], mode=mode)


def product(g):
    x = g.floats(2)
    last = x.dims[-1]
    if len(set(last)) == 1 and g.chance(0.6):
        if g.chance(0.5) or x.rank != 2:
            return g.add("MatMul", [x, g.weights(last[0], 4)])
        w = g.weights(4, last[0])
        return g.add("Gemm", [x, w, g.one([None, g.weights(4), g.floats()]) if g.opset >= 11 else g.weights(4)], transB=1, alpha=g.one([None, 0.5]))
    g.add("MatMul", [x, g.pick(lambda v: v.dtype == x.dtype and v.rank >= 1 and v.dims[max(v.rank - 2, 0)] == last)])


def norm(g):
    x = g.floats(2)
    last = x.dims[-1]
    if g.opset >= 17 and len(set(last)) == 1 and g.chance():
        return g.add("LayerNormalization", [x, g.weights(last[0]), g.one([None, g.weights(last[0])])], axis=-1, epsilon=0.1)
    channels = x.dims[1][0]
    ones = g.constant(np.abs(g.rng.normal(0, 1, channels)).astype(g.dtype) + g.dtype(0.5))
    g.add("BatchNormalization", [x, g.weights(channels), g.weights(channels), g.weights(channels), ones])


def convolved(g):
    x = g.floats(3)
    channels = x.dims[1]
    w = g.weights(4, channels[0], *[g.one([1, 2, 3]) for _ in range(x.rank - 2)])
    g.add("Conv", [x, w, g.one([None, g.weights(4)])], pads=[1] * 2 * (x.rank - 2))


def counted(g):
    limit = size(g)
    flat = g.add("Squeeze", [limit, g.ints(0)]) if g.opset >= 13 else g.add("Squeeze", [limit], axes=[0])
    x = g.add("Range", [g.constant(np.array(0, np.int64)), flat, g.constant(np.array(1, np.int64))])
    if g.chance():
        g.add("Cast", [x], to=helper.np_dtype_to_tensor_dtype(np.dtype(g.dtype)))


def found(g):
    """Adds nodes with a data-dependent size, and nodes that use them."""
    x = g.pick(lambda v: v.rank >= 1 and v.dtype.kind in "fb")
    if x.dtype != bool:
        x = g.add("Greater", [x, g.constant(np.array(0.1, x.dtype))])
    at = g.add("NonZero", [x])
    if g.chance(0.3):
        at = g.add("Transpose", [at])
    op = g.one(["sum", "shape", "gather", "compress"])
    if op == "sum":
        g.add("ReduceSum", [at, g.ints(1)] if g.opset >= 13 else [at], keepdims=0, **({} if g.opset >= 13 else {"axes": [1]}))
    elif op == "shape":
        g.add("Shape", [at])
    elif op == "compress":
        flat = g.add("Reshape", [x, g.ints(-1)])
        long = flat.dims[0]
        if g.chance():
            kept = g.add("Compress", [g.pick(lambda v: v.is_float and all(a.size >= k for a, k in zip(v.arrays, long))), flat])
        else:
            kept = g.add("Compress", [g.pick(lambda v: v.is_float and v.rank >= 1 and all(d >= k for d, k in zip(v.dims[0], long))), flat], axis=0)
        g.add("ReduceSum", [kept], keepdims=0)
    else:
        row = g.add("Gather", [at, g.constant(np.array(0, np.int64))])
        y = g.floats(1)
        g.add("ReduceSum", [g.add("Gather", [y, row])], keepdims=0)


def one_hot(g):
    x = g.pick(lambda v: v.dtype.kind in "i")
    g.add("OneHot", [x, g.ints(4), g.constant(np.array([0, 1.5], g.dtype))], axis=g.one([-1, 0]))


def looks(g):
    x = g.pick(lambda v: v.rank == 2)
    if g.opset >= 14 and g.chance():
        return g.add("Trilu", [x, g.one([None, g.constant(np.array(1, np.int64))])], upper=g.one([0, 1]))
    g.add("EyeLike", [x], k=g.one([0, 1]), dtype=helper.np_dtype_to_tensor_dtype(np.dtype(g.dtype)))


PLAIN = [unary, unary, binary, binary, binary, several, divided, compared, logical, where, cast, cast, clipped, reduced, reduced, arg, top, softmax,
         cumsum, transposed, concatenated, squeezed, unsqueezed, sizes, reshaped, reshaped, expanded, sliced, sliced, split, gathered, gathered, scattered,
         padded, product, product, norm, convolved, counted, found, one_hot, looks, integral]
