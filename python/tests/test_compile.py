# SPDX-License-Identifier: Apache-2.0
"""torch.compile(backend="hologram"). Skipped without the converter."""

import copy

import pytest

import hologram as hg

torch = pytest.importorskip("torch", "2.5")
import hologram.torch  # noqa: F401 - registers the backend
from hologram import _core
from nets import Net

if not hasattr(_core, "convert_file"):
    pytest.skip("this build has no converter", allow_module_level=True)
pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def test_compile_for_inference():
    net = Net().eval()
    compiled = torch.compile(net, backend="hologram")
    for n in (4, 4, 7, 1, 9):
        x = torch.randn(n, 8)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), net(x), rtol=1e-4, atol=1e-5)


def test_compile_for_training():
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
    twin = copy.deepcopy(net)
    compiled = torch.compile(net, backend="hologram")
    a, b = torch.optim.SGD(net.parameters(), 0.1), torch.optim.SGD(twin.parameters(), 0.1)
    for _ in range(4):
        x = torch.randn(5, 8)
        a.zero_grad(), b.zero_grad()
        one, two = compiled(x).square().mean(), twin(x).square().mean()
        one.backward(), two.backward()
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-6)
        for p, q in zip(net.parameters(), twin.parameters()):
            torch.testing.assert_close(p.grad, q.grad, rtol=1e-3, atol=1e-6)
        a.step(), b.step()


def test_explain_lists_what_runs_eagerly():
    found = hg.torch.explain(Net().eval(), torch.randn(4, 8))
    assert found.graphs == found.converted == 1 and not found.fallbacks

    def half(x):
        y = torch.special.airy_ai(x)
        return y + 1

    found = hg.torch.explain(half, torch.randn(3))
    assert found.converted == 0 and len(found.fallbacks) == 1
    assert any("airy_ai" in name for name in found.unsupported)
    assert "airy_ai" in str(found)
    x = torch.randn(3)
    torch.testing.assert_close(torch.compile(half, backend="hologram")(x), half(x))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_runs_here_breaks_the_graphs_of_others(backend):
    import hologram.nn

    kernel = hg.kernel("k", "a*x*x")
    net = torch.nn.Sequential(hologram.nn.Linear(5, 8), hologram.nn.ReLU(), torch.nn.Linear(8, 2))
    wrapped = hg.torch.wrap(hg.convert(torch.nn.Linear(2, 2), torch.randn(3, 2)))

    def run(x):
        return kernel(2.0, wrapped(net(x))) + hg.ops.relu(x[:, :2])

    x = torch.randn(3, 5)
    torch.testing.assert_close(torch.compile(run, backend=backend)(x), run(x))
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    torch.compile(run, backend=backend)(a).sum().backward()
    run(b).sum().backward()
    torch.testing.assert_close(a.grad, b.grad)


def test_graph_breaks():
    def broken(x):
        y = torch.relu(x) * 2
        torch._dynamo.graph_break()
        return y + 1

    x = torch.randn(4)
    torch.testing.assert_close(torch.compile(broken, backend="hologram")(x), broken(x))
    found = hg.torch.explain(broken, x)
    assert found.graphs == 2 and found.breaks


@pytest.mark.parametrize("dynamic", [None, True, False])
def test_open_sizes_run_here_and_further_ones_eagerly(dynamic):
    from hologram.torch import _compile

    made = []

    def counted(graph, inputs):
        made.append(_compile._BySize(graph, inputs, {}, False))
        return made[-1]

    net = Net().eval()
    compiled = torch.compile(lambda x: net(x) * x.shape[0] + x[:, :3].sum(0), backend=counted, dynamic=dynamic)
    sizes = [3, 5, 3, 1, 2, *range(6, 30)] if dynamic else [3, 5, 3, 1, 2, 6]
    for n in sizes:
        x = torch.randn(n, 8)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), net(x) * n + x[:, :3].sum(0), rtol=1e-4, atol=1e-5)
    assert all(graph.plain is not None for each in made for graph in each.made.values())
    if dynamic:  # torch captured it once or twice (size 1 separately), not for each size
        assert len(made) <= 3 and max(len(each.made) for each in made) == _compile._BySize.MOST


