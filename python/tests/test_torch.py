# SPDX-License-Identifier: Apache-2.0
"""Results compared with PyTorch, which is the reference."""

import gc

import numpy as np
import pytest
from conftest import mlp, pointwise

import hologram as hg
from hologram import _core

torch = pytest.importorskip("torch", "2.5")

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
          torch.int8, torch.uint8, torch.bool, torch.complex64, torch.complex128]  # fmt: skip


# -- Calls ----------------------------------------------------------------------------------------


def test_torch_in_torch_out():
    model = pointwise(shape=("n", "m"))
    base = torch.randn(6, 8)
    for a in (base, base.t(), base[::2, 1::3], base[:0], base[0].expand(3, 8), base.flip(0)):
        y = model(a, a)
        assert isinstance(y, torch.Tensor) and y.shape == a.shape
        torch.testing.assert_close(y, torch.relu(a + a) * a, rtol=0, atol=0)
        assert _core.describe(a)[3] == a.data_ptr()
        assert _core.describe(a)[2] == a.stride()
    mixed = model(base, base.numpy())
    assert isinstance(mixed, torch.Tensor)
    out = torch.empty(6, 8)
    assert model(base, base, out=out) is out
    torch.testing.assert_close(out, torch.relu(base + base) * base, rtol=0, atol=0)
    kept = [model(base * i, base * i) for i in range(5)]
    for i, y in enumerate(kept):
        torch.testing.assert_close(y, torch.relu(base * i * 2) * base * i)


def test_gradients_do_not_vanish_silently():
    a = torch.ones(3, requires_grad=True)
    model = pointwise()
    with pytest.raises(ValueError, match="requires a gradient"):
        model(a, a)
    with torch.no_grad():
        assert not model(a, a).requires_grad
    assert not model(a.detach(), a.detach()).requires_grad


def test_lazily_conjugated_and_negated_tensors():
    z = torch.randn(4, dtype=torch.complex64)
    for lazy in (z.conj(), z.conj().imag, z.imag):
        assert torch.equal(_core.copy(lazy, "torch"), lazy.resolve_conj().resolve_neg().contiguous())


def test_tensors_that_have_no_memory_here():
    with pytest.raises(ValueError, match="meta|host|memory|read"):
        pointwise()(torch.ones(3, device="meta"), torch.ones(3))
    with pytest.raises(ValueError):
        pointwise()(torch.ones(3).to_sparse(), torch.ones(3))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_round_trips_are_bit_exact(dtype):
    size = 64 * torch.empty(0, dtype=dtype).element_size()
    raw = torch.randint(0, 2 if dtype == torch.bool else 256, (size,), dtype=torch.uint8)
    a = raw.view(dtype)
    shared = hg.from_torch(a)
    assert shared.torch().data_ptr() == a.data_ptr() and shared.torch().dtype == dtype
    assert torch.equal(hg.to_torch(hg.to_numpy(a)).view(torch.uint8), raw)
    assert hg.to_numpy(a).__array_interface__["data"][0] == a.data_ptr()
    assert hg.validate_tensor_compatible(a)
    assert torch.equal(_core.copy(a, "torch").view(torch.uint8), raw)


def test_bfloat16_through_numpy():
    a = torch.tensor([1.5, -2.0, 3.0], dtype=torch.bfloat16)
    y = hg.ops.add(a, a)
    assert y.dtype == torch.bfloat16 and torch.equal(y, a + a)
    b = hg.to_numpy(a)
    assert b.dtype.itemsize == 2
    assert torch.equal(hg.to_torch(hg.ops.add(b, b)), a + a)


def test_no_leak():
    model = pointwise()
    a = torch.randn(1000)
    for _ in range(100):
        model(a, a)
    gc.collect()
    count = len(gc.get_objects())
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(20000):
        model(a, a)
    gc.collect()
    assert len(gc.get_objects()) < count + 100
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20000  # KiB; results alone were 80 MB


# -- Ops ------------------------------------------------------------------------------------------


