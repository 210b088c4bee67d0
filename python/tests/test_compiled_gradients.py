# SPDX-License-Identifier: Apache-2.0
"""Gradients of compiled and wrapped modules, and their random numbers. Skipped without the converter."""

import copy
import pickle

import numpy as np
import pytest

import hologram as hg

torch = pytest.importorskip("torch", "2.5")
import hologram.torch  # noqa: F401 - registers the backend
from hologram import _core
from nets import Net

if not hasattr(_core, "convert_file"):
    pytest.skip("this build has no converter", allow_module_level=True)
pytestmark = pytest.mark.usefixtures("fresh_dynamo")


@pytest.mark.parametrize("way", ["compile", "train"])
def test_no_gradient_passes_through_no_grad(way):
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))

        def forward(self, x):
            with torch.no_grad():
                scale = self.w * 2
            return (self.w * scale * x).sum()

    net, x = Scaled(), torch.ones(3)
    if way == "compile":
        torch.compile(net, backend="hologram")(x).backward()
        torch.testing.assert_close(net.w.grad, torch.tensor([2.0, 4.0, 6.0]))
    else:
        trainer = hg.Trainer(hg.convert(net, x), loss="output", optimizer=hg.SGD(lr=1.0))
        trainer.step(x)
        np.testing.assert_allclose(trainer.parameters()["w"], [-1.0, -2.0, -3.0])


