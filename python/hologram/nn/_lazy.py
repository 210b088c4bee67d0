# SPDX-License-Identifier: Apache-2.0
"""Layers that find their input sizes at the first call, and are the layers that they are named after from then on."""

import torch

from ._norms import BatchNorm1d, BatchNorm2d, BatchNorm3d, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from ._products import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, Linear


class _Lazy:
    def forward(self, *args, **kwargs):
        """That of the layer which this one became before it was called, as torch looks it up before that."""
        return getattr(self, "cls_to_become", type(self)).forward(self, *args, **kwargs)


class LazyLinear(_Lazy, torch.nn.LazyLinear):
    cls_to_become = Linear


class LazyConv1d(_Lazy, torch.nn.LazyConv1d):
    cls_to_become = Conv1d


class LazyConv2d(_Lazy, torch.nn.LazyConv2d):
    cls_to_become = Conv2d


class LazyConv3d(_Lazy, torch.nn.LazyConv3d):
    cls_to_become = Conv3d


class LazyConvTranspose1d(_Lazy, torch.nn.LazyConvTranspose1d):
    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_Lazy, torch.nn.LazyConvTranspose2d):
    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_Lazy, torch.nn.LazyConvTranspose3d):
    cls_to_become = ConvTranspose3d


class LazyBatchNorm1d(_Lazy, torch.nn.LazyBatchNorm1d):
    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_Lazy, torch.nn.LazyBatchNorm2d):
    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_Lazy, torch.nn.LazyBatchNorm3d):
    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_Lazy, torch.nn.LazyInstanceNorm1d):
    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_Lazy, torch.nn.LazyInstanceNorm2d):
    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_Lazy, torch.nn.LazyInstanceNorm3d):
    cls_to_become = InstanceNorm3d
