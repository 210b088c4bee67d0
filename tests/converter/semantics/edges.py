# SPDX-License-Identifier: Apache-2.0
"""Ops at the limits of their dtypes, which seeded inputs do not reach."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from semantics.case import T, case

ENDS = [0., -0., 1., -1., 6e-8, 65504., -65504., 3e4, 1e-3, math.inf, -math.inf, math.nan]


class Values(nn.Module):
    """Provides the values in a dtype, and all pairs of them."""

    def __init__(self, values, dtype):
        super().__init__()
        values = torch.tensor(values, dtype=dtype)
        self.register_buffer("v", values)
        first, second = torch.meshgrid(values, values, indexing="ij")
        self.register_buffer("a", first.reshape(-1).contiguous())
        self.register_buffer("b", second.reshape(-1).contiguous())


@case("f32[n]")
class NextOfHalf(Values):
    def __init__(self):
        super().__init__(ENDS, torch.float16)

    def forward(self, x: T):
        return torch.nextafter(self.a, self.b).double(), x


@case("f32[n]")
class NextOfBfloat(Values):
    def __init__(self):
        super().__init__(ENDS, torch.bfloat16)

    def forward(self, x: T):
        return torch.nextafter(self.a, self.b).double(), x


@case("f32[n]")
class MultiplesThatOverflow(Values):
    def __init__(self):
        super().__init__([0, 1, 7, 100, 126, -100, -7, 127], torch.int8)

    def forward(self, x: T):
        return torch.lcm(self.a, self.b), x


@case("f32[n]")
class ProductsThatOverflowInAnotherOrder(Values):
    def __init__(self):
        super().__init__([1e20, -3e18, 1e-20, 2., 1e19], torch.float32)

    def forward(self, x: T):
        ones = torch.ones_like(self.a)
        return torch.addcmul(ones, self.a, self.b, value=0.01), torch.addcdiv(ones, self.a, self.b, value=0.01), x


@case("f32[n]")
class LargeLogits(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("v", torch.full((3, 4), 1e30, dtype=torch.float64))

    def forward(self, x: T):
        return F.log_softmax(self.v, 0), F.log_softmax(self.v.float(), 0), F.log_softmax(self.v, 1), x


@case("f32[n]")
class BesselAtInfinity(Values):
    def __init__(self):
        super().__init__([math.inf, -math.inf, math.nan, 0., 2.], torch.float32)

    def forward(self, x: T):
        return (torch.special.bessel_j0(self.v), torch.special.bessel_j1(self.v), torch.special.bessel_y0(self.v),
                torch.special.bessel_y1(self.v), x)


@case("f32[n]")
class SmallAndSaturated(Values):
    def __init__(self):
        super().__init__([-103., -100., -90., -88., -8.25, -8., 8.25], torch.float32)

    def forward(self, x: T):
        y = x.sum() * 0 + self.v
        return torch.exp(y) > 0, torch.tanh(y) > -1, torch.exp(y), x


@case("f32[0,3]")
def nothing_to_reduce(self, x: T):
    return x.logsumexp(0), x.logsumexp([0, 1]), x.logsumexp(0, True), x.diff(dim=0), x.diff(n=2, dim=0), x.diff()


@case("f32[n,3]", sizes="0,1,3")
def nothing_at_run_time(self, x: T):
    return x.logsumexp(0), x.logsumexp([0, 1]), x.logsumexp(0, True), x.diff(dim=0), x.diff(n=2, dim=0), x.diff()
