# SPDX-License-Identifier: Apache-2.0
"""What comes on a device stays on it: layers, autograd, optimizers, ops, expressions, kernels and sessions, with counted transfers."""

import copy
import io

import numpy as np
import pytest

import hologram as hg
from conftest import mlp, mlp_numpy

FOUND = hg.devices()[1:]
pytestmark = pytest.mark.skipif(not FOUND, reason="there is no Vulkan device")


@pytest.fixture
def device():
    """The first Vulkan device, which may be software, as the executor of a block."""
    with hg.Executor("vulkan", gpu_name=FOUND[0].name) as executor:
        yield executor


class Transfers:
    """The counters of an executor within a block."""

    def __init__(self, executor):
        self.executor = executor

    def __enter__(self):
        self._before = self.executor.counters()
        return self

    def __exit__(self, *unused):
        after = self.executor.counters()
        for name in ("uploads", "upload_bytes", "downloads", "download_bytes", "submits"):
            setattr(self, name, after[name] - self._before[name])


def test_names():
    assert hg.VulkanTensor is hg.Tensor and hg.functional is hg.ops
    assert hg.to_vulkan_gpu is hg.to_vulkan_batch is hg.to_vulkan


def test_what_shaders_compute_in():
    x = np.arange(4, dtype=np.float64)
    assert hg.ensure_vulkan_compatible(x).dtype == np.float32 and hg.ensure_vulkan_compatible(np.arange(3)).dtype == np.int64
    f32 = x.astype(np.float32)
    assert hg.ensure_vulkan_compatible(f32) is f32 or np.shares_memory(hg.ensure_vulkan_compatible(f32), f32)
    for each in (hg.from_numpy(x), (x, f32)):
        made = hg.ensure_vulkan_compatible(each)
        for one in made if isinstance(made, tuple) else (made,):
            assert type(one) is np.ndarray and one.dtype == np.float32
            np.testing.assert_array_equal(one, x)


def test_ops_run_where_their_tensors_are(device, rng):
    a = rng.standard_normal((4, 5)).astype(np.float32)
    v = hg.to_vulkan(a)
    for _ in range(2):  # the first use of a kernel tests it
        with Transfers(device) as seen:
            y = hg.ops.softmax(v * 2 + 1, -1)
    assert type(y) is hg.Tensor and y.is_on_device and not y.is_on_host
    assert (seen.uploads, seen.downloads) == (0, 0)
    e = np.exp(a * 2 + 1)
    np.testing.assert_allclose(y.numpy(), e / e.sum(-1, keepdims=True), rtol=1e-5)


def test_ops_stay_on_the_device_outside_of_with(rng):
    a = rng.standard_normal((4, 5)).astype(np.float32)
    with hg.Executor("vulkan", gpu_name=FOUND[0].name):
        v = hg.to_vulkan(a)
    y = hg.ops.exp(v)
    assert y.is_on_device and not y.is_on_host
    np.testing.assert_allclose(y.numpy(), np.exp(a), rtol=1e-5)
    with hg.Executor("cpu"):
        assert hg.ops.exp(v).is_on_host


def test_numbers_are_uploaded_once(device, rng):
    v = hg.to_vulkan(rng.standard_normal(7).astype(np.float32))
    for number in (0.25, 3.0, 0.25):
        np.testing.assert_allclose((v * number).numpy(), v.numpy() * np.float32(number))
    with Transfers(device) as seen:
        v * 0.25
        v * 3.0
    assert seen.uploads == 0


def test_what_numpy_writes_is_seen(device):
    """numpy() of a tensor on a device is a copy; memory of from_numpy() belongs to the caller, who may write to it."""
    v = hg.to_vulkan(np.ones(3, np.float32))
    v.numpy()[:] = 5
    np.testing.assert_array_equal(hg.ops.add(v, 1).numpy(), [2, 2, 2])
    own = np.ones(3, np.float32)
    shared = hg.from_numpy(own)
    hg.ops.add(shared, 1)
    own[:] = 5
    np.testing.assert_array_equal(hg.ops.add(shared, 1).numpy(), [6, 6, 6])


