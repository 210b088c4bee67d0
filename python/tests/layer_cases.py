# SPDX-License-Identifier: Apache-2.0
"""Random arguments and inputs for every layer of hg.nn: LAYERS maps each name to a function that draws them."""

import torch


def _sizes(r, dims, low=1, high=7):
    return [r.randint(low, high) for _ in range(dims)]


def _maybe_batch(r, *shape):
    return list(shape) if r.random() < 0.2 else [r.choice([0, 1, 2, 3]), *shape]


def _activation(*choices):
    return lambda r: ((), r.choice(choices or ({},)), [_sizes(r, r.randint(0, 4), 0)])


def _inplace(*choices):
    def make(r):
        args, options, shapes = _activation(*choices)(r)
        return args, options | {"inplace": r.random() < 0.4}, shapes

    return make


def _softmax(r):
    shape = _sizes(r, r.randint(1, 4))
    return (r.randrange(-len(shape), len(shape)),), {}, [shape]


def _conv(dims):
    def make(r):
        groups, kernel = r.choice([1, 1, 2]), _sizes(r, dims, 1, 3)
        n, m = groups * r.randint(1, 3), groups * r.randint(1, 3)
        mode = r.choice(["zeros", "zeros", "zeros", "reflect", "replicate", "circular"])
        options = {"groups": groups, "dilation": r.randint(1, 2), "bias": r.random() < 0.7, "padding_mode": mode}
        if r.random() < 0.3:
            options["padding"] = r.choice(["same", "valid"])
        else:
            options |= {"stride": r.randint(1, 3), "padding": r.randint(0, 2)}
        return (n, m, kernel), options, [_maybe_batch(r, n, *_sizes(r, dims, 5, 9))]

    return make


def _conv_transpose(dims):
    def make(r):
        groups, kernel = r.choice([1, 1, 2]), _sizes(r, dims, 1, 3)
        n, m, stride = groups * r.randint(1, 3), groups * r.randint(1, 3), r.randint(1, 3)
        options = {"groups": groups, "stride": stride, "dilation": r.randint(1, 2), "bias": r.random() < 0.7,
                   "padding": r.randint(0, 1), "output_padding": r.randint(0, stride - 1)}  # fmt: skip
        return (n, m, kernel), options, [_maybe_batch(r, n, *_sizes(r, dims, 2, 6))]

    return make


def _pool(dims, kind):
    def make(r):
        kernel = _sizes(r, dims, 1, 4)
        options = {"stride": r.choice([None, r.randint(1, 3)]), "padding": min(kernel) // 2 if r.random() < 0.5 else 0,
                   "ceil_mode": r.random() < 0.4}  # fmt: skip
        if dims == 1:
            kernel = kernel[0]
        if kind == "max":
            options |= {"dilation": r.randint(1, 2), "return_indices": r.random() < 0.3}
        else:
            options["count_include_pad"] = r.random() < 0.5
            if dims > 1 and r.random() < 0.3:
                options["divisor_override"] = r.randint(1, 5)
        return (kernel,), options, [_maybe_batch(r, r.randint(1, 3), *_sizes(r, dims, 8, 10))]

    return make


def _adaptive(dims, indices=False):
    def make(r):
        size = r.randint(1, 5) if r.random() < 0.4 else tuple(r.choice([None, r.randint(1, 5)]) for _ in range(dims))
        if dims == 1:
            size = size[0] or 3 if isinstance(size, tuple) else size
        options = {"return_indices": r.random() < 0.3} if indices else {}
        return (size,), options, [_maybe_batch(r, r.randint(1, 3), *_sizes(r, dims, 1, 9))]

    return make


def _batch_norm(dims):
    def make(r):
        c = r.randint(1, 4)
        options = {"affine": r.random() < 0.7, "track_running_stats": r.random() < 0.7, "momentum": r.choice([0.1, 0.5, None]),
                   "eps": r.choice([1e-5, 1e-2])}  # fmt: skip
        inner = [] if dims == 1 and r.random() < 0.5 else _sizes(r, dims, 1, 5)
        return (c,), options, [[r.choice([0, 2, 3, 5]), c, *inner]]

    return make


