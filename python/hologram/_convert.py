# SPDX-License-Identifier: Apache-2.0
"""PyTorch modules, and files of TorchScript, torch.export and ONNX, as models."""

import copy
import json
import os
import re
import shutil
import subprocess
import tempfile
import zipfile

from . import _core
from ._errors import CorruptModelError, HologramError, MismatchError, NotFoundError, UnsupportedError
from ._model import Model, _size, load
from ._tree import flatten

# Relative to the largest element of an output, by dtype: rounding in another order, over whole models.
_TOLERANCE = {"float64": 1e-9, "float32": 2e-4, "float16": 2e-2, "bfloat16": 6e-2, "complex64": 2e-4, "complex128": 1e-9}


class Report:
    """What was converted and how it was checked.

    ``ops`` counts the ops; ``checks`` has a dict for each size that was run beside the module, with ``sizes``
    and for each output ``name``, ``largest_error`` and ``allowed``; ``unchecked`` says why there is none;
    ``details`` is the report of hg-convert, with ``warnings``, ``notes`` and ``inputs``.
    """

    def __init__(self, details, checks=(), unchecked=""):
        self.details = details
        self.checks = list(checks)
        self.unchecked = unchecked
        self.ops = details.get("ops", {})
        self.warnings = details.get("warnings", [])
        self.notes = details.get("notes", [])

    @property
    def ok(self):
        """Whether at least one size was checked, and all were equal."""
        return bool(self.checks) and all(
            each["largest_error"] <= each["allowed"] for check in self.checks for each in check["outputs"]
        )

    def __str__(self):
        lines = [f"{sum(self.ops.values())} ops of {len(self.ops)} kinds"]
        for check in self.checks:
            worst = max((each["largest_error"] for each in check["outputs"]), default=0.0)
            lines.append(f"checked at {_sizes_text(check['sizes'])}: largest error {worst:.3g}")
        if self.unchecked:
            lines.append(f"not checked: {self.unchecked}")
        lines += [f"warning: {each}" for each in self.warnings]
        return "\n".join(lines)

    __repr__ = __str__


def converter():
    """The path of hg-convert, which reads TorchScript files: of HOLOGRAM_CONVERT, or of PATH; None where there is none."""
    for path in (os.environ.get("HOLOGRAM_CONVERT"), shutil.which("hg-convert")):
        if path and os.access(path, os.X_OK):
            return path
    return None


