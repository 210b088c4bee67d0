# SPDX-License-Identifier: Apache-2.0
"""Sizes computed from sizes."""
import math

import torch
import torch.nn.functional as F
from torch import nn

from semantics.case import T, case


class StridedConv(nn.Module):
    """Padded so that the last window is full."""

    def __init__(self, inputs, outputs, kernel, stride):
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, kernel, stride)
        self.kernel, self.stride = kernel, stride

    def forward(self, x: T):
        total = self.kernel - self.stride
        length = x.size(-1)
        frames = (length - self.kernel + total) / self.stride + 1
        ideal = (math.ceil(frames) - 1) * self.stride + (self.kernel - total)
        right = total // 2
        return self.conv(F.pad(x, (total - right, right + int(ideal - length))))


class CroppedTransposedConv(nn.Module):
    def __init__(self, inputs, outputs, kernel, stride):
        super().__init__()
        self.conv = nn.ConvTranspose1d(inputs, outputs, kernel, stride)
        self.total = kernel - stride

    def forward(self, x: T):
        y = self.conv(x)
        right = self.total // 2
        return y[..., self.total - right : y.size(-1) - right]


@case("f32[b,1,t]")
class CodecThatPadsEachLayer(nn.Module):
    def __init__(self):
        super().__init__()
        layers = [StridedConv(1, 4, 7, 1)]
        for ratio in (2, 4, 5, 8):
            layers += [nn.ELU(), StridedConv(4, 4, 2 * ratio, ratio)]
        for ratio in (8, 5, 4, 2):
            layers += [nn.ELU(), CroppedTransposedConv(4, 4, 2 * ratio, ratio)]
        self.net = nn.Sequential(*layers, StridedConv(4, 1, 7, 1))

    def forward(self, x: T):
        return self.net(x)[..., : x.size(-1)]


@case("f32[b,1,t]")
class CodecThatPadsTheSignal(nn.Module):
    def __init__(self):
        super().__init__()
        layers = [nn.Conv1d(1, 4, 7, padding=3)]
        for rate in (2, 4, 8, 8):
            layers += [nn.Tanh(), nn.Conv1d(4, 4, 2 * rate, rate, padding=rate // 2)]
        for rate in (8, 8, 4, 2):
            layers += [nn.Tanh(), nn.ConvTranspose1d(4, 4, 2 * rate, rate, padding=rate // 2)]
        self.net = nn.Sequential(*layers, nn.Conv1d(4, 1, 7, padding=3))

    def forward(self, x: T):
        n = x.size(-1)
        right = int(math.ceil(n / 512)) * 512 - n
        return self.net(F.pad(x, (0, right)))[..., :n]


@case("f32[n,2,t]")
class SizesOfSizesOfSizes(nn.Module):
    """Written without shared subexpressions, the last size would have 5^60 parts."""

    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([nn.Conv1d(2, 2, 4, 3, padding=2) for _ in range(60)])
        self.up = nn.ModuleList([nn.ConvTranspose1d(2, 2, 3, 2) for _ in range(60)])

    def forward(self, x: T):
        for down, up in zip(self.down, self.up):
            y = up(F.relu(down(F.pad(x, (x.size(-1) % 5, -x.size(-1) % 7)))))
            x = torch.cat([x, y], -1)[..., : x.size(-1) // 2 + y.size(-1) // 3 + 3]
        return x
