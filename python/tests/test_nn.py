# SPDX-License-Identifier: Apache-2.0
"""Layers compared with torch's."""

import numpy as np
import pytest

import hologram as hg

torch = pytest.importorskip("torch", "2.5")
import layers


@pytest.mark.parametrize("name", layers.LAYERS)
def test_a_layer_equals_torchs(name):
    """Random arguments and inputs; more of them by layers.py."""
    for seed in range(8):
        assert layers.difference(name, seed) is None


def test_every_layer_is_compared():
    own = {name for name in hg.nn.__all__ if getattr(hg.nn, name) is not getattr(torch.nn, name)}
    assert own - set(layers.LAYERS) == {"TransformerDecoder", "TransformerEncoder"}  # parts of Transformer


@pytest.mark.parametrize("name", layers.LAYERS)
def test_other_dtypes_are_taken_as_torch_takes_them(name):
    for seed, dtype in enumerate(layers.OTHER_DTYPES):
        assert layers.taken(name, seed, dtype) is None


def test_all_of_torchs_layers_are_there():
    bases = {"Container", "RNNBase", "RNNCellBase"}
    of_lua = {"CrossMapLRN2d"}  # torch's sums are wrong: they do not leave out channel 0
    elsewhere = {"SyncBatchNorm", "LinearCrossEntropyOptions"}  # over several processes; in chunks for GPUs
    assert set(torch.nn.modules.__all__) - set(dir(hg.nn)) <= bases | of_lua | elsewhere


def test_probabilities_lie_between_0_and_1():
    for bad in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="between 0 and 1"):
            hg.nn.BCELoss()(torch.tensor([0.5, bad]), torch.ones(2))


def test_the_adaptive_softmax_predicts():
    torch.manual_seed(0)
    ours = hg.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [3, 9], div_value=2.0)
    theirs = torch.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [3, 9], div_value=2.0)
    theirs.load_state_dict(ours.state_dict())
    for scale in (0.01, 1.0, 30.0):
        x = scale * torch.randn(50, 8)
        assert torch.equal(ours.predict(x), theirs.predict(x))
        torch.testing.assert_close(ours.log_prob(x), theirs.log_prob(x))
        torch.testing.assert_close(ours.log_prob(x).exp().sum(1), torch.ones(50))


