#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a call from Python costs beside its arithmetic: relu(a + b) * a of 8 numbers, a graph of three nodes; and, in torch's autograd,
a forward and a backward pass of 128 numbers.

  PYTHONPATH=build/python bench/python_calls.py [--json]

Microseconds, the least of many short rounds, all rows in turn.
"""
import argparse
import json
import timeit

import numpy as np

import hologram as hg


def model():
    g = hg.Graph()
    a, b = g.input("a", ("n",)), g.input("b", ("n",))
    g.output("y", hg.ops.relu(a + b) * a)
    return g.model()


def rows():
    m, kernel = model(), hg.kernel("k", "max(a + b, 0.0) * a")
    session = m.session(threads=1)
    a = np.ones(8, np.float32)
    out = np.empty_like(a)
    yield "model(a, b), numpy", lambda: m(a, a)
    yield "session(a, b), numpy", lambda: session(a, a)
    yield "model(a, b, out=y), numpy", lambda: m(a, a, out=out)
    yield "model(a=a, b=b), numpy", lambda: m(a=a, b=a)
    yield "kernel(a, b), numpy", lambda: kernel(a, a)
    yield "hg.ops.add(a, b), numpy", lambda: hg.ops.add(a, a)
    yield "numpy's own three calls", lambda: np.maximum(a + a, 0) * a
    try:
        import torch
    except ImportError:
        return
    x, y = torch.ones(8), torch.empty(8)
    yield "model(a, b), torch", lambda: m(x, x)
    yield "model(a, b, out=y), torch", lambda: m(x, x, out=y)
    yield "kernel(a, b), torch", lambda: kernel(x, x)
    yield "hg.ops.add(a, b), torch", lambda: hg.ops.add(x, x)
    yield "torch's own three calls", lambda: torch.relu(x + x) * x
    yield from passes(torch)


def passes(torch):
    x, y = (torch.randn(128, requires_grad=True) for _ in "xy")
    rows, polynomial = torch.randn(8, 16, requires_grad=True), hg.kernel("polynomial", "a*x*x + b*x + c")
    ours, theirs = hg.nn.Linear(16, 32), torch.nn.Linear(16, 32)
    yield "both ways, hg.ops.mul", lambda: hg.ops.mul(x, y).sum().backward()
    yield "both ways, torch.mul", lambda: torch.mul(x, y).sum().backward()
    yield "both ways, hg.nn.Linear", lambda: ours(rows).sum().backward()
    yield "both ways, torch.nn.Linear", lambda: theirs(rows).sum().backward()
    yield "both ways, a kernel", lambda: polynomial(2.0, x, 8.0, -1.0).sum().backward()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    calls = list(rows())
    least = [float("inf")] * len(calls)
    for _ in range(600):
        for i, (_, call) in enumerate(calls):
            least[i] = min(least[i], timeit.timeit(call, number=25) / 25 * 1e6)
    table = [[name, round(value, 2)] for (name, _), value in zip(calls, least)]
    if options.json:
        print(json.dumps(table))
        return
    for name, value in table:
        print(f"{name:28} {value:6.2f}")


if __name__ == "__main__":
    main()
