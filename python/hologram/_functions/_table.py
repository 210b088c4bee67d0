# SPDX-License-Identifier: Apache-2.0
"""The registry of functions with PyTorch's signatures, and those that only rename an op row's arguments.

A line of ``_TABLE`` is a signature as PyTorch writes it, then, after ``->``, the op row and its inputs and attributes where names
differ. Parameters that the row knows by the same name pass through.
"""

import collections
import functools
import inspect
import re

from .. import _rows

functions = {}  # by name
_made = {}  # (function, signature without out) by name

# PyTorch accepts these names of parameters too, of numpy and of its overloads.
_OTHER_WORDS = {"x": "input", "a": "input", "A": "input", "B": "other", "x1": "input", "x2": "other", "input": "A", "b": "B", "axis": "dim", "keepdims": "keepdim",
                "sections": "indices_or_sections", "indices": "indices_or_sections"}  # fmt: skip

_UNARY = """
abs acos acosh asin asinh atan atanh bitwise_not ceil cos cosh detach digamma erf erfc erfinv exp exp2 expm1 floor frac isfinite
isinf isnan lgamma log log10 log1p log2 logical_not neg reciprocal rsqrt sigmoid signbit sin sinc sinh sqrt square tan tanh
trunc view_as_complex view_as_real geqrf matrix_exp det slogdet erfcx bessel_j0 bessel_j1 bessel_y0 bessel_y1
"""

_BINARY = """
atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign eq floor_divide fmax fmin fmod gcd ge gt
hypot lcm le logaddexp logical_and logical_or logical_xor lt matmul maximum minimum mul ne nextafter remainder xlogy
"""

_TABLE = """
pow(input, exponent) -> a=input, b=exponent
zeta(input, other) -> s=input, q=other
igamma(input, other) -> a=input, x=other
igammac(input, other) -> a=input, x=other
polygamma(n, input)
histc(input, bins=100, min=0, max=0)
clamp(input, min=None, max=None)
prelu(input, weight)
nan_to_num(input, nan=None, posinf=None, neginf=None)
logit(input, eps=None)
cummax(input, dim)
cummin(input, dim)
logcumsumexp(input, dim)
topk(input, k, dim=-1, largest=True, sorted=True) !sorted
kthvalue(input, k, dim=-1, keepdim=False)
mode(input, dim=-1, keepdim=False)
diagonal(input, offset=0, dim1=0, dim2=1)
diagonal_scatter(input, src, offset=0, dim1=0, dim2=1)
tril(input, diagonal=0)
triu(input, diagonal=0)
cosine_similarity(x1, x2, dim=1, eps=1e-8)
pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False)
cdist(x1, x2, p=2.0) -> a=x1, b=x2
cholesky(input, upper=False)
gelu(input, approximate="none")
glu(input, dim=-1)
hardshrink(input, lambd=0.5)
softshrink(input, lambd=0.5)
softplus(input, beta=1, threshold=20)
elu(input, alpha=1.0, inplace=False)
leaky_relu(input, negative_slope=0.01, inplace=False)
relu(input, inplace=False)
silu(input, inplace=False)
mish(input, inplace=False)
hardsigmoid(input, inplace=False)
hardswish(input, inplace=False)
logsigmoid(input) -> log_sigmoid
modified_bessel_k0(input) -> bessel_k0
modified_bessel_k1(input) -> bessel_k1
scaled_modified_bessel_k0(input) -> bessel_k0e
scaled_modified_bessel_k1(input) -> bessel_k1e
linear(input, weight, bias=None)
smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0)
soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean")
hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean")
binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean")
binary_cross_entropy_with_logits(input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None)
poisson_nll_loss(input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean")
cosine_embedding_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean") -> x1=input1, x2=input2
margin_ranking_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean") -> x1=input1, x2=input2
triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None, reduce=None, reduction="mean")
multi_margin_loss(input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean")
cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0)
"""

