# SPDX-License-Identifier: Apache-2.0
"""Random ops between DequantizeLinear and QuantizeLinear: quantized convolutions and products, moved levels, and near misses."""
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


def moved_levels(rng):
    """Chains of ops that move elements, each between pairs, sometimes with other levels."""
    kind = rng.choice([np.uint8, np.int8])
    n, c, h, w = (int(d) for d in rng.integers(1, 9, 4))
    x = values(rng, (n, 4 * c, 2 * h, 2 * w), kind)
    fixed = {"shape": np.array([n, 2, -1, 2 * w]), "wide": np.array([3, 1, 1, 1, 1]), "at": np.array([0, -1]), "axes": np.array([2]), "zero": np.array([0]),
             "one": np.array([1])}
    point = lambda: kind(rng.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1))
    levels = np.float32(rng.uniform(0.01, 0.1)), point()
    pools = dict(kernel_shape=[2, 3], pads=[1, 1, 0, 1], strides=[int(s) for s in rng.integers(1, 3, 2)], ceil_mode=int(flag(rng)))
    ops = [("Reshape", ["shape"], {}), ("Transpose", [], {"perm": [0, 2, 3, 1]}), ("MaxPool", [], pools), ("Unsqueeze", ["axes"], {}),
           ("Flatten", [], {}), ("Gather", ["at"], {"axis": 1}), ("Slice", ["zero", "one", "one"], {}), ("DepthToSpace", [], {"blocksize": 2}),
           ("SpaceToDepth", [], {"blocksize": 2}), ("Concat", None, {"axis": 0})]
    nodes, last, scale = [], "x0", "s0"
    fixed["s0"], fixed["z0"] = levels
    for step in range(int(rng.integers(1, 4))):
        op, more, attributes = ops[int(rng.integers(0, len(ops)))]
        if step > 0 and op not in ("Flatten", "Gather", "Slice", "Concat"):
            continue
        numbers, place = f"f{step}", str(step + 1)
        same = rng.random() < 0.8
        fixed["s" + place], fixed["z" + place] = (fixed["s" + scale[1:]], fixed["z" + scale[1:]]) if same else (np.float32(rng.uniform(0.01, 0.1)), point())
        nodes.append(helper.make_node("DequantizeLinear", [last, scale, "z" + scale[1:]], [numbers]))
        nodes.append(helper.make_node(op, [numbers, *([numbers] if more is None else more)], ["m" + place], **attributes))
        moved = "m" + place
        if flag(rng):
            nodes.append(helper.make_node("Relu", [moved], ["r" + place]))
            moved = "r" + place
        last, scale = "q" + place, "s" + place
        nodes.append(helper.make_node("QuantizeLinear", [moved, scale, "z" + place], [last]))
    nodes[-1].output[0] = "y0"
    return Pairs(x, nodes, fixed, quanta=0)


MAKERS = [quantised_pairs, moved_levels]
