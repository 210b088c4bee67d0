#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random models of one ONNX op each, converted, run, and compared with onnx's reference evaluator.

usage: onnx_models BIN WORK [--count N] [--seed S]
Exits with 77 if Python has no onnx. A failing case prints the seed that repeats it alone.
"""
import argparse, pathlib, shutil, sys

try:
    import numpy as np
    import onnx
    from onnx.reference import ReferenceEvaluator
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from case import batch, differs  # noqa: E402
import loading  # noqa: E402
import models  # noqa: E402
from nodes import MAKERS  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    shutil.rmtree(given.work, ignore_errors=True)
    cases, jobs = [], []
    for seed in range(given.seed, given.seed + given.count):
        rng = np.random.default_rng(seed)
        case = MAKERS[seed % len(MAKERS)](rng)
        folder = given.work / str(seed)
        folder.mkdir(parents=True)
        model = case.model()
        try:
            with np.errstate(all="ignore"):
                feeds = {f"x{i}": x for i, x in enumerate(case.inputs)}
                want = ReferenceEvaluator(model).run(None, feeds) if case.answer is None else [case.answer]
        except Exception:  # the specification does not allow it
            continue
        onnx.save(model, folder / "model.onnx")
        for i, x in enumerate(case.inputs):
            np.save(folder / f"x{i}.npy", x)
        cases.append((seed, case, want))
        jobs.append({"model": str(folder / "model.onnx"), "output_dir": str(folder), "check": False})
    converted = batch(given.bin / "hg-convert", jobs, given.work)
    bad, refused = sum(check(given) for check in models.CHECKS + loading.CHECKS), 0
    kept, runs = [], []
    for (seed, case, want), answer in zip(cases, converted):
        if answer["status"] == "ok":
            folder = given.work / str(seed)
            kept.append((seed, case, want))
            runs.append({"model": str(folder / "model.hgm"), "output_dir": str(folder),
                         "inputs": [f"x{i}={folder}/x{i}.npy" for i in range(len(case.inputs))]})
        elif answer["status"] == "unsupported":
            refused += 1
            print(f"refused: {case.op}: {answer['message'][:200]}")
        else:
            bad += 1
            print(f"--seed {seed} --count 1: {case.op} {case.attributes}: {answer['message'][:200]}")
    for (seed, case, want), answer in zip(kept, batch(given.bin / "hg-run", runs, given.work)):
        why = "" if answer.get("status", "ok") == "ok" else answer["message"]
        for i, expected in enumerate(want):
            why = why or differs(case, np.load(given.work / str(seed) / f"y{i}.npy"), expected)
        if why:
            bad += 1
            print(f"--seed {seed} --count 1: {case.op} {case.attributes} of {[x.shape for x in case.inputs]}: {why}")
    print(f"{len(kept) - bad} of {len(cases)} as the reference evaluator, {refused} refused, {bad} wrong")
    sys.exit(1 if bad or refused > len(cases) // 20 else 0)


main()
