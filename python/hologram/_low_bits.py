# SPDX-License-Identifier: Apache-2.0
"""Linear layers whose weights stay in 8 or 4 bits. Their export has the form that sessions read without widening."""

import contextlib
from typing import NamedTuple, Optional


class LowBits(NamedTuple):
    """A matrix w[out, inputs] = (levels - zeros) * scales + offsets, where neighbors of a row share scale, zero and offset."""

    bits: int  # 8 or 4; levels and zeros are signed
    group: int  # neighbors; the last group of a row may be smaller
    levels: object  # int8 [out, inputs]
    scales: object  # floats [out, groups]
    zeros: object = None  # int8 [out, groups]; None: all are 0
    offsets: object = None  # floats [out, groups]; None: all are 0
    order: object = None  # int64 [inputs]: column c belongs to this input; None: c


def low_bit_linear(torch, low, bias):
    """A module for ``low``. ``widen(True)`` lets it keep its weight in float32, which is faster outside of an export."""
    return _class(torch)(low, bias)


_made = {}


def _class(torch):
    if torch not in _made:
        _made[torch] = _define(torch)
    return _made[torch]


def _define(torch):
    class LowBitLinear(torch.nn.Module):
        def __init__(self, low, bias):
            super().__init__()
            self.bits, self.group = low.bits, low.group
            self.out_features, self.in_features = low.levels.shape
            # As hg::Blocks::packed(): the first dim of even size, otherwise the largest one.
            shape = tuple(low.levels.shape)
            self.packed = next((d for d in (0, 1) if shape[d] % 2 == 0), int(shape[1] > shape[0]))
            self.register_buffer("weight", _halves(torch, low.levels, self.packed) if low.bits == 4 else low.levels.contiguous())
            self.register_buffer("weight_scale", low.scales.contiguous())
            zeros = None if low.zeros is None or not bool(low.zeros.any()) else low.zeros.contiguous()
            offsets = None if low.offsets is None or not bool(low.offsets.any()) else low.offsets.contiguous()
            self.register_buffer("weight_zero", zeros)
            self.register_buffer("weight_offset", offsets)
            self.register_buffer("order", low.order)
            self.bias: Optional[torch.nn.Parameter] = None if bias is None else torch.nn.Parameter(bias, requires_grad=False)
            self.wide = None

        def dequantized(self):
            rows, columns, group = self.out_features, self.in_features, self.group
            levels = self.weight
            if self.bits == 4:
                levels = torch.cat([(levels << 4) >> 4, levels >> 4], self.packed)
                size = self.weight_shape()[self.packed]
                levels = levels if size % 2 == 0 else levels.narrow(self.packed, 0, size)
            levels, scales = levels.float(), self.weight_scale.float()
            # Levels and zeros times scales of 16 bits are exact, and so is their difference.
            offsets = None if self.weight_zero is None else -(scales * self.weight_zero.float())
            if self.weight_offset is not None:
                offsets = self.weight_offset.float() if offsets is None else offsets + self.weight_offset.float()
            groups = scales.shape[1]
            if groups == 1:
                return levels * scales if offsets is None else levels * scales + offsets
            apart = [each if each is None else each.reshape(rows, groups, 1) for each in (scales, offsets)]
            if groups * group == columns:
                levels = levels.reshape(rows, groups, group)
                levels = levels * apart[0] if offsets is None else levels * apart[0] + apart[1]
                return levels.reshape(rows, columns)
            spread = [
                each if each is None else each.expand(rows, groups, group).reshape(rows, groups * group).narrow(1, 0, columns)
                for each in apart
            ]
            return levels * spread[0] if offsets is None else levels * spread[0] + spread[1]

        def weight_shape(self):
            return self.out_features, self.in_features

        def widen(self, on):
            self.wide = self.dequantized() if on else None

        def forward(self, x):
            if self.order is not None:
                x = x.index_select(-1, self.order)
            return torch.nn.functional.linear(x, self.dequantized() if self.wide is None else self.wide, self.bias)

    return LowBitLinear


def _halves(torch, levels, dim):
    """Bytes of two levels each along ``dim``: one of the first half in the low bits, one of the second half in the high bits."""
    size = levels.shape[dim]
    half = (size + 1) // 2
    low, high = levels.narrow(dim, 0, half), levels.narrow(dim, half, size - half)
    if size % 2 != 0:
        high = torch.cat([high, torch.zeros_like(low.narrow(dim, 0, 1))], dim)
    return ((low & 15) | (high << 4)).contiguous()


@contextlib.contextmanager
def widened(torch, module):
    """Low-bit layers of the module keep their weights in float32 for a while."""
    layers = [each for each in module.modules() if isinstance(each, _class(torch))]
    for each in layers:
        each.widen(True)
    try:
        yield
    finally:
        for each in layers:
            each.widen(False)
