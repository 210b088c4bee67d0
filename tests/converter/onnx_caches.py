# SPDX-License-Identifier: Apache-2.0
"""ONNX decoders with keys and values of com.microsoft's GroupQueryAttention, converted without options, against ONNX Runtime.

  python3 tests/converter/onnx_caches.py build/bin FOLDER

hg-generate gives the greedy tokens of ONNX Runtime, with full attention and with windows (local_window_size). The names
of inputs and outputs are those of optimum and of ONNX Runtime's own exports. Skipped without onnxruntime.
"""
import subprocess
import sys
from pathlib import Path

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    print("no Python with onnx and onnxruntime")
    sys.exit(77)

WORDS, WIDTH, HEADS, KV_HEADS, HEAD, POSITIONS, STEPS, LAYERS = 61, 32, 4, 2, 16, 64, 20, 2


def names_of(layer, kind):
    return [f"{kind}.{layer}.key", f"{kind}.{layer}.value"]


def write(path, windows, seed):
    """A decoder whose layers have these windows; -1: none."""
    rng = np.random.default_rng(seed)
    angle = np.arange(POSITIONS)[:, None] / 10000 ** (np.arange(HEAD // 2) * 2 / HEAD)[None]
    weights = {"one": np.array(1, np.int64), "dim": np.array([1], np.int64),
               "cos": np.cos(angle).astype(np.float32), "sin": np.sin(angle).astype(np.float32)}  # fmt: skip

    def weight(name, *shape):
        weights[name] = (rng.standard_normal(shape) * 0.4).astype(np.float32)
        return name

    def product(x, name, *shape):
        nodes.append(helper.make_node("MatMul", [x, weight(name, *shape)], [f"{name}_of"]))
        return f"{name}_of"

    nodes = [helper.make_node("Gather", [weight("words", WORDS, WIDTH), "input_ids"], ["x"]),
             helper.make_node("ReduceSum", ["attention_mask", "dim"], ["seen"], keepdims=0),
             helper.make_node("Sub", ["seen", "one"], ["last"]),
             helper.make_node("Cast", ["last"], ["lengths"], to=TensorProto.INT32),
             helper.make_node("Shape", ["attention_mask"], ["all"], start=1, end=2),
             helper.make_node("Squeeze", ["all"], ["count"]),
             helper.make_node("Cast", ["count"], ["total"], to=TensorProto.INT32)]  # fmt: skip
    x, pasts, presents = "x", [], []
    for layer, window in enumerate(windows):
        q = product(x, f"q{layer}", WIDTH, HEADS * HEAD)
        k, v = (product(x, f"{name}{layer}", WIDTH, KV_HEADS * HEAD) for name in "kv")
        before, after = names_of(layer, "past_key_values"), names_of(layer, "present")
        nodes.append(helper.make_node("GroupQueryAttention", [q, k, v, *before, "lengths", "total", "cos", "sin"], [f"a{layer}", *after],
                                      domain="com.microsoft", num_heads=HEADS, kv_num_heads=KV_HEADS, do_rotary=1, local_window_size=window))
        out = product(f"a{layer}", f"o{layer}", HEADS * HEAD, WIDTH)
        nodes.append(helper.make_node("Add", [x, out], [f"x{layer}"]))
        x = f"x{layer}"
        pasts += [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", KV_HEADS, "past", HEAD]) for name in before]
        presents += [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", KV_HEADS, "total", HEAD]) for name in after]
    nodes.append(helper.make_node("MatMul", [x, weight("head", WIDTH, WORDS)], ["logits"]))
    inputs = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "time"]),
              helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch", "total"]), *pasts]  # fmt: skip
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "time", WORDS]), *presents]
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, [numpy_helper.from_array(value, name) for name, value in weights.items()])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)


def wanted(path, ids):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    past = {name: np.zeros((1, KV_HEADS, 0, HEAD), np.float32) for layer in range(LAYERS) for name in names_of(layer, "past_key_values")}
    fresh, all, answer = list(ids), 0, []
    for _ in range(STEPS):
        all += len(fresh)
        logits, *present = session.run(None, {"input_ids": np.array([fresh]), "attention_mask": np.ones((1, all), np.int64), **past})
        past = dict(zip(past, present, strict=True))
        fresh = [int(logits[0, -1].argmax())]
        answer += fresh
    return answer


def main():
    bin, folder = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    if not (bin / "hg-generate").exists():
        sys.exit(77)
    failed = 0
    for seed, windows in enumerate([(-1, -1), (6, 6), (-1, 5)]):
        path, file = folder / f"{seed}.onnx", folder / f"{seed}.hgm"
        write(path, windows, seed)
        done = subprocess.run([bin / "hg-convert", path, "-o", file], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"windows {windows}: hg-convert says {done.stderr[-400:]}")
        for length in 1, 7, 30:
            ids = np.random.default_rng(length).integers(0, WORDS, length).tolist()
            done = subprocess.run([bin / "hg-generate", file, "--ids", ",".join(map(str, ids)), "--max-tokens", str(STEPS)],
                                  capture_output=True, text=True)  # fmt: skip
            got, want = done.stdout.strip(), ",".join(map(str, wanted(path, ids)))
            if got != want:
                failed += 1
                print(f"windows {windows}, prompt of {length}: {got} {done.stderr[-200:]}, not {want}")
    print("failed" if failed else "equal")
    sys.exit(failed > 0)


main()
