# SPDX-License-Identifier: Apache-2.0
"""Runs seeded samples of external suites through the tools, and prints how many cases passed.

    python3 tests/suites/run.py --shared ../shared --hg-bin build/bin --work build/suites

- conformance: opinfo.py writes cases of every operator of PyTorch's own tests; --seed chooses --cases of them to compare.
- zoo: one small torchvision model, if a Python with torchvision is found.
- peers: the micro models, converted and compared with PyTorch.

Needs a Python with torch 2.13, numpy, expecttest and hypothesis; without it nothing runs, and the output says so. Fails if a case
is wrong or a tool dies; a refusal by name is only counted.
"""
from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

MICRO = ["relu_10k", "add_10k", "softmax_64x1000", "linear_256_128", "conv3x3_64", "mlp", "lstm_2x128"]
ZOO_MODEL = "/(resnet18|squeezenet1_1|mobilenet_v2)$"


def has(python: str, test: str) -> bool:
    try:
        return subprocess.run([python, "-c", test], capture_output=True).returncode == 0
    except OSError:
        return False


def python_with(candidates: list[str], test: str) -> str | None:
    return next((python for python in candidates if has(python, test)), None)


def make(command: list[str], done: Path) -> bool:
    """Runs a generator once, and keeps its folder for the next call."""
    if done.exists():
        return True
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode:
        print(f"  the generator failed: {(made.stderr.strip().splitlines() or ['no word'])[-1]}")
        return False
    done.parent.mkdir(parents=True, exist_ok=True)
    done.touch()
    return True


def compare(shared: Path, python: str, cases: Path, hg_bin: Path, result: Path) -> Counter[str]:
    subprocess.run([python, str(shared / "conformance" / "compare.py"), str(cases), "--hg-bin", str(hg_bin),
                    "--batch", "--jobs", str(os.cpu_count() or 1), "--json", str(result)], check=False)
    if not result.exists():
        return Counter(crash=1)
    answers = json.loads(result.read_text())
    rows = answers["results"] if isinstance(answers, dict) else answers
    return Counter(row["status"] for row in rows)


def draw(cases: Path, drawn: Path, count: int, seed: int) -> int:
    """Links to `count` cases, in a new folder."""
    shutil.rmtree(drawn, ignore_errors=True)
    folders = sorted(path.parent for path in cases.rglob("case.json"))
    chosen = random.Random(seed).sample(folders, min(count, len(folders)))
    for folder in chosen:
        shutil.copytree(folder, drawn / folder.relative_to(cases))
    return len(chosen)


def conformance(options: argparse.Namespace, python: str) -> Counter[str]:
    cases = options.work / "opinfo"
    if not make([python, str(options.shared / "conformance" / "opinfo.py"), str(cases), "--max-samples", "2"],
                options.work / "opinfo.made"):
        return Counter()
    draw(cases, options.work / "drawn", options.cases, options.seed)
    return compare(options.shared, python, options.work / "drawn", options.hg_bin, options.work / "opinfo.json")


def zoo(options: argparse.Namespace, python: str) -> Counter[str]:
    vision = python_with(["/usr/bin/python3", python], "import torch, torchvision")
    if not vision:
        print("  no Python with torchvision: left out")
        return Counter()
    cases = options.work / "zoo"
    if not make([vision, str(options.shared / "zoo" / "torchvision_zoo.py"), str(cases), "--model", ZOO_MODEL],
                options.work / "zoo.made"):
        return Counter()
    return compare(options.shared, python, cases, options.hg_bin, options.work / "zoo.json")


def peers(options: argparse.Namespace, python: str) -> Counter[str]:
    cases = options.work / "peers"
    scripts = options.shared / "peers"
    if not make([python, str(scripts / "make_models.py"), str(cases), "--family", "micro", "--only", *MICRO],
                options.work / "peers.made"):
        return Counter()
    for old in cases.glob("*/peers/*"):
        if old.name in ("model.hgm", "hologram.failed"):
            old.unlink()
    result = options.work / "peers.json"
    result.unlink(missing_ok=True)
    subprocess.run([python, str(scripts / "bench.py"), "--cases", str(cases), "--hg-bin", str(options.hg_bin),
                    "--systems", "hologram", "--threads", "1", "--rounds", "1", "--seconds", "0.1",
                    "--out", str(result)], check=False)
    if not result.exists():
        return Counter(crash=1)
    answers = [entry["systems"]["hologram"] for entry in json.loads(result.read_text())["results"].values()]
    return Counter("unsupported" if "failed" in a else "passed" if a["right"] else "wrong" for a in answers)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shared", type=Path, required=True, help="the folder of the suites")
    parser.add_argument("--hg-bin", type=Path, required=True, help="the folder of the tools")
    parser.add_argument("--work", type=Path, required=True, help="where cases and results are kept")
    parser.add_argument("--cases", type=int, default=600, help="conformance cases to draw")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--suites", nargs="*", default=["conformance", "zoo", "peers"])
    options = parser.parse_args()
    for name in ("shared", "hg_bin", "work"):
        setattr(options, name, getattr(options, name).resolve())
    options.work.mkdir(parents=True, exist_ok=True)

    python = python_with([sys.executable, "python3"],
                         "import torch, numpy, expecttest, hypothesis; assert torch.__version__.startswith('2.13')")
    if not python:
        print("no Python with torch 2.13, numpy, expecttest and hypothesis: the suites are left out")
        return 0
    suites = {"conformance": conformance, "zoo": zoo, "peers": peers}
    bad = 0
    for name in options.suites:
        print(f"-- {name}", flush=True)
        counts = suites[name](options, python)
        shown = ", ".join(f"{count} {status}" for status, count in counts.most_common())
        print(f"{name}: {counts['passed']} of {sum(counts.values())} cases passed ({shown})", flush=True)
        bad += counts["wrong"] + counts["crash"]
    if bad:
        print(f"{bad} cases were answered wrongly or not at all")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
