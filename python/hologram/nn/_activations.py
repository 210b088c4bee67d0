# SPDX-License-Identifier: Apache-2.0
"""Activations."""

import warnings

import torch

from .. import _rows as ops
from ._common import autocast, elementwise, require_floats, require_held


class CELU(torch.nn.CELU):
    def forward(self, input):
        require_floats(self, input)
        return elementwise(self, input, lambda x: ops.elu(x, alpha=self.alpha, input_scale=1 / self.alpha))


class ELU(torch.nn.ELU):
    def forward(self, input):
        require_floats(self, input)
        return elementwise(self, input, lambda x: ops.elu(x, alpha=self.alpha))


class GELU(torch.nn.GELU):
    def forward(self, input):
        require_floats(self, input)
        return ops.gelu(input, approximate=self.approximate)


class GLU(torch.nn.GLU):
    def forward(self, input):
        return ops.glu(input, self.dim)


class Hardshrink(torch.nn.Hardshrink):
    def forward(self, input):
        require_floats(self, input)
        return ops.hardshrink(input, self.lambd)


class Hardsigmoid(torch.nn.Hardsigmoid):
    def forward(self, input):
        require_floats(self, input)
        return elementwise(self, input, ops.hardsigmoid)


class Hardswish(torch.nn.Hardswish):
    def forward(self, input):
        require_floats(self, input)
        return elementwise(self, input, ops.hardswish)


class Hardtanh(torch.nn.Hardtanh):
    def forward(self, input):
        low, high = self.min_val, self.max_val
        if not input.is_floating_point() and not input.is_complex():
            low, high = require_held(self, input.dtype, low, high)
        return elementwise(self, input, lambda x: ops.hardtanh(x, low, high))


class LeakyReLU(torch.nn.LeakyReLU):
    def forward(self, input):
        require_floats(self, input)
        return elementwise(self, input, lambda x: ops.leaky_relu(x, negative_slope=self.negative_slope))


class LogSigmoid(torch.nn.LogSigmoid):
    def forward(self, input):
        require_floats(self, input)
        return ops.log_sigmoid(input)


class Mish(torch.nn.Mish):
    def forward(self, input):
        require_floats(self, input)
        return elementwise(self, input, ops.mish)


class PReLU(torch.nn.PReLU):
    def forward(self, input):
        return ops.prelu(*autocast(None, input, self.weight))


class ReLU(torch.nn.ReLU):
    def forward(self, input):
        return elementwise(self, input, ops.relu)


class ReLU6(torch.nn.ReLU6):
    def forward(self, input):
        return elementwise(self, input, lambda x: ops.hardtanh(x, 0.0, 6.0))


class RReLU(torch.nn.RReLU):
    """torch's generator draws the slopes of negative elements, so ``torch.manual_seed`` controls them."""

    def forward(self, input):
        require_floats(self, input)
        if not self.training:
            slope = (self.lower + self.upper) / 2
            return elementwise(self, input, lambda x: ops.leaky_relu(x, negative_slope=slope))
        falls = input.detach() <= 0
        slopes = torch.ones(input.shape, dtype=input.dtype)
        slopes[falls] = torch.empty(int(falls.sum()), dtype=torch.float64).uniform_(self.lower, self.upper).to(input.dtype)
        return elementwise(self, input, lambda x: ops.mul(x, slopes))


class SELU(torch.nn.SELU):
    """Klambauer et al. 2017."""

    def forward(self, input):
        require_floats(self, input)
        alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
        return elementwise(self, input, lambda x: ops.elu(x, alpha=alpha, scale=scale))


class Sigmoid(torch.nn.Sigmoid):
    def forward(self, input):
        return ops.sigmoid(input)


class SiLU(torch.nn.SiLU):
    def forward(self, input):
        require_floats(self, input)
        return elementwise(self, input, ops.silu)


class Softplus(torch.nn.Softplus):
    def forward(self, input):
        require_floats(self, input)
        return ops.softplus(input, self.beta, self.threshold)


class Softshrink(torch.nn.Softshrink):
    def forward(self, input):
        require_floats(self, input)
        return ops.softshrink(input, self.lambd)


class Softsign(torch.nn.Softsign):
    def forward(self, input):
        return ops.div(input, ops.add(ops.abs(input), 1))


class Tanh(torch.nn.Tanh):
    def forward(self, input):
        return ops.tanh(input)


class Tanhshrink(torch.nn.Tanhshrink):
    def forward(self, input):
        if input.dtype == torch.bool:
            raise TypeError("Tanhshrink: the input is bool")
        return ops.sub(input, ops.tanh(input))


class Threshold(torch.nn.Threshold):
    def forward(self, input):
        threshold, value = self.threshold, self.value
        if not input.is_floating_point() and not input.is_complex():
            threshold, value = require_held(self, input.dtype, threshold, value)
        return elementwise(self, input, lambda x: ops.threshold(x, threshold, value))


def _dim_of(layer, input):
    if layer.dim is not None:
        return layer.dim
    dim = 0 if input.dim() in (0, 1, 3) else 1
    warnings.warn(f"{type(layer).__name__} without a dim runs along dim {dim} of {input.dim()}, as PyTorch's; give it a dim", stacklevel=3)
    return dim


class Softmax(torch.nn.Softmax):
    def forward(self, input):
        return ops.softmax(input, _dim_of(self, input))


class Softmin(torch.nn.Softmin):
    def forward(self, input):
        return ops.softmax(ops.neg(input), _dim_of(self, input))


class Softmax2d(torch.nn.Softmax2d):
    def forward(self, input):
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected 3 or 4 dims, got {tuple(input.shape)}")
        return ops.softmax(input, -3)


class LogSoftmax(torch.nn.LogSoftmax):
    def forward(self, input):
        return ops.log_softmax(input, _dim_of(self, input))
