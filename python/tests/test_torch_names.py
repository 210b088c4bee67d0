# SPDX-License-Identifier: Apache-2.0
"""Functions of hg.ops that have torch's names: signatures and random calls compared with torch, methods and indexing of Var."""

import collections
import inspect

import numpy as np
import pytest

import hologram as hg

try:
    import torch
    import torch_names
    import transform_cases
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
@pytest.mark.filterwarnings("ignore:at::.* is deprecated")
@pytest.mark.parametrize("cases, count", [("name", 1000), ("transform", 1500), ("linalg", 2500)])
def test_random_calls_are_torchs(cases, count):
    families, equal = torch_names.FAMILIES[cases], collections.Counter()
    for seed in range(count):
        name, outcome, where, why = torch_names.check(seed, families)
        is_mkls = cases == "transform" and outcome == "wider" and "MKL FFT error" in why  # it fails for some transforms of no elements
        assert outcome in ("equal", "both refuse") or is_mkls, f"{outcome}: {where}: {why}"
        equal[name] += outcome == "equal"
    if cases == "transform":
        assert all(equal[name] > 3 for name in (*transform_cases.FFT, *transform_cases.LINALG, "renorm", "vander", "lu_unpack", "pinverse")), equal
    if cases == "linalg":
        assert len(equal) > 40 and all(each > 3 for each in equal.values()), equal


@needs_torch
@pytest.mark.filterwarnings("ignore:at::.* is deprecated")
@pytest.mark.parametrize("cases, count, least", [("name", 600, 200), ("transform", 700, 200), ("linalg", 1000, 300)])
def test_random_gradients_are_torchs(cases, count, least):
    outcomes = collections.Counter()
    for seed in range(count):
        name, outcome, where, why = torch_names.check_gradients(seed, torch_names.FAMILIES[cases])
        assert outcome != "refused", f"{where}: {why}"
        outcomes[outcome] += 1
    assert outcomes["equal"] > least


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