def _is_torch_script(path):
    try:
        with zipfile.ZipFile(path) as file:
            return any("/code/" in name for name in file.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


def program_of(path):
    """The hg-convert that a file needs: a path, or None for the converter in this process."""
    found = converter() if _is_torch_script(path) or not hasattr(_core, "convert_file") else None
    if found is None and not hasattr(_core, "convert_file"):
        raise UnsupportedError("this build of hologram has no converter: build it with HG_CONVERTER=ON, or name an "
                               "hg-convert by HOLOGRAM_CONVERT")  # fmt: skip
    return found


def convert(module_or_path, example_inputs=None, dynamic=None, *, example_kwargs=None, output=None, check=True,
            names=None, options=()):  # fmt: skip
    """Makes a Model of a torch.nn.Module or torch.jit.ScriptModule, or of a TorchScript, ``.pt2`` or ONNX file.

    ``example_inputs`` are the arguments of a call (one tensor, or a tuple), ``example_kwargs`` those by name.
    ``dynamic`` says which sizes stay open: a name for the first size of every input (``"n"``), or for each input
    by its name or in order a dict or a list of names (``{"x": {0: "n"}}``, ``[["n", None, "h", "w"]]``); what
    torch.export takes as ``dynamic_shapes`` is taken, too. The model is run beside the module, with the example
    and with other open sizes, before it is returned: ``model.report`` says what was compared, and a difference
    raises MismatchError. Ops that cannot be converted raise one UnsupportedError, whose ``ops`` lists all.
    ``output`` is where the ``.hgm`` file goes, if it is to be kept; ``names`` name the inputs of a TorchScript
    file; ``options`` are further ones for hg-convert.
    """
    if isinstance(module_or_path, (str, os.PathLike)):
        return _convert_file(os.fspath(module_or_path), example_inputs, dynamic, output, check, names, options)
    try:
        import torch
    except ImportError:
        raise TypeError(f"convert takes a torch.nn.Module or a path, not a {type(module_or_path).__name__}") from None
    if not isinstance(module_or_path, torch.nn.Module):
        raise TypeError(f"convert takes a torch.nn.Module or a path, not a {type(module_or_path).__name__}")
    if example_inputs is None and example_kwargs is None:
        raise TypeError("a module is converted with example_inputs: the arguments of a call")
    args = example_inputs if isinstance(example_inputs, tuple) else () if example_inputs is None else (example_inputs,)
    if isinstance(module_or_path, torch.jit.ScriptModule):
        if example_kwargs:
            raise TypeError("a ScriptModule is converted with example_inputs in their order, without example_kwargs")
        return _convert_script(torch, module_or_path, args, dynamic, output, check, options)
    return _convert_module(torch, module_or_path, args, dict(example_kwargs or {}), dynamic, output, check, options)


# -- Running the converter ------------------------------------------------------------------------


def _run(source, target, options):
    """The report; an exception where there is no model."""
    program = program_of(source)
    words = [source, "-o", target, *options]
    if program is None:
        code, message, text = _core.convert_file(words)
        details = json.loads(text)
    else:
        code, message, details = _run_program(program, words)
    if code == 0:
        return details
    if code == 3:
        ops = details.get("unsupported", [])
        if ops:
            lines = [f"{each['op']} ({each['count']}x, {each['source'] or each['module'] or 'unknown place'}): {each['reason']}" for each in ops]
            message = "these ops cannot be converted: " + "; ".join(lines)
        raise UnsupportedError(message, ops)
    if code == 4:
        raise MismatchError(message, Report(details))
    if code == 2:
        raise CorruptModelError(message)
    if code == 1:
        raise ValueError(message)
    raise HologramError(f"{message} (hg-convert ended with {code})")


def _run_program(program, words):
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "report.json")
        done = subprocess.run([program, *words, "--json", log], capture_output=True, text=True)
        try:
            with open(log, encoding="utf-8") as file:
                details = json.load(file)
        except (OSError, ValueError):
            details = {}
    message = details.get("message") or done.stderr.strip() or "it said nothing"
    return done.returncode, message, details


def _loaded(target, output):
    """The model; from memory where the file is not kept."""
    if output is not None:
        return load(target)
    with open(target, "rb") as file:
        return load(file.read())


# -- Files ----------------------------------------------------------------------------------------


def _convert_file(path, inputs, dynamic, output, check, names, options):
    if not os.path.exists(path):
        raise NotFoundError(f"{path}: there is no such file")
    words = list(options)
    if inputs is not None:
        shapes, dtypes = [], []
        for leaf in flatten(inputs)[0]:
            dtype, shape, _, _ = _core.describe(_detached(leaf))
            dtypes.append(_short(dtype))
            shapes.append(tuple(shape))
        for i, (dtype, shape, symbols) in enumerate(zip(dtypes, shapes, _symbols(dynamic, names or [], shapes))):
            sizes = ",".join(symbols.get(d) or str(n) for d, n in enumerate(shape))
            name = f"{names[i]}:" if names else ""
            words += ["--input", f"{name}{dtype}[{sizes}]"]
    elif dynamic not in (None, False):
        raise ValueError("dynamic needs example_inputs, whose sizes it names")
    if not check:
        words.append("--no-check")
    with tempfile.TemporaryDirectory() as folder:
        target = os.path.join(folder, "model.hgm") if output is None else os.fspath(output)
        details = _run(path, target, words)
        model = _loaded(target, output)
    checks = [
        {"sizes": each["sizes"], "outputs": [o for o in each["outputs"] if o["verdict"] == "equal"]}
        for each in details.get("checks", [])
    ]
    model.report = Report(details, checks, "" if checks else "hg-convert had nothing to compare with")
    return model


