# SPDX-License-Identifier: Apache-2.0
"""PyTorch's module features applied to hg.nn's layers, compared with torch; modules.py has more."""

import random

import pytest

import hologram as hg

torch = pytest.importorskip("torch", "2.5")
import modules


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", modules.WAYS)
def test_layers_are_modules(way):
    for name in random.Random(way).sample(list(modules.LAYERS), 12):
        assert modules.difference(way, name, 1 + len(name) % 2) is None


def _net(module):
    torch.manual_seed(0)
    return torch.nn.Sequential(module.Conv2d(1, 3, 3), module.BatchNorm2d(3), module.ReLU(), torch.nn.Flatten(), module.Linear(48, 5),
                               module.LayerNorm(5))  # fmt: skip


def _step(net, call):
    net.zero_grad()
    y = call(torch.linspace(-1, 1, 144).view(4, 1, 6, 6))
    y.square().sum().backward()
    return [y.detach(), *(p.grad.clone() for p in net.parameters()), *(b.clone() for b in net.buffers())]


# A defect of PyTorch: a process group may be destroyed while its thread frees the last sum and waits for the GIL, forever.
_kept = []


def test_data_parallel(tmp_path):
    want = _net(torch.nn)
    want = [_step(want, want) for _ in range(2)]
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        for options in ({}, {"static_graph": True, "gradient_as_bucket_view": True}):
            net = _net(hg.nn)
            ours = torch.nn.parallel.DistributedDataParallel(net, **options)
            _kept.append(ours)
            for each in want:
                torch.testing.assert_close(_step(net, ours), each, rtol=1e-4, atol=1e-5)
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["eager", "hologram"])
def test_torch_compile_breaks_its_graph_there(backend):
    want, net = _net(torch.nn), _net(hg.nn)
    torch._dynamo.reset()
    torch.testing.assert_close(_step(net, torch.compile(net, backend=backend)), _step(want, want), rtol=1e-4, atol=1e-5)
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="trace method"):
        torch.compile(_net(hg.nn), backend=backend, fullgraph=True)(torch.zeros(4, 1, 6, 6))


def test_what_looks_into_a_forward_pass_is_refused():
    x, net = torch.zeros(4, 1, 6, 6), _net(hg.nn).eval()
    with pytest.raises(ValueError, match="is recorded by|cannot be read|no memory"):
        torch.export.export(net, (x,))
    with pytest.raises(ValueError, match="meta"):
        _net(hg.nn).to("meta")(x.to("meta"))
    with pytest.raises(torch.fx.proxy.TraceError):
        torch.fx.symbolic_trace(net)


def test_a_network_of_ours_is_converted():
    net, x = _net(hg.nn).eval(), torch.randn(4, 1, 6, 6)
    y = net(x).detach()
    torch.testing.assert_close(torch.export.export(hg.nn.as_torch(net), (x,)).module()(x), y, rtol=1e-4, atol=1e-5)
    model = hg.convert(net, x, dynamic="n")
    assert model.report.ok and len(model.report.checks) == 2
    torch.testing.assert_close(model(x), y, rtol=1e-4, atol=1e-5)
    assert [type(each) for each in net if type(each).__module__.startswith("hologram")] == [
        hg.nn.Conv2d, hg.nn.BatchNorm2d, hg.nn.ReLU, hg.nn.Linear, hg.nn.LayerNorm]  # fmt: skip
    encoder = hg.nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", batch_first=True).eval()
    assert hg.convert(encoder, torch.randn(2, 3, 8)).report.ok
