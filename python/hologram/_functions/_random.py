# SPDX-License-Identifier: Apache-2.0
"""Functions of torch.nn.functional that draw random numbers, besides dropout. The executor's seed decides them."""

import math

from .. import _rows
from ._pools import require_eager
from ._shapes import narrow, to_shape, unsqueeze
from ._sizes import dtype_of, shape_of
from ._table import functions, torch_function


def _stays(input, p, whole_channels=False):
    """1 for elements, or for channels of a sample, that stay, and 0 for those that are dropped."""
    if whole_channels:
        for dim in range(2, len(shape_of(input))):
            input = narrow(input, dim, 0, 1)
    return _rows.cast(_rows.ne(_rows.dropout(functions["ones_like"](input), p=p, training=True), 0), dtype_of(input))


def _require_p(name, p):
    if not 0 <= p <= 1:
        raise ValueError(f"{name}: p is {p}, expected a probability")


def _is_off(input, p, training):
    return not training or p == 0 or 0 in shape_of(input)


def _channel_dropout(dims):
    name = f"dropout{dims}d"

    def dropout(input, p=0.5, training=True, inplace=False):
        _require_p(name, p)
        rank = len(shape_of(input))
        if rank not in (dims + 1, dims + 2):
            raise ValueError(f"{name}: expected {dims + 1} or {dims + 2} dims, the input is {list(shape_of(input))}")
        if _is_off(input, p, training):
            return input
        lacks_batch = rank == dims + 1 and dims != 2  # torch takes three dims for [n, c, length]
        stays = _stays(unsqueeze(input, 0) if lacks_batch else input, p, True)
        stays = to_shape(stays, shape_of(stays)[1:]) if lacks_batch else stays
        return _rows.mul(input, stays if p == 1 else _rows.mul(stays, 1 / (1 - p)))

    dropout.__name__, dropout.__doc__ = name, "Zeros whole channels at random, and scales the rest."
    torch_function()(dropout)


for _count in (1, 2, 3):
    _channel_dropout(_count)


def _alpha_dropped(name, input, p, training, whole_channels):
    _require_p(name, p)
    if whole_channels and len(shape_of(input)) < 2:
        raise ValueError(f"{name}: expected 2 or more dims, the input is {list(shape_of(input))}")
    if _is_off(input, p, training):
        return input
    if p == 1:
        return _rows.mul(input, 0.0)
    alpha = 1.7580993408473766
    stays = _stays(input, p, whole_channels)
    a = 1 / math.sqrt((alpha * alpha * p + 1) * (1 - p))
    shift = _rows.add(_rows.mul(_rows.sub(stays, 1.0), alpha * a), alpha * a * p)
    return _rows.add(_rows.mul(input, _rows.mul(stays, a)), shift)


@torch_function()
def alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Dropped elements become SELU's lowest value; mean and variance stay. Klambauer et al. 2017."""
    return _alpha_dropped("alpha_dropout", input, p, training, False)


@torch_function()
def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    """alpha_dropout of whole channels."""
    return _alpha_dropped("feature_alpha_dropout", input, p, training, True)


@torch_function()
def rrelu(input, lower=1 / 8, upper=1 / 3, training=False, inplace=False):
    """Leaky ReLU, whose slope is drawn for each element in training and is the middle of both bounds otherwise."""
    if not lower <= upper:
        raise ValueError(f"rrelu: lower is {lower}, upper is {upper}")
    if not training:
        return _rows.leaky_relu(input, (lower + upper) / 2)
    require_eager("rrelu", "draws slopes", input)
    slopes = _rows.add(_rows.mul(_rows.rand(list(shape_of(input)), dtype_of(input)), upper - lower), lower)
    return _rows.where(_rows.le(input, 0), _rows.mul(input, slopes), input)


@torch_function()
def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """A softmax of logits and Gumbel noise, over tau; with ``hard``, one-hot with the gradient of the soft one. Jang et al. 2017."""
    require_eager("gumbel_softmax", "draws noise", logits)
    uniform = _rows.rand(list(shape_of(logits)), dtype_of(logits))
    noise = _rows.neg(_rows.log(_rows.neg(_rows.log(uniform))))
    y = _rows.softmax(_rows.div(_rows.add(logits, noise), float(tau)), dim)
    if not hard:
        return y
    still = _rows.detach(y)
    index = functions["argmax"](still, dim, True)
    one_hot = functions["scatter"](functions["zeros_like"](still), dim, index, 1.0)
    return _rows.add(_rows.sub(one_hot, still), y)


def _in_place(name):
    base = functions[name]
    parameters = [each for each in base.__signature__.parameters.values() if each.name not in ("inplace", "out")]

    def function(*args, **kwargs):
        return base(*args, **kwargs, inplace=True)

    function.__name__, function.__doc__ = f"{name}_", f"As {name}, written to the input."
    function.__signature__ = base.__signature__.replace(parameters=parameters)
    torch_function(own_name=f"{name}_")(function)


for _name in ("celu", "elu", "hardtanh", "leaky_relu", "relu", "rrelu", "selu", "threshold"):
    _in_place(_name)
