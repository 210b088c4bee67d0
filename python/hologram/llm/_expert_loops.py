# SPDX-License-Identifier: Apache-2.0
"""Loops of modules over the experts that tokens chose, for torch.export: each expert reads all tokens, and adds to those that chose it.

The loops have one form: `for expert in hit.nonzero()`, whose body gathers the tokens at `torch.where(mask)` and adds its rows to a
sum with `index_add_`. While `EveryExpert` is active, the loop visits every expert, `where` returns every position, and `index_add_`
adds zeros where the mask is false. Other uses of the positions are rejected.
"""

from itertools import product
from unittest import mock

from .._errors import UnsupportedError

_MOST = 1024  # experts of a layer


class _Number(int):
    """The number of an expert."""


class _Index(list):
    """An element of the result of nonzero()."""

    def item(self):
        (value,) = self
        return value

    def __int__(self):
        return self.item()


def _leaves(values):
    for each in values:
        yield from _leaves(each) if isinstance(each, (tuple, list)) else (each,)


def every_expert(torch):
    """A context in which such loops do not depend on values of tensors."""
    kind = torch.Tensor
    reads = {kind.__getitem__, kind.index_select, torch.index_select, kind.numel, kind.shape.__get__, kind.size, kind.dim, kind.dtype.__get__, kind.device.__get__}

    class EveryExpert(torch.overrides.TorchFunctionMode):
        def __init__(self):
            super().__init__()
            self.masks = {}  # by the identity of the positions, which stay alive

        def __torch_function__(self, function, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            if function in (kind.nonzero, torch.nonzero) and not kwargs.get("as_tuple", False):
                sizes = list(args[0].shape)
                if all(isinstance(size, int) for size in sizes) and 0 < args[0].numel() <= _MOST:
                    return [_Index(map(_Number, each)) for each in product(*map(range, sizes))]
            if function is torch.where and len(args) == 1 and not kwargs:
                return self.positions_of(args[0])
            if function is kind.__getitem__ and isinstance(args[1], _Number) and args[1] >= args[0].shape[0]:
                return args[0][-1]  # no token chooses an expert that does not exist
            found = [each for each in _leaves([*args, *kwargs.values()]) if id(each) in self.masks]
            if function is kind.index_add_ and len(args) == 4 and not kwargs and len(found) == 1 and found[0] is args[2]:
                to, dim, at, rows = args
                _, mask = self.masks[id(at)]
                shape = [-1 if d == dim % rows.dim() else 1 for d in range(rows.dim())]
                return function(to, dim, at, torch.where(mask.reshape(shape), rows, 0))
            if found and function not in reads:
                raise UnsupportedError(f"its experts use the tokens that chose them in {getattr(function, '__name__', function)}, which is not supported")
            return function(*args, **kwargs)

        def positions_of(self, mask):
            flat, made = torch.arange(mask.numel()), []
            for size in reversed(mask.shape):
                made.insert(0, flat % size)
                flat = flat // size
            for each in made:
                self.masks[id(each)] = each, mask != 0
            return tuple(made)

    return EveryExpert()


def kept_types(torch):
    """A context in which modules that already have the type to which they are converted stay as they are."""
    convert = torch.nn.Module.to

    def to(self, *args, **kwargs):
        wanted = args[0] if len(args) == 1 and not kwargs else None
        tensors = [*self.parameters(), *self.buffers()]
        if isinstance(wanted, torch.dtype) and all(each.dtype == wanted for each in tensors):
            return self
        return convert(self, *args, **kwargs)

    return mock.patch.object(torch.nn.Module, "to", to)
