#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times language models with random weights beside llama.cpp: prompts, decoding at several depths, and memory.

  bench/llm.py WORK --hg-bin build/bin [--shapes 135M 0.5B] [--types F32 Q8_0 Q4_0] [--threads 1 2] [--emit FILE]

Makes GGUF files in the folder WORK, converts them with hg-convert, and runs hg-generate and llama.cpp (pip install llama-cpp-python,
left out if it is missing) in turn. Tokens per second are those of the fastest turn: for a prompt of 512, and for decoding after a
prompt of each depth. `i8` is Hologram with --precision i8. MiB is the largest resident memory of the process.
"""
import argparse
import datetime
import importlib.util
import json
import os
import pathlib
import random
import resource
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests" / "converter" / "gguf")]
import measurements  # noqa: E402

# architecture, layers, width, heads, heads of keys, dim of heads, width of feed-forward, vocabulary
SHAPES = {"135M": ("llama", 30, 576, 9, 3, 64, 1536, 49152), "0.5B": ("qwen2", 24, 896, 14, 2, 64, 4864, 151936)}
TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 8}
PROMPT, NEW = 512, 32


def make(path, shape, kind):
    import container
    import numpy as np
    arch, layers, width, heads, key_heads, dim, inner, words = SHAPES[shape]
    rng, tensors = np.random.default_rng(0), {}

    def put(name, sizes, mean=0.0):
        scale = 0.3 if len(sizes) == 1 else sizes[-1] ** -0.5
        tensors[name] = container.tensor(rng, 0 if len(sizes) == 1 else kind, sizes, scale, mean)[0]

    put("token_embd.weight", (words, width))
    put("output_norm.weight", (width,), 1.0)
    for i in range(layers):
        block = f"blk.{i}."
        for name in ("attn_norm", "ffn_norm"):
            put(f"{block}{name}.weight", (width,), 1.0)
        for name, rows, columns in (("attn_q", heads * dim, width), ("attn_k", key_heads * dim, width),
                                    ("attn_v", key_heads * dim, width), ("attn_output", width, heads * dim),
                                    ("ffn_gate", inner, width), ("ffn_up", inner, width), ("ffn_down", width, inner)):
            put(f"{block}{name}.weight", (rows, columns))
            if arch == "qwen2" and name in ("attn_q", "attn_k", "attn_v"):
                put(f"{block}{name}.bias", (rows,))
    values = {"context_length": 8192, "embedding_length": width, "block_count": layers, "feed_forward_length": inner,
              "attention.head_count": heads, "attention.head_count_kv": key_heads, "attention.layer_norm_rms_epsilon": 1e-5,
              "rope.dimension_count": dim, "rope.freq_base": 10000.0, "vocab_size": words}
    fields = {"general.architecture": arch, "tokenizer.ggml.model": "none", **{f"{arch}.{k}": v for k, v in values.items()}}
    path.write_bytes(container.container(fields, tensors))


def prompt(count, words):
    return random.Random(1).choices(range(words), k=count)


def run_hologram(given, path, threads, depth, precision):
    """(ms of the prompt, ms of a new token, MiB)"""
    ids = ",".join(map(str, prompt(depth, SHAPES[given.shape][-1])))
    command = [str(given.hg_bin / "hg-generate"), str(path.with_suffix(".hgm")), "--ids", ids, "--max-tokens", str(NEW + 1),
               "--threads", str(threads), "--precision", precision, "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    answer = json.loads(process.stdout.read())
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise RuntimeError(f"{command[0]} ended with {status}")
    return answer["prompt_ms"], answer["decode_ms"] / (answer["tokens"] - 1), usage.ru_maxrss / 1024


def run_llama(given, path, threads, depth):
    command = [sys.executable, __file__, "--llama", str(path), str(threads), str(depth), str(SHAPES[given.shape][-1])]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def llama(path, threads, depth, words):
    import llama_cpp
    model = llama_cpp.Llama(path, n_ctx=depth + NEW + 8, n_batch=512, n_threads=threads, n_threads_batch=threads, verbose=False)
    begin = time.perf_counter()
    model.eval(prompt(depth, words))
    middle = time.perf_counter()
    for token in prompt(NEW, words):
        model.eval([token])
    end = time.perf_counter()
    print(json.dumps([(middle - begin) * 1e3, (end - middle) * 1e3 / NEW, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))


def measure(given, path, kind, threads):
    systems = {"Hologram": lambda depth: run_hologram(given, path, threads, depth, "f32")}
    if kind.startswith("Q"):
        systems["Hologram, i8"] = lambda depth: run_hologram(given, path, threads, depth, "i8")
    if importlib.util.find_spec("llama_cpp"):
        systems["llama.cpp"] = lambda depth: run_llama(given, path, threads, depth)
    best = {name: {} for name in systems}
    for _ in range(given.turns):
        for depth in sorted({PROMPT, *given.depths}):
            for name, run in systems.items():
                now = run(max(1, depth))
                before = best[name].get(depth, now)
                best[name][depth] = [min(a, b) for a, b in zip(before, now)]
    for name, of in best.items():
        speeds = [round(1e3 / of[depth][1], 1) for depth in given.depths]
        yield [given.shape, kind, name, threads, round(PROMPT * 1e3 / of[PROMPT][0], 1), *speeds,
               round(max(of[depth][2] for depth in of)), round(path.stat().st_size / 2**20)]


def main():
    if sys.argv[1:2] == ["--llama"]:
        return llama(sys.argv[2], *map(int, sys.argv[3:]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--hg-bin", type=pathlib.Path, default=ROOT / "build" / "bin")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--types", nargs="+", choices=TYPES, default=["F32", "Q8_0", "Q4_0"])
    parser.add_argument("--threads", nargs="+", type=int, default=sorted({1, len(os.sched_getaffinity(0))}))
    parser.add_argument("--depths", nargs="+", type=int, default=[0, 1024, 4096])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--machine", default=f"{len(os.sched_getaffinity(0))} cores")
    parser.add_argument("--emit", type=pathlib.Path, metavar="FILE", help="write docs/measurements/llm.json")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    rows = []
    for given.shape in given.shapes:
        for kind in given.types:
            path = given.work / f"{given.shape}-{kind}.gguf"
            if not path.exists():
                make(path, given.shape, TYPES[kind])
            if not path.with_suffix(".hgm").exists():
                subprocess.run([given.hg_bin / "hg-convert", path, "-o", path.with_suffix(".hgm")], check=True, capture_output=True)
            for threads in given.threads:
                for row in measure(given, path, kind, threads):
                    rows.append(row)
                    print(*(str(cell).rjust(10) for cell in row), flush=True)
    measurements.emit({
        "title": "Language models", "date": str(datetime.date.today()), "machine": given.machine,
        "what": f"tokens per second of a prompt of {PROMPT} and of decoding at each depth, fastest of {given.turns} turns; random weights",
        "command": "bench/llm.py WORK",
        "columns": ["shape", "weights", "system", "threads", f"prompt {PROMPT}", *(f"decode {d}" for d in given.depths), "peak MiB",
                    "file MiB"],
        "rows": rows}, given.emit)


if __name__ == "__main__":
    main()
