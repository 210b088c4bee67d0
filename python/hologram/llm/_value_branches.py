# SPDX-License-Identifier: Apache-2.0
"""Branches of modules that values of tensors decide, for torch.export: the program holds the branches that the example takes.

Where other values decide otherwise, its outputs are NaN, which generators reject."""

import sys
from collections import defaultdict


def as_in_example(torch, part, inputs):
    """A class of contexts for forward, in which it takes the branches that ``inputs`` take. The method ``checked`` of the context maps
    outputs to those of the program."""
    kind, decisions = torch.Tensor, defaultdict(list)  # by lines of code, since an export leaves some lines out

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            if function in (kind.item, kind.__bool__) and args[0].dtype == torch.bool and args[0].numel() == 1:
                caller = sys._getframe(1)
                return self.decide(function, args[0], (caller.f_code, caller.f_lineno))
            return function(*args, **(kwargs or {}))

    class Record(Mode):
        def decide(self, function, condition, line):
            decisions[line].append(bool(function(condition)))
            return decisions[line][-1]

    class Follow(Mode):
        def __init__(self):
            super().__init__()
            self.left, self.taken = {line: iter(values) for line, values in decisions.items()}, []

        def decide(self, function, condition, line):
            value = next(self.left.get(line, iter(())), None)
            if value is None:
                return function(condition)
            self.taken.append((condition.reshape(()), value))
            return value

        def checked(self, outputs):
            for condition, value in self.taken:
                differs = ~condition if value else condition
                outputs = {name: torch.where(differs, float("nan"), each) for name, each in outputs.items()}
            return outputs

    with torch.no_grad(), Record():
        part(*inputs)
    return Follow
