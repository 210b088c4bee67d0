# SPDX-License-Identifier: Apache-2.0
"""Contents of files other than ops: nodes in any order, unused nodes, inputs with values, small integers, and dynamic
sizes of single ops."""
import os
import resource
import subprocess

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from trial import BOOL, FLOAT, INT64, Trial, info, model_of, node

X = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)
XS = [("x", FLOAT, ["n", 3])]


def orders(given):
    """Nodes are in any order, also in bodies and functions; a cycle is rejected."""
    bad = Trial(given, "order", model_of([node("Relu", ["t"], ["y"]), node("Neg", ["x"], ["t"])], XS, ["y"])).convert().gives({"x": X}, [np.maximum(-X, 0)]).bad
    chain = [node("Neg" if i % 2 else "Relu", ["x" if i == 0 else f"t{i - 1}"], ["y" if i == 7 else f"t{i}"]) for i in range(8)]
    for seed in range(4):
        mixed = [chain[i] for i in np.random.default_rng(seed).permutation(8)]
        ordered = model_of(chain, XS, ["y"])
        bad += Trial(given, f"order_{seed}", model_of(mixed, XS, ["y"])).convert().gives({"x": X}, ReferenceEvaluator(ordered).run(None, {"x": X})).bad
    # A body reads a value of a later node of the graph around it, and its own nodes are in reverse order.
    branch = lambda op: helper.make_graph([node("Relu", ["s"], [f"out_{op}"]), node(op, ["t"], ["s"])], op, [], [info(f"out_{op}", FLOAT, None)])
    nodes = [node("If", ["c"], ["y"], then_branch=branch("Neg"), else_branch=branch("Abs")), node("Mul", ["x", "x"], ["t"])]
    for c in (True, False):
        trial = Trial(given, f"order_body_{c}", model_of(nodes, [*XS, ("c", BOOL, [])], ["y"])).convert()
        bad += trial.gives({"x": X, "c": np.array(c)}, [np.maximum(-X * X if c else X * X, 0)]).bad
    function = helper.make_function("own", "twice", ["a"], ["b"], [node("Relu", ["s"], ["b"]), node("Neg", ["a"], ["s"])], [helper.make_opsetid("", 21)])
    model = model_of([node("twice", ["x"], ["y"], domain="own")], XS, ["y"], domains=["own"])
    model.functions.append(function)
    bad += Trial(given, "order_function", model).convert().gives({"x": X}, [np.maximum(-X, 0)]).bad
    cycle = [node("Add", ["x", "b"], ["a"], name="first"), node("Neg", ["a"], ["b"], name="second"), node("Relu", ["b"], ["y"])]
    bad += Trial(given, "cycle", model_of(cycle, XS, ["y"])).refused("has a cycle").bad
    bad += Trial(given, "cycle_own", model_of([node("Add", ["x", "y"], ["y"], name="own")], XS, ["y"])).refused("Add 'own' reads its own result").bad
    twice = [node("Relu", ["t"], ["y"]), node("Neg", ["x"], ["t"]), node("Abs", ["x"], ["t"])]
    return bad + Trial(given, "order_twice", model_of(twice, XS, ["y"])).refused("both give 't'").bad


def unused(given):
    """Nodes with unused results are ignored, whatever they are."""
    nodes = [node("Unheard", ["x"], ["a"], domain="nobody"), node("Neg", ["a"], ["b"]), node("Neg", ["x"], ["y"])]
    bad = Trial(given, "unused", model_of(nodes, XS, ["y"], domains=["nobody"])).convert().gives({"x": X}, [-X]).bad
    branch = lambda op: helper.make_graph([node("Unheard", ["x"], [f"a_{op}"], domain="nobody"), node(op, ["x"], [f"o_{op}"])], op, [], [info(f"o_{op}", FLOAT, None)])
    nodes = [node("If", ["c"], ["y"], then_branch=branch("Neg"), else_branch=branch("Abs"))]
    bad += Trial(given, "unused_body", model_of(nodes, [*XS, ("c", BOOL, [])], ["y"], domains=["nobody"])).convert().gives({"x": X, "c": np.array(True)}, [-X]).bad
    nodes = [node("Unheard", ["x"], ["a"], domain="nobody"), node("Add", ["a", "x"], ["y"])]
    return bad + Trial(given, "used", model_of(nodes, XS, ["y"], domains=["nobody"])).refused("nobody::Unheard", 3).bad