def _instance_norm(dims):
    def make(r):
        c = r.randint(1, 4)
        options = {"affine": r.random() < 0.5, "track_running_stats": r.random() < 0.5, "momentum": r.choice([0.1, 0.5])}
        shape = [r.randint(1, 3), c, *_sizes(r, dims, 2, 5)]
        return (c,), options, [shape[1:] if r.random() < 0.3 else shape]

    return make


def _last_dims(*bias):
    def make(r):
        shape = _sizes(r, r.randint(1, 2), 1, 6)
        options = {"elementwise_affine": r.random() < 0.7, "eps": r.choice([1e-5, 1e-2])}
        options |= {"bias": r.random() < 0.5} if bias else {}
        return (shape,), options, [[*_sizes(r, r.randint(0, 2), 0, 4), *shape]]

    return make


def _group_norm(r):
    groups = r.randint(1, 3)
    c = groups * r.randint(1, 3)
    return (groups, c), {"affine": r.random() < 0.7}, [[r.randint(0, 3), c, *_sizes(r, r.randint(0, 3), 1, 5)]]


def _pad(dims, kind):
    def make(r):
        low = -1 if kind == "constant" else 0
        size = r.randint(0, 2) if r.random() < 0.4 else tuple(r.randint(low, 2) for _ in range(2 * dims))
        args = (size, r.choice([0.0, -1.5])) if kind == "value" else (size,)
        return args, {}, [_maybe_batch(r, r.randint(1, 3), *_sizes(r, dims, 4, 7))]

    return make


def _upsample(r):
    dims = r.randint(1, 3)
    mode = r.choice(["nearest", ["linear", "bilinear", "trilinear"][dims - 1], *(["bicubic"] if dims == 2 else [])])
    options = {"mode": mode}
    if mode != "nearest":
        options["align_corners"] = r.random() < 0.5
    if r.random() < 0.5:
        options["size"] = r.randint(1, 9) if r.random() < 0.5 else tuple(_sizes(r, dims, 1, 9))
    else:
        options["scale_factor"] = r.choice([2, 0.5, 1.7, tuple(r.choice([1.0, 2.0, 1.5]) for _ in range(dims))])
        options["recompute_scale_factor"] = r.choice([None, None, True])
    return (), options, [[r.randint(1, 3), r.randint(1, 3), *_sizes(r, dims, 2, 7)]]


def _upsample2d(r):
    options = {"size": r.randint(1, 9)} if r.random() < 0.5 else {"scale_factor": r.choice([2, 1.5])}
    return (), options, [[2, r.randint(1, 3), *_sizes(r, 2, 2, 6)]]


def _unfold(r):
    options = {"kernel_size": _sizes(r, 2, 1, 3), "stride": r.randint(1, 2), "padding": r.randint(0, 1), "dilation": r.randint(1, 2)}
    return (), options, [_maybe_batch(r, r.randint(1, 3), *_sizes(r, 2, 5, 8))]


def _fold(r):
    _, options, (shape,) = _unfold(r)
    x = torch.zeros(1, *shape[-3:])
    blocks = torch.nn.Unfold(**options)(x)
    return (), options | {"output_size": tuple(shape[-2:])}, [[*shape[:-3], *blocks.shape[1:]]]


def _recurrent(kind):
    def make(r):
        n, h, layers, batch = r.randint(1, 5), r.randint(1, 5), r.randint(1, 2), r.randint(1, 3)
        options = {"num_layers": layers, "bias": r.random() < 0.7, "bidirectional": r.random() < 0.5, "batch_first": r.random() < 0.5}
        if kind == "RNN":
            options["nonlinearity"] = r.choice(["tanh", "relu"])
        if kind == "LSTM" and h > 1 and r.random() < 0.3:
            options["proj_size"] = h - 1
        time = r.randint(1, 5)
        shape = [batch, time, n] if options["batch_first"] else [time, batch, n]
        shapes = [[time, n] if r.random() < 0.2 else shape]
        if r.random() < 0.5:
            rows = layers * (2 if options["bidirectional"] else 1)
            middle = [batch] if len(shapes[0]) == 3 else []
            states = [[rows, *middle, options.get("proj_size") or h], [rows, *middle, h]]
            shapes.append(tuple(states) if kind == "LSTM" else states[0])
        return (n, h), options, shapes

    return make


