# SPDX-License-Identifier: Apache-2.0
"""Individual models: rejected ones, and difficult sizes, loops, pads and quotients."""
import subprocess

import numpy as np
import onnx
from onnx import helper

from batch import batch
from case import fixed, open_
from standard import standard
from trial import BOOL, FLOAT, INT64, Trial, info, model_of, node


X = np.ones((2, 3), np.float32)


def case(op, inputs, constants=(), **attributes):
    return standard(op, [open_(x) for x in inputs] + [None if c is None else fixed(c) for c in constants], 21, **attributes)


REFUSED = [  # cases, and words of the error message
    (case("QuantizeLinear", [X], [np.float32(np.inf), np.uint8(0)]), "scale, input 1, is not finite"),
    (case("QuantizeLinear", [X], [np.array([1, np.nan, 1], np.float32), np.zeros(3, np.uint8)], axis=1), "scale, input 1, is not finite"),
    (case("DequantizeLinear", [X.astype(np.uint8)], [np.float32(-np.inf), np.uint8(0)]), "scale, input 1, is not finite"),
    (case("ScatterND", [X], [np.zeros((1, X.ndim + 1), np.int64), np.zeros(1, np.float32)]), "more columns than the data has dims"),
    *((case(op, [np.ones((1, 4, 5, 5), np.uint8)], [np.ones(shape, np.int8), *zeros]), "")  # zero points or weights that do not fit
      for op in ("ConvInteger", "MatMulInteger") for shape in ((), (4,), (3, 4, 3, 3), (5, 5))
      for zeros in ([None, np.ones(2, np.int8)], [np.ones(7, np.uint8)], [np.ones((3, 3), np.uint8)])),
    (case("Col2Im", [np.ones((2, 4, 6), np.float32)], [np.array([6, 2, 2]), np.array([2, 2, 1])]), ""),  # of 10
    (case("RNN", [np.ones((4, 3, 1), np.float32)], [np.float32(1), np.ones((1, 1, 1), np.float32)], hidden_size=1), "input W is [], not [1, 1, 1]"),
    *((case("RNN", [np.ones((4, 3, 1), np.float32)], [np.ones((1, 1, 1), np.float32)] * 2, hidden_size=1, activations=["ScaledTanh"], **given),
       "'ScaledTanh' has not its alpha and beta") for given in ({}, {"activation_alpha": [1.0]}, {"activation_beta": [1.0]})),
    *((case(op, [np.ones((4, 2, 3), np.float32)], [np.ones((1, gates * 5, 3), np.float32), np.ones((1, gates * 5, 5), np.float32), *more], hidden_size=5), words)
      for op, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)) for more, words in (
          ([None, None, np.ones((2, 1, 5), np.float32)], "input initial_h is [2, 1, 5], not [1, 2, 5]"),
          ([np.ones((1, gates * 5), np.float32)], "input B is "))),
    (case("Pad", [np.float32(1)], [np.array([0, 2]), None, np.array([-1])]), "axes of a number"),
    (case("CumSum", [np.float32(1)], [np.int32(-1)], exclusive=1), "no axis"),
    (case("Range", [], [np.ones(0, np.int64)] * 3), "not one number"),
    (case("ArgMin", [X], keepdims=2), "neither 0 nor 1"),
    (case("GatherND", [X], [np.zeros((1, 1), np.int64)], batch_dims=-1), "'batch_dims' is -1"),
    *((case("Resize", [X[None, None]], [None, np.array([1, 1, *[by] * X.ndim], np.float32)], mode=mode), "scale")
      for by in (1e30, 1e-30, 0, -1, np.inf, np.nan) for mode in ("nearest", "linear")),
]


def refusals(given):
    """Counts cases of REFUSED with another outcome."""
    jobs = []
    for i, (made, _) in enumerate(REFUSED):
        folder = given.work / f"refused_{i}"
        folder.mkdir(parents=True)
        onnx.save(made.model(), folder / "model.onnx")
        jobs.append({"model": str(folder / "model.onnx"), "output_dir": str(folder), "check": False})
    bad = 0
    for (made, words), answer in zip(REFUSED, batch(given.bin / "hg-convert", jobs, given.work)):
        if answer["status"] != "unsupported" or words not in answer["message"]:
            bad += 1
            print(f"{made.op} should be refused with '{words}': {answer}")
    return bad


def integers(**numbers):
    return [(name, np.array(value, np.int64)) for name, value in numbers.items()]


