#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares single ops with PyTorch on one thread, to find slow kernels.

  bench/ops_beside_torch.py build/bin [--only REGEX] [--rounds 5] [--json FILE] [--machine TEXT]

A case is a typical function of one tensor, traced and converted. hg-bench and PyTorch take turns; the result is the shortest call in
ms. PyTorch's time includes its call overhead, a few us.
"""
import argparse
import datetime
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F

torch.manual_seed(0)
INDEX = torch.randint(0, 64, (4096,))
PICK = torch.randint(0, 1000, (64, 100))
LABELS = torch.randint(0, 1000, (64,))
PIXELS = torch.randint(0, 21, (1, 128, 128))
UP = torch.randn(64, 32, 4, 4)
SPD = (lambda a: a @ a.T + 64 * torch.eye(64))(torch.randn(64, 64))
LINE, IMAGE, SCORES, CELLS = (64, 1000), (1, 64, 56, 56), (1, 21, 256, 256), (1, 32, 56, 56)
HALF = torch.bfloat16

CASES = {
    "softmax": (lambda x: x.softmax(-1), LINE),
    "softmax of channels": (lambda x: x.softmax(1), SCORES),
    "log_softmax of channels": (lambda x: x.log_softmax(1), SCORES),
    "softmax, bf16": (lambda x: x.to(HALF).softmax(-1), LINE),
    "softmax, f64": (lambda x: x.double().softmax(-1), LINE),
    "logsumexp": (lambda x: x.logsumexp(-1), LINE),
    "cross_entropy": (lambda x: F.cross_entropy(x, LABELS), LINE),
    "cross_entropy of pixels": (lambda x: F.cross_entropy(x, PIXELS), (1, 21, 128, 128)),
    "layer_norm": (lambda x: F.layer_norm(x, (768,)), (128, 768)),
    "layer_norm, bf16": (lambda x: F.layer_norm(x.to(HALF), (768,)), (128, 768)),
    "rms_norm": (lambda x: F.rms_norm(x, (768,)), (128, 768)),
    "group_norm": (lambda x: F.group_norm(x, 8), IMAGE),
    "instance_norm": (lambda x: F.instance_norm(x), IMAGE),
    "batch_norm, training": (lambda x: F.batch_norm(x, None, None, training=True), (8, 64, 28, 28)),
    "normalize": (lambda x: F.normalize(x, dim=1), (128, 768)),
    "normalize channels": (lambda x: F.normalize(x, dim=1), (1, 128, 28, 28)),
    "cosine_similarity": (lambda x: F.cosine_similarity(x, x + 1, dim=-1), LINE),
    "cdist": (lambda x: torch.cdist(x, x), (256, 64)),
    "pdist": (lambda x: F.pdist(x), (128, 64)),
    "topk": (lambda x: x.topk(10, -1)[0], LINE),
    "sort": (lambda x: x.sort(-1)[0], LINE),
    "argsort": (lambda x: x.argsort(-1), LINE),
    "median": (lambda x: x.median(-1)[0], LINE),
    "kthvalue": (lambda x: x.kthvalue(5, -1)[0], LINE),
    "unique": (lambda x: torch.unique((x * 4).long()), (4096,)),
    "bucketize": (lambda x: torch.bucketize(x, torch.linspace(-3, 3, 64)), LINE),
    "histc": (lambda x: torch.histc(x, 64, -3, 3), (65536,)),
    "argmax": (lambda x: x.argmax(-1), LINE),
    "argmax of channels": (lambda x: x.argmax(1), SCORES),
    "amax": (lambda x: x.amax(-1), (512, 508)),
    "amax of stacked": (lambda x: torch.stack([x, x * 2, x * 3], -1).amax(-1), LINE),
    "sum of columns": (lambda x: x.sum(0), (1000, 64)),
    "mean of images": (lambda x: x.mean((2, 3)), (1, 512, 28, 28)),
    "var": (lambda x: x.var(-1), (512, 512)),
    "prod": (lambda x: x.prod(-1), LINE),
    "cumsum": (lambda x: x.cumsum(-1), LINE),
    "cumsum of columns": (lambda x: x.cumsum(0), (1000, 64)),
    "logcumsumexp": (lambda x: x.logcumsumexp(-1), LINE),
    "cummax": (lambda x: x.cummax(-1)[0], LINE),
    "index_select": (lambda x: x[INDEX], (64, 64)),
    "columns by index": (lambda x: x[:, torch.arange(0, 256, 2)], (64, 256)),
    "gather": (lambda x: x.gather(1, PICK), LINE),
    "index_add": (lambda x: torch.zeros(64, 64).index_add(0, INDEX, x), (4096, 64)),
    "scatter_add": (lambda x: torch.zeros(64, 64).scatter_add(0, INDEX[:, None].expand(4096, 64), x), (4096, 64)),
    "embedding_bag": (lambda x: F.embedding_bag(PICK, x), (1000, 64)),
    "x[x > 0]": (lambda x: x[x > 0], LINE),
    "masked_fill": (lambda x: x.masked_fill(x > 0, -1e9), LINE),
    "one_hot": (lambda x: F.one_hot(LABELS, 1000).float() + x, LINE),
    "flip": (lambda x: x.flip(-1), IMAGE),
    "roll": (lambda x: torch.roll(x, (3, 3), (1, 2)), (1, 56, 56, 96)),
    "pad": (lambda x: F.pad(x, (1, 1, 1, 1)), CELLS),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, dim=1), IMAGE),
    "unfold of an image": (lambda x: F.unfold(x, 3, padding=1), CELLS),
    "unfold of lines": (lambda x: x.unfold(-1, 16, 8).sum(-1), LINE),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), IMAGE),
    "transposed + 1": (lambda x: x.t() + 1, (256, 512)),
    "outer product": (lambda x: x[:, :, None] * x[:, None, :], (16, 128)),
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), (1, 64, 112, 112)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 1, 1), IMAGE),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 7), (1, 256, 28, 28)),
    "max_pool3d": (lambda x: F.max_pool3d(x, 3, 2, 1), (1, 32, 16, 28, 28)),
    "interpolate, bilinear": (lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"), CELLS),
    "interpolate, bicubic": (lambda x: F.interpolate(x, scale_factor=2.0, mode="bicubic"), CELLS),
    "interpolate, nearest": (lambda x: F.interpolate(x, scale_factor=2.0), CELLS),
    "grid_sample": (lambda x: F.grid_sample(x, torch.full((1, 56, 56, 2), 0.3), align_corners=False), CELLS),
    "conv1d": (lambda x: F.conv1d(x, torch.ones(64, 64, 3), padding=1), (1, 64, 512)),
    "conv3d": (lambda x: F.conv3d(x, torch.ones(16, 16, 3, 3, 3), padding=1), (1, 16, 8, 28, 28)),
    "conv2d, dilated": (lambda x: F.conv2d(x, torch.ones(64, 64, 3, 3), padding=4, dilation=4), (1, 64, 28, 28)),
    "conv2d, groups": (lambda x: F.conv2d(x, torch.ones(64, 8, 3, 3), groups=8, padding=1), (1, 64, 28, 28)),
    "conv2d, few pixels": (lambda x: F.conv2d(x, torch.ones(128, 128, 3, 3), padding=1), (1, 128, 4, 4)),
    "conv2d, bf16": (lambda x: F.conv2d(x.to(HALF), torch.ones(64, 64, 3, 3, dtype=HALF), padding=1), (1, 64, 28, 28)),
    "conv_transpose2d": (lambda x: F.conv_transpose2d(x, UP, stride=2, padding=1), (1, 64, 28, 28)),
    "matmul, f64": (lambda x: x.double() @ x.double().T, (256, 256)),
    "matmul, i64": (lambda x: x.long() @ x.long().T, (64, 64)),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x), (1, 12, 128, 64)),
    "attention, causal": (lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), (1, 12, 128, 64)),
    "einsum": (lambda x: torch.einsum("bhwc,hkc->bhwk", x, torch.ones(14, 14, 64)), (24, 14, 14, 64)),
    "inv": (lambda x: torch.linalg.inv(x + 64 * torch.eye(64)), (8, 64, 64)),
    "cholesky": (lambda x: torch.linalg.cholesky(SPD + 0 * x), (64, 64)),
    "solve": (lambda x: torch.linalg.solve(SPD, x), (64, 64)),
    "svdvals": (lambda x: torch.linalg.svdvals(x), (32, 32)),
    "rfft": (lambda x: torch.fft.rfft(x).abs(), (128, 512)),
    "fft2": (lambda x: torch.fft.fft2(x).abs(), (8, 64, 64)),
    "stft": (lambda x: torch.stft(x, 256, 128, return_complex=False, window=torch.ones(256)), (1, 16000)),
    "gelu": (lambda x: F.gelu(x), (1, 256, 1024)),
    "tanh": (torch.tanh, LINE), "exp": (torch.exp, LINE), "sin": (torch.sin, LINE), "log": (lambda x: x.abs().log(), LINE),
    "sqrt": (lambda x: x.abs().sqrt(), LINE), "pow": (lambda x: x.abs().pow(1.7), LINE), "atan2": (lambda x: torch.atan2(x, x + 1), LINE),
    "fmod": (lambda x: torch.fmod(x, 0.7), LINE), "round": (torch.round, LINE), "floor": (torch.floor, LINE),
    "erfinv": (lambda x: torch.erfinv(x.tanh() * 0.9), LINE), "lgamma": (lambda x: torch.lgamma(x.abs() + 0.1), LINE),
    "softplus": (F.softplus, LINE), "mish": (F.mish, LINE), "elu": (F.elu, LINE), "hardswish": (F.hardswish, LINE),
    "clamp": (lambda x: x.clamp(0, 6), IMAGE), "prelu": (lambda x: F.prelu(x, torch.full((64,), 0.1)), IMAGE),
    "where": (lambda x: torch.where(x > 0, x, -x), IMAGE), "glu": (lambda x: F.glu(x, 1), (1, 256, 1024)),
    "group_norm, bf16": (lambda x: F.group_norm(x.to(HALF), 8), IMAGE), "sum of columns, bf16": (lambda x: x.to(HALF).sum(0), (1000, 64)),
    "grid_sample, 3 channels": (lambda x: F.grid_sample(x, torch.full((1, 224, 224, 2), 0.3), align_corners=False), (1, 3, 224, 224)),
    "cdist, f64": (lambda x: torch.cdist(x.double(), x.double()), (256, 64)), "mv": (lambda x: x.mv(x[0]), (1000, 1000)),
    "conv2d, f64": (lambda x: F.conv2d(x.double(), torch.ones(64, 64, 3, 3, dtype=torch.float64), padding=1), (1, 64, 28, 28)),
    "irfft": (lambda x: torch.fft.irfft(torch.complex(x, x)), (128, 257)), "tanh, f64": (lambda x: x.double().tanh(), LINE),
    "log, f64": (lambda x: x.double().abs().log(), LINE), "gelu, f64": (lambda x: F.gelu(x.double()), LINE),
    "x * 2, bf16": (lambda x: x.to(HALF) * 2, LINE), "exp, f64": (lambda x: x.double().exp(), LINE), "to i64 and back": (lambda x: x.long().float(), LINE),
}  # fmt: skip


class Traced(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def ours(tools, graph):
    done = subprocess.run([tools / "hg-bench", graph, "--threads", "1", "--repeat", "40", "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["latency_ms"]["min"]


def torchs(function, x):
    least = float("inf")
    for _ in range(40):
        begin = time.perf_counter()
        function(x)
        least = min(least, 1e3 * (time.perf_counter() - begin))
    return least


def measure(tools, work, function, shape, rounds):
    """Milliseconds of Hologram and PyTorch; None if the function is not converted."""
    x = torch.randn(shape)
    torch.jit.trace(Traced(function), x, check_trace=False).save(work / "op.pt")
    sizes = ",".join(map(str, shape))
    command = [tools / "hg-convert", work / "op.pt", "-o", work / "op.hgm", "--input", f"x:f32[{sizes}]", "--no-check"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(done.stderr.strip().splitlines()[-1], file=sys.stderr)
        return None
    times = [(ours(tools, work / "op.hgm"), torchs(function, x)) for _ in range(rounds)]
    return tuple(map(min, zip(*times)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path, help="write a file for docs/measurements")
    parser.add_argument("--machine", default="a machine that is not named", help="description of the machine for the file")
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    with tempfile.TemporaryDirectory() as work, torch.no_grad():
        for name, (function, shape) in CASES.items():
            if not re.search(given.only, name):
                continue
            found = measure(given.bin.resolve(), pathlib.Path(work), function, shape, given.rounds)
            if found:
                rows.append([name, "x".join(map(str, shape)), *(float(f"{ms:.3g}") for ms in found), float(f"{found[0] / found[1]:.2g}")])
                print(*rows[-1], file=sys.stderr)
    rows.sort(key=lambda row: -row[-1])
    data = {
        "title": "Single ops beside PyTorch",
        "date": datetime.date.today().isoformat(),
        "machine": given.machine,
        "what": f"ms of a call on one thread, the least of {given.rounds} turns of 40 calls; from where Hologram is behind to where it leads",
        "peers": f"torch {torch.__version__}, whose time has the cost of its calls",
        "command": "bench/ops_beside_torch.py build/bin",
        "columns": ["op", "x", "Hologram", "PyTorch", "ratio"],
        "rows": rows,
    }
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "scripts"))
    import measurements

    measurements.emit(data, given.json)


if __name__ == "__main__":
    main()
