# SPDX-License-Identifier: Apache-2.0
"""Programs for torch.export: modules with every named size open."""
from __future__ import annotations

import torch
from torch import nn

CLASS = "class Program(nn.Module):\n    def forward(self, {names}):\n        return forward({names})\n"


class Exported:
    """Returns the exported program's results, including errors of its guards, and can save itself."""

    def __init__(self, forward, dims: list[tuple[str, ...]], arguments: tuple[torch.Tensor, ...]):
        names = {"nn": nn, "forward": forward}
        exec(CLASS.format(names=", ".join("xy"[:len(dims)])), names)  # noqa: S102
        sizes = tuple({d: torch.export.Dim.AUTO for d, dim in enumerate(each) if not dim.isdigit()} for each in dims)
        self.program = torch.export.export(names["Program"](), arguments, dynamic_shapes=sizes, strict=False)
        self.module = self.program.module()

    def __call__(self, *arguments):
        return self.module(*arguments)

    def save(self, path: str) -> None:
        torch.export.save(self.program, path)