def test_ops_and_their_gradients():
    torch.manual_seed(1)
    cases = [
        (lambda o, x, w: o.relu(x), lambda x, w: torch.relu(x)),
        (lambda o, x, w: o.linear(x, w), lambda x, w: x @ w.T),
        (lambda o, x, w: o.softmax(x, -1), lambda x, w: torch.softmax(x, -1)),
        (lambda o, x, w: o.mul(x, x), lambda x, w: x * x),
        (lambda o, x, w: o.gelu(x), lambda x, w: torch.nn.functional.gelu(x)),
        (lambda o, x, w: o.add(x, 2), lambda x, w: x + 2),
        (lambda o, x, w: o.topk(x, 2)[0], lambda x, w: torch.topk(x, 2)[0]),
        (lambda o, x, w: o.permute(x, [1, 0]), lambda x, w: x.t()),
    ]
    for ours, theirs in cases:
        x, w = torch.randn(3, 5, requires_grad=True), torch.randn(4, 5, requires_grad=True)
        x2, w2 = x.detach().clone().requires_grad_(), w.detach().clone().requires_grad_()
        y, y2 = ours(hg.ops, x, w), theirs(x2, w2)
        torch.testing.assert_close(y, y2)
        dy = torch.randn_like(y2)
        y.backward(dy)
        y2.backward(dy)
        torch.testing.assert_close(x.grad, x2.grad)
        if w2.grad is not None:
            torch.testing.assert_close(w.grad, w2.grad)
    with torch.no_grad():
        out = torch.empty(3)
        assert hg.ops.add(torch.ones(3), torch.ones(3), out=out) is out


def test_whether_any_and_all_of_uint8_are():
    """uint8 gives uint8, other dtypes give bool, however the ops run."""
    for dtype in DTYPES[:-2]:
        x = torch.tensor([[0, 3, 1], [2, 5, 1]]).to(dtype)
        for name in ("any", "all"):
            op, reference = getattr(hg.ops, name), getattr(torch, name)
            for ours, want in ((op(x), reference(x)), (op(x, [1], True), reference(x, 1, True)), (op(x[:0], [0]), reference(x[:0], 0))):
                assert ours.dtype == want.dtype and torch.equal(ours, want)
            want = reference(x, 0)
            assert torch.equal(op(hg.Var(x), [0]).torch(), want) and op(hg.Var(x), [0]).torch().dtype == want.dtype
            g = hg.Graph()
            g.output("y", op(g.input("x", (2, 3), str(dtype)[6:]), [0]))
            assert g.model()(x).dtype == want.dtype


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_gradients_at_the_ends(dtype):
    """relu passes NaN on, and an overflow inside gelu gives no NaN."""
    large = {torch.float16: 6e4, torch.float32: 1e30, torch.bfloat16: 1e30, torch.float64: 1e300}[dtype]
    x = torch.tensor([float("nan"), -0.0, 0.0, 2.0, -2.0, 30.0, -30.0, 300.0, -300.0, large, -large], dtype=dtype)
    for ours, theirs in (
        (hg.ops.relu, torch.relu),
        (lambda x: hg.ops.gelu(x, approximate="tanh"), lambda x: torch.nn.functional.gelu(x.double(), approximate="tanh").to(x.dtype)),
    ):
        a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
        ours(a).sum().backward()
        theirs(b).sum().backward()
        want = torch.where(x.abs() > 100, (x > 0).to(dtype), b.grad)  # where torch's own overflows
        torch.testing.assert_close(a.grad, want, rtol=1e-2, atol=1e-2, equal_nan=True)


# -- Kernels --------------------------------------------------------------------------------------


def test_the_polynomial_in_autograd():
    k = hg.kernel("polynomial", "a*x*x + b*x + c")
    x = torch.tensor([1.0, 2, 3, 4], requires_grad=True)
    y = k(a=2, b=8, c=-1, x=x)
    assert y.tolist() == [9, 23, 41, 63]
    y.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [12, 16, 20, 24]
    y.sum().backward()  # a graph that was kept
    assert x.grad.tolist() == [24, 32, 40, 48]
    with torch.no_grad():
        out = torch.empty(4)
        assert k(2, x, 8, -1, out=out) is out and out.tolist() == [9, 23, 41, 63]
    with pytest.raises(ValueError, match="out="):
        k(2, x, 8, -1, out=torch.empty(4))


