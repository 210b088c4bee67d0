# SPDX-License-Identifier: Apache-2.0
"""Custom ops whose kernels are functions or formulas."""

import inspect
import json
import re
import typing
from typing import NamedTuple

import numpy as np

from . import _core, ops


class TensorType(NamedTuple):
    """An input as a shape rule sees it; open sizes are text, such as "n"."""

    dtype: str
    shape: tuple


def register_op(signature=None, kernel=None, *, gradient=None, shape=None, pure=True):
    """Registers an op with ``hg.ops``, ``hg.Var``, ``hg.Graph``, ``hg.named.Call``, executors, and models loaded later.
    Returns the op's function. Without a kernel it is a decorator::

        @hg.register_op
        def wave(x, gain: float = 1.0):
            return x + gain * np.sin(x)

        @hg.register_op("swell(x, gain: float = 1) -> y", gradient=lambda dy, x, gain: dy * (1 + gain * np.cos(x)))
        def swell(x, gain):
            return x + gain * np.sin(x)

        hg.register_op("cube(x) -> y", "x * x * x", gradient="dx = 3 * x * x * dy")

    Without ``signature`` it follows from the function. Parameters that are annotated as bool, int, float, str, list[int] or
    list[float], or whose defaults are such values, are attributes; others are inputs, optional if the default is None. The
    output is ``y``; a function annotated with ``-> tuple[..., ...]`` has ``y0``, ``y1``, and so on.

    ``signature`` names inputs (``x``, ``x?`` optional, ``xs...`` any number), attributes with their types (bool int
    float str dtype int[] float[], ``= default``) and outputs. Call a name with a dot, such as ``acme.wave``, as
    ``hg.ops.call("acme.wave", x)``.

    ``kernel`` is a function or a text.

    - A function receives the inputs as numpy arrays, lent for the call and read-only, and the attributes by name. It
      returns one array per output. It runs on the CPU, one call at a time, with the GIL held. Its exceptions leave the
      call. Its result must depend only on its arguments; ``pure=False`` keeps identical calls apart.
    - A text of docs/expressions.md over inputs and attributes is fused, differentiated and run on every device.

    ``shape`` gives the results of a function: "like x" of an input x, or a function of the inputs as TensorTypes (and
    of the attributes by name) that returns a shape, or (dtype, shape), per output. Open sizes are text, such as
    "n + 1" and "floordiv(n, 2)". By default all inputs broadcast and their dtypes are promoted.

    ``gradient`` is a function or a text.

    - A function takes any of these by name: inputs, attributes, outputs ("y") and gradients of outputs ("dy"). It
      returns the gradient of the only input, a tuple with one per input, or a dict {"dx": ...}.
    - A text, "dx = ...", uses the same names.

    Without ``gradient``, a text is differentiated automatically; a function has no gradient.
    """
    if callable(signature) and kernel is None:
        signature, kernel = None, signature
    if signature is not None and not isinstance(signature, str):
        raise TypeError(f"register_op takes a signature, such as 'name(x) -> y', or a function, not a {type(signature).__name__}")
    if kernel is None:
        if signature is not None:
            _core.parse_signature(_with_words(signature))  # says now what is wrong with it
        return lambda function: register_op(signature, function, gradient=gradient, shape=shape, pure=pure)
    if signature is None:
        signature = _signature_of(kernel)
    signature = _with_words(signature)
    name, inputs, attributes, outputs, variadic_outputs = _core.parse_signature(signature)
    _check_names(name, inputs, attributes, outputs)
    input_names = [each for each, _ in inputs]
    is_text = isinstance(kernel, str)
    if not is_text and not callable(kernel):
        raise TypeError(f"the kernel of '{name}' is a function or a text, not a {type(kernel).__name__}")
    if variadic_outputs:
        raise ValueError(f"the outputs of '{name}' have names of their own; '{outputs[-1]}...' is none")
    if is_text and shape is not None:
        raise ValueError(f"the shapes of '{name}' follow from its text; shape= is for functions")
    if is_text and any(variadic for _, variadic in inputs):
        raise ValueError(f"a text reads inputs by name; '{inputs[-1][0]}...' has none")
    reads, gradient_run, gradient_text = [], None, ""
    if isinstance(gradient, str):
        gradient_text = gradient
    elif gradient is not None:
        if any(variadic for _, variadic in inputs):
            raise ValueError(f"the gradient of '{name}' takes inputs by name; '{inputs[-1][0]}...' has none")
        reads = _reads(gradient, name, input_names, attributes, outputs)
        gradient_run = _gradient(name, gradient, input_names, outputs, reads)
    run = None if is_text else _runner(name, kernel, outputs)
    infer = None if shape is None else _shape_rule(name, shape, input_names, outputs)
    _core.register_op(signature, run, kernel if is_text else "", infer, gradient_run, reads, gradient_text, pure)
    made = ops._add(name)
    if not is_text and kernel.__doc__:
        made.__doc__ = f"{kernel.__doc__}\n\n{made.__doc__}"
    return made