def _cell(kind):
    def make(r):
        n, h, batch = r.randint(1, 5), r.randint(1, 5), r.choice([[], [1], [3]])
        shapes = [[*batch, n]]
        if r.random() < 0.5:
            shapes.append(([*batch, h], [*batch, h]) if kind == "LSTM" else [*batch, h])
        return (n, h), {"bias": r.random() < 0.7} | ({"nonlinearity": "relu"} if kind == "RNN" else {}), shapes

    return make


def _attention(r):
    heads, batch, time, steps = r.choice([1, 2]), r.randint(1, 3), r.randint(1, 5), r.randint(1, 5)
    e = heads * r.randint(1, 4)
    options = {"batch_first": r.random() < 0.5, "bias": r.random() < 0.7, "add_bias_kv": r.random() < 0.2,
               "add_zero_attn": r.random() < 0.2}  # fmt: skip
    k, v = e, e
    if r.random() < 0.3:
        k, v = r.randint(1, 5), r.randint(1, 5)
        options |= {"kdim": k, "vdim": v}

    def shape(n, f):
        return [n, f] if alone else [batch, n, f] if options["batch_first"] else [n, batch, f]

    alone = r.random() < 0.2
    call = {"need_weights": r.random() < 0.5, "average_attn_weights": r.random() < 0.5}
    if r.random() < 0.4:
        mask = torch.rand(time, steps) < 0.3
        mask[:, 0] = False
        call["attn_mask"] = mask if r.random() < 0.5 else torch.randn(time, steps)
        if not alone and r.random() < 0.4:
            call["attn_mask"] = torch.randn(batch * heads, time, steps)
    if r.random() < 0.4:
        mask = torch.rand(batch, steps) < 0.3
        mask[:, 0] = False
        if call.get("attn_mask") is not None and call["attn_mask"].is_floating_point():
            mask = torch.randn(batch, steps)
        call["key_padding_mask"] = mask[0] if alone else mask
    return (e, heads), options, [shape(time, e), shape(steps, k), shape(steps, v)], call


def _layer_options(r):
    return {"dim_feedforward": r.randint(1, 9), "dropout": 0.0, "activation": r.choice(["relu", "gelu"]), "batch_first": True,
            "norm_first": r.random() < 0.5, "bias": r.random() < 0.7}  # fmt: skip


def _encoder_layer(r):
    e, time = 2 * r.randint(1, 4), r.randint(1, 5)
    call = {"src_mask": torch.randn(time, time)} if r.random() < 0.5 else {}
    return (e, 2), _layer_options(r), [[r.randint(1, 3), time, e]], call


def _decoder_layer(r):
    e, time, n = 2 * r.randint(1, 4), r.randint(1, 5), r.randint(1, 3)
    call = {"tgt_mask": torch.nn.Transformer.generate_square_subsequent_mask(time), "tgt_is_causal": True} if r.random() < 0.5 else {}
    return (e, 2), _layer_options(r), [[n, time, e], [n, r.randint(1, 4), e]], call


def _transformer(r):
    e, time, n = 2 * r.randint(1, 3), r.randint(1, 4), r.randint(1, 3)
    options = _layer_options(r) | {"d_model": e, "nhead": 2, "num_encoder_layers": 2, "num_decoder_layers": 1}
    return (), options, [[n, r.randint(1, 4), e], [n, time, e]]


def _loss(target, extra=lambda r: {}, lowest=0):
    """`target` makes the further arguments from the shape of a random input."""

    def make(r):
        shape = [r.randint(lowest, 4), *_sizes(r, r.randint(0, 2), 1, 4)]
        return (), {"reduction": r.choice(["mean", "sum", "none"]), **extra(r)}, [shape, *target(r, shape)]

    return make


