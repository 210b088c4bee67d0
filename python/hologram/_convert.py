# SPDX-License-Identifier: Apache-2.0
"""PyTorch modules, and files of TorchScript, torch.export and ONNX, as models."""

import copy
import json
import os
import shutil
import subprocess
import tempfile
import zipfile

from . import _core
from ._errors import CorruptModelError, HologramError, MismatchError, NotFoundError, UnsupportedError
from ._model import Model, load
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
            sizes = ", ".join(f"{name}={size}" for name, size in check["sizes"].items()) or "example sizes"
            worst = max((each["largest_error"] for each in check["outputs"]), default=0.0)
            lines.append(f"checked at {sizes}: largest error {worst:.3g}")
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
        leaves, _ = flatten(inputs)
        for i, leaf in enumerate(leaves):
            dtype, shape, _, _ = _core.describe(_detached(leaf))
            symbols = _symbols_of(dynamic, i, names[i] if names else None, len(shape))
            sizes = ",".join(symbols.get(d) or str(n) for d, n in enumerate(shape))
            name = f"{names[i]}:" if names else ""
            words += ["--input", f"{name}{_short(dtype)}[{sizes}]"]
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


def _symbols_of(dynamic, index, name, rank):
    """{dim: symbol} of one input."""
    if dynamic is None or dynamic is False:
        return {}
    if dynamic is True:
        dynamic = "n"
    if isinstance(dynamic, str):
        return {0: dynamic} if rank > 0 else {}
    if isinstance(dynamic, dict):
        entry = dynamic.get(name) if name in dynamic else dynamic.get(index)
    else:
        entry = dynamic[index] if index < len(dynamic) else None
    if entry is None:
        return {}
    if isinstance(entry, str):
        return {0: entry}
    pairs = entry.items() if isinstance(entry, dict) else enumerate(entry)
    return {d % rank if d < 0 else d: getattr(s, "__name__", s) for d, s in pairs if s is not None}


def _convert_script(torch, module, args, dynamic, output, check, options):
    """A ScriptModule goes through a file, as hg-convert reads it, and is checked beside the module that is here."""
    names = [each.name for each in module._c._get_method("forward").schema.arguments][1:]
    leaves = [each for each in flatten(args)[0] if isinstance(each, torch.Tensor)]
    own = names if len(leaves) == len(args) else []
    symbols = {
        i: _symbols_of(dynamic, i, own[i] if i < len(own) else None, leaf.dim()) for i, leaf in enumerate(leaves)
    }
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "model.pt")
        module.save(source)
        by_place = [{d: s for d, s in symbols[i].items()} for i in range(len(leaves))]
        model = _convert_file(source, tuple(leaves), by_place, output, check, None, options)
    tree = flatten(module(*copy.deepcopy(args)))[1]
    model._tree = None if tree == "*" or tree == ["tuple", ["*"] * len(model.outputs)] else tree
    if check:
        model.report.checks = []
        model.report.unchecked = ""
        _check(torch, module, model, args, {}, leaves, symbols if own else {})
    return model


# -- Modules --------------------------------------------------------------------------------------


def _convert_module(torch, module, args, kwargs, dynamic, output, check, options):
    leaves, _ = flatten((args, kwargs))
    tensors = [each for each in leaves if isinstance(each, torch.Tensor)]
    names = _argument_names(module, args, kwargs)
    shapes, symbols = _dynamic_shapes(torch, module, names, args, kwargs, dynamic)
    args, kwargs = _exportable(torch, args, kwargs, shapes, symbols)
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
        details = _run(source, target, ["--no-check", *options])
        model = _loaded(target, output)
    results, tree = flatten(result)
    model._tree = None if tree == "*" or tree == ["tuple", ["*"] * len(results)] else tree
    if len(results) != len(model.outputs):
        model._tree = None
    model.report = Report(details)
    if check:
        _check(torch, module, model, args, kwargs, tensors, symbols)
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


