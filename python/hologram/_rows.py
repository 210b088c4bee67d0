# SPDX-License-Identifier: Apache-2.0
"""Every op row of the library as a function: inputs, then attributes, by position or by name. ``hg.ops`` shows the rows whose
names are not PyTorch's; hologram's own Python code calls rows here.

A call runs at once, on the executor of ``with hg.Executor(...)`` or on this thread's own. With ``hg.Var`` objects it returns an
expression, with values of a ``hg.Graph`` a node. ``out`` is an array, or a tuple of arrays for an op with several results.
"""

import functools
import inspect

from . import _core

_call_with_gradient = None  # set once torch is loaded


def _builds(tensors):
    """The builder of an expression or graph for these inputs, unless they are to be computed at once."""
    for value in tensors:
        if type(value) is _core.Var:
            return _core.lazy_call
        if type(value) is _core.Value:
            return _core.graph_call
    return None


def _make(row):
    name, text, inputs, attributes, outputs, random = row
    is_variadic = bool(inputs) and inputs[-1][2]
    order = []  # (name, is_input, default)
    empty = inspect.Parameter.empty
    for input_name, optional, variadic in inputs:
        order.append((input_name, True, None if optional else () if variadic and len(inputs) > 1 else empty))
    required = [a for a in attributes if a[3]]
    optional = [a for a in attributes if not a[3]]
    # Required inputs and attributes come before optional ones.
    split = next((i for i, entry in enumerate(order) if entry[2] is not empty), len(order))
    order[split:split] = [(a[0], False, empty) for a in required]
    order += [(a[0], False, a[4]) for a in optional]
    names = [entry[0] for entry in order]
    input_names = [i[0] for i in inputs]
    places = {n: i for i, n in enumerate(names)}
    switch = next((a[4] for a in attributes if a[0] == "training"), True)  # of ops that are random only in training
    variadic_name = input_names[-1] if is_variadic else None

    takes_inputs_alone = not is_variadic and not required

    def sorted_out(args, kwargs):
        if is_variadic and len(input_names) == 1 and args and not isinstance(args[0], (list, tuple)):
            args = (args,)  # f(x, y) as f([x, y])
        if len(args) > len(names):
            raise TypeError(f"{name}() takes at most {len(names)} arguments, {len(args)} are given: {text}")
        given = dict(zip(names, args))
        for key, value in kwargs.items():
            if key not in places:
                raise TypeError(f"{name}() has no argument '{key}': {text}")
            if key in given:
                raise TypeError(f"{name}() has two values for '{key}'")
            given[key] = value
        tensors = []
        for n in input_names:
            if n == variadic_name:
                tensors.extend(given.pop(n, ()))
            elif n in given:
                tensors.append(given.pop(n))
            else:
                default = order[places[n]][2]
                if default is empty:
                    raise TypeError(f"{name}() needs '{n}': {text}")
                tensors.append(None)
        for attribute in required:
            if attribute[0] not in given:
                raise TypeError(f"{name}() needs '{attribute[0]}': {text}")
        return tensors, given

    def function(*args, out=None, **kwargs):
        if takes_inputs_alone and not kwargs and len(args) == len(input_names):
            tensors, given = list(args), {}
        else:
            tensors, given = sorted_out(args, kwargs)
        build = _builds(tensors)
        if build is not None:
            if out is not None:
                raise TypeError(f"{name}() of expressions has no out=")
            return build(name, tensors, given)
        draws = random and given.get("training", switch)
        return _call(name, tensors, given, out, draws)

    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    parameters = [
        inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default) for n, _, default in order
    ]
    parameters.append(inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None))
    shown = "(...)"
    try:
        function.__signature__ = inspect.Signature(parameters)
        shown = str(function.__signature__)
    except ValueError:  # a Python keyword, or an optional argument before a required one
        pass
    function.__doc__ = f"{name}{shown}\n\n{described(name)}"
    by_position = tuple(names[len(inputs) :]) if names[: len(inputs)] == input_names and not is_variadic else ()
    if takes_inputs_alone:
        return direct(function, name, split, len(inputs), None, by_position)
    if not by_position:
        return function
    return direct(function, name, len(inputs) + len(required), len(inputs), None, by_position)


def direct(function, row, least, most, constants=None, names=()):
    """The function, where calls with ``least`` to ``most`` tensors by position are calls of a row with these inputs, and those
    with more arguments are calls with attributes of these names."""
    return functools.update_wrapper(_core.Function(function, row, least, most, constants or {}, names), function)


def _call(name, tensors, attributes, out, random):
    if _core.is_followed(tensors):
        global _call_with_gradient
        if _call_with_gradient is None:
            from ._autograd._ops import call_with_gradient as _call_with_gradient
        return _call_with_gradient(name, tensors, attributes, random, out)
    return _core.eager_call(None, name, tensors, attributes, out)


_known = {each[0]: each for each in _core.op_table()}
_made = {}


def row_of(name):
    """(name, signature, inputs, attributes, outputs, random) of an op."""
    return _known[name]


def described(name):
    """The documentation of an op: the text above its row and its signature."""
    text = _core.op_text(name)
    return (f"{text}\n\n" if text else "") + f"The op {_known[name][1]}."


def row_names():
    """Names of all ops, including registered ones."""
    return list(_known)


def function_of(name):
    """The op as a function of its inputs and attributes, in the order of its row."""
    made = _made.get(name)
    if made is None:
        made = _made[name] = _make(_known[name])
    return made


def register(name):
    """Adds a new op."""
    _known[name] = _core.op_row(name)


def is_expression(value):
    """Whether a result is a node of an expression or graph."""
    return isinstance(value[0] if isinstance(value, tuple) and value else value, (_core.Var, _core.Value))


def __getattr__(name):
    if name not in _known:
        raise AttributeError(f"there is no op '{name}'")
    made = globals()[name] = function_of(name)
    return made


def call(op, *args, **kwargs):
    """Calls any op by the name of its row."""
    return function_of(op)(*args, **kwargs)
