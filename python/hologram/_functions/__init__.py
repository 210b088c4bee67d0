# SPDX-License-Identifier: Apache-2.0
"""Functions with PyTorch's names and signatures, written with the op rows. ``functions`` lists all of them by name; ``hg.ops``
shows them. A function whose op row differs only in names is a line of ``_table``; others are Python functions."""

from . import _attention, _create, _index, _layers, _losses, _matrices, _pools, _random, _reduce, _shapes  # noqa: F401 - each adds its functions
from ._table import functions

__all__ = ["functions"]
