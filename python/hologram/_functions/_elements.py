# SPDX-License-Identifier: Apache-2.0
"""Functions of single elements that need more than one op row: comparisons, complex numbers, special functions."""

import math

import numpy as np

from .. import _core, _rows as r
from ._create import full_like_
from ._pools import require_eager
from ._shapes import select, stack
from ._sizes import common_dtype, dtype_of, is_complex, is_float, shape_of
from ._table import define, functions

_LN2 = math.log(2)


def as_float(x):
    """x, as float32 if its elements are integers or bool."""
    if isinstance(x, (bool, int)):
        return float(x)
    return x if isinstance(x, float) or is_float(x) or is_complex(x) else r.cast(x, "float32")


def truth(name, x):
    """The only element of a bool result, as a Python bool."""
    require_eager(name, "decides now", x)
    return bool(x.item())


def _require_float(name, *tensors):
    for x in tensors:
        if not is_float(x):
            raise ValueError(f"{name}: expected a tensor of floats, not of {dtype_of(x)}")


# -- Comparisons ----------------------------------------------------------------------------------


def _is_close(input, other, rtol, atol, equal_nan):
    if dtype_of(input) != dtype_of(other):
        raise ValueError(f"isclose: input is {dtype_of(input)}, other {dtype_of(other)}; expected one dtype")
    if rtol < 0 or atol < 0:
        raise ValueError(f"isclose: rtol is {rtol}, atol {atol}; expected numbers from 0")
    close = r.eq(input, other)
    if equal_nan and (is_float(input) or is_complex(input)):
        close = r.logical_or(close, r.logical_and(r.isnan(input), r.isnan(other)))
    if rtol == 0 and atol == 0:
        return close
    input, other = (as_float(input) if dtype_of(input) == "bool" else input), as_float(other)
    actual = r.abs(r.sub(input, other))
    allowed = r.add(r.abs(r.mul(other, float(rtol))), float(atol))
    return r.logical_or(close, r.logical_and(r.isfinite(actual), r.le(actual, allowed)))


def _is_equal(input, other):
    require_eager("equal", "decides now", input, other)
    if shape_of(input) != shape_of(other):
        return False
    if is_complex(input) or is_complex(other):
        pairs = zip(*(parts(each) if is_complex(each) else (each, r.mul(as_float(each), 0.0)) for each in (input, other)))
        return all(_is_equal(a, b) for a, b in pairs)
    dtype = common_dtype(input, other)
    return truth("equal", r.all(r.eq(r.cast(input, dtype), r.cast(other, dtype))))


define("isclose", "Whether elements differ by at most atol + rtol * |other|.",
       lambda input, other, rtol=1e-5, atol=1e-8, equal_nan=False: _is_close(input, other, rtol, atol, equal_nan))  # fmt: skip
define("allclose", "Whether all elements are close, as a Python bool.",
       lambda input, other, rtol=1e-5, atol=1e-8, equal_nan=False: truth("allclose", r.all(_is_close(input, other, rtol, atol, equal_nan))))  # fmt: skip
define("equal", "Whether shapes and all elements are equal, as a Python bool.", lambda input, other: _is_equal(input, other))
define("isneginf", "Whether each element is -inf.", lambda input: r.eq(input, -math.inf))
define("isposinf", "Whether each element is +inf.", lambda input: r.eq(input, math.inf))
define("is_nonzero", "Whether the only element is not zero, as a Python bool.", lambda input: truth("is_nonzero", r.ne(input, 0)))
define("is_complex", "Whether the elements are complex numbers.", lambda input: is_complex(input))
define("is_signed", "Whether the dtype has negative numbers.", lambda input: dtype_of(input) not in ("bool", "uint8"))
define("is_same_size", "Whether the shapes are equal.", lambda input, other: shape_of(input) == shape_of(other))


# -- Real numbers ---------------------------------------------------------------------------------


def _filled(input, value):
    if isinstance(value, (bool, int, float)):
        return full_like_(input, value, None)
    if shape_of(value):
        raise ValueError(f"fill: value is {list(shape_of(value))}, expected a number or a tensor without dims")
    return r.expand(r.cast(value, dtype_of(input)), list(shape_of(input)))


