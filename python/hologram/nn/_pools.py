# SPDX-License-Identifier: Apache-2.0
"""Pooling."""

import torch

from .. import ops
from ._common import autocast, batched, listed


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
        y, indices = ops.adaptive_max_pool(x, size)
        return (y, indices) if self.return_indices else y


class AdaptiveMaxPool1d(_AdaptiveMax, torch.nn.AdaptiveMaxPool1d):
    _dims = 1


class AdaptiveMaxPool2d(_AdaptiveMax, torch.nn.AdaptiveMaxPool2d):
    _dims = 2


class AdaptiveMaxPool3d(_AdaptiveMax, torch.nn.AdaptiveMaxPool3d):
    _dims = 3
