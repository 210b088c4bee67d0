#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls from Python beside torch's own: relu(a + b) * a of 8 numbers, a graph of three nodes; ops of 10,000 numbers, and linear layers
from 256 to 128, without autograd; and a forward and a backward pass of 128 numbers in torch's autograd.

  PYTHONPATH=build/python bench/python_calls.py [--threads N] [--json FILE] [--machine WORDS]

The result is in microseconds, the shortest of many short rounds that take turns.
"""
import argparse
import datetime
import pathlib
import sys
import timeit

import numpy as np

import hologram as hg

COLUMNS = ("numpy", "torch", "PyTorch's own")


def model():
    g = hg.Graph()
    a, b = g.input("a", ("n",)), g.input("b", ("n",))
    g.output("y", hg.ops.relu(a + b) * a)
    return g.model()


def calls(threads):
    """The row's name, the column, and the call to time."""
    m, kernel = model(), hg.kernel("k", "max(a + b, 0.0) * a")
    session = m.session(threads=threads)
    a = np.ones(8, np.float32)
    out = np.empty_like(a)
    yield "model(a, b)", "numpy", lambda: m(a, a)
    yield "session(a, b)", "numpy", lambda: session(a, a)
    yield "model(a, b, out=y)", "numpy", lambda: m(a, a, out=out)
    yield "model(a=a, b=b)", "numpy", lambda: m(a=a, b=a)
    yield "kernel(a, b)", "numpy", lambda: kernel(a, a)
    yield "hg.ops.add(a, b)", "numpy", lambda: hg.ops.add(a, a)
    yield "three calls of numpy or torch", "numpy", lambda: np.maximum(a + a, 0) * a
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(threads)
    x, y = torch.ones(8), torch.empty(8)
    yield "model(a, b)", "torch", lambda: m(x, x)
    yield "session(a, b)", "torch", lambda: session(x, x)
    yield "model(a, b, out=y)", "torch", lambda: m(x, x, out=y)
    yield "model(a=a, b=b)", "torch", lambda: m(a=x, b=x)
    yield "kernel(a, b)", "torch", lambda: kernel(x, x)
    yield "hg.ops.add(a, b)", "torch", lambda: hg.ops.add(x, x)
    yield "three calls of numpy or torch", "PyTorch's own", lambda: torch.relu(x + x) * x
    yield from single_ops(torch, threads)
    yield from passes(torch)


def single_ops(torch, threads):
    """Ops and layers of tensors that need no gradient."""
    F = torch.nn.functional
    layer = torch.nn.Linear(256, 128).requires_grad_(False)
    ours = hg.nn.Linear(256, 128).requires_grad_(False)
    x, y, one, rows = torch.randn(10_000), torch.randn(10_000), torch.randn(1, 256), torch.randn(32, 256)
    g = hg.Graph()
    g.output("y", hg.ops.linear(g.input("x", ("n", 256)), g.parameter("w", layer.weight.numpy()), g.parameter("b", layer.bias.numpy())))
    session = g.model().session(threads=threads)
    tensors = (x, y, layer.weight.detach(), layer.bias.detach(), one, rows)
    for column, (x, y, w, c, one, rows) in (("numpy", [each.numpy() for each in tensors]), ("torch", tensors)):
        yield "hg.ops.add(x, y) of 10,000 numbers", column, lambda x=x, y=y: hg.ops.add(x, y)
        yield "hg.ops.relu(x) of 10,000 numbers", column, lambda x=x: hg.ops.relu(x)
        for name, z in (("1 row", one), ("32 rows", rows)):
            yield f"hg.ops.linear(x, w, b) of {name}", column, lambda z=z, w=w, c=c: hg.ops.linear(z, w, c)
            yield f"session of a linear layer, {name}", column, lambda z=z: session(z)
            if column == "torch":
                yield f"hg.nn.Linear(256, 128), {name}", column, lambda z=z: ours(z)
    theirs = "PyTorch's own"
    yield "hg.ops.add(x, y) of 10,000 numbers", theirs, lambda: torch.add(x, y)
    yield "hg.ops.relu(x) of 10,000 numbers", theirs, lambda: torch.relu(x)
    for name, z in (("1 row", one), ("32 rows", rows)):
        yield f"hg.ops.linear(x, w, b) of {name}", theirs, lambda z=z: F.linear(z, w, c)
        for ours_name in (f"session of a linear layer, {name}", f"hg.nn.Linear(256, 128), {name}"):
            yield ours_name, theirs, lambda z=z: layer(z)


def passes(torch):
    x, y = (torch.randn(128, requires_grad=True) for _ in "xy")
    rows, polynomial = torch.randn(8, 16, requires_grad=True), hg.kernel("polynomial", "a*x*x + b*x + c")
    ours, theirs = hg.nn.Linear(16, 32), torch.nn.Linear(16, 32)
    yield "forward and backward of mul", "torch", lambda: hg.ops.mul(x, y).sum().backward()
    yield "forward and backward of mul", "PyTorch's own", lambda: torch.mul(x, y).sum().backward()
    yield "forward and backward of Linear(16, 32)", "torch", lambda: ours(rows).sum().backward()
    yield "forward and backward of Linear(16, 32)", "PyTorch's own", lambda: theirs(rows).sum().backward()
    yield "forward and backward of a kernel", "torch", lambda: polynomial(2.0, x, 8.0, -1.0).sum().backward()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="of each library")
    parser.add_argument("--json", type=pathlib.Path, help="write a file for docs/measurements")
    parser.add_argument("--machine", default="a machine that is not named", help="description of the machine for the file")
    options = parser.parse_args()
    found = list(calls(options.threads))
    least = [float("inf")] * len(found)
    with hg.Executor("cpu", threads=options.threads):
        for _ in range(600):
            for i, (_, _, call) in enumerate(found):
                least[i] = min(least[i], timeit.timeit(call, number=25) / 25 * 1e6)
    table = {}
    for (name, column, _), value in zip(found, least):
        table.setdefault(name, dict.fromkeys(COLUMNS))[column] = round(value, 2)
    data = {
        "title": f"Calls from Python, {options.threads} thread{'s' if options.threads > 1 else ''}",
        "date": datetime.date.today().isoformat(),
        "machine": options.machine,
        "what": "microseconds of a call of relu(a + b) * a on 8 numbers, a graph of three nodes, of single ops without autograd (PyTorch's own: "
        "the op or layer of the same name), and of passes of 128 numbers in torch's autograd; the least of 600 rounds of 25 calls, all in turn",
        "command": f"PYTHONPATH=build/python OMP_WAIT_POLICY=passive bench/python_calls.py --threads {options.threads}",
        "columns": ["call", *COLUMNS],
        "rows": [[name, *row.values()] for name, row in table.items()],
    }
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "scripts"))
    import measurements

    measurements.emit(data, options.json)


if __name__ == "__main__":
    main()