def turned_pads(given):
    """torch.onnx.export reverses the pads of F.pad in rows of two; the resulting sizes are known."""
    numbers = integers(pads=[1, 2, 0, 3, 0, 0, 0, 0], rows=[-1, 2], least=[-1], to=[-2**63 + 1], axis=[0], step=[-1], flat=[-1])
    nodes = [node("Reshape", ["pads", "rows"], ["a"]), node("Slice", ["a", "least", "to", "axis", "step"], ["b"]),
             node("Transpose", ["b"], ["c"], perm=[1, 0]), node("Reshape", ["c", "flat"], ["d"]), node("Pad", ["x", "d"], ["y"])]
    x = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    want = np.pad(x, ((0, 0), (0, 0), (0, 3), (1, 2)))
    trial = Trial(given, "turned_pads", model_of(nodes, [("x", FLOAT, x.shape)], ["y"], numbers, opset=17)).convert()
    return trial.expect("shape", trial.described()["outputs"][0]["shape"], list(want.shape)).gives({"x": x}, [want]).bad


def quotients(given):
    """Div rounds sizes toward 0: (n - 1) / 4 + 1, as torch.export writes sizes after a stride, and (n - 9) / 4 + 3."""
    nodes = [node("Shape", ["x"], ["n"]), node("Sub", ["n", "one"], ["a"]), node("Div", ["a", "four"], ["b"]), node("Add", ["b", "one"], ["c"]),
             node("Sub", ["n", "nine"], ["d"]), node("Div", ["d", "four"], ["e"]), node("Add", ["e", "three"], ["f"]),
             node("Concat", ["c", "f"], ["g"], axis=0), node("ConstantOfShape", ["g"], ["y"])]
    model = model_of(nodes, [("x", FLOAT, ["n"])], ["y"], integers(one=[1], nine=[9], four=[4], three=[3]), opset=17)
    trial = Trial(given, "quotients", model).convert()
    trial.expect("shape", trial.described()["outputs"][0]["shape"],
                 ["floordiv(max(0, n - 1), 4) + 1", "-floordiv(max(-n + 9, 0), 4) + floordiv(max(0, n - 9), 4) + 3"])
    for n in range(14):
        trial.gives({"x": np.zeros(n, np.float32)}, [np.zeros((int((n - 1) / 4) + 1, int((n - 9) / 4) + 3), np.float32)])
    return trial.bad


def floats_of_sizes(given):
    """n / 49 * 49 rounds twice, to less than n for some n. One float tensor contains both sizes and numbers."""
    nodes = [node("Shape", ["x"], ["n"], end=1), node("Cast", ["n"], ["a"], to=FLOAT), node("Div", ["a", "whole"], ["b"]),
             node("Mul", ["b", "whole"], ["c"]), node("Cast", ["c"], ["d"], to=INT64), node("ConstantOfShape", ["d"], ["y"]),
             node("Shape", ["x"], ["e"]), node("Cast", ["e"], ["z"], to=FLOAT)]
    model = model_of(nodes, [("x", FLOAT, ["n", 3])], ["y", "z"], [("whole", np.array([49], np.float32))], opset=17)
    trial = Trial(given, "floats", model).convert()
    for n in (1, 7, 27, 30, 54, 98):
        trial.gives({"x": np.zeros((n, 3), np.float32)}, tolerance=0)
    return trial.bad


def far_steps(given):
    """A step larger than the remaining range, in a slice of sizes and in a Range."""
    most = 2**63 - 1
    nodes = [node("Shape", ["x"], ["s"]), node("Slice", ["s", "one", "far", "", "far"], ["y0"]), node("Range", ["low", "high", "five"], ["y1"])]
    model = model_of(nodes, [("x", FLOAT, ["n", 4, 2])], ["y0", "y1"], integers(one=[1], far=[most], low=most - 1, high=most, five=5), opset=17)
    return Trial(given, "far_steps", model).convert().gives({"x": np.zeros((3, 4, 2), np.float32)}, [np.array([4]), np.array([most - 1])], tolerance=0).bad


