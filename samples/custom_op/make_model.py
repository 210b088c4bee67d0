# SPDX-License-Identifier: Apache-2.0
"""Makes wave.pt: a small network around a custom op, torch.ops.acme.wave.

Usage: make_model.py
"""
from pathlib import Path

import torch
from torch import nn

library = torch.library.Library("acme", "DEF")
library.define("wave(Tensor x, float gain) -> Tensor")
library.impl("wave", lambda x, gain: x + gain * torch.sin(x), "CompositeImplicitAutograd")


class Wave(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.last = nn.Linear(8, 2)

    def forward(self, x):
        return self.last(torch.ops.acme.wave(self.first(x), 0.5))


torch.manual_seed(0)
model = Wave().eval()
torch.jit.script(model).save(str(Path(__file__).parent / "wave.pt"))
x = torch.tensor([[0.1, 0.2, 0.3, 0.4], [1.0, -1.0, 0.5, -0.5]], requires_grad=True)
y = model(x)
y.sum().backward()
print(y, x.grad, sep="\n")