def _float_power(input, exponent):
    wide = "complex128" if is_complex(input) or is_complex(exponent) else "float64"
    return r.pow(*(float(each) if isinstance(each, (bool, int, float)) else r.cast(each, wide) for each in (input, exponent)))


def _heaviside(input, values):
    if dtype_of(input) != dtype_of(values):
        raise ValueError(f"heaviside: input is {dtype_of(input)}, values {dtype_of(values)}; expected one dtype")
    return r.where(r.eq(input, 0), values, r.cast(r.gt(input, 0), dtype_of(input)))


def _logaddexp2(input, other):
    dtype = common_dtype(input, other)
    if not dtype.startswith(("float", "bfloat")):
        raise ValueError(f"logaddexp2: expected a tensor of floats, not of {dtype}")
    wide = "float32" if dtype.endswith("float16") else dtype
    a, b = (r.mul(r.cast(each, wide), _LN2) for each in (input, other))
    return r.cast(r.div(r.logaddexp(a, b), _LN2), dtype)


def _ldexp(input, other):
    """Multiplies three times: 2 ** other may be out of range where the product is not."""
    x = as_float(input)
    dtype = dtype_of(x) if dtype_of(other).startswith(("int", "uint", "bool")) else common_dtype(x, other)
    wide = "float32" if dtype.endswith("float16") else dtype
    real, limit = ("float64", 2200.0) if wide in ("float64", "complex128") else ("float32", 300.0)
    exponent, x = r.clamp(r.cast(other, real), -limit, limit), r.cast(x, wide)
    third = r.trunc(r.div(exponent, 3.0))
    for part in (third, third, r.sub(exponent, r.mul(third, 2.0))):
        x = r.mul(x, r.exp2(part))
    return r.cast(x, dtype)


def _positive(input):
    if dtype_of(input) == "bool":
        raise ValueError("positive: the input is bool, expected numbers")
    return input


def _mvlgamma(input, p):
    if p < 1:
        raise ValueError(f"mvlgamma: p is {p}, expected at least 1")
    x, made = as_float(input), p * (p - 1) / 4 * math.log(math.pi)
    for i in range(p):
        made = r.add(r.lgamma(r.sub(x, i / 2)), made)
    return made


def _frexp(input):
    _require_float("frexp", input)
    wide = r.cast(input, "float64")
    is_tiny = r.lt(r.abs(wide), 2.0**-1021)
    bits = r.view_dtype(r.where(is_tiny, r.mul(wide, 2.0**64), wide), "int64")
    exponent = r.sub(r.bitwise_and(r.bitwise_right_shift(bits, 52), 0x7FF), r.where(is_tiny, 1022 + 64, 1022))
    exponent = r.where(r.logical_or(r.eq(wide, 0), r.logical_not(r.isfinite(wide))), 0, exponent)
    half = r.floor_divide(exponent, 2)  # 2 ** -exponent may be infinite
    for part in (half, r.sub(exponent, half)):
        wide = r.mul(wide, r.exp2(r.cast(r.neg(part), "float64")))
    return r.cast(wide, dtype_of(input)), r.cast(exponent, "int32")


define("fill", "One number, of the shape and dtype of the input.", lambda input, value: _filled(input, value))
define("float_power", "The power in float64, or complex128.", lambda input, exponent: _float_power(input, exponent))
define("heaviside", "0 below zero, 1 above, and ``values`` at zero.", lambda input, values: _heaviside(input, values))
define("deg2rad", "Degrees as radians.", lambda input: r.mul(input, math.pi / 180))
define("rad2deg", "Radians as degrees.", lambda input: r.mul(input, 180 / math.pi))
define("ldexp", "input * 2 ** other.", lambda input, other: _ldexp(input, other))
define("logaddexp2", "log2(2 ** input + 2 ** other).", lambda input, other: _logaddexp2(input, other))
define("positive", "The input.", lambda input: _positive(input))
define("clone", "A copy.", lambda input: r.contiguous(input))
define("mvlgamma", "The logarithm of the multivariate gamma function of order p.", lambda input, p: _mvlgamma(input, p), "multigammaln")
define("frexp", "Mantissa in [0.5, 1) and exponent of two, an int32.", lambda input: _frexp(input))


# -- Complex numbers ------------------------------------------------------------------------------


