# SPDX-License-Identifier: Apache-2.0
"""Forward mode, torch.func and higher-order gradients compared with PyTorch: the same numbers, or an error."""

import numpy as np
import pytest
from conftest import mlp

import hologram as hg

torch = pytest.importorskip("torch", "2.5")
from torch.autograd import forward_ad
from torch.func import functional_call, functionalize, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

F = torch.nn.functional


def _ops(x, w):
    y = hg.ops.linear(hg.ops.tanh(x), w)
    return hg.ops.softmax(hg.ops.mul(y, hg.ops.sin(y)), -1)


def _ops_of_torch(x, w):
    y = F.linear(torch.tanh(x), w)
    return torch.softmax(y * torch.sin(y), -1)


KERNEL = hg.kernel("wave", "a*x*x + sin(x*b)")
OTHER_BACKWARD = hg.kernel("scaled", "y = x * x", backward="dx = dy * 10 * x")
WITH_DEFAULTS = hg.kernel("leak", "(x, a = 2, b = 0.5) -> a*x*x*b + sin(a*x)")
FIRST = hg.kernel("two", "y = x * x * w; z = cos(x)")


class _Ten(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, dy):
        return dy * 10 * ctx.saved_tensors[0]

    @staticmethod
    def jvp(ctx, t):
        return t * 10 * ctx.saved_tensors[0]

    generate_vmap_rule = True


class _Norm(torch.nn.LayerNorm):
    """layer_norm by its formula: torch's own has wrong third derivatives, and wrong second ones in forward mode."""

    def forward(self, x):
        off = x - x.mean(-1, keepdim=True)
        return off / torch.sqrt(off.square().mean(-1, keepdim=True) + self.eps) * self.weight + self.bias


def _layers(module, norm):
    torch.manual_seed(0)
    net = torch.nn.Sequential(module.Linear(3, 4), module.GELU(), norm(4), module.Linear(4, 3), module.Softplus())
    return net.double()


def _conv_net(module):
    torch.manual_seed(0)
    net = torch.nn.Sequential(module.Conv1d(1, 2, 2, padding=1), module.ELU(), module.AvgPool1d(2), module.Flatten(0), module.Linear(4, 2))
    return net.double()


OURS, TORCHS = _layers(hg.nn, hg.nn.LayerNorm), _layers(torch.nn, _Norm)
CONVS, TORCH_CONVS = _conv_net(hg.nn), _conv_net(torch.nn)

# Functions of x [3] and w [3, 3], ours and torch's.
FACES = {
    "ops": (_ops, _ops_of_torch),
    "kernel": (lambda x, w: KERNEL(2.0, x, w), lambda x, w: 2 * x * x + torch.sin(x * w)),
    "defaults": (lambda x, w: WITH_DEFAULTS(x, b=3), lambda x, w: 6 * x * x + torch.sin(2 * x)),
    "two outputs": (lambda x, w: FIRST(x, w)[0] + FIRST(x, w)[1], lambda x, w: x * x * w + torch.cos(x)),
    "one of two": (lambda x, w: FIRST(x, w)[1], lambda x, w: torch.cos(x) + 0 * w),
    "a backward of one's own": (lambda x, w: OTHER_BACKWARD(x), lambda x, w: _Ten.apply(x)),
    "layers": (lambda x, w: OURS(x) @ w, lambda x, w: TORCHS(x) @ w),
    "convolutions": (lambda x, w: CONVS(x.unsqueeze(0)), lambda x, w: TORCH_CONVS(x.unsqueeze(0))),
    "an index": (lambda x, w: hg.ops.topk(x, 2)[0], lambda x, w: torch.topk(x, 2)[0]),
    "a view": (lambda x, w: hg.ops.permute(w, [1, 0]), lambda x, w: w.t() * 1),
    "a number": (lambda x, w: hg.ops.add(x, 2), lambda x, w: x + 2),
    "numpy": (lambda x, w: hg.ops.mul(x, np.full(3, 2.0)), lambda x, w: x * 2),
    "a loss": (lambda x, w: hg.nn.MSELoss()(x, x * 2 + 1), lambda x, w: F.mse_loss(x, x * 2 + 1)),
}


def _inputs(seed=0):
    torch.manual_seed(seed)
    return torch.randn(3, dtype=torch.float64), torch.randn(3, 3, dtype=torch.float64)


