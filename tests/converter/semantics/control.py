# SPDX-License-Identifier: Apache-2.0
"""Control flow."""
from typing import List

import torch
import torch.nn.functional as F
from torch import nn

from semantics.case import T, case


@case()
def early_return(self, x: T) -> T:
    if x.size(0) > 100:
        return x * 2
    if x.sum() > 0:
        return x + 1
    return x - 1


@case()
def while_over_data(self, x: T):
    i = 0
    while bool(x.abs().sum() < 100):
        x = x * 2
        i += 1
    return x, i


@case()
def writes_in_branches(self, x: T):
    y = x.clone()
    if bool(x.sum() > 0):
        y[:, 1:3] += 1
        y[0] = 5
    else:
        y.mul_(3)
    return y


@case()
class ModulesInLists(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.heads = nn.ModuleDict({"a": nn.Linear(4, 2), "b": nn.Linear(4, 3)})

    def forward(self, x: T):
        for i, layer in enumerate(self.layers):
            x = layer(x) + i
        outs: List[T] = []
        for name, head in self.heads.items():
            outs.append(head(x))
        return torch.cat(outs, 1)


@case()
class Forked(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: T):
        calls: List[torch.jit.Future[T]] = []
        for i in range(2):
            calls.append(torch.jit.fork(self.layer, x * i))
        other = torch.jit.fork(F.relu, x)
        return torch.stack([torch.jit.wait(c) for c in calls]) + torch.jit.wait(other)


@case("f32[n,4]=0.5..1")
def returns_from_a_loop(self, x: T):
    i = 0
    while i < x.size(0) * 9:
        if bool(x.sum() > 30):
            return i
        x = x * 2
        i += 1
    return -1


@case("f32[n,4]=0.5..1")
def returns_from_a_loop_over_rows(self, x: T):
    total = x[0] * 0
    for i in range(x.size(0)):
        total = total + x[i]
        if bool(total.sum() > 100):
            return total * 2
    return total


@case()
def early_returns_of_tuples(self, x: T):
    if bool(x.sum() > 100):
        return x + 1, (2, x.sum()), None
    if bool(x.sum() > 0):
        return x - 1, (x.size(0), x.max()), None
    return x, (1, x.min()), None


@case("f32[n,4]=0.5..1")
def tuples_from_a_loop(self, x: T):
    i = 0
    while i < 5:
        x = x * 2
        if bool(x.sum() > 30):
            return x, [x[0], x.sum()], {"i": i}, None
        i += 1
    return x - 1, [x[0] * 2, x.max()], {"i": 7}, None


@case()
def lists_from_a_loop_over_rows(self, x: T):
    for i in range(x.size(0)):
        if bool(x[i].sum() > 0.5):
            return [x[i], x[0]], True
    return [x[0] * 2, x[0]], False


@case("f32[n,k]")
class WritesInALoopThatCannotBeKept(nn.Module):
    """First tried as a loop node, then unrolled. The outputs are those of the script."""

    def forward(self, x: T):
        y = x.clone()
        for i in range(min(x.size(1), 3)):
            y[:, i:].mul_(2)
            y = y.transpose(0, 1).contiguous().transpose(0, 1)
        return y, x


@case("f32[n,k]")
def a_number_is_copied_in_a_loop(self, x: T):
    y = x.clone()
    for i in range(min(x.size(1), 3)):
        y[0].copy_(i)
    return y


@case("f32[n,3]")
class WaysOfSizesThatDifferInRank(nn.Module):
    """The file supports the default sizes, at which it is checked."""

    def forward(self, x: T):
        if x.size(0) != 2:
            x = x.sum(0)
        return x


@case()
def raises(self, x: T):
    if bool(x.max() > 100):
        raise ValueError("too large")
    y = x * 2
    for i in range(x.size(0)):
        assert bool(y[i].sum() > -1000), "too small"
    return y


@case(sizes="2,3")
class ResultsThatTheInterpreterLoses(nn.Module):
    """In the interpreter, one of two names of a tensor becomes None, which the next iteration reads."""

    def forward(self, x: T):
        a = x * 2
        b = x * 3
        for _ in range(x.size(0) - 1):
            a = a + b
            b = (a - 1.5) + a
            for _ in range(4):
                a = b
        return b, a


@case()
def ranks_of_data(self, x: T):
    y = x.sum(1) if bool(x.sum() > 0) else x
    z = y * 2
    if z.dim() == 1:
        z = z.unsqueeze(1)
    return z.sum(), z.mean(1)


@case()
def dtypes_of_data(self, x: T):
    y = x
    if bool(x.sum() > 0):
        y = x.to(torch.float64)
    z = (y * 3).sum(0)
    return z.float()


@case(exit=3, words="")
def ranks_of_data_that_leave(self, x: T):
    return x.sum(1) if bool(x.sum() > 0) else x
