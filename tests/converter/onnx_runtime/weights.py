# SPDX-License-Identifier: Apache-2.0
"""Weights of 8 and 4 bits that DequantizeLinear widens, and the ops that read them."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

from case import Case, flag, open_


class Weights(Case):
    """A constant weight with its quantization, and nodes that read it as "v". The input is x0, the result y0."""

    def __init__(self, x, weight, nodes, fixed, **more):
        super().__init__(f"{[weight[1], *nodes][-1].op_type} with levels", [open_(x)], **more)
        self.weight, self.nodes, self.fixed = weight, nodes, fixed

    def model(self):
        x = self.inputs[0][0]
        shape = [f"d{i}" for i in range(x.ndim)] if self.symbolic else x.shape
        given = helper.make_tensor_value_info("x0", helper.np_dtype_to_tensor_dtype(x.dtype), shape)
        made, node = self.weight
        fixed = made + [numpy_helper.from_array(np.asarray(value), name) for name, value in self.fixed.items()]
        graph = helper.make_graph([node, *self.nodes], "weights", [given], [helper.make_empty_tensor_value_info("y0")], fixed)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)], ir_version=10)


TYPES = {TensorProto.INT8: (-128, 127), TensorProto.UINT8: (0, 255), TensorProto.INT4: (-8, 7), TensorProto.UINT4: (0, 15)}


def weight(rng, shape, dtype):
    """Tensors and a DequantizeLinear that makes "v" of the shape: of one scale, one per index of an axis, or one per block."""
    kind = list(TYPES)[int(rng.integers(0, len(TYPES)))]
    low, high = TYPES[kind]
    drawn = lambda size: rng.integers(low, high + 1, size).astype(np.int32)
    axis = int(rng.integers(0, len(shape)))
    way = int(rng.integers(0, 3))
    attributes, of_scale = {}, ()
    if way > 0:
        attributes["axis"] = axis if flag(rng) else axis - len(shape)
        of_scale = (shape[axis],)
    if way == 2 and shape[axis] > 0:
        size = int(rng.choice([16, 32, 128, rng.integers(1, shape[axis] + 2)]))
        attributes["block_size"] = size
        of_scale = tuple(-(-n // size) if d == axis else n for d, n in enumerate(shape))
    scale = rng.uniform(0.01, 0.1, of_scale).astype(dtype)
    tensors = [helper.make_tensor("w", kind, shape, drawn(shape).ravel()), numpy_helper.from_array(scale, "s")]
    names = ["w", "s"]
    if flag(rng):
        # A zero point near the middle leaves differences that are levels themselves.
        zero = drawn(of_scale) if flag(rng) else np.full(of_scale, (low + high + 1) // 2, np.int32)
        tensors.append(helper.make_tensor("z", kind, of_scale, np.asarray(zero).ravel()))
        names.append("z")
    return tensors, helper.make_node("DequantizeLinear", names, ["v"], **attributes)


def size(rng, most=70):
    return int(rng.choice([1, rng.integers(1, 9), rng.integers(1, most)]))


def levels_of_weights(rng):
    dtype = np.float32 if rng.random() < 0.8 else np.float16
    op = str(rng.choice(["MatMul", "MatMul", "Gemm", "Gemm", "Gather", "Conv"]))
    m, k, n = size(rng, 20), size(rng, 300), size(rng)
    draw = lambda shape: rng.standard_normal(shape).astype(dtype)
    fixed, more, attributes = {}, [], {}
    if op == "Gather":
        shape = (k, n)
        x, inputs = rng.integers(-k, k, (m, 2)[: 1 + flag(rng)]), ["v", "x0"]
    elif op == "Conv":
        if flag(rng):  # large enough to stay levels
            n, k = n + 128, k % 50 + 128
        shape = (n, k, *(1,) * int(rng.integers(1, 3))) if flag(rng) else (n, k, 3)
        x, inputs = draw((2, k, *(4,) * (len(shape) - 2))), ["x0", "v"]
        if flag(rng):
            fixed["b"] = draw((n,))
            inputs.append("b")
    else:
        x, inputs = draw((m, k)), ["x0", "v"]
        turned = op == "Gemm" and flag(rng)
        if op == "Gemm":
            attributes = {"transB": int(turned), "transA": flag(rng)}
            if attributes["transA"]:
                x = np.ascontiguousarray(x.T)
            if flag(rng):
                fixed["b"] = draw((n,))
                inputs.append("b")
        shape = (n, k) if turned else (k, n)
        if op == "MatMul" and flag(rng):  # a stored transpose
            more = [helper.make_node("Transpose", ["v"], ["t"], perm=[1, 0])]
            shape, inputs = (n, k), ["x0", "t"]
    nodes = [*more, helper.make_node(op, inputs, ["y0"], **attributes)]
    made = weight(rng, shape, dtype)
    if dtype == np.float32:
        return Weights(x, made, nodes, fixed)
    # ONNX Runtime rounds the weights to 16 bits, so the error is relative to the largest result.
    return Weights(x, made, nodes, fixed, tolerance=4e-3, rows=lambda _, y: y / max(1.0, np.abs(y.astype(np.float64)).max(initial=0)))


def gathered_levels(rng):
    """GatherBlockQuantized of levels that are not packed in bytes."""
    kind = TensorProto.INT4 if flag(rng) else TensorProto.UINT4
    low, high = TYPES[kind]
    block, rows, count = int(rng.choice([16, 32, 64])), size(rng), int(rng.integers(1, 4))
    columns = block * count - 2 * int(rng.integers(0, block // 2))
    drawn = lambda *shape: rng.integers(low, high + 1, shape).ravel()
    tensors = [helper.make_tensor("w", kind, (rows, columns), drawn(rows, columns)),
               numpy_helper.from_array(rng.uniform(0.01, 0.1, (rows, count)).astype(np.float32), "s")]
    names = ["w", "x0", "s"]
    if flag(rng):
        tensors.append(helper.make_tensor("z", kind, (rows, count), drawn(rows, count)))
        names.append("z")
    node = helper.make_node("GatherBlockQuantized", names, ["y0"], domain="com.microsoft", block_size=block, quantize_axis=1, gather_axis=0)
    return Weights(rng.integers(-rows, rows, (3, 2)[: 1 + flag(rng)]), (tensors, node), [], {})


def recurrent_levels(rng):
    """A recurrent layer whose input or recurrent weight are levels; its gates change places."""
    op = str(rng.choice(["LSTM", "GRU", "RNN"]))
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    steps, batch, inner, hidden = (int(d) for d in rng.integers(1, 6, 4))
    way = str(rng.choice(["forward", "reverse", "bidirectional"]))
    both = 2 if way == "bidirectional" else 1
    attributes = {"linear_before_reset": flag(rng)} if op == "GRU" else {}
    of_x, of_state = (both, gates * hidden, inner), (both, gates * hidden, hidden)
    of_input = flag(rng)
    draw = lambda shape: rng.standard_normal(shape).astype(np.float32)
    fixed = {"u": draw(of_state if of_input else of_x), "b": draw((both, 2 * gates * hidden))}
    inputs = ["x0", "v", "u", "b"] if of_input else ["x0", "u", "v", "b"]
    node = helper.make_node(op, inputs, ["y0"], direction=way, hidden_size=hidden, **attributes)
    return Weights(draw((steps, batch, inner)), weight(rng, of_x if of_input else of_state, np.float32), [node], fixed)


MAKERS = [levels_of_weights, gathered_levels, recurrent_levels]
