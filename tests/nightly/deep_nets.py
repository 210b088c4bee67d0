# SPDX-License-Identifier: Apache-2.0
"""Nets of 200 modules with an open length convert in seconds: expressions of sizes grow only with the depth of a net.

Usage: deep_nets.py BIN [FOLDER]. BIN holds hg-convert. Prints seconds of processor time on one thread, with and without the check,
minus the time to load libtorch; fails if a time exceeds the limit.
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import torch
    import torch.nn.functional as F
    from torch import Tensor, nn
except ImportError:
    print("no Python with torch: the deep nets are left out")
    sys.exit(77)

LAYERS = 200
MOST_SECONDS = {"without the check": 3.0, "with the check": 12.0}


class Strided(nn.Module):
    """Every layer halves the length."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv1d(4, 4, 3, stride=2, padding=1) for _ in range(LAYERS)])

    def forward(self, x: Tensor):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


class Scaled(nn.Module):
    """The length goes down by a stride and up by more, layer by layer."""

    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([nn.Conv1d(4, 4, 3, stride=2, padding=1) for _ in range(LAYERS // 2)])
        self.up = nn.ModuleList([nn.ConvTranspose1d(4, 4, 2, stride=2) for _ in range(LAYERS // 2)])

    def forward(self, x: Tensor):
        for down, up in zip(self.down, self.up):
            x = up(torch.relu(down(x)))
        return x


class PadAndCrop(nn.Module):
    """Each module pads to a multiple of 8, works at half the length, and cuts to one element less."""

    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([nn.Conv1d(4, 4, 4, stride=2, padding=1) for _ in range(LAYERS)])
        self.up = nn.ModuleList([nn.ConvTranspose1d(4, 4, 4, stride=2, padding=1) for _ in range(LAYERS)])

    def forward(self, x: Tensor):
        for i, (down, up) in enumerate(zip(self.down, self.up)):
            length = x.size(2)
            padded = F.pad(x, [0, (8 - length % 8) % 8])
            x = x + up(torch.relu(down(padded)))[:, :, :length]
            if i % 4 == 3:
                x = x[:, :, 1:]
        return x


def processor_seconds(command):
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1"})
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{command[0]} failed with the status {status}")
    return usage.ru_utime + usage.ru_stime


def main():
    binary = Path(sys.argv[1]) / "hg-convert"
    start = processor_seconds([binary, "--version"])
    slow = []
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as folder:
        for module in (Strided, Scaled, PadAndCrop):
            torch.manual_seed(0)
            path = Path(folder) / "model.pt"
            torch.jit.script(module().eval()).save(str(path))
            command = [binary, path, "-o", path.with_suffix(".hgm"), "--input", "f32[n,4,t]"]
            for how, extra in (("without the check", ["--no-check"]), ("with the check", [])):
                seconds = processor_seconds([*command, *extra]) - start
                print(f"{module.__name__}: {seconds:.2f} s {how}")
                if seconds > MOST_SECONDS[how]:
                    slow.append(f"{module.__name__} {how}")
    if slow:
        sys.exit(f"too slow: {', '.join(slow)}")


if __name__ == "__main__":
    main()