def _dense(x):
    """x, without strides that complex numbers do not support."""
    if isinstance(x, np.ndarray):
        return np.asarray(x, order="C")
    return x.resolve_conj().contiguous() if hasattr(x, "resolve_conj") and not isinstance(x, (_core.Var, _core.Value, _core.Tensor)) else x


def parts(x):
    """Real and imaginary part."""
    both = r.view_as_real(_dense(x))
    return select(both, -1, 0), select(both, -1, 1)


def complex_(real, imag):
    if dtype_of(real) != dtype_of(imag):
        raise ValueError(f"complex: the parts are {dtype_of(real)} and {dtype_of(imag)}, expected one dtype")
    _require_float("complex", real)
    return r.view_as_complex(stack(functions["broadcast_tensors"](real, imag), -1))


def _imag(input):
    if not is_complex(input):
        raise ValueError(f"imag: expected a complex tensor, got {dtype_of(input)}")
    return parts(input)[1]


def conj(x, moved=lambda part: part):
    """The complex conjugate, real numbers as they are, with moved parts."""
    if not is_complex(x):
        return moved(x)
    real, imag = parts(x)
    return complex_(moved(real), r.neg(moved(imag)))


def _angle(input):
    if is_complex(input):
        real, imag = parts(input)
        return r.atan2(imag, real)
    x = as_float(input)
    return r.where(r.isnan(x), x, r.mul(r.cast(r.lt(x, 0), dtype_of(x)), math.pi))


def _sgn(input):
    if not is_complex(input):
        return functions["sign"](input)
    real, imag = parts(input)
    size = r.hypot(real, imag)
    is_zero = r.eq(size, 0)
    inverse = r.where(is_zero, 0.0, r.reciprocal(r.where(is_zero, 1.0, size)))
    return complex_(r.mul(real, inverse), r.mul(imag, inverse))


def _is_real(input):
    return r.eq(parts(input)[1], 0) if is_complex(input) else full_like_(input, True, "bool")


define("sign", "Signs: -1, 0 or 1; bool as it is.", lambda input: input if dtype_of(input) == "bool" else r.sign(input))
define("real", "The real parts.", lambda input: parts(input)[0] if is_complex(input) else input)
define("imag", "The imaginary parts.", lambda input: _imag(input))
define("complex", "Complex numbers of real and imaginary parts.", lambda real, imag: complex_(real, imag))
define("polar", "Complex numbers of absolute values and angles.",
       lambda abs, angle: complex_(r.mul(abs, r.cos(angle)), r.mul(abs, r.sin(angle))))  # fmt: skip
define("conj", "The complex conjugates; real numbers as they are.", lambda input: conj(input), "conj_physical")
define("resolve_conj", "The input: no conjugate is lazy.", lambda input: input, "resolve_neg")
define("angle", "The angles of complex numbers; of real ones 0 or pi.", lambda input: _angle(input))
define("sgn", "Signs; of complex numbers x / |x|.", lambda input: _sgn(input))
define("isreal", "Whether the imaginary parts are 0.", lambda input: _is_real(input))


# -- Functions of torch.special -------------------------------------------------------------------


def _entr(input):
    x = as_float(input)
    is_zero = r.eq(x, 0)
    root = r.sqrt(r.where(is_zero, x, 1.0))  # 0 at 0, with the infinite slope of x log x
    above = r.where(r.le(x, 0), 1.0, x)
    return r.where(r.lt(x, 0), -math.inf, r.where(is_zero, root, r.neg(r.mul(above, r.log(above)))))


def _log_ndtr(input):
    x = as_float(input)
    t, is_low = r.mul(x, math.sqrt(0.5)), r.lt(x, -1)
    low, high = r.where(is_low, t, -1.0), r.where(is_low, 0.0, t)
    tail = r.sub(r.log(r.mul(r.erfcx(r.neg(low)), 0.5)), r.square(low))
    return r.where(is_low, tail, r.log1p(r.mul(r.erfc(high), -0.5)))


