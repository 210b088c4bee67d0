# SPDX-License-Identifier: Apache-2.0
"""Lazy expressions: their values, their products with derivatives, and models of them."""

from . import _core
from ._executor import Executor, _vulkan
from ._model import Model


def evaluate(vars, device=None):
    """The values of several expressions, of which common parts run once.

    They run on the device of the leaves, or with ``device="vulkan"`` on the device that ``to_vulkan`` uses. Values of leaves that
    are hologram tensors stay there.
    """
    if device not in (None, "vulkan"):
        raise ValueError(f"evaluate: device is 'vulkan', or None for that of the leaves; it is {device!r}")
    if not isinstance(vars, (list, tuple)) or not all(isinstance(each, _core.Var) for each in vars):
        raise TypeError("evaluate takes a list of Vars; the value of one is its numpy()")
    executor = _vulkan() if device == "vulkan" else None
    if device == "vulkan" and executor is None:
        executor = Executor("vulkan")  # says why there is none
    return _core.evaluate(vars, None if executor is None else executor._open().gpu_())


def to_model(outputs):
    """A model of the expressions in a dict by the names of its outputs; ``save()`` writes it.

    Leaves with a name, as ``Var.variable`` makes them, are its inputs. Other leaves are constants with their current arrays.
    """
    return Model._of(_core.to_model(outputs))


def vjp(ys, *xs, seeds=None):
    """Products of seeds with derivatives, as expressions or of a function.

    ``vjp(ys, xs, seeds)`` is a list of Vars: for each x, the sum of ``seeds[k] * d ys[k] / d x``. A seed has the shape and dtype
    of its y. Without seeds, each y is one number, and its seed is 1.

    ``vjp(function, *arrays)`` is torch.func.vjp: the function's values and a function of seeds, in the structure of the values, that
    returns the products, as a tuple if there are several arrays.
    """
    if callable(ys) and not isinstance(ys, _core.Var):
        return _of_function(ys, xs)
    if seeds is None and len(xs) == 2:
        xs, seeds = xs[:1], xs[1]
    if len(xs) != 1:
        raise TypeError(f"vjp takes ys, xs and seeds, or a function and its arrays; {1 + len(xs)} arguments are given")
    return _core.vjp(_listed(ys), _listed(xs[0]), None if seeds is None else _listed(seeds))


def _listed(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _of_function(function, arrays):
    leaves = [_core.Var(each) for each in arrays]
    made = function(*leaves)
    ys = _listed(made)
    found = _core.evaluate(ys)
    values = type(made)(found) if isinstance(made, (list, tuple)) else found[0]

    def pullback(given):
        products = tuple(_core.evaluate(_core.vjp(ys, leaves, [_core.Var(each) for each in _listed(given)])))
        return products if len(products) > 1 else products[0]

    return values, pullback
