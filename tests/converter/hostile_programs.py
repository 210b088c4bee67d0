# SPDX-License-Identifier: Apache-2.0
"""hostile_programs.py HG_CONVERT FOLDER: exported programs and ONNX models designed to crash the converter, keep it
busy or fill its memory are rejected with a message. Each one is a small valid program with one change."""
import json
import pathlib
import subprocess
import sys
import time
import zipfile

SECONDS = 60  # enough for a busy machine


def tensor(name):
    return {"as_tensor": {"name": name}}


def meta(*sizes):
    return {"dtype": 7, "sizes": [s if isinstance(s, dict) else {"as_int": s} for s in sizes], "requires_grad": False,
            "device": {"type": "cpu", "index": None}, "strides": [{"as_int": 1} for _ in sizes],
            "storage_offset": {"as_int": 0}, "layout": 7}


def node(target, inputs, outputs):
    return {"target": target, "inputs": [{"name": name, "arg": arg} for name, arg in inputs], "outputs": outputs,
            "metadata": {}}


def sized(text):
    """Makes this expression the input's size."""
    def change(program, archive):
        program["graph_module"]["graph"]["tensor_values"]["x"] = meta({"as_expr": {"expr_str": text, "hint": None}})
    return change


def graph_of(program):
    return program["graph_module"]["graph"]


def good():
    graph = {"inputs": [tensor("x")], "outputs": [tensor("y")], "tensor_values": {"x": meta(2), "y": meta(2)},
             "nodes": [node("torch.ops.aten.relu.default", [("self", tensor("x"))], [tensor("y")])],
             "sym_int_values": {}, "sym_bool_values": {}, "sym_float_values": {}, "is_single_tensor_return": False}
    signature = {"input_specs": [{"user_input": {"arg": tensor("x")}}],
                 "output_specs": [{"user_output": {"arg": tensor("y")}}]}
    program = {"graph_module": {"graph": graph, "signature": signature, "module_call_graph": []},
               "opset_version": {"aten": 10}, "range_constraints": {}, "schema_version": {"major": 8, "minor": 8},
               "torch_version": "2.8.0", "guards_code": []}
    archive = {"archive_format": "pt2", "byteorder": "little",
               "data/weights/model_weights_config.json": {"config": {}},
               "data/constants/model_constants_config.json": {"config": {}}}
    return program, archive


def empty_output(program, archive):
    graph_of(program)["nodes"][0]["outputs"] = [{}]


def empty_output_of_a_refused_op(program, archive):
    graph_of(program)["nodes"][0] = node("torch.ops.higher_order.unknown", [], [{}])


def empty_operand(program, archive):
    graph_of(program)["nodes"][0] = node("torch.ops.higher_order.invoke_subgraph", [
        ("0", {"as_graph": {"graph": {"inputs": [], "outputs": [], "nodes": []}}}), ("1", {"as_string": "a"}), ("2", {})],
        [tensor("y")])


def empty_specs(program, archive):
    program["graph_module"]["signature"]["input_specs"] = [{}]


def empty_output_specs(program, archive):
    program["graph_module"]["signature"]["output_specs"] = [{}]


def empty_user_input(program, archive):
    program["graph_module"]["signature"]["input_specs"] = [{"user_input": {"arg": {}}}]


def loops_in_conditions(program, archive):
    """Each condition is read twice, so 40 nested ones would be read 2^40 times."""
    x = {"as_tensors": [{"name": "x"}]}
    truth = node("torch.ops.aten.any.default", [("self", tensor("x"))], [tensor("t")])
    condition = {"inputs": [tensor("x")], "outputs": [tensor("t")], "nodes": [truth]}
    body = {"inputs": [tensor("x")], "outputs": [tensor("x")], "nodes": []}
    for _ in range(40):
        loop = node("torch.ops.higher_order.while_loop", [
            ("0", {"as_graph": {"graph": condition}}), ("1", {"as_graph": {"graph": body}}), ("2", x)], [tensor("z")])
        condition = {"inputs": [tensor("x")], "outputs": [tensor("t")], "nodes": [loop, truth]}
    graph_of(program)["nodes"].insert(0, condition["nodes"][0])


