# SPDX-License-Identifier: Apache-2.0
"""Pooling."""

import math

import torch
from torch.nn.functional import _unpool_output_size

from .. import _rows as ops
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
    """(sum of x^p)^(1/p) of each window, computed through the mean as in torch, including the signs of odd powers."""

    def forward(self, input):
        kernel, p = listed(self.kernel_size, self._dims), float(self.norm_type)
        options = {"stride": kernel if self.stride is None else listed(self.stride, self._dims), "ceil_mode": self.ceil_mode}

        def pool(x):
            if math.isinf(p) and self._dims == 1:
                require_floats(self, x)
            if math.isinf(p) and self._dims == 3:
                (x,) = autocast(torch.float32, x)
            if p == math.inf:
                return ops.max_pool(ops.abs(x), kernel, **options)
            if p == -math.inf:
                return ops.neg(ops.max_pool(ops.neg(ops.abs(x)), kernel, **options))
            (power,) = autocast(torch.float32, ops.pow(x, p)) if self._dims == 3 else (ops.pow(x, p),)
            mean = ops.avg_pool(power, kernel, **options)
            return ops.pow(ops.mul(ops.mul(ops.sign(mean), ops.relu(ops.abs(mean))), math.prod(kernel)), 1 / p)

        return batched(self, input, self._dims, pool)


class LPPool1d(_LPPool, torch.nn.LPPool1d):
    _dims = 1


class LPPool2d(_LPPool, torch.nn.LPPool2d):
    _dims = 2


class LPPool3d(_LPPool, torch.nn.LPPool3d):
    _dims = 3


class _MaxUnpool:
    def forward(self, input, indices, output_size=None):
        name, dims = type(self).__name__, self._dims
        require_floats(self, input)
        if indices.dtype != torch.int64 or indices.shape != input.shape:
            raise ValueError(f"{name}: the indices are {indices.dtype} {tuple(indices.shape)}, not int64 {tuple(input.shape)}")
        kernel, stride, padding = (listed(v, dims) for v in (self.kernel_size, self.stride, self.padding))
        size = list(_unpool_output_size(input, kernel, stride, padding, None if output_size is None else list(output_size)))
        count = math.prod(size)
        if indices.numel() and not 0 <= int(indices.min()) <= int(indices.max()) < count:
            raise ValueError(f"{name}: indices lie in [{int(indices.min())}, {int(indices.max())}], the output has {count} elements")

        def unpool(x):
            lead = list(x.shape[:2])
            where = indices.reshape(*lead, -1) if x.numel() else indices.reshape(*lead, math.prod(x.shape[2:]))
            flat = ops.reshape(x, list(where.shape))
            return ops.reshape(ops.scatter(x.new_zeros(*lead, count), where, flat, dim=2), [*lead, *size])

        return batched(self, input, dims, unpool)


class MaxUnpool1d(_MaxUnpool, torch.nn.MaxUnpool1d):
    _dims = 1


class MaxUnpool2d(_MaxUnpool, torch.nn.MaxUnpool2d):
    _dims = 2


class MaxUnpool3d(_MaxUnpool, torch.nn.MaxUnpool3d):
    _dims = 3


def _fractional_starts(u, size, kernel, out):
    """The starts of the windows of one dim, [n, c, out]: floor((i + u) a) - floor(u a) with a = (size - kernel) / (out - 1); the
    last window is at the end. Graham 2014. u: [n, c]"""
    last = torch.full((*u.shape, 1), size - kernel)
    if out == 1:
        return last
    step = torch.tensor(size - kernel, dtype=u.dtype) / torch.tensor(out - 1, dtype=u.dtype)
    u = u.unsqueeze(-1)
    starts = ((torch.arange(out - 1).to(u.dtype) + u) * step).long() - (u * step).long()
    return torch.cat([starts, last], -1)


class _FractionalMaxPool:
    """torch's random numbers choose where windows start."""

    def forward(self, input):
        dims, name = self._dims, type(self).__name__
        kernel = listed(self.kernel_size, dims)
        if input.dim() not in (dims + 1, dims + 2):
            raise ValueError(f"{name}: expected are {dims + 1} or {dims + 2} dims, the input is {tuple(input.shape)}")
        (input,) = autocast(torch.float32, input)
        sizes = input.shape[-dims:]
        out = listed(self.output_size, dims) if self.output_size is not None else [
            int(n * r) for n, r in zip(sizes, self.output_ratio)]  # fmt: skip
        spare = 0 if dims == 3 else -1  # torch's, each its own
        if any(m < 1 or k < 1 or m + k + spare > n for n, k, m in zip(sizes, kernel, out)):
            raise ValueError(f"{name}: {out} windows of {kernel} do not fit into {tuple(sizes)}")
        if 0 in input.shape[-dims - 1 :]:
            raise ValueError(f"{name}: the input is {tuple(input.shape)}, only the batch may be 0")
        samples = self._random_samples
        if samples is None:
            n = 1 if input.dim() == dims + 1 else input.shape[0]
            samples = torch.rand(n, input.shape[-dims - 1], dims, dtype=input.dtype)
        if samples.dtype != input.dtype:
            raise ValueError(f"{name}: the random samples are {samples.dtype}, the input is {input.dtype}")
        results = batched(self, input, dims, lambda x: self._of_batch(x, samples, kernel, out))
        return results if self.return_indices else results[0]

    def _of_batch(self, x, samples, kernel, out):
        dims, lead, sizes = self._dims, list(x.shape[:2]), x.shape[2:]
        if list(samples.shape) != [*lead, dims]:
            raise ValueError(f"{type(self).__name__}: the random samples are {tuple(samples.shape)}, not {(*lead, dims)}")
        # places[n, c, out..., kernel...] of the elements of each window in the flat input
        places = torch.zeros([1] * (2 + 2 * dims), dtype=torch.int64)
        for d in range(dims):
            u = samples[:, :, dims - 1 - d if dims == 2 else d]
            starts = _fractional_starts(u, sizes[d], kernel[d], out[d])
            starts = starts.reshape(*lead, *(out[d] if e == d else 1 for e in range(2 * dims)))
            steps = torch.arange(kernel[d]).reshape([kernel[d] if e == 2 + dims + d else 1 for e in range(2 + 2 * dims)])
            places = places * sizes[d] + starts + steps
        windows = places.reshape(*lead, *out, math.prod(kernel))
        flat = ops.gather(x.reshape(*lead, math.prod(sizes)), windows.reshape(*lead, math.prod(out) * math.prod(kernel)), 2)
        y, chosen = ops.max(ops.reshape(flat, list(windows.shape)), -1, keepdim=True)
        return ops.reshape(y, [*lead, *out]), windows.gather(-1, chosen).squeeze(-1)


class FractionalMaxPool2d(_FractionalMaxPool, torch.nn.FractionalMaxPool2d):
    _dims = 2


class FractionalMaxPool3d(_FractionalMaxPool, torch.nn.FractionalMaxPool3d):
    _dims = 3
