# SPDX-License-Identifier: Apache-2.0
"""Functions of hg.ops that have torch's names: signatures and random calls compared with torch, methods and indexing of Var."""

import collections
import inspect
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

# Rows that torch has removed (they raise in torch), or whose names mean something else in torch; and schemas that number arguments.
OTHERS = {"lu", "geqrf", "align_tensors", "orgqr", "ormqr"}
# Functions for torch's processes, devices and memory.
UNUSED = {"layout", "device", "pin_memory", "requires_grad", "generator", "memory_format", "out", "names", "_stacklevel", "compute_mode",
          "sorter", "self_is_result", "memory_format_hint"}  # fmt: skip


def _described(function, name):
    """[(positional names with defaults, keyword names)] of torch's overloads."""
    F = torch.nn.functional
    unused = UNUSED
    if name.endswith("_"):  # torch describes the function that writes elsewhere
        function, unused = getattr(F, name[:-1], function), UNUSED | {"inplace"}
    function = getattr(F, f"{name}_with_indices", function)
    try:
        shown = inspect.signature(function)
        if not any(each.kind is each.VAR_POSITIONAL for each in shown.parameters.values()):
            rows = [each for each in shown.parameters.values() if each.name not in unused]
            return [[(each.name, each.default is not each.empty, each.default, each.kind is each.KEYWORD_ONLY) for each in rows]]
    except (ValueError, TypeError):
        pass
    found = []
    prefix = next((word for word in ("fft", "linalg", "special") if function is getattr(getattr(torch, word), name, None)), None)
    for schema in torch._C._jit_get_schemas_for_operator(f"aten::{prefix}_{name}" if prefix else f"aten::{name}"):
        rows = [each for each in schema.arguments if each.name not in UNUSED]
        if any(each.is_out for each in schema.arguments) or not rows:
            continue
        found.append([(each.name, each.has_default_value(), each.default_value, each.kwarg_only) for each in rows])
    return found


def _fits(ours, theirs):
    """Whether a call with the arguments of ``theirs`` means the same for ``ours``."""
    places = [each for each in ours if each.kind is each.POSITIONAL_OR_KEYWORD]
    is_open = any(each.kind is each.VAR_POSITIONAL for each in ours)
    at = 0
    for name, has_default, default, keyword_only in theirs:
        if name in ("self", "x") and all(each.name != name for each in ours):
            name = "input" if any(each.name == "input" for each in ours) else ours[0].name
        if isinstance(default, list):  # one number for all dims, or what is left out
            default = default[0] if len(set(default)) == 1 else None
        if name in ("sections", "indices") and ours[1].name == "indices_or_sections":
            name = ours[1].name
        if keyword_only:
            mine = next((each for each in ours if each.name == name), None)
        elif at < len(places):
            mine, at = places[at], at + 1
        else:
            return is_open
        if mine is None:
            return False
        if mine.name not in (name, name.upper()):  # lstsq(A, B), whose schema has b
            return False
        if has_default:
            if mine.default is mine.empty:
                return False
            value = mine.default
            default = str(default).removeprefix("torch.") if isinstance(default, torch.dtype) else default
            if default is None or value is None or value == () or name == "reduction" and isinstance(default, int):
                continue
            if value != default and not (isinstance(default, float) and abs(value - default) < 1e-12):
                return False
    return True


@needs_torch
def test_signatures_are_torchs():
    wrong, count = [], 0
    for name in hg.ops.__all__:
        function = torch_names.torch_of(name)
        if function is None or not callable(function) or name in OTHERS or inspect.ismodule(function):
            continue
        theirs = _described(function, name)
        if not theirs:
            continue
        count += 1
        ours = [each for each in inspect.signature(getattr(hg.ops, name)).parameters.values() if each.name != "out"]
        if not any(_fits(ours, each) for each in theirs):
            wrong.append(f"{name}{inspect.signature(getattr(hg.ops, name))}: {theirs[:3]}")
    assert not wrong, "\n".join(wrong)
    assert count > 220