def test_random_kernel_calls_equal_autograd():
    generator = torch.Generator().manual_seed(5)
    k = hg.kernel("poly", "a*x*x + b*x + c")

    def rand(*shape, dtype=torch.float32):
        return torch.randn(shape, generator=generator).to(dtype)

    for i in range(300):
        dtype = torch.float64 if i % 3 == 0 else torch.float32
        shape = [int(n) for n in torch.randint(0, 4, (2,), generator=generator)]
        make = [
            lambda: rand(*shape, dtype=dtype),
            lambda: rand(*reversed(shape), dtype=dtype).t(),
            lambda: rand(shape[0], 2 * shape[1], dtype=dtype)[:, ::2],
            lambda: rand(1, shape[1], dtype=dtype).expand(*shape) if shape[0] else rand(*shape, dtype=dtype),
            lambda: rand(shape[1], dtype=dtype),
            lambda: rand(dtype=dtype),
        ]
        pick = torch.randint(0, len(make), (4,), generator=generator).tolist()
        values = [make[p]() for p in pick]
        ours = [v.detach().requires_grad_() for v in values]
        theirs = [v.detach().clone().requires_grad_() for v in values]
        y = k(*ours)
        a, x, b, c = theirs
        want = a * x * x + b * x + c
        torch.testing.assert_close(y, want)
        dy = rand(*want.shape, dtype=dtype) if want.dim() else rand(dtype=dtype)
        y.backward(dy)
        want.backward(dy)
        for p, q in zip(ours, theirs):
            torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-5)


def test_a_backward_of_ones_own():
    k = hg.kernel("scaled", "y = x * 2", backward="dx = dy * 10")
    x = torch.ones(3, requires_grad=True)
    k(x).sum().backward()
    assert x.grad.tolist() == [10, 10, 10]


def test_gradients_of_gradients_of_models_are_an_error_and_no_constant(rng):
    """Also if the result's gradient, here of a sum, does not require gradients."""
    wrapped = hg.torch.wrap(mlp(rng)[0])
    x = torch.randn(4, 8, requires_grad=True)
    (slope,) = torch.autograd.grad(wrapped(x).sum(), x, create_graph=True)
    penalty = wrapped(x).mean() + slope.square().sum()
    with pytest.raises(RuntimeError, match="gradients of gradients"):
        penalty.backward()
    (again,) = torch.autograd.grad(wrapped(x).sum(), x)
    torch.testing.assert_close(again, slope)


def test_transforms_of_models(rng):
    wrapped = hg.torch.wrap(mlp(rng)[0])
    x = torch.randn(4, 8)
    leaf = x.clone().requires_grad_()
    wrapped(leaf).square().sum().backward()
    torch.testing.assert_close(torch.func.grad(lambda x: wrapped(x).square().sum())(x), leaf.grad)
    torch.testing.assert_close(torch.vmap(wrapped)(x.unsqueeze(1)).squeeze(1), wrapped(x))
    each = torch.vmap(torch.func.grad(lambda x: wrapped(x.unsqueeze(0)).square().sum()))(x)
    torch.testing.assert_close(each, leaf.grad)
    torch.testing.assert_close(torch.func.grad(lambda x: torch.vmap(lambda x: wrapped(x.unsqueeze(0)))(x).square().sum())(x), leaf.grad)
    with pytest.raises(RuntimeError, match="forward mode"):
        torch.func.jvp(wrapped, (x,), (x,))
    with torch.autograd.forward_ad.dual_level(), pytest.raises(RuntimeError, match="forward mode"):
        wrapped(torch.autograd.forward_ad.make_dual(x, x))
    with pytest.raises(RuntimeError, match="gradients of gradients"):
        torch.func.grad(lambda x: torch.func.grad(lambda x: wrapped(x).square().sum())(x).square().sum())(x)


def test_numpy_beside_what_requires_a_gradient():
    """The backward pass does not see a later write to the array."""
    kernel = hg.kernel("product", "a * b")
    for f in (kernel, hg.ops.mul):
        a, b = torch.ones(3, requires_grad=True), np.full(3, 2, np.float32)
        y = f(a, b)
        b[:] = 100
        y.sum().backward()
        assert a.grad.tolist() == [2, 2, 2]


def test_places_of_kernels():
    """out= may be an argument or overlap one; it may not repeat an element or be two outputs at once."""
    square, pair = hg.kernel("square", "x * x"), hg.kernel("pair", "a = x * 2; b = x * 3")
    x = torch.arange(6.0)
    assert square(x, out=x) is x and x.tolist() == [0, 1, 4, 9, 16, 25]
    x = torch.arange(6.0)
    square(x[:-1], out=x[1:])
    assert x.tolist() == [0, 0, 1, 4, 9, 16]
    x = np.arange(6, dtype=np.float32)
    square(x, out=x[::-1])
    assert x.tolist() == [25, 16, 9, 4, 1, 0]
    for out in (torch.zeros(1).expand(6), np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (6,), (0,))):
        with pytest.raises(ValueError, match="overlap"):
            square(x, out=out)
    both = np.zeros(6, np.float32)
    with pytest.raises(ValueError, match="overlap"):
        pair(x, out=[both, both])
    for out, words in ((np.zeros(6), "f64"), (np.zeros(5, np.float32), r"\[5\]"), ([both], "2 tensors")):
        with pytest.raises(ValueError, match=words):
            (pair if isinstance(out, list) else square)(x, out=out)
    for number in (2**63, -(2**63) - 1):
        with pytest.raises(ValueError, match=f"x is {number}, which int64 does not hold"):
            square(number)