def _like(make=torch.randn):
    return lambda r, shape: [lambda: make(*shape)]


def _signs(shape):
    return torch.randint(0, 2, shape).mul(2).sub(1).float()


def _classes(r):
    c, n = r.randint(2, 5), r.randint(1, 4)
    inner = _sizes(r, r.choice([0, 0, 2]), 1, 3)
    options = {"reduction": r.choice(["mean", "sum", "none"])}
    if r.random() < 0.4:
        options["weight"] = torch.rand(c)
    if r.random() < 0.3:
        options["ignore_index"] = 1
    return (), options, [[n, c, *inner], lambda: torch.randint(0, c, (n, *inner))]


def _cross_entropy(r):
    args, options, shapes = _classes(r)
    if r.random() < 0.4:
        options["label_smoothing"] = 0.2
    return args, options, shapes


def _multi_margin(r):
    c, n = r.randint(2, 5), r.randint(1, 4)
    return (), {"reduction": r.choice(["mean", "sum"]), "p": r.choice([1, 2]), "margin": r.choice([1.0, 0.5])}, [
        [n, c], lambda: torch.randint(0, c, (n,))]  # fmt: skip


def _multilabel_margin(r):
    n, c = r.randint(1, 3), r.randint(1, 5)
    return (), {"reduction": r.choice(["mean", "sum", "none"])}, [[n, c], lambda: torch.randint(-1, c, (n, c))]


def _ctc(r):
    time, n, c = r.randint(6, 9), r.randint(1, 3), r.randint(2, 5)
    lengths = [r.randint(1, 3) for _ in range(n)]
    targets = torch.randint(1, c, (n, 3))
    options = {"reduction": r.choice(["mean", "sum", "none"]), "zero_infinity": True}
    return (), options, [lambda: torch.randn(time, n, c).log_softmax(2), lambda: targets, lambda: torch.full((n,), time),
                         lambda: torch.tensor(lengths)]  # fmt: skip


def _gaussian(r, shape):
    return [lambda: torch.randn(*shape), lambda: torch.rand(*shape) if r.random() < 0.5 else torch.rand(*shape[:-1], 1)]


def _pairs(signs):
    def make(r):
        n, c = r.randint(1, 4), r.randint(1, 4)
        options = {"reduction": r.choice(["mean", "sum", "none"]), "margin": r.choice([0.0, 0.4])}
        return (), options, [[n, c], [n, c], lambda: _signs([n] if signs == 1 else [n, c])]

    return make


def _triplets(r):
    n, c = r.randint(1, 4), r.randint(1, 4)
    options = {"reduction": r.choice(["mean", "sum", "none"]), "swap": r.random() < 0.4, "p": r.choice([1.0, 2.0, 3.0])}
    return (), options, [[n, c], [n, c], [n, c]]


def _triplets_of(r):
    n, c = r.randint(1, 4), r.randint(1, 4)
    options = {"reduction": r.choice(["mean", "sum", "none"]), "swap": r.random() < 0.4, "margin": r.choice([1.0, 0.3])}
    if r.random() < 0.5:
        options["distance_function"] = r.choice([_distance, torch.nn.CosineSimilarity()])
    return (), options, [[n, c], [n, c], [n, c]]


def _distance(x, y):
    return (x - y).abs().sum(-1)


def _bags(r):
    rows, n = r.randint(2, 6), r.randint(0, 7)
    options = {"mode": r.choice(["sum", "mean", "max"]), "padding_idx": r.choice([None, None, 0, -1])}
    dtype = r.choice([torch.int64, torch.int32])
    shape, offsets = (r.randint(0, 3), r.randint(1, 4)), None
    if r.random() < 0.6:
        options["include_last_offset"] = r.random() < 0.3
        starts = sorted([0, *(r.randint(0, n) for _ in range(r.randint(0, 3))), *([n] if options["include_last_offset"] else [])])
        shape, offsets = (n,), torch.tensor(starts, dtype=dtype)
    weights = torch.randn(shape) if options["mode"] == "sum" and r.random() < 0.5 else None
    return (rows, r.randint(1, 4)), options, [lambda: torch.randint(0, rows, shape, dtype=dtype), lambda: offsets, lambda: weights]