@needs_torch
def test_every_function_of_torchs_functional_is_there():
    F = torch.nn.functional
    helpers = {"Optional", "assert_int_or_pair", "boolean_dispatch", "handle_torch_function"}
    names = {each for each in dir(F) if not each.startswith("_") and callable(getattr(F, each)) and not inspect.isclass(getattr(F, each))}
    missing = {each for each in names - set(hg.ops.__all__) - helpers if not each.startswith("has_torch_function")}
    assert not missing
    for name in ("scaled_mm", "scaled_grouped_mm"):
        with pytest.raises(ValueError, match="there is no float8 dtype"):
            getattr(hg.ops, name)(*[None] * 6)


@needs_torch
def test_functions_that_draw():
    """Shares and means of what is drawn; gradients as torch's; refusals of expressions."""
    x = np.ones((200, 50, 4), np.float32)
    with hg.Executor("cpu", seed=1):
        y = hg.ops.dropout1d(x, 0.3)
        assert set(np.unique(y)) == {np.float32(0), np.float32(1 / 0.7)} and (y.min(2) == y.max(2)).all()
        assert abs((y == 0).mean() - 0.3) < 0.02
        normal = hg.ops.randn(400, 500)
        for name in ("alpha_dropout", "feature_alpha_dropout"):
            y = getattr(hg.ops, name)(normal, 0.4, True)
            assert abs(y.mean()) < 0.02 and abs(y.std() - 1) < 0.02
        y = hg.ops.rrelu(-x, training=True)
        assert -1 / 3 <= y.min() < -0.32 and -0.13 < y.max() <= -1 / 8 and (hg.ops.rrelu(x, training=True) == x).all()
        logits = np.log(np.array([0.2, 0.3, 0.5], np.float32)) * np.ones((20000, 1), np.float32)
        hard = hg.ops.gumbel_softmax(logits, hard=True)
        np.testing.assert_array_equal(np.sort(hard, 1), np.eye(3)[[2]] * np.ones((20000, 1)))
        np.testing.assert_allclose(hard.mean(0), [0.2, 0.3, 0.5], atol=0.02)
        soft = torch.zeros(5, 3, requires_grad=True)
        hg.ops.gumbel_softmax(soft, 0.5, hard=True)[:, 0].sum().backward()
        assert soft.grad.abs().min() > 0 and soft.grad.sum().abs() < 1e-5
        pooled, places = hg.ops.fractional_max_pool2d(hg.ops.rand(2, 3, 9, 9), 2, output_ratio=0.5, return_indices=True)
        assert pooled.shape == places.shape == (2, 3, 4, 4)
    for name, args in (("gumbel_softmax", ()), ("fractional_max_pool2d", (2, 1)), ("rrelu", (0.1, 0.2, True))):
        with pytest.raises(TypeError, match=f"{name}.*expression"):
            getattr(hg.ops, name)(hg.Var(x), *args)
    v = hg.Var(x)
    assert 0.2 < (hg.ops.dropout1d(v, 0.3).numpy() == 0).mean() < 0.4
    np.testing.assert_allclose(hg.ops.local_response_norm(v, 3).grad(v).numpy(),
                               torch.func.grad(lambda a: torch.nn.functional.local_response_norm(a, 3).sum())(torch.from_numpy(x)), rtol=1e-5)  # fmt: skip


@needs_torch
def test_random_calls_are_torchs():
    for seed in range(1000):
        name, outcome, where, why = torch_names.check(seed)
        assert outcome in ("equal", "both refuse"), f"{outcome}: {where}: {why}"


@needs_torch
def test_random_gradients_are_torchs():
    outcomes = collections.Counter()
    for seed in range(600):
        name, outcome, where, why = torch_names.check_gradients(seed)
        assert outcome != "refused", f"{where}: {why}"
        outcomes[outcome] += 1
    assert outcomes["equal"] > 200


