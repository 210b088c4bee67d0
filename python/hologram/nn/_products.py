# SPDX-License-Identifier: Apache-2.0
"""Linear layers, convolutions and embeddings."""

import torch

from .. import _rows as ops
from .._errors import UnsupportedError
from .._functions import functions
from ._common import autocast, batched, padded


class Linear(torch.nn.Linear):
    def forward(self, input):
        return ops.linear(*autocast(None, input, self.weight, self.bias))


class Bilinear(torch.nn.Bilinear):
    def forward(self, input1, input2):
        if input1.shape[:-1] != input2.shape[:-1]:
            raise ValueError(f"Bilinear: the inputs are {tuple(input1.shape)} and {tuple(input2.shape)}")
        a, b, weight, bias = input1, input2, self.weight, self.bias
        out, n, m = weight.shape
        rows = a.numel() // n
        left = ops.matmul(a.reshape(rows, n), ops.reshape(ops.permute(weight, [1, 0, 2]), [n, out * m]))
        y = ops.matmul(ops.reshape(left, [rows, out, m]), b.reshape(rows, m, 1))
        y = y.reshape(*input1.shape[:-1], out)
        return y if bias is None else ops.add(y, bias)


class _Conv:
    def forward(self, input):
        dims = len(self.kernel_size)
        return batched(self, input, dims, lambda x: self._of_batch(x, dims))

    def _of_batch(self, x, dims):
        # Begin and end of each spatial dim.
        if self.padding == "same":
            total = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size)]
            pads = [(n // 2, n - n // 2) for n in total]
        else:
            pads = [(0, 0)] * dims if self.padding == "valid" else [(n, n) for n in self.padding]
        if self.padding_mode != "zeros" or any(a != b for a, b in pads):
            mode = "constant" if self.padding_mode == "zeros" else self.padding_mode
            x = padded(x, [n for pair in reversed(pads) for n in pair], mode)
            pads = [(0, 0)] * dims
        return ops.conv(*autocast(None, x, self.weight, self.bias), stride=list(self.stride), padding=[a for a, _ in pads],
                        dilation=list(self.dilation), groups=self.groups)  # fmt: skip


class Conv1d(_Conv, torch.nn.Conv1d):
    pass


class Conv2d(_Conv, torch.nn.Conv2d):
    pass


class Conv3d(_Conv, torch.nn.Conv3d):
    pass


class _ConvTranspose:
    def forward(self, input, output_size=None):
        dims = len(self.kernel_size)
        output_padding = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, dims, self.dilation
        )

        def conv(x):
            return ops.conv(*autocast(None, x, self.weight, self.bias), stride=list(self.stride), padding=list(self.padding),
                            dilation=list(self.dilation), transposed=True, output_padding=list(output_padding),
                            groups=self.groups)  # fmt: skip

        return batched(self, input, dims, conv)


class ConvTranspose1d(_ConvTranspose, torch.nn.ConvTranspose1d):
    pass


class ConvTranspose2d(_ConvTranspose, torch.nn.ConvTranspose2d):
    pass


class ConvTranspose3d(_ConvTranspose, torch.nn.ConvTranspose3d):
    pass


def _check_table(layer):
    if layer.max_norm is not None or layer.sparse:
        raise UnsupportedError(f"{type(layer).__name__}: max_norm and sparse are not supported")


class Embedding(torch.nn.Embedding):
    def forward(self, input):
        _check_table(self)
        padding = -1 if self.padding_idx is None else self.padding_idx
        return ops.embedding(self.weight, input.long(), padding_idx=padding, scale_grad_by_freq=self.scale_grad_by_freq)


class EmbeddingBag(torch.nn.EmbeddingBag):
    def forward(self, input, offsets=None, per_sample_weights=None):
        """The sum, mean or maximum of each bag: a row of ``input``, or the indices between two ``offsets``."""
        _check_table(self)
        if self.scale_grad_by_freq:
            raise UnsupportedError("EmbeddingBag: scale_grad_by_freq is not supported")
        return functions["embedding_bag"](input, self.weight, offsets, mode=self.mode, per_sample_weights=per_sample_weights,
                                          include_last_offset=self.include_last_offset, padding_idx=self.padding_idx)  # fmt: skip
