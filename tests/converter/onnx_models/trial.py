# SPDX-License-Identifier: Apache-2.0
"""One model made by hand: converted, run and compared."""
import json, subprocess

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
info, node = helper.make_tensor_value_info, helper.make_node


def model_of(nodes, inputs, outputs, constants=(), opset=21, domains=(), **more):
    """inputs: (name, type, shape); outputs: names; constants: TensorProtos, or arrays by name."""
    given = [c if isinstance(c, TensorProto) else numpy_helper.from_array(np.asarray(c[1]), c[0]) for c in constants]
    graph = helper.make_graph(nodes, "graph", [info(*i) for i in inputs], [helper.make_empty_tensor_value_info(o) for o in outputs], given, **more)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(d, 1) for d in domains] + [helper.make_opsetid("", opset)], ir_version=10)


class Trial:
    """One model in its own folder; counts unexpected results."""

    def __init__(self, given, name, model):
        self.given, self.name, self.folder, self.bad = given, name, given.work / name, 0
        self.folder.mkdir(parents=True)
        self.model = model
        onnx.save(model, self.folder / "model.onnx")

    def say(self, *why):
        self.bad += 1
        print(f"{self.name}:", *why)
        return self

    def convert(self, *options, limit=None):
        done = subprocess.run([self.given.bin / "hg-convert", self.folder / "model.onnx", "-o", self.folder / "model.hgm", *options],
                              capture_output=True, text=True, timeout=limit)
        self.code, self.err = done.returncode, done.stderr
        return self

    def described(self):
        """What hg-info says about the file."""
        return json.loads(subprocess.run([self.given.bin / "hg-info", self.folder / "model.hgm", "--json"], capture_output=True, text=True).stdout)

    def expect(self, what, got, want):
        return self if got == want else self.say(f"{what}: {got} instead of {want} {self.err}")

    def refused(self, words, code=2):
        self.convert()
        return self if self.code == code and words in self.err else self.say(f"exit {self.code}, expected {code} and '{words}': {self.err}")

    def gives(self, feeds, want=None, tolerance=1e-5):
        """want: arrays in the order of the outputs; None: the results of onnx's evaluator. Tolerance 0: the same numbers."""
        if self.code:
            return self.say(f"exit {self.code}: {self.err}")
        if want is None:
            want = ReferenceEvaluator(self.model).run(None, feeds)
        for name, x in feeds.items():
            np.save(self.folder / f"{name}.npy", x)
        inputs = [a for name in feeds for a in ("--input", f"{name}={self.folder}/{name}.npy")]
        done = subprocess.run([self.given.bin / "hg-run", self.folder / "model.hgm", *inputs, "--output-dir", self.folder], capture_output=True, text=True)
        if done.returncode:
            return self.say("hg-run:", done.stderr)
        for output, expected in zip(self.model.graph.output, want):
            got, expected = np.load(self.folder / f"{output.name}.npy"), np.asarray(expected)
            same = np.allclose(got, expected, tolerance, tolerance, equal_nan=True) if tolerance and got.shape == expected.shape else np.array_equal(got, expected)
            if got.dtype != expected.dtype or not same:
                self.say(f"{output.name} is {got.dtype}{list(got.shape)} {got.ravel()[:8]} instead of "
                         f"{expected.dtype}{list(expected.shape)} {expected.ravel()[:8]} for {[x.shape for x in feeds.values()]}")
        return self