@needs_torch
def test_what_is_drawn_follows_its_distribution():
    x = np.tile(np.array([0.1, 0.5, 0.9], np.float32), (20000, 1))
    with hg.Executor("cpu", seed=2):
        np.testing.assert_allclose(hg.ops.bernoulli(x).mean(0), x[0], atol=0.02)
        whole = hg.ops.randint(-2, 3, (20000,))
        np.testing.assert_allclose(np.bincount(whole + 2) / 20000, np.full(5, 0.2), atol=0.02)
        assert whole.dtype == np.int64 and hg.ops.randint(4, (2, 3)).shape == (2, 3) and hg.ops.randint_like(x, 9).dtype == np.float32
        np.testing.assert_array_equal(np.sort(hg.ops.randperm(50)), np.arange(50))
        many = hg.ops.multinomial(np.array([0.2, 0.0, 0.5, 0.3]), 20000, True)
        np.testing.assert_allclose(np.bincount(many, minlength=4) / 20000, [0.2, 0, 0.5, 0.3], atol=0.02)
        few = hg.ops.multinomial(np.tile(np.array([1.0, 0.0, 2.0, 1.0]), (20000, 1)), 3)
        assert (np.sort(few, 1) == [0, 2, 3]).all()
        np.testing.assert_allclose((few[:, 0] == 2).mean(), 0.5, atol=0.02)
        drawn = hg.ops.normal(np.full(20000, 3.0), 0.5)
        assert abs(drawn.mean() - 3) < 0.02 and abs(drawn.std() - 0.5) < 0.02 and hg.ops.normal(0.0, 1.0, (2, 3)).shape == (2, 3)
        assert hg.ops.rand_like(x).max() < 1 and abs(hg.ops.randn_like(x).mean()) < 0.02
    for call in (lambda: hg.ops.multinomial(np.array([0.0, 1.0]), 2), lambda: hg.ops.randint(3, 3, (2,)), lambda: hg.ops.multinomial(np.array([-1.0, 2.0]), 1)):
        with pytest.raises(ValueError, match="expected"):
            call()
    for name in ("bernoulli", "rand_like", "allclose", "equal"):
        with pytest.raises(TypeError, match=f"{name}.*expression"):
            getattr(hg.ops, name)(hg.Var(x), *[x] * (name in ("allclose", "equal")))


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


def _outcome(call):
    try:
        return call()
    except (RuntimeError, TypeError, ValueError, OverflowError, ZeroDivisionError):
        return None


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
            want, got = _outcome(lambda: function(theirs, x, number)), _outcome(lambda: function(hg.ops, x, number))
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


def test_the_values_that_were_wrong():
    np.testing.assert_array_equal(hg.ops.arange(10, 2, -1), np.arange(10, 2, -1))
    np.testing.assert_array_equal(hg.ops.arange(2, 10), np.arange(2, 10))
    with pytest.raises(ValueError, match="step is 1"):
        hg.ops.arange(10, 2)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(hg.ops.reshape(x, -1), x.ravel())
    np.testing.assert_array_equal(hg.ops.reshape(x, 3, -1), x.reshape(3, 2))
    np.testing.assert_array_equal(hg.ops.pad(x, [1, 0]), np.pad(x, [(0, 0), (1, 0)]))
    assert (hg.ops.dropout(np.ones(1000, np.float32), 0.5) == 0).sum() > 300
    norm = hg.ops.layer_norm(x, (3,), np.ones(3, np.float32))
    np.testing.assert_allclose(norm.mean(-1), 0, atol=1e-6)
    out = np.empty((2, 3), np.float32)
    assert hg.ops.softmax(x, 0, out=out) is out
    np.testing.assert_allclose(out.sum(0), 1, rtol=1e-6)
    np.testing.assert_array_equal(hg.ops.sum(x, axis=0, keepdims=True), x.sum(0, keepdims=True))
    y = x - 2
    assert hg.ops.relu(y, inplace=True) is y and y.min() == 0


def test_hints_name_the_right_function():
    with pytest.raises(AttributeError, match="'flatten'"):
        hg.ops.flaten
    with pytest.raises(AttributeError, match="'transpose'"):
        hg.ops.transpos
    for name, hint in (("linalg", "hg.ops.inv"), ("from_numpy", "hg.from_numpy"), ("view_copy", "use 'view'"), ("sort_", "use 'sort'")):
        with pytest.raises(AttributeError, match=hint):
            getattr(hg.ops, name)
    if torch is not None:
        with pytest.raises(AttributeError, match="torch.lobpcg computes it"):
            hg.ops.lobpcg
    x = np.ones((2, 3), np.float32)
    for name, args in (("softmax", (x, 0)), ("add", (x, x)), ("fill", (x, 1))):
        with pytest.raises(ValueError, match=rf"^{name}: the result is f32\[2, 3\], the array to write to is f32\[3, 2\]"):
            getattr(hg.ops, name)(*args, out=np.empty((3, 2), np.float32))
        with pytest.raises(TypeError, match=f"^{name}: out is a int"):
            getattr(hg.ops, name)(*args, out=3)