def range_beyond_numbers(program, archive):
    sized("2*s0")(program, archive)
    program["range_constraints"] = {"s0": {"min_val": 2**62 + 1, "max_val": None}}


def parameters(*shapes):
    """Adds one parameter per (sizes, strides), all in the same four bytes."""
    def change(program, archive):
        config = archive["data/weights/model_weights_config.json"]["config"]
        for i, (sizes, strides) in enumerate(shapes):
            of = meta(*sizes)
            of["strides"] = [{"as_int": stride} for stride in strides]
            config[f"p{i}"] = {"path_name": "w", "is_param": True, "use_pickle": False, "tensor_meta": of}
            program["graph_module"]["signature"]["input_specs"].insert(
                i, {"parameter": {"arg": {"name": f"p{i}"}, "parameter_name": f"p{i}"}})
        archive["data/weights/w"] = b"\0\0\0\0"
    return change


def saved(pickle):
    """Weights in the form of torch.save, with this pickle."""
    def change(program, archive):
        inner = pathlib.Path(archive["folder"]) / "inner.zip"
        with zipfile.ZipFile(inner, "w") as file:
            file.writestr("archive/data.pkl", pickle)
            file.writestr("archive/byteorder", "little")
        archive["data/weights/model.pt"] = inner.read_bytes()
        program["graph_module"]["signature"]["input_specs"].insert(
            0, {"parameter": {"arg": {"name": "p"}, "parameter_name": "p"}})
    return change


# A dict of 20,000 tensors that share one tuple of 20,000 sizes.
LONG_SIZES = (b"\x80\x02" + b"(" + b"K\x01" * 20000 + b"tr\x00\x01\x00\x00" +
              b"((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x01tQq\x01" +
              b"ctorch._utils\n_rebuild_tensor_v2\nq\x02" +
              b"h\x02(h\x01K\x00j\x00\x01\x00\x00j\x00\x01\x00\x00tR" * 20000 + b".")

# (what, change, words of the refusal or None)
CASES = [
    ("a good program", None, None),
    ("an output of no kind", empty_output, "one kind of value is due"),
    ("an output of no kind where the op is refused", empty_output_of_a_refused_op, "one kind of value is due"),
    ("an operand of no kind", empty_operand, "one kind of value is due"),
    ("an input of no kind", empty_specs, "one kind of value is due"),
    ("an output's role of no kind", empty_output_specs, "one kind of value is due"),
    ("an argument of no kind", empty_user_input, "one kind of value is due"),
    ("loops in conditions of loops", loops_in_conditions, "nested too deeply"),
    ("a size of 500,000 powers", sized("**".join(["1"] * 500000)), "the size '1**1"),
    ("a size of 100,000 symbols", sized("+".join(f"s{i}" for i in range(100000)) + "+?"), "the size 's0+s1"),
    ("the largest of 20,000 symbols", sized("Max(" + ", ".join(f"s{i}" for i in range(20000)) + ")"), "the size 'Max"),
    ("a range that no number holds", range_beyond_numbers, "the range of x.shape[0]"),
    ("a stride at the end of numbers", parameters(([2], [2**63 - 1])), "does not fit into its record"),
    ("many tensors of few bytes", parameters(([2**24], [0]), *(([2**28 - i], [0]) for i in range(20))), "has an absurd size"),
    ("sizes that many tensors share", saved(LONG_SIZES), "too many dims"),
]


# ---- ONNX: messages are lists of (field, number, text or message) ----

def varint(number):
    digits = []
    while True:
        digits.append(number % 128 + (128 if number > 127 else 0))
        number //= 128
        if not number:
            return bytes(digits)


def message(*fields):
    out = b""
    for field, value in fields:
        if isinstance(value, int):
            out += varint(field * 8) + varint(value)
        else:
            value = value.encode() if isinstance(value, str) else value
            out += varint(field * 8 + 2) + varint(len(value)) + value
    return out


def onnx_node(op, inputs, outputs, *more):
    return message(*[(1, name) for name in inputs], *[(2, name) for name in outputs], (4, op), *more)


