#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests per second and p99 latency for 1, 8 and 32 clients that each wait for their answer: hg::Pool against one ONNX Runtime
session, whose clients are Python threads (its run() releases the GIL).

  PYTHONPATH=build/python build/venv/bin/python bench/pool.py [--bench build/bin/pool_bench] [--seconds 5] [--rounds 3] [--json FILE]

Both have the same processors. ONNX Runtime computes each request with one thread or with one per processor, whichever serves more
requests; hg::Pool has one session per processor. The contenders take turns; the median round by throughput is shown. Needs torch (to
make the models), onnx and onnxruntime.
"""
import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
from engines import JOBS, prepare

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "scripts"))
import measurements

CLIENTS = (1, 8, 32)
CORES = len(os.sched_getaffinity(0))


def hologram(bench, stem, clients, seconds):
    words = [bench, stem + ".hgm", str(clients), str(seconds), str(CORES)]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def onnx_runtime(stem, shape, clients, seconds, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(stem + ".onnx", options, providers=["CPUExecutionProvider"])
    row = {"x": np.random.default_rng(1).uniform(-1, 1, (1, *shape)).astype(np.float32)}
    times = []

    def client(end):
        mine, begin = [], time.perf_counter()
        while begin < end:
            session.run(None, row)
            now = time.perf_counter()
            mine.append(now - begin)
            begin = now
        times.extend(mine)

    for length in (seconds / 4, seconds):
        times.clear()
        end = time.perf_counter() + length
        workers = [threading.Thread(target=client, args=(end,)) for _ in range(clients)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    return {"per_second": len(times) / seconds, "p99_ms": 1e3 * float(np.quantile(times, 0.99))}


def median(results):
    return sorted(results, key=lambda result: result["per_second"])[len(results) // 2]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bench", default="build/bin/pool_bench")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--loaded", action="store_true", help="other programs are running; recorded in the result")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, _, shape in JOBS:
            prepare(folder, name, shape)
            stem = os.path.join(folder, name)
            for clients in CLIENTS:
                ours, one, all_cores = [], [], []
                for _ in range(args.rounds):
                    ours.append(hologram(args.bench, stem, clients, args.seconds))
                    one.append(onnx_runtime(stem, shape, clients, args.seconds, 1))
                    all_cores.append(onnx_runtime(stem, shape, clients, args.seconds, CORES))
                pool = median(ours)
                peer = max(median(one), median(all_cores), key=lambda result: result["per_second"])
                rows.append([name, clients, round(pool["per_second"]), round(pool["p99_ms"], 2), round(pool["batch_rows"], 1),
                             round(peer["per_second"]), round(peer["p99_ms"], 2), round(pool["per_second"] / peer["per_second"], 2)])
                print(*rows[-1], file=sys.stderr)
    import onnxruntime

    measurements.emit({
        "title": "Serving in a process",
        "date": datetime.date.today().isoformat(),
        "machine": f"{CORES} virtual processors of an AMD EPYC (AVX-512)" + (", loaded by other builds" if args.loaded else ""),
        "what": "requests of one row a second and the 99th percentile of their times in ms, clients that wait for their answers; "
                "batch: rows that hg::Pool ran together",
        "peers": f"ONNX Runtime {onnxruntime.__version__}, one session, with one thread or all for a request",
        "command": "bench/pool.py",
        "columns": ["model", "clients", "Hologram", "p99", "batch", "ONNX Runtime", "p99 ", "ratio"],
        "rows": rows}, args.json)


if __name__ == "__main__":
    main()
