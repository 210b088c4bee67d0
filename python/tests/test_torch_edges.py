# SPDX-License-Identifier: Apache-2.0
"""Functions of hg.ops at the edges of their domains, compared with torch: numbers outside a dtype, infinities, kinks, empty sums."""

import re
import types

import numpy as np
import pytest

import hologram as hg

try:
    import torch
    import torch_names
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="needs torch")


_NUMBERS = [300, -129, 255, 128, -1, 32768, 70001, 2**31, -(2**31) - 1, 2**40 + 3, 2**63 - 1, -(2**63), 2**63, 2**64, 3.7, -3.7, 128.5,
            7e4, 1e39, float("inf"), True]  # fmt: skip
_OF_NUMBERS = {
    "add": lambda T, x, n: T.add(x, n), "add_alpha": lambda T, x, n: T.add(x, x, alpha=n), "sub": lambda T, x, n: T.sub(x, n),
    "rsub": lambda T, x, n: T.rsub(x, n), "mul": lambda T, x, n: T.mul(x, n), "div": lambda T, x, n: T.div(x, n),
    "floor_divide": lambda T, x, n: T.floor_divide(x, n), "divided": lambda T, x, n: T.floor_divide(n, x), "trunc": lambda T, x, n: T.div(x, n, rounding_mode="trunc"),
    "remainder": lambda T, x, n: T.remainder(x, n), "fmod": lambda T, x, n: T.fmod(x, n), "eq": lambda T, x, n: T.eq(x, n),
    "lt": lambda T, x, n: T.lt(x, n), "ge": lambda T, x, n: T.ge(x, n), "bitwise_and": lambda T, x, n: T.bitwise_and(x, n),
    "bitwise_xor": lambda T, x, n: T.bitwise_xor(x, n), "bitwise_right_shift": lambda T, x, n: T.bitwise_right_shift(x, n),
    "copysign": lambda T, x, n: T.copysign(x, n), "where": lambda T, x, n: T.where(x > 0, n, x), "clamp": lambda T, x, n: T.clamp(x, n),
    "clamp_max": lambda T, x, n: T.clamp_max(x, n), "masked_fill": lambda T, x, n: T.masked_fill(x, x > 0, n),
    "full_like": lambda T, x, n: T.full_like(x, n), "scatter": lambda T, x, n: T.scatter(x, 0, torch.tensor([1]), n),
    "addcmul": lambda T, x, n: T.addcmul(x, x, x, value=n), "pow": lambda T, x, n: T.pow(x, n),
}  # fmt: skip
_FUNCTIONS_OF_NUMBERS = {"threshold": lambda F, x, n: F.threshold(x, 1, n), "hardtanh": lambda F, x, n: F.hardtanh(x, -1, n)}


@needs_torch
@pytest.mark.parametrize("name", [*_OF_NUMBERS, *_FUNCTIONS_OF_NUMBERS])
def test_numbers_outside_a_dtype_wrap_or_are_refused_as_torchs(name):
    function = _OF_NUMBERS.get(name) or _FUNCTIONS_OF_NUMBERS[name]
    theirs = torch if name in _OF_NUMBERS else torch.nn.functional
    for dtype in (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64):
        x = torch.tensor([0, 1, 100, 5 if dtype in (torch.bool, torch.uint8) else -5]).to(dtype)
        for number in _NUMBERS:
            where = f"{name}({dtype}, {number!r})"
            if name == "pow" and (dtype == torch.bool or (dtype.is_floating_point and abs(number) > 2**24)):
                continue  # PyTorch has a row of its own for a power of True; the sign of huge powers depends on the rounding
            want, got = torch_names.outcome(lambda: function(theirs, x, number)), torch_names.outcome(lambda: function(hg.ops, x, number))
            assert (want is None) == (got is None), f"{where}: torch gives {want}, hologram {got}"
            if want is not None:
                assert got.dtype == want.dtype, where
                rate = 2e-3 if dtype == torch.float16 else 1e-5
                torch.testing.assert_close(got, want, rtol=rate, atol=0, equal_nan=True, msg=where)


