# SPDX-License-Identifier: Apache-2.0
"""Losses."""

import math
import warnings

import torch

from .. import _rows as ops
from ._common import autocast, reduced, require_floats
from ._shapes import PairwiseDistance


def _check_shapes(layer, input, target):
    if input.shape != target.shape:
        raise ValueError(f"{type(layer).__name__}: the input is {tuple(input.shape)}, the target {tuple(target.shape)}")


def _broadcast(layer, input, target):
    """Both in their common shape, with a warning if it is new to one of them, as in PyTorch."""
    if input.shape == target.shape:
        return input, target
    try:
        shape = torch.broadcast_shapes(input.shape, target.shape)
    except RuntimeError:
        _check_shapes(layer, input, target)
    warnings.warn(f"{type(layer).__name__}: the input is {tuple(input.shape)}, the target {tuple(target.shape)}; both are broadcast to "
                  f"{tuple(shape)}", stacklevel=3)  # fmt: skip
    return tuple(each if each.shape == shape else ops.expand(each, list(shape)) for each in (input, target))


def _floats(*tensors):
    return autocast(torch.float32, *tensors)


def _promoted(input, target):
    """Promotes both to the dtype of their difference, as torch does; bool tensors have none."""
    if input.dtype == target.dtype or torch.bool in (input.dtype, target.dtype):
        return input, target
    dtype = torch.result_type(input, target)
    return input.to(dtype), target.to(dtype)


def _beside(input, target):
    """The target as floats, if it holds integers and the input floats."""
    whole = target.dtype in (torch.int64, torch.int32) and input.is_floating_point()
    return input, target.to(input.dtype) if whole else target


class _Loss:
    """A loss of an input and a target that broadcast, with the op ``_op`` and attributes ``_options``; ``_pair`` unifies their dtype."""

    _options, _takes_integers = (), True
    _pair = staticmethod(_beside)

    def forward(self, input, target):
        input, target = _broadcast(self, input, target)
        if not self._takes_integers and not target.is_floating_point():
            require_floats(self, input)
        options = {name: getattr(self, name) for name in self._options}
        return self._op(*self._pair(*_floats(input, target)), **options, reduction=self.reduction)


class L1Loss(_Loss, torch.nn.L1Loss):
    _op, _pair = staticmethod(ops.l1_loss), staticmethod(_promoted)


class MSELoss(_Loss, torch.nn.MSELoss):
    _op, _takes_integers, _pair = staticmethod(ops.mse_loss), False, staticmethod(_promoted)


class SmoothL1Loss(_Loss, torch.nn.SmoothL1Loss):
    _op, _options, _pair = staticmethod(ops.smooth_l1_loss), ("beta",), staticmethod(_promoted)


class HuberLoss(_Loss, torch.nn.HuberLoss):
    _op, _options = staticmethod(ops.huber_loss), ("delta",)


class SoftMarginLoss(_Loss, torch.nn.SoftMarginLoss):
    _op = staticmethod(ops.soft_margin_loss)


class HingeEmbeddingLoss(_Loss, torch.nn.HingeEmbeddingLoss):
    _op, _options = staticmethod(ops.hinge_embedding_loss), ("margin",)


class PoissonNLLLoss(_Loss, torch.nn.PoissonNLLLoss):
    _op, _options = staticmethod(ops.poisson_nll_loss), ("log_input", "full", "eps")

    def _pair(self, input, target):
        return (input, target) if self.full else _beside(input, target)  # torch computes logarithms of integer targets in float32


class KLDivLoss(torch.nn.KLDivLoss):
    def forward(self, input, target):
        total, count = self.reduction == "batchmean", input.shape[0] if input.dim() else 1
        input, target = _broadcast(self, input, target)
        loss = ops.kl_div(*_floats(input, target), log_target=self.log_target, reduction="sum" if total else self.reduction)
        return ops.div(loss, count) if total else loss


class BCELoss(torch.nn.BCELoss):
    def forward(self, input, target):
        _check_shapes(self, input, target)
        x = input.detach()
        if not torch._C._functorch.is_functorch_wrapped_tensor(x) and not bool(((x >= 0) & (x <= 1)).all()):
            raise ValueError("BCELoss: an element of the input is not between 0 and 1")
        return ops.binary_cross_entropy(*_floats(input, target, self.weight), reduction=self.reduction)


class BCEWithLogitsLoss(torch.nn.BCEWithLogitsLoss):
    def forward(self, input, target):
        _check_shapes(self, input, target)
        return ops.binary_cross_entropy_with_logits(
            *_floats(input, target, self.weight, self.pos_weight), reduction=self.reduction
        )


class CrossEntropyLoss(torch.nn.CrossEntropyLoss):
    def forward(self, input, target):
        if self.ignore_index >= 0 and target.is_floating_point():
            raise ValueError(f"CrossEntropyLoss: ignore_index is {self.ignore_index}, and the target has probabilities")
        return ops.cross_entropy(*_floats(input, target, self.weight), ignore_index=self.ignore_index,
                                 label_smoothing=self.label_smoothing, reduction=self.reduction)  # fmt: skip


