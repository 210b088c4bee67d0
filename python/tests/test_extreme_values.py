# SPDX-License-Identifier: Apache-2.0
"""Converted functions at the limits of their dtypes: overflow, subnormal numbers and rounded bounds."""

import numpy as np
import pytest

import hologram as hg

torch = pytest.importorskip("torch", "2.5")
from hologram import _core

if not hasattr(_core, "convert_file"):
    pytest.skip("this build has no converter", allow_module_level=True)

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


def converted(function, *args):
    """The results of the function as a model, without the check."""
    module = type("Module", (torch.nn.Module,), {"forward": staticmethod(function)})()
    results = hg.convert(module, args, check=False)(*args)
    return results if isinstance(results, tuple) else (results,)


def assert_same(got, want, **tolerance):
    torch.testing.assert_close(got, want, equal_nan=True, **tolerance or {"rtol": 0, "atol": 0})


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_ldexp_is_rounded_once(dtype):
    numbers = [1, -1.7, 0.0, -0.0, np.inf, -np.inf, np.nan, 3e-310, 5e-324, 1e-40, 1.7e308, 65504, 6e-8]
    x = torch.cat([torch.tensor(numbers, dtype=torch.float64), torch.randn(30, dtype=torch.float64)]).to(dtype)
    n = torch.cat([torch.arange(-2200, 2200, 7), torch.arange(-1080, -960), torch.arange(1000, 1080), torch.tensor([10**6, -(10**6)])])
    with np.errstate(over="ignore", under="ignore"):
        exact = np.ldexp(x.double().numpy()[:, None], n.numpy()[None])  # of 16 bits and f32, exact in the range of these
    want = torch.from_numpy(exact).to(dtype)
    for exponents in (n, n.int()):
        (got,) = converted(lambda x, n: torch.ldexp(x[:, None].expand(-1, len(n)), n), x, exponents)
        assert_same(got, want)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8], ids=str)
def test_trapezoids_of_integers_wrap_as_in_torch(dtype):
    y, x = (torch.randn(4, 9) * 100).to(dtype), (torch.randn(9) * 60).sort().values.to(dtype)

    def integrals(y, x):
        return (torch.trapezoid(y), torch.trapezoid(y, dx=0.3, dim=0), torch.cumulative_trapezoid(y, dx=2), torch.trapezoid(y, x),
                torch.cumulative_trapezoid(y, x), torch.trapezoid(y[:, :0]), torch.trapezoid(y[:, :1], dx=2))  # fmt: skip

    for got, want in zip(converted(integrals, y, x), integrals(y, x), strict=True):
        close = {torch.float64: 1e-12, torch.float16: 1e-2, torch.bfloat16: 1e-1}.get(want.dtype, 1e-5)
        assert_same(got, want, rtol=close, atol=close * 1e3 if want.numel() else 0)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_logit_rounds_its_bounds(dtype):
    x = torch.cat([torch.rand(50), torch.tensor([0.0, 1.0, 2.0, -1.0, np.nan])]).to(dtype)

    def logits(x):
        return torch.logit(x, 1e-3), torch.logit(x, 0.1), torch.logit(x, 0.7)

    for got, want in zip(converted(logits, x), logits(x), strict=True):
        close = {torch.float64: 1e-12, torch.float16: 2e-3, torch.bfloat16: 2e-2}.get(dtype, 1e-5)
        assert_same(got, want, rtol=close, atol=close)


def test_vander():
    x = torch.randn(5, dtype=torch.float64)

    def powers(x):
        return torch.vander(x), torch.vander(x, 3, increasing=True), torch.vander(x.long(), 0), torch.vander(x.mul(3).long(), 4)

    for got, want in zip(converted(powers, x), powers(x), strict=True):
        assert_same(got, want, rtol=1e-12, atol=0)
