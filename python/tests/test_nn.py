# SPDX-License-Identifier: Apache-2.0
"""Layers beside torch's own."""

import pytest

import hologram as hg

torch = pytest.importorskip("torch", "2.5")

CASES = [
    ("Linear", (8, 4), {}, (3, 8)),
    ("Linear", (8, 4), {"bias": False}, (2, 5, 8)),
    ("Conv1d", (3, 4, 3), {"padding": 1}, (2, 3, 9)),
    ("Conv2d", (4, 6, 3), {"stride": 2, "padding": 1, "groups": 2}, (2, 4, 9, 8)),
    ("Conv2d", (4, 6, 3), {"padding": "same", "dilation": 2}, (4, 9, 8)),
    ("Conv3d", (2, 3, 2), {}, (1, 2, 4, 5, 4)),
    ("BatchNorm2d", (3,), {}, (4, 3, 5, 5)),
    ("BatchNorm2d", (3,), {"affine": False, "momentum": None}, (4, 3, 5, 5)),
    ("LayerNorm", ((4, 6),), {}, (2, 4, 6)),
    ("LayerNorm", (6,), {"elementwise_affine": False}, (2, 4, 6)),
    ("MaxPool2d", (2,), {}, (2, 3, 7, 8)),
    ("MaxPool2d", (3,), {"stride": 2, "padding": 1, "ceil_mode": True}, (3, 7, 8)),
    ("ReLU", (), {}, (3, 4)),
    ("Sigmoid", (), {}, (3, 4)),
    ("Tanh", (), {}, (3, 4)),
    ("SiLU", (), {}, (3, 4)),
    ("GELU", (), {}, (3, 4)),
    ("GELU", (), {"approximate": "tanh"}, (3, 4)),
    ("LeakyReLU", (0.2,), {}, (3, 4)),
    ("Softmax", (-1,), {}, (3, 4)),
    ("LogSoftmax", (1,), {}, (3, 4)),
]


@pytest.mark.parametrize("name, args, options, shape", CASES, ids=lambda v: str(v))
def test_a_layer_equals_torchs(name, args, options, shape):
    torch.manual_seed(0)
    ours = getattr(hg.nn, name)(*args, **options)
    torch.manual_seed(0)
    theirs = getattr(torch.nn, name)(*args, **options)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for a, b in zip(ours.state_dict().values(), theirs.state_dict().values()):
        assert torch.equal(a, b)  # the same initialisation
    for training in (True, True, False):
        ours.train(training), theirs.train(training)
        x = torch.randn(shape)
        x1, x2 = x.clone().requires_grad_(), x.clone().requires_grad_()
        y1, y2 = ours(x1), theirs(x2)
        torch.testing.assert_close(y1, y2, rtol=1e-4, atol=1e-5)
        dy = torch.randn_like(y2)
        y1.backward(dy), y2.backward(dy)
        torch.testing.assert_close(x1.grad, x2.grad, rtol=1e-3, atol=1e-5)
        for p, q in zip(ours.parameters(), theirs.parameters()):
            torch.testing.assert_close(p.grad, q.grad, rtol=1e-3, atol=1e-4)
        for a, b in zip(ours.state_dict().values(), theirs.state_dict().values()):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_embedding():
    torch.manual_seed(0)
    ours = hg.nn.Embedding(10, 4, padding_idx=2)
    torch.manual_seed(0)
    theirs = torch.nn.Embedding(10, 4, padding_idx=2)
    index = torch.tensor([[1, 2, 9], [0, 2, 2]])
    y1, y2 = ours(index), theirs(index)
    torch.testing.assert_close(y1, y2)
    y1.sum().backward(), y2.sum().backward()
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad)


def test_losses():
    x, t = torch.randn(5, 3), torch.randn(5, 3)
    classes = torch.tensor([0, 2, 1, 1, 0])
    for name in ("MSELoss", "L1Loss"):
        for reduction in ("mean", "sum", "none"):
            ours, theirs = (getattr(m, name)(reduction=reduction) for m in (hg.nn, torch.nn))
            torch.testing.assert_close(ours(x, t), theirs(x, t))
    for options in ({}, {"label_smoothing": 0.1}, {"weight": torch.tensor([1.0, 2, 3])}, {"ignore_index": 1}):
        x1, x2 = x.clone().requires_grad_(), x.clone().requires_grad_()
        y1 = hg.nn.CrossEntropyLoss(**options)(x1, classes)
        y2 = torch.nn.CrossEntropyLoss(**options)(x2, classes)
        torch.testing.assert_close(y1, y2)
        y1.backward(), y2.backward()
        torch.testing.assert_close(x1.grad, x2.grad)
    with pytest.raises(ValueError, match=r"5, 3"):
        hg.nn.MSELoss()(x, t[:, :1])


