# SPDX-License-Identifier: Apache-2.0
"""ONNX decoders with keys and values of com.microsoft's GroupQueryAttention, converted without options, against ONNX Runtime.

  python3 tests/converter/onnx_caches.py build/bin FOLDER

hg-generate gives the greedy tokens of ONNX Runtime, which runs each prompt alone: with full attention, with windows
(local_window_size), with caches that hold only a window, and with prompts of different lengths. The names of inputs and
outputs are those of optimum and of ONNX Runtime's own exports. Skipped without onnxruntime.
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
LENGTHS = 1, 7, 30


class Case:
    def __init__(self, name, windows=(-1, -1), head=HEAD, short=False, positions=False, longest="Shape", change=0):
        self.name, self.windows = name, windows  # of the layers; -1: none
        self.head = head            # the size of a head in the shapes of the caches
        self.short = short          # caches of layers with windows hold only these
        self.positions = positions  # the file has position_ids, and rotates outside of the attention
        self.longest = longest      # the op that gives the longest length
        self.change = change        # the longest text with the first angles; longer ones have others, also for its keys

    def window_of(self, layer):
        return self.windows[layer] if self.short and self.windows[layer] > 0 else 0


CASES = [
    Case("all"),
    Case("windows", (6, 6)),
    Case("one_window", (-1, 5)),
    Case("open_head", head="head"),
    Case("short_caches", (6, 6), "head", short=True),
    Case("one_short_cache", (-1, 5), short=True),
    Case("positions", positions=True),
    Case("positions_windows", (-1, 5), positions=True),
    Case("longest_count", longest="ReduceMax"),
    Case("two_tables", change=12),
    Case("moving_positions", positions=True, change=12),
]


def names_of(layer, kind):
    return [f"{kind}.{layer}.key", f"{kind}.{layer}.value"]


def write(path, case, seed):
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

    def rotated(x):
        nodes.append(helper.make_node("RotaryEmbedding", [x, places, "cos", "sin"], [f"{x}_turned"], domain="com.microsoft"))
        return f"{x}_turned"

    nodes = [helper.make_node("Gather", [weight("words", WORDS, WIDTH), "input_ids"], ["x"]),
             helper.make_node("ReduceSum", ["attention_mask", "dim"], ["seen"], keepdims=0),
             helper.make_node("Sub", ["seen", "one"], ["last"]),
             helper.make_node("Cast", ["last"], ["lengths"], to=TensorProto.INT32)]  # fmt: skip
    if case.longest == "Shape":
        nodes += [helper.make_node("Shape", ["attention_mask"], ["all"], start=1, end=2), helper.make_node("Squeeze", ["all"], ["count"])]
    else:
        nodes.append(helper.make_node(case.longest, ["seen"], ["count"], keepdims=0))
    nodes.append(helper.make_node("Cast", ["count"], ["total"], to=TensorProto.INT32))
    tables, places = ["cos", "sin"], "position_ids"
    if case.change and case.positions:
        weights["limit"], places = np.array(case.change, np.int64), "moved"
        nodes += [helper.make_node("ReduceMax", ["position_ids"], ["largest"], keepdims=0), helper.make_node("Less", ["largest", "limit"], ["is_short"]),
                  helper.make_node("Where", ["is_short", "zero", "limit"], ["offset"]), helper.make_node("Add", ["position_ids", "offset"], ["moved"])]  # fmt: skip
        weights["zero"] = np.array(0, np.int64)
    elif case.change:
        weights["limit"] = np.array(case.change, np.int64)
        branches = []
        for rows, scale in (POSITIONS, 0.5), (case.change, 1):
            made = [("cos", np.cos(angle[:rows] * scale)), ("sin", np.sin(angle[:rows] * scale))]
            constants = [helper.make_node("Constant", [], [f"{name}_{rows}"], value=numpy_helper.from_array(table.astype(np.float32)))
                         for name, table in made]  # fmt: skip
            results = [helper.make_tensor_value_info(f"{name}_{rows}", TensorProto.FLOAT, [rows, HEAD // 2]) for name, _ in made]
            branches.append(helper.make_graph(constants, f"rows_{rows}", [], results))
        tables = ["chosen_cos", "chosen_sin"]
        nodes += [helper.make_node("Greater", ["count", "limit"], ["is_long"]),
                  helper.make_node("If", ["is_long"], tables, then_branch=branches[0], else_branch=branches[1])]  # fmt: skip
    x, pasts, presents = "x", [], []
    for layer, window in enumerate(case.windows):
        q = product(x, f"q{layer}", WIDTH, HEADS * HEAD)
        k, v = (product(x, f"{name}{layer}", WIDTH, KV_HEADS * HEAD) for name in "kv")
        if case.positions:
            q, k, tables = rotated(q), rotated(k), []
        before, after = names_of(layer, "past_key_values"), names_of(layer, "present")
        short = {"sliding_window_cache": 1} if case.window_of(layer) else {}
        nodes.append(helper.make_node("GroupQueryAttention", [q, k, v, *before, "lengths", "total", *tables], [f"a{layer}", *after],
                                      domain="com.microsoft", num_heads=HEADS, kv_num_heads=KV_HEADS, do_rotary=int(not case.positions),
                                      local_window_size=window, **short))  # fmt: skip
        out = product(f"a{layer}", f"o{layer}", HEADS * HEAD, WIDTH)
        nodes.append(helper.make_node("Add", [x, out], [f"x{layer}"]))
        x = f"x{layer}"
        sizes = ("kept", "kept_then") if short else ("past", "total")
        pasts += [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", KV_HEADS, sizes[0], case.head]) for name in before]
        presents += [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", KV_HEADS, sizes[1], case.head]) for name in after]
    nodes.append(helper.make_node("MatMul", [x, weight("head", WIDTH, WORDS)], ["logits"]))
    ids = ["input_ids", "position_ids"] if case.positions else ["input_ids"]
    inputs = [*(helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "time"]) for name in ids),
              helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch", "total"]), *pasts]  # fmt: skip
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "time", WORDS]), *presents]
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, [numpy_helper.from_array(value, name) for name, value in weights.items()])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)


def wanted(session, case, ids):
    past = {name: np.zeros((1, KV_HEADS, case.window_of(layer), HEAD), np.float32)
            for layer in range(LAYERS) for name in names_of(layer, "past_key_values")}  # fmt: skip
    fresh, all, answer = list(ids), 0, []
    for _ in range(STEPS):
        places = {"position_ids": np.arange(all, all + len(fresh))[None]} if case.positions else {}
        all += len(fresh)
        logits, *present = session.run(None, {"input_ids": np.array([fresh]), "attention_mask": np.ones((1, all), np.int64), **places, **past})
        past = dict(zip(past, present, strict=True))
        fresh = [int(logits[0, -1].argmax())]
        answer += fresh
    return ",".join(map(str, answer))


def differences(bin, case, file, session):
    """The prompts whose tokens are not those of ONNX Runtime. Together, shorter prompts are padded on the left."""
    prompts = [np.random.default_rng(length).integers(0, WORDS, length).tolist() for length in LENGTHS]
    for some in [[prompt] for prompt in prompts] + ([prompts] if case.positions else []):
        given = [part for prompt in some for part in ("--ids", ",".join(map(str, prompt)))]
        done = subprocess.run([bin / "hg-generate", file, *given, "--max-tokens", str(STEPS)], capture_output=True, text=True)
        if len(some[0]) <= case.change < len(some[0]) + STEPS - 1:
            if done.returncode == 0 or "all tokens must be read again" not in done.stderr:
                yield f"{case.name}, a prompt of {len(some[0])} is not rejected: {done.stdout} {done.stderr[-300:]}"
            continue
        got, want = done.stdout.split(), [wanted(session, case, prompt) for prompt in some]
        if got != want:
            yield f"{case.name}, prompts of {[len(prompt) for prompt in some]}: {got} {done.stderr[-300:]}, not {want}"


def main():
    bin, folder = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    if not (bin / "hg-generate").exists():
        sys.exit(77)
    runtime = next((Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so*"), None)
    failed = 0
    for seed, case in enumerate(CASES):
        path, file = folder / f"{case.name}.onnx", folder / f"{case.name}.hgm"
        write(path, case, seed)
        quiet = onnxruntime.SessionOptions()
        quiet.log_severity_level = 3
        try:
            session = onnxruntime.InferenceSession(path, quiet, providers=["CPUExecutionProvider"])
        except Exception as why:
            if not case.short:  # a later version has it
                raise
            print(f"{case.name}: skipped, this ONNX Runtime rejects it: {str(why)[:200]}")
            continue
        done = subprocess.run([bin / "hg-convert", path, "-o", file], capture_output=True, text=True)
        if case.change and case.positions:
            is_named = done.returncode == 3 and "its positions depend on the largest one of a run" in done.stderr
            failed += not is_named
            print(f"{case.name}: rejected" if is_named else f"{case.name}: is not rejected: {done.returncode} {done.stderr[-400:]}")
            continue
        found = list(differences(bin, case, file, session)) if done.returncode == 0 else [f"{case.name}: hg-convert says {done.stderr[-400:]}"]
        if runtime is not None:  # which rejects several prompts with a past
            command = [bin / "hg-convert", path, "-o", file, "--dim", "batch=1", f"--onnxruntime={runtime}"]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode or (" equal ONNX Runtime's" in done.stdout + done.stderr) != (not case.short):
                found.append(f"{case.name}, compared by hg-convert: {(done.stdout + done.stderr)[-600:]}")
        failed += len(found)
        print("\n".join(found) or f"{case.name}: equal")
    print("failed" if failed else "equal")
    sys.exit(failed > 0)


main()
