# SPDX-License-Identifier: Apache-2.0
"""Models of named blocks: values have names, and blocks follow one another or are wired by name.

    from hologram import named as nn

    model = nn.Group([nn.Input("x", ("n", 4)), nn.Linear(64).output("hidden"), nn.ReLU(), nn.Linear(1).output("y")])
    program = hg.compile(model)
    parameters = program.initial_parameters(seed=1)
    outputs = program.evaluate(parameters, {"x": x})
    outputs, gradients = program.evaluate(parameters, {"x": x}, output_gradients={"y": dy})

Each block has ``input(outside, inside)``, ``output(outside, inside)``, ``named(name)`` and ``share(path)``; each returns a
copy of the block with that addition. docs/named.md explains the names. torch is not required.
"""

import inspect

from . import _core
from ._core import Block, PlanCache
from ._errors import UnsupportedError
from ._model import Model, load
from ._tensors import detached


class Program(_core.ProgramBase):
    """A compiled named model; ``hg.compile`` creates one."""

    gradients_of = ()  # further inputs and values whose gradients are returned

    def evaluate(self, parameters, data, output_gradients=None, out=None):
        """The outputs by name.

        With ``output_gradients``, a dict, the result is (outputs, gradients): gradients of the sum of each output times its
        gradient, with respect to every trainable parameter and the values of ``gradients_of``. An empty dict means ones, for
        the only output. ``out`` is a dict of arrays to write to. With torch tensors that require gradients, the outputs take
        part in autograd.
        """
        if _core.is_followed([*parameters.values(), *data.values()]):
            if output_gradients is not None or out is not None:
                raise ValueError("evaluate: parameters that require gradients go without output_gradients= and out=; use "
                                 "torch.no_grad()")  # fmt: skip
            from ._autograd._named import evaluate

            return evaluate(self, parameters, data)
        return self.evaluate_(parameters, data, output_gradients, out)

    def model(self, parameters=None, seed=0):
        """The model with copies of these parameters, by default ``initial_parameters(seed)``, as a ``hg.Model``: to save, train
        with ``hg.Trainer``, wrap for torch, or quantize."""
        given = self.initial_parameters(seed) if parameters is None else parameters
        return Model._of(self.model_({name: detached(value) for name, value in given.items()}))


def compile(model, **options):
    """Compiles a model of named blocks to a Program.

    Options: ``dtype`` ("float32", "float16", "bfloat16", "float64"), ``compute`` (the dtype of matrix products and convolutions
    alone, "float16" or "bfloat16"; ``use_amp=True`` means "bfloat16"), ``optimize`` ("full", "none"), ``deterministic``,
    ``training`` (dropout and batch_norm in training mode), ``frozen`` and ``trainable`` (patterns of parameters),
    ``gradients_of`` (paths of further inputs and values whose gradients are returned), ``constants`` (constant arrays
    by name), ``debug`` (called with every inner value), ``on_arena`` (called with each allocation), ``cache`` (a
    PlanCache), and the options of ``Model.session``. Raises ValueError that names both ends of a wire that does not
    fit.
    """
    if not isinstance(model, Block):
        hint = "Group([...])" if isinstance(model, (list, tuple)) else "a block, such as Group([...])"
        raise TypeError(f"compile takes {hint}, not a {type(model).__name__}")
    for name, is_right, wanted in (
        ("cache", lambda given: isinstance(given, PlanCache), "a PlanCache, which several calls of compile share"),
        ("debug", callable, "a function, which is called with every inner value"),
        ("on_arena", callable, "a function, which is called with each allocation"),
    ):
        if options.get(name) is not None and not is_right(options[name]):
            raise TypeError(f"compile: {name} takes {wanted}, not {options[name]!r}")
    if options.pop("use_amp", False):
        options.setdefault("compute", "bfloat16")
    program = Program(model, options)
    given = options.get("gradients_of") or ()
    program.gradients_of = (given,) if isinstance(given, str) else tuple(given)
    return program


def as_model(model):
    """A model, the path of one, or a program or block, which starts with its initial parameters, as a ``hg.Model``."""
    if isinstance(model, Block):
        model = compile(model)
    if isinstance(model, Program):
        return model.model()
    return model if isinstance(model, _core.ModelBase) else load(model)


def from_json(text):
    """Reads a block from the text of ``to_json()``; ValueError says what is wrong and where."""
    if not hasattr(_core, "block_from_json"):
        raise UnsupportedError("this build of hologram has no JSON: build it with HG_IO=ON")
    return _core.block_from_json(text)


def Group(blocks):
    """Combines blocks into one; the outermost group is the model."""
    return _core.block_group(list(blocks))


def Input(name, shape, dtype="float32"):
    """Data passed to each call; open sizes are names. float32 means the program's dtype."""
    return _core.block_input(name, shape, dtype)


def Parameter(name, shape, start=0.0, a=0.0, b=1.0, seed=0):
    """A separate parameter. Its initial value is a number, "uniform" (from ``a`` to ``b``), "normal" (mean ``a``, standard
    deviation ``b``) or "kaiming_uniform"."""
    return _core.block_parameter(name, shape, start, a, b, seed)


