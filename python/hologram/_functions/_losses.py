# SPDX-License-Identifier: Apache-2.0
"""Losses of torch.nn.functional whose rows differ from them in more than names."""

from .. import _rows
from ._sizes import shape_of
from ._table import reduction_of, torch_function


def _reduced(loss, reduction):
    if reduction == "none":
        return loss
    if reduction not in ("mean", "sum"):
        raise ValueError(f"reduction is {reduction!r}, expected 'none', 'mean' or 'sum'")
    return _rows.mean(loss) if reduction == "mean" else _rows.sum(loss)


def _paired(row, input, target, weight, reduction, **attributes):
    """A loss of pairs of elements; input and target broadcast. A weighted mean divides by the sum of weights."""
    if shape_of(input) != shape_of(target):
        zero = _rows.mul(_rows.sub(input, target), 0)
        input, target = _rows.add(input, zero), _rows.add(target, zero)
    if weight is None:
        return row(input, target, reduction=reduction, **attributes)
    loss = _rows.mul(row(input, target, reduction="none", **attributes), weight)
    if reduction != "mean":
        return _reduced(loss, reduction)
    return _rows.div(_rows.sum(loss), _rows.sum(_rows.expand(weight, list(shape_of(loss)))))


@torch_function()
def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """(input - target) ** 2."""
    return _paired(_rows.mse_loss, input, target, weight, reduction_of(size_average, reduce, reduction))


@torch_function()
def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """abs(input - target), reduced."""
    return _paired(_rows.l1_loss, input, target, weight, reduction_of(size_average, reduce, reduction))


@torch_function()
def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """Half the square up to delta, linear beyond."""
    return _paired(_rows.huber_loss, input, target, weight, reduction, delta=delta)


@torch_function()
def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    """-input of the target's class."""
    reduction = reduction_of(size_average, reduce, reduction)
    return _rows.nll_loss(input, target, weight, ignore_index=ignore_index, reduction=reduction)[0]


@torch_function()
def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """target * (log target - input); "batchmean" divides the sum by the number of samples."""
    reduction = reduction_of(size_average, reduce, reduction)
    if reduction == "batchmean":
        shape = shape_of(input)
        total = _rows.kl_div(input, target, log_target=log_target, reduction="sum")
        if isinstance(shape[0] if shape else 1, str):
            raise ValueError(f"kl_div: reduction 'batchmean' of the open size {shape[0]}")
        return _rows.div(total, shape[0]) if shape else total
    return _rows.kl_div(input, target, log_target=log_target, reduction=reduction)


@torch_function()
def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """The margin loss of several classes per sample."""
    return _rows.multilabel_margin_loss(input, target, reduction=reduction_of(size_average, reduce, reduction))[0]


@torch_function()
def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """The mean of binary cross entropies over the last dim."""
    loss = _rows.binary_cross_entropy_with_logits(input, target, reduction="none")
    loss = _rows.mean(loss if weight is None else _rows.mul(loss, weight), [-1])
    return _reduced(loss, reduction_of(size_average, reduce, reduction))


@torch_function()
def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """Connectionist temporal classification (Graves et al. 2006); the mean is over loss / target length."""
    loss = _rows.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=blank, zero_infinity=zero_infinity)
    if reduction == "mean":
        lengths = _rows.cast(_rows.clamp(target_lengths, 1, None), "float32")
        return _rows.mean(_rows.div(loss, lengths))
    return _reduced(loss, reduction)
