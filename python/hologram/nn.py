# SPDX-License-Identifier: Apache-2.0
"""Layers that are torch.nn.Modules, with torch's names, arguments, initialisation, printing and state_dict keys,
whose forward and backward run in Hologram: ``hg.nn.Linear(784, 256)`` in ``torch.nn.Sequential``.

They need torch. Whatever they cannot do is an error, never torch's own answer. Under ``torch.autocast`` products and
convolutions take the dtype that it says, losses float32, and others that of their input, as torch's do.
"""

import torch

from . import ops
from ._errors import UnsupportedError

__all__ = [
    "BatchNorm2d", "Conv1d", "Conv2d", "Conv3d", "CrossEntropyLoss", "Dropout", "Embedding", "GELU", "L1Loss", "LayerNorm",
    "LeakyReLU", "Linear", "LogSoftmax", "MSELoss", "MaxPool2d", "ReLU", "Sequential", "SiLU", "Sigmoid", "Softmax", "Tanh",
]  # fmt: skip

Sequential = torch.nn.Sequential


def _autocast(dtype, *tensors):
    """The tensors as torch.autocast gives them to an op: in ``dtype``, or in its own where that is None."""
    if not torch.is_autocast_enabled("cpu"):
        return tensors
    dtype = torch.get_autocast_dtype("cpu") if dtype is None else dtype
    return tuple(
        t.to(dtype) if t is not None and t.is_floating_point() and t.dtype != torch.float64 else t for t in tensors
    )


def _reduced(function, input):
    """An op of an input in 16 bits and of weights in float32, which computes in float32, as torch's does."""
    if input.dtype not in (torch.float16, torch.bfloat16):
        return function(input)
    results = function(input.float())
    if isinstance(results, tuple):
        return (results[0].to(input.dtype), *results[1:])
    return results.to(input.dtype)


class Linear(torch.nn.Linear):
    def forward(self, input):
        return ops.linear(*_autocast(None, input, self.weight, self.bias))


