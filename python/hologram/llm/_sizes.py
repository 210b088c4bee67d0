# SPDX-License-Identifier: Apache-2.0
"""Arithmetic on sizes in modules' Python code, for torch.export, which would fix a size at that of the example, turn it into a tensor, or
take long."""

import functools
import math
import sys
from contextlib import ExitStack, contextmanager
from unittest import mock


def divided_sizes(torch):
    """A context in which torch.div of two sizes is a size."""
    divide = torch.div

    def div(input, other, *, rounding_mode=None, **more):
        are_sizes = all(isinstance(each, (int, torch.SymInt)) for each in (input, other))
        if are_sizes and rounding_mode in ("trunc", "floor") and not more:  # sizes are not negative
            return input // other
        return divide(input, other, rounding_mode=rounding_mode, **more)

    return mock.patch.object(torch, "div", div)


def divided_remainders(torch):
    """A context in which the remainder of a size is a size minus its quotient: padding to whole blocks then becomes a number of blocks, whose
    expressions are shorter."""
    from torch.utils._sympy import functions

    def mod(size, by):
        return size - by * functions.FloorDiv(size, by)

    return mock.patch.multiple(functions, Mod=mod, PythonMod=mod)


@functools.cache
def never_above(value):
    """Whether an expression of one size is known to be at most 0. Sums of quotients by integers repeat."""
    from torch.utils._sympy.functions import FloorDiv

    quotients, sizes = value.atoms(FloorDiv), list(value.free_symbols)
    period = math.lcm(*(int(each.args[1]) for each in quotients if each.args[1].is_Integer))
    if len(sizes) != 1 or period > 4096 or not all(each.args[1].is_Integer and each.args[0].is_polynomial(*sizes) for each in quotients):
        return False
    smooth = value.xreplace({each: each.args[0] / each.args[1] for each in quotients})
    if not all(each.is_polynomial(*sizes) and each.as_poly(*sizes).degree() <= 1 for each in (smooth, *(each.args[0] for each in quotients))):
        return False
    return not smooth.diff(*sizes) and all(value.subs(sizes[0], size) <= 0 for size in range(1, period + 1))


@contextmanager
def open_integers(torch, part):
    """int(size) in the modules' code, which would fix a size at that of the example, leaves it open."""

    class Kind(type):
        def __instancecheck__(cls, value):
            return isinstance(value, int)

    class Integer(metaclass=Kind):
        def __new__(cls, *args, **kwargs):
            return args[0] if len(args) == 1 and isinstance(args[0], torch.SymInt) else int(*args, **kwargs)

    with ExitStack() as stack:
        for name in {type(each).__module__ for each in part.modules()}:
            if name.startswith("transformers.models."):
                stack.enter_context(mock.patch.object(sys.modules[name], "int", Integer, create=True))
        yield
