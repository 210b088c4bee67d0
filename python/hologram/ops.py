# SPDX-License-Identifier: Apache-2.0
"""Functions that run at once: ``hg.ops.add(a, b, out=None)``.

A function with a name of ``torch`` or ``torch.nn.functional`` takes PyTorch's arguments, in PyTorch's order and with its defaults.
The other functions are op rows: their inputs, then required attributes, then optional ones.

Inputs may be numpy arrays, torch tensors (the result is one too), tensors of an Executor, ``hg.Var`` objects (the result is an
expression) or values of a ``hg.Graph`` (a node is added).

Dtypes of elementwise ops and ``concat`` are promoted like torch's. For other ops, a number takes the dtype of the first tensor.
``out`` is an array, or a tuple of arrays for a function with several results. Functions run on the CPU, or on the executor of
``with hg.Executor(...)``.
"""

from . import _rows
from ._functions import functions as _functions

# Rows that a function with PyTorch's own word for them replaces.
_HIDDEN = {"log_sigmoid"}
__all__ = sorted({*_functions, *_rows.row_names()} - _HIDDEN)


def _function(name):
    made = _functions.get(name)
    if made is not None:
        return made
    if name not in __all__:
        import difflib

        close = difflib.get_close_matches(name, __all__, 1)
        hint = f"; did you mean '{close[0]}'?" if close else ""
        raise AttributeError(f"there is no op '{name}'{hint}")
    return _rows.function_of(name)


def __getattr__(name):
    function = globals()[name] = _function(name)
    return function


def _add(name):
    """Adds a new op as a function of this module."""
    _rows.register(name)
    __all__[:] = sorted({*_functions, *_rows.row_names()} - _HIDDEN)
    return _function(name)


def __dir__():
    return __all__


def call(op, *args, **kwargs):
    """Calls any function by name."""
    return _function(op)(*args, **kwargs)
