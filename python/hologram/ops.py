# SPDX-License-Identifier: Apache-2.0
"""Every op of the library as a function that runs at once: ``hg.ops.add(a, b, out=None)``.

Inputs may be numpy arrays, torch tensors (the result is one too), tensors of an Executor, ``hg.Var`` objects (the result is an
expression) or values of a ``hg.Graph`` (a node is added). Attributes follow the inputs, by position or by name.

Dtypes of elementwise ops and ``concat`` are promoted like torch's. For other ops, a number takes the dtype of the first tensor.
``out`` is an array, or a tuple of arrays for an op with several results. Ops run on the CPU, or on the executor of
``with hg.Executor(...)``.
"""

import contextvars
import inspect
import threading

from . import _core

_call_with_gradient = None  # once torch is there
_current = contextvars.ContextVar("hologram_executor", default=None)
_local = threading.local()


def _executor():
    """The executor of the innermost ``with hg.Executor(...)``, or this thread's own on the CPU."""
    executor = _current.get()
    if executor is not None:
        return executor._open()
    depth = getattr(_local, "depth", 0)  # of custom kernels that call ops
    executor = getattr(_local, f"executor{depth}", None)
    if executor is None:
        executor = _core.ExecutorBase("cpu", 0, 0, "")
        setattr(_local, f"executor{depth}", executor)
    return executor


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
    # What must be given stands before what need not be.
    split = next((i for i, entry in enumerate(order) if entry[2] is not empty), len(order))
    order[split:split] = [(a[0], False, empty) for a in required]
    order += [(a[0], False, a[4]) for a in optional]
    names = [entry[0] for entry in order]
    input_names = [i[0] for i in inputs]
    places = {n: i for i, n in enumerate(names)}
    switch = next((a[4] for a in attributes if a[0] == "training"), True)  # of what is random in training alone
    variadic_name = input_names[-1] if is_variadic else None

    takes_inputs_alone = not is_variadic and not required

    def sorted_out(args, kwargs):
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
    function.__doc__ = text
    parameters = [
        inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default) for n, _, default in order
    ]
    parameters.append(inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None))
    try:
        function.__signature__ = inspect.Signature(parameters)
    except ValueError:  # a word of Python, or an optional argument before one that is not
        pass
    return function


def _call(name, tensors, attributes, out, random):
    if _core.is_followed(tensors):
        global _call_with_gradient
        if _call_with_gradient is None:
            from .torch._ops import call_with_gradient as _call_with_gradient
        return _call_with_gradient(name, tensors, attributes, random, out)
    return _core.eager_call(_executor(), name, tensors, attributes, out)


_rows = {row[0]: row for row in _core.op_table()}
_made = {}
__all__ = sorted(_rows)


def _function(name):
    row = _rows.get(name)
    if row is None:
        import difflib

        close = difflib.get_close_matches(name, _rows, 1)
        hint = f"; did you mean '{close[0]}'?" if close else ""
        raise AttributeError(f"there is no op '{name}'{hint}")
    function = _made.get(name)
    if function is None:
        function = _made[name] = _make(row)
    return function


def __getattr__(name):
    function = globals()[name] = _function(name)
    return function


def _add(name):
    """Adds a new op as a function of this module."""
    _rows[name] = _core.op_row(name)
    __all__[:] = sorted(_rows)
    return _function(name)


def __dir__():
    return __all__


def call(op, *args, **kwargs):
    """Calls any op by name."""
    return _function(op)(*args, **kwargs)
