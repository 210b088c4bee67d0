# SPDX-License-Identifier: Apache-2.0
"""A node as a model, runs of the tools on many models, and the comparison of results."""
import json, subprocess, sys

import numpy as np
from onnx import helper, numpy_helper


class Case:
    """Inputs, constants, the op and its attributes."""

    def __init__(self, op, inputs, constants=(), opset=21, outputs=1, answer=None, bits=False, **attributes):
        self.answer = answer  # expected result, if onnx's evaluator supports only the newest version
        self.bits = bits      # whether results must be bit-identical
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