def test_expressions_run_where_their_leaves_are(device, rng):
    a = rng.standard_normal((3, 4)).astype(np.float32)
    x = hg.Var(hg.to_vulkan(a))
    y = (x * x).sum() + x.max()
    for _ in range(2):
        with Transfers(device) as seen:
            value, slope = hg.evaluate([y * 2, y.grad(x)])
    assert type(value) is type(slope) is hg.Tensor and slope.is_on_device and not slope.is_on_host
    assert seen.downloads == 0
    np.testing.assert_allclose(value.numpy(), 2 * ((a * a).sum() + a.max()), rtol=1e-5)
    np.testing.assert_allclose(slope.numpy(), 2 * a + (a == a.max()), rtol=1e-5)
    (again,) = hg.evaluate([hg.Var(a) * 3], device="vulkan")
    np.testing.assert_allclose(again, a * 3, rtol=1e-6)
    with pytest.raises(ValueError, match="'tpu'"):
        hg.evaluate([y], device="tpu")


def test_kernels_run_where_their_tensors_are(device, rng):
    a = rng.standard_normal((3, 4)).astype(np.float32)
    kernel = hg.kernel("wave", "sin(x) * k")
    y = kernel(hg.to_vulkan(a), 2.0)
    assert type(y) is hg.Tensor and not y.is_on_host
    np.testing.assert_allclose(y.numpy(), np.sin(a) * 2, rtol=1e-5)


def test_sessions_give_tensors_of_the_device(device, rng):
    model, weights = mlp(rng)
    x = rng.standard_normal((5, 8)).astype(np.float32)
    v = hg.to_vulkan(x)
    session = model.session(device="vulkan", gpu_name=FOUND[0].name)
    y = session(v)
    with Transfers(device) as seen:
        y = session(x=v)
    assert type(y) is hg.Tensor and not y.is_on_host
    assert (seen.uploads, seen.downloads) == (0, 0)
    np.testing.assert_allclose(y.numpy(), mlp_numpy(weights, x), rtol=1e-4, atol=1e-5)
    kept = y.numpy()
    session(hg.to_vulkan(2 * x))
    np.testing.assert_array_equal(y.numpy(), kept)  # later runs overwrite nothing
    assert isinstance(session(x), np.ndarray)
    out = np.empty((5, 3), np.float32)
    np.testing.assert_array_equal(session(v, out=out), y.numpy())


torch = pytest.importorskip("torch", "2.5")
import layers  # noqa: E402


def net(nn, seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))


@pytest.mark.parametrize("name", layers.LAYERS)
def test_a_layer_equals_torchs(device, name):
    """Results, gradients and buffers of layers that run on the device."""
    assert layers.difference(name, 3) is None


def test_chains_and_backward_stay_on_the_device(device):
    ours, theirs = net(hg.nn), net(torch.nn)
    x, t = torch.randn(5, 8), torch.randn(5, 3)
    v, tv = hg.to_vulkan([x, t])
    for _ in range(2):
        ours.zero_grad()
        with Transfers(device) as seen:
            loss = hg.nn.MSELoss()(ours(v), tv)
            loss.backward()
    assert type(loss) is hg.Tensor and loss.requires_grad
    assert (seen.uploads, seen.downloads) == (0, 0)
    torch.nn.functional.mse_loss(theirs(x), t).backward()
    for a, b in zip(ours.parameters(), theirs.parameters()):
        torch.testing.assert_close(a.grad.cpu(), b.grad)


def test_weights_are_uploaded_again_if_they_change(device):
    layer = hg.nn.Linear(4, 2)
    x = torch.randn(3, 4)
    for change in (lambda w: w.data.mul_(2), lambda w: w.detach().numpy().__imul__(3), lambda w: torch.nn.init.ones_(w)):
        change(layer.weight)
        torch.testing.assert_close(layer(x).detach().cpu(), torch.nn.functional.linear(x, layer.weight, layer.bias).detach())


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam"])
def test_torchs_optimizers_step_on_the_device(device, optimizer):
    """One upload of the batch, one download of the loss."""
    options = {"lr": 0.05} | ({"momentum": 0.9, "weight_decay": 0.01} if optimizer == "SGD" else {})
    ours, theirs = hg.to_vulkan(net(hg.nn)), net(torch.nn)
    a, b = (getattr(torch.optim, optimizer)(each.parameters(), **options) for each in (ours, theirs))
    x, t = torch.randn(5, 8), torch.randn(5, 3)
    for _ in range(4):
        with Transfers(device) as seen:
            v, tv = hg.to_vulkan([x, t])
            loss = hg.nn.MSELoss()(ours(v), tv)
            a.zero_grad()
            loss.backward()
            a.step()
            value = loss.item()
        expected = torch.nn.functional.mse_loss(theirs(x), t)
        b.zero_grad()
        expected.backward()
        b.step()
        assert value == pytest.approx(expected.item(), rel=1e-4)
    if optimizer == "SGD":
        assert (seen.uploads, seen.upload_bytes) == (2, x.nbytes + t.nbytes)  # in one submission
    elif optimizer in ("Adam", "AdamW"):  # and numbers that change with each step
        assert seen.upload_bytes < x.nbytes + t.nbytes + 32
    if optimizer in ("SGD", "Adam", "AdamW"):
        assert (seen.downloads, seen.download_bytes) == (1, 4)
    for p, q in zip(ours.parameters(), theirs.parameters()):
        torch.testing.assert_close(p.detach().cpu(), q.detach(), rtol=1e-4, atol=1e-5)


