# SPDX-License-Identifier: Apache-2.0
"""Kernels written as expressions."""

import numpy

from . import _core, ops

_apply = None  # of kernels in autograd, once torch is there


class Kernel(_core.KernelBase):
    """A function of single elements that runs over whole tensors; ``hg.kernel`` creates it.

    Call it with numbers, numpy arrays or torch tensors, in the order of ``parameters`` or by name; they broadcast.
    With torch tensors that require a gradient it takes part in autograd. With a ``Var`` or a value of a ``Graph`` it adds to
    the expression or graph. Structs are dicts.
    """

    _options = None
    _roots = ()  # "p.mass" and "p.speed" are the members of one argument p

    def __call__(self, *args, out=None, shape=None, **kwargs):
        named = self._named(args, kwargs)
        if any(isinstance(value, (_core.Var, _core.Value, dict)) for value in named.values()):
            flat = _flat(named)
            if any(isinstance(value, (_core.Var, _core.Value)) for value in flat.values()):
                if out is not None:
                    raise ValueError(f"kernel '{self.name}': an expression has no memory yet that out= could name")
                return self._expression(flat, shape)
        if out is None and any(_core.on_device(value) for value in named.values()):
            return self._expression(_flat(named), shape)
        if _core.is_followed(list(named.values())):
            if out is not None:
                raise ValueError(f"kernel '{self.name}': out= takes no part in autograd; use torch.no_grad()")
            global _apply
            if _apply is None:
                from ._autograd._kernel import apply as _apply
            return _apply(self, named, shape)
        return _core.kernel_call(self, named, out, shape)

    def _named(self, args, kwargs):
        roots = self._roots
        if len(args) > len(roots):
            raise TypeError(f"kernel '{self.name}' takes {len(roots)} arguments ({', '.join(roots)}), {len(args)} are given")
        named = dict(zip(roots, args))
        for name, value in kwargs.items():
            if name in named:
                raise TypeError(f"kernel '{self.name}' has two values for '{name}'")
            if name not in roots:
                raise TypeError(f"kernel '{self.name}' has no parameter '{name}'; it has {', '.join(roots)}")
            named[name] = value
        return {name: _plain(value) for name, value in named.items()}

    def _expression(self, given, shape):
        """The call as an expression of a Var or a graph, with the same derivatives."""
        _, text, strict, backward, _ = self._options
        inputs, numbers = [], []
        for i, name in enumerate(self.parameters):
            value = given.get(name, self.defaults_.get(name))
            if value is None:
                raise TypeError(f"kernel '{self.name}': '{name}' is missing")
            if isinstance(value, (bool, int, float)):
                numbers.append(i)
                value = numpy.asarray(value)
            inputs.append(value)
        attributes = {"text": text, "name": self.name, "strict": strict, "numbers": numbers, "backward": backward}
        if shape is not None:
            attributes["shape"] = list(shape) if isinstance(shape, (list, tuple)) else [shape]
        results = ops.call("expression", inputs, **attributes)
        return tuple(results) if isinstance(results, (list, tuple)) and len(self.outputs) > 1 else results

    def grad(self, *args, wrt=None, output_gradients=None, shape=None, **kwargs):
        """Gradients by name, for the parameters in ``wrt``, of the sum of each output times its gradient."""
        named = self._named(args, kwargs)
        names = list(wrt) if wrt is not None else self.parameters
        if output_gradients is not None and not isinstance(output_gradients, (list, tuple)):
            output_gradients = [output_gradients]
        found = _core.kernel_grad(self, named, names, output_gradients, shape)
        return dict(zip(names, found))

    def __reduce__(self):
        return (_make, self._options)

    def __repr__(self):
        return f"Kernel({self.name}({', '.join(self.parameters)}) -> {', '.join(self.outputs)})"


def _plain(value):
    """Converts numpy numbers to Python numbers, which adapt to the dtype of other operands."""
    if type(value) in (int, float):
        return value
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0 and not hasattr(value, "__setitem__"):
        return value.item()
    return value


def _flat(named, prefix=""):
    """The members of structs by their full names."""
    flat = {}
    for name, value in named.items():
        flat.update(_flat(value, prefix + name + ".") if isinstance(value, dict) else {prefix + name: value})
    return flat


def _make(name, text, strict, backward, options):
    made = Kernel(name, text, strict, backward, options)
    made._options = (name, text, strict, backward, options)
    made._roots = tuple(dict.fromkeys(name.split(".", 1)[0] for name in made.parameters))
    return made


def kernel(name, text, *, strict=False, backward="", **options):
    """Creates a kernel from a formula: ``hg.kernel("polynomial", "a*x*x + b*x + c")(a=2, b=8, c=-1, x=x)``.

    docs/expressions.md describes the language. ``backward`` replaces the automatic gradients: ``"dx = dy * 2"`` for a
    parameter x and an output y (``dout`` if the output has no name). With ``strict``, only numbers broadcast.
    ``options`` are session options: ``device``, ``threads``, ...
    """
    return _make(name, text, strict, backward, options)
