# SPDX-License-Identifier: Apache-2.0
"""Single ops in torch's autograd: their derivatives are lazy expressions with cached plans."""

import torch

from .. import _core
from ._device import as_hologram, as_torch, there
from ._functions import Program, followed, kept


class _Op(Program):
    def __init__(self, name, operands, attributes, places, random):
        self.name, self.operands, self.attributes, self.places = name, operands, attributes, places
        self.random = name if random else ""

    def _with(self, values):
        operands = list(self.operands)
        for place, value in zip(self.places, values):
            operands[place] = value
        return operands

    def build(self, variables):
        results = _core.lazy_call(self.name, self._with(variables), self.attributes)
        return results if isinstance(results, tuple) else (results,)

    def run(self, tensors):
        results = _core.eager_call(None, self.name, self._with(tensors), self.attributes, None)
        return results if isinstance(results, tuple) else (results,)

    def gradients(self, wanted, seeded, tensors):
        return _core.op_gradients(self.name, self.operands, self.attributes, self.places, wanted, seeded, there(tensors))


def call_with_gradient(name, inputs, attributes, random, out):
    if out is not None:
        raise ValueError(f"{name}: out= takes no part in autograd; use torch.no_grad()")
    rest, places, tensors = [], [], []
    stays = False  # results are hologram tensors, as an input is one
    for i, value in enumerate(inputs):
        if isinstance(value, _core.Tensor):
            stays, value = True, as_torch(value)
        is_tensor = isinstance(value, torch.Tensor)
        rest.append(None if is_tensor else kept(value))
        if is_tensor:
            places.append(i)
            tensors.append(value)
    results = followed(_Op(name, rest, attributes, places, random), tensors)
    if stays:
        results = tuple(as_hologram(each) for each in results)
    return results[0] if len(results) == 1 else results
