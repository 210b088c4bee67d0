#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random models of one op each (default domain, ONNX Runtime's own, ai.onnx.ml) or of many nodes, compared with ONNX Runtime.

usage: onnx_runtime BIN WORK [--count N] [--seed S] [--only REGEX] [--symbolic] [--graphs]
Exits with 77 if Python has no onnxruntime. A failing case prints the seed that repeats it alone.
"""
import argparse, json, pathlib, re, shutil, sys

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx.reference import ReferenceEvaluator
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1])]
import attention, contrib, exact, graphs, layers, ml, newest, pairs, quantized, standard, weights
from batch import batch

MAKERS = contrib.MAKERS + attention.MAKERS + quantized.MAKERS + ml.MAKERS + standard.MAKERS + layers.MAKERS + newest.MAKERS + pairs.MAKERS + exact.MAKERS + weights.MAKERS


def answers_of(model, feeds, evaluator):
    if evaluator:
        with np.errstate(all="ignore"):
            return ReferenceEvaluator(model).run(None, feeds)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def differs(case, i, got, want):
    want = np.asarray(want)
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"y{i} is {got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if case.answer is not None:
        return "" if got.tobytes() == want.tobytes() else f"y{i} has other bits"
    if case.rows is not None:
        got, want = case.rows(i, got), case.rows(i, want)
    got, want = got.astype(np.float64), want.astype(np.float64)
    if case.quanta and want.dtype != np.float32:
        return f"y{i} differs by {np.abs(got - want).max()}" if want.size and np.abs(got - want).max() > max(case.quanta, 1e-3 * np.abs(want).max()) else ""
    if np.allclose(got, want, case.tolerance, case.tolerance, equal_nan=True):
        return ""
    return f"y{i} differs by {np.nanmax(np.abs(got - want)):.3g} of {np.nanmax(np.abs(want)):.3g}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=240)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--symbolic", action="store_true", help="all sizes of the inputs stay open")
    parser.add_argument("--graphs", action="store_true", help="models of many nodes, with control flow and functions")
    given = parser.parse_args()
    shutil.rmtree(given.work, ignore_errors=True)
    if given.graphs:
        sys.exit(graphs.compare(given))
    makers = [m for m in MAKERS if re.search(given.only, f"{m.__module__}.{m.__name__}")]
    cases, jobs, unknown = [], [], {}
    for seed in range(given.seed, given.seed + given.count):
        case = makers[seed % len(makers)](np.random.default_rng(seed))
        case.symbolic = given.symbolic
        model = case.model()
        try:
            want = answers_of(model, case.feeds(), case.evaluator) if case.answer is None else [case.answer]
        except Exception as why:  # ONNX Runtime rejects it
            unknown.setdefault(case.op, str(why).splitlines()[0][:200])
            continue
        folder = given.work / str(seed)
        folder.mkdir(parents=True)
        onnx.save(model, folder / "model.onnx")
        for name, x in case.feeds().items():
            np.save(folder / f"{name}.npy", x)
        cases.append((seed, case, want))
        jobs.append({"model": str(folder / "model.onnx"), "output_dir": str(folder), "check": False})
    if unknown:
        print("ONNX Runtime refuses some of:", json.dumps(unknown, indent=1))
    bad = refused = 0
    kept, runs = [], []
    for (seed, case, want), answer in zip(cases, batch(given.bin / "hg-convert", jobs, given.work)):
        folder = given.work / str(seed)
        if answer["status"] == "ok":
            kept.append((seed, case, want))
            runs.append({"model": str(folder / "model.hgm"), "output_dir": str(folder),
                         "inputs": [f"{name}={folder}/{name}.npy" for name in case.feeds()]})
        elif answer["status"] == "unsupported":
            refused += 1
            print(f"refused: --seed {seed}: {case.op}: {answer['message'][:300]}; {case.attributes}"[:600])
        else:
            bad += 1
            print(f"--seed {seed} --count 1: {case.op}: {answer['message'][:300]}; {case.attributes}"[:600])
    for (seed, case, want), answer in zip(kept, batch(given.bin / "hg-run", runs, given.work)):
        why = "" if answer.get("status", "ok") == "ok" else answer["message"]
        for i, expected in zip(range(case.outputs) if case.keep is None else case.keep, want):
            why = why or differs(case, i, np.load(given.work / str(seed) / f"y{i}.npy"), expected)
        if why:
            bad += 1
            shapes = [None if x is None else x[0].shape for x in case.inputs]
            print(f"--seed {seed} --count 1: {case.op} of {shapes}: {why}; {case.attributes}"[:600])
    print(f"{len(cases) - bad - refused} of {len(cases)} as ONNX Runtime, {refused} refused, {bad} wrong")
    sys.exit(1 if bad or refused > len(cases) // 20 else 0)


main()