class Tripled(torch.autograd.Function):
    """A function whose gradient is not the derivative of its forward pass."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 3


class WithFunction(torch.nn.Linear):
    def forward(self, x):
        return Tripled.apply(super().forward(x)) * x


class WithInference(torch.nn.Linear):
    def forward(self, x):
        with torch.inference_mode():
            scale = super().forward(x)
        return super().forward(x) * scale.clone()


class WithHook(torch.nn.Linear):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.weight.register_hook(lambda grad: grad * 2)


@pytest.mark.parametrize("kind, what", [(WithFunction, "Function Tripled"), (WithInference, "inference_mode"), (WithHook, "a hook")])
def test_gradients_that_are_not_of_the_forward_pass(kind, what):
    net, x = kind(4, 4), torch.randn(3, 4)
    twin = copy.deepcopy(net)
    if kind is WithHook:  # copies have none
        twin.weight.register_hook(lambda grad: grad * 2)
    compiled = torch.compile(net, backend="hologram")
    compiled(x).sum().backward()
    twin(x).sum().backward()
    torch.testing.assert_close(net.weight.grad, twin.weight.grad)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), twin(x))

    model = hg.convert(net, x)
    torch.testing.assert_close(model(x), twin(x).detach())
    assert any(what in each for each in model.report.warnings), model.report
    for made in (model, pickle.loads(pickle.dumps(model))):
        for use in (lambda: hg.Trainer(made, loss="output"), lambda: hg.torch.wrap(made)):
            with pytest.raises(hg.HologramError, match=what):
                use()


@pytest.mark.parametrize("kind, size", [(torch.nn.BatchNorm1d, (5, 4, 2)), (torch.nn.InstanceNorm1d, (5, 4, 3))])
def test_no_gradient_passes_through_running_statistics(kind, size):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = kind(4, track_running_stats=True)

        def forward(self, x):
            return self.norm(x).sin().sum() + (self.norm.running_mean + self.norm.running_var).square().sum()

    nets = [Net(), Net()]
    given = [torch.arange(5.0 * 4 * 3).reshape(5, 4, 3).sin()[:, :, : size[2]].reshape(size).requires_grad_() for _ in nets]
    torch.compile(nets[0], backend="hologram")(given[0]).backward()
    nets[1](given[1]).backward()
    torch.testing.assert_close(given[0].grad, given[1].grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(nets[0].state_dict(), nets[1].state_dict())


class Dropped(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.dropout(x * 2, 0.5, training=True) * x


@pytest.mark.parametrize("way", ["compile", "wrap"])
def test_gradients_are_of_the_numbers_that_were_drawn(way):
    net, x = Dropped(), torch.ones(200, requires_grad=True)
    run = torch.compile(net, backend="hologram") if way == "compile" else hg.torch.wrap(hg.convert(net, torch.ones(200)))
    if way == "compile":
        assert hg.torch.explain(net, x).converted == 1
    results = [run(x) for _ in range(3)]
    for each in (results[1], results[0], results[2]):
        x.grad = None
        each.sum().backward()
        assert torch.equal(each != 0, x.grad != 0)


@pytest.mark.parametrize("way", ["compile", "wrap"])
@pytest.mark.parametrize("mode", [True, False])
def test_manual_seed_decides_what_is_drawn(way, mode):
    net, x = Dropped(), torch.ones(200, requires_grad=True)
    run = torch.compile(net, backend="hologram") if way == "compile" else hg.torch.wrap(hg.convert(net, torch.ones(200)))

    def draw(seed):
        torch.manual_seed(seed)
        return [run(x).tolist() for _ in range(2)]

    with torch.set_grad_enabled(mode):
        first = draw(3)
        assert first[0] != first[1]
        assert draw(3) == first
        assert draw(4) != first


def test_what_draws_nothing_leaves_torchs_generator():
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout()).eval()
    state = torch.get_rng_state()
    torch.compile(net, backend="hologram")(torch.ones(2, 4))
    hg.convert(Dropped(), torch.ones(4))
    assert torch.equal(torch.get_rng_state(), state)


def test_a_gradient_that_is_taken_inside():
    def slope(x, y):
        with torch.enable_grad():
            z = x.detach().requires_grad_()
            (grad,) = torch.autograd.grad((z.sin() * y).sum(), z)
        return grad

    x, y = torch.randn(3, 4), torch.randn(3, 4)
    for mode in (False, True):
        torch._dynamo.reset()
        with torch.set_grad_enabled(mode):
            torch.testing.assert_close(torch.compile(slope, backend="hologram")(x, y), x.cos() * y)


def test_only_the_gradients_that_are_wanted_are_computed(monkeypatch):
    from hologram.torch import _wrap

    wanted = []
    init = _wrap._Halves.__init__

    def seen(self, model, mode, inputs, options):
        wanted.append((len(model.inputs), list(inputs)))
        init(self, model, mode, inputs, options)

    monkeypatch.setattr(_wrap._Halves, "__init__", seen)
    net = Net().eval()
    compiled = torch.compile(net, backend="hologram")
    x = torch.randn(4, 8)
    for requires in (False, True):
        given, twin = x.clone().requires_grad_(requires), copy.deepcopy(net)
        net.zero_grad()
        compiled(given).square().sum().backward()
        expected = x.clone().requires_grad_(requires)
        twin(expected).square().sum().backward()
        for a, b in zip(net.parameters(), twin.parameters()):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-5)
        if requires:
            torch.testing.assert_close(given.grad, expected.grad, rtol=1e-4, atol=1e-5)
        inputs, indices = wanted[-1]
        assert inputs == 5 and len(indices) == (5 if requires else 4)


def test_results_that_depend_on_nothing_trained_need_no_gradient():
    def f(x, z):
        return x + z, z * 2, x.detach() * 3, x > z

    x, z = torch.randn(4, requires_grad=True), torch.randn(4)
    results = torch.compile(f, backend="hologram")(x, z)
    assert [each.requires_grad for each in results] == [True, False, False, False]
    results[1].numpy()
    (results[0] * results[1]).sum().backward()
    torch.testing.assert_close(x.grad, z * 2)


def test_what_is_written_may_require_a_gradient_from_then_on():
    def whole(x, w):
        x.mul_(w)
        return x.sum()

    def part(x, w):
        x[1:] = w[1:]
        return x * 2

    def apart(x, w):
        with torch.no_grad():
            x.mul_(w)
        return x * w

    for function, follows in ((whole, True), (part, True), (apart, False)):
        found = []
        for run in (torch.compile(function, backend="hologram"), function):
            x, w = torch.arange(3.0), torch.tensor([2.0, 3.0, 4.0], requires_grad=True)
            y = run(x, w)
            assert x.requires_grad == follows
            (y.sum() + x.square().sum()).backward()
            found.append((x.detach(), w.grad))
        torch.testing.assert_close(*found)
    assert hg.torch.explain(apart, torch.ones(3), torch.ones(3, requires_grad=True)).converted == 1


def test_sparse_gradients_are_sparse():
    def looked_up(table, i):
        return torch.nn.functional.embedding(i, table, sparse=True) * 2

    def bagged(table, i):
        return torch.nn.functional.embedding_bag(i.view(1, -1), table, mode="sum", sparse=True)

    for function in (looked_up, bagged):
        table, i = torch.randn(5, 3, requires_grad=True), torch.tensor([1, 1, 4])
        torch.compile(function, backend="hologram")(table, i).sum().backward()
        assert table.grad.is_sparse
        with torch.no_grad():
            assert hg.torch.explain(function, table.detach(), i).converted == 1


def heads():
    class Heads(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.a, self.b, self.c = (torch.nn.Linear(3, 3) for _ in range(4))

        def forward(self, x):
            y = self.body(x).tanh()
            return self.a(y), self.b(y) + self.c(y).detach()

    return Heads()


@pytest.mark.parametrize("way", ["compile", "wrap"])
def test_what_a_loss_does_not_reach_has_no_gradient(way):
    """An optimizer skips a gradient of None; it would apply decay and averages to zeros."""
    torch.manual_seed(3)
    net = heads()
    twin = copy.deepcopy(net)
    ours = hg.torch.wrap(hg.convert(net, torch.randn(4, 3))) if way == "wrap" else net
    run = ours if way == "wrap" else torch.compile(ours, backend="hologram")
    pairs = [(ours.get_parameter(name), p) for name, p in twin.named_parameters()]
    optimizers = [torch.optim.AdamW(each, 0.1, weight_decay=0.5) for each in zip(*pairs)]
    for step in range(6):
        x = torch.randn(4, 3)
        for call, optimizer in zip((run, twin), optimizers):
            optimizer.zero_grad()
            outs = call(x)
            loss = outs[step % 2].square().sum() if step < 4 else outs[0].sum() * outs[1].mean()
            loss.backward()
        assert [p.grad is None for p, _ in pairs] == [q.grad is None for _, q in pairs], step
        for optimizer in optimizers:
            optimizer.step()
        for p, q in pairs:
            torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)
    x = torch.randn(4, 3, requires_grad=True)
    (one,) = torch.autograd.grad(run(x)[1].sum(), pairs[0][0])
    assert one.abs().sum() > 0
    with pytest.raises(RuntimeError, match="not have been used"):
        torch.autograd.grad(run(x)[1].sum(), dict(ours.named_parameters())["c.weight"])


@pytest.mark.parametrize("way", ["compile", "wrap"])
def test_a_result_without_gradient_adds_nothing(way):
    """Unused results contribute nothing, not even 0 times an infinite slope."""

    class Roots(torch.nn.Module):
        def forward(self, x):
            return x.sqrt(), x * 2, torch.linalg.vector_norm(x), x.round()

    net, zeros = Roots(), torch.zeros(3)
    ours = hg.torch.wrap(hg.convert(net, zeros)) if way == "wrap" else torch.compile(net, backend="hologram")
    for places in ((1,), (0, 1), (2,), (1, 2), (3,), (0, 1, 2, 3), (1,)):
        found = []
        for run in (ours, net):
            x = zeros.clone().requires_grad_()
            outs = run(x)
            assert all(each.requires_grad for each in outs)
            sum(outs[k].sum() for k in places).backward()
            found.append(x.grad)
        torch.testing.assert_close(*found, equal_nan=True, msg=str(places))


def test_graphs_behind_which_there_is_no_gradient():
    def broken(x, w):
        y = x * w
        torch._dynamo.graph_break()
        return y.detach() * x, y.sin()

    for function in (torch.compile(broken, backend="hologram"), broken):
        x, w = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        function(x, w)[0].sum().backward()
        assert w.grad is None and torch.equal(x.grad, torch.ones(3))


@pytest.mark.parametrize("way", ["eager", "compile", "wrap"])
def test_what_the_gradients_read_may_not_change_before_them(way):
    """As in eager PyTorch: a value may change if the backward pass does not read it, or reads only its size."""
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    x = torch.randn(5, 3)
    run = {"eager": lambda: net, "compile": lambda: torch.compile(net, backend="hologram"),
           "wrap": lambda: hg.torch.wrap(hg.convert(net, x, dynamic="n"))}[way]()  # fmt: skip
    parameters = dict(run.named_parameters())
    bias, weight = (next(p for name, p in parameters.items() if name.endswith(end)) for end in ("0.bias", "2.weight"))
    for changed, is_read in ((bias, False), (weight, True), (x, True)):
        loss = run(x).sum()
        with torch.no_grad():
            changed.mul_(2)
        if is_read:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                loss.backward()
        else:
            loss.backward()


def test_inputs_of_which_the_sizes_are_read_may_change():
    class Shifted(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.shift = torch.nn.Parameter(torch.zeros(3))

        def forward(self, x):
            return x + self.shift

    x = torch.randn(4, 3)
    wrapped = hg.torch.wrap(hg.convert(Shifted(), x, dynamic="n"))
    y = wrapped(x)
    x.zero_()
    y.sum().backward()
    torch.testing.assert_close(wrapped.shift.grad, torch.full((3,), 4.0))


def test_what_runs_row_by_row_trains_at_any_length():
    ops = pytest.importorskip("torch._higher_order_ops.scan")
    from torch._higher_order_ops.map import map as each_row

    class Rows(torch.nn.Module):
        def __init__(self, plain):
            super().__init__()
            self.layer, self.plain = torch.nn.Linear(3, 3), plain

        def forward(self, x):
            h = self.layer(x)
            if not self.plain:
                _, kept = ops.scan(lambda c, row: ((c * 0.5 + row).tanh(), c * row), h[0] * 0, h)
                return kept + each_row(lambda row, all: row.sin() * all, h, h.sum(0))
            carry, kept = h[0] * 0, []
            for row in h:
                kept.append(carry * row)
                carry = (carry * 0.5 + row).tanh()
            return torch.stack(kept) + h.sin() * h.sum(0)

    net, plain = Rows(False).double(), Rows(True).double()
    plain.load_state_dict(net.state_dict())
    model = hg.convert(net, torch.randn(4, 3, dtype=torch.float64), dynamic="n")
    trainer, wrapped = hg.Trainer(model, "mse", hg.SGD(lr=0.125)), hg.torch.wrap(model)
    optimizers = [torch.optim.SGD(each.parameters(), 0.125) for each in (plain, wrapped)]
    for n in (4, 1, 7):
        x, y = torch.randn(n, 3, dtype=torch.float64), torch.randn(n, 3, dtype=torch.float64)
        losses = [torch.nn.functional.mse_loss(each(x), y) for each in (plain, wrapped)]
        for loss, optimizer in zip(losses, optimizers):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        torch.testing.assert_close(losses[1], losses[0])
        assert trainer.step(x, y) == pytest.approx(losses[0].item())
        for name, want in plain.named_parameters():
            torch.testing.assert_close(wrapped.get_parameter(name), want)
            torch.testing.assert_close(torch.from_numpy(trainer.parameters()[name]), want)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_loop_under_autocast_runs_here(dtype):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.LayerNorm(8), torch.nn.GELU(), torch.nn.Linear(8, 3))
    own = copy.deepcopy(net)
    compiled = torch.compile(own, backend="hologram")
    optimizers = [torch.optim.SGD(each.parameters(), 0.1) for each in (net, own)]
    for step in range(3):
        x, target = torch.randn(5, 6), torch.randint(0, 3, (5,))
        for run, optimizer in zip((net, compiled), optimizers):
            with torch.autocast("cpu", dtype):
                y = run(x)
            assert y.dtype == dtype
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(y.float(), target).backward()
            optimizer.step()
        for want, got in zip(net.parameters(), own.parameters()):
            torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-3)
    with torch.autocast("cpu", dtype):
        found = hg.torch.explain(net, x)
    assert found.converted == found.graphs == 1
    found = hg.torch.explain(net, x)
    assert found.converted == found.graphs == 1