def _same(a, b):
    torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)


def _dual(f, x, w, tx, tw):
    with forward_ad.dual_level():
        y = f(forward_ad.make_dual(x, tx), w if tw is None else forward_ad.make_dual(w, tw))
        return tuple(forward_ad.unpack_dual(y))


def _no_grad_dual(f, *args):
    with torch.no_grad():
        return _dual(f, *args)


def _scalar(f):
    def total(x, w):
        y = f(x, w)
        return (y * torch.arange(1.0, 4.0, dtype=torch.float64)[: y.shape[-1] if y.dim() else 1]).sum()

    return total


def _penalty(f, x, w):
    x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
    (dx,) = torch.autograd.grad(_scalar(f)(x, w), x, create_graph=True, allow_unused=True)
    if dx is None:
        return ()
    total = f(x, w).mean() + dx.square().sum()
    if not total.requires_grad:
        return (total,)
    total.backward()
    return dx.detach(), x.grad, w.grad


def _third(f, x, w):
    x = x.clone().requires_grad_()
    d, found = _scalar(f)(x, w), []
    while d is not None and d.requires_grad and len(found) < 3:
        (d,) = torch.autograd.grad(d.sum(), x, create_graph=True, allow_unused=True)
        found.append(torch.zeros_like(x) if d is None else d.detach())
    return tuple(found + [torch.zeros_like(x.detach())] * (3 - len(found)))


