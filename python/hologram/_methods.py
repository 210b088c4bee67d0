# SPDX-License-Identifier: Apache-2.0
"""Methods, indexing and operators of hologram's own tensors: Var, Value and Tensor. Each method is the function of hg.ops
of the same name with the tensor as ``input``, as torch.Tensor has it."""

import inspect
import types

from . import _core, _rows
from ._functions import functions
from ._functions._index import item_of
from ._functions._sizes import at_rank, shape_of

# Methods of torch.Tensor that differ from the function of the same name.
_NOT_METHODS = {"unfold", "where", "embedding", "one_hot", "pad", "fold", "linear", "searchsorted", "isin", "cdist", "real", "imag"}


def _size(self, dim=None):
    """The sizes, or that of one dim."""
    shape = shape_of(self)
    return shape if dim is None else shape[at_rank(dim, len(shape))]


def _dim(self):
    """The number of dims."""
    return len(shape_of(self))


def _unfold(self, dim, size, step):
    """Windows of ``size`` elements along a dim, ``step`` apart, as a new last dim."""
    return _rows.unfold(self, dim, size, step)


def _to(self, dtype):
    """The elements as another dtype."""
    return _rows.cast(self, dtype)


def _cast(dtype):
    def cast(self):
        return _rows.cast(self, dtype)

    cast.__doc__ = f"The elements as {dtype}."
    return cast


def _turned(self):
    """All dims in reverse order."""
    rank = len(shape_of(self))
    return _rows.permute(self, list(range(rank))[::-1])


def _matrix_turned(self):
    """The last two dims exchanged."""
    rank = len(shape_of(self))
    if rank < 2:
        raise ValueError(f"mT: the tensor has {rank} dims, expected at least 2")
    return _rows.permute(self, [*range(rank - 2), rank - 1, rank - 2])


# -- Autograd of hologram's tensors, which is torch's ---------------------------------------------


def _backward(self, gradient=None, retain_graph=None):
    """Computes the gradients of the parameters that this tensor depends on, where the tensor is."""
    if self._followed is None:
        raise RuntimeError("backward: no gradient is recorded for this tensor; no parameter in it requires one")
    if isinstance(gradient, _core.Tensor):
        from ._autograd._device import as_torch

        gradient = as_torch(gradient)
    self._followed.backward(gradient, retain_graph=retain_graph)


def _requires_grad_(self, requires_grad=True):
    """Records what is computed from this tensor, so that backward() sets ``grad``."""
    from ._autograd._device import as_torch

    followed = as_torch(self).requires_grad_(requires_grad)
    self._followed = followed if requires_grad else None
    return self


def _requires_grad(self):
    """Whether torch's autograd tracks the tensor."""
    return self._followed is not None and self._followed.requires_grad


def _grad(self):
    """The gradient that backward() computed, or None."""
    if self._followed is None or not self._followed.is_leaf or self._followed.grad is None:
        return None
    from ._autograd._device import as_hologram

    return as_hologram(self._followed.grad)


def _grad_fn(self):
    """torch's record of how the tensor was computed, or None."""
    return None if self._followed is None else self._followed.grad_fn


def _detach(self):
    """The same elements, which autograd does not track."""
    return self._share()


def _item(self):
    """The only element, as a Python number."""
    return self.numpy().item()


def _tolist(self):
    """The elements as nested lists."""
    return self.numpy().tolist()


def _as_number(convert):
    def number(self):
        return convert(self.numpy().item())

    number.__doc__ = f"The only element, as {convert.__name__}."
    return number


def _length(self):
    """The first size."""
    if not self.shape:
        raise TypeError("len() of a tensor without dims")
    return self.shape[0]


def _operator(row, reverse=False):
    if reverse:
        return lambda self, other: _rows.function_of(row)(other, self)
    return lambda self, other: _rows.function_of(row)(self, other)


_OPERATORS = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "pow": "pow", "matmul": "matmul", "floordiv": "floor_divide",
    "mod": "remainder", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
}  # fmt: skip
_COMPARISONS = ("lt", "le", "gt", "ge")


def _method(kind, name, function):
    """The function as a method of the class: type stubs show what belongs to their module."""
    function = inspect.unwrap(function)
    method = types.FunctionType(function.__code__, function.__globals__, name, function.__defaults__, function.__closure__)
    method.__kwdefaults__, method.__doc__ = function.__kwdefaults__, function.__doc__
    method.__dict__.update(function.__dict__)
    method.__module__, method.__qualname__ = kind.__module__, f"{kind.__qualname__}.{name}"
    return method


def _install(kind):
    """Adds the methods that the class lacks."""

    def install(name, function):
        setattr(kind, name, _method(kind, name, function))

    for name, function in functions.items():
        first = next(iter(function.__signature__.parameters), "")
        if first in ("input", "tensor") and name not in _NOT_METHODS and not hasattr(kind, name):
            install(name, function)
    named = {"size": _size, "dim": _dim, "unfold": _unfold, "to": _to, "type": _to}
    for name, dtype in {"float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32", "bool": "bool"}.items():
        named[name] = _cast(dtype)
    for name, value in named.items():
        if name not in vars(kind):
            install(name, value)
    for name, function in (("T", _turned), ("mT", _matrix_turned), ("real", functions["real"]), ("imag", functions["imag"])):
        if name not in vars(kind):
            setattr(kind, name, property(_method(kind, name, function)))
    for name, row in _OPERATORS.items():
        for word, reverse in ((f"__{name}__", False), (f"__r{name}__", True)):
            if word not in vars(kind):
                install(word, _operator(row, reverse))
    for name in _COMPARISONS:
        if f"__{name}__" not in vars(kind):
            install(f"__{name}__", _operator(name))
    for word, row in (("__neg__", "neg"), ("__abs__", "abs"), ("__invert__", "bitwise_not")):
        if word not in vars(kind):
            install(word, _unary(row))
    install("__getitem__", item_of)
    install("__iter__", _iterate)
    if kind is _core.Tensor:
        kind.__array_priority__ = 1000
        kind.__array_ufunc__ = None
        kind._followed = None  # the torch tensor that autograd tracks
        for function in (_backward, _requires_grad_, _detach, _item):
            install(function.__name__.removeprefix("_"), function)
        for word, convert in (("__float__", float), ("__int__", int), ("__complex__", complex)):
            install(word, _as_number(convert))
        install("__len__", _length)
        for name, function in (("requires_grad", _requires_grad), ("grad", _grad), ("grad_fn", _grad_fn)):
            setattr(kind, name, property(_method(kind, name, function)))
    if kind is not _core.Value:
        install("tolist", _tolist)


def _unary(row):
    return lambda self: _rows.function_of(row)(self)


def _iterate(self):
    """Slices along the first dim."""
    return iter(functions["unbind"](self))


for _kind in (_core.Var, _core.Value, _core.Tensor):
    _install(_kind)
