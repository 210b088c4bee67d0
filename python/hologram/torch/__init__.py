# SPDX-License-Identifier: Apache-2.0
"""Hologram inside PyTorch: ``wrap`` makes a module from a model, ``torch.compile(model, backend="hologram")`` runs a module in
Hologram, and ``explain`` lists the graphs that do not.
"""

from ._compile import Explanation, backend, explain
from ._wrap import Wrapped, wrap

__all__ = ["Explanation", "Wrapped", "backend", "explain", "wrap"]
