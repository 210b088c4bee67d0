# SPDX-License-Identifier: Apache-2.0
"""Losses of torch.nn.functional whose rows differ from them in more than names."""

import math

from .. import _core, _rows
from ._shapes import to_shape, unsqueeze
from ._sizes import product, shape_of
from ._table import functions, reduction_of, torch_function


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
    """Half the square up to delta, linear beyond. A weighted mean divides by the number of elements."""
    if weight is None:
        return _paired(_rows.huber_loss, input, target, None, reduction, delta=delta)
    return _reduced(_paired(_rows.huber_loss, input, target, weight, "none", delta=delta), reduction)


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


def _has_negative(x):
    return not isinstance(x, (_core.Var, _core.Value)) and bool((x < 0).any() if hasattr(x, "dtype") else x < 0)


@torch_function()
def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """(log v + (input - target) ** 2 / v) / 2 of the variance v, at least eps. Nix and Weigend 1994. Expressions do not check that it
    is not negative."""
    shape = tuple(shape_of(input))
    if _has_negative(var):
        raise ValueError("gaussian_nll_loss: a variance is negative")
    if not hasattr(var, "shape"):
        var = functions["full_like"](input, var)
    elif tuple(shape_of(var)) == shape[:-1] and tuple(shape_of(var)) != shape:
        var = unsqueeze(var, -1)
    elif tuple(shape_of(var)) not in (shape, (*shape[:-1], 1)):
        raise ValueError(f"gaussian_nll_loss: the input is {list(shape)}, the variance {list(shape_of(var))}")
    still = _rows.detach(var)  # as in torch, a variance below eps has a gradient too
    limited = _rows.add(var, _rows.sub(functions["clamp"](still, eps), still))
    distance = _rows.square(_rows.sub(input, target))
    loss = _rows.mul(_rows.add(_rows.log(limited), _rows.div(distance, limited)), 0.5)
    return _reduced(_rows.add(loss, 0.5 * math.log(2 * math.pi)) if full else loss, reduction)


@torch_function()
def triplet_margin_with_distance_loss(anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction="mean"):
    """max(0, distance(anchor, positive) - distance(anchor, negative) + margin)."""
    distance = functions["pairwise_distance"] if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = _rows.minimum(far, distance(positive, negative))
    return _reduced(_rows.relu(_rows.add(_rows.sub(near, far), margin)), reduction)


@torch_function()
def linear_cross_entropy(input, linear_weight, target, *, linear_bias=None, weight=None, reduction="mean", ignore_index=None,
                         label_smoothing=0.0, options=None):  # fmt: skip
    """The cross entropy of linear(input, linear_weight, linear_bias); ``options``, which only save memory, are ignored."""
    classes, *more = shape_of(linear_weight)[:-1]
    shape = shape_of(input)
    if len(shape) not in (1, 2) or shape[-1] != shape_of(linear_weight)[-1] or (more and len(shape) == 1):
        raise ValueError(f"linear_cross_entropy: the input is {list(shape)}, the weight {list(shape_of(linear_weight))}")
    if linear_bias is not None and list(shape_of(linear_bias)) != [classes, *more]:
        raise ValueError(f"linear_cross_entropy: the bias is {list(shape_of(linear_bias))}, expected {[classes, *more]}")
    if ignore_index is not None and list(shape_of(target)) == [*shape[:-1], classes, *more]:
        raise ValueError("linear_cross_entropy: ignore_index is for targets that are classes, these are probabilities")
    flat = to_shape(linear_weight, [product([classes, *more]), shape[-1]])
    bias = None if linear_bias is None else to_shape(linear_bias, [product([classes, *more])])
    logits = to_shape(_rows.linear(input, flat, bias), [*shape[:-1], classes, *more])
    return functions["cross_entropy"](logits, target, weight, ignore_index=-100 if ignore_index is None else ignore_index,
                                      reduction=reduction, label_smoothing=label_smoothing)  # fmt: skip