def onnx_value(name, *dims):
    shape = message(*[(1, message((1, size) if isinstance(size, int) else (2, size))) for size in dims])
    return message((1, name), (2, message((1, message((1, 1), (2, shape))))))


def onnx_function(name, *nodes):
    return message((1, name), (4, "x"), (5, "y"), *[(7, node) for node in nodes], (9, message((2, 17))), (10, "acme"))


def onnx_model(nodes, functions=(), inputs=(onnx_value("x", 2),), more=()):
    graph = message(*[(1, node) for node in nodes], (2, "graph"), *[(11, value) for value in inputs],
                    (12, onnx_value("y", 2)), *more)
    return message((1, 8), (7, graph), (8, message((2, 17))), (8, message((1, "acme"), (2, 1))),
                   *[(25, function) for function in functions])


def acme(name, inputs, outputs):
    return onnx_node(name, inputs, outputs, (7, "acme"))


RELU = onnx_node("Relu", ["x"], ["y"])
# Each function calls the next one twice.
DOUBLING = [onnx_function(f"f{i}", acme(f"f{i + 1}", ["x"], ["z"]), acme(f"f{i + 1}", ["z"], ["y"])) for i in range(40)]
ONNX_CASES = [
    ("a good model", onnx_model([acme("f0", ["x"], ["y"])], [onnx_function("f0", RELU)]), None),
    ("functions that call others twice", onnx_model([acme("f0", ["x"], ["y"])], [*DOUBLING, onnx_function("f40", RELU)]),
     "where they are called"),
    ("a call of more results than the function's", onnx_model(
        [acme("f0", ["x"], ["y", *[f"more{i}" for i in range(1000)]])], [onnx_function("f0", RELU)]), "gives 1 results"),
    ("an If without a condition", onnx_model([onnx_node("If", [], ["y"]), RELU]), "has a body of other inputs"),
    ("a sparse tensor of terabytes", onnx_model([RELU], more=[(15, message(
        (1, message((1, 0), (2, 1), (8, "s"))), (2, message((1, 0), (2, 7), (8, "i"))), (3, 2**30), (3, 2**10)))]),
     "bytes as dense ones"),
    ("sizes of like names", onnx_model([RELU], inputs=[onnx_value("x", 2), *[
        onnx_value(f"x{i}", "a" + "".join("-!?*"[i // 4**k % 4] for k in range(5))) for i in range(1000)]]), "names like"),
]


def write(path, program, archive):
    with zipfile.ZipFile(path, "w") as file:
        for name, content in archive.items():
            if name != "folder":
                file.writestr("net/" + name, json.dumps(content) if isinstance(content, dict) else content)
        file.writestr("net/models/model.json", json.dumps(program))


def convert(tool, path, folder):
    begin = time.monotonic()
    done = subprocess.run([tool, str(path), "-o", str(folder / "out.hgm")], capture_output=True, text=True, timeout=SECONDS,
                          check=False)
    return done.returncode, done.stderr + done.stdout, time.monotonic() - begin


def taken_rightly(what, tool, path, folder, words):
    """Must be converted if `words` is None, otherwise rejected with these words."""
    try:
        code, said, seconds = convert(tool, path, folder)
    except subprocess.TimeoutExpired:
        code, said, seconds = "none", "", SECONDS
    right = code == 0 if words is None else code in (2, 3) and words in said
    print(f"{'ok' if right else 'WRONG'}: {what}, {path.stat().st_size} bytes: {code} after {seconds:.1f} s")
    if not right:
        print(said[-1000:])
    return right


def main():
    tool, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    failures, path = 0, folder / "hostile.pt2"
    for what, change, words in CASES:
        program, archive = good()
        archive["folder"] = str(folder)
        if change:
            change(program, archive)
        write(path, program, archive)
        failures += not taken_rightly(what, tool, path, folder, words)
    path = folder / "hostile.onnx"
    for what, model, words in ONNX_CASES:
        path.write_bytes(model)
        failures += not taken_rightly(what, tool, path, folder, words)
    print(f"{len(CASES) + len(ONNX_CASES)} programs, {failures} taken wrongly")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