TRANSFORMS = {
    "dual": lambda f, x, w: _dual(f, x, w, x.sin(), w.cos()),
    "dual, one input": lambda f, x, w: _dual(f, x, w, x.sin(), None),
    "dual, no_grad": lambda f, x, w: _no_grad_dual(f, x, w, x.sin(), w.cos()),
    "dual, requires_grad": lambda f, x, w: tuple(t.detach() for t in _dual(f, x.clone().requires_grad_(), w, x.sin(), w.cos())),
    "jvp": lambda f, x, w: jvp(f, (x, w), (x.sin(), w.cos())),
    "vjp": lambda f, x, w: vjp(f, x, w)[1](torch.ones_like(f(x, w))),
    "grad": lambda f, x, w: grad(_scalar(f), argnums=(0, 1))(x, w),
    "vmap": lambda f, x, w: vmap(f, in_dims=(0, None))(torch.stack([x, 2 * x]), w),
    "vmap, another dim": lambda f, x, w: vmap(f, in_dims=(1, 0), out_dims=-1)(torch.stack([x, 2 * x], 1), torch.stack([w, -w])),
    "jacrev": lambda f, x, w: jacrev(f, argnums=(0, 1))(x, w),
    "jacfwd": lambda f, x, w: jacfwd(f, argnums=(0, 1))(x, w),
    "hessian": lambda f, x, w: hessian(f)(x, w),
    "jacfwd of jacfwd": lambda f, x, w: jacfwd(jacfwd(f))(x, w),
    "jacrev of jacrev": lambda f, x, w: jacrev(jacrev(f))(x, w),
    "each sample's gradient": lambda f, x, w: vmap(grad(_scalar(f)), in_dims=(0, None))(torch.stack([x, 2 * x]), w),
    "jvp of grad": lambda f, x, w: jvp(grad(_scalar(f)), (x, w), (x.sin(), w.cos())),
    "grad of jvp": lambda f, x, w: grad(lambda x: jvp(f, (x, w), (w[0], w))[1].sum())(x),
    "penalty": _penalty,
    "third order": _third,
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("face", FACES)
def test_numbers_are_torchs(face, transform):
    ours, theirs = FACES[face]
    try:
        want = TRANSFORMS[transform](theirs, *_inputs())
    except RuntimeError as error:
        if face != "a backward of one's own":
            raise
        pytest.skip(f"torch's own function: {error}")
    if face == "a backward of one's own" and transform == "jacfwd of jacfwd":
        want = 10 * torch.eye(3, dtype=torch.float64).diag_embed()  # torch loses tangents of tangents
    got = TRANSFORMS[transform](ours, *_inputs())
    if transform == "penalty":
        want = tuple(torch.zeros(()) if each is None else each for each in want)
        got = tuple(torch.zeros(()) if each is None else each for each in got)
        want = tuple(w.to(g.dtype).expand_as(g) if w.dim() == 0 else w for w, g in zip(want, got, strict=True))
        got = tuple(g.to(w.dtype).expand_as(w) if g.dim() == 0 else g for w, g in zip(want, got, strict=True))
    _same(got, want)


def test_a_function_of_no_samples():
    x = torch.randn(0, 3, dtype=torch.float64)
    w = _inputs()[1]
    got, want = (vmap(f, in_dims=(0, None))(x, w) for f in FACES["ops"])
    assert got.shape == want.shape == (0, 3)


def test_parameters_by_functional_call():
    x = torch.randn(5, 3, dtype=torch.float64)

    def losses(net):
        parameters = {name: p.detach() for name, p in net.named_parameters()}

        def loss(parameters, x):
            return functional_call(net, parameters, (x,)).square().sum()

        return vmap(grad(loss), in_dims=(None, 0))(parameters, x), grad(loss)(parameters, x)

    _same(losses(OURS), losses(TORCHS))


@pytest.mark.parametrize("face", ["ops", "kernel", "layers"])
def test_functionalize_is_refused(face):
    with pytest.raises(RuntimeError, match="[Ff]unctionalize"):
        functionalize(FACES[face][0])(*_inputs())


def test_logcumsumexp_in_both_modes():
    x, t = torch.tensor([0.5, 1, 2, -3, 4, -1], dtype=torch.float64), torch.randn(6, dtype=torch.float64)
    for function in (lambda f: jvp(f, (x,), (t,))[1], lambda f: jacfwd(f)(x), lambda f: jacrev(f)(x), lambda f: hessian(f)(x)):
        _same(function(lambda z: hg.ops.logcumsumexp(z, 0)), function(lambda z: torch.logcumsumexp(z, 0)))


def test_results_that_are_no_floats():
    x = torch.randn(4, dtype=torch.float64)
    y, t = jvp(lambda x: hg.ops.mul(x, hg.ops.gt(x, 0).to(x.dtype)), (x,), (torch.ones_like(x),))
    _same(t, (x > 0).double())
    with forward_ad.dual_level():
        values, indices = hg.ops.sort(forward_ad.make_dual(x, torch.arange(4.0, dtype=x.dtype)))
        _same(forward_ad.unpack_dual(values).tangent, torch.arange(4.0, dtype=x.dtype)[indices])


# -- Unsupported transforms raise an error --------------------------------------------------------


def _own_op():
    return hg.register_op("transforms.half(x) -> y", lambda x: x / 2, gradient=lambda dy: dy / 2)


HALF = _own_op()


def test_an_own_op_with_a_function_as_gradient():
    x = torch.randn(3, dtype=torch.float64)
    _same(grad(lambda x: HALF(x).sum())(x), torch.full_like(x, 0.5))
    _same(vmap(HALF)(x), x / 2)
    _same(jacrev(HALF)(x), torch.eye(3, dtype=x.dtype) / 2)
    with pytest.raises(hg.UnsupportedError, match="half.gradient"):
        jvp(HALF, (x,), (x,))
    with pytest.raises(hg.UnsupportedError, match="half.gradient"):
        leaf = x.clone().requires_grad_()
        (d,) = torch.autograd.grad(HALF(leaf).square().sum(), leaf, create_graph=True)
        d.sum().backward()


def test_what_draws_random_numbers():
    x = torch.ones(8, requires_grad=True)
    with pytest.raises(RuntimeError, match="dropout draws anew"):
        hg.ops.dropout(x, 0.5, training=True)
    with pytest.raises(RuntimeError, match="dropout draws anew"):
        vmap(lambda x: hg.ops.dropout(x, 0.5, training=True))(x.detach())
    hg.ops.dropout(x, 0.5, training=False).sum().backward()
    assert x.grad.tolist() == [1.0] * 8
    with torch.no_grad():
        assert set(hg.ops.dropout(x, 0.5, training=True).tolist()) <= {0.0, 2.0}


def _model():
    return mlp(np.random.default_rng(0))[0]


REFUSING = {
    "model": lambda x: _model()(x),
    "session": lambda x: _model().session()(x),
    "var": lambda x: (hg.Var(x) * 2).torch(),
    "gradients of a kernel": lambda x: KERNEL.grad(2.0, x, 3.0, wrt=["x"]),
    "out of an op": lambda x: hg.ops.add(torch.ones(2, 8), 1.0, out=x),
    "out of a kernel": lambda x: KERNEL(2.0, torch.ones(2, 8), 3.0, out=x),
    "a struct of a kernel": lambda x: hg.kernel("s", "y = p.mass * 2")(p={"mass": x}),
}


@pytest.mark.parametrize("face", REFUSING)
def test_elsewhere_they_are_refused(face):
    x = torch.randn(2, 8)
    with forward_ad.dual_level(), pytest.raises(ValueError, match="tangent"):
        REFUSING[face](forward_ad.make_dual(x, x))
    with forward_ad.dual_level():
        REFUSING[face](x.clone())
    for transform in (
        lambda f: jvp(f, (x,), (x,)),
        lambda f: grad(lambda x: f(x).sum())(x),
        lambda f: vmap(f)(x.unsqueeze(0)),
    ):
        with pytest.raises(ValueError, match="torch.func|requires a gradient|out= takes no part"):
            transform(REFUSING[face])


def test_out_beside_a_tangent():
    x, place = torch.ones(3), torch.empty(3)
    for f in (lambda x: hg.ops.add(x, 1, out=place), lambda x: hg.kernel("k", "x + 1")(x, out=place)):
        with forward_ad.dual_level(), pytest.raises(ValueError, match="out= takes no part"):
            f(forward_ad.make_dual(x, x))
        with forward_ad.dual_level():
            f(x)
        assert place.tolist() == [2.0] * 3


def test_inference_mode_forgets_tangents_as_torch_does():
    x = torch.ones(3)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, x)
        with torch.inference_mode():
            assert forward_ad.unpack_dual(dual * 2).tangent is None
            assert forward_ad.unpack_dual(hg.ops.mul(dual, 2)).tangent is None


