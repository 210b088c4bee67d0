# SPDX-License-Identifier: Apache-2.0
"""Data-dependent float arguments."""
import math
from typing import List

import torch
import torch.nn.functional as F

from semantics.case import T, case

# Range of the number: nonnegative, as most of these arguments must be.
NUMBER = "f64[]=0.25..2"


@case("f32[n,4]", NUMBER)
def floats_of_activations(self, x: T, t: T):
    s = float(t)
    return (F.celu(x, s), F.elu(x, s), F.leaky_relu(x, s), F.softplus(x, s), F.softplus(x, 1., s), F.softshrink(x, s),
            F.hardshrink(x, s), F.threshold(x, s, -s), F.hardtanh(x, -s, s), torch.logit(torch.sigmoid(x), s / 4),
            F.rrelu(x, s, 2 * s))


@case("f16[n,4]", "bf16[n,4]", NUMBER)
def floats_of_halves(self, x: T, y: T, t: T):
    s = t.item()
    return F.elu(x, float(s)), F.softplus(y, float(s)), torch.add(x, x, alpha=s), torch.addcmul(y, y, y, value=s)


# f16 cannot represent 75000, but it can represent the sum.
@case("f16[n,4]=1.25..1.75", "f64[]=5e4..6e4")
def products_beyond_half(self, x: T, t: T):
    s = float(t)
    y = torch.full_like(x, -60000.)
    return (torch.addcmul(y, x, x, value=s), torch.addcmul(y, x, x, value=5e4), torch.addcdiv(y, x, x * .6, value=s),
            torch.addmm(y[:, :2], x[:, :2] * 200., torch.eye(2, dtype=x.dtype), alpha=s / 200))


@case("f32[n,4]", "f32[4,4]", NUMBER)
def floats_of_products(self, x: T, w: T, t: T):
    s = float(t)
    return (torch.addmm(x, x, w, alpha=s, beta=s), torch.addmm(x, x, w, beta=s - s),
            torch.addmv(x[:, 0], x, w[0], alpha=s), torch.addr(w, w[0], w[1], beta=s, alpha=s),
            torch.baddbmm(x[None], x[None], w[None], beta=s), torch.addcdiv(x, x, x.exp(), value=s))


@case("f32[n,4]", NUMBER)
def float_of_attention(self, x: T, t: T):
    return F.scaled_dot_product_attention(x[None], x[None], x[None], scale=float(t))


# If beta is 0, self is ignored, even NaN.
@case("f32[n,4]", "f64[]=0..0")
def beta_that_is_zero(self, x: T, t: T):
    return torch.addmm(torch.full([4, 4], math.nan), x.t(), x, beta=float(t))


@case("i64[n,4]=-9..9", "i64[]=-3..3")
def integers_of_alpha(self, x: T, t: T):
    s = int(t)
    return torch.add(x, x, alpha=s), torch.addcmul(x, x, x, value=s), torch.sub(x.int(), x.int(), alpha=s)


@case("f32[n,4]", NUMBER)
def floats_that_fill(self, x: T, t: T):
    s = float(t)
    holed = torch.where(x > 1, math.nan, torch.where(x < -1, -math.inf, x))
    return (F.pad(x, [1, 2], value=s), F.pad(x, [0, 0, -1, 1], value=s), x.masked_fill(x > 0, s), torch.full([2], s),
            torch.full_like(x, s), x.clone().fill_(s), torch.nan_to_num(holed, s, s, -s), torch.nan_to_num(holed, neginf=s))


@case("f32[n,4]", NUMBER)
def floats_of_sequences(self, x: T, t: T):
    s = float(t)
    return (torch.linspace(s, 3., 5), torch.linspace(0., s, 4), torch.logspace(0., 1., 4, s), x.sum() + torch.arange(0., 4., s),
            x.sum() + torch.arange(s), torch.trapezoid(x, dx=s), torch.gradient(x, spacing=s, dim=1)[0],
            torch.fft.fftfreq(5, s), torch.hamming_window(5, True, s, s))


@case("f32[n,4]", "f64[]=0..1")
def floats_of_quantiles(self, x: T, t: T):
    return torch.quantile(x, float(t)), torch.quantile(x, float(t), dim=1), torch.nanquantile(x, float(t), dim=0)


# libtorch leaves the multi_margin_loss of zero samples undefined.
@case("f32[n,4]", "f32[n,4]", NUMBER, sizes="1,3")
def floats_of_losses(self, x: T, y: T, t: T):
    s = float(t)
    labels = torch.arange(x.size(0)) % 4
    return (F.huber_loss(x, y, delta=s), F.smooth_l1_loss(x, y, beta=s), F.smooth_l1_loss(x, y, beta=s - s),
            F.hinge_embedding_loss(x, torch.sign(y), margin=s), F.margin_ranking_loss(x, y, torch.sign(x), margin=s),
            F.cosine_embedding_loss(x, y, torch.sign(x[:, 0]), margin=s / 4),
            F.poisson_nll_loss(x.exp(), y, log_input=False, eps=s), F.triplet_margin_loss(x, y, x * 2, margin=s, p=2 + s),
            F.multi_margin_loss(x, labels, margin=s), F.cross_entropy(x, labels, label_smoothing=s / 4),
            F.cross_entropy(x, y.softmax(1), label_smoothing=s / 4))


@case("f32[n,4]", NUMBER)
def floats_of_norms(self, x: T, t: T):
    s = float(t)
    return (F.layer_norm(x, [4], eps=s), F.group_norm(x, 2, eps=s), F.batch_norm(x, x[0], x[0].abs(), eps=s),
            F.rms_norm(x, [4], eps=s), F.normalize(x, eps=s), F.normalize(x, s), F.cosine_similarity(x, x.flip(1), eps=s),
            F.pairwise_distance(x, x.flip(1), s, s), torch.norm(x, s), torch.cdist(x, x.flip(1), s),
            torch.dist(x, x * 2, s), torch.renorm(x, s, 0, s), torch.isclose(x, x * (1 + s), s, s))


@case("f32[n,4]", "f64[]=1..1")
def orders_of_norms(self, x: T, t: T):
    s = float(t)
    orders: List[float] = [s - s, s, 2 * s, math.inf * s, -math.inf * s, -s]
    parts: List[T] = []
    for order in orders:
        parts.append(torch.linalg.vector_norm(x, order, 1))
    return torch.stack(parts)


@case("f32[n,4]", NUMBER)
def floats_in_evaluation(self, x: T, t: T):
    s = float(t)
    return F.dropout(x, s / 4, False), F.alpha_dropout(x, s / 4, False), torch.lerp(x, x * 2, s), x ** s


# Symbolic sizes in floating point.
@case("f32[n,4]")
def floats_of_sizes(self, x: T):
    s = 1 / x.size(0)
    return (F.leaky_relu(x, s), F.huber_loss(x, x * 2, delta=s), F.pad(x, [1, 0], value=s),
            F.scaled_dot_product_attention(x[None], x[None], x[None], scale=s))