def test_a_compiled_graph_of_one_size_is_called_directly():
    net = Net().eval()
    compiled = torch.compile(net, backend="hologram", dynamic=False)
    for _ in range(3):
        for n in (3, 5):  # a graph for each
            x = torch.randn(n, 8, requires_grad=True)
            with torch.no_grad():
                y = compiled(x)
                torch.testing.assert_close(y, net(x), rtol=1e-4, atol=1e-5)
                assert not y.requires_grad
                net.b.weight.mul_(1.1)  # the next call sees it
            (compiled(x) * 2).sum().backward()
            assert x.grad is not None


def test_what_a_graph_writes_to_is_written_to():
    torch.manual_seed(1)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(27, 4),
        torch.nn.BatchNorm1d(4, momentum=0.3),
    )  # fmt: skip
    x = torch.randn(6, 2, 5, 5)
    assert hg.torch.explain(copy.deepcopy(net), x).converted == 1
    twin = copy.deepcopy(net)
    compiled = torch.compile(net, backend="hologram")
    for gradients in (True, True, False):
        for run, module in ((compiled, net), (twin, twin)):
            module.zero_grad()
            with torch.set_grad_enabled(gradients):
                y = run(x)
            if gradients:
                y.square().mean().backward()
        for (name, a), b in zip(net.state_dict().items(), twin.state_dict().values()):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, msg=name)
        for a, b in zip(net.parameters(), twin.parameters()):
            if gradients:
                torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-5)
    assert int(net[1].num_batches_tracked) == 3


def test_results_that_are_one_tensor_or_share_memory_stay_so():
    def f(x, count):
        count.add_(1)
        y = torch.relu(x) * 2
        return y, x.t(), y, count

    def g(x, count):
        count += x.sum()
        x.mul_(2)
        y = x + count
        return y, y

    for function in (f, g):
        compiled = torch.compile(function, backend="hologram")
        for gradients in (False, True):
            x, count = torch.randn(3, 4), torch.zeros(())
            a, b = x.clone(), count.clone()
            with torch.set_grad_enabled(gradients):
                got, want = compiled(x, count), function(a, b)
            for each, other in zip((*got, x, count), (*want, a, b)):
                torch.testing.assert_close(each, other)
            assert got[0] is got[-1] or got[-1] is count
            if function is f:
                got[1].add_(1)
                torch.testing.assert_close(x, a + 1)  # a view of x still
                assert got[0].data_ptr() == got[2].data_ptr()
    whole = torch.arange(6.0)

    def overlapping(a, b):
        a.add_(1)
        return b * 2

    twin = whole.clone()
    got = torch.compile(overlapping, backend="hologram")(whole[:4], whole[2:])
    torch.testing.assert_close(got, overlapping(twin[:4], twin[2:]))
    torch.testing.assert_close(whole, twin)


