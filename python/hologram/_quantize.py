# SPDX-License-Identifier: Apache-2.0
"""Models with weights in few bits."""

from . import _core
from ._model import Model


def quantize(model, *, bits=8, group=0, keep=(), least=1024):
    """A model that computes the same of weights rounded to 8 or 4 bits, for a smaller file.

    Weights of products, convolutions, recurrent layers and embeddings get a scale for each output channel, or
    for each ``group`` of input channels. ``keep`` names weights, or modules with all that is in them, that stay;
    so do weights of fewer than ``least`` elements. ``model.info["quantized"]`` then has the error of each weight:
    the norm of the difference, as a part of the weight's norm. Raises ValueError for a weight that is not finite.
    """
    if isinstance(keep, str):
        keep = (keep,)
    made = _core.quantize(model, bits, group, list(keep), least)
    return Model._of(made, model._tree, model._order, model._own_gradients)
