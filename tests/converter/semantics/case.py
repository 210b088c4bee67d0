# SPDX-License-Identifier: Apache-2.0
"""The decorator that turns a module, or its forward method alone, into a file and a line of cases.txt."""
import inspect
import sys
import warnings
from pathlib import Path

import torch

warnings.simplefilter("ignore")
T = torch.Tensor
folder = Path(sys.argv[1])
lines = []


def case(*inputs, exit=0, words="", sizes="", constants=()):
    """Scripts what makes a module, or a function as the forward method of one. Without inputs it gets one matrix of n rows.
    `sizes` are the sizes that the check uses for n, such as "1,3"; constants are "name=value"."""

    def write(module):
        if "self" in inspect.signature(module).parameters:
            module = type(module.__name__, (torch.nn.Module,), {"forward": module, "__module__": module.__module__})
        name = module.__name__ + ".pt"
        torch.manual_seed(0)
        try:
            torch.jit.script(module().eval()).save(str(folder / name))
        except RuntimeError as error:
            if "has no attribute" in str(error) and not hasattr(torch.nn.functional, "rms_norm"):
                return module  # an older torch lacks the function
            raise
        options = inputs or ("f32[n,4]",)
        given = ["=" + constant for constant in constants]
        lines.append("\t".join([name, str(exit), words, sizes, *options, *given]))
        return module

    return write
