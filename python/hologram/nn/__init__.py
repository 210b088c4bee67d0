# SPDX-License-Identifier: Apache-2.0
"""Layers as torch.nn.Modules that run in Hologram: ``hg.nn.Linear(784, 256)`` in ``torch.nn.Sequential``.

Names, arguments, initialization, printing and state_dict keys are torch's; forward and backward run in Hologram. torch is
required. Layers also take numpy arrays, for which they return torch tensors. Unsupported cases raise an error and never fall back to
torch. Under ``torch.autocast``, products and convolutions use its dtype, losses use float32, and other layers use the dtype of their
input, as in torch. Containers, ``Flatten``, ``Unflatten``, ``Identity``, ``Module`` and ``Parameter`` compute nothing and are torch's
own.
"""

import copy

import torch
from torch.nn import (
    Buffer, Flatten, Identity, Module, ModuleDict, ModuleList, Parameter, ParameterDict, ParameterList, Sequential, Unflatten,
    UninitializedBuffer, UninitializedParameter,
)  # fmt: skip

from .. import ops as functional  # noqa: F401 - torch.nn.functional's name
from ._activations import (
    CELU, ELU, GELU, GLU, Hardshrink, Hardsigmoid, Hardswish, Hardtanh, LeakyReLU, LogSigmoid, LogSoftmax, Mish, PReLU, ReLU, ReLU6,
    RReLU, SELU, Sigmoid, SiLU, Softmax, Softmax2d, Softmin, Softplus, Softshrink, Softsign, Tanh, Tanhshrink, Threshold,
)  # fmt: skip
from ._adaptive import AdaptiveLogSoftmaxWithLoss
from ._common import takes_hologram
from ._attention import (
    _ACTIVATIONS, MultiheadAttention, Transformer, TransformerDecoder, TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer,
)  # fmt: skip
from ._dropout import AlphaDropout, Dropout, Dropout1d, Dropout2d, Dropout3d, FeatureAlphaDropout
from ._lazy import (
    LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d, LazyConv1d, LazyConv2d, LazyConv3d, LazyConvTranspose1d, LazyConvTranspose2d,
    LazyConvTranspose3d, LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d, LazyLinear,
)  # fmt: skip
from ._losses import (
    BCELoss, BCEWithLogitsLoss, CosineEmbeddingLoss, CrossEntropyLoss, CTCLoss, GaussianNLLLoss, HingeEmbeddingLoss, HuberLoss,
    KLDivLoss, L1Loss, MarginRankingLoss, MSELoss, MultiLabelMarginLoss, MultiLabelSoftMarginLoss, MultiMarginLoss, NLLLoss,
    NLLLoss2d, PoissonNLLLoss, SmoothL1Loss, SoftMarginLoss, TripletMarginLoss, TripletMarginWithDistanceLoss,
)  # fmt: skip
from ._norms import (
    BatchNorm1d, BatchNorm2d, BatchNorm3d, GroupNorm, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, LayerNorm, LocalResponseNorm,
    RMSNorm,
)  # fmt: skip
from ._pools import (
    AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d, AvgPool1d,
    AvgPool2d, AvgPool3d, FractionalMaxPool2d, FractionalMaxPool3d, LPPool1d, LPPool2d, LPPool3d, MaxPool1d, MaxPool2d, MaxPool3d,
    MaxUnpool1d, MaxUnpool2d, MaxUnpool3d,
)  # fmt: skip
from ._products import (
    Bilinear, Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, Embedding, EmbeddingBag, Linear,
)  # fmt: skip
from ._recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell
from ._shapes import (
    ChannelShuffle, CircularPad1d, CircularPad2d, CircularPad3d, ConstantPad1d, ConstantPad2d, ConstantPad3d, CosineSimilarity, Fold,
    PairwiseDistance, PixelShuffle, PixelUnshuffle, ReflectionPad1d, ReflectionPad2d, ReflectionPad3d, ReplicationPad1d,
    ReplicationPad2d, ReplicationPad3d, Unfold, Upsample, UpsamplingBilinear2d, UpsamplingNearest2d, ZeroPad1d, ZeroPad2d, ZeroPad3d,
)  # fmt: skip

try:
    from ._linear_cross_entropy import LinearCrossEntropyLoss
except ImportError:  # torch before 2.13
    pass


def as_torch(module):
    """A copy of a module in which torch's layers replace those of hologram.nn, with the same parameters. torch.export and other
    tools that look into a forward pass need it. Subclasses defined by users stay as they are."""
    module = copy.deepcopy(module)
    for part in module.modules():
        kind = type(part)
        if kind.__module__.startswith(f"{__name__}.") and globals().get(kind.__name__) is kind:
            part.__class__ = getattr(torch.nn, kind.__name__)
            if isinstance(part, (torch.nn.TransformerEncoderLayer, torch.nn.TransformerDecoderLayer)):
                known = {op: function for function, op in _ACTIVATIONS.items()}
                part.activation = known.get(part.activation, part.activation)
    return module


for _layer in list(globals().values()):
    if isinstance(_layer, type) and _layer.__module__.startswith(f"{__name__}."):
        _layer.forward = takes_hologram(_layer.forward)

# Of torch's own classes, only those that compute nothing have a page here.
__all__ = [name for name in dir() if name[0].isupper() and name not in ("Buffer", "Module", "Parameter", "UninitializedBuffer", "UninitializedParameter")]
