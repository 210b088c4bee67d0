# SPDX-License-Identifier: Apache-2.0
"""Functions that run at once: ``hg.ops.add(a, b, out=None)``.

A function with a name of ``torch``, ``torch.nn.functional``, ``torch.fft``, ``torch.linalg`` or ``torch.special`` takes PyTorch's
arguments, in PyTorch's order and with its defaults. The other functions are op rows: their inputs, then required attributes, then
optional ones.

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
# What to use in place of names of torch that are no ops.
_HINTS = {
    "linalg": "hg.ops has no submodules: hg.ops.inv, solve, lstsq, det, svd, qr, eigh, cholesky, lu_factor, matrix_norm",
    "special": "hg.ops has no submodules: hg.ops.erf, i0, ndtr, xlogy, gammaln, legendre_polynomial_p",
    "functional": "hg.ops has the functions of torch.nn.functional",
    "nn": "use hg.nn",
    "from_numpy": "ops take numpy arrays; hg.from_numpy makes a tensor",
    "frombuffer": "ops take numpy arrays, such as numpy.frombuffer",
    "manual_seed": "use hg.Executor('cpu', seed=...)",
    "no_grad": "use torch.no_grad",
    "vmap": "use torch.func.vmap",
    "compile": "use hg.compile for named models, or torch.compile(backend='hologram')",
    "load": "use hg.load",
    "save": "use Model.save",
}
__all__ = sorted({*_functions, *_rows.row_names()} - _HIDDEN)


def _function(name):
    made = _functions.get(name)
    if made is not None:
        return made
    if name not in __all__:
        raise AttributeError(f"there is no op '{name}'{_hint(name)}")
    return _rows.function_of(name)


def _hint(name):
    import difflib
    import sys

    if name in _HINTS:
        return f"; {_HINTS[name]}"
    bare = name.removesuffix("_copy") if name.endswith("_copy") else name.removesuffix("_")
    if bare != name and bare in __all__:
        return f"; use '{bare}', whose result shares no memory with its input, or its out="
    if name.startswith(("sparse_", "quantize", "fake_quantize", "cudnn_", "miopen_", "mkldnn_", "fbgemm_")):
        return ""
    torch = sys.modules.get("torch")
    if callable(getattr(torch, name, None)):
        return f"; torch.{name} computes it on the host, and ops take its result"
    close = difflib.get_close_matches(name, __all__, 1)
    return f"; did you mean '{close[0]}'?" if close else ""


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