def _with_words(signature):
    """The signature with the op table's words for Python's."""
    return re.sub(r"=\s*(True|False|None)\b", lambda word: word[0].lower(), signature)


_ATTRIBUTES = {bool: "bool", int: "int", float: "float", str: "str", list[int]: "int[]", list[float]: "float[]",
               tuple[int, ...]: "int[]", tuple[float, ...]: "float[]"}  # fmt: skip


def _signature_of(function):
    """The signature of an op that a Python function describes."""
    name = getattr(function, "__name__", "")
    if not callable(function) or not name.isidentifier():
        raise TypeError(f"register_op of {name or type(function).__name__} needs a signature, such as 'name(x) -> y'")
    try:
        shown = inspect.signature(function, eval_str=True)
    except NameError as error:
        raise TypeError(f"register_op cannot read the annotations of '{name}' ({error}); give a signature, such as '{name}(x) -> y'") from None
    inputs, attributes = [], []
    for each in shown.parameters.values():
        default = each.default
        kind = _ATTRIBUTES.get(each.annotation) or (None if default is each.empty else _ATTRIBUTES.get(type(default)))
        if each.kind is each.VAR_KEYWORD:
            raise TypeError(f"'{name}' takes **{each.name}; the parameters of an op have names")
        if kind is None and default is not each.empty and default is not None:
            raise TypeError(f"the default of '{each.name}' in '{name}' is {default!r}; give a signature, such as '{name}(x) -> y'")
        if kind is None:
            inputs.append(each.name + ("..." if each.kind is each.VAR_POSITIONAL else "" if default is each.empty else "?"))
            continue
        text = "" if default is each.empty else f" = {json.dumps(list(default) if isinstance(default, tuple) else default)}"
        attributes.append(f"{each.name}: {kind}{text}")
    results = typing.get_args(shown.return_annotation) if typing.get_origin(shown.return_annotation) is tuple else ()
    if Ellipsis in results:
        raise TypeError(f"'{name}' returns any number of results; give a signature that names them, such as '{name}(x) -> y, z'")
    outputs = [f"y{i}" for i in range(len(results))] if len(results) > 1 else ["y"]
    return f"{name}({', '.join(inputs + attributes)}) -> {', '.join(outputs)}"


def _check_names(name, inputs, attributes, outputs):
    seen = set()
    for each in [*(n for n, _ in inputs), *attributes, *outputs, *("d" + n for n in outputs)]:
        if each in seen:
            raise ValueError(f"'{each}' has two meanings in the signature of '{name}' (dy is the gradient of y)")
        seen.add(each)


class _Inside:
    """While a kernel runs, ``hg.ops`` uses a separate executor."""

    def __enter__(self):
        self.token = _core.chosen.set(None)
        _core.enter_kernel()

    def __exit__(self, *unused):
        _core.leave_kernel()
        _core.chosen.reset(self.token)


def _store(what, results, places):
    """Writes a function's results to their outputs; casts dtypes like numpy's out=."""
    for label, result, place in zip(what, results, places):
        result = np.asarray(result)
        if result.shape != place.shape:
            raise ValueError(f"{label} is {result.shape}, its shape is {place.shape} by the op's rule")
        if result.dtype == place.dtype:
            np.copyto(place, result)
        elif result.dtype.kind == "V" or not np.can_cast(result.dtype, place.dtype, "same_kind"):
            raise TypeError(f"{label} is {result.dtype}, its dtype is {place.dtype} by the op's rule")
        else:
            np.copyto(place, result, casting="same_kind")


