# SPDX-License-Identifier: Apache-2.0
"""Random convolutions and products between DequantizeLinear and QuantizeLinear: quantized ops, and near misses."""
import numpy as np
from onnx import helper, numpy_helper

from case import Case, flag, open_, sizes, values


class Pairs(Case):
    """Nodes on tensors; `fixed` are the constants by name. The input is x0, the result y0."""

    def __init__(self, x, nodes, fixed, **more):
        super().__init__(f"{nodes[-3].op_type} and {nodes[-2].op_type} in pairs", [open_(x)], **more)
        self.nodes, self.fixed = nodes, fixed

    def model(self):
        x = self.inputs[0][0]
        shape = [f"d{i}" for i in range(x.ndim)] if self.symbolic else x.shape
        given = helper.make_tensor_value_info("x0", helper.np_dtype_to_tensor_dtype(x.dtype), shape)
        graph = helper.make_graph(self.nodes, "pairs", [given], [helper.make_empty_tensor_value_info("y0")],
                                  [numpy_helper.from_array(np.asarray(value), name) for name, value in self.fixed.items()])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def quantised_pairs(rng):
    kind, wide = rng.choice([np.uint8, np.int8]), rng.choice([np.uint8, np.int8])
    lowest = 0 if wide == np.uint8 else -128
    op = str(rng.choice(["Conv", "Conv", "MatMul", "Gemm"]))
    attributes = {}
    if op == "Conv":
        groups = int(rng.choice([1, 1, 2, 3]))
        kernel = [int(k) for k in rng.integers(1, 4, 2)]
        x, channels = values(rng, (2, 2 * groups, *(int(d) for d in rng.integers(4, 9, 2))), kind), 3 * groups
        w, axis = values(rng, (channels, 2, *kernel), np.int8), 0
        attributes = dict(group=groups, kernel_shape=kernel, pads=[int(p) for p in rng.integers(0, 2, 4)], strides=[int(s) for s in rng.integers(1, 3, 2)])
    else:
        m, k, channels = sizes(rng, 3, 9)
        turned = op == "Gemm" and flag(rng)
        x, w, axis = values(rng, (m, k), kind), values(rng, (channels, k) if turned else (k, channels), np.int8), 0 if turned else 1
        if op == "Gemm":
            attributes = dict(transB=int(turned))
    each = flag(rng)
    xs, ys = np.float32(rng.uniform(0.01, 0.1)), np.float32(rng.uniform(0.3, 1))
    ws = rng.uniform(0.01, 0.1, (channels,) if each else ()).astype(np.float32)
    zero = lowest if rng.random() < 0.6 else int(rng.integers(lowest, lowest + 256))
    fixed = {"xs": xs, "xz": kind(rng.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1)), "ws": ws, "wz": np.zeros(ws.shape, np.int8), "w": w,
             "ys": ys, "yz": wide(zero)}
    nodes = [helper.make_node("DequantizeLinear", ["x0", "xs", "xz"], ["x"]),
             helper.make_node("DequantizeLinear", ["w", "ws", "wz"][: 2 + flag(rng)], ["v"], axis=axis if each else 1)]
    inputs = ["x", "v"]
    if op != "MatMul" and flag(rng):
        fixed["b"] = rng.integers(-1000, 1000, (channels,)).astype(np.int32)
        fixed["bs"] = (xs * ws * np.float32(1 if rng.random() < 0.8 else 1.1)).astype(np.float32)
        nodes.append(helper.make_node("DequantizeLinear", ["b", "bs"], ["c"], axis=0))
        inputs.append("c")
    nodes.append(helper.make_node(op, inputs, ["sum"], **attributes))
    last = "sum"
    between = int(rng.integers(0, 3))
    if between == 1:
        nodes.append(helper.make_node("Relu", [last], ["act"]))
    if between == 2:
        fixed["low"], fixed["high"] = np.float32(0), np.float32(rng.choice([6, (lowest + 255 - zero) * float(ys)]))
        nodes.append(helper.make_node("Clip", [last, "low", "high"], ["act"]))
    if between:
        last = "act"
    nodes.append(helper.make_node("QuantizeLinear", [last, "ys", "yz"], ["y0"]))
    return Pairs(x, nodes, fixed, quanta=1)


MAKERS = [quantised_pairs]