@needs_torch
def test_attention_to_nothing_is_zero():
    """A row of a float mask that is all -inf, as in PyTorch 2.5; weights that are asked for are NaN."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 2, 3, 4, requires_grad=True) for _ in "qkv")
    mask = torch.randn(3, 3)
    mask[1] = -float("inf")
    mask.requires_grad_()
    for given in (mask, mask.detach() > -1e9):
        got = hg.ops.scaled_dot_product_attention(q, k, v, given)
        want = torch.nn.functional.scaled_dot_product_attention(q, k, v, given)
        assert (got[:, :, 1] == 0).all()
        torch.testing.assert_close(got, want)
        seed = torch.randn(got.shape)
        inputs = [q, k, v, given] if given is mask else [q, k, v]
        for ours, theirs in zip(torch.autograd.grad(got, inputs, seed), torch.autograd.grad(want, inputs, seed)):
            torch.testing.assert_close(ours, theirs)
    with torch.no_grad():
        dropped = hg.ops.scaled_dot_product_attention(q, k, v, mask, dropout_p=0.5)
    assert (dropped[:, :, 1] == 0).all() and not dropped.isnan().any()
    theirs, x = torch.nn.MultiheadAttention(4, 2, dropout=0.5), torch.randn(3, 2, 4)
    ours = hg.nn.MultiheadAttention(4, 2, dropout=0.5)
    ours.load_state_dict(theirs.state_dict())
    for training in (False, True):
        y = ours.train(training)(x, x, x, attn_mask=mask.detach(), need_weights=False)[0]
        torch.testing.assert_close(y[1], ours.out_proj.bias.expand(2, 4))
        y, weights = ours(x, x, x, attn_mask=mask.detach())
        assert y[1].isnan().all() and weights[:, 1].isnan().all()


@needs_torch
def test_infinite_scores_of_attention_are_nan():
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        q, mask = torch.randn(1, 2, 3, 4, dtype=dtype), torch.zeros(3, 3, dtype=dtype)
        mask[0, 1], mask[2, 2] = float("inf"), float("nan")
        got = hg.ops.scaled_dot_product_attention(q, q, q, mask)
        assert got[:, :, [0, 2]].isnan().all() and not got[:, :, 1].isnan().any(), dtype


def _of(kind, *numbers):
    return torch.tensor(numbers, dtype=getattr(torch, kind))


_NAN, _INF = float("nan"), float("inf")
# Calls whose values, dtypes, shapes and kinds are torch's, and calls that both refuse.
_SAME = """
T.unravel_index(t("uint8", 200), (3, 300))
T.ldexp(t("float32", 2.0**-100), t("int64", 200))
T.ldexp(t("float32", 2.0**-149, 0, _INF), t("int32", 150, 300, -300))
T.ldexp(t("float64", 2.0**-1000, 2.0**-1074, 1), t("int64", 1023, 2097, 1023))
T.ldexp(t("float16", 1, 2.0**-20, 1), t("int64", 3, 20, 20))
T.logaddexp2(t("float16", 1), t("float32", 2.1))
T.logaddexp2(t("float16", 1.1), t("float16", 2.1))
T.logaddexp2(t("int64", 1), t("float32", 2.1))
T.gradient(t("float32", 1, _NAN, 3, 4, 5))
T.gradient(t("float32", 1, _INF, 3, 4, 5), edge_order=2)
T.gradient(t("float32", 1, 1e8, 3, 4, 5), edge_order=2)
T.gradient(t("float32", 1, _INF, 3, 4, 5), spacing=(t("float32", 0, 1, 3, 4, 6),), edge_order=2)
T.gradient(t("float16", 1, 2, 3), spacing=(t("float32", 1, 2, 3),))
T.trapezoid(t("uint8", 200, 200, 3))
T.trapezoid(t("int8", 100, 3, 100), dx=2)
T.trapezoid(t("int8"))
T.trapezoid(torch.zeros(0, 2, dtype=torch.int32), dim=0)
T.cumulative_trapezoid(t("int8", 100, 100, 3))
T.equal(t("int64", 1), t("float32", 1))
T.equal(t("int64", 2**53 + 1), t("float64", 2**53))
T.equal(t("float32", 0.1), t("float64", 0.1))
T.equal(t("float32", 1), t("complex64", 1))
T.equal(t("complex64", 1j), t("complex64", 1j))
T.equal(t("complex64", 1j), t("float32", 0))
T.histc(t("float16", -0.3, -0.1, 0.1, 0.3, 0.5, 0.7), 5, -0.3, 0.7)
T.histc(t("bfloat16", -1.8, -0.6, 0.6, 1.8), 5, -3, 3)
T.histc(t("float32", -1.8, -0.6, 0.6, 1.8), 5, -3, 3)
T.view_as_real(torch.ones(2, 3, dtype=torch.complex64).T)
T.cov(t("float32", 1, 2, 3)[None])
T.corrcoef(t("float32", 1, 2, 3)[None])
T.addmm(t("float32", 1), t("float32", _NAN)[None], torch.ones(1, 1), alpha=0)
T.addmm(t("float32", _NAN), torch.ones(1, 1), torch.ones(1, 1), beta=0)
T.addmv(t("float32", 1), t("float32", _NAN)[None], torch.ones(1), alpha=0)
T.addbmm(torch.ones(1, 1), t("float32", _NAN)[None, None], torch.ones(1, 1, 1), alpha=0)
T.addmm(t("int64", 1), torch.ones(2, 2).long(), torch.ones(2, 2).long(), beta=2.5, alpha=1.5)
T.addbmm(t("int8", 1), torch.full((2, 1, 1), 100, dtype=torch.int8), torch.ones(2, 1, 1, dtype=torch.int8))
T.addr(t("bool", 1), t("bool", 1), t("bool", 1), alpha=2)
T.sum(t("float32", 100, 100.7, -3), dtype=torch.uint8)
T.sum(t("int64", 2**30, 2**30, 2**30), dtype=torch.int32)
T.sum(t("float32", 0.5, 0.5), 0, dtype=torch.bool)
T.prod(t("int64", 100, 100, -3), dtype=torch.int8)
T.prod(t("int64", 2, 0), dtype=torch.bool)
T.cumsum(t("int64", 100, 100, 100), 0, dtype=torch.int8)
T.cumprod(t("int64", 100, 100, 3), 0, dtype=torch.uint8)
T.nansum(t("float32", _NAN, 2.5), dtype=torch.int32)
T.matrix_power(torch.ones(2, 2, requires_grad=True), 0)
T.all(t("int64", 1, 0, 1), dim=[])
T.any(t("uint8", 2, 0, 1), dim=())
T.max(t("float32", 1, 3, 2), 0)
T.median(t("float32", 1, 3, 2), 0)
T.sort(t("float32", 1, 3, 2))
T.topk(t("float32", 1, 3, 2), 2)
T.aminmax(t("float32", 1, 3, 2))
T.frexp(t("float32", 1, 3, 2))
T.slogdet(torch.eye(2))
T.geqrf(torch.eye(2))
T.triangular_solve(torch.ones(2, 1), torch.eye(2))
T.div(torch.arange(1, 30).half()[:, None], t("float16", 0.1, 0.3, 0.7), rounding_mode="trunc")
T.div(torch.arange(1, 30).bfloat16()[:, None], t("bfloat16", 0.1, 0.3, 0.7), rounding_mode="trunc")
T.real(torch.tensor([[1 + 2j, 3j], [4, 5 - 1j]]).t())
T.imag(torch.tensor([[1 + 2j, 3j], [4, 5 - 1j]])[:, 1])
T.angle(torch.tensor([[1 + 2j, 3j], [4, 5 - 1j]]).t())
T.isreal(torch.tensor([[1 + 2j, 3j], [4, 5 - 1j]]).t())
T.sgn(torch.tensor([[1 + 2j, 3j], [4, 5 - 1j]]).t())
T.sign(t("bool", 1, 0))
T.sgn(t("bool", 1, 0))
T.index_fill(t("float32", 1, 2, 3), 0, t("int64", -1), 5)
T.take_along_dim(t("float32", 1, 2, 3)[None], t("int64", -1, 0)[None], 1)
T.index_put(t("float32", 1, 2, 3), (t("int64", 0, -1),), torch.tensor(5.0))
T.index_put(t("float32", 1, 2, 3), (t("bool", 1, 0, 1),), torch.tensor(5.0))
T.index_put(torch.ones(2, 2), (t("int64", 0),), t("float32", 7, 8))
T.index_put(torch.ones(2, 2), (torch.eye(2) > 0,), t("float32", 7, 8), accumulate=True)
T.masked_scatter(torch.zeros(2, 2), t("bool", 1, 0)[:, None], t("float32", 1, 2))
T.masked_scatter(torch.zeros(2), torch.tensor([[True, False], [True, True]]), t("float32", 1, 2, 3))
T.index_select(t("float32", 1, 2, 3), 0, torch.tensor(1))
T.index_select(t("float32", 1, 2, 3), 0, t("int32", 2, 0))
T.index_select(torch.tensor(3.0), 0, t("int64", 0))
T.gather(t("float32", 1, 2, 3), 0, torch.tensor(1))
T.scatter(t("float32", 1, 2, 3), 0, torch.tensor(1), torch.tensor(5.0))
T.scatter_add(t("float32", 1, 2, 3), 0, t("int32", 1), t("float32", 5))
T.index_add(t("float32", 1, 2, 3), 0, t("int32", 1), t("float32", 5))
T.index_add(t("float32", 1, 2, 3), 0, torch.tensor(1), t("float32", 5))
T.index_reduce(t("float32", 1, 2, 3), 0, t("int32", 1), t("float32", 5), "prod")
T.bincount(t("int32", 1, 2, 2))
T.bincount(t("uint8", 1, 2, 2), weights=t("int64", 1, 2, 3))
T.searchsorted(t("float32", 1, 2, 3), t("int64", 2))
T.searchsorted(t("int64", 1, 2, 3), 2.5)
T.bucketize(t("float64", 2.5), t("float32", 1, 2, 3))
T.isin(t("float32", 1.5, 2), t("int64", 1, 2))
T.isin(t("int8", 1), t("int64", 257))
T.einsum(torch.ones(2, 3), [0, 1], torch.ones(3, 2), [1, 2], [0, 2])
T.einsum(torch.ones(2, 2), [..., 0], [...])
"""
_REFUSED = """
T.unravel_index(t("float32", 2), (3, 300))
T.randint(0, 300, (2,), dtype=torch.uint8)
T.randint_like(torch.zeros(2, dtype=torch.uint8), 300)
T.randint(0, 3, (2,), dtype=torch.bool)
T.randint(0, 70000, (2,), dtype=torch.float16)
T.gradient(t("uint8", 1, 2, 4))
T.trapezoid(t("bool", 1, 1))
T.scalar_tensor(1e39)
T.bernoulli(t("float32", 1.5))
T.bernoulli(t("float32", _NAN))
T.bernoulli(t("float32", 1), -0.1)
T.normal(t("float32", 1), -1.0)
T.normal(1.0, t("float32", _NAN))
T.cov(t("float32", 1, 2), fweights=t("int64", 1, -1))
T.cov(t("float32", 1, 2), fweights=t("float32", 1, 1))
T.cov(t("float32", 1, 2), aweights=t("float32", 1, -1))
T.addr(t("int64", 1), t("int64", 2), t("int64", 2), beta=0.5)
T.cumsum(t("int64", 1, 2), 0, dtype=torch.bool)
T.index_put(t("float32", 1, 2, 3), (t("int64", 4),), t("float32", 5))
T.index_fill(t("float32", 1, 2, 3), 0, t("int64", -4), 5)
T.quantile(t("float32", 1), t("float32", 1.5))
T.nanquantile(t("float32", 1), t("float32", _NAN))
T.einsum("ij->k", torch.ones(2, 2))
"""


@needs_torch
@pytest.mark.parametrize("text", _SAME.strip().split("\n"))
def test_calls_equal_torchs(text):
    want, got = (eval(text, {**globals(), "T": T, "t": _of}) for T in (torch, hg.ops))
    assert type(got) is type(want) or isinstance(got, tuple)
    for name in re.findall(r"(\w+)=", repr(want)) if hasattr(type(want), "n_fields") else []:
        assert getattr(got, name, None) is not None or name in ("device", "dtype", "size"), name
    torch.testing.assert_close(tuple(got) if isinstance(got, tuple) else got, tuple(want) if isinstance(want, tuple) else want, equal_nan=True)


@needs_torch
@pytest.mark.parametrize("text", _REFUSED.strip().split("\n"))
def test_calls_are_refused_as_torchs(text):
    for T in (torch, hg.ops):
        with pytest.raises((RuntimeError, TypeError, ValueError, IndexError)):
            eval(text, {**globals(), "T": T, "t": _of})


def test_whole_numbers_are_exact():
    assert hg.ops.scalar_tensor(2**53 + 1, dtype="int64") == 2**53 + 1 and hg.ops.full((), 2**62 + 1) == 2**62 + 1
    assert hg.ops.tensor([1.0, np.float64(3)]).dtype == np.float64 and hg.ops.tensor([3.0]).dtype == np.float32
    assert hg.ops.block_diag().shape == (1, 0)
    with pytest.raises(ValueError, match="2\\*\\*53"):
        hg.ops.randint(-(2**62), 2**62, (2,))
    if torch is not None:
        x = torch.zeros(3, requires_grad=True)
        hg.ops.entr(x).sum().backward()
        assert x.grad.isinf().all()


@needs_torch
def test_out_tells_autograd_and_refuses_lazy_tensors():
    one = torch.ones(2)
    for lazy in (torch._neg_view(torch.zeros(2)), torch.zeros(2, dtype=torch.complex64).conj().imag):
        with pytest.raises(ValueError, match="lazily negated"):
            hg.ops.add(one, 1.0, out=lazy)
    x, w = torch.ones(2, requires_grad=True), torch.full((2,), 3.0)
    y = x * w
    hg.ops.add(one, 99.0, out=w)
    if hasattr(torch.autograd.graph, "increment_version"):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


# Where formulas divide by 0, cancel or have ties: first and second derivatives are torch's.
_POINTS = """
T.elu(p)
T.selu(p)
T.celu(p, 0.7)
T.pow(p, 0)
T.pow(p, 2.0)
T.pow(p, 3)
T.float_power(p, 0)
T.clamp(p, -1.0, 1.0)
T.abs(p)
T.hardtanh(p)
T.atan2(p[:8], p[8:])
T.hypot(p[:8], p[8:])
T.xlogy(p[:8].abs(), p[8:].abs() + 1)
T.nextafter(p[:8], torch.stack([p[0], p[8], p[2], p[3], p[0], p[0], p[0], p[0]]))
T.maximum(p[:8], p[8:])
T.norm(z, 3)
T.norm(z, 4, 0)
T.dist(z, z, 3.0)
T.max(u)
T.min(u)
T.amax(q, 0)
T.std(u)
T.logsumexp(z, 0)
T.logcumsumexp(z, 0)
T.embedding_bag(torch.tensor([[0, 1, 3], [2, 2, 1]]), q, mode="max")
T.embedding_bag(torch.tensor([0, 1, 3, 2]), q, torch.tensor([0, 0, 3]), mode="max")
T.hinge_embedding_loss(u, t("float64", -1, 1, -1), reduction="none")
T.margin_ranking_loss(u, u, t("float64", -1, 1, -1), reduction="none")
T.cosine_embedding_loss(q + 1, q + 1, t("float64", -1, 1, -1, 1), margin=1.0, reduction="none")
T.smooth_l1_loss(p, torch.zeros(16).double(), reduction="none")
T.scatter_reduce(u, 0, torch.tensor([0, 0, 1, 2]), t("float64", 0, 3, 2, 0), "prod")
""".strip().split("\n")


@needs_torch
@pytest.mark.parametrize("line", _POINTS)
def test_derivatives_at_special_points_are_torchs(line):
    given = {"p": _of("float64", 0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 6, 20, -20, 0.25, 100, -100), "z": torch.zeros(3).double(),
             "q": _of("float64", 0, 0, 1, 1, 0, 0, 2, 1).reshape(4, 2), "u": torch.ones(3).double()}  # fmt: skip
    if line.startswith(("T.elu", "T.selu", "T.celu")):
        given["p"] = given["p"].float()  # e^100 is infinite
    found = []
    for module in (types.SimpleNamespace(**{name: torch_names.torch_of(name) for name in hg.ops.__all__}), hg.ops):
        leaves = {key: value.clone().requires_grad_() for key, value in given.items()}
        made = [eval(line, {"T": module, "torch": torch, "t": _of, **leaves})]
        for _ in "12":
            made = [each for each in made if each.requires_grad]
            total = sum(((each * torch.linspace(0.5, 2, each.numel()).reshape(each.shape)).sum() for each in made), torch.zeros((), requires_grad=True))
            made = torch.autograd.grad(total, list(leaves.values()), create_graph=True, materialize_grads=True)
            found.append(made)
    for want, got in zip(found[0] + found[1], found[2] + found[3]):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-8, equal_nan=True)


@needs_torch
def test_second_derivatives_where_torchs_are_not_finite_or_cancel():
    def second(function, *numbers, kind="float64"):
        x = _of(kind, *numbers).requires_grad_()
        (first,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
        return torch.autograd.grad(first.sum(), x)[0]

    same = torch.testing.assert_close
    same(second(hg.ops.sinc, 0, 1e-9, 1e-3), _of("float64", *[-np.pi**2 / 3] * 2, -np.pi**2 / 3 + np.pi**4 * 1e-6 / 10))
    same(second(hg.ops.i1e, 1e-20, -1e-20, kind="float32"), _of("float32", -1, 1))
    same(second(hg.ops.i1, 1e-3), _of("float64", 0.75e-3 / 2))
    same(second(hg.ops.erfcx, 1e4, 1e6), 2 / np.pi**0.5 / _of("float64", 1e4, 1e6) ** 3)
    # Two zeros that meet in one product: torch refuses their second derivative.
    x = _of("float64", 0, 5, 0, 2).requires_grad_()
    y = hg.ops.scatter_reduce(_of("float64", 3), 0, torch.zeros(4).long(), x, "prod")
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    same(torch.autograd.grad(first[0], x)[0], _of("float64", 0, 0, 30, 0))
    x = _of("float64", 0, 1, 0, 1).requires_grad_()
    same(torch.autograd.grad(hg.ops.binary_cross_entropy(x, _of("float64", 0, 1, 1, 0), reduction="sum"), x)[0], _of("float64", 0, 0, -1e12, 1e12))


@needs_torch
def test_linspace_of_16_bits_rounds_as_torchs():
    for count in range(1, 60):
        want = torch.linspace(-0.3, 0.7, count, dtype=torch.float16).numpy()
        np.testing.assert_array_equal(hg.ops.linspace(-0.3, 0.7, count, dtype="float16"), want)