def test_what_is_not_supported_trains_eagerly_beside_what_is():
    def part(x, w):
        y = torch.relu(x @ w)
        torch._dynamo.graph_break()
        z = torch.special.i0e(y) * y.cumprod(0)
        torch._dynamo.graph_break()
        return torch.special.airy_ai(z.detach()) + z.tanh()

    x, w = torch.rand(4, 5), torch.rand(5, 3)
    found = hg.torch.explain(part, x, w)
    assert found.graphs == 3 and 0 < len(found.fallbacks) and found.converted + len(found.fallbacks) == 3
    assert len(found.breaks) == 2 and any("airy_ai" in name for name in found.unsupported)
    (x1, w1), (x2, w2) = ([t.clone().requires_grad_() for t in (x, w)] for _ in range(2))
    torch.compile(part, backend="hologram")(x1, w1).sum().backward()
    part(x2, w2).sum().backward()
    torch.testing.assert_close(x1.grad, x2.grad, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(w1.grad, w2.grad, rtol=1e-4, atol=1e-6)


def test_writes_to_inputs_are_as_in_eager():
    def writes(x):
        x.add_(1)
        return x * 2

    x, y = torch.zeros(3), torch.zeros(3)
    torch.testing.assert_close(torch.compile(writes, backend="hologram")(x), writes(y))
    assert torch.equal(x, y)
    assert hg.torch.explain(writes, torch.zeros(3)).converted == 1
    views = hg.torch.explain(lambda x: (x.t(), x * 2), torch.zeros(3, 4))
    assert views.converted == 0 and "a view of an argument" in str(views)


def test_arguments_that_share_memory_later():
    def f(x, y):
        x.add_(1)
        return y * 2

    compiled = torch.compile(f, backend="hologram")
    for take in (lambda b: (b[:4].clone(), b[1:].clone()), lambda b: (b[:4], b[1:])):
        a, b = torch.arange(15.0).view(5, 3), torch.arange(15.0).view(5, 3)
        torch.testing.assert_close(compiled(*take(a)), f(*take(b)))
        torch.testing.assert_close(a, b)


def test_results_lie_in_memory_as_in_eager():
    def f(x):
        y = x * 2
        return y, y[:1], x.t() + 1

    x = torch.randn(3, 4)
    got, want = torch.compile(f, backend="hologram")(x), f(x)
    for a, b in zip(got, want):
        torch.testing.assert_close(a, b)
        assert a.stride() == b.stride()
    got[0].zero_()
    assert not got[1].any()
    alone = torch.compile(lambda x: x.t() + 1, backend="hologram")
    assert alone(x).stride() == alone(x).stride() == (1, 4)
    assert hg.torch.explain(lambda x: x.t() + 1, x).converted == 1


def test_options_of_the_backend():
    net, x = Net().eval(), torch.randn(4, 8)
    for options in ({"threads": 1}, {"freeze": True}, {"precision": "float32", "memory_limit": "64M"}):
        torch._dynamo.reset()
        with torch.no_grad():
            got = torch.compile(net, backend="hologram", options=options)(x)
            torch.testing.assert_close(got, net(x), rtol=1e-4, atol=1e-5)
    torch._dynamo.reset()
    with pytest.raises(Exception, match="thread"):
        torch.compile(net, backend="hologram", options={"thread": 1})(x)


def test_frozen_weights_follow_what_is_written_to_them():
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = torch.nn.Conv2d(2, 4, 3, padding=1), torch.nn.BatchNorm2d(4)

        def forward(self, x):
            return torch.relu(self.norm(self.conv(x)))

    one, two = Block().eval(), Block().eval()  # the same code with other weights
    x = torch.randn(3, 2, 6, 6)
    run = [torch.compile(each, backend="hologram", options={"freeze": True}) for each in (one, two)]

    def same():
        with torch.no_grad():
            for compiled, net in zip(run, (one, two)):
                torch.testing.assert_close(compiled(x), net(x), rtol=1e-4, atol=1e-5)

    same()
    same()
    with torch.no_grad():
        one.conv.weight.mul_(2)
        two.norm.running_var.add_(1)
    same()
    two.load_state_dict(one.state_dict())
    same()
    one.conv.weight = torch.nn.Parameter(torch.randn(4, 2, 3, 3))
    same()
    # Nothing is frozen if gradients are needed.
    optimizer = torch.optim.SGD(one.parameters(), 0.1)
    for _ in range(3):
        a, b = run[0](x).square().mean(), one(x).square().mean()
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
        optimizer.zero_grad()
        b.backward()
        want = one.conv.weight.grad.clone()
        optimizer.zero_grad()
        a.backward()
        torch.testing.assert_close(one.conv.weight.grad, want, rtol=1e-3, atol=1e-6)
        optimizer.step()
        same()
    assert not any(p.grad is not None for p in two.parameters())


EMPTY = {
    "Linear": (torch.nn.Linear(4, 3), (0, 4)),
    "BatchNorm1d": (torch.nn.BatchNorm1d(4), (0, 4)),
    "BatchNorm2d without columns": (torch.nn.BatchNorm2d(3), (2, 3, 0, 5)),
    "BatchNorm2d without statistics": (torch.nn.BatchNorm2d(3, track_running_stats=False), (0, 3, 4, 5)),
    "LayerNorm": (torch.nn.LayerNorm(4), (0, 4)),
    "GroupNorm": (torch.nn.GroupNorm(2, 4), (0, 4, 5)),
    "Conv2d": (torch.nn.Conv2d(3, 4, 3, padding=1), (0, 3, 5, 6)),
    "ConvTranspose2d": (torch.nn.ConvTranspose2d(3, 4, 3, stride=2), (0, 3, 5, 6)),
    "GRU": (torch.nn.GRU(4, 3), (5, 0, 4)),
    "Encoder": (torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), (0, 3, 8)),
    "AdaptiveAvgPool2d": (torch.nn.AdaptiveAvgPool2d(2), (0, 3, 5, 5)),
}