def opened(given):
    """An input with a value in the file is a constant, unless --input or --constant names it."""
    w = np.array([1, 2, 3], np.float32)
    bad = 0
    for version in (3, 8):
        model = model_of([node("Add", ["x", "w"], ["y"])], [*XS, ("w", FLOAT, [3])], ["y"], [("w", w)], opset=8)
        model.ir_version = version
        bad += Trial(given, f"closed_{version}", model).convert().gives({"x": X}, [X + w]).bad
        bad += Trial(given, f"opened_{version}", model).convert("--input", "w:f32[3]").gives({"x": X, "w": w * 10}, [X + w * 10]).bad
        trial = Trial(given, f"replaced_{version}", model)
        np.save(trial.folder / "w.npy", w * 7)
        bad += trial.convert("--constant", f"w={trial.folder}/w.npy").gives({"x": X}, [X + w * 7]).bad
        trial = Trial(given, f"misfit_{version}", model).convert("--input", "w:f32[4]")
        bad += trial.bad if trial.code == 1 else trial.say(f"exit {trial.code}: {trial.err}").bad
    return bad


def packed(name, dtype, values, raw):
    """Returns a tensor of a small integer type, with its elements in raw bytes or in a numeric field."""
    values, bits = np.asarray(values), {TensorProto.INT4: 4, TensorProto.UINT4: 4, TensorProto.UINT16: 16, TensorProto.UINT32: 32}[dtype]
    tensor = TensorProto(name=name, data_type=dtype, dims=values.shape)
    flat = values.ravel().astype(np.int64)
    if bits == 4:
        flat = np.concatenate([flat, np.zeros(len(flat) % 2, np.int64)]) & 15
        numbers = (flat[0::2] | flat[1::2] << 4).astype(np.int64)
    else:
        numbers = flat
    if raw:
        tensor.raw_data = numbers.astype({4: np.uint8, 16: np.uint16, 32: np.uint32}[bits]).tobytes()
    else:
        (tensor.uint64_data if bits == 32 else tensor.int32_data).extend(int(v) for v in numbers)
    return tensor


SMALL = {TensorProto.INT4: (-8, 7), TensorProto.UINT4: (0, 15), TensorProto.UINT16: (0, 65535), TensorProto.UINT32: (0, 2**32 - 1)}


def small_integers(given):
    """Weights of types without a Hologram dtype are cast, moved and dequantized; other ops reject them."""
    bad = 0
    for dtype, (low, high) in SMALL.items():
        for raw in (True, False):
            label = f"{TensorProto.DataType.Name(dtype)}_{'raw' if raw else 'field'}"
            rng = np.random.default_rng(dtype)
            q = rng.integers(low, high + 1, (3, 5))
            q.ravel()[:2] = low, high
            weight = packed("q", dtype, q, raw)
            nodes = [node("Cast", ["q"], ["a"], to=FLOAT), node("Transpose", ["q"], ["r"]), node("Slice", ["r", "from", "to"], ["s"]), node("Cast", ["s"], ["b"], to=INT64)]
            model = model_of(nodes, XS, ["a", "b"], [weight, ("from", np.array([1])), ("to", np.array([4]))])
            bad += Trial(given, f"cast_{label}", model).convert().gives({"x": X}, [q.astype(np.float32), q.T[1:4]]).bad
            bad += Trial(given, f"sum_{label}", model_of([node("Add", ["q", "q"], ["y"])], XS, ["y"], [weight])).refused(
                f"a tensor of {TensorProto.DataType.Name(dtype).lower()}", 3).bad
            bad += Trial(given, f"output_{label}", model_of([node("Identity", ["q"], ["y"])], XS, ["y"], [weight])).refused("", 3).bad
            if dtype == TensorProto.UINT32:
                continue
            zero = rng.integers(low, high + 1, 3)
            scale = rng.uniform(0.01, 0.1, 3).astype(np.float32)
            want = ((q - zero[:, None]) * scale[:, None].astype(np.float64)).astype(np.float32)
            nodes = [node("DequantizeLinear", ["q", "scale", "zero"], ["w"], axis=0), node("MatMul", ["x", "w"], ["y"])]
            model = model_of(nodes, XS, ["y"], [weight, ("scale", scale), packed("zero", dtype, zero, raw)])
            bad += Trial(given, f"dequantized_{label}", model).convert().gives({"x": X}, [X @ want], 1e-4).bad
        if dtype == TensorProto.UINT32:
            continue
        # Blocks of two along the columns, and quantizing and dequantizing x.
        q, scale = rng.integers(low, high + 1, (3, 4)), rng.uniform(0.01, 0.1, (3, 2)).astype(np.float32)
        model = model_of([node("DequantizeLinear", ["q", "scale"], ["y"], axis=1, block_size=2)], XS, ["y"], [packed("q", dtype, q, True), ("scale", scale)])
        bad += Trial(given, f"blocks_{dtype}", model).convert().gives({"x": X}, [(q * np.repeat(scale, 2, 1)).astype(np.float32)]).bad
        middle = (low + high + 1) // 2
        nodes = [node("QuantizeLinear", ["x", "scale", "zero"], ["q"]), node("Reshape", ["q", "flat"], ["r"]), node("DequantizeLinear", ["r", "scale", "zero"], ["y"])]
        model = model_of(nodes, XS, ["y"], [("scale", np.float32(0.5)), packed("zero", dtype, np.array(middle), True), ("flat", np.array([-1]))])
        x = np.array([[-1, 0.25, 0.75], [3.6, -70000, 70000]], np.float32)
        want = ((np.clip(np.round(x.ravel() / 0.5) + middle, low, high) - middle) * 0.5).astype(np.float32)
        bad += Trial(given, f"quantized_{dtype}", model).convert().gives({"x": x}, [want]).bad
    return bad


