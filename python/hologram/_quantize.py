# SPDX-License-Identifier: Apache-2.0
"""Models with low-bit weights."""

from . import _core
from ._model import Model
from ._tree import leaves_of
from .named import as_model


def quantize(model, samples=None, *, bits=8, group=0, keep=(), least=1024, percentile=100.0):
    """Quantizes a model's weights to 8 or 4 bits, for a smaller file.

    Weights of products, convolutions, recurrent layers and embeddings get one scale per output channel, or per
    ``group`` of input channels. ``keep`` names weights, or modules with all their weights, that stay as they are; so do
    weights with fewer than ``least`` elements. ``model.info["quantized"]`` holds the error of each weight: the norm of
    the difference relative to the weight's norm. Raises ValueError for a weight that is not finite.

    ``samples`` holds the arguments of one run each: an array or a tuple. With it, convolutions and products also take
    their inputs in 8 bits. Runs on the samples determine the ranges of the inputs, without values outside
    ``percentile``.
    """
    if isinstance(keep, str):
        keep = (keep,)
    model = as_model(model)
    names = [spec.name for spec in model.inputs]
    runs = None if samples is None else [leaves_of(sample, names, model._order) for sample in samples]
    made = _core.quantize(model, bits, group, list(keep), least, percentile, runs)
    return Model._of(made, model._tree, model._order, model._own_gradients)
