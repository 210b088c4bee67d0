# SPDX-License-Identifier: Apache-2.0
"""Low-rank adapters beside the layers of a model."""

from . import _core
from ._model import Model
from .named import as_model


def _like(made, model):
    return Model._of(made, model._tree, model._order, model._own_gradients)


def _listed(adapters):
    return [as_model(each) for each in (adapters if isinstance(adapters, (list, tuple)) else [adapters])]


def add_adapter(model, layers, *, rank=8, alpha=None, seed=0):
    """The model with a new low-rank adapter (LoRA) beside its layers, which ``hg.Trainer`` then trains alone.

    ``layers`` is a pattern or a list of them: ``*`` matches any characters, and ``"q_proj"`` also matches
    ``"model.layers.0.q_proj"``. Layers are products and convolutions with constant weights, in floats or quantized.
    Their product with the adapter is multiplied by ``alpha / rank``; ``alpha`` is ``rank`` if not given. Raises
    ValueError for a pattern that matches no layer.
    """
    model = as_model(model)
    layers = [layers] if isinstance(layers, str) else list(layers)
    return _like(_core.add_adapter(model, layers, rank, float(rank if alpha is None else alpha), seed), model)


def take_adapter(model):
    """The adapter of a model, as a small model of its own that can be saved and loaded."""
    return Model._of(_core.take_adapter(as_model(model)))


def apply_adapters(model, adapters, *, rank=0):
    """The model with one or several adapters, which add up. ``session.set_adapters()`` switches them later; ``rank``
    leaves room for larger ones."""
    model = as_model(model)
    return _like(_core.apply_adapters(model, _listed(adapters), rank), model)


def merge_adapters(model):
    """The model with its adapter added to the weights, and without it. Quantized weights of its layers become floats."""
    model = as_model(model)
    return _like(_core.merge_adapters(model), model)
