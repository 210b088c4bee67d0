# SPDX-License-Identifier: Apache-2.0
"""Losses of two dtypes, whose results PyTorch rounds to that of their input."""
import itertools
import random

from torch import nn
from torch.nn import functional as F

from .case import T, case

FLOATS = ("f32", "f64", "f16", "bf16")
PAIRS = random.Random(5).sample(list(itertools.product(FLOATS, FLOATS, ("none", "mean", "sum"))), 8)


class Loss(nn.Module):
    def __init__(self, reduction: str):
        super().__init__()
        self.reduction = reduction


class HuberLoss(Loss):
    def forward(self, x: T, y: T):
        return F.huber_loss(x, y, reduction=self.reduction, delta=0.7)


class SoftMarginLoss(Loss):
    def forward(self, x: T, y: T):
        return F.soft_margin_loss(x, y, reduction=self.reduction)


def mixed(kind, x: str, y: str, reduction: str):
    def module():
        return kind(reduction)
    module.__name__ = f"{kind.__name__}_{x}_{y}_{reduction}"
    case(f"x:{x}[n,4]", f"y:{y}[n,4]")(module)


for kind in (HuberLoss, SoftMarginLoss):
    for pair in PAIRS:
        mixed(kind, *pair)


@case("x:f32[n,4]=0..1", "y:f64[n,4]=0..1", exit=4, words="Found dtype Double but expected Float")
class MixedBinaryCrossEntropy(nn.Module):
    def forward(self, x: T, y: T):
        return F.binary_cross_entropy(x, y)
