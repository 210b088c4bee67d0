# SPDX-License-Identifier: Apache-2.0
"""Layers that infer their input sizes at the first call and then become the layers they are named after."""

import torch

from ._norms import BatchNorm1d, BatchNorm2d, BatchNorm3d, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, _BatchNorm, _InstanceNorm
from ._products import (
    Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, Linear, _Conv, _ConvTranspose,
)  # fmt: skip

# torch looks up forward() before the layer changes its class, so this class already has the other's.


class LazyLinear(torch.nn.LazyLinear):
    cls_to_become, forward = Linear, Linear.forward


class LazyConv1d(_Conv, torch.nn.LazyConv1d):
    cls_to_become = Conv1d


class LazyConv2d(_Conv, torch.nn.LazyConv2d):
    cls_to_become = Conv2d


class LazyConv3d(_Conv, torch.nn.LazyConv3d):
    cls_to_become = Conv3d


class LazyConvTranspose1d(_ConvTranspose, torch.nn.LazyConvTranspose1d):
    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_ConvTranspose, torch.nn.LazyConvTranspose2d):
    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_ConvTranspose, torch.nn.LazyConvTranspose3d):
    cls_to_become = ConvTranspose3d


class LazyBatchNorm1d(_BatchNorm, torch.nn.LazyBatchNorm1d):
    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_BatchNorm, torch.nn.LazyBatchNorm2d):
    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_BatchNorm, torch.nn.LazyBatchNorm3d):
    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_InstanceNorm, torch.nn.LazyInstanceNorm1d):
    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_InstanceNorm, torch.nn.LazyInstanceNorm2d):
    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_InstanceNorm, torch.nn.LazyInstanceNorm3d):
    cls_to_become = InstanceNorm3d
