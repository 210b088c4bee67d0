# SPDX-License-Identifier: Apache-2.0
"""Random nodes of the default domain, in all opset versions: layers, images, recurrent nets, quantized products."""
import numpy as np

from case import activations, either, fixed, flag, maybe, open_, sizes, values, weights_of
from standard import NEWEST, axis, dims, standard


def solid(rng, count, low=5, high=9):
    return tuple(int(d) for d in rng.integers(low, high, count))


def windows(rng, count, dilated):
    kernel = [int(k) for k in rng.integers(1, 4, count)]
    made = {"kernel_shape": kernel}
    if flag(rng):
        made["strides"] = [int(s) for s in rng.integers(1, 4, count)]
    if dilated and flag(rng):
        made["dilations"] = [int(d) for d in rng.integers(1, 3, count)]
    kind = rng.random()
    if kind < 0.3:
        made["auto_pad"] = str(rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"]))
        if made["auto_pad"].startswith("SAME"):  # ONNX Runtime ignores dilations there
            made.pop("dilations", None)
    elif kind < 0.9:
        made["pads"] = [int(p) for p in rng.integers(0, np.array(kernel * 2))]
    return made


def conv(rng):
    count, groups = int(rng.integers(1, 4)), int(rng.choice([1, 1, 2, 4]))
    made = windows(rng, count, True)
    inner = int(rng.integers(1, 3))
    x = values(rng, (int(rng.integers(1, 3)), inner * groups, *solid(rng, count)))
    w = values(rng, (int(rng.integers(1, 3)) * groups, inner, *made["kernel_shape"]))
    bias = maybe(rng, either(rng, values(rng, (w.shape[0],))))
    if flag(rng):
        made.pop("kernel_shape")
    return standard("Conv", [open_(x), either(rng, w), bias], rng.integers(7, NEWEST), group=groups, **made)


def conv_transpose(rng):
    count, groups = int(rng.integers(1, 3)), int(rng.choice([1, 1, 2]))
    made = windows(rng, count, True)
    made.pop("auto_pad", None)
    strides = made.get("strides", [1] * count)
    x = values(rng, (2, 2 * groups, *solid(rng, count, 3, 6)))
    w = values(rng, (2 * groups, 2, *made["kernel_shape"]))
    kind = int(rng.integers(0, 4))
    if kind == 0:
        made["output_padding"] = [int(rng.integers(0, s)) for s in strides]
    if kind == 1:
        made["auto_pad"] = str(rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID"]))
        made.pop("pads", None)
        made["strides"] = [min(s, k) for s, k in zip(strides, made["kernel_shape"])]  # exact.long_strides
    if kind == 2:
        made.pop("pads", None)
        dilations = made.get("dilations", [1] * count)
        whole = [(d - 1) * s + (k - 1) * e + 1 for d, s, k, e in zip(x.shape[2:], strides, made["kernel_shape"], dilations)]
        made["output_shape"] = [int(rng.integers(max(1, d - 2), d + 3)) for d in whole]
        if flag(rng):
            made["auto_pad"] = str(rng.choice(["SAME_UPPER", "SAME_LOWER"]))
    return standard("ConvTranspose", [open_(x), fixed(w), maybe(rng, fixed(values(rng, (2 * groups,))))], rng.integers(7, 22), group=groups, **made)


def pool(rng):
    count = int(rng.integers(1, 4))
    op = str(rng.choice(["MaxPool", "MaxPool", "AveragePool", "AveragePool", "LpPool"]))
    version = int(rng.integers(7, NEWEST))
    made = windows(rng, count, (op == "MaxPool" and version >= 10) or (op == "LpPool" and version >= 18) or (op == "AveragePool" and version >= 19))
    if made.get("auto_pad", "").startswith("SAME"):  # exact.long_strides
        made["strides"] = [min(s, k) for s, k in zip(made.get("strides", [1] * count), made["kernel_shape"])]
    x = values(rng, (int(rng.integers(1, 3)), 2, *solid(rng, count)))
    if op != "LpPool" and version >= 10 and "auto_pad" not in made:
        made["ceil_mode"] = flag(rng)
    if op == "AveragePool":
        made["count_include_pad"] = flag(rng)
    if op == "LpPool":
        made["p"] = int(rng.integers(1, 4))
        made |= {"ceil_mode": flag(rng)} if version >= 18 and "auto_pad" not in made else {}
    if op == "MaxPool" and version >= 8 and flag(rng):
        return standard(op, [open_(x)], version, outputs=2, storage_order=flag(rng), **made)
    return standard(op, [open_(x)], version, **made)


def whole_pool(rng):
    op = str(rng.choice(["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", "MaxRoiPool"]))
    x = values(rng, (2, 3, *solid(rng, 2 if op == "MaxRoiPool" else int(rng.integers(1, 4)))))
    if op == "MaxRoiPool":
        corner = rng.integers(0, 3, (3, 2))
        rois = np.concatenate([rng.integers(0, 2, (3, 1)), corner, corner + rng.integers(0, 4, (3, 2))], 1).astype(np.float32)
        return standard(op, [open_(x), either(rng, rois)], rng.integers(7, 22), pooled_shape=[2, 3], spatial_scale=float(rng.choice([1, 0.5])))
    return standard(op, [open_(x)], rng.integers(7, 22), p=int(rng.integers(1, 4)) if op == "GlobalLpPool" else None)


def norm(rng):
    op = str(rng.choice(["BatchNormalization", "InstanceNormalization", "LayerNormalization", "GroupNormalization", "LRN",
                         "MeanVarianceNormalization"]))
    c = int(rng.choice([2, 4, 6]))
    x = values(rng, (2, c, *solid(rng, int(rng.integers(1, 3)), 1, 5)))
    epsilon = float(rng.choice([1e-5, 1e-3, 0.1]))
    vector = lambda n=c: fixed(values(rng, (n,)))
    if op == "BatchNormalization":
        return standard(op, [open_(x), vector(), vector(), vector(), fixed(np.abs(values(rng, (c,))) + np.float32(0.1))], rng.integers(7, NEWEST),
                        epsilon=epsilon)
    if op == "InstanceNormalization":
        return standard(op, [open_(x), vector(), vector()], rng.integers(7, 22), epsilon=max(epsilon, 1e-3))
    if op == "LayerNormalization":
        at = axis(rng, x.ndim)
        shape = x.shape[at % x.ndim:]
        keep = [0, 1, 2] if flag(rng) else [0]
        return standard(op, [open_(x), either(rng, values(rng, shape)), maybe(rng, either(rng, values(rng, shape)))], rng.integers(17, NEWEST),
                        axis=at, epsilon=max(epsilon, 1e-3), outputs=len(keep))
    if op == "GroupNormalization":
        groups = 2
        version = int(rng.integers(18, NEWEST))
        n = groups if version < 21 else c
        return standard(op, [open_(x), vector(n), vector(n)], version, num_groups=groups, epsilon=max(epsilon, 1e-3))
    if op == "LRN":
        return standard(op, [open_(values(rng, (2, c, 3, 4)))], rng.integers(7, NEWEST), size=int(rng.choice([1, 3, 5])), alpha=float(rng.choice([1e-4, 0.5])),
                        beta=0.6, bias=float(rng.choice([1, 2])))
    return standard(op, [open_(values(rng, (2, c, 3, 4)))], rng.integers(9, NEWEST), axes=[0, 2, 3] if flag(rng) else [1, 2])


def product(rng):
    op = str(rng.choice(["Gemm", "MatMul", "Einsum", "Det"]))
    m, k, n = sizes(rng, 3)
    dtype = [np.float32, np.float64][flag(rng)]
    if op == "Gemm":
        ta, tb = flag(rng), flag(rng)
        c = [None, (n,), (m, n), (1, n), (m, 1), ()][int(rng.integers(0, 6))]
        version = int(rng.integers(11, NEWEST))
        return standard(op, [open_(values(rng, (k, m) if ta else (m, k), dtype)), either(rng, values(rng, (n, k) if tb else (k, n), dtype)),
                             either(rng, values(rng, (1, n) if c is None else c, dtype)) if c is not None or version < 11 else None], version,
                        transA=ta, transB=tb, alpha=float(rng.choice([1, 0.5])), beta=float(rng.choice([1, 2])))
    if op == "MatMul":
        batch = dims(rng, 0, 2)
        other = tuple(d if rng.random() < 0.6 else 1 for d in batch)[int(rng.integers(0, len(batch) + 1)):]
        a, b = values(rng, (*batch, m, k), dtype), values(rng, (*other, k, n), dtype)
        a, b = (values(rng, (k,), dtype) if rng.random() < 0.15 else x for x in (a, b))
        return standard(op, [open_(a), either(rng, b)], rng.integers(9, NEWEST))
    if op == "Einsum":
        text, shapes = [("ij,jk->ik", [(m, k), (k, n)]), ("bij,bkj->bik", [(2, m, k), (2, n, k)]), ("i,j", [(m,), (n,)]), ("ii->i", [(m, m)]),
                        ("...ij->...ji", [(2, m, k)]), ("bhid,bhjd->bhij", [(2, 2, m, k), (2, 2, n, k)]), ("ij->", [(m, n)]),
                        ("...i,...i", [(2, 3, k), (3, k)]), ("ij,kl->ijkl", [(m, k), (k, n)])][int(rng.integers(0, 9))]
        return standard(op, [open_(values(rng, s, dtype)) for s in shapes], rng.integers(12, NEWEST), equation=text)
    return standard(op, [open_(values(rng, (*dims(rng, 0, 2, 0), m, m), np.float32))], rng.integers(11, 22), tolerance=1e-3)


def resize(rng):
    version = int(rng.integers(7, NEWEST))
    x = values(rng, (1, 2, *solid(rng, 2, 1, 6)))
    mode = str(rng.choice(["nearest", "linear"] + ["cubic"] * (version >= 11)))
    out = rng.integers(1, 9, 2)
    factor = lambda size: float(rng.choice([1, 2, 3] if size < 2 or way == "align_corners" else [0.5, 0.75, 1, 1.5, 2, 2.5, 3, 4]))
    way = str(rng.choice(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"] + ["half_pixel_symmetric"] * (version >= 19)))
    scales = np.array([1, 1, *(factor(d) for d in x.shape[2:])], np.float32)
    if version < 9:
        scales = np.maximum(scales, 1)
        return standard("Upsample", [open_(x)], version, mode=mode, scales=[float(s) for s in scales])
    if version < 11:
        return standard("Upsample" if version == 9 else "Resize", [open_(x), fixed(np.maximum(scales, 1) if version == 9 else scales)], version, mode=mode)
    if way == "pytorch_half_pixel":  # ONNX Runtime and the reference evaluator differ for single elements
        out, scales = np.maximum(out, 2), np.maximum(scales, 1)
        x = values(rng, (1, 2, *solid(rng, 2, 2, 6)))
    given = {"coordinate_transformation_mode": way, "mode": mode}
    if mode == "nearest":
        given["nearest_mode"] = str(rng.choice(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]))
    if mode == "cubic":
        given |= {"cubic_coeff_a": float(rng.choice([-0.75, -0.5])), "exclude_outside": flag(rng)}
    if version >= 18 and flag(rng) and mode != "nearest":
        given["antialias"] = 1
    if version >= 18 and way != "align_corners" and flag(rng):
        given["axes"] = [2, 3]
        return standard("Resize", [open_(x), None, None, fixed(out.astype(np.int64))], version,
                        keep_aspect_ratio_policy="stretch" if way == "pytorch_half_pixel" else str(rng.choice(["stretch", "not_larger", "not_smaller"])), **given)
    if flag(rng):
        return standard("Resize", [open_(x), None if version >= 13 else fixed(np.zeros(0, np.float32)), None if version >= 13 else fixed(np.zeros(0, np.float32)),
                                   fixed(np.array([*x.shape[:2], *out], np.int64))], version, **given)
    return standard("Resize", [open_(x), None if version >= 13 else fixed(np.zeros(0, np.float32)), fixed(scales)], version, **given)


def grid(rng):
    version = int(rng.integers(16, NEWEST))
    n = 3 if version >= 20 and flag(rng) else 2
    x = values(rng, (2, 2, *solid(rng, n, 2, 6)))
    places = (rng.uniform(-1.3, 1.3, (2, *solid(rng, n, 1, 5), n))).astype(np.float32)
    modes = ["linear", "nearest"] + ["cubic"] * (n == 2) if version >= 20 else ["bilinear", "nearest", "bicubic"]
    return standard("GridSample", [open_(x), either(rng, places)], version, mode=str(rng.choice(modes)), align_corners=flag(rng),
                    padding_mode=str(rng.choice(["zeros", "border", "reflection"])), tolerance=1e-3)


def recurrent(rng):
    op = str(rng.choice(["LSTM", "GRU", "RNN"]))
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    steps, batch, inner, hidden = sizes(rng, 4, 5)
    way = str(rng.choice(["forward", "reverse", "bidirectional"]))
    both = 2 if way == "bidirectional" else 1
    version = int(rng.integers(7, 22))
    turned = flag(rng) if version >= 14 else None
    x = values(rng, (batch, steps, inner) if turned else (steps, batch, inner))
    state = lambda: maybe(rng, open_(values(rng, (batch, both, hidden) if turned else (both, batch, hidden))))
    inputs = [open_(x), fixed(values(rng, (both, gates * hidden, inner))), fixed(values(rng, (both, gates * hidden, hidden))),
              maybe(rng, fixed(values(rng, (both, 2 * gates * hidden)))),
              maybe(rng, either(rng, rng.integers(0, steps + 1, batch).astype(np.int32)), 0.4), state()]
    given = {"direction": way, "hidden_size": hidden, "layout": turned}
    if op == "LSTM":
        inputs += [state(), maybe(rng, fixed(values(rng, (both, 3 * hidden))))]
        given["input_forget"] = flag(rng) if rng.random() < 0.2 else None
    if op == "GRU":
        given["linear_before_reset"] = flag(rng)
    if flag(rng) and op != "LSTM":  # ONNX Runtime does not clip its last activation
        given["clip"] = 0.6
    given |= activations(rng, {"LSTM": 3, "GRU": 2, "RNN": 1}[op], both)
    return standard(op, inputs, version, outputs=3 if op == "LSTM" else 2, **given)


def scale_of(rng, count=None):
    return rng.uniform(0.01, 0.2, () if count is None else (count,)).astype(np.float32)


def quantised(rng):
    op = str(rng.choice(["QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "ConvInteger", "QLinearMatMul", "QLinearConv"]))
    kind = [np.uint8, np.int8][flag(rng)]
    point = lambda count=None, kind=kind: rng.integers(*((0, 255) if kind == np.uint8 else (-128, 127)), () if count is None else (count,)).astype(kind)
    if op == "DynamicQuantizeLinear":
        x = values(rng, dims(rng, 1, empty=0)) * np.float32(rng.random() < 0.9)  # all zeros have an empty range
        return standard(op, [open_(x)], rng.integers(11, NEWEST), outputs=3, quanta=1)
    if op in ("QuantizeLinear", "DequantizeLinear"):
        version = int(rng.integers(10, NEWEST))
        at = axis(rng, 3)
        shape = sizes(rng, 3)
        count = shape[at] if version >= 13 and flag(rng) else None
        x = values(rng, shape) * 4 if op[0] == "Q" else values(rng, shape, kind)
        zero = maybe(rng, fixed(point(count if version >= 13 else None)))
        return standard(op, [open_(x), fixed(scale_of(rng, count)), zero], version, axis=at if version >= 13 and count else None, tolerance=0)
    other = [np.uint8, np.int8][flag(rng)]
    m, k, n = sizes(rng, 3)
    if op == "MatMulInteger":
        zeros = [maybe(rng, either(rng, point())), maybe(rng, fixed(point(n if flag(rng) else None, other)))]
        return standard(op, [open_(values(rng, (2, m, k), kind)), either(rng, weights_of(rng, (k, n), other)), *zeros], rng.integers(10, NEWEST), tolerance=0)
    if op == "ConvInteger":
        made = windows(rng, 2, False)
        x, w = values(rng, (1, 2, *solid(rng, 2)), np.uint8), weights_of(rng, (3, 2, *made["kernel_shape"]), other)
        return standard(op, [open_(x), fixed(w), maybe(rng, fixed(point(None, np.uint8))), maybe(rng, fixed(point(None, other)))], rng.integers(10, NEWEST),
                        tolerance=0, **made)
    if op == "QLinearMatMul":
        return standard(op, [open_(values(rng, (m, k), kind)), fixed(scale_of(rng)), fixed(point()), fixed(values(rng, (k, n), kind)), fixed(scale_of(rng)),
                             fixed(point()), fixed(np.float32(0.5)), fixed(point())], rng.integers(10, 21), tolerance=0)
    made = windows(rng, 2, False)
    x, w = values(rng, (1, 2, *solid(rng, 2)), kind), values(rng, (3, 2, *made["kernel_shape"]), kind)
    return standard(op, [open_(x), fixed(scale_of(rng)), fixed(point()), fixed(w), fixed(scale_of(rng, 3 if flag(rng) else None)), fixed(np.array(0, kind)) if kind == np.int8 else fixed(point()),
                         fixed(np.float32(0.5)), fixed(point()), maybe(rng, fixed(rng.integers(-200, 200, 3).astype(np.int32)))], rng.integers(10, NEWEST), tolerance=0, **made)


def loss(rng):
    op = str(rng.choice(["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"]))
    c = int(rng.integers(2, 5))
    rest = dims(rng, 0, 2, 0)
    x = values(rng, (3, c, *rest))
    target = rng.integers(0, c, (3, *rest)).astype(rng.choice([np.int64, np.int32]))
    ignore = int(rng.choice([0, -1])) if flag(rng) else None
    if ignore == -1:
        target.reshape(-1)[0] = -1
    weight = maybe(rng, fixed(np.abs(values(rng, (c,))) + np.float32(0.1)))
    outputs = 2 if op[0] == "S" and flag(rng) else 1
    return standard(op, [open_(x), open_(target), weight], rng.integers(13, NEWEST), outputs=outputs, ignore_index=ignore,
                    reduction=str(rng.choice(["none", "mean", "sum"])))


def regions(rng):
    version = int(rng.integers(10, 22))
    if flag(rng):
        corner = rng.uniform(0, 4, (3, 2))
        rois = np.concatenate([corner, corner + rng.uniform(0.5, 4, (3, 2))], 1).astype(np.float32)
        given = {"coordinate_transformation_mode": str(rng.choice(["half_pixel", "output_half_pixel"]))} if version >= 16 else {}
        return standard("RoiAlign", [open_(values(rng, (2, 2, 6, 7))), either(rng, rois), either(rng, rng.integers(0, 2, 3).astype(np.int64))], version,
                        output_height=2, output_width=3, sampling_ratio=int(rng.integers(0, 3)), spatial_scale=float(rng.choice([1, 0.5])), **given)
    boxes = np.sort(rng.uniform(0, 1, (int(rng.integers(1, 3)), 8, 2, 2)), axis=2).reshape(-1, 8, 4).astype(np.float32)
    scores = rng.permutation(boxes.shape[0] * 2 * 8).reshape(boxes.shape[0], 2, 8).astype(np.float32) / 40
    limits = [either(rng, np.array([rng.integers(0, 9)], np.int64)), either(rng, np.array([rng.choice([0.0, 0.3, 0.5])], np.float32)),
              maybe(rng, either(rng, np.array([0.2], np.float32)))]
    return standard("NonMaxSuppression", [open_(boxes), open_(scores), *limits], version, center_point_box=flag(rng))


def blocks(rng):
    count = int(rng.choice([1, 2, 2, 3, 4]))
    image, block = (rng.integers(low, high, count) for low, high in ((2, 7), (1, 4)))
    strides, dilations, pads = rng.integers(1, 3, count), rng.integers(1, 3, count), rng.integers(0, 3, 2 * count)
    image = np.maximum(image, dilations * (block - 1) + 1 - pads[:count] - pads[count:])
    places = (image + pads[:count] + pads[count:] - dilations * (block - 1) - 1) // strides + 1
    x = values(rng, (int(rng.integers(1, 3)), int(rng.integers(1, 3) * block.prod()), int(places.prod())))
    return standard("Col2Im", [open_(x), fixed(image), fixed(block)], rng.integers(18, NEWEST), strides=strides.tolist(), dilations=dilations.tolist(),
                    pads=pads.tolist(), evaluator=count != 2)  # ONNX Runtime 1.32 adds wrong places for other counts of axes


def spectrum(rng):
    op = str(rng.choice(["DFT", "STFT", "HannWindow", "HammingWindow", "BlackmanWindow"]))
    if op.endswith("Window"):
        return standard(op, [fixed(np.array(rng.integers(1, 12), np.int64))], rng.integers(17, NEWEST), periodic=flag(rng))
    if op == "STFT":
        return standard(op, [open_(values(rng, (2, 32, 1))), fixed(np.array(8, np.int64)), fixed(np.hanning(16).astype(np.float32)), fixed(np.array(16, np.int64))],
                        rng.integers(17, NEWEST), onesided=1, tolerance=1e-3)
    back = flag(rng)
    x = values(rng, (2, int(rng.integers(2, 9)), 3, 2 if back or flag(rng) else 1))
    one = 0 if back or x.shape[-1] == 2 else flag(rng)
    length = maybe(rng, fixed(np.array(rng.integers(2, 10), np.int64)), 0.4)
    version = int(rng.integers(17, NEWEST))
    if version < 20:
        return standard(op, [open_(x), length], version, axis=int(rng.integers(1, 3)), inverse=back, onesided=one, tolerance=1e-3)
    return standard(op, [open_(x), length, fixed(np.array(rng.integers(1, 3), np.int64))], version, inverse=back, onesided=one, tolerance=1e-3)


def mel(rng):
    """Edges that f32 and f64 round down to the same positions: the evaluator computes in the dtype of the edges."""
    while True:
        bins, length, rate = int(rng.integers(1, 40)), int(rng.choice([16, 33, 256, 400])), int(rng.choice([8000, 16000]))
        low, high = np.float32(rng.choice([0, 20, 100])), np.float32(rng.choice([2000, 4000]))
        places = []
        for dtype in (np.float32, np.float64):
            edges = [2595 * np.log10(1 + dtype(hertz) / dtype(700)) for hertz in (low, high)]
            mels = np.arange(bins + 2) * ((edges[1] - edges[0]) / (bins + 2)) + edges[0]
            places.append((length + 1) * (700 * (10 ** (mels / 2595) - 1)) // rate)
        if np.array_equal(*places) and np.all(places[0] <= length // 2):
            break
    sizes = [np.array(size, [np.int64, np.int32][flag(rng)]) for size in (bins, length, rate)]
    return standard("MelWeightMatrix", [*(either(rng, size) for size in sizes), either(rng, low), either(rng, high)], rng.integers(17, NEWEST), evaluator=True)


MAKERS = [conv, conv_transpose, pool, whole_pool, norm, product, resize, grid, recurrent, quantised, loss, regions, blocks, spectrum, mel]
