# SPDX-License-Identifier: Apache-2.0
"""First and second derivatives at kinks, zeros and singular matrices, compared with torch's double backward where torch defines
them."""

import pytest

import hologram as hg

torch = pytest.importorskip("torch")
F = torch.nn.functional

_AT = torch.tensor([-20.0, -3, -2, -1, -0.5, -0.0, 0.0, 0.5, 1, 2, 3, 6, 20], dtype=torch.float64)
_ROWS = torch.tensor([[0.0, 0, 0], [0, 1, -2], [1, 2, 2], [-1, 1, 3]], dtype=torch.float64)


def _derivatives(function, *inputs):
    """The gradients of a weighted sum, and those of a weighted sum of them."""
    leaves = [each.clone().requires_grad_() for each in inputs]

    def weighted(tensors, least):
        return sum((each * torch.linspace(least, 2, each.numel(), dtype=each.dtype).reshape(each.shape)).sum() for each in tensors)

    first = torch.autograd.grad(weighted([function(*leaves)], 0.5), leaves, create_graph=True)
    tracked = [each for each in first if each.requires_grad]
    second = torch.autograd.grad(weighted(tracked, 1.0), leaves, allow_unused=True) if tracked else [None] * len(leaves)
    return [*first, *(torch.zeros_like(x) if each is None else each for each, x in zip(second, leaves))]


def _compare(function, *inputs):
    """torch's NaNs are not compared: there, torch defines no derivative."""
    for k, (ours, theirs) in enumerate(zip(_derivatives(lambda *x: function(hg.ops, *x), *inputs), _derivatives(lambda *x: function(F, *x), *inputs))):
        defined = ~torch.isnan(theirs)
        torch.testing.assert_close(ours[defined], theirs[defined], rtol=1e-7, atol=1e-9, msg=lambda text: f"gradient {k}: {text}")


@pytest.mark.parametrize("name, options", [
    ("relu", {}), ("relu6", {}), ("leaky_relu", {}), ("leaky_relu", {"negative_slope": -0.5}), ("elu", {"alpha": 2.0}), ("celu", {"alpha": 2.0}), ("selu", {}),
    ("softplus", {}), ("softplus", {"beta": 2, "threshold": 1.0}), ("softplus", {"threshold": -1}), ("hardshrink", {}), ("softshrink", {}),
    ("hardtanh", {}), ("hardswish", {}), ("gelu", {}), ("silu", {}), ("mish", {}), ("logsigmoid", {}), ("softsign", {}), ("tanhshrink", {}),
])  # fmt: skip
def test_activations(name, options):
    _compare(lambda of, x: getattr(of, name)(x, **options), _AT)


def test_prelu():
    _compare(lambda of, x, w: of.prelu(x, w), _AT, torch.tensor([0.25], dtype=torch.float64))
    _compare(lambda of, x, w: of.prelu(x, w), _AT.reshape(1, -1), torch.linspace(-0.5, 0.7, 13, dtype=torch.float64))
    _compare(lambda of, x, w: of.prelu(x, w), _AT[:12].reshape(2, 3, 2), torch.linspace(-0.5, 0.7, 3, dtype=torch.float64))


@pytest.mark.parametrize("name, options", [
    ("smooth_l1_loss", {}), ("smooth_l1_loss", {"beta": 0.5}), ("smooth_l1_loss", {"beta": 0.0}), ("huber_loss", {}), ("huber_loss", {"delta": 0.5}), ("l1_loss", {}),
])  # fmt: skip
@pytest.mark.parametrize("target", [0.0, 0.5, 1.0])
def test_losses(name, options, target):
    for reduction in ("none", "mean", "sum"):
        _compare(lambda of, x, y: getattr(of, name)(x, y, reduction=reduction, **options), _AT, torch.full_like(_AT, target))


@pytest.mark.parametrize("p", [0.25, 0.5, 1, 1.5, 2, 2.5, 3, float("inf")])
def test_norms(p):
    for x in (_ROWS, _ROWS[:1], _ROWS[1:]):
        _compare(lambda of, x: (torch if of is F else of).norm(x, p, dim=-1), x)
        _compare(lambda of, x, y: of.pairwise_distance(x, y, p, eps=0.0), x, torch.zeros_like(x))
        _compare(lambda of, x: of.normalize(x, p), x)


@pytest.mark.parametrize("p", [-0.5, -1, -2, float("-inf")])
def test_norms_of_negative_order(p):
    _compare(lambda of, x: (torch.linalg if of is F else of).vector_norm(x, p, dim=-1), _ROWS)


@pytest.mark.parametrize("rows", [
    [[0.0]], [[1.0, 1], [1, 1]], [[1.0, 2, 3], [4, 5, 6], [7, 8, 9]], [[1.0, 2, 0], [2, 4, 0], [0, 0, 1]], [[0.0, 1, 0], [1, 0, 0], [0, 0, 0]],
    [[1.0, 2], [3, 4]], [[0.0, 0], [0, 0]], [[1.0, 0, 0, 0], [0, 2, 0, 0], [0, 0, 3, 0], [0, 0, 0, 0]],
])  # fmt: skip
def test_determinants(rows):
    """torch's double backward needs the gradient with create_graph; without, it is 0 for singular matrices."""
    x = torch.tensor(rows, dtype=torch.float64)
    _compare(lambda of, x: (torch if of is F else of).det(x), x)
    _compare(lambda of, x: (torch if of is F else of).det(x), torch.stack([x, x + 2 * torch.eye(len(rows), dtype=torch.float64)]))