def _lp_pool(dims):
    def make(r):
        kernel = _sizes(r, dims, 1, 4)
        kernel = kernel[0] if dims == 1 or r.random() < 0.3 else tuple(kernel)
        options = {"stride": r.choice([None, r.randint(1, 3)]), "ceil_mode": r.random() < 0.4}
        norm = r.choice([1, 2, 2.0, 4, float("inf"), -float("inf")])
        return (norm, kernel), options, [_maybe_batch(r, r.randint(1, 3), *_sizes(r, dims, 4, 8))]

    return make


def _max_unpool(dims):
    def make(r):
        kernel, padding = r.randint(1, 3), 0
        stride = r.choice([None, r.randint(1, 3)])
        if kernel > 1 and r.random() < 0.4:
            padding = kernel // 2
        shape = _maybe_batch(r, r.randint(1, 3), *_sizes(r, dims, 4, 8))
        pool = getattr(torch.nn.functional, f"max_pool{dims}d")
        y, indices = pool(torch.randn(shape), kernel, stride, padding, return_indices=True)
        call = {"output_size": r.choice([shape[-dims:], [1, 1, *shape[-dims:]]])} if r.random() < 0.6 else {}
        return (kernel,), {"stride": stride, "padding": padding}, [list(y.shape), lambda: indices], call

    return make


def _fractional(dims):
    def make(r):
        kernel, sizes = _sizes(r, dims, 1, 3), _sizes(r, dims, 4, 9)
        kernel = kernel[0] if r.random() < 0.4 else tuple(kernel)
        options = {"return_indices": r.random() < 0.4}
        if r.random() < 0.5:
            options["output_ratio"] = r.choice([0.5, tuple(r.choice([0.4, 0.6, 0.7]) for _ in range(dims))])
        else:
            options["output_size"] = r.randint(1, 3) if r.random() < 0.4 else tuple(_sizes(r, dims, 1, 5))
        return (kernel,), options, [_maybe_batch(r, r.randint(1, 3), *sizes)]

    return make


def _adaptive_softmax(r):
    n, classes = r.randint(4, 9), r.randint(4, 12)
    cutoffs = sorted(r.sample(range(1, classes), r.randint(1, 3)))
    options = {"div_value": r.choice([4.0, 2.0, 1.5]), "head_bias": r.random() < 0.4}
    batch = [] if r.random() < 0.2 else [r.randint(1, 6)]
    return (n, classes, cutoffs), options, [[*batch, n], lambda: torch.randint(0, classes, batch)]


def _linear_cross_entropy(r):
    n, classes, batch = r.randint(1, 5), r.randint(2, 5), r.randint(1, 4)
    inner = tuple(_sizes(r, r.choice([0, 0, 1, 2]), 1, 3))
    options = {"out_features": inner, "bias": r.random() < 0.5, "reduction": r.choice(["mean", "sum", "none"])}
    if r.random() < 0.4:
        options["weight"] = torch.rand(classes)
    if r.random() < 0.4:
        options["label_smoothing"] = 0.2
    lead = [] if not inner and r.random() < 0.2 else [batch]
    if r.random() < 0.3:
        return (n, classes), options, [[*lead, n], lambda: torch.rand(*lead, classes, *inner)]
    if r.random() < 0.3:
        options["ignore_index"] = 1
    return (n, classes), options, [[*lead, n], lambda: torch.randint(0, classes, (*lead, *inner))]


def _without_size(make):
    """A layer that infers its input size, which is the first argument of the layer that it becomes."""

    def of(r):
        args, *rest = make(r)
        return args[1:], *rest

    return of


def _two(dim):
    def make(r):
        shape = _sizes(r, 3, 1, 5)
        options = {"dim": r.randrange(-3, 3)} if dim else {"p": r.choice([1.0, 2.0, 3.0]), "keepdim": r.random() < 0.5}
        return (), options, [shape, shape]

    return make


