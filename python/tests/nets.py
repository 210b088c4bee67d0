# SPDX-License-Identifier: Apache-2.0
"""Modules shared by several tests."""

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.drop = torch.nn.Linear(8, 16), torch.nn.Linear(16, 3), torch.nn.Dropout(0.5)

    def forward(self, x):
        return self.b(self.drop(torch.relu(self.a(x))))
