# SPDX-License-Identifier: Apache-2.0
"""Backward passes: what they read, and that they have no gradient of their own."""

import functools

import numpy as np
import torch

from .. import _core


def kept(value):
    """An operand as it is now: torch sees to its own tensors, and nobody to numpy's arrays."""
    return _core.copy(value, "torch") if isinstance(value, np.ndarray) else value


def once_differentiable(backward):
    """As torch.autograd.function's, which sees the gradients of results alone: where those need no gradient, as of
    ``y.sum()``, gradients that also depend on the inputs would be constants for a second pass, without a word."""

    @functools.wraps(backward)
    def wrapper(ctx, *gradients):
        with torch.no_grad():
            found = backward(ctx, *gradients)
        if not torch.is_grad_enabled():
            return found
        words = b"gradients of gradients are not supported by hologram's ops, layers, kernels and wrapped models"
        fail = torch._C._functions.DelayedError(words, len(found))
        return fail(*(None if each is None else each.detach().requires_grad_() for each in found))

    return wrapper