def test_a_module_is_moved_in_place(device):
    layer = hg.nn.Linear(3, 3)
    tied = torch.nn.ModuleList([layer, hg.nn.Linear(3, 3)])
    tied[1].weight = layer.weight
    before, optimizer = layer.weight.detach().clone(), torch.optim.SGD(tied.parameters(), lr=0.1)
    assert hg.to_vulkan(tied) is tied and tied[1].weight is layer.weight
    assert isinstance(layer.weight, torch.nn.Parameter) and layer.weight.requires_grad
    assert optimizer.param_groups[0]["params"][0] is layer.weight
    torch.testing.assert_close(layer.weight.detach().cpu(), before)
    norm = hg.to_vulkan(hg.nn.BatchNorm1d(3))
    theirs = torch.nn.BatchNorm1d(3)
    x = torch.randn(6, 3)
    norm(hg.to_vulkan(x)), theirs(x)
    torch.testing.assert_close(norm.running_var.cpu(), theirs.running_var)


def test_torch_tensors_on_a_device_act_like_torchs(device):
    with torch.no_grad():
        y = hg.nn.ReLU()(torch.tensor([[1.0, -2.0], [3.0, 4.0]]))
    host = torch.tensor([[1.0, 0.0], [3.0, 4.0]])
    assert isinstance(y, torch.Tensor) and y.hologram().is_on_device
    assert torch.equal(y.cpu(), host) and y.tolist() == host.tolist() and y[1, 0].item() == 3.0
    np.testing.assert_array_equal(y.numpy(), host.numpy())
    assert "3." in repr(y)
    for f in (lambda x: x.sum(), lambda x: x.T @ x, lambda x: torch.cat([x, x], 1), lambda x: x[:, 1] * 2, lambda x: x.argmax(1),
              lambda x: x.view(4).sort().values, lambda x: torch.linalg.det(x), lambda x: x.double().mean(0)):  # fmt: skip
        torch.testing.assert_close(f(y).cpu(), f(host))
    for write in (lambda x: x.add_(1), lambda x: x.t().add_(x.clone()), lambda x: x[0].mul_(3), lambda x: x.t()[1].fill_(7), lambda x: x.view(-1)[2:].copy_(x.view(-1)[:2]),
                  lambda x: x.clamp_(max=5), lambda x: x.copy_(torch.ones(2, 2)), lambda x: x.zero_()):  # fmt: skip
        write(y), write(host)
        torch.testing.assert_close(y.cpu(), host)
        torch.testing.assert_close(hg.ops.add(y, 1).cpu(), host + 1)
    assert torch.equal(copy.deepcopy(y).cpu(), host)
    file = io.BytesIO()
    torch.save({"y": y}, file)
    file.seek(0)
    assert type(torch.load(file)["y"]) is torch.Tensor


def test_gradients_of_hologram_tensors(device):
    x = torch.randn(3, 4)
    v = hg.to_vulkan(x).requires_grad_()
    y = (hg.ops.sin(v) * v).sum()
    y.backward()
    x.requires_grad_()
    (torch.sin(x) * x).sum().backward()
    assert type(v.grad) is hg.Tensor and v.grad.is_on_device
    torch.testing.assert_close(v.grad.torch(), x.grad)
    assert not v.detach().requires_grad and y.item() == pytest.approx((x.sin() * x).sum().item(), rel=1e-5)
    with pytest.raises(RuntimeError, match="no gradient is recorded"):
        hg.to_vulkan(x.detach()).backward()