def _short(dtype):
    names = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c"}
    for word, letter in names.items():
        if dtype.startswith(word) and dtype[len(word) :].isdigit():
            return letter + dtype[len(word) :]
    return dtype


def _symbols(dynamic, names, shapes):
    """{dim: symbol} of each input, of what is said in our own language; `names` may be fewer than the inputs."""
    count = len(shapes)
    if isinstance(dynamic, dict):
        for key in dynamic:
            if key not in names and not (isinstance(key, int) and 0 <= key < count):
                known = ", ".join(str(name) for name in names if name) or ", ".join(map(str, range(count)))
                raise ValueError(f"dynamic names '{key}', the inputs are {known}")
    elif isinstance(dynamic, (list, tuple)) and len(dynamic) > count:
        raise ValueError(f"dynamic has {len(dynamic)} entries for {count} inputs")
    seen, out = {}, []
    for i, shape in enumerate(shapes):
        name = names[i] if i < len(names) else None
        out.append({} if shape is None else _symbols_of(dynamic, i, name, len(shape)))
        for d, symbol in out[i].items():
            size, where = seen.setdefault(symbol, (shape[d], f"dim {d} of input {name or i}"))
            if size != shape[d]:
                raise ValueError(
                    f"dynamic gives the name '{symbol}' to sizes that differ: {size}, {where}, and {shape[d]}, dim {d} of input "
                    f"{name or i}"
                )
    return out


def _entry_of(dynamic, index, name):
    """What a dict or a list says of one input."""
    if isinstance(dynamic, dict):
        return dynamic.get(name) if name in dynamic else dynamic.get(index)
    return dynamic[index] if index < len(dynamic) else None


def _symbols_of(dynamic, index, name, rank):
    """{dim: symbol} of one input."""
    if dynamic is None or dynamic is False:
        return {}
    if dynamic is True:
        dynamic = "n"
    if isinstance(dynamic, str):
        return {0: dynamic} if rank > 0 else {}
    entry = _entry_of(dynamic, index, name)
    if entry is None:
        return {}
    if isinstance(entry, str):
        entry = {0: entry}
    pairs = entry.items() if isinstance(entry, dict) else enumerate(entry)
    symbols = {}
    for d, symbol in pairs:
        symbol = getattr(symbol, "__name__", symbol)  # of a torch.export.Dim
        if symbol is None or isinstance(symbol, int):
            continue
        if not -rank <= d < rank:
            raise ValueError(f"dynamic names dim {d} of input {name or index}, which has {rank}")
        symbols[d % rank] = symbol
    return symbols


def _convert_script(torch, module, args, dynamic, output, check, options):
    """A ScriptModule goes through a file, as hg-convert reads it, and is checked beside the module that is here."""
    names = [each.name for each in module._c._get_method("forward").schema.arguments][1:]
    leaves = [each for each in flatten(args)[0] if isinstance(each, torch.Tensor)]
    own = names if len(leaves) == len(args) else []
    symbols = _symbols(dynamic, own[: len(leaves)], [tuple(leaf.shape) for leaf in leaves])
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "model.pt")
        module.save(source)
        model = _convert_file(source, tuple(leaves), symbols, output, check, None, options)
    tree = flatten(module(*copy.deepcopy(args)))[1]
    model._tree = None if tree == "*" or tree == ["tuple", ["*"] * len(model.outputs)] else tree
    if check:
        model.report.checks = []
        model.report.unchecked = ""
        _check(torch, module, model, args, {}, symbols)
    return model


# -- Modules --------------------------------------------------------------------------------------