class _Conv:
    def forward(self, input):
        if self.padding_mode != "zeros":
            raise UnsupportedError(f"{type(self).__name__}: padding_mode is 'zeros' here, not '{self.padding_mode}'")
        rank = len(self.kernel_size)
        if input.dim() == rank + 1:
            return self.forward(input.unsqueeze(0)).squeeze(0)
        padding = self.padding
        if isinstance(padding, str):
            total = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size)]
            if padding == "valid":
                padding = [0] * rank
            elif any(n % 2 for n in total):
                raise UnsupportedError(f"{type(self).__name__}: padding='same' needs odd kernel sizes here")
            else:
                padding = [n // 2 for n in total]
        return ops.conv(*_autocast(None, input, self.weight, self.bias), stride=list(self.stride), padding=list(padding),
                        dilation=list(self.dilation), groups=self.groups)  # fmt: skip


class Conv1d(_Conv, torch.nn.Conv1d):
    pass


class Conv2d(_Conv, torch.nn.Conv2d):
    pass


class Conv3d(_Conv, torch.nn.Conv3d):
    pass


class BatchNorm2d(torch.nn.BatchNorm2d):
    def forward(self, input):
        self._check_input_dim(input)
        batch = self.training or not self.track_running_stats
        momentum = self.momentum
        if self.training and self.track_running_stats:
            self.num_batches_tracked.add_(1)
            if momentum is None:
                momentum = 1.0 / float(self.num_batches_tracked)
        old = [None if each is None else each.clone() for each in (self.running_mean, self.running_var)]

        def norm(x):
            return ops.batch_norm(x, self.weight, self.bias, *old, training=batch,
                                  momentum=0.0 if momentum is None else momentum, eps=self.eps)  # fmt: skip

        of_float = self.weight is None or self.weight.dtype == torch.float32
        y, mean, var = _reduced(norm, input) if of_float else norm(input)
        if self.training and self.track_running_stats:
            with torch.no_grad():
                self.running_mean.copy_(mean)
                self.running_var.copy_(var)
        return y


class LayerNorm(torch.nn.LayerNorm):
    def forward(self, input):
        dims = len(self.normalized_shape)
        if tuple(input.shape[input.dim() - dims :]) != tuple(self.normalized_shape):
            raise ValueError(f"LayerNorm of {tuple(self.normalized_shape)}: the input is {tuple(input.shape)}")

        def norm(x):
            return ops.layer_norm(x, list(self.normalized_shape), self.weight, self.bias, eps=self.eps)

        of_float = self.weight is not None and self.weight.dtype == torch.float32
        return _reduced(norm, input) if of_float else norm(input)


class Embedding(torch.nn.Embedding):
    def forward(self, input):
        if self.max_norm is not None or self.scale_grad_by_freq or self.sparse:
            raise UnsupportedError("Embedding: max_norm, scale_grad_by_freq and sparse are not supported")
        return ops.embedding(self.weight, input.long(), **({} if self.padding_idx is None else {"padding_idx": self.padding_idx}))


class Dropout(torch.nn.Dropout):
    """Draws by torch's generator, so that torch.manual_seed decides."""

    def forward(self, input):
        if not self.training or self.p == 0 or input.numel() == 0:
            return input
        if self.p == 1:  # draws nothing
            keep = torch.zeros((), dtype=input.dtype)
        else:
            keep = torch.empty_like(input).bernoulli_(1 - self.p).div_(1 - self.p)
        return _given(self, input, ops.mul(_kept(self, input), keep))


class MaxPool2d(torch.nn.MaxPool2d):
    def forward(self, input):
        if self.return_indices:
            raise UnsupportedError("MaxPool2d: return_indices is not supported")
        if input.dim() == 3:
            return self.forward(input.unsqueeze(0)).squeeze(0)

        def pair(value):
            return [value, value] if isinstance(value, int) else list(value)

        return ops.max_pool(input, pair(self.kernel_size), stride=pair(self.stride), padding=pair(self.padding),
                            dilation=pair(self.dilation), ceil_mode=self.ceil_mode)  # fmt: skip


class ReLU(torch.nn.ReLU):
    def forward(self, input):
        return _given(self, input, ops.relu(_kept(self, input)))


class Sigmoid(torch.nn.Sigmoid):
    def forward(self, input):
        return ops.sigmoid(input)


class Tanh(torch.nn.Tanh):
    def forward(self, input):
        return ops.tanh(input)


class SiLU(torch.nn.SiLU):
    def forward(self, input):
        return _given(self, input, ops.silu(_kept(self, input)))


class GELU(torch.nn.GELU):
    def forward(self, input):
        return ops.gelu(input, approximate=self.approximate)


class LeakyReLU(torch.nn.LeakyReLU):
    def forward(self, input):
        return _given(self, input, ops.leaky_relu(_kept(self, input), negative_slope=self.negative_slope))


class Softmax(torch.nn.Softmax):
    def forward(self, input):
        if self.dim is None:
            raise ValueError("Softmax needs its dim")
        return ops.softmax(input, self.dim)


class LogSoftmax(torch.nn.LogSoftmax):
    def forward(self, input):
        if self.dim is None:
            raise ValueError("LogSoftmax needs its dim")
        return ops.log_softmax(input, self.dim)


class MSELoss(torch.nn.MSELoss):
    def forward(self, input, target):
        _same_shape(self, input, target)
        return ops.mse_loss(*_autocast(torch.float32, input, target), reduction=self.reduction)


class L1Loss(torch.nn.L1Loss):
    def forward(self, input, target):
        _same_shape(self, input, target)
        return ops.l1_loss(*_autocast(torch.float32, input, target), reduction=self.reduction)


class CrossEntropyLoss(torch.nn.CrossEntropyLoss):
    def forward(self, input, target):
        if self.ignore_index >= 0 and target.is_floating_point():
            raise ValueError(f"CrossEntropyLoss: ignore_index is {self.ignore_index}, and the target has probabilities")
        return ops.cross_entropy(*_autocast(torch.float32, input, target, self.weight), ignore_index=self.ignore_index,
                                 label_smoothing=self.label_smoothing, reduction=self.reduction)  # fmt: skip


def _kept(layer, input):
    """What an op may read again in its backward pass, whatever becomes of the input."""
    return input.clone() if layer.inplace else input


def _given(layer, input, y):
    if not layer.inplace:
        return y
    if y.dtype != input.dtype:
        raise RuntimeError(f"{type(layer).__name__}: the result is {y.dtype}, the input that it is written to {input.dtype}")
    return input.copy_(y)


def _same_shape(layer, input, target):
    if input.shape != target.shape:
        raise ValueError(f"{type(layer).__name__}: the input is {tuple(input.shape)}, the target {tuple(target.shape)}")
