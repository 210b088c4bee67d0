# SPDX-License-Identifier: Apache-2.0
"""Kernels in torch's autograd."""

import numpy as np
import torch

from .. import _core
from ._functions import Program, followed, kept


class _Kernel(Program):
    def __init__(self, kernel, named, shape, names):
        self.kernel, self.named, self.shape, self.names = kernel, named, shape, names

    def _with(self, values):
        return {**self.named, **dict(zip(self.names, values))}

    def build(self, variables):
        """The kernel as a call of the op that implements a text kernel."""
        _, text, strict, backward, _ = self.kernel._options
        given = {**self.kernel.defaults_, **_flat(self._with(variables))}
        values = [given[name] for name in self.kernel.parameters]
        numbers = [i for i, value in enumerate(values) if isinstance(value, (bool, int, float))]
        for i in numbers:
            values[i] = np.asarray(values[i])
        attributes = {"text": text, "name": self.kernel.name, "strict": strict, "backward": backward, "numbers": numbers,
                      "shape": [] if self.shape is None else list(self.shape)}  # fmt: skip
        results = _core.lazy_call("expression", values, attributes)
        return results if isinstance(results, tuple) else (results,)

    def run(self, tensors):
        results = _core.kernel_call(self.kernel, self._with(tensors), None, self.shape)
        return results if isinstance(results, tuple) else (results,)

    def gradients(self, wanted, seeded, tensors):
        outputs = len(self.kernel.outputs)
        if len(seeded) < outputs:
            return super().gradients(wanted, seeded, tensors)
        seeds = list(tensors[len(self.names) :])
        named = self._with(tensors[: len(self.names)])
        return tuple(_core.kernel_grad(self.kernel, named, [self.names[i] for i in wanted], seeds, self.shape))


def _flat(named, prefix=""):
    """Members of structs by their names in the text."""
    out = {}
    for name, value in named.items():
        out |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return out


def apply(kernel, named, shape):
    for name, value in named.items():
        if isinstance(value, dict) and _core.is_followed(list(_flat(value).values())):
            raise ValueError(f"kernel '{kernel.name}': members of a struct take no part in autograd; detach '{name}'")
    named = {name: kept(value) for name, value in named.items()}
    names = [name for name, value in named.items() if isinstance(value, torch.Tensor)]
    results = followed(_Kernel(kernel, named, shape, names), [named[name] for name in names])
    return results[0] if len(results) == 1 else results