def test_every_layer_takes_numpy_arrays():
    """They become torch tensors, as the results are, with and without parameters, gradients and odd strides."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((4, 8)).astype(np.float32)
    image, odd = rng.standard_normal((2, 4, 6, 6)).astype(np.float32), np.asfortranarray(x)[::-1]
    still = x.copy()
    still.flags.writeable = False
    for name, args, inputs in [
        ("Linear", (8, 4), [x]), ("Linear", (8, 4), [odd]), ("Linear", (8, 4), [still]), ("ReLU", (), [x]), ("GELU", (), [odd]), ("Softmax", (-1,), [x]),
        ("LayerNorm", (8,), [x]), ("BatchNorm1d", (8,), [x]), ("Conv2d", (4, 3, 3), [image]), ("MaxPool2d", (2,), [image]), ("LSTM", (8, 3), [x]),
        ("MultiheadAttention", (8, 2), [x, x, x]), ("Embedding", (10, 3), [np.array([1, 5])]), ("MSELoss", (), [x, still]), ("CrossEntropyLoss", (), [x, np.array([1, 0, 7, 2])]),
        ("TransformerEncoderLayer", (8, 2, 16), [x]), ("CosineSimilarity", (), [x, odd]), ("PReLU", (), [x]), ("Upsample", (None, 2), [image]),
    ]:  # fmt: skip
        torch.manual_seed(1)
        layer = getattr(hg.nn, name)(*args).eval()
        got, want = layer(*inputs), layer(*(torch.from_numpy(each.copy()) for each in inputs))
        for a, b in zip(*((each if isinstance(each, tuple) else (each,)) for each in (got, want))):
            if isinstance(a, tuple):
                a, b = a[0], b[0]
            assert type(a) is torch.Tensor and a.requires_grad == b.requires_grad, name
            torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_layers_that_find_their_sizes():
    net = torch.nn.Sequential(hg.nn.LazyConv2d(4, 3), hg.nn.LazyBatchNorm2d(), hg.nn.ReLU(), hg.nn.Flatten(), hg.nn.LazyLinear(2))
    net(torch.randn(2, 1, 6, 6)).sum().backward()
    assert [type(each) for each in net] == [hg.nn.Conv2d, hg.nn.BatchNorm2d, hg.nn.ReLU, torch.nn.Flatten, hg.nn.Linear]
    assert "LinearBackward" not in str(net(torch.randn(2, 1, 6, 6)).grad_fn)
    again = torch.nn.Sequential(hg.nn.LazyConv2d(4, 3), hg.nn.LazyBatchNorm2d(), hg.nn.ReLU(), hg.nn.Flatten(), hg.nn.LazyLinear(2))
    again.load_state_dict(net.state_dict())
    net.eval(), again.eval()
    x = torch.randn(2, 1, 6, 6)
    assert torch.equal(net(x), again(x))


@pytest.mark.parametrize("options", [{"max_norm": 1.0}, {"sparse": True}, {"scale_grad_by_freq": True}])
def test_bags_that_are_refused(options):
    with pytest.raises(hg.UnsupportedError, match="EmbeddingBag"):
        hg.nn.EmbeddingBag(5, 2, mode="sum", **options)(torch.tensor([[1, 2]]))


def test_bags_of_strange_offsets():
    index = torch.tensor([1, 2, 3])
    for offsets in ([1, 2], [0, 2, 1], [0, 4]):
        with pytest.raises(ValueError, match="rise from 0"):
            hg.nn.EmbeddingBag(5, 2)(index, torch.tensor(offsets))
    with pytest.raises(ValueError, match="include_last_offset"):
        hg.nn.EmbeddingBag(5, 2, include_last_offset=True)(index, torch.tensor([0, 2]))


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


FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
MARGINS = ["SoftMarginLoss", "HingeEmbeddingLoss", "PoissonNLLLoss", "MultiLabelSoftMarginLoss", "MarginRankingLoss"]


def _equal_losses(name, inputs, target):
    """Compares values and gradients of one of our losses with torch's."""
    for reduction in ("none", "mean", "sum"):
        results = []
        for nn in (torch.nn, hg.nn):
            own = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
            loss = getattr(nn, name)(reduction=reduction)(*own, target)
            loss.double().sum().backward()
            results.append([loss.detach(), *(x.grad for x in own if x.requires_grad)])
        for want, got in zip(*results):
            tolerance = 1e-5 if want.dtype in (torch.float32, torch.float64) else 2e-2
            torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["L1Loss", "MSELoss", "SmoothL1Loss"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_losses_of_two_dtypes(name, dtype):
    for other in [*FLOATS, torch.int64, torch.int32, torch.int16, torch.uint8]:
        for shape in [(4, 3), (), (1,)]:
            target = (torch.randn(shape) * 3).abs().to(other)
            _equal_losses(name, [torch.randn(shape).to(dtype)], target)
            if other.is_floating_point and name != "SmoothL1Loss":
                _equal_losses(name, [target.to(other)], torch.randn(shape).to(dtype))


@pytest.mark.parametrize("name", MARGINS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("whole", [torch.int64, torch.int32])
def test_losses_of_whole_targets(name, dtype, whole):
    for shape in [(4, 3), (1, 1)]:
        count = 2 if name == "MarginRankingLoss" else 1
        target = torch.randint(0, 2, shape, dtype=whole) * 2 - 1
        target = target.abs() if name in ("PoissonNLLLoss", "MultiLabelSoftMarginLoss") else target
        _equal_losses(name, [torch.randn(shape).to(dtype) for _ in range(count)], target)


def test_no_truth_value_is_minus_one():
    x, target = torch.randn(9), torch.arange(9) % 2 == 0
    for loss in (hg.nn.HingeEmbeddingLoss(reduction="none"), lambda x, t: hg.ops.hinge_embedding_loss(x, t, reduction="none")):
        torch.testing.assert_close(loss(x, target), torch.nn.HingeEmbeddingLoss(reduction="none")(x, target))


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
    with pytest.raises(hg.UnsupportedError, match="max_norm"):
        hg.nn.Embedding(3, 2, max_norm=1.0)(torch.tensor([1]))
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(2, 3)])
    with pytest.raises(hg.UnsupportedError, match="packed"):
        hg.nn.LSTM(3, 2)(packed)
    with pytest.raises(hg.UnsupportedError, match="activation"):
        hg.nn.TransformerEncoderLayer(4, 2, activation=torch.sin)


def ran(layer, base, view, of, loss, seed):
    """A layer's results, what it writes to, and gradients, or the error that it raises."""
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
    """Results, writes, gradients, random numbers and errors are the same as torch's."""
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