def open_images(given):
    """Resize with antialiasing or a fixed aspect ratio, and MaxPool with indices, at dynamic sizes."""
    bad, rng = 0, np.random.default_rng(1)
    image = [("x", FLOAT, ["n", 2, "h", "w"]), ("t", FLOAT, ["i", "k"])]
    wanted = [node("Shape", ["t"], ["size"])]
    for mode in ("linear", "cubic"):
        for more in ({}, {"exclude_outside": 1}):
            for policy in ("stretch", "not_larger", "not_smaller"):
                settings = dict(mode=mode, antialias=1, axes=[2, 3], keep_aspect_ratio_policy=policy, **more)
                model = model_of([*wanted, node("Resize", ["x", "", "", "size"], ["y"], **settings)], image, ["y"])
                trial = Trial(given, f"antialias_{mode}_{len(more)}_{policy}", model).convert()
                for h, w, i, k in ((9, 7, 4, 3), (5, 6, 8, 9), (12, 5, 3, 6), (1, 4, 3, 2), (16, 16, 5, 1)):
                    trial.gives({"x": rng.normal(size=(2, 2, h, w)).astype(np.float32), "t": np.zeros((i, k), np.float32)}, tolerance=1e-4)
                bad += trial.bad
    for mode, policy in (("nearest", "not_larger"), ("linear", "not_smaller"), ("cubic", "not_larger")):
        model = model_of([*wanted, node("Resize", ["x", "", "", "size"], ["y"], mode=mode, axes=[2, 3], keep_aspect_ratio_policy=policy)], image, ["y"])
        trial = Trial(given, f"ratio_{mode}", model).convert()
        for h, w, i, k in ((9, 7, 4, 3), (5, 6, 8, 9), (12, 5, 3, 6), (4, 4, 4, 4)):
            trial.gives({"x": rng.normal(size=(1, 2, h, w)).astype(np.float32), "t": np.zeros((i, k), np.float32)}, tolerance=1e-4)
        bad += trial.bad
    for order in (0, 1):
        for pads in ([0] * 4, [1] * 4, [0, 1, 1, 1]):
            settings = dict(kernel_shape=[2, 2], strides=[2, 2], pads=pads, storage_order=order)
            trial = Trial(given, f"places_{order}_{sum(pads)}", model_of([node("MaxPool", ["x"], ["y", "at"], **settings)], image[:1], ["y", "at"])).convert()
            for h, w in ((4, 6), (5, 3), (8, 8)):
                x = rng.normal(size=(2, 2, h, w)).astype(np.float32)
                y, at = largest(x, 2, pads, order)
                trial.gives({"x": x}, [y, at])
            bad += trial.bad
    return bad