def _dropout(low, high):
    def make(r):
        options = {"p": r.choice([0.0, 0.3, 0.8, 1.0]), "inplace": r.random() < 0.4}
        return (), options, [_sizes(r, r.randint(low, high), 1, 5)]

    return make


LAYERS = {
    "CELU": _inplace({}, {"alpha": 0.7}), "ELU": _inplace({}, {"alpha": 1.7}), "GELU": _activation({}, {"approximate": "tanh"}),
    "GLU": lambda r: ((r.choice([0, -1, 1]),), {}, [[2 * n for n in _sizes(r, 2, 1, 3)]]),
    "Hardshrink": _activation({}, {"lambd": 0.9}), "Hardsigmoid": _inplace(), "Hardswish": _inplace(),
    "Hardtanh": _inplace({}, {"min_val": -0.3, "max_val": 0.7}), "LeakyReLU": _inplace({}, {"negative_slope": 0.3}),
    "LogSigmoid": _activation(), "Mish": _inplace(), "ReLU": _inplace(), "ReLU6": _inplace(), "SELU": _inplace(),
    "PReLU": lambda r: ((3,) if r.random() < 0.5 else (), {}, [[r.randint(1, 3), 3, *_sizes(r, r.randint(0, 2))]]),
    "Sigmoid": _activation(), "SiLU": _inplace(), "Softplus": _activation({}, {"beta": 2.0, "threshold": 1.0}),
    "Softshrink": _activation({}, {"lambd": 0.2}), "Softsign": _activation(), "Tanh": _activation(), "Tanhshrink": _activation(),
    "Threshold": lambda r: ((0.2, -3.0), {"inplace": r.random() < 0.4}, [_sizes(r, 2)]),
    "Softmax": _softmax, "LogSoftmax": _softmax, "Softmin": _softmax,
    "Softmax2d": lambda r: ((), {}, [_maybe_batch(r, *_sizes(r, 3))]),
    "Linear": lambda r: ((4, r.randint(1, 5)), {"bias": r.random() < 0.6}, [[*_sizes(r, r.randint(0, 3), 0), 4]]),
    "Bilinear": lambda r: ((3, 2, r.randint(1, 4)), {"bias": r.random() < 0.6}, [[2, 5, 3], [2, 5, 2]]),
    "Embedding": lambda r: ((5, 3), {"padding_idx": r.choice([None, 2]), "scale_grad_by_freq": r.random() < 0.4}, [lambda: torch.randint(0, 5, (2, 4))]),
    "GroupNorm": _group_norm, "LayerNorm": _last_dims(True), "RMSNorm": _last_dims(),
    "LocalResponseNorm": lambda r: ((r.randint(1, 4),), {"alpha": 0.3, "k": 2.0}, [[2, r.randint(1, 5), *_sizes(r, r.randint(1, 3))]]),
    "PixelShuffle": lambda r: ((2,), {}, [[*_sizes(r, r.randint(0, 2)), 4 * r.randint(1, 2), 2, 3]]),
    "PixelUnshuffle": lambda r: ((2,), {}, [[*_sizes(r, r.randint(0, 2)), r.randint(1, 2), 4, 6]]),
    "ChannelShuffle": lambda r: ((2,), {}, [[r.randint(1, 3), 2 * r.randint(1, 3), *_sizes(r, r.randint(1, 2))]]),
    "Upsample": _upsample, "UpsamplingNearest2d": _upsample2d, "UpsamplingBilinear2d": _upsample2d, "Unfold": _unfold, "Fold": _fold,
    "CosineSimilarity": _two(True), "PairwiseDistance": _two(False),
    "Dropout": _dropout(0, 4), "Dropout1d": _dropout(2, 3), "Dropout2d": _dropout(4, 4), "Dropout3d": _dropout(4, 5),
    "AlphaDropout": _dropout(1, 4), "FeatureAlphaDropout": _dropout(2, 5),
    "RNN": _recurrent("RNN"), "LSTM": _recurrent("LSTM"), "GRU": _recurrent("GRU"), "RNNCell": _cell("RNN"), "LSTMCell": _cell("LSTM"),
    "GRUCell": _cell("GRU"), "MultiheadAttention": _attention, "TransformerEncoderLayer": _encoder_layer,
    "TransformerDecoderLayer": _decoder_layer, "Transformer": _transformer,
    "L1Loss": _loss(_like()), "MSELoss": _loss(_like()), "SmoothL1Loss": _loss(_like(), lambda r: {"beta": r.choice([0.0, 1.0, 0.3])}),
    "HuberLoss": _loss(_like(), lambda r: {"delta": r.choice([1.0, 0.3])}), "SoftMarginLoss": _loss(lambda r, s: [lambda: _signs(s)]),
    "HingeEmbeddingLoss": _loss(lambda r, s: [lambda: _signs(s)]),
    "PoissonNLLLoss": _loss(lambda r, s: [lambda: torch.rand(*s) * 4], lambda r: {"full": r.random() < 0.5}),
    "KLDivLoss": _loss(_like(torch.rand), lambda r: {"reduction": r.choice(["batchmean", "sum", "none", "mean"])}, 1),
    "BCEWithLogitsLoss": _loss(_like(torch.rand)), "GaussianNLLLoss": _loss(_gaussian, lambda r: {"full": r.random() < 0.5}, 1),
    "BCELoss": lambda r: ((), {"reduction": r.choice(["mean", "sum", "none"])}, [lambda: torch.rand(3, 2), lambda: torch.rand(3, 2)]),
    "MultiLabelSoftMarginLoss": lambda r: ((), {"reduction": r.choice(["mean", "sum", "none"])}, [[3, 4], lambda: torch.rand(3, 4).round()]),
    "CrossEntropyLoss": _cross_entropy, "NLLLoss": _classes, "MultiMarginLoss": _multi_margin, "MultiLabelMarginLoss": _multilabel_margin,
    "NLLLoss2d": _classes, "TripletMarginWithDistanceLoss": _triplets_of, "AdaptiveLogSoftmaxWithLoss": _adaptive_softmax,
    "EmbeddingBag": _bags, "RReLU": _inplace({}, {"lower": 0.1, "upper": 0.9}), "FractionalMaxPool2d": _fractional(2),
    "FractionalMaxPool3d": _fractional(3),
    "CTCLoss": _ctc, "MarginRankingLoss": _pairs(2), "CosineEmbeddingLoss": _pairs(1), "TripletMarginLoss": _triplets,
}  # fmt: skip
for _n in (1, 2, 3):
    LAYERS |= {
        f"Conv{_n}d": _conv(_n), f"ConvTranspose{_n}d": _conv_transpose(_n), f"BatchNorm{_n}d": _batch_norm(_n),
        f"InstanceNorm{_n}d": _instance_norm(_n), f"MaxPool{_n}d": _pool(_n, "max"), f"AvgPool{_n}d": _pool(_n, "avg"),
        f"AdaptiveAvgPool{_n}d": _adaptive(_n), f"AdaptiveMaxPool{_n}d": _adaptive(_n, True), f"ConstantPad{_n}d": _pad(_n, "value"),
        f"ZeroPad{_n}d": _pad(_n, "constant"), f"ReflectionPad{_n}d": _pad(_n, "reflect"), f"ReplicationPad{_n}d": _pad(_n, "replicate"),
        f"CircularPad{_n}d": _pad(_n, "circular"), f"LPPool{_n}d": _lp_pool(_n), f"MaxUnpool{_n}d": _max_unpool(_n),
    }  # fmt: skip
    LAYERS |= {f"Lazy{_name}{_n}d": _without_size(LAYERS[f"{_name}{_n}d"]) for _name in ("Conv", "ConvTranspose", "BatchNorm", "InstanceNorm")}
LAYERS["LazyLinear"] = _without_size(LAYERS["Linear"])
if hasattr(torch.nn, "LinearCrossEntropyLoss"):  # torch 2.13
    LAYERS["LinearCrossEntropyLoss"] = _linear_cross_entropy