# The fields of results, as torch.return_types names them.
_FIELDS = {
    "max min median nanmedian mode kthvalue cummax cummin topk sort": "values indices", "aminmax": "min max", "qr": "Q R", "svd": "U S V", "lu lu_unpack": "P L U", "lu_factor": "LU pivots",
    "slogdet": "sign logabsdet", "frexp": "mantissa exponent", "geqrf": "a tau", "triangular_solve": "solution cloned_coefficient",
    "eig eigh": "eigenvalues eigenvectors", "lstsq": "solution residuals rank singular_values", "histogram histogramdd": "hist bin_edges",
    "solve_ex": "result info", "inv_ex": "inverse info", "cholesky_ex": "L info", "lu_factor_ex": "LU pivots info",
    "ldl_factor": "LD pivots", "ldl_factor_ex": "LD pivots info",
}  # fmt: skip
_RESULTS = {name: collections.namedtuple(name, fields) for names, fields in _FIELDS.items() for name in names.split()}

_ALIASES = """
absolute=abs arccos=acos arccosh=acosh arcsin=asin arcsinh=asinh arctan=atan arctanh=atanh arctan2=atan2 negative=neg fix=trunc
multiply=mul greater=gt greater_equal=ge less=lt less_equal=le not_equal=ne clip=clamp
"""


def into(result, out, name):
    """Writes results to ``out``, an array or a tuple of them, which is returned."""
    results = result if isinstance(result, tuple) else (result,)
    places = out if isinstance(out, (tuple, list)) else (out,)
    if not places:
        raise ValueError(f"{name}: out= names no tensor")
    if len(places) != len(results):
        raise ValueError(f"{name}: out= has {len(places)} arrays, the results are {len(results)}")
    try:
        for each, place in zip(results, places):
            dtype = str(getattr(each, "dtype", "")).removeprefix("torch.")
            if not dtype.startswith("complex"):
                _rows.contiguous(each, out=place)
            elif str(getattr(place, "dtype", None)).removeprefix("torch.") != dtype:
                raise ValueError(f": the result is {dtype}, the array to write to is {getattr(place, 'dtype', type(place).__name__)}")
            else:
                for part in ("real", "imag"):
                    _rows.contiguous(functions[part](each), out=getattr(place, part))
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}{str(error).removeprefix('contiguous')}") from None
    return out


