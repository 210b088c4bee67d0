# SPDX-License-Identifier: Apache-2.0
"""Writes the models of check_test: branches far from default values, and ill-conditioned models.

Usage: make_checked.py FOLDER. Without torch it writes only a file `skipped`.
"""
import warnings

from maker import folder

import torch
from torch import nn

warnings.simplefilter("ignore")


class Sides(nn.Module):
    def forward(self, x):
        if bool(x.abs().max() > 100):
            y = x + 1
        else:
            y = x * 2
        return y


class Rounds(nn.Module):
    def forward(self, x):
        while bool(x.abs().max() > 10):
            x = x * 0.5 + 0.125
        return x


class Slice(nn.Module):
    def forward(self, x):
        return x[:6] * 2


class Masked(nn.Module):
    """The mask is 1e30 times as large as the other values."""

    def forward(self, x):
        y = x.clone()
        y[:, 0] = -1e30
        return y * 2


class Small(nn.Module):
    def forward(self, x):
        return x.sin() * 1e-6


class Phase(nn.Module):
    """The first and last numbers are real, so their phase is 0, pi or -pi."""

    def forward(self, x):
        phase = torch.fft.rfft(x).angle()
        return phase, phase + 1, x * 2


class Unsorted(nn.Module):
    def forward(self, x):
        values, indices = torch.topk(x, 5, sorted=False)
        return values, indices, values * 2 + indices


class Ties(nn.Module):
    def forward(self, x):
        order = torch.argsort(torch.round(x), dim=1)
        return order, torch.gather(x, 1, order)


class Threshold(nn.Module):
    """Rounding of a product decides on which side of a step its elements lie."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(256, 64))

    def forward(self, x):
        y = x @ self.weight
        return torch.remainder(torch.round(y * 1e5), 2), (y * 1e6).sin(), y


class Counted(Threshold):
    """The same result in every run; a buffer counts the runs."""

    def __init__(self):
        super().__init__()
        self.register_buffer("runs", torch.zeros(()))

    def forward(self, x):
        self.runs += 1
        y = x @ self.weight
        return torch.remainder(torch.round(y * 1e5) + self.runs, 2), self.runs * 2


class Zeros(nn.Module):
    def forward(self, n):
        return torch.zeros(int(n))


class Odd(nn.Module):
    def forward(self, x, n):
        return x.view(int(n))


class Totals(nn.Module):
    """A method changes state that only another one returns."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.ones(3))

    @torch.jit.export
    def add(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        return x * 2

    @torch.jit.export
    def read(self) -> torch.Tensor:
        return self.total * 1


class Dropped(nn.Module):
    def forward(self, x):
        return nn.functional.dropout(x, 0.5, True)


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.GRU(4, 3, batch_first=True)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        start = torch.zeros(1, x.size(0), 3)  # traces of PyTorch 1.13 make that of the layer a constant
        return nn.utils.rnn.pad_packed_sequence(self.layer(packed, start)[0], batch_first=True)[0]


torch.manual_seed(0)
for module in (Sides, Rounds, Slice, Zeros, Odd, Totals, Dropped):
    torch.jit.script(module()).save(str(folder / (module.__name__.lower() + ".pt")))
for module, example in ((Masked, (2, 40)), (Small, (2, 40)), (Phase, (2, 16)), (Unsorted, (2, 40)), (Ties, (2, 40)),
                        (Threshold, (2, 256)), (Counted, (2, 256))):
    traced = torch.jit.trace(module().eval(), torch.randn(example), check_trace=False)
    traced.save(str(folder / (module.__name__.lower() + ".pt")))
packed = torch.jit.trace(Packed().eval(), (torch.randn(3, 5, 4), torch.tensor([5, 3, 2])), check_trace=False)
packed.save(str(folder / "packed.pt"))
(folder / "made").write_text(torch.__version__ + "\n")
