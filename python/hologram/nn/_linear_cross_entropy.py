# SPDX-License-Identifier: Apache-2.0
"""A linear layer followed by cross entropy, as in torch since 2.13."""

import torch
from torch.nn import LinearCrossEntropyLoss as _Base

from .. import _rows as ops
from .._errors import UnsupportedError
from ._common import autocast
from ._products import Linear


class LinearCrossEntropyLoss(_Base):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.linear.__class__ = Linear

    def forward(self, input, target):
        if self.options is not None:
            raise UnsupportedError("LinearCrossEntropyLoss: options are not supported")
        if input.dim() not in (1, 2) or (self.out_features and input.dim() == 1):
            raise ValueError(f"LinearCrossEntropyLoss: the input is {tuple(input.shape)}")
        logits = ops.reshape(self.linear(input), [*input.shape[:-1], self.num_classes, *self.out_features])
        if target.shape == logits.shape and self.ignore_index is not None:
            raise ValueError(f"LinearCrossEntropyLoss: ignore_index is {self.ignore_index}, and the target has probabilities")
        ignore = -100 if self.ignore_index is None else self.ignore_index
        return ops.cross_entropy(*autocast(torch.float32, logits, target, self.weight), ignore_index=ignore,
                                 label_smoothing=self.label_smoothing, reduction=self.reduction)  # fmt: skip