def test_methods_of_expressions():
    x_ = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    x = hg.Var(x_)
    np.testing.assert_array_equal(x.reshape(-1).numpy(), x_.ravel())
    np.testing.assert_array_equal(x.reshape(6, -1).numpy(), x_.reshape(6, 4))
    np.testing.assert_array_equal(x.transpose(0, 2).numpy(), x_.transpose(2, 1, 0))
    np.testing.assert_array_equal(x.permute(2, 0, 1).numpy(), x_.transpose(2, 0, 1))
    np.testing.assert_array_equal(x.sum(1).numpy(), x_.sum(1))
    np.testing.assert_array_equal((x // 5).numpy(), x_ // 5)
    np.testing.assert_array_equal((x % 5).numpy(), x_ % 5)
    np.testing.assert_array_equal((100 // (x + 1)).numpy(), 100 // (x_ + 1))
    np.testing.assert_array_equal(x.max(2)[0].numpy(), x_.max(2))
    assert x.dim() == 3 and x.size(-1) == 4 and x.numel() == 24 and x.T.shape == (4, 3, 2) and x.double().dtype == np.float64
    assert [each.shape for each in x] == [(3, 4), (3, 4)]
    g = x[:, 1, ::2].sum().grad(x).numpy()
    want = np.zeros_like(x_)
    want[:, 1, ::2] = 1
    np.testing.assert_array_equal(g, want)
    graph = hg.Graph()
    v = graph.input("x", ("n", 3, 4))
    graph.output("y", v.flatten(1)[:, 1:] % 3)
    model = graph.model()
    np.testing.assert_array_equal(model(x_), x_.reshape(2, 12)[:, 1:] % 3)


def _key(rng, shape):
    keys, used = [], 0
    for n in shape[: int(rng.integers(0, len(shape) + 1))]:
        kind = rng.integers(6)
        if kind == 0 and n:
            keys.append(int(rng.integers(-n, n)))
        elif kind == 1 and n:
            keys.append(rng.integers(-n, n, 2))
        elif kind == 2:
            keys.append(rng.integers(0, 2, n).astype(bool))
        else:
            start, stop = (None if rng.integers(2) else int(rng.integers(-n - 1, n + 2)) for _ in range(2))
            keys.append(slice(start, stop, int(rng.integers(1, 3))))
        used += 1
    arrays = [k for k in keys if isinstance(k, np.ndarray)]
    if len(arrays) > 1:  # they would broadcast; one is enough beside slices
        first = [i for i, k in enumerate(keys) if isinstance(k, np.ndarray)][0]
        keys = [k if not isinstance(k, np.ndarray) or i == first else slice(None) for i, k in enumerate(keys)]
    if any(isinstance(k, np.ndarray) for k in keys):  # numpy moves the dims of an array index next to an integer
        keys = [slice(None) if isinstance(k, int) else k for k in keys]
    if rng.integers(3) == 0:
        keys.insert(int(rng.integers(0, len(keys) + 1)), None)
    if rng.integers(3) == 0:
        keys.append(Ellipsis)
    return tuple(keys)


@pytest.mark.parametrize("kind", ["Var", "VulkanTensor"])
def test_random_indices_equal_numpy(kind):
    rng = np.random.default_rng(5)
    for number in range(300):
        shape = tuple(int(n) for n in rng.choice([0, 1, 2, 3, 5], rng.integers(1, 4)))
        x = rng.standard_normal(shape).astype(np.float32)
        key = _key(rng, shape)
        ours = hg.Var(x) if kind == "Var" else hg.from_numpy(x)
        got = ours[key]
        np.testing.assert_array_equal(got.numpy(), x[key], err_msg=f"{number}: {shape}[{key}]")
        assert type(got) is type(ours)


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
def test_short_time_transforms_are_torchs():
    rng = np.random.default_rng(0)
    count = collections.Counter()
    for case in range(150):
        n = int(rng.choice([2, 3, 4, 5, 8, 16]))
        hop, win = (None if each == 0 else int(each) for each in (rng.integers(0, 5), rng.choice([0, n, n - 1])))
        dtype = [torch.float32, torch.float64, torch.complex64, torch.complex128][case % 4]
        real = torch.zeros((), dtype=dtype).real.dtype
        window = (torch.from_numpy(rng.random(win or n)) + 0.1).to(real) if case % 3 else None
        torch.manual_seed(case)
        x = torch.randn([(30,), (3, 40), (1, 5)][case % 3], dtype=dtype)
        named = {"hop_length": hop, "win_length": win, "window": window, "center": bool(rng.integers(0, 2)), "normalized": bool(rng.integers(0, 2)),
                 "pad_mode": str(rng.choice(["reflect", "constant", "replicate", "circular"])), "onesided": [None, False, True][case % 7 % 3]}  # fmt: skip
        want, got = (_outcome(lambda: module.stft(x, n, return_complex=case % 5 > 0, **named)) for module in (torch, hg.ops))
        assert (want is None) == (got is None), (case, n, x.shape, named)
        if want is None:
            continue
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
        count["stft"] += 1
        named.pop("pad_mode")
        named["length"] = [None, x.shape[-1], x.shape[-1] + 3][case % 11 % 3]
        if want.is_complex():
            back = [_outcome(lambda: module.istft(want, n, return_complex=case % 13 == 0, **named)) for module in (torch, hg.ops)]
            assert (back[0] is None) == (back[1] is None), (case, n, x.shape, named)
            if back[0] is not None:
                torch.testing.assert_close(back[1], back[0], rtol=1e-3, atol=1e-3)
                count["istft"] += 1
    assert count["stft"] > 60 and count["istft"] > 30
    x, window = torch.randn(2, 30, dtype=torch.float64, requires_grad=True), torch.rand(8, dtype=torch.float64, requires_grad=True)
    grads = []
    for module in (torch, hg.ops):
        y = module.stft(x, 8, window=window, return_complex=True)
        grads.append(torch.autograd.grad(module.istft(y * 2, 8, window=window).pow(2).sum() + y.abs().sum(), (x, window)))
    torch.testing.assert_close(grads[1], grads[0])


@needs_torch
def test_linspace_of_16_bits_rounds_as_torchs():
    for count in range(1, 60):
        want = torch.linspace(-0.3, 0.7, count, dtype=torch.float16).numpy()
        np.testing.assert_array_equal(hg.ops.linspace(-0.3, 0.7, count, dtype="float16"), want)


@needs_torch
def test_lu_is_that_of_linalg():
    for case, shape in enumerate([(3, 3), (2, 3, 3), (4, 2), (2, 4), (2, 1, 3, 5), (1, 1)]):
        torch.manual_seed(case)
        a = torch.randn(shape, dtype=torch.float64, requires_grad=True)
        want, got = torch.linalg.lu(a), hg.ops.lu(a)
        grads = []
        for p, low, up in (want, got):
            grads.append(torch.autograd.grad((low * torch.arange(low.numel()).reshape(low.shape)).sum() + (up**2).sum(), a)[0])
        torch.testing.assert_close((*got, grads[1]), (*want, grads[0]))
    p, low, up = hg.ops.lu(np.array([[0.0, 2], [1, 3]]))
    np.testing.assert_array_equal(p @ low @ up, [[0, 2], [1, 3]])


def test_poisson_draws_numbers_of_events():
    with hg.Executor("cpu", seed=3):
        for rate in (0.1, 3.5, 1000):
            drawn = hg.ops.poisson(np.full(20000, rate, np.float32))
            assert abs(drawn.mean() - rate) < 4 * (rate / 20000) ** 0.5 and abs(drawn.var() / rate - 1) < 0.1 and (drawn == drawn.round()).all()
        assert (hg.ops.poisson(np.zeros(4)) == 0).all() and hg.ops.poisson(np.zeros((0, 2), np.float32)).shape == (0, 2)
    for rates in (np.array([-1.0]), np.array([np.nan]), np.array([np.inf]), np.array([1])):
        with pytest.raises(ValueError, match="poisson: "):
            hg.ops.poisson(rates)


@pytest.mark.parametrize("name", ["abs_", "zero_", "relu_", "exp_"])
def test_functions_that_write_to_their_input_say_so(name):
    for given in (None, 3, [1.0, 2.0], "a", hg.Var(np.ones(2, np.float32))):
        with pytest.raises(TypeError, match=rf"^{name}\(\) writes to its input, "):
            getattr(hg.ops, name)(given)
    with pytest.raises(ValueError, match=f"^{name}: "):
        getattr(hg.ops, name)(np.array([["a"]]))