def _dynamic_shapes(torch, module, names, args, kwargs, dynamic):
    """(what torch.export takes, {argument's place: {dim: symbol}})."""
    values = [*args, *kwargs.values()]
    if dynamic is None or dynamic is False:
        return None, {}
    if not _is_own_language(dynamic):
        return dynamic, {}
    dims, entries, symbols = {}, [], {}
    known = {name for name in names if name}
    if isinstance(dynamic, dict):
        for key in dynamic:
            if key not in known and not (isinstance(key, int) and 0 <= key < len(values)):
                raise ValueError(f"dynamic names '{key}', the inputs are {', '.join(map(str, names))}")
    for i, value in enumerate(values):
        if not isinstance(value, torch.Tensor):
            inner = flatten(value)[0]
            if isinstance(dynamic, (str, bool)) and any(isinstance(each, torch.Tensor) for each in inner):
                entries.append(_map(torch, value, lambda t: {0: _dim(torch, dims, "n" if dynamic is True else dynamic)}))
            else:
                entries.append(None if not inner or not isinstance(value, (list, tuple, dict)) else _map(torch, value, lambda t: None))
            continue
        found = _symbols_of(dynamic, i, names[i], value.dim())
        symbols[i] = found
        for d in found:
            if not 0 <= d < value.dim():
                raise ValueError(f"dynamic names dim {d} of input {names[i] or i}, which has {value.dim()}")
        entries.append({d: _dim(torch, dims, s) for d, s in found.items()} or None)
    return _as_forward_has_them(module, names, entries, len(args)), symbols


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


def _dim(torch, dims, name):
    if name not in dims:
        dims[name] = torch.export.Dim(name)
    return dims[name]


def _map(torch, value, f):
    if isinstance(value, dict):
        return {k: _map(torch, v, f) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_map(torch, v, f) for v in value)
    return f(value) if isinstance(value, torch.Tensor) else None


def _is_own_language(dynamic):
    if isinstance(dynamic, (str, bool)):
        return True
    entries = dynamic.values() if isinstance(dynamic, dict) else dynamic
    for entry in entries:
        inner = entry.values() if isinstance(entry, dict) else entry if isinstance(entry, (list, tuple)) else [entry]
        if any(each is not None and not isinstance(each, str) for each in inner):
            return False
    return True


def _exportable(torch, args, kwargs, shapes, symbols):
    """Arguments whose open sizes are 2 at least: torch.export takes 1 and 0 for constants."""
    values = [*args, *kwargs.values()]
    for i, found in symbols.items():
        for d in found:
            if values[i].shape[d] == 0:
                raise ValueError(f"an open size of the example is 0; give one that is 2 or more (input {i}, dim {d})")
            if values[i].shape[d] == 1:
                values[i] = torch.cat([values[i], values[i]], d)
    return tuple(values[: len(args)]), dict(zip(kwargs, values[len(args) :]))


def _resized(torch, values, symbols, change):
    """The arguments with other open sizes: elements repeat, so that indices stay valid."""
    out = list(values)
    sizes = {}
    for i, found in symbols.items():
        for d, name in found.items():
            size = sizes.setdefault(name, change(out[i].shape[d]))
            index = torch.arange(size) % out[i].shape[d]
            out[i] = out[i].index_select(d, index)
    return out, sizes


def _check(torch, module, model, args, kwargs, tensors, symbols):
    """Runs the module and the model with the example, and with each open size 3 larger."""
    report = model.report
    twin = copy.deepcopy(module)
    values = [*args, *kwargs.values()]
    cases = [lambda size: size]
    if any(symbols.values()):
        cases.append(lambda size: size + 3)
    for k, change in enumerate(cases):
        given, sizes = _resized(torch, values, symbols, change)
        call = (tuple(given[: len(args)]), dict(zip(kwargs, given[len(args) :])))
        state = torch.random.get_rng_state()
        with torch.no_grad():
            try:
                first = flatten(copy.deepcopy(twin)(*call[0], **call[1]))[0]
                again = flatten(copy.deepcopy(twin)(*call[0], **call[1]))[0]
            except Exception:
                if k == 0:
                    raise
                continue  # the module does not take such sizes
        torch.random.set_rng_state(state)
        if any(not _same(torch, a, b) for a, b in zip(first, again)):
            report.unchecked = "the module draws random numbers"
            return
        inputs = [each for each in flatten(given)[0] if isinstance(each, torch.Tensor)]
        with torch.no_grad():
            ours = model.session(threads=0)(*inputs)
        ours = [_core.share(each, "torch") for each in flatten(ours)[0]]  # numpy's where there is no input
        outputs = [_compare(torch, name.name, a, b) for name, a, b in zip(model.outputs, first, ours)]
        report.checks.append({"sizes": sizes, "outputs": outputs})
        for each in outputs:
            if not each["largest_error"] <= each["allowed"]:
                raise MismatchError(
                    f"output '{each['name']}' differs from the module's by {each['largest_error']:.3g}, "
                    f"allowed are {each['allowed']:.3g}, at {sizes or 'the example'}",
                    report,
                )


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