def largest(x, step, pads, order):
    """Computes windows of step x step, and the positions of their largest elements in x."""
    n, c, h, w = x.shape
    top, left = pads[0], pads[1]
    rows, columns = (h + pads[0] + pads[2] - step) // step + 1, (w + pads[1] + pads[3] - step) // step + 1
    y, at = np.empty((n, c, rows, columns), np.float32), np.empty((n, c, rows, columns), np.int64)
    for b, ch, i, k in np.ndindex(y.shape):
        inside = [(p, q) for p in range(i * step - top, i * step - top + step) for q in range(k * step - left, k * step - left + step) if 0 <= p < h and 0 <= q < w]
        p, q = max(inside, key=lambda place: x[b, ch, place[0], place[1]])
        y[b, ch, i, k] = x[b, ch, p, q]
        at[b, ch, i, k] = (b * c + ch) * h * w + (q * h + p if order else p * w + q)
    return y, at


def open_boxes(given):
    """NonMaxSuppression with dynamic batches, classes and boxes; RoiAlign with maxima of samples."""
    rng, bad = np.random.default_rng(2), 0
    inputs = [("boxes", FLOAT, ["b", "n", 4]), ("scores", FLOAT, ["b", "c", "n"])]
    limits = [("most", np.array([3])), ("overlap", np.array([0.4], np.float32)), ("least", np.array([0.2], np.float32))]
    for center in (0, 1):
        for names in (["most", "overlap", "least"], ["most", "overlap"]):
            model = model_of([node("NonMaxSuppression", ["boxes", "scores", *names], ["y"], center_point_box=center)], inputs, ["y"], limits)
            trial = Trial(given, f"nms_{center}_{len(names)}", model).convert()
            for b, c, n in ((1, 1, 6), (2, 3, 9), (1, 4, 5), (3, 1, 1)):
                place = rng.uniform(0, 4, (b, n, 2))
                boxes = np.concatenate([place, rng.uniform(0.5, 2, (b, n, 2)) + (0 if center else place)], 2).astype(np.float32)
                trial.gives({"boxes": boxes, "scores": rng.uniform(0, 1, (b, c, n)).astype(np.float32)})
            bad += trial.bad
    x, rois = rng.normal(size=(2, 3, 6, 7)).astype(np.float32), np.array([[0.3, 0.7, 4.1, 3.3], [1, 1, 1.2, 1.1], [-3, 2, 9, 8], [20, 20, 30, 30]], np.float32)
    inputs = [("x", FLOAT, ["n", 3, "h", "w"]), ("rois", FLOAT, ["r", 4]), ("at", INT64, ["r"])]
    for ratio in (0, 2):
        for mode in ("half_pixel", "output_half_pixel"):
            settings = dict(mode="max", output_height=2, output_width=3, sampling_ratio=ratio, spatial_scale=0.9, coordinate_transformation_mode=mode)
            trial = Trial(given, f"roi_{ratio}_{mode}", model_of([node("RoiAlign", ["x", "rois", "at"], ["y"], **settings)], inputs, ["y"], opset=16))
            bad += trial.convert().gives({"x": x, "rois": rois, "at": np.array([0, 1, 1, 0])}).bad
    return bad


def open_sequences(given):
    """Slices along an axis of dynamic size, as a sequence: its length, elements and concatenation."""
    bad, x = 0, np.arange(24, dtype=np.float32).reshape(4, 3, 2)
    for axis, keep in ((0, 1), (0, 0), (1, 1), (1, 0), (-1, 0)):
        size = ["n", "m", "k"]
        nodes = [node("SplitToSequence", ["x"], ["s"], axis=axis, keepdims=keep), node("SequenceLength", ["s"], ["count"]), node("SequenceAt", ["s", "second"], ["at"]),
                 node("SequenceAt", ["s", "last"], ["end"]), node("ConcatFromSequence", ["s"], ["stack"], axis=1, new_axis=1), node("ConcatFromSequence", ["s"], ["joined"], axis=-1)]
        model = model_of(nodes, [("x", FLOAT, size)], ["count", "at", "end", "stack", "joined"], [("second", np.array(1)), ("last", np.array(-1))])
        parts = [np.take(x, [i] if keep else i, axis) for i in range(x.shape[axis])]
        want = [np.array(len(parts)), parts[1], parts[-1], np.stack(parts, 1), np.concatenate(parts, -1)]
        bad += Trial(given, f"sequence_{axis}_{keep}", model).convert().gives({"x": x}, want).bad
    for axis, each in ((0, 2), (0, 3), (1, 2), (-1, 2), (0, 5)):
        nodes = [node("SplitToSequence", ["x", "each"], ["s"], axis=axis), node("SequenceLength", ["s"], ["count"]),
                 node("SequenceAt", ["s", "first"], ["at"]), node("SequenceAt", ["s", "last"], ["end"]), node("ConcatFromSequence", ["s"], ["joined"], axis=axis),
                 node("SequenceAt", ["s", "i"], ["chosen"])]
        model = model_of(nodes, [("x", FLOAT, size), ("i", INT64, [])], ["count", "at", "end", "joined", "chosen"],
                         [("each", np.array(each)), ("first", np.array(0)), ("last", np.array(-1))])
        parts = np.split(x, range(each, x.shape[axis], each), axis)
        for i in sorted({0, len(parts) - 1, -1}):
            want = [np.array(len(parts)), parts[0], parts[-1], x, parts[i]]
            bad += Trial(given, f"parts_{axis}_{each}_{i}", model).convert().gives({"x": x, "i": np.array(i)}, want).bad
    return bad