def test_floats_are_not_written_to_integers():
    x = torch.arange(4)
    with pytest.raises(TypeError, match="int64, not a float"):
        hg.nn.SiLU(inplace=True)(x)
    assert x.tolist() == [0, 1, 2, 3]


def test_a_negative_slope_in_place():
    """torch rejects this backward pass; the gradient is that of the same layer with `inplace=False`."""
    x = torch.randn(3, 4)
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    hg.nn.LeakyReLU(-0.5, inplace=True)(a * 1).square().sum().backward()
    torch.nn.LeakyReLU(-0.5)(b).square().sum().backward()
    torch.testing.assert_close(a.grad, b.grad)


def test_embedding_of_short_indices():
    layer = hg.nn.Embedding(5, 3)
    assert torch.equal(layer(torch.tensor([1, 4], dtype=torch.int32)), layer.weight[[1, 4]])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", [name for name in layers.LAYERS if not name.endswith("Loss")])
@pytest.mark.parametrize("input_dtype", [torch.float32, "reduced", torch.float64])
def test_under_autocast(name, dtype, input_dtype):
    """The same dtypes as torch, equal numbers up to rounding to 16 bits, and an error if torch has one."""
    (ours, theirs), inputs, call, _ = layers.case(name, 1)
    if getattr(ours, "inplace", False) or not all(isinstance(x, torch.Tensor) and x.is_floating_point() for x in inputs):
        pytest.skip("writes to its input, or takes more than floats")
    inputs = [x.to(dtype if input_dtype == "reduced" else input_dtype) for x in inputs]
    results = []
    for layer in (theirs, ours):
        leaves = [x.clone().requires_grad_() for x in inputs]
        try:
            torch.manual_seed(1)
            with torch.autocast("cpu", dtype=dtype):
                y = layer(*leaves, **call)
            y = y[0] if isinstance(y, tuple) else y
            y.float().sin().sum().backward()
        except (RuntimeError, ValueError, TypeError) as error:
            results.append(error)
            continue
        results.append([y.detach(), *(each.grad for each in (*leaves, *layer.parameters()))])
    want, got = results
    if isinstance(got, Exception):
        assert isinstance(want, Exception) or input_dtype == torch.float64, got
        return
    if isinstance(want, Exception):
        return
    rate = 3e-2 if dtype == torch.bfloat16 else 4e-3
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype
        if name.startswith(("Transformer", "GRU", "LSTM", "RNN", "GroupNorm", "InstanceNorm")):
            continue  # they round at other places than torch
        # A gradient may be the rest of numbers around 1 that cancel.
        torch.testing.assert_close(a.double(), b.double(), rtol=rate, atol=rate * max([0.1, *b.double().abs().flatten().tolist()]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_network_under_autocast(dtype):
    """Alternates our layers and torch's, with a loss: the same as with torch's alone."""

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


@pytest.mark.parametrize("name", ["L1Loss", "MSELoss", "SmoothL1Loss", "HuberLoss", "HingeEmbeddingLoss", "PoissonNLLLoss", "KLDivLoss"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_losses_broadcast_as_torchs(name):
    for shape, other in (((2, 3), (3,)), ((3,), (2, 3)), ((2, 1), (1, 3)), ((2, 3), ())):
        for reduction in ("mean", "sum", "none", *(["batchmean"] if name == "KLDivLoss" else [])):
            x, target = torch.rand(shape, requires_grad=True), torch.rand(other)
            if name == "HingeEmbeddingLoss":
                target = (target > 0.5).float() * 2 - 1
            ours, theirs = (getattr(module, name)(reduction=reduction)(x, target) for module in (hg.nn, torch.nn))
            torch.testing.assert_close(ours, theirs)
            torch.testing.assert_close(*(torch.autograd.grad(y.sum(), x)[0] for y in (ours, theirs)))
    with pytest.warns(UserWarning, match="both are broadcast"):
        hg.nn.MSELoss()(torch.ones(2, 3), torch.ones(3))
    with pytest.raises(ValueError, match=r"the input is \(2, 3\), the target \(2,\)"):
        getattr(hg.nn, name)()(torch.ones(2, 3), torch.ones(2))


@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax", "Softmin"])
def test_softmax_without_a_dim_is_torchs(name):
    for shape in ((3,), (2, 3), (2, 3, 4), (2, 3, 4, 5)):
        x = torch.randn(shape)
        with pytest.warns(UserWarning, match="without a dim"):
            ours = getattr(hg.nn, name)()(x)
        with pytest.warns(UserWarning):
            torch.testing.assert_close(ours, getattr(torch.nn, name)()(x))