def endless_loops(given):
    """Endless loops, also with a condition that is passed on, are rejected before they are unrolled."""
    bad = 0
    for name, trips, passed in (("most", 2**31 - 1, False), ("passed", 2**31 - 1, True), ("open", None, True)):
        body = helper.make_graph([node("Identity", ["c"], ["d"]), node("Identity", ["d"], ["e"]), node("Add", ["v", "v"], ["w"])], "body",
                                 [info("i", INT64, []), info("c", BOOL, []), info("v", FLOAT, [3])], [info("e", BOOL, []), info("w", FLOAT, [3])])
        loop = node("Loop", ["" if trips is None else "n", "yes" if passed else "", "x"], ["y"], body=body)
        model = model_of([loop], [("x", FLOAT, [3])], ["y"], [*integers(n=trips or 0), ("yes", np.array(True))], opset=17)
        trial = Trial(given, f"endless_{name}", model)
        try:
            trial.convert("--no-check", limit=10)
            bad += trial.expect("exit", (trial.code, "a loop runs more than 100000 times" in trial.err), (3, True)).bad
        except subprocess.TimeoutExpired:
            bad += trial.say("takes more than 10 s").bad
    return bad


def just_below(given):
    """Slices to and from size - 1 and size - 2, in both directions, for sizes down to 0."""
    numbers = integers(zero=[0], one=[1], two=[2], far=[2**31 - 1], back=[-1], first=[-(2**31)])
    cuts = [["zero", "a"], ["zero", "b"], ["a", "far"], ["b", "far"], ["b", "a"], ["a", "first", "zero", "back"], ["far", "a", "zero", "back"]]
    nodes = [node("Shape", ["x"], ["n"]), node("Sub", ["n", "one"], ["a"]), node("Sub", ["n", "two"], ["b"])]
    nodes += [node("Slice", ["x", *cut], [f"y{k}"]) for k, cut in enumerate(cuts)]
    trial = Trial(given, "just_below", model_of(nodes, [("x", FLOAT, ["n"])], [f"y{k}" for k in range(len(cuts))], numbers, opset=17)).convert()
    for n in range(5):
        trial.gives({"x": np.arange(n, dtype=np.float32)})
    return trial.bad


def from_the_end(given):
    """Slices from and to -size, in both directions, of dims of this size and of longer ones."""
    numbers = integers(zero=[0], far=[2**31 - 1], back=[-1], first=[-(2**31)])
    cuts = [["a", "far"], ["zero", "a"], ["a", "first", "zero", "back"], ["far", "a", "zero", "back"]]
    nodes = [node("Shape", ["x"], ["n"]), node("Neg", ["n"], ["a"])]
    nodes += [node("Slice", [whole, *cut], [f"{whole}{k}"]) for whole in "xz" for k, cut in enumerate(cuts)]
    outputs = [f"{whole}{k}" for whole in "xz" for k in range(len(cuts))]
    trial = Trial(given, "from_the_end", model_of(nodes, [("x", FLOAT, ["n"]), ("z", FLOAT, ["p + n"])], outputs, numbers, opset=17)).convert()
    for n, p in (1, 0), (1, 4), (3, 0), (5, 2):
        trial.gives({"x": np.arange(n, dtype=np.float32), "z": np.arange(p + n, dtype=np.float32)})
    return trial.bad


def named_sizes(given):
    """Dim names are sums and products of names that inputs define, or arbitrary text."""
    bad = 0
    for i, (names, shapes, want) in enumerate((
            (["batch-size", "seq-len", "batch-size"], [(2, 3, 2), (1, 5, 1)], ["batch_size", "seq_len", "batch_size"]),
            (["h*w", "max(n, 2)"], [(6, 2), (5, 1)], ["h_w", "max_n__2_"]), (["n", "m", "m + n", "2*n"], [(2, 3, 5, 4), (1, 4, 5, 2)], ["n", "m", "m + n", "2*n"]),
            (["2*n + 1", "n*n"], [(5, 4), (3, 1)], ["2*n + 1", "n*n"]),
            (["batch_size + 1", "batch-size", "batch_size"], [(3, 5, 2), (2, 7, 1)], ["batch_size + 1", "batch_size_", "batch_size"]))):
        places = range(len(names))
        model = model_of([node("Neg", [f"x{k}"], [f"y{k}"]) for k in places], [(f"x{k}", FLOAT, [names[k]]) for k in places], [f"y{k}" for k in places], opset=17)
        trial = Trial(given, f"named_{i}", model).convert()
        trial.expect("sizes", [x["shape"] for x in trial.described()["inputs"]] if not trial.code else trial.err, [[name] for name in want])
        for sizes in shapes:
            trial.gives({f"x{k}": np.ones(size, np.float32) for k, size in enumerate(sizes)})
        bad += trial.bad
    return bad


