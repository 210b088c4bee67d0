# SPDX-License-Identifier: Apache-2.0
"""The U-Net of this sample in PyTorch: makes random weights, and results to compare the sample with.

  weights.npy    f32[all]: the parameters, one after another, in the order of UNet.parameters()
  noise.npy      f32[n, CHANNELS, size, size]: the start of sampling
  image.npy      the same shape: the result of DDIM's STEPS steps

  python3 model.py [FOLDER] [--seed N]      FOLDER defaults to the folder of this file

Needs torch and numpy.
"""
import argparse
import math
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

CHANNELS, WIDTH, EMBED, GROUPS, HEADS, STEPS = 3, 8, 16, 4, 2, 4


class Residual(nn.Module):
    def __init__(self, c, out):
        super().__init__()
        self.norm1 = nn.GroupNorm(GROUPS, c)
        self.conv1 = nn.Conv2d(c, out, 3, padding=1)
        self.time = nn.Linear(EMBED, out)
        self.norm2 = nn.GroupNorm(GROUPS, out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1)
        self.skip = nn.Conv2d(c, out, 1) if c != out else nn.Identity()

    def forward(self, x, embedding):
        y = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(embedding))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(y)))


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm = nn.GroupNorm(GROUPS, c)
        self.qkv = nn.Conv2d(c, 3 * c, 1)
        self.out = nn.Conv2d(c, c, 1)

    def forward(self, x):
        n, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(n, 3, HEADS, c // HEADS, h * w).transpose(3, 4).unbind(1)
        y = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(y.transpose(2, 3).reshape(n, c, h, w))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.time1 = nn.Linear(WIDTH, EMBED)
        self.time2 = nn.Linear(EMBED, EMBED)
        self.enter = nn.Conv2d(CHANNELS, WIDTH, 3, padding=1)
        self.high = Residual(WIDTH, WIDTH)
        self.down = nn.Conv2d(WIDTH, WIDTH, 3, stride=2, padding=1)
        self.low = Residual(WIDTH, 2 * WIDTH)
        self.attention = Attention(2 * WIDTH)
        self.middle = Residual(2 * WIDTH, 2 * WIDTH)
        self.up = nn.Conv2d(2 * WIDTH, WIDTH, 3, padding=1)
        self.join = Residual(2 * WIDTH, WIDTH)
        self.norm = nn.GroupNorm(GROUPS, WIDTH)
        self.leave = nn.Conv2d(WIDTH, CHANNELS, 3, padding=1)

    def forward(self, x, t):
        power = torch.exp(-math.log(10000) / (WIDTH // 2) * torch.arange(WIDTH // 2))
        angle = t[:, None] * power
        e = self.time2(F.silu(self.time1(torch.cat([angle.sin(), angle.cos()], 1))))
        high = self.high(self.enter(x), e)
        low = self.middle(self.attention(self.low(self.down(high), e)), e)
        up = self.up(F.interpolate(low, scale_factor=2, mode="nearest"))
        y = self.join(torch.cat([up, high], 1), e)
        return self.leave(F.silu(self.norm(y)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).resolve().parent)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = UNet()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.uniform_(-0.5, 1.5)
        x = noise = torch.randn(2, CHANNELS, 8, 8)
        for step in range(STEPS, 0, -1):
            kept, next_kept = (math.cos(math.pi / 2 * s / (STEPS + 1)) ** 2 for s in (step, step - 1))
            e = model(x, torch.full((2,), 1000 * step / STEPS))
            clean = (x - math.sqrt(1 - kept) * e) / math.sqrt(kept)
            x = math.sqrt(next_kept) * clean + math.sqrt(1 - next_kept) * e
        weights = torch.cat([p.flatten() for p in model.parameters()])
    args.folder.mkdir(parents=True, exist_ok=True)
    for name, tensor in {"weights": weights, "noise": noise, "image": x}.items():
        np.save(args.folder / f"{name}.npy", tensor.numpy())


if __name__ == "__main__":
    main()
