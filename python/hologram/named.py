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

from . import _core
from ._core import Block, PlanCache
from ._errors import UnsupportedError
from ._model import Model, load
from ._tensors import detached

__all__ = [
    "AvgPool1d", "AvgPool2d", "BCELoss", "BCEWithLogitsLoss", "BatchNorm2d", "Block", "Call", "Constant", "Conv1d",
    "Conv2d", "CrossEntropyLoss", "Dropout", "ELU", "Embedding", "Flatten", "GELU", "GRU", "Group", "GroupNorm",
    "HuberLoss", "Input", "L1Loss", "LSTM", "LayerNorm", "LeakyReLU", "Linear", "LogSoftmax", "MSELoss", "MaxPool1d",
    "MaxPool2d", "Parameter", "PlanCache", "Program", "RNN", "ReLU", "SiLU", "Sigmoid", "Softmax", "Softplus", "Tanh",
    "as_model", "compile", "from_json",
]  # fmt: skip


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


def _placed(block, given, optional, required, keywords):
    """Values of a block's numbers by name. All are given by place, or all but the first, or by name."""
    named = {name: value for name, value in keywords.items() if value is not None}
    left = [name for name in (optional, *required) if name not in named]
    if len(given) < len(left):
        left = [name for name in left if name != optional]
    if len(given) != len(left):
        raise TypeError(f"{block} takes {', '.join(required)}, and {optional} first or not; {len(given) + len(named)} are given")
    return {optional: None, **named, **dict(zip(left, given))}


def _layer(kind, **settings):
    return _core.block_layer(kind, settings)


def Linear(*features, in_features=None, out_features=None, bias=True):
    """``Linear(out_features)``, or ``Linear(in_features, out_features)``."""
    keywords = {"in_features": in_features, "out_features": out_features}
    return _layer("Linear", **_placed("Linear", features, "in_features", ["out_features"], keywords), bias=bias)


def _conv(kind, given, in_channels, out_channels, kernel_size, **settings):
    keywords = {"in_channels": in_channels, "out_channels": out_channels, "kernel_size": kernel_size}
    return _layer(kind, **_placed(kind, given, "in_channels", ["out_channels", "kernel_size"], keywords), **settings)


def Conv1d(*channels_and_kernel, in_channels=None, out_channels=None, kernel_size=None, stride=1, padding=0, dilation=1, groups=1,
           bias=True):  # fmt: skip
    """``Conv1d(out_channels, kernel_size)``, or ``Conv1d(in_channels, out_channels, kernel_size)``."""
    return _conv("Conv1d", channels_and_kernel, in_channels, out_channels, kernel_size, stride=stride, padding=padding,
                 dilation=dilation, groups=groups, bias=bias)  # fmt: skip


def Conv2d(*channels_and_kernel, in_channels=None, out_channels=None, kernel_size=None, stride=1, padding=0, dilation=1, groups=1,
           bias=True):  # fmt: skip
    """``Conv2d(out_channels, kernel_size)``, or ``Conv2d(in_channels, out_channels, kernel_size)``."""
    return _conv("Conv2d", channels_and_kernel, in_channels, out_channels, kernel_size, stride=stride, padding=padding,
                 dilation=dilation, groups=groups, bias=bias)  # fmt: skip


