# SPDX-License-Identifier: Apache-2.0
"""Pooling."""

import math

import torch

from .. import _rows as ops
from .._functions import functions
from .._functions._pools import lp_pool_of
from ._common import autocast, batched, listed, require_floats


class _MaxPool:
    def forward(self, input):
        dims = self._dims
        kernel = listed(self.kernel_size, dims)
        options = {
            "stride": kernel if self.stride is None else listed(self.stride, dims),
            "padding": listed(self.padding, dims),
            "dilation": listed(self.dilation, dims),
            "ceil_mode": self.ceil_mode,
        }
        if dims == 1 and not self.return_indices:
            require_floats(self, input)
        if dims == 3 and not self.return_indices:
            (input,) = autocast(torch.float32, input)
        op = ops.max_pool_with_indices if self.return_indices else ops.max_pool
        return batched(self, input, dims, lambda x: op(x, kernel, **options))


class MaxPool1d(_MaxPool, torch.nn.MaxPool1d):
    _dims = 1


class MaxPool2d(_MaxPool, torch.nn.MaxPool2d):
    _dims = 2


class MaxPool3d(_MaxPool, torch.nn.MaxPool3d):
    _dims = 3


class _AvgPool:
    def forward(self, input):
        dims = self._dims
        kernel = listed(self.kernel_size, dims)
        options = {
            "stride": kernel if self.stride is None else listed(self.stride, dims),
            "padding": listed(self.padding, dims),
            "ceil_mode": self.ceil_mode,
            "count_include_pad": self.count_include_pad,
            "divisor_override": getattr(self, "divisor_override", None),
        }
        (input,) = autocast(torch.float32, input) if dims == 3 else (input,)
        return batched(self, input, dims, lambda x: ops.avg_pool(x, kernel, **options))


class AvgPool1d(_AvgPool, torch.nn.AvgPool1d):
    _dims = 1


class AvgPool2d(_AvgPool, torch.nn.AvgPool2d):
    _dims = 2


class AvgPool3d(_AvgPool, torch.nn.AvgPool3d):
    _dims = 3


class _Adaptive:
    def forward(self, input):
        dims = self._dims
        (input,) = autocast(torch.float32, input) if dims == 3 else (input,)

        def pool(x):
            wanted = self.output_size
            wanted = [wanted] * dims if wanted is None or isinstance(wanted, int) else wanted
            size = [n if want is None else want for want, n in zip(wanted, x.shape[2:])]
            return self._pool(x, size)

        return batched(self, input, dims, pool)


class _AdaptiveAvg(_Adaptive):
    def _pool(self, x, size):
        return ops.adaptive_avg_pool(x, size)


class AdaptiveAvgPool1d(_AdaptiveAvg, torch.nn.AdaptiveAvgPool1d):
    _dims = 1


class AdaptiveAvgPool2d(_AdaptiveAvg, torch.nn.AdaptiveAvgPool2d):
    _dims = 2


class AdaptiveAvgPool3d(_AdaptiveAvg, torch.nn.AdaptiveAvgPool3d):
    _dims = 3


class _AdaptiveMax(_Adaptive):
    def _pool(self, x, size):
        require_floats(self, x)
        y, indices = ops.adaptive_max_pool(x, size)
        return (y, indices) if self.return_indices else y


class AdaptiveMaxPool1d(_AdaptiveMax, torch.nn.AdaptiveMaxPool1d):
    _dims = 1


class AdaptiveMaxPool2d(_AdaptiveMax, torch.nn.AdaptiveMaxPool2d):
    _dims = 2


class AdaptiveMaxPool3d(_AdaptiveMax, torch.nn.AdaptiveMaxPool3d):
    _dims = 3


class _LPPool:
    def forward(self, input):
        kernel, p = listed(self.kernel_size, self._dims), float(self.norm_type)
        options = {"stride": kernel if self.stride is None else listed(self.stride, self._dims), "ceil_mode": self.ceil_mode}

        def pool(x):
            if math.isinf(p) and self._dims == 1:
                require_floats(self, x)
            if math.isinf(p) and self._dims == 3:
                (x,) = autocast(torch.float32, x)
            return lp_pool_of(x, p, kernel, options, lambda power: autocast(torch.float32, power)[0] if self._dims == 3 else power)

        return batched(self, input, self._dims, pool)


class LPPool1d(_LPPool, torch.nn.LPPool1d):
    _dims = 1


class LPPool2d(_LPPool, torch.nn.LPPool2d):
    _dims = 2


class LPPool3d(_LPPool, torch.nn.LPPool3d):
    _dims = 3


class _MaxUnpool:
    def forward(self, input, indices, output_size=None):
        require_floats(self, input)
        return functions[f"max_unpool{self._dims}d"](input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool1d(_MaxUnpool, torch.nn.MaxUnpool1d):
    _dims = 1


class MaxUnpool2d(_MaxUnpool, torch.nn.MaxUnpool2d):
    _dims = 2


class MaxUnpool3d(_MaxUnpool, torch.nn.MaxUnpool3d):
    _dims = 3


class _FractionalMaxPool:
    """torch's random numbers choose where windows start."""

    def forward(self, input):
        dims = self._dims
        (input,) = autocast(torch.float32, input)
        samples = self._random_samples
        if samples is None and input.dim() in (dims + 1, dims + 2):
            n = 1 if input.dim() == dims + 1 else input.shape[0]
            samples = torch.rand(n, input.shape[-dims - 1], dims, dtype=input.dtype)
        pool = functions[f"fractional_max_pool{dims}d"]
        return pool(input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, samples)


class FractionalMaxPool2d(_FractionalMaxPool, torch.nn.FractionalMaxPool2d):
    _dims = 2


class FractionalMaxPool3d(_FractionalMaxPool, torch.nn.FractionalMaxPool3d):
    _dims = 3
