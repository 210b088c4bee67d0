# SPDX-License-Identifier: Apache-2.0
"""Functions with PyTorch's names and signatures, written with the op rows. ``functions`` lists all of them by name; ``hg.ops``
shows them. A function whose op row differs only in names is a line of ``_table``; others are Python functions."""

from . import _attention, _create, _elements, _index, _layers, _losses, _matrices, _pools, _random, _reduce, _shapes, _statistics  # noqa: F401 - each adds its functions
from ._table import define, functions

__all__ = ["functions"]

# Functions that PyTorch also has with _ at the end of the name.
_IN_PLACE = """
abs absolute acos acosh arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh ceil celu clamp clamp_max clamp_min clip
conj_physical cos cosh deg2rad dropout elu erf erfc exp exp2 expm1 fill fix floor frac hardtanh i0 ldexp leaky_relu log log10 log1p
log2 logit nan_to_num neg negative rad2deg reciprocal relu round rrelu rsqrt selu sigmoid sin sinc sinh sqrt square tan tanh threshold
trunc xlogy
"""


def _in_place(name):
    base = functions[name]
    parameters = [each for each in base.__signature__.parameters.values() if each.name not in ("inplace", "out")]

    def function(*args, **kwargs):
        return base(*args, **kwargs, out=args[0] if args else kwargs["input"])

    function.__signature__ = base.__signature__.replace(parameters=parameters)
    define(f"{name}_", f"As {name}, written to the input.", function)


for _name in _IN_PLACE.split():
    _in_place(_name)
define("zero_", "Writes zeros to the input.", lambda input: functions["fill_"](input, 0))
