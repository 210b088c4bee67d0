# SPDX-License-Identifier: Apache-2.0
"""Converts large models: measures time, and memory beyond what libtorch itself needs. Also checks that a model beyond 2 GiB works,
which mostly waits for the disk.

Usage: large_models.py BIN [FOLDER]. BIN holds hg-convert and hg-run; FOLDER holds the models, which are removed.
"""
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy
import torch
from torch import nn

# One measure for both sides: processes of their own, the least of three, less the time in which
# libtorch itself is loaded.
REFERENCE = """
import sys, torch
torch.set_num_threads(%d)
model = torch.jit.load(sys.argv[1])
with torch.no_grad():
    for n in (2, 3):
        model(torch.randn(n, int(sys.argv[2])))
""" % (os.cpu_count() or 1)


def timed(command):
    """Seconds, and the largest resident set in bytes."""
    begin = time.perf_counter()
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{command[0]} failed with the status {status}")
    return time.perf_counter() - begin, usage.ru_maxrss * 1024


def least(command):
    """The least seconds of three runs, and the most bytes."""
    runs = [timed(command) for _ in range(3)]
    return min(seconds for seconds, _ in runs), max(peak for _, peak in runs)


def convert(binaries, folder, width, layers):
    torch.manual_seed(0)
    model = nn.Sequential(*(m for _ in range(layers) for m in (nn.Linear(width, width), nn.ReLU()))).eval()
    weights = sum(p.numel() * 4 for p in model.parameters())
    x = torch.randn(2, width)
    source, target = folder / "model.pt", folder / "model.hgm"
    with torch.no_grad():
        torch.jit.trace(model, x).save(str(source))
        y = model(x).numpy()
    del model
    imports, base = least([sys.executable, "-c", "import torch"])
    reference = least([sys.executable, "-c", REFERENCE, source, width])[0] - imports
    start, _ = least([binaries / "hg-convert", "--version"])
    whole, peak = least([binaries / "hg-convert", source, "-o", target, "--input", f"f32[n,{width}]"])
    seconds = whole - start
    print(f"{weights / 2**30:.2f} GiB of weights: {whole:.1f} s, {start:.1f} s of them for libtorch, the others "
          f"{seconds / reference:.2f} times loading and two runs; peak {peak / weights:.2f} times the weights", flush=True)
    numpy.save(folder / "x.npy", x.numpy())
    timed([binaries / "hg-run", target, "--input", folder / "x.npy", "--output-dir", folder])
    numpy.testing.assert_allclose(numpy.load(folder / "output_0.npy"), y, rtol=1e-3, atol=1e-5)
    waits_for_disk = weights > 2**30
    return (waits_for_disk or seconds <= 3 * reference) and peak <= 2.5 * weights + base


def main():
    binaries = Path(sys.argv[1]).resolve()
    where = sys.argv[2] if len(sys.argv) > 2 else None
    good = True
    for width, layers in ((4096, 6), (8192, 9)):  # 100 million parameters; 2.25 GiB
        with tempfile.TemporaryDirectory(dir=where) as folder:
            good = convert(binaries, Path(folder), width, layers) and good
    if not good:
        sys.exit("a conversion took over 3 times as long as libtorch, or over 2.5 times the weights")


main()