def numbers_of_data(given):
    """Integers of either sign that are inputs, and sizes from two inputs."""
    bad, x = 0, np.arange(20, dtype=np.float32).reshape(5, 4)
    wide = [("x", FLOAT, ["n", "m"])]
    trial = Trial(given, "pads_of_data", model_of([node("Pad", ["x", "p", "v"], ["y"])], [*wide, ("p", INT64, [4])], ["y"], [("v", np.float32(1.5))])).convert()
    for p in ((0, 1, 0, 2), (-1, 0, 1, -2), (0, 0, 0, 0), (-2, -1, -3, -3), (3, -4, -1, 0)):
        cut = x[max(-p[0], 0): 5 - max(-p[2], 0), max(-p[1], 0): 4 - max(-p[3], 0)]
        want = np.pad(cut, ((max(p[0], 0), max(p[2], 0)), (max(p[1], 0), max(p[3], 0))), constant_values=1.5)
        trial.gives({"x": x, "p": np.array(p)}, [want])
    bad += trial.bad
    for upper in (0, 1):
        trial = Trial(given, f"diagonal_of_data_{upper}", model_of([node("Trilu", ["x", "k"], ["y"], upper=upper)], [*wide, ("k", INT64, [])], ["y"])).convert()
        for k in (-9, -5, -1, 0, 2, 4, 7):
            trial.gives({"x": x, "k": np.array(k)}, [np.triu(x, k) if upper else np.tril(x, k)])
        nodes = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "one"], ["m"]), node("Sub", ["one", "m"], ["k"]), node("Trilu", ["x", "k"], ["y"], upper=upper)]
        sized = Trial(given, f"diagonal_of_size_{upper}", model_of(nodes, wide, ["y"], [("one", np.array(1))])).convert()
        bad += trial.bad + sized.gives({"x": x}, [np.triu(x, -3) if upper else np.tril(x, -3)]).bad
    trial = Trial(given, "crop_or_pad", model_of([node("CenterCropPad", ["x", "t"], ["y"])], [*wide, ("t", INT64, [2])], ["y"])).convert()
    for t in ((3, 6), (7, 2), (5, 4), (0, 1), (2, 9), (6, 3)):
        trial.gives({"x": x, "t": np.array(t)})
    nodes = [node("Shape", ["like"], ["t"]), node("CenterCropPad", ["x", "t"], ["y"])]
    sized = Trial(given, "crop_or_pad_like", model_of(nodes, [*wide, ("like", FLOAT, ["a", "b"])], ["y"])).convert()
    for t in ((3, 6), (7, 2), (5, 4)):
        sized.gives({"x": x, "like": np.zeros(t, np.float32)})
    return bad + trial.bad + sized.bad