def test_dropout():
    drop = hg.nn.Dropout(0.5)
    x = torch.ones(1000, requires_grad=True)
    torch.manual_seed(1)
    y = drop(x)
    torch.manual_seed(1)
    assert torch.equal(y, drop(x))
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())
    assert set(y.detach().unique().tolist()) == {0.0, 2.0}
    drop.eval()
    assert torch.equal(drop(x), x)


def test_a_network_of_both_kinds_trains():
    torch.manual_seed(3)
    net = torch.nn.Sequential(hg.nn.Linear(4, 16), torch.nn.ReLU(), hg.nn.Linear(16, 2))
    optimizer = torch.optim.Adam(net.parameters(), 0.05)
    x = torch.randn(64, 4)
    y = (x[:, 0] > 0).long()
    for _ in range(40):
        optimizer.zero_grad()
        loss = hg.nn.CrossEntropyLoss()(net(x), y)
        loss.backward()
        optimizer.step()
    assert loss < 0.1


def test_what_is_not_supported_says_so():
    with pytest.raises(hg.UnsupportedError, match="padding_mode"):
        hg.nn.Conv2d(1, 1, 3, padding_mode="reflect", padding=1)(torch.ones(1, 1, 4, 4))


def ran(layer, base, view, of, loss, seed):
    """What a layer gives and writes to, with gradients, or the error that it raises."""
    torch.manual_seed(seed)
    leaf = base.clone()
    try:
        if of != "nothing":
            leaf.requires_grad_()
        whole = leaf * 1 if of == "a result" else leaf
        x = view(whole)
        y = layer(x)
        found = [y.detach().clone(), whole.detach().clone(), torch.tensor(y is x), torch.rand(1)]
        if y.requires_grad:
            loss(x, y).backward()
            found.append(leaf.grad)
        return found
    except RuntimeError as error:
        return error


VIEWS = {
    "itself": lambda x: x,
    "a part": lambda x: x[..., 1:],
    "transposed": lambda x: x.transpose(0, -1),
    "every second": lambda x: x[::2],
    "one row often": lambda x: x[:1].expand(3, *x.shape[1:]),
    "nothing": lambda x: x[:0],
}
LOSSES = [lambda x, y: (3 * y).sum(), lambda x, y: (y * y).sum(), lambda x, y: (y * 3 + x * 2).sum()]


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize(
    "name, options",
    [("ReLU", {}), ("SiLU", {}), ("LeakyReLU", {"negative_slope": 0.2}), *(("Dropout", {"p": p}) for p in (0.0, 0.3, 1.0))],
    ids=str,
)
def test_in_place_and_not(name, options, inplace):
    """Results, what is written, gradients, torch's random numbers, and errors are torch's."""
    seed = 0
    dtypes = [torch.float32, torch.float64, torch.bfloat16, *([torch.int64] if name in ("ReLU", "Dropout") else [])]
    for dtype in dtypes:
        for training in (True, False):
            for view in VIEWS.values():
                for of in ("nothing", "a leaf", "a result") if dtype.is_floating_point else ("nothing",):
                    for loss in LOSSES:
                        seed += 1
                        torch.manual_seed(seed)
                        base = (3 * torch.randn(4, 3)).to(dtype)
                        ours, theirs = (getattr(m, name)(**options, inplace=inplace).train(training) for m in (hg.nn, torch.nn))
                        got, want = (ran(layer, base, view, of, loss, seed) for layer in (ours, theirs))
                        if isinstance(want, Exception) or isinstance(got, Exception):
                            assert type(want) is type(got), (want, got)
                            continue
                        rate = 2e-2 if dtype == torch.bfloat16 else 1e-5
                        for a, b in zip(got, want, strict=True):
                            torch.testing.assert_close(a, b, rtol=rate, atol=rate)