def test_kernels_do_not_leak():
    k = hg.kernel("square", "x * x")
    x = torch.ones(1000, requires_grad=True)
    for i in range(10000):
        if i == 200:
            gc.collect()
            count, made = len(gc.get_objects()), k.sessions_made
        x.grad = None
        k(x).sum().backward()
    gc.collect()
    assert len(gc.get_objects()) < count + 100
    assert k.sessions_made == made


# -- Var ------------------------------------------------------------------------------------------


def test_lazy_on_torch():
    a = torch.randn(3)
    v = hg.Var(a)
    y = (2 * v + 1).value()
    assert isinstance(y, torch.Tensor)
    torch.testing.assert_close(y, 2 * a + 1)
    a.add_(1)  # memory is shared
    torch.testing.assert_close((2 * v + 1).torch(), 2 * a + 1)


def test_calls_by_position_leave_to_autograd_what_is_its():
    x = torch.arange(6.0).reshape(2, 3)
    w = torch.nn.Parameter(x.clone())
    y = hg.ops.mul(w, x)
    y.sum().backward()
    assert torch.equal(w.grad, x) and y.requires_grad
    with torch.no_grad():
        assert torch.equal(hg.ops.mul(w, x), x * x) and not hg.ops.mul(w, x).requires_grad
    z = torch.complex(x, x + 1)
    assert torch.equal(hg.ops.add(z.conj().imag, 0.0), -(x + 1)) and torch.equal(hg.ops.add(torch._neg_view(x), x), x * 0)
    assert torch.equal(hg.ops.view_as_real(z.conj()), torch.view_as_real(z.conj().resolve_conj()))
    assert torch.equal(torch.func.vmap(lambda a: hg.ops.add(a, a))(x), x + x)
    assert torch.equal(torch.func.grad(lambda a: hg.ops.mul(a, a).sum())(x), 2 * x)
    traced = torch.jit.trace(lambda a: hg.ops.add(a, a), x, check_trace=False)
    assert torch.equal(traced(x + 1), 2 * x + 2)
    assert isinstance(hg.ops.add(x.numpy(), x), torch.Tensor)


def test_lp_pools_of_zeros_have_gradients_of_zero():
    x = torch.tensor([[0.0, 0.0, 3.0, 4.0]], requires_grad=True)
    (gradient,) = torch.autograd.grad(hg.ops.lp_pool1d(x, 2, 2).sum(), x)
    torch.testing.assert_close(gradient, torch.tensor([[0.0, 0.0, 0.6, 0.8]]))


def test_windows_of_padding_alone_have_no_gradient():
    x = torch.ones(2, 3, 1, dtype=torch.float64, requires_grad=True)
    y = hg.ops.max_pool1d(x, 2, padding=1, dilation=2)  # its windows begin at -1 and end at 1
    assert y.shape == (2, 3, 1) and torch.isneginf(y).all()
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert not gradient.any()


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_what_make_fx_records_is_no_constant(mode):
    """A result that is computed here would stand in the program for all inputs: it is refused, unless a custom op wraps it."""
    from torch.fx.experimental.proxy_tensor import make_fx

    kernel, layer, x = hg.kernel("squares", "x * x"), hg.nn.Linear(3, 2), torch.randn(2, 3)
    for function in (hg.ops.relu, lambda x: hg.ops.sum(x, 1), kernel, layer):
        for grad in (False, True):
            with pytest.raises(ValueError, match="is recorded by make_fx or torch.export.*custom_op"):
                make_fx(function, tracing_mode=mode)(x.clone().requires_grad_(grad))
    assert hg.ops.relu(x).equal(x.relu())
    op = torch.library.custom_op(f"acme::relu_{mode}", lambda x: hg.ops.relu(x), mutates_args=(), schema="(Tensor x) -> Tensor")
    op.register_fake(torch.empty_like)
    program = make_fx(lambda x: op(x) + 1, tracing_mode=mode)(x)
    y = torch.randn(2, 3)
    torch.testing.assert_close(program(y), y.relu() + 1)