def names_as_text(given):
    """Names are UTF-8, in the graph and in the subgraphs of its nodes."""
    then = helper.make_graph([node("Neg", ["x"], ["inner"])], "then", [], [helper.make_empty_tensor_value_info("inner")])
    model = model_of([node("If", ["c"], ["result"], then_branch=then, else_branch=then)], [("x", FLOAT, [3]), ("c", BOOL, [])], ["result"], opset=17)
    trial, file = Trial(given, "names", model), model.SerializeToString()
    for old, new, words in ((b"result", b"r\xc3\xa9sul", ""), (b"result", b"re\xffult", "'re\\xffult' is not UTF-8"),
                            (b"inner", b"in\xc0\x80r", "'in\\xc0\\x80r' is not UTF-8")):
        (trial.folder / "model.onnx").write_bytes(file.replace(old, new))
        trial.refused(words, 2 if words else 0)
    return trial.bad


def parted_sizes(given):
    """Parts of a shape stay symbolic: [n, m, 3] is split after the first size and becomes [m, 3, n]."""
    nodes = [node("Shape", ["x"], ["sizes"]), node("Split", ["sizes", "counts"], ["first", "rest"], axis=0),
             node("Concat", ["rest", "first"], ["turned"], axis=0), node("Reshape", ["x", "turned"], ["y"])]
    trial = Trial(given, "parted", model_of(nodes, [("x", FLOAT, ["n", "m", 3])], ["y"], integers(counts=[1, 2]), opset=17)).convert()
    return trial.expect("shape", trial.described()["outputs"][0]["shape"], ["m", 3, "n"]).bad


def open_resizes(given):
    """Resize between dynamic sizes is one interpolation; pytorch_half_pixel handles a single element specially."""
    bad = 0
    for mode in ("half_pixel", "pytorch_half_pixel", "align_corners"):
        nodes = [node("Shape", ["t"], ["n"]), node("Concat", ["kept", "n"], ["sizes"], axis=0),
                 node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear", coordinate_transformation_mode=mode)]
        model = model_of(nodes, [("x", FLOAT, [1, 2, "h", "w"]), ("t", FLOAT, ["i", "k"])], ["y"], integers(kept=[1, 2]), opset=19)
        trial = Trial(given, f"open_{mode}", model).convert()
        ops = trial.described()["ops"]
        trial.expect("ops", "interpolate" in ops and sum(ops.values()) <= 3, True)
        for h, w, i, k in ((4, 5, 7, 1), (1, 5, 1, 4), (3, 1, 1, 6), (5, 4, 2, 3), (4, 4, 1, 1), (3, 4, 3, 8)):
            trial.gives({"x": np.random.default_rng(h).normal(size=(1, 2, h, w)).astype(np.float32), "t": np.zeros((i, k), np.float32)})
        bad += trial.bad
    return bad


def open_directions(given):
    """Sizes of recurrent inputs that the model leaves open are checked when they are known."""
    inputs = [("x", FLOAT, [4, 2, 3]), ("w", FLOAT, ["a", 5, 3]), ("r", FLOAT, ["b", 5, 5]), ("h", FLOAT, ["c", "d", 5])]
    trial = Trial(given, "directions", model_of([node("RNN", ["x", "w", "r", "", "", "h"], ["y"], hidden_size=5)], inputs, ["y"], opset=17)).convert()
    feeds = {name: np.random.default_rng(0).normal(size=[{"a": 1, "b": 1, "c": 1, "d": 2}.get(n, n) for n in shape]).astype(np.float32) for name, _, shape in inputs}
    trial.gives(feeds)
    for name, what in (("w", "W"), ("r", "R"), ("h", "initial_h")):
        np.save(trial.folder / f"{name}.npy", np.concatenate([feeds[name]] * 2))
        given_files = [a for n in feeds for a in ("--input", f"{n}={trial.folder}/{n}.npy")]
        done = subprocess.run([given.bin / "hg-run", trial.folder / "model.hgm", *given_files, "--output-dir", trial.folder], capture_output=True, text=True)
        if done.returncode != 4 or f"input {what}" not in done.stderr:
            trial.say(f"{what} of two directions: exit {done.returncode}: {done.stderr}")
        np.save(trial.folder / f"{name}.npy", feeds[name])
    return trial.bad


CHECKS = [open_directions, refusals, turned_pads, quotients, floats_of_sizes, named_sizes, names_as_text, far_steps, endless_loops, just_below, from_the_end, parted_sizes, open_resizes]
