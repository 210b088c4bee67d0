# SPDX-License-Identifier: Apache-2.0
"""Layers that move elements: padding, shuffling, resizing, windows; distances."""

import math

import torch

from .. import _rows as ops
from .._errors import UnsupportedError
from ._common import autocast, listed, padded, require_floats, require_held


class _Pad:
    _mode, _of_float32 = "constant", False

    def forward(self, input):
        if self._of_float32:
            (input,) = autocast(torch.float32, input)
        value = float(getattr(self, "value", 0.0))
        if self._mode in ("reflect", "replicate") and input.dtype == torch.bool:
            raise TypeError(f"{type(self).__name__}: the input is bool")
        if value and input.dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
            require_held(self, input.dtype, value)
        return padded(input, list(self.padding), self._mode, value)


class _Reflect(_Pad):
    _mode, _of_float32 = "reflect", True


class _Replicate(_Pad):
    _mode, _of_float32 = "replicate", True


class _Circular(_Pad):
    _mode = "circular"

    def forward(self, input):
        self._check_input_dim(input)
        return super().forward(input)


class ConstantPad1d(_Pad, torch.nn.ConstantPad1d):
    pass


class ConstantPad2d(_Pad, torch.nn.ConstantPad2d):
    pass


class ConstantPad3d(_Pad, torch.nn.ConstantPad3d):
    pass


class ZeroPad1d(_Pad, torch.nn.ZeroPad1d):
    pass


class ZeroPad2d(_Pad, torch.nn.ZeroPad2d):
    pass


class ZeroPad3d(_Pad, torch.nn.ZeroPad3d):
    pass


class ReflectionPad1d(_Reflect, torch.nn.ReflectionPad1d):
    pass


class ReflectionPad2d(_Reflect, torch.nn.ReflectionPad2d):
    pass


class ReflectionPad3d(_Reflect, torch.nn.ReflectionPad3d):
    _of_float32 = False  # torch lists the others alone


class ReplicationPad1d(_Replicate, torch.nn.ReplicationPad1d):
    pass


class ReplicationPad2d(_Replicate, torch.nn.ReplicationPad2d):
    pass


class ReplicationPad3d(_Replicate, torch.nn.ReplicationPad3d):
    pass


class CircularPad1d(_Circular, torch.nn.CircularPad1d):
    pass


class CircularPad2d(_Circular, torch.nn.CircularPad2d):
    pass


class CircularPad3d(_Circular, torch.nn.CircularPad3d):
    pass


def _regrouped(x, lead, apart, order, together):
    """Reshapes x to ``apart``, permutes it, and reshapes it to ``together``; ``lead`` dims stay in front."""
    x = ops.reshape(x, [*lead, *apart])
    x = ops.permute(x, [*range(len(lead)), *(len(lead) + i for i in order)])
    return ops.reshape(x, [*lead, *together])


class PixelShuffle(torch.nn.PixelShuffle):
    """Shi et al. 2016."""

    def forward(self, input):
        r = self.upscale_factor
        if input.dim() < 3 or input.shape[-3] % (r * r) != 0:
            raise ValueError(f"PixelShuffle of {r}: the input is {tuple(input.shape)}")
        c, h, w = input.shape[-3] // (r * r), *input.shape[-2:]
        return _regrouped(input, input.shape[:-3], [c, r, r, h, w], [0, 3, 1, 4, 2], [c, h * r, w * r])


class PixelUnshuffle(torch.nn.PixelUnshuffle):
    def forward(self, input):
        r = self.downscale_factor
        if input.dim() < 3 or input.shape[-2] % r != 0 or input.shape[-1] % r != 0:
            raise ValueError(f"PixelUnshuffle of {r}: the input is {tuple(input.shape)}")
        c, h, w = input.shape[-3], input.shape[-2] // r, input.shape[-1] // r
        return _regrouped(input, input.shape[:-3], [c, h, r, w, r], [0, 2, 4, 1, 3], [c * r * r, h, w])


class ChannelShuffle(torch.nn.ChannelShuffle):
    """Zhang et al. 2018."""

    def forward(self, input):
        if input.dim() < 3 or input.shape[1] % self.groups != 0:
            raise ValueError(f"ChannelShuffle of {self.groups} groups: the input is {tuple(input.shape)}")
        c, rest = input.shape[1], list(input.shape[2:])
        apart = [self.groups, c // self.groups, *rest]
        return _regrouped(input, input.shape[:1], apart, [1, 0, *range(2, len(apart))], [c, *rest])


class _Upsample:
    def forward(self, input):
        dims = input.dim() - 2
        if input.dtype != torch.uint8:
            require_floats(self, input)
        if not 1 <= dims <= 3:
            raise ValueError(f"{type(self).__name__}: expected 3 to 5 dims, got {tuple(input.shape)}")
        scales = []
        if self.size is not None:
            size = listed(self.size, dims)
        else:
            factors = self.scale_factor
            factors = [float(factors)] * dims if isinstance(factors, (int, float)) else [float(f) for f in factors]
            size = [math.floor(n * f) for n, f in zip(input.shape[2:], factors)]
            scales = [] if getattr(self, "recompute_scale_factor", None) else factors
        if self.mode not in ("nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic"):
            raise UnsupportedError(f"{type(self).__name__}: the mode '{self.mode}' is not supported")
        return ops.interpolate(input, size, mode=self.mode, align_corners=bool(self.align_corners), scales=scales)


class Upsample(_Upsample, torch.nn.Upsample):
    pass


class UpsamplingNearest2d(_Upsample, torch.nn.UpsamplingNearest2d):
    pass


class UpsamplingBilinear2d(_Upsample, torch.nn.UpsamplingBilinear2d):
    pass


def _windows(layer):
    return {name: listed(getattr(layer, name), 2) for name in ("dilation", "padding", "stride")}


class Unfold(torch.nn.Unfold):
    def forward(self, input):
        if input.dim() == 3:
            return self.forward(input.unsqueeze(0)).squeeze(0)
        return ops.im2col(input, listed(self.kernel_size, 2), **_windows(self))


class Fold(torch.nn.Fold):
    def forward(self, input):
        if input.dim() == 2:
            return self.forward(input.unsqueeze(0)).squeeze(0)
        return ops.col2im(input, listed(self.output_size, 2), listed(self.kernel_size, 2), **_windows(self))


class CosineSimilarity(torch.nn.CosineSimilarity):
    def forward(self, x1, x2):
        return ops.cosine_similarity(x1, x2, dim=self.dim, eps=self.eps)


class PairwiseDistance(torch.nn.PairwiseDistance):
    def forward(self, x1, x2):
        return ops.pairwise_distance(x1, x2, p=self.norm, eps=self.eps, keepdim=self.keepdim)
