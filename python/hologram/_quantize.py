# SPDX-License-Identifier: Apache-2.0
"""Models with weights in few bits."""

from . import _core
from ._model import Model
from ._tree import leaves_of


def quantize(model, samples=None, *, bits=8, group=0, keep=(), least=1024, percentile=100.0):
    """A model that computes the same of weights rounded to 8 or 4 bits, for a smaller file.

    Weights of products, convolutions, recurrent layers and embeddings get a scale for each output channel, or
    for each ``group`` of input channels. ``keep`` names weights, or modules with all that is in them, that stay;
    so do weights of fewer than ``least`` elements. ``model.info["quantized"]`` then has the error of each weight:
    the norm of the difference, as a part of the weight's norm. Raises ValueError for a weight that is not finite.

    With ``samples``, what the model is called with in one run each (an array, or a tuple of arguments), convolutions and
    products take their inputs in 8 bits as well. Their ranges are those that runs with the samples show, without what
    lies outside of ``percentile``.
    """
    if isinstance(keep, str):
        keep = (keep,)
    names = [spec.name for spec in model.inputs]
    runs = None if samples is None else [leaves_of(sample, names, model._order) for sample in samples]
    made = _core.quantize(model, bits, group, list(keep), least, percentile, runs)
    return Model._of(made, model._tree, model._order, model._own_gradients)
