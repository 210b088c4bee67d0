# SPDX-License-Identifier: Apache-2.0
"""Individual models: rejected ones, and difficult sizes, loops, pads and quotients."""
import json, subprocess

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from case import Case, batch

X = np.ones((2, 3), np.float32)
REFUSED = [  # cases, and words of the error message
    (Case("QuantizeLinear", [X], [np.float32(np.inf), np.uint8(0)]), "scale, input 1, is not finite"),
    (Case("QuantizeLinear", [X], [np.array([1, np.nan, 1], np.float32), np.zeros(3, np.uint8)], axis=1), "scale, input 1, is not finite"),
    (Case("DequantizeLinear", [X.astype(np.uint8)], [np.float32(-np.inf), np.uint8(0)]), "scale, input 1, is not finite"),
    (Case("ScatterND", [X], [np.zeros((1, X.ndim + 1), np.int64), np.zeros(1, np.float32)]), "more columns than the data has dims"),
    *((Case(op, [np.ones((1, 4, 5, 5), np.uint8)], [np.ones(shape, np.int8), *zeros]), "")  # zero points or weights that do not fit
      for op in ("ConvInteger", "MatMulInteger") for shape in ((), (4,), (3, 4, 3, 3), (5, 5))
      for zeros in ([None, np.ones(2, np.int8)], [np.ones(7, np.uint8)], [np.ones((3, 3), np.uint8)])),
    (Case("Col2Im", [np.ones((2, 4, 6), np.float32)], [np.array([6, 2, 2]), np.array([2, 2, 1])]), ""),  # of 10
    (Case("RNN", [np.ones((4, 3, 1), np.float32)], [np.float32(1), np.ones((1, 1, 1), np.float32)], hidden_size=1), "without directions"),
    *((Case("RNN", [np.ones((4, 3, 1), np.float32)], [np.ones((1, 1, 1), np.float32)] * 2, hidden_size=1, activations=["ScaledTanh"], **given),
       "'ScaledTanh' has not its alpha and beta") for given in ({}, {"activation_alpha": [1.0]}, {"activation_beta": [1.0]})),
    (Case("Pad", [np.float32(1)], [np.array([0, 2]), None, np.array([-1])]), "axes of a number"),
    (Case("CumSum", [np.float32(1)], [np.int32(-1)], exclusive=1), "no axis"),
    (Case("Range", [], [np.ones(0, np.int64)] * 3), "not one number"),
    (Case("ArgMin", [X], keepdims=2), "neither 0 nor 1"),
    (Case("GatherND", [X], [np.zeros((1, 1), np.int64)], batch_dims=-1), "'batch_dims' is -1"),
    *((Case("Resize", [X[None, None]], [None, np.array([1, 1, *[by] * X.ndim], np.float32)], mode=mode), "scale")
      for by in (1e30, 1e-30, 0, -1, np.inf, np.nan) for mode in ("nearest", "linear")),
]


def refusals(given):
    """Counts cases of REFUSED with another outcome."""
    jobs = []
    for i, (case, _) in enumerate(REFUSED):
        folder = given.work / f"refused_{i}"
        folder.mkdir(parents=True)
        onnx.save(case.model(), folder / "model.onnx")
        jobs.append({"model": str(folder / "model.onnx"), "output_dir": str(folder), "check": False})
    bad = 0
    for (case, words), answer in zip(REFUSED, batch(given.bin / "hg-convert", jobs, given.work)):
        if answer["status"] != "unsupported" or words not in answer["message"]:
            bad += 1
            print(f"{case.op} should be refused with '{words}': {answer}")
    return bad


