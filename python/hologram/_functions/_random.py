# SPDX-License-Identifier: Apache-2.0
"""Functions of torch.nn.functional that draw random numbers, besides dropout. The executor's seed decides them."""

import math

import numpy as np

from .. import _core, _rows
from ._pools import require_eager
from ._shapes import narrow, to_shape, unsqueeze
from ._sizes import dtype_of, is_complex, is_float, product, range_of, shape_of, sizes_from
from ._table import define, functions, torch_function


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
            raise ValueError(f"{name}: expected {dims + 1} or {dims + 2} dims, got {list(shape_of(input))}")
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
        raise ValueError(f"{name}: expected 2 or more dims, got {list(shape_of(input))}")
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


# -- Draws of torch -------------------------------------------------------------------------------


def _drawn_like(name, row, input, dtype):
    require_eager(name, "draws now", input)
    return _rows.add(functions["zeros_like"](input, dtype=dtype), row(list(shape_of(input)), dtype or dtype_of(input)))


def _whole(name, low, high, sizes, dtype):
    if not low < high:
        raise ValueError(f"{name}: low is {low}, high is {high}; expected low < high")
    if high - low > 2**53:
        raise ValueError(f"{name}: low is {low}, high is {high}; expected at most 2**53 numbers, which a float64 tells apart")
    dtype = _core.dtype_name(dtype or "int64")
    least, most = range_of(dtype)
    if low < least or high - 1 > most:
        raise ValueError(f"{name}: the numbers from {low} to {high - 1} do not fit a tensor of {dtype}")
    drawn = _rows.floor(_rows.mul(_rows.rand(sizes, "float64"), float(high - low)))
    return _rows.cast(_rows.add(_rows.cast(drawn, "int64"), low), dtype)


@torch_function()
def randint(low, high=None, size=None, *, dtype=None):
    """Whole numbers from low up to, without, high: ``randint(high, size)`` starts at 0."""
    if size is None and isinstance(high, (tuple, list)):
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    if size is None:
        raise TypeError("randint() needs 'size': randint(high, size) or randint(low, high, size)")
    return _whole("randint", low, high, sizes_from([size]), dtype)


@torch_function()
def randint_like(input, low=0, high=None, *, dtype=None):
    """Whole numbers from low up to, without, high, of the shape and dtype of the input."""
    low, high = (0, low) if high is None else (low, high)
    require_eager("randint_like", "draws now", input)
    return _rows.add(functions["zeros_like"](input, dtype=dtype), _whole("randint_like", low, high, list(shape_of(input)), dtype or dtype_of(input)))


@torch_function()
def randperm(n, *, dtype=None):
    """The numbers from 0 up to, without, n in random order."""
    return _rows.cast(_rows.sort(_rows.rand([n], "float64"), -1, False)[1], dtype or "int64")


@torch_function()
def normal(mean, std=1.0, size=None):
    """Normal numbers. ``mean`` and ``std`` are tensors or numbers; ``size`` is given with numbers."""
    numbers = [isinstance(each, (int, float)) for each in (mean, std)]
    if not numbers[1]:
        require_eager("normal", "draws now", std)
        if is_complex(std):
            raise ValueError("normal: std is complex, expected real numbers")
    if not (std >= 0 if numbers[1] else _rows.all(_rows.ge(std, 0)).item()):
        raise ValueError(f"normal: std is {std if numbers[1] else 'negative or NaN at an element'}, expected numbers from 0")
    if all(numbers):
        if size is None:
            raise TypeError("normal() needs 'size' if mean and std are numbers")
        drawn = _rows.randn(sizes_from([size]), "float32")
    else:
        require_eager("normal", "draws now", mean, std)
        shape = np.broadcast_shapes(*(shape_of(each) for each, number in zip((mean, std), numbers) if not number))
        drawn = _rows.randn(list(shape), dtype_of(std if numbers[0] else mean))
    return _rows.add(_rows.mul(drawn, std if not numbers[1] else float(std)), mean if not numbers[0] else float(mean))


@torch_function()
def bernoulli(input, p=None):
    """1 with the probability in the input, or ``p``, otherwise 0."""
    drawn = _drawn_like("bernoulli", _rows.rand, input, "float64")
    if p is None and not is_float(input):
        raise ValueError(f"bernoulli: the probabilities are {dtype_of(input)}, expected floats")
    given = input if p is None else p
    if not (0 <= p <= 1 if isinstance(p, (int, float)) else _rows.all(_rows.logical_and(_rows.ge(given, 0), _rows.le(given, 1))).item()):
        raise ValueError(f"bernoulli: p is {p if isinstance(p, (int, float)) else 'outside 0 to 1 or NaN at an element'}, expected probabilities")
    return _rows.cast(_rows.lt(drawn, input if p is None else p), dtype_of(input))


