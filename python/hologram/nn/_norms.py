# SPDX-License-Identifier: Apache-2.0
"""Normalization."""

import torch

from .. import _rows as ops
from ._common import autocast, in_float32


def _by_statistics(layer, input, weight, bias, mean, var, batch, momentum):
    """batch_norm with running statistics, which may be None; returns y and the updated statistics."""

    def norm(x):
        return ops.batch_norm(x, weight, bias, mean, var, training=batch, momentum=momentum, eps=layer.eps)

    known = [each.dtype for each in (weight, bias, mean, var) if each is not None]
    return norm(input) if input.dtype in known else in_float32(norm, input)


class _BatchNorm:
    def forward(self, input):
        self._check_input_dim(input)
        moves = self.training and self.track_running_stats
        momentum = self.momentum
        if moves:
            self.num_batches_tracked.add_(1)
            if momentum is None:
                momentum = 1.0 / float(self.num_batches_tracked)
        old = [None if each is None else each.clone() for each in (self.running_mean, self.running_var)]
        batch = self.training or not self.track_running_stats
        y, mean, var = _by_statistics(self, input, self.weight, self.bias, *old, batch, 0.0 if momentum is None else momentum)
        if moves:
            with torch.no_grad():
                self.running_mean.copy_(mean)
                self.running_var.copy_(var)
        return y


class BatchNorm1d(_BatchNorm, torch.nn.BatchNorm1d):
    pass


class BatchNorm2d(_BatchNorm, torch.nn.BatchNorm2d):
    pass


class BatchNorm3d(_BatchNorm, torch.nn.BatchNorm3d):
    pass


class _InstanceNorm:
    """batch_norm of one sample whose channels are the channels of all samples, as in torch."""

    def forward(self, input):
        self._check_input_dim(input)
        dims = self._get_no_batch_dim()
        if input.dim() == dims:
            return self._of_batch(input.unsqueeze(0)).squeeze(0)
        return self._of_batch(input)

    def _of_batch(self, x):
        n, c = x.shape[:2]
        if c != self.num_features and (self.affine or self.track_running_stats):
            raise ValueError(f"{type(self).__name__} of {self.num_features} features: the input is {tuple(x.shape)}")
        batch = self.training or not self.track_running_stats

        def each(v):
            return None if v is None else ops.repeat(v, [n])

        momentum = 0.0 if self.momentum is None else self.momentum
        statistics = [each(None if v is None else v.clone()) for v in (self.running_mean, self.running_var)]
        y, mean, var = _by_statistics(
            self, x.reshape(1, n * c, *x.shape[2:]), each(self.weight), each(self.bias), *statistics, batch, momentum
        )
        if self.training and self.track_running_stats:
            with torch.no_grad():
                self.running_mean.copy_(ops.mean(mean.reshape(n, c), [0]))
                self.running_var.copy_(ops.mean(var.reshape(n, c), [0]))
        return y.reshape(x.shape)


class InstanceNorm1d(_InstanceNorm, torch.nn.InstanceNorm1d):
    pass


class InstanceNorm2d(_InstanceNorm, torch.nn.InstanceNorm2d):
    pass


class InstanceNorm3d(_InstanceNorm, torch.nn.InstanceNorm3d):
    pass


def _by_weight(layer, input, norm):
    of_float = layer.weight is not None and layer.weight.dtype == torch.float32
    return in_float32(norm, input) if of_float else norm(input)


def _check_shape(layer, input):
    dims = len(layer.normalized_shape)
    if tuple(input.shape[input.dim() - dims :]) != tuple(layer.normalized_shape):
        raise ValueError(f"{type(layer).__name__} of {tuple(layer.normalized_shape)}: the input is {tuple(input.shape)}")


class LayerNorm(torch.nn.LayerNorm):
    def forward(self, input):
        _check_shape(self, input)
        shape = list(self.normalized_shape)
        return _by_weight(self, input, lambda x: ops.layer_norm(x, shape, self.weight, self.bias, eps=self.eps))


class RMSNorm(torch.nn.RMSNorm):
    def forward(self, input):
        _check_shape(self, input)
        shape = list(self.normalized_shape)
        half = input.dtype in (torch.float16, torch.bfloat16)
        eps = torch.finfo(torch.float32 if half else input.dtype).eps if self.eps is None else self.eps
        return _by_weight(self, input, lambda x: ops.rms_norm(x, shape, self.weight, eps=eps))


class GroupNorm(torch.nn.GroupNorm):
    def forward(self, input):
        if input.dim() < 2 or input.shape[1] != self.num_channels:
            raise ValueError(f"GroupNorm of {self.num_channels} channels: the input is {tuple(input.shape)}")
        if input.numel() == self.num_groups:
            raise ValueError(f"GroupNorm: a group of {tuple(input.shape)} has one value alone")
        return _by_weight(self, input, lambda x: ops.group_norm(x, self.num_groups, self.weight, self.bias, eps=self.eps))


class LocalResponseNorm(torch.nn.LocalResponseNorm):
    """Krizhevsky et al. 2012, section 3.3; the sum runs over ``size`` channels."""

    def forward(self, input):
        if input.dim() < 3:
            raise ValueError(f"LocalResponseNorm: expected 3 or more dims, got {tuple(input.shape)}")
        n, c = input.shape[:2]
        square = ops.reshape(ops.mul(input, input), [n, 1, c, input[0, 0].numel() if n * c else 0])
        (square,) = autocast(torch.float32, square) if input.dim() > 3 else (square,)  # torch's is avg_pool3d then
        before = self.size // 2
        square = ops.pad(square, [0, 0, 0, 0, before, self.size - 1 - before, 0, 0])
        mean = ops.avg_pool(square, [self.size, 1], stride=[1, 1])
        divisor = ops.pow(ops.add(ops.mul(ops.reshape(mean, list(input.shape)), self.alpha), self.k), self.beta)
        return ops.div(input, divisor)