def _convert_module(torch, module, args, kwargs, dynamic, output, check, options):
    shapes = _dynamic_shapes(torch, module, args, kwargs, dynamic)
    if not shapes:
        shapes = None
    else:
        args, kwargs = _exportable(torch, module, args, kwargs, shapes)
    given = [each for each in flatten((args, kwargs))[0] if isinstance(each, torch.Tensor)]
    before = [each.clone() for each in given]
    with torch.no_grad():
        result = copy.deepcopy(module)(*args, **kwargs)
    if not all(_same(torch, a, b) for a, b in zip(given, before)):
        raise UnsupportedError("the module writes to its inputs, which a model does not")
    try:
        with torch.no_grad():
            program = torch.export.export(module, args, kwargs or None, dynamic_shapes=shapes, strict=False)
    except Exception as error:
        raise UnsupportedError(f"torch.export cannot capture the module: {error}") from error
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "model.pt2")
        target = os.path.join(folder, "model.hgm") if output is None else os.fspath(output)
        torch.export.save(program, source)
        # It is checked here, beside the module itself.
        named, symbols, ranges = _named_sizes(torch, module, program, args, kwargs, shapes)
        details = _run(source, target, ["--no-check", *named, *options])
        model = _loaded(target, output)
    results, tree = flatten(result)
    model._tree = None if tree == "*" or tree == ["tuple", ["*"] * len(results)] else tree
    if len(results) != len(model.outputs):
        model._tree = None
    model.report = Report(details)
    if check:
        _check(torch, module, model, args, kwargs, symbols, ranges)
    else:
        model.report.unchecked = "check=False"
    return model


def _parameters(module):
    import inspect

    try:
        return list(inspect.signature(module.forward).parameters.values())
    except (TypeError, ValueError):
        return []