def turned_pads(given):
    """torch.onnx.export reverses the pads of F.pad in rows of two; the resulting sizes are known."""
    folder = given.work / "turned_pads"
    folder.mkdir(parents=True)
    numbers = {"pads": [1, 2, 0, 3, 0, 0, 0, 0], "rows": [-1, 2], "from": [-1], "to": [-2**63 + 1], "axis": [0], "step": [-1], "flat": [-1]}
    nodes = [helper.make_node("Reshape", ["pads", "rows"], ["a"]), helper.make_node("Slice", ["a", "from", "to", "axis", "step"], ["b"]),
             helper.make_node("Transpose", ["b"], ["c"], perm=[1, 0]), helper.make_node("Reshape", ["c", "flat"], ["d"]),
             helper.make_node("Pad", ["x", "d"], ["y"])]
    x = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    graph = helper.make_graph(nodes, "turned", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(np.array(v, np.int64), n) for n, v in numbers.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
    np.save(folder / "x.npy", x)
    model = str(folder / "model.hgm")
    subprocess.run([given.bin / "hg-convert", folder / "model.onnx", "-o", model], check=True, capture_output=True)
    shape = json.loads(subprocess.run([given.bin / "hg-info", model, "--json"], capture_output=True, text=True).stdout)["outputs"][0]["shape"]
    subprocess.run([given.bin / "hg-run", model, "--input", f"x={folder}/x.npy", "--output-dir", folder], check=True, capture_output=True)
    want = np.pad(x, ((0, 0), (0, 0), (0, 3), (1, 2)))
    if shape == list(want.shape) and np.array_equal(np.load(folder / "y.npy"), want):
        return 0
    print(f"turned pads give {shape} instead of {list(want.shape)}, or other numbers")
    return 1


def quotients(given):
    """Div rounds sizes toward 0: (n - 1) / 4 + 1, as torch.export writes sizes after a stride, and (n - 9) / 4 + 3."""
    folder = given.work / "quotients"
    folder.mkdir(parents=True)
    numbers = {"one": [1], "nine": [9], "four": [4], "three": [3]}
    nodes = [helper.make_node("Shape", ["x"], ["n"]), helper.make_node("Sub", ["n", "one"], ["a"]), helper.make_node("Div", ["a", "four"], ["b"]),
             helper.make_node("Add", ["b", "one"], ["c"]), helper.make_node("Sub", ["n", "nine"], ["d"]), helper.make_node("Div", ["d", "four"], ["e"]),
             helper.make_node("Add", ["e", "three"], ["f"]), helper.make_node("Concat", ["c", "f"], ["g"], axis=0),
             helper.make_node("ConstantOfShape", ["g"], ["y"])]
    graph = helper.make_graph(nodes, "quotients", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["c", "f"])],
                              [numpy_helper.from_array(np.array(v, np.int64), n) for n, v in numbers.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
    model = str(folder / "model.hgm")
    subprocess.run([given.bin / "hg-convert", folder / "model.onnx", "-o", model], check=True, capture_output=True)
    said = json.loads(subprocess.run([given.bin / "hg-info", model, "--json"], capture_output=True, text=True).stdout)
    bad = said["outputs"][0]["shape"] != ["floordiv(max(0, n - 1), 4) + 1", "-floordiv(max(-n + 9, 0), 4) + floordiv(max(0, n - 9), 4) + 3"]
    if bad:
        print("quotients of sizes are computed as the graph runs:", said["outputs"][0]["shape"])
    for n in range(14):
        np.save(folder / "x.npy", np.zeros(n, np.float32))
        subprocess.run([given.bin / "hg-run", model, "--input", f"x={folder}/x.npy", "--output-dir", folder], check=True, capture_output=True)
        want = (int((n - 1) / 4) + 1, int((n - 9) / 4) + 3)
        if np.load(folder / "y.npy").shape != want:
            bad = True
            print(f"quotients of {n} give {np.load(folder / 'y.npy').shape} instead of {want}")
    return int(bad)


def floats_of_sizes(given):
    """n / 49 * 49 rounds twice, to less than n for some n. One float tensor contains both sizes and numbers."""
    folder = given.work / "floats"
    folder.mkdir(parents=True)
    nodes = [helper.make_node("Shape", ["x"], ["n"], end=1), helper.make_node("Cast", ["n"], ["a"], to=TensorProto.FLOAT), helper.make_node("Div", ["a", "whole"], ["b"]),
             helper.make_node("Mul", ["b", "whole"], ["c"]), helper.make_node("Cast", ["c"], ["d"], to=TensorProto.INT64),
             helper.make_node("ConstantOfShape", ["d"], ["y"]), helper.make_node("Shape", ["x"], ["e"]), helper.make_node("Cast", ["e"], ["z"], to=TensorProto.FLOAT)]
    graph = helper.make_graph(nodes, "floats", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
                              [helper.make_empty_tensor_value_info(name) for name in ("y", "z")], [numpy_helper.from_array(np.array([49], np.float32), "whole")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "model.onnx")
    hgm = str(folder / "model.hgm")
    done = subprocess.run([given.bin / "hg-convert", folder / "model.onnx", "-o", hgm], capture_output=True, text=True)
    if done.returncode:
        print(f"floats of sizes: {done.stderr}")
        return 1
    bad = 0
    for n in (1, 7, 27, 30, 54, 98):
        x = np.zeros((n, 3), np.float32)
        np.save(folder / "x.npy", x)
        subprocess.run([given.bin / "hg-run", hgm, "--input", f"x={folder}/x.npy", "--output-dir", folder], check=True, capture_output=True)
        y, z = ReferenceEvaluator(model).run(None, {"x": x})
        if np.load(folder / "y.npy").shape != y.shape or not np.array_equal(np.load(folder / "z.npy"), z):
            bad = 1
            print(f"floats of the size {n} give {np.load(folder / 'y.npy').shape} and {np.load(folder / 'z.npy')} instead of {y.shape} and {z}")
    return bad


def far_steps(given):
    """A step larger than the remaining range, in a slice of sizes and in a Range."""
    folder, most = given.work / "far_steps", 2**63 - 1
    folder.mkdir(parents=True)
    numbers = {"one": [1], "far": [most], "low": most - 1, "high": most, "five": 5}
    nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Slice", ["s", "one", "far", "", "far"], ["y0"]),
             helper.make_node("Range", ["low", "high", "five"], ["y1"])]
    graph = helper.make_graph(nodes, "far", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4, 2])],
                              [helper.make_empty_tensor_value_info(y) for y in ("y0", "y1")],
                              [numpy_helper.from_array(np.array(v, np.int64), n) for n, v in numbers.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
    np.save(folder / "x.npy", np.zeros((3, 4, 2), np.float32))
    hgm = str(folder / "model.hgm")
    done = subprocess.run([given.bin / "hg-convert", folder / "model.onnx", "-o", hgm], capture_output=True, text=True)
    if not done.returncode:
        done = subprocess.run([given.bin / "hg-run", hgm, "--input", folder / "x.npy", "--output-dir", folder], capture_output=True, text=True)
    got = done.returncode or [np.load(folder / f"{y}.npy").tolist() for y in ("y0", "y1")]
    if got != [[4], [most - 1]]:
        print(f"far steps: {got} {done.stderr}")
    return int(got != [[4], [most - 1]])


def endless_loops(given):
    """Endless loops, also with a condition that is passed on, are rejected before they are unrolled."""
    bad = 0
    for name, trips, passed in (("most", 2**31 - 1, False), ("passed", 2**31 - 1, True), ("open", None, True)):
        folder = given.work / f"endless_{name}"
        folder.mkdir(parents=True)
        info = helper.make_tensor_value_info
        body = helper.make_graph([helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Identity", ["d"], ["e"]), helper.make_node("Add", ["v", "v"], ["w"])],
                                 "body", [info("i", TensorProto.INT64, []), info("c", TensorProto.BOOL, []), info("v", TensorProto.FLOAT, [3])],
                                 [info("e", TensorProto.BOOL, []), info("w", TensorProto.FLOAT, [3])])
        inputs = ["" if trips is None else "n", "yes" if passed else "", "x"]
        graph = helper.make_graph([helper.make_node("Loop", inputs, ["y"], body=body)], "endless", [info("x", TensorProto.FLOAT, [3])],
                                  [info("y", TensorProto.FLOAT, [3])], [numpy_helper.from_array(np.array(trips or 0, np.int64), "n"),
                                                                        numpy_helper.from_array(np.array(True), "yes")])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
        try:
            done = subprocess.run([given.bin / "hg-convert", folder / "model.onnx", "--no-check"], capture_output=True, text=True, timeout=10)
            if done.returncode == 3 and "a loop runs more than 100000 times" in done.stderr:
                continue
            why = done.stderr
        except subprocess.TimeoutExpired:
            why = "it takes more than 10 s"
        bad += 1
        print(f"an endless loop, {name}: {why}")
    return bad


def just_below(given):
    """Slices to and from size - 1 and size - 2, in both directions, for sizes down to 0."""
    folder, bad = given.work / "just_below", 0
    folder.mkdir(parents=True)
    numbers = {"zero": [0], "one": [1], "two": [2], "far": [2**31 - 1], "back": [-1], "first": [-(2**31)]}
    nodes = [helper.make_node("Shape", ["x"], ["n"]), helper.make_node("Sub", ["n", "one"], ["a"]), helper.make_node("Sub", ["n", "two"], ["b"])]
    cuts = [["zero", "a"], ["zero", "b"], ["a", "far"], ["b", "far"], ["b", "a"], ["a", "first", "zero", "back"], ["far", "a", "zero", "back"]]
    nodes += [helper.make_node("Slice", ["x", *cut], [f"y{k}"]) for k, cut in enumerate(cuts)]
    graph = helper.make_graph(nodes, "below", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
                              [helper.make_empty_tensor_value_info(f"y{k}") for k in range(len(cuts))],
                              [numpy_helper.from_array(np.array(v, np.int64), n) for n, v in numbers.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "model.onnx")
    hgm = str(folder / "model.hgm")
    subprocess.run([given.bin / "hg-convert", folder / "model.onnx", "-o", hgm], check=True, capture_output=True)
    for n in range(5):
        x = np.arange(n, dtype=np.float32)
        np.save(folder / "x.npy", x)
        done = subprocess.run([given.bin / "hg-run", hgm, "--input", folder / "x.npy", "--output-dir", folder], capture_output=True, text=True)
        got = done.returncode or [np.load(folder / f"y{k}.npy").tolist() for k in range(len(cuts))]
        want = [y.tolist() for y in ReferenceEvaluator(model).run(None, {"x": x})]
        if got != want:
            bad = 1
            print(f"slices just below {n}: {got} instead of {want} {done.stderr}")
    return bad


def named_sizes(given):
    """Dim names are sums and products of names that inputs define, or arbitrary text."""
    folder, bad = given.work / "named", 0
    folder.mkdir(parents=True)
    for names, shapes, want in (
            (["batch-size", "seq-len", "batch-size"], [(2, 3, 2), (1, 5, 1)], ["batch_size", "seq_len", "batch_size"]),
            (["h*w", "max(n, 2)"], [(6, 2), (5, 1)], ["h_w", "max_n__2_"]), (["n", "m", "m + n", "2*n"], [(2, 3, 5, 4), (1, 4, 5, 2)], ["n", "m", "m + n", "2*n"]),
            (["2*n + 1", "n*n"], [(5, 4), (3, 1)], ["2*n + 1", "n*n"]), (["batch_size + 1", "batch-size", "batch_size"], [(3, 5, 2), (2, 7, 1)],
                                                                         ["batch_size + 1", "batch_size_", "batch_size"])):
        inputs = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, [name]) for i, name in enumerate(names)]
        graph = helper.make_graph([helper.make_node("Neg", [f"x{i}"], [f"y{i}"]) for i in range(len(names))], "named", inputs,
                                  [helper.make_empty_tensor_value_info(f"y{i}") for i in range(len(names))])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
        hgm = str(folder / "model.hgm")
        done = subprocess.run([given.bin / "hg-convert", folder / "model.onnx", "-o", hgm], capture_output=True, text=True)
        said = done.stderr if done.returncode else [line.split("[")[1].rstrip("]") for line in done.stdout.splitlines() if line.startswith("  input")]
        for sizes in shapes if said == want else []:
            for i, size in enumerate(sizes):
                np.save(folder / f"x{i}.npy", np.ones(size, np.float32))
            ran = subprocess.run([given.bin / "hg-run", hgm, *[a for i in range(len(sizes)) for a in ("--input", f"{folder}/x{i}.npy")], "--output-dir", folder],
                                 capture_output=True, text=True)
            said = said if not ran.returncode else ran.stderr
        if said != want:
            bad = 1
            print(f"sizes named {names}: {said}")
    return bad


def names_as_text(given):
    """Names are UTF-8, in the graph and in the subgraphs of its nodes."""
    folder, bad = given.work / "names", 0
    folder.mkdir(parents=True)
    then = helper.make_graph([helper.make_node("Neg", ["x"], ["inner"])], "then", [], [helper.make_empty_tensor_value_info("inner")])
    graph = helper.make_graph([helper.make_node("If", ["c"], ["result"], then_branch=then, else_branch=then)], "names",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3]), helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
                              [helper.make_empty_tensor_value_info("result")])
    file = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    for old, new, words in ((b"result", b"r\xc3\xa9sul", ""), (b"result", b"re\xffult", "'re\\xffult' is not UTF-8"),
                            (b"inner", b"in\xc0\x80r", "'in\\xc0\\x80r' is not UTF-8")):
        (folder / "model.onnx").write_bytes(file.replace(old, new))
        done = subprocess.run([given.bin / "hg-convert", folder / "model.onnx", "-o", folder / "model.hgm"], capture_output=True, text=True)
        if done.returncode != (2 if words else 0) or words not in done.stderr:
            bad = 1
            print(f"the name {new}: exit code {done.returncode}, {done.stderr}")
    return bad


