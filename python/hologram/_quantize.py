# SPDX-License-Identifier: Apache-2.0
"""Models with low-bit weights."""

from . import _core
from ._model import Model
from ._tree import leaves_of
from .named import as_model


def quantize(
    model, samples=None, *, bits=8, group=0, keep=(), least=1024, percentile=100.0, fastest=False, threads=0,
    rounding="nearest", max_error=None, metric=None, targets=(),
):
    """Quantizes a model's weights to 8 or 4 bits, for a smaller file.

    Weights of products, convolutions, recurrent layers and embeddings get one scale per output channel, or per
    ``group`` of input channels. ``keep`` names weights, or modules with all their weights, that stay as they are; so do
    weights with fewer than ``least`` elements. ``model.info["quantized"]`` holds the error of each weight: the norm of
    the difference relative to the weight's norm. Raises ValueError for a weight that is not finite.

    ``samples`` holds the arguments of one run each: an array or a tuple. With it, convolutions and products also take
    their inputs in 8 bits. Runs on the samples determine the ranges of the inputs, without values outside
    ``percentile``. ``fastest`` measures runs of the first sample with ``threads`` (0: all processors), and leaves layers in
    floats that 8 bits do not make faster on this machine.

    ``rounding`` selects levels: ``"nearest"``, ``"least_squares"`` (scales with the least squared error of the weights) or
    ``"second_order"`` (levels with little error of each layer's results on the samples). ``max_error`` gives each weight 4,
    8, 16 or all bits, so that the measured error of the outputs on the samples is at most this: the norm of the difference
    relative to the float model's outputs. With ``metric``, ``"accuracy"`` or ``"mean_error"``, the error is how much worse
    the metric is than in floats, beside ``targets``, an array per sample, or the float model's outputs. With
    ``"second_order"`` and with ``max_error``, inputs stay floats.
    """
    if isinstance(keep, str):
        keep = (keep,)
    model = as_model(model)
    names = [spec.name for spec in model.inputs]
    runs = None if samples is None else [leaves_of(sample, names, model._order) for sample in samples]
    made = _core.quantize(
        model, bits, group, list(keep), least, percentile, fastest, threads, rounding, max_error, metric, list(targets),
        runs,
    )
    return Model._of(made, model._tree, model._order, model._own_gradients)