def reduction_of(size_average, reduce, reduction):
    """PyTorch's older arguments for a reduction, which take precedence over the newer one."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


def _with_fields(function, kind):
    @functools.wraps(function)
    def named(*args, **kwargs):
        made = function(*args, **kwargs)
        return kind(*made) if type(made) in (tuple, list) else made

    return named


def _add(name, function, signature, doc=None, row=None):
    if name in _RESULTS:
        function, row = _with_fields(function, _RESULTS[name]), None
    parameters = list(signature.parameters.values())
    parameters.append(inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None))
    shown = signature.replace(parameters=parameters)
    known = frozenset(signature.parameters)
    may_write_input = "inplace" in known
    kinds = [each for each in signature.parameters.values() if each.kind is not each.KEYWORD_ONLY]
    least = sum(each.default is each.empty for each in kinds)
    most = next((i for i, each in enumerate(kinds) if each.name == "inplace"), len(kinds))
    is_plain = all(each.kind is each.POSITIONAL_OR_KEYWORD for each in kinds)

    def call(*args, out=None, **kwargs):
        if is_plain and out is None and not kwargs and least <= len(args) <= most:  # the usual call, without checks
            return function(*args)
        for key in kwargs.keys() - known:
            word = _OTHER_WORDS.get(key)
            if word not in known or word in kwargs:
                raise TypeError(f"{name}() has no argument '{key}': {name}{shown}")
            kwargs[word] = kwargs.pop(key)
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            text = str(error).replace("missing a required argument:", "needs")
            raise TypeError(f"{name}() {text}: {name}{shown}") from None
        if may_write_input and given.get("inplace"):
            if out is not None:
                raise TypeError(f"{name}(): inplace=True and out= both say where the result goes")
            out = given["input"]
        result = function(*args, **kwargs)
        if out is None:
            return result
        if _rows.is_expression(result):
            raise TypeError(f"{name}() of expressions writes to no array")
        return into(result, out, name)

    call.__name__ = call.__qualname__ = name
    call.__module__ = "hologram.ops"
    call.__signature__ = shown
    call.__doc__ = f"{name}{shown}\n\n{doc or function.__doc__ or 'See torch.'}"
    made = call
    if row is not None:  # (name, inputs, attributes)
        made = _rows.direct(call, row[0], least, row[1], row[2])
    functions[name], _made[name] = made, (function, signature, row)
    return made


def torch_function(*names, row=None, own_name=None):
    """Adds a function under its own name and its aliases. With its required arguments alone, it is the ``row``."""

    def add(function):
        shown = inspect.signature(function)
        least = sum(each.default is each.empty for each in shown.parameters.values())
        for name in (own_name or function.__name__.rstrip("_"), *names):
            _add(name, function, shown, row=row and (row, least, {}))
        return function

    return add


def define(name, doc, function, *names):
    """Adds a function of one line, and its aliases."""
    function.__doc__ = doc
    torch_function(*names, own_name=name)(function)


def _row_function(line):
    head, _, rest = line.partition("->")
    head, _, ignored = head.partition("!")
    ignored = set(ignored.split())
    name, text = re.match(r"\s*(\w+)\((.*)\)\s*$", head).groups()
    signature = inspect.signature(eval(f"lambda {text}: None"))  # a line of the table
    row, renamed = name, {}
    for word in filter(None, re.split(r"[,\s]+", rest)):
        key, equals, value = word.partition("=")
        if equals:
            renamed[key] = value
        else:
            row = word
    _, _, inputs, attributes, _, _ = _rows.row_of(row)
    input_names = [each[0] for each in inputs]
    if "input" in signature.parameters and "input" not in renamed.values():
        renamed[input_names[0]] = "input"
    if "other" in signature.parameters and "other" not in renamed.values():
        renamed[input_names[1]] = "other"
    sources = {key: renamed.get(key, key) for key in (*input_names, *(each[0] for each in attributes))}
    passed = {key: value for key, value in sources.items() if value in signature.parameters}
    left = set(signature.parameters) - set(passed.values()) - ignored - {"inplace", "size_average", "reduce"}
    assert not left, f"{name}: {left}"
    fallbacks = {key: each.default for key, each in signature.parameters.items() if each.default is not each.empty}
    has_legacy = "size_average" in signature.parameters
    call = _rows.function_of(row)
    # How many leading arguments are the row's inputs in its order.
    direct = 0
    for (key, _, is_variadic), parameter in zip(inputs, signature.parameters.values()):
        if sources[key] != parameter.name or is_variadic or parameter.kind is parameter.KEYWORD_ONLY:
            break
        direct += 1
    if not all(each[1] for each in inputs[direct:]):
        direct = 0
    constants = {key: fallbacks[value] for key, value in passed.items() if value in fallbacks and fallbacks[value] is not None}

    def function(*args, **kwargs):
        given = {**fallbacks, **signature.bind(*args, **kwargs).arguments}
        if has_legacy:
            given["reduction"] = reduction_of(given["size_average"], given["reduce"], given["reduction"])
        return call(**{key: given[value] for key, value in passed.items() if given[value] is not None})

    return name, function, signature, _rows.described(row), (row, direct, constants) if direct > 0 else None


for _line in [f"{name}(input)" for name in _UNARY.split()] + [f"{name}(input, other)" for name in _BINARY.split()] + _TABLE.split("\n"):
    if _line.strip():
        _add(*_row_function(_line))
for _pair in _ALIASES.split():
    _name, _of = _pair.split("=")
    _function, _signature, _row = _made[_of]
    _add(_name, _function, _signature, f"As {_of}.", _row)