def parted_sizes(given):
    """Parts of a shape stay symbolic: [n, m, 3] is split after the first size and becomes [m, 3, n]."""
    folder = given.work / "parted"
    folder.mkdir(parents=True)
    nodes = [helper.make_node("Shape", ["x"], ["sizes"]), helper.make_node("Split", ["sizes", "counts"], ["first", "rest"], axis=0),
             helper.make_node("Concat", ["rest", "first"], ["turned"], axis=0), helper.make_node("Reshape", ["x", "turned"], ["y"])]
    graph = helper.make_graph(nodes, "parted", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "m", 3])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["a", "b", "c"])],
                              [numpy_helper.from_array(np.array([1, 2]), "counts")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
    model = str(folder / "model.hgm")
    subprocess.run([given.bin / "hg-convert", folder / "model.onnx", "-o", model], check=True, capture_output=True)
    shape = json.loads(subprocess.run([given.bin / "hg-info", model, "--json"], capture_output=True, text=True).stdout)["outputs"][0]["shape"]
    if shape == ["m", 3, "n"]:
        return 0
    print(f"parts of a shape give {shape}")
    return 1


def open_resizes(given):
    """Resize between dynamic sizes is one interpolation; pytorch_half_pixel handles a single element specially."""
    bad = 0
    for mode in ("half_pixel", "pytorch_half_pixel", "align_corners"):
        folder = given.work / f"open_{mode}"
        folder.mkdir(parents=True)
        nodes = [helper.make_node("Shape", ["t"], ["n"]), helper.make_node("Concat", ["kept", "n"], ["sizes"], axis=0),
                 helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear", coordinate_transformation_mode=mode)]
        made = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [1, 2, "h", "w"]), ("t", ["i", "k"]))]
        graph = helper.make_graph(nodes, "resize", made, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, "i", "k"])],
                                  [numpy_helper.from_array(np.array([1, 2]), "kept")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
        onnx.save(model, folder / "model.onnx")
        hgm = str(folder / "model.hgm")
        subprocess.run([given.bin / "hg-convert", folder / "model.onnx", "-o", hgm], check=True, capture_output=True)
        ops = json.loads(subprocess.run([given.bin / "hg-info", hgm, "--json"], capture_output=True, text=True).stdout)["ops"]
        if "interpolate" not in ops or sum(ops.values()) > 3:
            bad = 1
            print(f"Resize {mode} of open sizes is {ops}")
        for h, w, i, k in ((4, 5, 7, 1), (1, 5, 1, 4), (3, 1, 1, 6), (5, 4, 2, 3), (4, 4, 1, 1), (3, 4, 3, 8)):
            feeds = {"x": np.random.default_rng(h).normal(size=(1, 2, h, w)).astype(np.float32), "t": np.zeros((i, k), np.float32)}
            for name, value in feeds.items():
                np.save(folder / f"{name}.npy", value)
            subprocess.run([given.bin / "hg-run", hgm, *[a for n in feeds for a in ("--input", f"{n}={folder}/{n}.npy")], "--output-dir", folder],
                           check=True, capture_output=True)
            why = np.abs(np.load(folder / "y.npy") - ReferenceEvaluator(model).run(None, feeds)[0]).max()
            if not why < 1e-5:
                bad = 1
                print(f"Resize {mode} from {h, w} to {i, k} differs by {why}")
    return bad


CHECKS = [refusals, turned_pads, quotients, floats_of_sizes, named_sizes, names_as_text, far_steps, endless_loops, just_below, parted_sizes, open_resizes]
