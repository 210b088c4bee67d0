#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times language models with random weights beside llama.cpp, ONNX Runtime GenAI, OpenVINO GenAI and PyTorch, in turn.

  bench/llm.py WORK --hg-bin build/bin [--shapes 135M 0.5B] [--types F32 F16 Q8_0 Q4_0] [--threads 1 2] [--depths 0 1024 4096] [--emit FILE]

Makes a GGUF file, which hg-convert converts, and a folder of Hugging Face with the same sizes in the folder WORK. Peers need
`pip install llama-cpp-python onnxruntime-genai openvino-genai optimum-intel torch transformers`; --python SYSTEM=PROGRAM, such as
`--python llama.cpp=other/bin/python`, chooses the Python of one. A missing peer is left out. Each measurement is a process of its own.
Tokens per second are those of the fastest turn: for a prompt of 512, and for decoding after a prompt of each depth. `first` is the time
from a file that is not in memory to the first token after a prompt of 16, for Hologram with the start of its process, for the others
without their imports. MiB is the largest resident memory of the process. `i8` is Hologram with --precision i8. Weights: Q4_0 is 4 bits
in groups of 32 elsewhere, Q8_0 8 bits; ONNX Runtime and OpenVINO also round the other operand to 8 bits, as `i8` and llama.cpp do.
"""
import argparse
import datetime
import json
import os
import pathlib
import resource
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests" / "converter" / "gguf")]
import llm_systems  # noqa: E402
import measurements  # noqa: E402

PROMPT, NEW, SHORT = 512, 32, 16


def evict(path):
    """Drops a file, or the files of a folder, from the page cache."""
    for file in [path] if path.is_file() else filter(pathlib.Path.is_file, path.rglob("*")):
        handle = os.open(file, os.O_RDONLY)
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


def run_hologram(given, path, threads, depth, new, precision):
    ids = ",".join(map(str, llm_systems.prompt(depth, given.shape)))
    command = [str(given.hg_bin / "hg-generate"), str(path), "--ids", ids, "--max-tokens", str(new + 1), "--threads", str(threads),
               "--precision", precision, "--json"]
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    answer = json.loads(process.stdout.read())
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise RuntimeError(f"{command[0]} ended with {status}")
    whole = (time.perf_counter() - begin) * 1e3
    return [whole, answer["prompt_ms"], answer["decode_ms"] / max(1, answer["tokens"] - 1), usage.ru_maxrss / 1024]


def run_peer(python, name, path, threads, shape, depth, new):
    command = [python, __file__, "--child", name, str(path), str(threads), shape, str(depth), str(new)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(answer.stdout.splitlines()[-1])


def child(name, path, threads, shape, depth, new):
    times = llm_systems.PEERS[name].run(pathlib.Path(path), int(threads), llm_systems.prompt(int(depth), shape), int(new))
    print(json.dumps([*times, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))


def pythons(given):
    """The Python of each peer that is installed."""
    chosen = dict(text.split("=", 1) for text in given.python)
    for name, peer in llm_systems.PEERS.items():
        python = chosen.get(name, sys.executable)
        probe = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({peer.module!r}) is None)"
        if subprocess.run([python, "-c", probe], check=False).returncode == 0:
            yield name, python


def systems(given, kind):
    """The path of each system's model, and what runs it: (threads, depth, new tokens) -> times and MiB."""
    gguf = llm_systems.gguf(given.work, given.shape, kind)
    path = gguf.with_suffix(".hgm")
    if not path.exists():
        subprocess.run([given.hg_bin / "hg-convert", gguf, "-o", path], check=True, capture_output=True)
    for precision in ["f32", "i8"] if kind.startswith("Q") else ["f32"]:
        yield ("Hologram" if precision == "f32" else "Hologram, i8", path,
               lambda threads, depth, new, precision=precision: run_hologram(given, path, threads, depth, new, precision))
    for name, python in given.pythons:
        if kind in llm_systems.PEERS[name].fit:
            made = subprocess.run([python, __file__, "--prepare", name, given.work, given.shape, kind], check=True,
                                  capture_output=True, text=True).stdout.splitlines()[-1]
            yield (name, pathlib.Path(made), lambda threads, depth, new, name=name, python=python, made=made:
                   run_peer(python, name, made, threads, given.shape, depth, new))


