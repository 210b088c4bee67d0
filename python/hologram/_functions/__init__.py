# SPDX-License-Identifier: Apache-2.0
"""Functions with PyTorch's names and signatures, written with the op rows. ``functions`` lists all of them by name; ``hg.ops``
shows them. A function whose op row differs only in names is a line of ``_table``; others are Python functions."""

from .. import _core
from . import _attention, _cells, _create, _elements, _factors, _fourier, _histograms, _index, _layers, _losses, _matrices, _norms, _pools, _random, _reduce, _shapes, _signal, _spectra, _statistics, _systems  # noqa: F401 - each adds its functions
from ._table import define, functions

__all__ = ["functions"]

# Functions that PyTorch also has with _ at the end of the name.
_IN_PLACE = """
abs absolute acos acosh addmv arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh ceil celu clamp clamp_max clamp_min clip
conj_physical cos cosh deg2rad dropout elu erf erfc exp exp2 expm1 fill fix floor frac gcd hardtanh i0 lcm ldexp leaky_relu log log10 log1p
log2 logit nan_to_num neg negative rad2deg reciprocal relu round rrelu rsqrt selu sigmoid sin sinc sinh sqrt square tan tanh threshold
trunc xlogy
"""


def _written(name, place):
    """The array or tensor that a function writes to."""
    if isinstance(place, (_core.Var, _core.Value)):
        raise TypeError(f"{name}() writes to its input, and an expression has no memory: use {'zeros_like' if name == 'zero_' else name[:-1]}()")
    if place is None or isinstance(place, (bytes, bytearray)) or not _core.is_tensor(place):
        raise TypeError(f"{name}() writes to its input, which is a {type(place).__name__}: expected an array or a tensor")
    return place


def _in_place(name, base, parameters, *more):
    def function(*args, **kwargs):
        place = _written(name, args[0] if args else kwargs["input"])
        try:
            return base(*args, *more, **kwargs, out=place)
        except (TypeError, ValueError) as error:
            text = str(error).removeprefix(base.__name__)
            raise type(error)(f"{name}{'' if text != str(error) else ': '}{text}") from None

    function.__signature__ = base.__signature__.replace(parameters=parameters)
    define(name, f"As {name[:-1]}, written to the input." if not more else "Writes zeros to the input.", function)


for _name in _IN_PLACE.split():
    _base = functions[_name]
    _in_place(f"{_name}_", _base, [each for each in _base.__signature__.parameters.values() if each.name not in ("inplace", "out")])
_fill = functions["fill"]
_in_place("zero_", _fill, [_fill.__signature__.parameters["input"]], 0)
