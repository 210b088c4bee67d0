# SPDX-License-Identifier: Apache-2.0
"""Dropout. torch's generator draws what is dropped, so ``torch.manual_seed`` controls it."""

import math

import torch

from .. import _rows as ops
from ._common import elementwise


def _kept(p, drawn):
    """A tensor drawn with 1 / (1 - p) for kept elements and 0 for dropped ones."""
    if p == 1:  # draws nothing
        return torch.zeros((), dtype=drawn.dtype)
    return drawn.bernoulli_(1 - p).div_(1 - p)


class Dropout(torch.nn.Dropout):
    def forward(self, input):
        if not self.training or self.p == 0 or input.numel() == 0:
            return input
        keep = _kept(self.p, torch.empty_like(input))
        return elementwise(self, input, lambda x: ops.mul(x, keep))


def _channels(input):
    return [*input.shape[:2], *[1] * (input.dim() - 2)]


class _ChannelDropout:
    """Drops whole channels of a sample."""

    def forward(self, input):
        if input.dim() not in self._ranks:
            raise ValueError(f"{type(self).__name__}: expected {self._ranks} dims, got {tuple(input.shape)}")
        if not self.training or self.p == 0 or input.numel() == 0:
            return input
        alone = input.dim() == self._ranks[0] and self._lacks_batch
        shape = _channels(input.unsqueeze(0))[1:] if alone else _channels(input)
        keep = _kept(self.p, torch.empty(shape, dtype=input.dtype))
        return elementwise(self, input, lambda x: ops.mul(x, keep))


class Dropout1d(_ChannelDropout, torch.nn.Dropout1d):
    _ranks, _lacks_batch = (2, 3), True


class Dropout2d(_ChannelDropout, torch.nn.Dropout2d):
    _ranks, _lacks_batch = (3, 4), False  # torch takes three dims for [n, c, length]


class Dropout3d(_ChannelDropout, torch.nn.Dropout3d):
    _ranks, _lacks_batch = (4, 5), True


def _alpha_dropped(layer, input, drawn):
    """Dropped elements become SELU's lowest value; mean and variance stay. Klambauer et al. 2017."""
    if not layer.training or layer.p == 0 or input.numel() == 0:
        return input
    p, alpha = layer.p, 1.7580993408473766
    if p == 1:
        return elementwise(layer, input, lambda x: ops.mul(x, torch.zeros((), dtype=x.dtype)))
    stays = drawn.bernoulli_(1 - p)
    a = 1 / math.sqrt((alpha * alpha * p + 1) * (1 - p))
    shift = ops.add(ops.mul(ops.sub(stays, 1), alpha * a), alpha * a * p)
    return elementwise(layer, input, lambda x: ops.add(ops.mul(x, ops.mul(stays, a)), shift))


class AlphaDropout(torch.nn.AlphaDropout):
    def forward(self, input):
        return _alpha_dropped(self, input, torch.empty_like(input))


class FeatureAlphaDropout(torch.nn.FeatureAlphaDropout):
    def forward(self, input):
        if input.dim() < 2:
            raise ValueError(f"FeatureAlphaDropout: expected 2 or more dims, got {tuple(input.shape)}")
        return _alpha_dropped(self, input, torch.empty(_channels(input), dtype=input.dtype))