def Constant(name, value):
    """Constant numbers; copied."""
    return _core.block_constant(name, value)


def Call(op, **attributes):
    """Any op of ``hg.ops``: ``Call("add").input("a").input("b").output("sum")``."""
    return _core.block_call(op, attributes)


def _place(kind, names, given, named):
    """Settings by name. The first of ``names`` may be left out; ``given`` are the others, and perhaps the first, by position."""
    left = [name for name in names if named.get(name) is None]
    if len(given) < len(left):
        left = [name for name in left if name != names[0]]
    if len(given) != len(left):
        count = len(given) + sum(named.get(name) is not None for name in names)
        raise TypeError(f"{kind} takes {', '.join(names[1:])}, and {names[0]} first or not; {count} are given")
    return {**named, **dict(zip(left, given))}


def _layer(kind, text):
    """The function that creates layers of a kind; its arguments are the settings of the library's layer."""
    settings = _core.layer_settings(kind)
    required = [name for name, is_required, _ in settings if is_required]
    follows = bool(required) and not settings[0][1]  # the first setting is optional, and required ones follow
    names = [*(name for name, _, _ in settings[:1]), *required]

    if follows:

        def function(*given, **named):
            return _core.block_layer(kind, _place(kind, names, given, named))
    else:

        def function(*given, **named):
            try:
                return _core.block_layer(kind, function.__signature__.bind(*given, **named).arguments)
            except TypeError as e:
                raise TypeError(f"{kind}: {e}") from None

    empty = inspect.Parameter.empty
    place = inspect.Parameter.KEYWORD_ONLY if follows else inspect.Parameter.POSITIONAL_OR_KEYWORD
    shown = [
        inspect.Parameter(name, place, default=None if follows and name in names else empty if is_required else default)
        for name, is_required, default in settings
    ]
    if follows:
        shown.insert(0, inspect.Parameter("sizes", inspect.Parameter.VAR_POSITIONAL))
        optional = f"``{kind}({', '.join(required)})``, or ``{kind}({', '.join(names)})``."
        text = f"{optional} {text}".rstrip()
    function.__signature__ = inspect.Signature(shown)
    function.__name__ = function.__qualname__ = kind
    function.__doc__ = text
    return function


_LAYERS = {
    "Linear": "",
    "Conv1d": "",
    "Conv2d": "",
    "MaxPool1d": "The largest element of each window.",
    "MaxPool2d": "The largest element of each window.",
    "AvgPool1d": "The mean of each window.",
    "AvgPool2d": "The mean of each window.",
    "BatchNorm2d": "Over [n, num_features, h, w]; ``num_features`` defaults to the channels of the input. Its statistics are states "
                   "of the program.",
    "LayerNorm": "Over the last dims, whose sizes are given.",
    "GroupNorm": "Over groups of channels; ``num_channels`` defaults to the channels of the input.",
    "Embedding": "Looks up rows of a table by integer index; row ``padding_idx`` has no gradient.",
    "RNN": "Inputs: x [time, batch, features], and h0 or nothing; outputs: y and h, [layers * directions, batch, hidden_size]. For "
           "dropout between layers, put Dropout blocks between blocks of one layer.",
    "LSTM": "As RNN, with inputs x, and h0 and c0 or nothing, and outputs y, h and c.",
    "GRU": "As RNN.",
    "Flatten": "Joins dims to one.",
    "Dropout": "Zeros elements with probability ``p`` and divides the rest by ``1 - p``, in programs with ``training=True``.",
    "ReLU": "max(x, 0)",
    "LeakyReLU": "x, or ``negative_slope`` times x below 0.",
    "ELU": "x, or ``alpha`` times (exp(x) - 1) below 0.",
    "SiLU": "x / (1 + exp(-x))",
    "Softplus": "log(1 + exp(beta x)) / beta, or x where beta x exceeds the threshold.",
    "Sigmoid": "1 / (1 + exp(-x))",
    "Tanh": "tanh(x)",
    "GELU": "x times the standard normal distribution function at x; ``approximate`` may be \"tanh\".",
    "Softmax": "exp(x) divided by its sum along a dim.",
    "LogSoftmax": "The logarithm of Softmax.",
    "MSELoss": "Wire it to the input and the target, as every loss: ``MSELoss().input(\"y\").input(\"target\").output(\"loss\")``.",
    "L1Loss": "abs(x - target)",
    "HuberLoss": "Half the square of x - target up to ``delta``, linear beyond.",
    "CrossEntropyLoss": "Of scores and integer classes, or probabilities.",
    "BCELoss": "The binary cross entropy of probabilities.",
    "BCEWithLogitsLoss": "The binary cross entropy of sigmoid(x).",
}  # fmt: skip

globals().update({kind: _layer(kind, text) for kind, text in _LAYERS.items()})

__all__ = [
    "Block", "Call", "Constant", "Group", "Input", "Parameter", "PlanCache", "Program", "as_model", "compile", "from_json", *_LAYERS,
]  # fmt: skip
