# SPDX-License-Identifier: Apache-2.0
"""One random node as a model: inputs, constants, attributes, and the tolerance of its result."""
import numpy as np
from onnx import helper, numpy_helper

FLOATS = [np.float32, np.float64]


class Case:
    """inputs: a list of (array, whether it stays an input) or None, in the order of the op's inputs."""

    def __init__(self, op, inputs, domain="com.microsoft", opset=1, outputs=1, quanta=0, tolerance=1e-4, rows=None,
                 keep=None, refusable=False, symbolic=False, evaluator=False,
                 answer=None, **attributes):
        self.op, self.inputs, self.domain, self.opset, self.outputs = op, list(inputs), domain, opset, outputs
        self.quanta = quanta        # allowed difference of a quantized result, in integers
        self.tolerance = tolerance  # relative and absolute
        self.rows = rows            # the part of output i that is defined and compared
        self.keep = keep            # the outputs of the model; None: all
        self.refusable = refusable  # the op may be rejected for these inputs
        self.symbolic = symbolic    # all sizes of the inputs are symbolic
        self.evaluator = evaluator  # onnx's evaluator replaces ONNX Runtime
        self.answer = answer        # the exact result replaces ONNX Runtime's
        self.attributes = {k: v for k, v in attributes.items() if v is not None}
        while self.inputs and self.inputs[-1] is None:
            self.inputs.pop()

    def names(self):
        return ["" if x is None else f"x{i}" for i, x in enumerate(self.inputs)]

    def feeds(self):
        return {f"x{i}": x[0] for i, x in enumerate(self.inputs) if x is not None and x[1]}

    def model(self):
        keep = range(self.outputs) if self.keep is None else self.keep
        given = [f"y{i}" if i in keep else "" for i in range(self.outputs)]
        node = helper.make_node(self.op, self.names(), given, domain=self.domain, **self.attributes)
        made, fixed = [], []
        for name, x in zip(self.names(), self.inputs):
            if x is None:
                continue
            if x[1]:
                shape = [f"{name}_{d}" for d in range(x[0].ndim)] if self.symbolic else x[0].shape
                made.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x[0].dtype), shape))
            else:
                fixed.append(numpy_helper.from_array(x[0], name))
        results = [helper.make_empty_tensor_value_info(f"y{i}") for i in keep]
        graph = helper.make_graph([node], self.op, made, results, fixed)
        opsets = [helper.make_opsetid("", 17 if self.domain else self.opset)]
        if self.domain:
            opsets.append(helper.make_opsetid(self.domain, self.opset))
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def open_(x):
    return (np.asarray(x), True)


def fixed(x):
    return (np.asarray(x), False)


def either(rng, x):
    return (np.asarray(x), bool(rng.random() < 0.5))


def maybe(rng, x, chance=0.5):
    return x if rng.random() < chance else None


def flag(rng):
    return int(rng.integers(0, 2))


def sizes(rng, count, most=6):
    return tuple(int(d) for d in rng.integers(1, most, count))


def values(rng, shape, dtype=np.float32):
    if np.issubdtype(dtype, np.floating):
        return rng.normal(0, 1, shape).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(max(info.min, -128), min(info.max, 255) + 1, shape).astype(dtype)


def weights_of(rng, shape, dtype):
    """As values(), but i8 in 7 bits: without VNNI, ONNX Runtime adds two products of u8 and i8 in 16 bits and
    saturates."""
    return values(rng, shape, dtype) // (2 if dtype == np.int8 else 1)


def activations(rng, count, directions):
    """Returns attributes of a recurrent layer: the defaults, or functions, each of which consumes its own
    parameters."""
    if rng.random() < 0.6:
        return {}
    bounded = {"Sigmoid": "", "Tanh": "", "Softsign": "", "HardSigmoid": "ab", "ScaledTanh": "ab"}
    parameters = bounded | {"Relu": "", "Softplus": "", "LeakyRelu": "a", "Elu": "a", "ThresholdedRelu": "a", "Affine": "ab"}
    names = []
    for _ in range(directions):  # keeps states small with at least one bounded function
        some = [str(name) for name in rng.choice(list(bounded), count)]
        some[int(rng.integers(min(1, count - 1), count))] = str(rng.choice(list(parameters)))
        names += some
    taken = "".join(parameters[name] for name in names)
    made = {"activations": names}
    for letter, attribute in (("a", "activation_alpha"), ("b", "activation_beta")):
        if letter in taken:
            made[attribute] = [float(v) for v in rng.uniform(0.1, 0.9, taken.count(letter))]
    return made
