# SPDX-License-Identifier: Apache-2.0
"""Losses of two dtypes: the dtype to which PyTorch rounds intermediate and final results."""
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


class LogitsLoss(Loss):
    def forward(self, x: T, y: T):
        target = y.sigmoid()
        return (F.binary_cross_entropy_with_logits(x, target, reduction=self.reduction),
                F.binary_cross_entropy_with_logits(x, target, weight=y[0].abs(), pos_weight=x[0].exp(), reduction=self.reduction))


class KlDivLoss(Loss):
    def forward(self, x: T, y: T):
        return (F.kl_div(x, y.sigmoid(), reduction=self.reduction), F.kl_div(x, y, reduction=self.reduction, log_target=True))


class HingeLoss(Loss):
    def forward(self, x: T, y: T):
        return F.hinge_embedding_loss(x, y.sign(), margin=0.7, reduction=self.reduction)


class CosineLoss(Loss):
    def forward(self, x: T, y: T):
        sign = y[:, 0].sign()
        return (F.cosine_embedding_loss(x, y, sign, margin=0.3, reduction=self.reduction),
                F.cosine_embedding_loss(y, y.to(x.dtype), sign.to(x.dtype), reduction=self.reduction))


class L1Loss(Loss):
    def forward(self, x: T, y: T):
        return F.l1_loss(x, y, reduction=self.reduction)


class IntegerLoss(Loss):
    """Losses that PyTorch computes in integers, as it does for 8-bit products."""
    def forward(self, x: T, y: T):
        return (F.l1_loss(x, y, reduction=self.reduction), F.hinge_embedding_loss(x, y.sign(), margin=1.7, reduction=self.reduction),
                F.cosine_embedding_loss(x * 40, y, y[:, 0].sign(), margin=0.3, reduction=self.reduction))


@case("f32[n,4]", "bool[n]", "u8[n]=0..3")
def signs_that_are_no_signs(self, x: T, true: T, wrapped: T):
    of = [F.cosine_embedding_loss(x, x * x + 1, sign, margin=-1.0, reduction="none") for sign in [true, wrapped - 1]]
    of.extend([F.hinge_embedding_loss(x[:, 0], sign, margin=0.7, reduction="none") for sign in [true, wrapped - 1]])
    return of[0], of[1], of[2], of[3]


def mixed(kind, x: str, y: str, reduction: str, values=""):
    def module():
        return kind(reduction)
    module.__name__ = f"{kind.__name__}_{x}_{y}_{reduction}"
    case(f"x:{x}[n,4]{values}", f"y:{y}[n,4]{values}")(module)


for kind in (HuberLoss, SoftMarginLoss, LogitsLoss, KlDivLoss, HingeLoss, CosineLoss, L1Loss):
    for pair in PAIRS:
        mixed(kind, *pair)
for pair in (("i64", "i32", "none"), ("i8", "i64", "sum"), ("i8", "i8", "none"), ("i32", "f32", "none")):
    mixed(IntegerLoss, *pair, values="=-3..3" if pair[1] != "f32" else "")


class IntegerMean(nn.Module):
    def forward(self, x: T, y: T):
        return F.l1_loss(x, y)


class IntegerSquares(nn.Module):
    def forward(self, x: T, y: T):
        return F.mse_loss(x, y)


case("x:i64[n,4]", "y:i64[n,4]", exit=4, words="must be either a floating point or complex dtype")(IntegerMean)
case("x:i64[n,4]", "y:i64[n,4]", exit=4, words="not implemented for 'Long'")(IntegerSquares)


@case("x:f32[n,4]=0..1", "y:f64[n,4]=0..1", exit=4, words="Found dtype Double but expected Float")
def mixed_binary_cross_entropy(self, x: T, y: T):
    return F.binary_cross_entropy(x, y)