def ranks_of_data(given):
    """Data-dependent branches of different ranks, up to the node after which both have the same rank."""
    bad = 0
    for name, after, want in (("sum", [node("ReduceSum", ["t"], ["y"], keepdims=0)], lambda t: t.sum()),
                              ("flat", [node("Neg", ["t"], ["u"]), node("Reshape", ["u", "minus"], ["y"])], lambda t: -t.ravel())):
        branch = lambda op, *more, **settings: helper.make_graph([node(op, ["x", *more], [f"o_{op}"], **settings)], op, [], [info(f"o_{op}", FLOAT, None)])
        nodes = [node("ReduceSum", ["x"], ["s"], keepdims=0), node("Greater", ["s", "zero"], ["c"]),
                 node("If", ["c"], ["t"], then_branch=branch("ReduceMax", "last", keepdims=0), else_branch=branch("Identity")), *after]
        constants = [("zero", np.float32(0)), ("last", np.array([1])), ("minus", np.array([-1]))]
        trial = Trial(given, f"ranks_{name}", model_of(nodes, XS, ["y"], constants)).convert()
        for x in (X, -X, X[:0], X[:1], -X[:1]):
            trial.gives({"x": x}, [want(x.max(1) if x.sum() > 0 else x)])
        bad += trial.bad
    sizes = [node("Shape", ["x"], ["shape"]), node("Gather", ["shape", "at"], ["k"]), node("Equal", ["k", "one"], ["c"]),
             node("If", ["c"], ["t"], then_branch=branch("Squeeze", "columns"), else_branch=branch("Identity")), node("ReduceSum", ["t"], ["y"], keepdims=0)]
    constants = [("at", np.array(1)), ("one", np.array(1)), ("columns", np.array([1]))]
    trial = Trial(given, "ranks_squeeze", model_of(sizes, [("x", FLOAT, ["n", "k"])], ["y"], constants)).convert()
    for x in (X, X[:, :1], X[:1, :1]):
        trial.gives({"x": x}, [x.sum()])
    alone = Trial(given, "squeeze_alone", model_of(sizes[:-1], [("x", FLOAT, ["n", "k"])], ["t"], constants)).convert()
    alone.expect("note", "the file accepts only sizes with k == 1" in alone.err and "--dim k=2" in alone.err, True)
    alone.gives({"x": X[:, :1]}, [X[:, 0]])
    other = Trial(given, "squeeze_other", alone.model).convert("--dim", "k=3").gives({"x": X}, [X])
    return bad + trial.bad + alone.bad + other.bad


def large_nodes(given):
    """Single nodes of usual sizes, whose check must not take more than its arithmetic: CPU seconds, since other processes run too."""
    rng = np.random.default_rng(0)
    x, grid = rng.normal(size=(1, 16, 64, 64)).astype(np.float32), rng.uniform(-1.1, 1.1, (1, 64, 64, 2)).astype(np.float32)
    image, matrix = rng.normal(size=(1, 19, 128, 128)).astype(np.float32), rng.normal(size=(12, 12)).astype(np.float32)

    def sampled():  # bilinear, zeros outside
        padded = np.pad(x[0].astype(np.float64), ((0, 0), (1, 1), (1, 1)))
        at = np.clip((grid[0].astype(np.float64) + 1) * 32 - 0.5, -1, 64) + 1
        low = np.minimum(np.floor(at).astype(int), 64)
        (px, py), (i, j) = (at - low).transpose(2, 0, 1), low.transpose(2, 0, 1)
        return sum(padded[:, j + b, i + a] * (px if a else 1 - px) * (py if b else 1 - py) for a in (0, 1) for b in (0, 1))[None].astype(np.float32)

    def doubled(y, axis):
        at = np.clip((np.arange(256) + 0.5) / 2 - 0.5, 0, 127)
        return np.apply_along_axis(lambda line: np.interp(at, np.arange(128), line), axis, y)

    cases = {"GridSample": (["x", "grid"], {"x": x, "grid": grid}, [], sampled()),
             "Resize": (["x", "", "scales"], {"x": image}, [("scales", np.array([1, 1, 2, 2], np.float32))], doubled(doubled(image, 2), 3).astype(np.float32)),
             "Det": (["x"], {"x": matrix}, [], np.float32(np.linalg.det(matrix.astype(np.float64))))}
    bad, most = 0, 30
    for op, (inputs, feeds, constants, want) in cases.items():
        settings = {"mode": "linear"} if op == "Resize" else {}
        model = model_of([node(op, inputs, ["y"], **settings)], [(name, FLOAT, list(each.shape)) for name, each in feeds.items()], ["y"], constants, opset=18)
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        trial = Trial(given, f"large_{op}", model).convert()
        took = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        if took > most:
            trial.say(f"takes {took} s to convert")
        bad += trial.gives(feeds, [want], 1e-3 if op == "Det" else 1e-4).bad
    return bad