class NLLLoss(torch.nn.NLLLoss):
    def forward(self, input, target):
        require_floats(self, input)
        alone = input.dim() == 1  # one sample of [classes]
        if alone:
            input, target = input.unsqueeze(0), target.unsqueeze(0)
        loss, _ = ops.nll_loss(*_floats(input, target, self.weight), ignore_index=self.ignore_index, reduction=self.reduction)
        return loss.squeeze(0) if alone and self.reduction == "none" else loss


class NLLLoss2d(NLLLoss):
    """torch's old name of NLLLoss."""


class GaussianNLLLoss(torch.nn.GaussianNLLLoss):
    """Nix and Weigend 1994."""

    def forward(self, input, target, var):
        require_floats(self, input)
        _check_shapes(self, input, target)
        input, target = _floats(input, target)
        if not isinstance(var, torch.Tensor):
            var = torch.full(input.shape, float(var), dtype=input.dtype)
        (var,) = _floats(var)
        if var.shape == input.shape[:-1] and var.shape != input.shape:
            var = var.unsqueeze(-1)
        elif var.shape not in (input.shape, (*input.shape[:-1], 1)):
            raise ValueError(f"GaussianNLLLoss: the input is {tuple(input.shape)}, the variance {tuple(var.shape)}")
        if bool(ops.any(ops.lt(var, 0))):
            raise ValueError("GaussianNLLLoss: a variance is negative")
        # As in torch, the variance also gets its gradient where it is below eps.
        limited = ops.add(var, ops.sub(ops.clamp(var.detach(), self.eps), var.detach()))
        distance = ops.square(ops.sub(input, target))
        loss = ops.mul(ops.add(ops.log(limited), ops.div(distance, limited)), 0.5)
        return reduced(ops.add(loss, 0.5 * math.log(2 * math.pi)) if self.full else loss, self.reduction)


class MarginRankingLoss(torch.nn.MarginRankingLoss):
    def forward(self, input1, input2, target):
        require_floats(self, input1, input2)
        input1, input2, target = _floats(input1, input2, target)
        _, target = _beside(input1, target)
        return ops.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(torch.nn.CosineEmbeddingLoss):
    def forward(self, input1, input2, target):
        return ops.cosine_embedding_loss(*_floats(input1, input2, target), margin=self.margin, reduction=self.reduction)


class TripletMarginLoss(torch.nn.TripletMarginLoss):
    def forward(self, anchor, positive, negative):
        return ops.triplet_margin_loss(*_floats(anchor, positive, negative), margin=self.margin, p=self.p, eps=self.eps,
                                       swap=self.swap, reduction=self.reduction)  # fmt: skip


class TripletMarginWithDistanceLoss(torch.nn.TripletMarginWithDistanceLoss):
    """A custom distance function runs unchanged; PairwiseDistance runs in Hologram."""

    def __init__(self, *, distance_function=None, **options):
        super().__init__(distance_function=PairwiseDistance() if distance_function is None else distance_function, **options)

    def forward(self, anchor, positive, negative):
        if not anchor.dim() == positive.dim() == negative.dim():
            shapes = tuple(anchor.shape), tuple(positive.shape), tuple(negative.shape)
            raise ValueError(f"TripletMarginWithDistanceLoss: the numbers of dims differ: {shapes}")
        near, far = self.distance_function(anchor, positive), self.distance_function(anchor, negative)
        if self.swap:
            far = ops.minimum(far, self.distance_function(positive, negative))
        return reduced(ops.clamp(ops.sub(ops.add(near, self.margin), far), 0), self.reduction)


class MultiMarginLoss(torch.nn.MultiMarginLoss):
    def forward(self, input, target):
        return ops.multi_margin_loss(*_floats(input, target, self.weight), p=self.p, margin=self.margin, reduction=self.reduction)


class MultiLabelMarginLoss(torch.nn.MultiLabelMarginLoss):
    def forward(self, input, target):
        _check_shapes(self, input, target)
        return ops.multilabel_margin_loss(*_floats(input, target), reduction=self.reduction)[0]


class MultiLabelSoftMarginLoss(torch.nn.MultiLabelSoftMarginLoss):
    def forward(self, input, target):
        _check_shapes(self, input, target)
        input, target, weight = _floats(input, target, self.weight)
        loss = ops.binary_cross_entropy_with_logits(*_beside(input, target), weight, reduction="none")
        return reduced(ops.mean(loss, [-1]), self.reduction)


class CTCLoss(torch.nn.CTCLoss):
    """Graves et al. 2006."""

    def forward(self, log_probs, targets, input_lengths, target_lengths):
        alone = log_probs.dim() == 2
        if alone:
            log_probs = log_probs.unsqueeze(1)
            targets = targets.unsqueeze(0) if targets.dim() == 1 else targets
        lengths = [
            (each if isinstance(each, torch.Tensor) else torch.tensor(each)).reshape(-1).long()
            for each in (input_lengths, target_lengths)
        ]
        (log_probs,) = _floats(log_probs)
        loss = ops.ctc_loss(log_probs, targets.long(), *lengths, blank=self.blank, zero_infinity=self.zero_infinity)
        if self.reduction == "mean":  # of the losses of one target each
            loss = ops.div(loss, ops.clamp(lengths[1], 1).to(loss.dtype))
        loss = reduced(loss, self.reduction)
        return loss.squeeze(0) if alone and self.reduction == "none" else loss
