# SPDX-License-Identifier: Apache-2.0
"""Hologram inside PyTorch: ``wrap`` makes a module of a model, ``torch.compile(model, backend="hologram")``
runs a module here, and ``explain`` says what of it does not.
"""

from ._compile import Explanation, backend, explain
from ._wrap import Wrapped, wrap

__all__ = ["Explanation", "Wrapped", "backend", "explain", "wrap"]