def _argument_names(module, args, kwargs):
    names = [p.name for p in _parameters(module) if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    while len(names) < len(args):
        names.append(None)
    return names[: len(args)] + list(kwargs)


def _dynamic_shapes(torch, module, args, kwargs, dynamic):
    """What torch.export takes."""
    if dynamic is None or dynamic is False:
        return None
    dims = {}
    if not _is_own_language(dynamic):
        given = dynamic.dynamic_shapes(module, args, kwargs) if hasattr(dynamic, "dynamic_shapes") else dynamic
        return _with_dims(torch, given, dims)
    values, names = [*args, *kwargs.values()], _argument_names(module, args, kwargs)
    tensors = [tuple(value.shape) if isinstance(value, torch.Tensor) else None for value in values]
    symbols, entries = _symbols(dynamic, names, tensors), []
    for value, found in zip(values, symbols):
        if isinstance(value, torch.Tensor):
            entries.append({d: _dim(torch, dims, symbol) for d, symbol in found.items()} or None)
        elif isinstance(dynamic, (str, bool)):  # of all tensors in lists and dicts, too
            entries.append(_map(torch, value, lambda t: {0: _dim(torch, dims, "n" if dynamic is True else dynamic)} if t.dim() else None))
        else:
            entry = _entry_of(dynamic, len(entries), names[len(entries)])
            entries.append(_map(torch, value, lambda t: None) if entry is None else _with_dims(torch, entry, dims))
    return _as_forward_has_them(module, names, entries, len(args))


def _as_forward_has_them(module, names, entries, places):
    """What torch.export takes for each parameter of forward: those of *args and **kwargs together."""
    found, left = {}, dict(zip(names[places:], entries[places:]))
    in_order = iter(entries[:places])
    for p in _parameters(module):
        if p.kind == p.VAR_POSITIONAL:
            rest = tuple(in_order)
            if rest:
                found[p.name] = rest
        elif p.kind == p.VAR_KEYWORD:
            if left:
                found[p.name] = left
        elif p.name in left:
            found[p.name] = left.pop(p.name)
        elif p.kind != p.KEYWORD_ONLY:
            for entry in in_order:
                found[p.name] = entry
                break
    return found


def _marks(torch, module, args, kwargs, shapes):
    """{dim: torch.export.Dim, or its like} of each tensor among the arguments, in order."""
    by_name = shapes if isinstance(shapes, dict) else dict(zip((p.name for p in _parameters(module)), shapes))
    in_order, keys = [], {}
    for p in _parameters(module):
        entry = by_name.get(p.name)
        if p.kind == p.VAR_POSITIONAL:
            in_order += list(entry or ())
        elif p.kind == p.VAR_KEYWORD:
            keys.update(entry or {})
        elif p.name not in kwargs and p.kind != p.KEYWORD_ONLY:
            in_order.append(entry)
    out = []

    def walk(value, entry):
        if isinstance(value, torch.Tensor):
            pairs = entry.items() if isinstance(entry, dict) else enumerate(entry or ())
            out.append({d % value.dim(): mark for d, mark in pairs if mark is not None and not isinstance(mark, int)})
        elif isinstance(value, dict):
            for key, each in value.items():
                walk(each, entry.get(key) if isinstance(entry, dict) else None)
        elif isinstance(value, (list, tuple)):
            for i, each in enumerate(value):
                walk(each, entry[i] if isinstance(entry, (list, tuple)) and i < len(entry) else None)
        else:  # of a class that torch knows
            for each in torch.utils._pytree.tree_leaves(value):
                if isinstance(each, torch.Tensor):
                    out.append({})

    for i, value in enumerate(args):
        walk(value, in_order[i] if i < len(in_order) else None)
    for key, value in kwargs.items():
        walk(value, by_name.get(key, keys.get(key)))
    return out


def _dim(torch, dims, name):
    if name not in dims:
        if not name.isidentifier():
            raise ValueError(f"dynamic names a size '{name}'; a name is a word, such as n")
        dims[name] = torch.export.Dim(name)
    return dims[name]


def _with_dims(torch, shapes, dims):
    """What torch.export takes, with words for some of its sizes."""
    if isinstance(shapes, str):
        return _dim(torch, dims, shapes)
    if isinstance(shapes, dict):
        return {key: _with_dims(torch, each, dims) for key, each in shapes.items()}
    if isinstance(shapes, (list, tuple)):
        return type(shapes)([_with_dims(torch, each, dims) for each in shapes])
    return shapes


def _map(torch, value, f):
    if isinstance(value, dict):
        return {k: _map(torch, v, f) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        made = [_map(torch, v, f) for v in value]
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    return f(value) if isinstance(value, torch.Tensor) else None


def _is_own_language(dynamic):
    """Whether it names sizes with words alone."""
    if isinstance(dynamic, dict):
        return all(_is_own_language(each) for each in dynamic.values())
    if isinstance(dynamic, (list, tuple)):
        return all(_is_own_language(each) for each in dynamic)
    return dynamic is None or isinstance(dynamic, (str, bool))


def _exportable(torch, module, args, kwargs, shapes):
    """Arguments whose open sizes are 2 at least: torch.export takes 1 and 0 for constants."""
    leaves, tree = torch.utils._pytree.tree_flatten((args, kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    seen = {}
    for place, marks in zip(places, _marks(torch, module, args, kwargs, shapes)):
        for d, mark in marks.items():
            size, name = leaves[place].shape[d], getattr(mark, "__name__", None)
            if name is None:
                continue
            if size == 0:
                raise ValueError(f"the open size {name} of the example is 0; give one that is 2 or more")
            if seen.setdefault(name, size) != size:
                raise ValueError(f"dynamic gives the name '{name}' to sizes that differ: {seen[name]} and {size}")
    for place, marks in zip(places, _marks(torch, module, args, kwargs, shapes)):
        for d, mark in marks.items():
            if leaves[place].shape[d] == 1 and getattr(mark, "__name__", "").isidentifier():
                leaves[place] = torch.cat([leaves[place], leaves[place]], d)
    return torch.utils._pytree.tree_unflatten(leaves, tree)


def _named_sizes(torch, module, program, args, kwargs, shapes):
    """Options for hg-convert with the names that the user gave to open sizes; for each tensor {dim: expression of
    names}; and {name: (least, most)}. torch has names of its own, such as s40."""
    tensors = [each for each in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    inputs = [nodes[name] for name in program.graph_signature.user_inputs if isinstance(name, str) and name in nodes]
    inputs = [node for node in inputs if isinstance(node.meta.get("val"), torch.Tensor)]
    if not shapes or len(inputs) != len(tensors):
        return [], [{} for _ in tensors], {}
    sizes = [
        {d: size.node.expr for d, size in enumerate(node.meta["val"].shape) if isinstance(size, torch.SymInt)} for node in inputs
    ]
    names = {}
    for found, marks in zip(sizes, _marks(torch, module, args, kwargs, shapes)):
        for d, mark in marks.items():
            name = getattr(mark, "__name__", "")
            if d in found and found[d].is_Symbol and name.isidentifier():
                names.setdefault(found[d], name)
    free = {symbol for found in sizes for expression in found.values() for symbol in expression.free_symbols}
    for symbol in sorted(free - set(names), key=str):  # torch's own, which are not those of others
        name = str(symbol)
        while name in names.values():
            name += "_"
        names[symbol] = name
    made = {symbol: type(symbol)(name) for symbol, name in names.items()}
    texts = [{d: str(expression.xreplace(made)) for d, expression in found.items()} for found in sizes]
    ranges = {}
    for symbol, name in names.items():
        if symbol in program.range_constraints:
            ranges[name] = tuple(_bound(each) for each in (program.range_constraints[symbol].lower, program.range_constraints[symbol].upper))
    words = []
    for node, found in zip(inputs, texts):
        dtype, shape = node.meta["val"].dtype, node.meta["val"].shape
        dims = ",".join(found.get(d) or str(int(size)) for d, size in enumerate(shape))
        words += ["--input", f"{node.name}:{_short(str(dtype).removeprefix('torch.'))}[{dims}]"]
    plain = all(re.fullmatch(r"[\w +*()-]+", text) and "**" not in text for found in texts for text in found.values())
    renamed = any(str(symbol) != name for symbol, name in names.items())
    return words if plain and renamed else [], texts, ranges


def _bound(value):
    """None without an end: torch has infinities of its own."""
    return int(value) if getattr(value, "is_Integer", False) else None


def _other_sizes(sizes, ranges):
    """Sizes to check with beside the example's: larger ones first, within torch's ranges."""
    for change in (lambda n: n + 3, lambda n: 2 * n, lambda n: 3 * n, lambda n: n + 1, lambda n: n - 1):
        found = {}
        for name, size in sizes.items():
            least, most = ranges.get(name, (None, None))
            found[name] = max(change(size), least or 2)
            if most is not None and found[name] > most:
                found[name] = size - 1 if size - 1 >= (least or 2) else size
        if found != sizes:
            yield found


def _resized(torch, leaves, symbols, sizes):
    """The arguments with other open sizes: elements repeat, so that indices stay valid."""
    out, found = list(leaves), iter(symbols)
    for i, leaf in enumerate(out):
        if not isinstance(leaf, torch.Tensor):
            continue
        for d, text in next(found).items():
            index = torch.arange(_size(text, sizes)) % leaf.shape[d]
            out[i] = out[i].index_select(d, index)
    return out


def _sizes_of(torch, leaves, symbols):
    """The open sizes of the example by name; of those that no input has alone, none."""
    sizes = {}
    for leaf, found in zip((each for each in leaves if isinstance(each, torch.Tensor)), symbols):
        sizes.update({text: int(leaf.shape[d]) for d, text in found.items() if text.isidentifier()})
    return sizes


def _check(torch, module, model, args, kwargs, symbols, ranges=None):
    """Runs the module and the model with the example, and with other open sizes."""
    leaves, tree = torch.utils._pytree.tree_flatten((args, kwargs))
    sizes = _sizes_of(torch, leaves, symbols)
    if not _check_at(torch, module, model, torch.utils._pytree.tree_unflatten(leaves, tree), sizes):
        return
    for other in _other_sizes(sizes, ranges or {}):
        given = torch.utils._pytree.tree_unflatten(_resized(torch, leaves, symbols, other), tree)
        try:
            _outputs_of(torch, module, given)
        except Exception:
            continue  # the module does not take such sizes
        try:
            _check_at(torch, module, model, given, other)
            return
        except MismatchError:
            raise
        except (HologramError, ValueError) as error:
            model.report.warnings.append(f"the model does not take {_sizes_text(other)}: {error}")


def _outputs_of(torch, module, call):
    with torch.no_grad():
        return flatten(copy.deepcopy(module)(*call[0], **call[1]))[0]


def _sizes_text(sizes):
    return ", ".join(f"{name}={size}" for name, size in sizes.items()) or "example sizes"


def _check_at(torch, module, model, call, sizes):
    """Compares them at these sizes; False where that cannot be done."""
    report = model.report
    state = torch.random.get_rng_state()
    first, again = _outputs_of(torch, module, call), _outputs_of(torch, module, call)
    torch.random.set_rng_state(state)
    if any(not _same(torch, a, b) for a, b in zip(first, again)):
        report.unchecked = "the module draws random numbers"
        return False
    inputs = [each for each in torch.utils._pytree.tree_leaves(call) if isinstance(each, torch.Tensor)]
    with torch.no_grad():
        ours = model.session(threads=0)(*inputs)
    ours = [_core.share(each, "torch") for each in flatten(ours)[0]]  # numpy's where there is no input
    outputs = [_compare(torch, name.name, a, b) for name, a, b in zip(model.outputs, first, ours)]
    report.checks.append({"sizes": sizes, "outputs": outputs})
    for each in outputs:
        if not each["largest_error"] <= each["allowed"]:
            raise MismatchError(
                f"output '{each['name']}' differs from the module's by {each['largest_error']:.3g}, "
                f"allowed are {each['allowed']:.3g}, at {_sizes_text(sizes)}",
                report,
            )
    return True


def _same(torch, a, b):
    if not isinstance(a, torch.Tensor):
        return a == b
    return a.shape == b.shape and bool(torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)))


def _compare(torch, name, want, got):
    """Largest error and what is allowed of it; infinite where shapes, dtypes or what is not finite differ."""
    want = want if isinstance(want, torch.Tensor) else torch.as_tensor(want)
    out = {"name": name, "largest_error": float("inf"), "allowed": 0.0}
    if want.shape != got.shape or want.dtype != got.dtype:
        return out
    if want.numel() == 0:
        return {**out, "largest_error": 0.0}
    if not (want.is_floating_point() or want.is_complex()):
        return {**out, "largest_error": float((want.to(torch.float64) - got.to(torch.float64)).abs().max())}
    wide = torch.complex128 if want.is_complex() else torch.float64
    a, b = want.to(wide), got.to(wide)
    finite = torch.isfinite(a)
    if not torch.equal(finite, torch.isfinite(b)):
        return out
    if not want.is_complex() and not torch.equal(torch.nan_to_num(a[~finite], nan=7.0), torch.nan_to_num(b[~finite], nan=7.0)):
        return out
    scale = float(a[finite].abs().max()) if bool(finite.any()) else 0.0
    error = float((a[finite] - b[finite]).abs().max()) if bool(finite.any()) else 0.0
    rate = _TOLERANCE[str(want.dtype).removeprefix("torch.")]
    return {**out, "largest_error": error, "allowed": rate * max(scale, 1e-3)}


def _detached(tensor):
    return tensor.detach() if hasattr(tensor, "detach") else tensor