@pytest.mark.parametrize("layer", EMPTY)
def test_an_empty_batch_trains_as_in_eager(layer):
    net, shape = EMPTY[layer]
    twin = copy.deepcopy(net)
    x = torch.randn(shape)
    results = []
    for each, call in ((net, net), (twin, torch.compile(twin, backend="hologram"))):
        given = x.clone().requires_grad_()
        y = call(given)
        y = y[0] if isinstance(y, tuple) else y
        y.square().sum().backward()
        results.append((y.detach(), given.grad, [p.grad for p in each.parameters()], list(each.buffers())))
    torch.testing.assert_close(*results, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_a_compiled_optimizer_steps_once(name):
    """The optimizer's weights and moments are attributes of the captured graph."""
    net = torch.nn.Linear(3, 2)
    twin = copy.deepcopy(net)
    options = {"momentum": 0.9} if name == "SGD" else {}
    optimizers = [getattr(torch.optim, name)(each.parameters(), 0.1, **options) for each in (net, twin)]
    steps = [torch.compile(optimizers[0].step, backend="hologram"), optimizers[1].step]
    for _ in range(3):
        x = torch.randn(4, 3)
        for module, optimizer, step in zip((net, twin), optimizers, steps):
            optimizer.zero_grad()
            module(x).square().mean().backward()
            step()
        for a, b in zip(net.parameters(), twin.parameters()):
            torch.testing.assert_close(a, b)


def test_a_whole_step_that_is_compiled():
    net = torch.nn.Linear(3, 2)
    twin = copy.deepcopy(net)

    def step(module, optimizer):
        def run(x):
            optimizer.zero_grad()
            loss = module(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return run

    ours, theirs = (step(each, torch.optim.Adam(each.parameters(), 0.1)) for each in (net, twin))
    compiled = torch.compile(ours, backend="hologram")
    for _ in range(3):
        x = torch.randn(4, 3)
        torch.testing.assert_close(compiled(x), theirs(x))


@pytest.mark.parametrize("transform", ["grad", "jacrev", "jacfwd", "vmap"])
def test_transforms_inside_leave_torch_as_it_was(transform):
    def f(x):
        inner = torch.func.vmap(torch.func.grad(lambda a: a.pow(3).sum()))(x[None])
        return getattr(torch.func, transform)(lambda a: (a.sin() * a).sum(-1))(x), inner

    x = torch.randn(3, 4) if transform == "vmap" else torch.randn(3)
    for _ in range(2):
        torch.testing.assert_close(torch.compile(f, backend="hologram")(x), f(x))
        torch._dynamo.reset()
    assert torch._C._functorch.get_dynamic_layer_stack_depth() == 0
    torch.func.jvp(torch.sin, (x,), (x,))  # no other one is open


def test_modes_stay_where_a_graph_ends_in_the_middle():
    from hologram.torch._compile import _modes_kept

    with pytest.raises(ValueError), _modes_kept():
        torch._C._set_grad_enabled(False)
        torch._C._functorch._vmap_increment_nesting(2, "error")
        torch.autograd.forward_ad.enter_dual_level()
        raise ValueError
    assert torch.is_grad_enabled() and torch._C._functorch.get_dynamic_layer_stack_depth() == 0
    torch.func.jvp(torch.sin, (torch.ones(2),), (torch.ones(2),))


def test_threads_call_what_is_not_compiled_yet():
    import threading

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    compiled = torch.compile(net, backend="hologram")
    found = {}

    def calls(k):
        for j in range(12):
            x = torch.randn((k + j) % 4 + 1, 3)
            with torch.no_grad():
                found[k, j] = compiled(x), net(x)

    threads = [threading.Thread(target=calls, args=(k,)) for k in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(found) == 48
    for got, want in found.values():
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def test_a_wrapped_model_has_one_mode():
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3)).eval()
    model = hg.convert(net, torch.randn(4, 3))
    ours = hg.torch.wrap(model).train()
    ours.get_submodule("1").eval()
    with pytest.raises(RuntimeError, match="'1' is in eval mode and the model in training mode"):
        ours(torch.randn(4, 3))
    ours.eval()(torch.randn(4, 3))
    traced = hg.torch.wrap(model, mode="as-traced")
    traced.get_submodule("1").eval()
    traced(torch.randn(4, 3))


def test_a_parameter_may_be_a_result():
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))

        def forward(self, x):
            y = x * self.w
            return y, self.w, y

    net, x = Scaled(), torch.randn(2, 3)
    ours = hg.torch.wrap(hg.convert(net, x))
    for module in (ours, net):
        a, w, b = module(x)
        (a.sum() + w.square().sum() + b.prod()).backward()
    torch.testing.assert_close(ours.w.grad, net.w.grad)