@torch_function()
def poisson(input):
    """Numbers of events, drawn with the rates in the input."""
    drawn = _drawn_like("poisson", _rows.rand, input, "float64")
    if not is_float(input):
        raise ValueError(f"poisson: the rates are {dtype_of(input)}, expected floats")
    rates = _rows.cast(input, "float64")
    most = _rows.amax(rates, []).item() if product(shape_of(input)) else 0.0
    if not (math.isfinite(most) and _rows.all(_rows.ge(rates, 0)).item()):
        raise ValueError("poisson: expected finite rates from 0")
    # The least count whose share of all draws, that of counts up to it, exceeds a uniform number, by bisection.
    most = math.ceil(most + 40 * math.sqrt(most) + 40)
    below, above = _rows.full(list(shape_of(input)), -1.0, "float64"), _rows.full(list(shape_of(input)), float(most), "float64")
    for _ in range(most.bit_length() + 1):
        middle = _rows.floor(_rows.mul(_rows.add(below, above), 0.5))
        is_enough = _rows.gt(_rows.igammac(_rows.add(_rows.maximum(middle, 0.0), 1.0), rates), drawn)
        is_enough = _rows.logical_and(is_enough, _rows.ge(middle, 0.0))
        below, above = _rows.where(is_enough, below, middle), _rows.where(is_enough, middle, above)
    return _rows.cast(above, dtype_of(input))


@torch_function()
def binomial(count, prob):
    """Numbers of successes among ``count`` trials that succeed with ``prob``."""
    if dtype_of(count) != dtype_of(prob) or not is_float(count):
        raise ValueError(f"binomial: count is {dtype_of(count)}, prob {dtype_of(prob)}; expected floats of one dtype")
    require_eager("binomial", "draws now", count, prob)
    trials, shares = (np.asarray(_rows.cast(_rows.detach(each), "float64").tolist()).reshape(shape_of(each)) for each in (count, prob))
    if not ((trials >= 0) & np.isfinite(trials)).all() or not ((shares >= 0) & (shares <= 1)).all():
        raise ValueError("binomial: expected finite counts from 0, and probabilities")
    # numpy draws, from a seed that the executor's seed decides.
    seed = int(_rows.mul(_rows.rand([], "float64"), 2.0**53).item())
    drawn = np.random.default_rng(seed).binomial(trials.astype(np.int64), shares)
    return _rows.add(functions["zeros_like"](_rows.mul(_rows.detach(count), _rows.detach(prob))), _rows.cast(drawn, dtype_of(count)))


@torch_function()
def multinomial(input, num_samples, replacement=False):
    """Indices drawn by weights, along the last dim."""
    shape = shape_of(input)
    if len(shape) not in (1, 2):
        raise ValueError(f"multinomial: expected 1 or 2 dims, got {list(shape)}")
    require_eager("multinomial", "draws now", input)
    weights = _rows.cast(input, "float64")
    least = _rows.amin(weights, []).item()
    if not least >= 0 or not math.isfinite(_rows.sum(weights, []).item()):
        raise ValueError("multinomial: expected finite weights from 0")
    if not replacement and num_samples > shape[-1]:
        raise ValueError(f"multinomial: {num_samples} of {shape[-1]} are drawn without replacement")
    few = 1 if replacement else num_samples
    if _rows.amin(_rows.sum(_rows.cast(_rows.gt(weights, 0), "int64"), [-1]), []).item() < few:
        raise ValueError(f"multinomial: expected at least {few} weights above 0 per row")
    if replacement:
        ends = _rows.cumsum(weights, -1)
        total = narrow(ends, -1, shape[-1] - 1, 1)
        drawn = _rows.mul(_rows.rand([*shape[:-1], num_samples], "float64"), total)
        found = _rows.searchsorted(ends, drawn, right=True)
        last = functions["argmax"](_rows.ge(ends, total), -1, True)  # rounding may reach the end
        return _rows.minimum(found, last)
    waits = _rows.div(_rows.neg(_rows.log1p(_rows.neg(_rows.rand(list(shape), "float64")))), weights)  # Efraimidis, Spirakis 2006
    return _rows.topk(waits, num_samples, -1, False)[1]


define("rand_like", "Uniform numbers in [0, 1), of the shape and dtype of the input.",
       lambda input, *, dtype=None: _drawn_like("rand_like", _rows.rand, input, dtype))  # fmt: skip
define("randn_like", "Normal numbers, of the shape and dtype of the input.",
       lambda input, *, dtype=None: _drawn_like("randn_like", _rows.randn, input, dtype))  # fmt: skip
