# SPDX-License-Identifier: Apache-2.0
"""Modules shared by several tests."""

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.drop = torch.nn.Linear(8, 16), torch.nn.Linear(16, 3), torch.nn.Dropout(0.5)

    def forward(self, x):
        return self.b(self.drop(torch.relu(self.a(x))))


def spread_weights(model):
    """Draws weights large enough that a language model's tokens differ from each other. Returns the model."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)
    return model