def MaxPool1d(kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    """The largest element of each window."""
    return _layer("MaxPool1d", kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode)


def MaxPool2d(kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    """The largest element of each window."""
    return _layer("MaxPool2d", kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode)


def AvgPool1d(kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    """The mean of each window."""
    return _layer("AvgPool1d", kernel_size=kernel_size, stride=stride, padding=padding, ceil_mode=ceil_mode,
                  count_include_pad=count_include_pad)  # fmt: skip


def AvgPool2d(kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    """The mean of each window."""
    return _layer("AvgPool2d", kernel_size=kernel_size, stride=stride, padding=padding, ceil_mode=ceil_mode,
                  count_include_pad=count_include_pad)  # fmt: skip


def BatchNorm2d(num_features=None, eps=1e-5, momentum=0.1, affine=True):
    """Over [n, num_features, h, w]; ``num_features`` defaults to the channels of the input. Its statistics are states of
    the program."""
    return _layer("BatchNorm2d", num_features=num_features, eps=eps, momentum=momentum, affine=affine)


def LayerNorm(normalized_shape, eps=1e-5, elementwise_affine=True, bias=True):
    """Over the last dims, whose sizes are given."""
    return _layer("LayerNorm", normalized_shape=normalized_shape, eps=eps, elementwise_affine=elementwise_affine, bias=bias)


def GroupNorm(num_groups, num_channels=None, eps=1e-5, affine=True):
    """Over groups of channels; ``num_channels`` defaults to the channels of the input."""
    return _layer("GroupNorm", num_groups=num_groups, num_channels=num_channels, eps=eps, affine=affine)


def Embedding(num_embeddings, embedding_dim, padding_idx=None):
    """Looks up rows of a table by integer index; row ``padding_idx`` has no gradient."""
    return _layer("Embedding", num_embeddings=num_embeddings, embedding_dim=embedding_dim, padding_idx=padding_idx)


def _recurrent(kind, sizes, input_size, hidden_size, **settings):
    keywords = {"input_size": input_size, "hidden_size": hidden_size}
    return _layer(kind, **_placed(kind, sizes, "input_size", ["hidden_size"], keywords), **settings)


def RNN(*sizes, input_size=None, hidden_size=None, num_layers=1, nonlinearity="tanh", bias=True, batch_first=False,
        bidirectional=False):  # fmt: skip
    """``RNN(hidden_size)``, or ``RNN(input_size, hidden_size)``. Inputs: x [time, batch, features], and h0 or nothing; outputs: y and h,
    [layers * directions, batch, hidden_size]. For dropout between layers, put Dropout blocks between blocks of one layer."""
    return _recurrent("RNN", sizes, input_size, hidden_size, num_layers=num_layers, nonlinearity=nonlinearity, bias=bias,
                      batch_first=batch_first, bidirectional=bidirectional)  # fmt: skip


def LSTM(*sizes, input_size=None, hidden_size=None, num_layers=1, bias=True, batch_first=False, bidirectional=False, proj_size=0):
    """As RNN, with inputs x, and h0 and c0 or nothing, and outputs y, h and c."""
    return _recurrent("LSTM", sizes, input_size, hidden_size, num_layers=num_layers, bias=bias, batch_first=batch_first,
                      bidirectional=bidirectional, proj_size=proj_size)  # fmt: skip


def GRU(*sizes, input_size=None, hidden_size=None, num_layers=1, bias=True, batch_first=False, bidirectional=False):
    """As RNN."""
    return _recurrent("GRU", sizes, input_size, hidden_size, num_layers=num_layers, bias=bias, batch_first=batch_first,
                      bidirectional=bidirectional)  # fmt: skip


def Flatten(start_dim=1, end_dim=-1):
    """Joins dims to one."""
    return _layer("Flatten", start_dim=start_dim, end_dim=end_dim)


def Dropout(p=0.5):
    """Zeros elements with probability ``p`` and divides the rest by ``1 - p``, in programs with ``training=True``."""
    return _layer("Dropout", p=p)


def ReLU():
    """max(x, 0)"""
    return _layer("ReLU")


def LeakyReLU(negative_slope=0.01):
    """x, or ``negative_slope`` times x below 0."""
    return _layer("LeakyReLU", negative_slope=negative_slope)


def ELU(alpha=1.0):
    """x, or ``alpha`` times (exp(x) - 1) below 0."""
    return _layer("ELU", alpha=alpha)


def SiLU():
    """x / (1 + exp(-x))"""
    return _layer("SiLU")


def Softplus(beta=1.0, threshold=20.0):
    """log(1 + exp(beta x)) / beta, or x where beta x exceeds the threshold."""
    return _layer("Softplus", beta=beta, threshold=threshold)


def Sigmoid():
    """1 / (1 + exp(-x))"""
    return _layer("Sigmoid")


def Tanh():
    """tanh(x)"""
    return _layer("Tanh")


def GELU(approximate="none"):
    """x times the standard normal distribution function at x; ``approximate`` may be "tanh"."""
    return _layer("GELU", approximate=approximate)


def Softmax(dim):
    """exp(x) divided by its sum along a dim."""
    return _layer("Softmax", dim=dim)


def LogSoftmax(dim):
    """The logarithm of Softmax."""
    return _layer("LogSoftmax", dim=dim)


def MSELoss(reduction="mean"):
    """Wire it to the input and the target, as every loss: ``MSELoss().input("y").input("target").output("loss")``."""
    return _layer("MSELoss", reduction=reduction)


def L1Loss(*, reduction="mean"):
    """abs(x - target)"""
    return _layer("L1Loss", reduction=reduction)


def HuberLoss(*, reduction="mean", delta=1.0):
    """Half the square of x - target up to ``delta``, linear beyond."""
    return _layer("HuberLoss", reduction=reduction, delta=delta)


def CrossEntropyLoss(*, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    """Of scores and integer classes, or probabilities."""
    return _layer("CrossEntropyLoss", ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing)


def BCELoss(*, reduction="mean"):
    """The binary cross entropy of probabilities."""
    return _layer("BCELoss", reduction=reduction)


def BCEWithLogitsLoss(*, reduction="mean"):
    """The binary cross entropy of sigmoid(x)."""
    return _layer("BCEWithLogitsLoss", reduction=reduction)