def measure(given, kind):
    chosen = list(systems(given, kind))
    for threads in given.threads:
        best = {name: {} for name, *_ in chosen}
        for _ in range(given.turns):
            for name, path, run in list(chosen):
                evict(path)
                try:
                    runs = {"first": run(threads, SHORT, 0)}
                    for depth in sorted({PROMPT, *given.depths}):
                        runs[depth] = run(threads, max(1, depth), NEW)
                except subprocess.CalledProcessError as error:  # a peer that crashes has no row
                    print(f"{name}, {kind}: {error}", file=sys.stderr)
                    chosen = [each for each in chosen if each[0] != name]
                    continue
                for key, now in runs.items():
                    best[name][key] = [min(a, b) for a, b in zip(best[name].get(key, now), now)]
        for name, path, _ in chosen:
            of = best[name]
            size = path.stat().st_size if path.is_file() else sum(file.stat().st_size for file in path.rglob("*"))
            yield [given.shape, kind, name, threads, round(PROMPT * 1e3 / of[PROMPT][1], 1),
                   *(round(1e3 / of[depth][2], 1) for depth in given.depths), round(of["first"][0]),
                   round(max(times[3] for times in of.values())), round(size / 2**20)]


def main():
    if sys.argv[1:2] == ["--child"]:
        return child(*sys.argv[2:])
    if sys.argv[1:2] == ["--prepare"]:
        return print(llm_systems.PEERS[sys.argv[2]].prepare(pathlib.Path(sys.argv[3]), *sys.argv[4:]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--hg-bin", type=pathlib.Path, default=ROOT / "build" / "bin")
    parser.add_argument("--shapes", nargs="+", choices=llm_systems.SHAPES, default=list(llm_systems.SHAPES))
    parser.add_argument("--types", nargs="+", choices=llm_systems.TYPES, default=["F32", "F16", "Q8_0", "Q4_0"])
    parser.add_argument("--threads", nargs="+", type=int, default=sorted({1, len(os.sched_getaffinity(0))}))
    parser.add_argument("--depths", nargs="+", type=int, default=[0, 1024, 4096])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--python", action="append", default=[], metavar="SYSTEM=PROGRAM")
    parser.add_argument("--machine", default=f"{len(os.sched_getaffinity(0))} cores")
    parser.add_argument("--emit", type=pathlib.Path, metavar="FILE", help="write docs/measurements/llm.json")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    given.work = given.work.resolve()
    given.pythons = list(pythons(given))
    rows = []
    for given.shape in given.shapes:
        for kind in given.types:
            for row in measure(given, kind):
                rows.append(row)
                print(*(str(cell).rjust(10) for cell in row), flush=True)
    lists = [f"--{name} {' '.join(map(str, getattr(given, name)))}" for name in ("shapes", "types", "threads", "depths")]
    measurements.emit({
        "title": "Language models", "date": str(datetime.date.today()), "machine": given.machine,
        "what": f"tokens per second of a prompt of {PROMPT} and of decoding at each depth, and ms to the first token of a cold file, "
                f"best of {given.turns} turns; random weights",
        "command": " ".join(["bench/llm.py WORK", *lists, f"--turns {given.turns}"]),
        "columns": ["shape", "weights", "system", "threads", f"prompt {PROMPT}", *(f"decode {d}" for d in given.depths), "first, ms",
                    "peak MiB", "file MiB"],
        "rows": rows}, given.emit)


if __name__ == "__main__":
    main()
