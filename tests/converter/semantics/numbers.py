# SPDX-License-Identifier: Apache-2.0
"""Python arithmetic as libtorch implements it: constants, sizes and data-dependent numbers."""
import math

import torch
from torch import nn

from semantics.case import T, case


class Numbers(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.c, self.zero = -7, 3, 0
        self.f, self.big, self.inf, self.nan = -7.3, 1e20, float("inf"), float("nan")
        self.bools = [True, False]
        self.odd = 16777217


@case()
class Remainders(Numbers):
    def forward(self, x: T):
        n, g = x.size(0), float(x[0, 0])
        return [
            self.a % self.c, self.a // self.c, self.c % self.a, -n % self.c, -n // self.c, (n - 9) % 4
        ], [self.f % self.big, self.f % self.inf, self.f // self.c, g % self.inf, g % self.f, g // self.inf,
            self.inf // g, n % self.f, n // self.f, self.f % 0.1]


@case("f32[n,4]", "i64[]=1..5")
class Powers(Numbers):
    def forward(self, x: T, k: T):
        n, i = x.size(0), int(k)
        return n**-1, n**-2, i**-2, self.c**i, 2.0**i, i**2, n**2, (-n) ** 3, self.a**0, self.c**-1


@case()
class Extremes(Numbers):
    def forward(self, x: T):
        g = float(x[0, 0])
        reals = [min(self.f, self.nan), min(self.nan, self.f), max(self.nan, g), min(g, self.nan), max(g, self.f)]
        return reals, min(self.bools), max(self.bools), min([g, self.f]), max([x.size(0), 3])


@case()
class Conversions(Numbers):
    def forward(self, x: T):
        k = int(x[0, 0])
        return float(self.odd), float(k), round(2.5), round(-3.5), math.floor(k), math.ceil(self.f), math.asinh(0.5)


@case(exit=4, words="negative power")
class ZeroToANegativePower(Numbers):
    def forward(self, x: T):
        return x * self.zero**-2


@case(exit=3, words="division by zero")
class DivmodByZero(Numbers):
    def forward(self, x: T):
        return x * divmod(self.f, 0.0)[0]


@case(exit=4, words="does not keep the attributes")
class CountsItsRuns(nn.Module):
    def __init__(self):
        super().__init__()
        self.runs = 0

    def forward(self, x: T):
        self.runs += 1
        return x * self.runs


@case()
class NotesWhatNobodyReads(nn.Module):
    def __init__(self):
        super().__init__()
        self.runs = 0

    def forward(self, x: T):
        self.runs += 1
        return x


@case("f16[n,2]", "i64[n,2]=0..3", "f64[]")
def common_types(self, x: T, y: T, z: T):
    wide = torch.result_type(x, y), torch.result_type(y, z), torch.result_type(y, 1.5), torch.result_type(x, z)
    return wide, torch.zeros(2, dtype=torch.result_type(y, x.size(0)))


@case("x:f64[n,4]", "k:i64[]=1..5")
class TensorsOfNumbers(Numbers):
    """Differences to the numbers in f64 show intermediate rounding."""

    def forward(self, x: T, k: T):
        n, i, r = x.size(0), int(k), float(x[0, 0])
        f = torch.float64
        return ((torch.tensor(self.f, dtype=f) - self.f) * 1e9, (torch.tensor([self.f, 1.0], dtype=f) - self.f) * 1e9,
                (torch.tensor(r, dtype=f) - r) * 1e9, (torch.as_tensor(0.1, dtype=f) - 0.1) * 1e9,
                torch.tensor([i, 2]), torch.tensor([i > 2, True]), torch.tensor([n, i]), torch.tensor(n / 3),
                (torch.tensor(n / 3, dtype=f) - n / 3) * 1e9, torch.tensor([r, 1.0]),
                torch.tensor(self.odd), torch.tensor(float(self.odd), dtype=torch.int64), torch.tensor(1e10, dtype=torch.int64))
