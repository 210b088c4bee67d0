#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the kernels that a session chooses with those that SessionOptions::autotune chooses.

  bench/choices.py build/bin MODEL.hgm... [--threads 1 2] [--rounds 3] [--repeat 30] [--json FILE] [--machine TEXT]

In each round hg-bench profiles the usual plan and then a plan that it tunes anew. The time of a node with a kernel is the shortest of all
rounds, so busy neighbors matter little. The best plan has the faster of both kernels at each node. `above best` is how much longer the
nodes of the usual plan take than those of the best plan, in %. --nodes also prints each node whose usual kernel is the slower one.
"""
import argparse
import collections
import datetime
import json
import pathlib
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "scripts"))
import measurements  # noqa: E402


def profile(tools, model, threads, given, *options):
    """The kernel and ms of each node."""
    command = [tools / "hg-bench", model, "--threads", str(threads), "--repeat", str(given.repeat), "--profile", "--json", *options]
    for size in given.dim:
        command += ["--dim", size]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr.strip())
    return {row["node"]: (row["op"], row["kernel"], row["ms"]) for row in json.loads(done.stdout)["profile"]}


def compare(tools, model, threads, given):
    times = collections.defaultdict(dict)  # by node and kernel
    for _ in range(given.rounds):
        usual, tuned = profile(tools, model, threads, given), profile(tools, model, threads, given, "--autotune")
        if usual.keys() != tuned.keys():
            sys.exit(f"{model}: both plans must have the same nodes")
        for plan in (usual, tuned):
            for node, (_, kernel, ms) in plan.items():
                times[node][kernel] = min(ms, times[node].get(kernel, ms))
    others = sum(len(found) > 1 for found in times.values())
    ours, best = (sum(take(node) for node in times) for take in (lambda n: times[n][usual[n][1]], lambda n: min(times[n].values())))
    for node, (op, kernel, _) in usual.items():
        faster = min(times[node], key=times[node].get)
        if given.nodes and faster != kernel:
            print(model.stem, threads, node, op, kernel, times[node][kernel], faster, times[node][faster], file=sys.stderr)
    return [model.stem, threads, len(times), others, *(float(f"{ms:.4g}") for ms in (ours, best)), round(100 * (ours / best - 1), 1)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("models", type=pathlib.Path, nargs="+")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=30)
    parser.add_argument("--dim", action="append", default=[], help="n=1: the size of a symbol")
    parser.add_argument("--nodes", action="store_true")
    parser.add_argument("--json", type=pathlib.Path, help="write a file for docs/measurements")
    parser.add_argument("--machine", default="a machine that is not named", help="description of the machine for the file")
    given = parser.parse_args()
    rows = []
    for model in given.models:
        for threads in given.threads:
            rows.append(compare(given.bin.resolve(), model, threads, given))
            print(*rows[-1], file=sys.stderr)
    data = {
        "title": "Kernels chosen without and with autotune",
        "date": datetime.date.today().isoformat(),
        "machine": given.machine,
        "what": f"sum of the ms of all nodes, each the least of {given.rounds} turns of {given.repeat} runs; "
        "the best plan has the faster kernel at each node where autotune chose another one",
        "command": "bench/choices.py build/bin MODEL.hgm...",
        "columns": ["model", "threads", "nodes", "chosen otherwise", "usual plan", "best plan", "above best, %"],
        "rows": rows,
    }
    measurements.emit(data, given.json)


if __name__ == "__main__":
    main()