def _ndtri(input):
    """sqrt(2) erfinv(2p - 1). Near 0 this loses all digits: there, Newton's method solves log Phi(y) = log p, starting from the
    asymptotic series."""
    x = as_float(input)
    p = r.cast(x, "float64")
    is_low = r.logical_and(r.lt(p, 1e-5), r.ne(p, 0))
    high = r.mul(r.erfinv(r.sub(r.mul(r.where(is_low, 0.5, p), 2.0), 1.0)), math.sqrt(2))
    log_p = r.log(r.where(is_low, p, 1e-6))
    size = r.mul(log_p, -2.0)
    y = r.neg(r.sqrt(r.sub(r.sub(size, r.log(size)), math.log(2 * math.pi))))
    for _ in range(3):
        e = r.erfcx(r.mul(y, -math.sqrt(0.5)))
        fault = r.sub(r.sub(r.log(r.mul(e, 0.5)), r.mul(r.square(y), 0.5)), log_p)
        y = r.sub(y, r.mul(r.mul(fault, e), math.sqrt(math.pi / 2)))
    return r.cast(r.where(is_low, y, high), dtype_of(x))


def _xlog1py(input, other):
    factor = r.log1p(as_float(other))
    is_zero = r.logical_and(r.eq(input, 0), r.logical_or(r.isinf(factor), r.lt(other, -1)))
    return r.where(is_zero, 0.0, r.mul(input, r.where(is_zero, 1.0, factor)))


def _spherical_bessel_j0(input):
    x = as_float(input)
    return r.where(r.isinf(x), 0.0, r.sinc(r.mul(x, 1 / math.pi)))


define("entr", "-x log x; 0 at 0, and -inf below.", lambda input: _entr(input))
define("expit", "As sigmoid.", lambda input: r.sigmoid(input))
define("psi", "As digamma.", lambda input: r.digamma(input))
define("gammaln", "As lgamma.", lambda input: r.lgamma(input))
define("gammainc", "As igamma.", lambda input, other: r.igamma(input, other))
define("gammaincc", "As igammac.", lambda input, other: r.igammac(input, other))
define("i0", "The modified Bessel function of order 0.", lambda input: r.bessel_i0(input))
define("i0e", "exp(-|x|) i0(x).", lambda input: r.bessel_i0e(input))
define("i1", "The modified Bessel function of order 1.", lambda input: r.bessel_i1(input))
define("i1e", "exp(-|x|) i1(x).", lambda input: r.bessel_i1e(input))
define("modified_bessel_i0", "As i0.", lambda input: r.bessel_i0(input))
define("modified_bessel_i1", "As i1.", lambda input: r.bessel_i1(input))
define("spherical_bessel_j0", "sin(x) / x; 1 at 0.", lambda input: _spherical_bessel_j0(input))
define("ndtr", "The normal distribution.", lambda input: r.mul(r.erfc(r.mul(as_float(input), -math.sqrt(0.5))), 0.5))
define("log_ndtr", "The logarithm of the normal distribution.", lambda input: _log_ndtr(input))
define("ndtri", "The inverse of the normal distribution.", lambda input: _ndtri(input))
define("xlog1py", "input * log(1 + other); 0 where the input is 0.", lambda input, other: _xlog1py(input, other))

_POLYNOMIALS = {
    "chebyshev_polynomial_t": "chebyshev_t", "chebyshev_polynomial_u": "chebyshev_u", "chebyshev_polynomial_v": "chebyshev_v", "chebyshev_polynomial_w": "chebyshev_w",
    "shifted_chebyshev_polynomial_t": "shifted_chebyshev_t", "shifted_chebyshev_polynomial_u": "shifted_chebyshev_u", "shifted_chebyshev_polynomial_v": "shifted_chebyshev_v",
    "shifted_chebyshev_polynomial_w": "shifted_chebyshev_w", "hermite_polynomial_h": "hermite_h", "hermite_polynomial_he": "hermite_he",
    "laguerre_polynomial_l": "laguerre_l", "legendre_polynomial_p": "legendre_p",
}  # fmt: skip


def _polynomial(kind):
    def polynomial(input, n):
        dtype = common_dtype(input, n)
        dtype = dtype if dtype.startswith(("float", "bfloat")) else "float32"
        return r.polynomial(r.cast(input, dtype), n if isinstance(n, (int, float)) else r.cast(n, dtype), kind)

    return polynomial


for _name, _kind in _POLYNOMIALS.items():
    define(_name, "The polynomial of degree n at the input.", _polynomial(_kind))