@pytest.mark.parametrize("name", ["SiLU", "LeakyReLU"])
def test_floats_are_not_written_to_integers(name):
    x = torch.arange(4)
    with pytest.raises(RuntimeError, match="float32.*int64"):
        getattr(hg.nn, name)(inplace=True)(x)
    assert x.tolist() == [0, 1, 2, 3]


def test_a_negative_slope_in_place():
    """torch refuses this backward pass; the gradient is that of the layer which writes elsewhere."""
    x = torch.randn(3, 4)
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    hg.nn.LeakyReLU(-0.5, inplace=True)(a * 1).square().sum().backward()
    torch.nn.LeakyReLU(-0.5)(b).square().sum().backward()
    torch.testing.assert_close(a.grad, b.grad)


def test_embedding_of_short_indices():
    layer = hg.nn.Embedding(5, 3)
    assert torch.equal(layer(torch.tensor([1, 4], dtype=torch.int32)), layer.weight[[1, 4]])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name, args, options, shape", CASES, ids=lambda v: str(v))
@pytest.mark.parametrize("input_dtype", [torch.float32, "reduced", torch.float64])
def test_under_autocast(name, args, options, shape, dtype, input_dtype):
    """torch's dtypes, and its numbers to the rounding of 16 bits; or an error where torch has one."""
    torch.manual_seed(0)
    ours = getattr(hg.nn, name)(*args, **options)
    torch.manual_seed(0)
    theirs = getattr(torch.nn, name)(*args, **options)
    x = torch.randn(*shape).to(dtype if input_dtype == "reduced" else input_dtype)
    results = []
    for layer in (theirs, ours):
        leaf = x.clone().requires_grad_()
        try:
            with torch.autocast("cpu", dtype=dtype):
                y = layer(leaf)
            y.float().sin().sum().backward()
        except (RuntimeError, ValueError, TypeError) as error:
            results.append(error)
            continue
        results.append((y.detach(), leaf.grad, [p.grad for p in layer.parameters()]))
    want, got = results
    if isinstance(got, Exception):
        assert isinstance(want, Exception) or input_dtype == torch.float64, got
        return
    if isinstance(want, Exception):
        return
    rate = 3e-2 if dtype == torch.bfloat16 else 4e-3
    assert got[0].dtype == want[0].dtype
    for a, b in zip([got[0], got[1], *got[2]], [want[0], want[1], *want[2]]):
        assert a.dtype == b.dtype
        torch.testing.assert_close(a.double(), b.double(), rtol=rate, atol=rate * max(1e-3, float(b.double().abs().max())))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_network_under_autocast(dtype):
    """Layers of both kinds in turn, with a loss: as all of torch's."""

    def make(a, b):
        torch.manual_seed(1)
        return torch.nn.Sequential(a.Conv2d(2, 4, 3), b.BatchNorm2d(4), a.ReLU(), torch.nn.Flatten(), b.Linear(64, 8), a.LayerNorm(8), b.GELU(), a.Linear(8, 3))

    x, target = torch.randn(5, 2, 6, 6), torch.tensor([0, 1, 2, 0, 1])
    losses = []
    for first, second in ((torch.nn, torch.nn), (hg.nn, torch.nn), (torch.nn, hg.nn), (hg.nn, hg.nn)):
        model = make(first, second)
        with torch.autocast("cpu", dtype=dtype):
            y = model(x)
            loss = first.CrossEntropyLoss()(y, target)
        assert y.dtype == dtype and loss.dtype == torch.float32
        loss.backward()
        losses.append((loss.item(), model[0].weight.grad.clone()))
    for loss, gradient in losses[1:]:
        assert loss == pytest.approx(losses[0][0], rel=2e-2)
        assert gradient.dtype == torch.float32
        torch.testing.assert_close(gradient, losses[0][1], rtol=0.1, atol=0.1 * float(losses[0][1].abs().max()))


def test_an_ignored_class_among_probabilities_is_refused():
    loss, x = hg.nn.CrossEntropyLoss(ignore_index=1), torch.randn(4, 5)
    with pytest.raises(ValueError, match="ignore_index is 1"):
        loss(x, torch.softmax(x, 1))
    y = torch.tensor([0, 1, 4, 1])
    torch.testing.assert_close(loss(x, y), torch.nn.CrossEntropyLoss(ignore_index=1)(x, y))