def _frozen(layer):
    return layer.requires_grad_(False)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "function",
    [lambda x: KERNEL(2.0, KERNEL(1.0, x, 3.0), 2.0) + 1, lambda x: hg.ops.topk(hg.ops.mul(hg.ops.add(x, 1), x), 2)[0],
     _frozen(torch.nn.Sequential(hg.nn.Linear(8, 4), hg.nn.GELU())), _frozen(hg.torch.wrap(_model()))],
    ids=["kernel", "ops", "layers", "model"],
)  # fmt: skip
def test_a_trace_computes_anew(function):
    traced = torch.jit.trace(function, torch.randn(2, 8), check_trace=False)
    x = torch.randn(2, 8)
    assert torch.equal(traced(x), function(x))


@pytest.mark.filterwarnings("ignore")
def test_a_trace_takes_no_results_for_constants():
    model = _model()
    with pytest.raises(ValueError, match="traced"):
        torch.jit.trace(lambda x: model(x), torch.randn(2, 8))
    with pytest.raises(torch.jit.frontend.NotSupportedError):
        torch.jit.script(hg.nn.Linear(3, 2))


def test_classes_with_operations_of_their_own():
    class Own(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            return NotImplemented

    x = torch.ones(3).as_subclass(Own)
    for f in (lambda x: hg.ops.add(x, 1), lambda x: hg.kernel("k", "x + 1")(x), lambda x: hg.Var(x)):
        with pytest.raises(ValueError, match="__torch_dispatch__"):
            f(x)
    assert hg.ops.add(torch.nn.Parameter(torch.ones(3)), 1).tolist() == [2.0] * 3


def test_several_gradients_at_once_are_refused():
    x, seeds = torch.randn(3, requires_grad=True), torch.randn(4, 3)
    g = hg.Graph()
    g.output("y", hg.ops.tanh(g.input("x", (3,))))
    for run in (hg.ops.tanh, hg.kernel("square", "a * a"), hg.torch.wrap(g.model())):
        with pytest.raises(RuntimeError, match="is_grads_batched"):
            torch.autograd.grad(run(x), x, seeds, is_grads_batched=True)
    (slope,) = vmap(vjp(hg.ops.tanh, x.detach())[1])(seeds)
    torch.testing.assert_close(slope, seeds * (1 - x.detach().tanh() ** 2))
