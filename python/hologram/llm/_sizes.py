# SPDX-License-Identifier: Apache-2.0
"""Arithmetic on sizes in modules' Python code. Without it, torch.export fixes a size at that of the example, turns it into a tensor, or is
slow."""

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
    """Whether an expression of one size is known to be at most 0. Sums of a size and of its quotients by integers that do not grow repeat."""
    import sympy
    from torch.utils._sympy.functions import FloorDiv

    def is_linear(expression, *names):
        return expression.is_polynomial(*names) and expression.as_poly(*names).total_degree() <= 1

    quotients, sizes = list(value.atoms(FloorDiv)), list(value.free_symbols)
    if len(sizes) != 1 or not all(each.args[1].is_Integer and is_linear(each.args[0], *sizes) for each in quotients):
        return False
    period = math.lcm(*(int(each.args[1]) for each in quotients))
    names = {each: sympy.Dummy() for each in quotients}
    slope = value.xreplace({each: each.args[0] / each.args[1] for each in quotients}).diff(*sizes)
    is_periodic = not slope and is_linear(value.xreplace(names), *sizes, *names.values()) and all(each.args[0].diff(*sizes).is_Integer for each in quotients)
    return is_periodic and period <= 4096 and all(value.subs(sizes[0], size) <= 0 for size in range(1, period + 1))


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