def batched_scans(given):
    """Scan of opset 8 runs once for each sample of a batch."""
    body = helper.make_graph([node("Add", ["sum", "next"], ["total"]), node("Mul", ["total", "next"], ["product"])], "body",
                             [info("sum", FLOAT, [2]), info("next", FLOAT, [2])], [info("total", FLOAT, [2]), info("product", FLOAT, [2])])
    bad, rng = 0, np.random.default_rng(3)
    for backwards in (0, 1):
        scan = node("Scan", ["", "start", "x"], ["last", "products"], body=body, num_scan_inputs=1, directions=[backwards])
        model = model_of([scan], [("start", FLOAT, ["b", 2]), ("x", FLOAT, ["b", "t", 2])], ["last", "products"], opset=8)
        trial = Trial(given, f"batched_scan_{backwards}", model).convert()
        for b, t in ((1, 3), (3, 1), (2, 5)):
            start, x = rng.normal(size=(b, 2)).astype(np.float32), rng.normal(size=(b, t, 2)).astype(np.float32)
            order = x[:, ::-1] if backwards else x
            sums = start[:, None] + order.cumsum(1)
            trial.gives({"start": start, "x": x}, [sums[:, -1], sums * order])
        bad += trial.bad
    lengths = node("Scan", ["n", "start", "x"], ["last", "products"], body=body, num_scan_inputs=1)
    model = model_of([lengths], [("n", INT64, ["b"]), ("start", FLOAT, ["b", 2]), ("x", FLOAT, ["b", "t", 2])], ["last", "products"], opset=8)
    return bad + Trial(given, "scan_lengths", model).refused("Scan of opset 8 with sequence_lens", 3).bad


def external_weights(given):
    """Weights in a file beside the model, which no output may replace."""
    weights = [numpy_helper.from_array(np.eye(3, dtype=np.float32) * k, f"w{k}") for k in (2, 3)]
    model = model_of([node("MatMul", ["x", "w2"], ["t"]), node("MatMul", ["t", "w3"], ["y"])], XS, ["y"], weights)
    trial = Trial(given, "external", model)
    onnx.save(model, trial.folder / "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    beside, alias = trial.folder / "weights.bin", trial.folder / "alias"
    alias.symlink_to("weights.bin")
    bits = beside.read_bytes()
    other = ["-o", trial.folder / "other.hgm", "--json"]
    for options in (["-o", beside], ["-o", alias], [*other, beside], [*other, trial.folder / ".." / "external" / "weights.bin"]):
        done = subprocess.run([given.bin / "hg-convert", trial.folder / "model.onnx", *options], capture_output=True, text=True)
        if done.returncode != 1 or "which the external data of" not in done.stderr or beside.read_bytes() != bits:
            trial.say(f"{options}: exit {done.returncode}, {done.stderr}")
    return trial.convert("--json", trial.folder / "report.json").gives({"x": X}, [X * 6]).bad


def external_places(given):
    """External data that is not in a regular file beside the model; opening a pipe would wait for a writer."""
    model = model_of([node("MatMul", ["x", "w"], ["y"])], XS, ["y"], [("w", np.eye(3, dtype=np.float32))])
    trial = Trial(given, "external_places", model)
    onnx.save(model, trial.folder / "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    (trial.folder / "folder").mkdir()
    os.mkfifo(trial.folder / "pipe")
    for location, words in (("pipe", "not a regular file"), ("folder", "not a regular file"), ("../weights.bin", "not beside the model"),
                            ("weights.bin\0", "names no file"), ("none.bin", "cannot be opened")):
        changed = onnx.load(trial.folder / "model.onnx", load_external_data=False)
        next(each for each in changed.graph.initializer[0].external_data if each.key == "location").value = location
        onnx.save(changed, trial.folder / "changed.onnx")
        done = subprocess.run([given.bin / "hg-convert", trial.folder / "changed.onnx", "-o", trial.folder / "model.hgm"],
                              capture_output=True, text=True, timeout=60)
        if done.returncode != 2 or words not in done.stderr:
            trial.say(f"{location!r}: exit {done.returncode}, {done.stderr}")
    return trial.bad


CHECKS = [large_nodes, batched_scans, external_weights, external_places, orders, unused, opened, small_integers, open_images, open_boxes, open_sequences, numbers_of_data, ranks_of_data]
