# SPDX-License-Identifier: Apache-2.0
"""The decorator that turns a module into a file and a line of cases.txt."""
import sys
import warnings
from pathlib import Path

import torch

warnings.simplefilter("ignore")
T = torch.Tensor
folder = Path(sys.argv[1])
lines = []


def case(*inputs, exit=0, words="", sizes="", constants=()):
    """Scripts the module; without inputs it gets one matrix of n rows. `sizes` are the sizes that the check uses for n,
    such as "1,3"; constants are "name=value"."""

    def write(module):
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