def _runner(name, kernel, outputs):
    what = [f"the output '{each}' of '{name}'" for each in outputs]

    def run(inputs, places, attributes):
        with _Inside():
            results = kernel(*inputs, **attributes)
            if len(places) == 1:
                results = (results,)
            elif not isinstance(results, (tuple, list)) or len(results) != len(places):
                raise ValueError(f"the kernel of '{name}' gives {len(places)} outputs ({', '.join(outputs)}) as a tuple")
            _store(what, results, places)

    return run


def _is_type(value):
    return isinstance(value, (tuple, list)) and len(value) == 2 and isinstance(value[1], (tuple, list))


def _shape_rule(name, rule, inputs, outputs):
    if isinstance(rule, str):
        like = rule.removeprefix("like ").strip()
        if like not in inputs:
            raise ValueError(f"the shape of '{name}' is '{rule}'; its inputs are {', '.join(inputs)}")
        index = inputs.index(like)
        return lambda types, attributes: [types[index]] * len(outputs)
    if not callable(rule):
        raise TypeError(f"the shape of '{name}' is a function or 'like x', not a {type(rule).__name__}")

    def infer(types, attributes):
        given = [None if each is None else TensorType(*each) for each in types]
        first = next((each.dtype for each in given if each is not None), "float32")
        made = rule(*given, **attributes)
        made = [made] if len(outputs) == 1 else list(made)
        if len(made) != len(outputs):
            raise ValueError(f"the shape rule of '{name}' gives {len(made)} shapes for {len(outputs)} outputs")
        return [_type_of(name, each, first) for each in made]

    return infer


def _type_of(name, given, dtype):
    if _is_type(given):
        dtype, given = given
    if not isinstance(given, (tuple, list)) or not all(isinstance(n, (int, str, np.integer)) for n in given):
        raise TypeError(f"the shape rule of '{name}' gives a tuple of sizes, or (dtype, sizes), not {given!r}")
    return dtype, tuple(n if isinstance(n, str) else int(n) for n in given)


def _reads(gradient, name, inputs, attributes, outputs):
    """The values that the function takes."""
    known = [*inputs, *attributes, *outputs, *("d" + each for each in outputs)]
    parameters = inspect.signature(gradient).parameters.values()
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return known
    reads = [each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    for each in parameters:
        if each.name not in known and each.default is each.empty:
            raise ValueError(f"the gradient of '{name}' takes '{each.name}'; there are {', '.join(known)}")
    return [each for each in reads if each in known]


def _gradient(name, gradient, inputs, outputs, reads):
    read_values = [*inputs, *(o for o in outputs if o in reads), *("d" + o for o in outputs if "d" + o in reads)]

    def run(values, places, attributes):
        wanted = [inputs[i] for i in attributes["wanted"]]
        given = {**dict(zip(read_values, values)), **attributes}
        with _Inside():
            made = gradient(**{each: given[each] for each in reads})
            if isinstance(made, dict):
                found = {each: made.get("d" + each, made.get(each)) for each in inputs}
            else:
                made = tuple(made) if isinstance(made, (tuple, list)) else (made,)
                if len(made) != len(inputs):
                    raise ValueError(f"the gradient of '{name}' gives {len(made)} values for {len(inputs)} inputs")
                found = dict(zip(inputs, made))
            results = []
            for each, place in zip(wanted, places):
                if found[each] is None:
                    raise ValueError(f"the gradient of '{name}' gives none of '{each}'")
                results.append(_summed(np.asarray(found[each]), place.shape))
            _store([f"the gradient of '{each}' of '{name}'" for each in wanted], results, places)

    return run


def _summed(dx, shape):
    """Sums a gradient over broadcast dims, back to the shape of the input."""
    added = dx.ndim - len(shape)
    if added < 0:
        return dx
    dx = dx.sum(axis=tuple(range(added))) if added else dx
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and dx.shape[i] != 1)
    return dx.sum(axis=axes, keepdims=True) if axes else dx
