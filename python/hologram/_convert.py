# SPDX-License-Identifier: Apache-2.0
"""Converts PyTorch modules and TorchScript, torch.export and ONNX files to models."""

import contextlib
import copy
import json
import os
import shutil
import subprocess
import tempfile
import zipfile

from . import _core
from ._check import compare_with_module, results_of, same, sizes_text
from ._errors import CorruptModelError, HologramError, MismatchError, NotFoundError, UnsupportedError
from ._levels_check import compare_from_levels
from ._model import load, lost_gradients, path_of
from ._open_sizes import dynamic_shapes, exportable, named_sizes, short_dtype, symbols_of, with_limits
from ._tensors import detached
from ._tree import flatten


class Report:
    """What was converted and how it was checked.

    ``ops`` counts the ops. ``checks`` has one dict per checked size, with ``sizes`` and, for each output, ``name``,
    ``largest_error`` and ``allowed``. ``unchecked`` gives the reason if nothing was checked. ``details`` is the report
    of hg-convert, with ``warnings``, ``notes`` and ``inputs``.
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
        """Whether at least one size was checked and every output was within tolerance."""
        return bool(self.checks) and all(
            each["largest_error"] <= each["allowed"] for check in self.checks for each in check["outputs"]
        )

    def __str__(self):
        lines = [f"{sum(self.ops.values())} ops of {len(self.ops)} kinds"]
        for check in self.checks:
            worst = max((each["largest_error"] for each in check["outputs"]), default=0.0)
            lines.append(f"checked at {sizes_text(check['sizes'])}: largest error {worst:.3g}")
        if self.unchecked:
            lines.append(f"not checked: {self.unchecked}")
        lines += [f"warning: {each}" for each in self.warnings]
        return "\n".join(lines)

    __repr__ = __str__


def converter():
    """The path of the hg-convert that reads TorchScript files: HOLOGRAM_CONVERT, or found on PATH; otherwise None."""
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


def _has_packed_weights(torch, module):
    """Whether layers of torch.ao.nn.quantized are among the modules."""

    def is_packed(value):
        if isinstance(value, torch.ScriptObject):
            return any(name in str(value._type()) for name in ("classes.quantized", "classes.rnn.CellParams"))
        return isinstance(value, torch.Tensor) and value.is_quantized

    return not isinstance(module, torch.jit.ScriptModule) and any(
        is_packed(value) for each in module.modules() for value in vars(each).values())  # fmt: skip


def program_of(path):
    """The hg-convert that a file needs: a path, or None for the converter in this process."""
    found = converter() if _is_torch_script(path) or not hasattr(_core, "convert_file") else None
    if found is None and not hasattr(_core, "convert_file"):
        raise UnsupportedError("this build of hologram has no converter: build it with HG_CONVERTER=ON, or name an "
                               "hg-convert by HOLOGRAM_CONVERT")  # fmt: skip
    return found


def convert(module_or_path, example_inputs=None, dynamic=None, *, example_kwargs=None, output=None, check=True,
            names=None, options=()):  # fmt: skip
    """Converts a torch.nn.Module or ScriptModule, or a TorchScript, ``.pt2`` or ONNX file, to a Model.

    ``example_inputs`` are the arguments of one call (a tensor or a tuple), ``example_kwargs`` the keyword arguments.
    ``dynamic`` names the sizes that stay open: one name for the first size of every input (``"n"``), or a dict or list
    per input, by name or in order (``{"x": {0: "n"}}``, ``[["n", None, "h", "w"]]``). It also accepts torch.export's
    ``dynamic_shapes``.

    Before it returns, the model is compared with the module on the example and at other open sizes. ``model.report``
    holds the result; a difference raises MismatchError. One UnsupportedError lists all unsupported ops in ``ops``.

    ``output`` is the path of the ``.hgm`` file, if it is to be kept. ``names`` are the input names of a TorchScript
    file. ``options`` are further options of hg-convert.
    """
    if isinstance(module_or_path, (str, os.PathLike)):
        return _convert_file(path_of(module_or_path), example_inputs, dynamic, output, check, names, options)
    try:
        import torch
    except ImportError:
        raise TypeError(f"convert takes a torch.nn.Module or a path, not a {type(module_or_path).__name__}") from None
    if not isinstance(module_or_path, torch.nn.Module):
        raise TypeError(f"convert takes a torch.nn.Module or a path, not a {type(module_or_path).__name__}")
    if example_inputs is None and example_kwargs is None:
        raise TypeError("a module is converted with example_inputs: the arguments of a call")
    args = example_inputs if isinstance(example_inputs, tuple) else () if example_inputs is None else (example_inputs,)
    if _has_packed_weights(torch, module_or_path):  # torch.export cannot capture them
        if example_kwargs:
            raise TypeError("a quantized module is converted with example_inputs in their order, without example_kwargs")
        with torch.no_grad():
            module_or_path = torch.jit.trace(module_or_path, args, check_trace=False)
    if isinstance(module_or_path, torch.jit.ScriptModule):
        if example_kwargs:
            raise TypeError("a ScriptModule is converted with example_inputs in their order, without example_kwargs")
        return _convert_script(torch, module_or_path, args, dynamic, output, check, options)
    return _convert_module(torch, module_or_path, args, dict(example_kwargs or {}), dynamic, output, check, options)


# -- Running the converter ------------------------------------------------------------------------


def _run(source, target, options):
    """The report; raises if no model was made."""
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
    """The model; loaded from memory if the file is not kept."""
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
            dtype, shape, _, _ = _core.describe(detached(leaf))
            dtypes.append(short_dtype(dtype))
            shapes.append(tuple(shape))
        for i, (dtype, shape, symbols) in enumerate(zip(dtypes, shapes, symbols_of(dynamic, names or [], shapes))):
            sizes = ",".join(symbols.get(d) or str(n) for d, n in enumerate(shape))
            name = f"{names[i]}:" if names else ""
            words += ["--input", f"{name}{dtype}[{sizes}]"]
    elif dynamic not in (None, False):
        raise ValueError("dynamic needs example_inputs, whose sizes it names")
    if not check:
        words.append("--no-check")
    with tempfile.TemporaryDirectory() as folder:
        target = os.path.join(folder, "model.hgm") if output is None else path_of(output)
        details = _run(path, target, words)
        model = _loaded(target, output)
    checks = [
        {"sizes": each["sizes"], "outputs": [o for o in each["outputs"] if o["verdict"] == "equal"]}
        for each in details.get("checks", [])
    ]
    model.report = Report(details, checks, "" if checks else "hg-convert had nothing to compare with")
    return model


def _convert_script(torch, module, args, dynamic, output, check, options):
    """Converts a ScriptModule through a file and compares the model with the module in memory."""
    names = [each.name for each in module._c._get_method("forward").schema.arguments][1:]
    leaves = [each for each in flatten(args)[0] if isinstance(each, torch.Tensor)]
    own = names if len(leaves) == len(args) else []
    symbols = symbols_of(dynamic, own[: len(leaves)], [tuple(leaf.shape) for leaf in leaves])
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "model.pt")
        module.save(source)
        model = _convert_file(source, tuple(leaves), symbols, output, check, None, options)
    model._tree = _tree_of(torch, copy.deepcopy(module)(*copy.deepcopy(args)))  # a call may change buffers
    if check:
        model.report.checks = []
        model.report.unchecked = ""
        compare_with_module(torch, module, model, args, {}, symbols)
    return model


# -- Modules --------------------------------------------------------------------------------------


def _traceable(module):
    """The module, or a copy in which torch's layers replace those of hologram.nn; the check runs the originals."""
    if not any(type(part).__module__.startswith("hologram.nn.") for part in module.modules()):
        return module
    from .nn import as_torch

    return as_torch(module)


def _tree_of(torch, result):
    """The structure of a module's result; None for one tensor or a plain tuple, which models return anyway."""
    leaves, tree = results_of(torch, result)
    return None if tree == "*" or (len(leaves) > 1 and tree == ["tuple", ["*"] * len(leaves)]) else tree


def _save(torch, program, path):
    """Writes the file of torch.export.save. Of the arguments and results it has the structure, which names tensors, with dicts or
    tuples in the place of classes that torch cannot write."""
    for entry in program._module_call_graph:
        if entry.signature is not None:
            entry.signature.in_spec = _writable(torch.utils._pytree, entry.signature.in_spec)
            entry.signature.out_spec = _writable(torch.utils._pytree, entry.signature.out_spec)
    program._example_inputs = None
    try:
        torch.export.save(program, path)
    except Exception as error:
        reason = str(error).partition("\n")[0][:160]
        raise UnsupportedError(
            f"torch.export cannot save the module that it captured, as happens with flex_attention and torch.func.grad: {reason}"
        ) from error


def _writable(pytree, spec):
    """The structure of arguments or results with classes whose names torch.export.save knows."""
    if spec.is_leaf():
        return spec
    children, leaf = [_writable(pytree, each) for each in spec.children()], pytree.tree_structure(0)
    fields = getattr(spec.context, "_fields", None)  # of a named tuple
    if fields is None:
        try:
            pytree.treespec_dumps(pytree.TreeSpec(spec.type, spec.context, [leaf] * len(children)))
            return pytree.TreeSpec(spec.type, spec.context, children)
        except (NotImplementedError, TypeError):  # no registered name, or keys that are no text and no number
            fields = _fields_of(spec.context, len(children))
    if fields is None or len(fields) != len(children):
        return pytree.TreeSpec(tuple, None, children)
    return pytree.TreeSpec(dict, [each if isinstance(each, (str, int)) else str(each) for each in fields], children)


def _fields_of(context, count):
    """The keys or fields among what a class needs to be made again: [names] or, of a dataclass, [names, names of None]. Or None."""
    for keys in (context, context[0] if isinstance(context, (list, tuple)) and context else None):
        if isinstance(keys, (list, tuple)) and len(keys) == count and not any(isinstance(each, list) for each in keys):
            return list(keys)
    return None


def _without_transforms(capture, error):
    """The program with transforms of torch.func written out as ops; raises the error if torch cannot do that."""
    try:
        return capture().run_decompositions()
    except Exception:
        raise error from None


@contextlib.contextmanager
def _watched(torch, module, seen):
    """Collects all parts of a running module that define their own gradients: torch.export keeps only their forward
    pass. Functions of torch itself have the gradients of their forward pass."""
    if any(part._backward_hooks or part._backward_pre_hooks for part in module.modules()) or any(
        each._backward_hooks for each in module.parameters()
    ):
        seen.add("a hook of backward")
    function, inference = torch.autograd.Function, torch.inference_mode
    apply, enter = function.__dict__["apply"], inference.__enter__

    def applied(cls, *args, **kwargs):
        if not cls.__module__.startswith(("torch.", "hologram.")):
            seen.add(f"torch.autograd.Function {cls.__name__}")
        return apply.__get__(None, cls)(*args, **kwargs)

    def entered(self):
        if self.mode:
            seen.add("torch.inference_mode()")
        return enter(self)

    function.apply, inference.__enter__ = classmethod(applied), entered
    try:
        yield
    finally:
        function.apply, inference.__enter__ = apply, enter


def _convert_module(torch, module, args, kwargs, dynamic, output, check, options):
    shapes = dynamic_shapes(torch, module, args, kwargs, dynamic) or None
    if shapes:
        args, kwargs = exportable(torch, module, args, kwargs, shapes)
    given = [each for each in flatten((args, kwargs))[0] if isinstance(each, torch.Tensor)]
    before = [each.clone() for each in given]
    own = set()
    with torch.no_grad(), torch.random.fork_rng(devices=()), _watched(torch, module, own):
        result = copy.deepcopy(module)(*args, **kwargs)
    if not all(same(torch, a, b) for a, b in zip(given, before)):
        raise UnsupportedError("the module writes to its inputs, which a model does not")

    def capture():
        with torch.enable_grad():  # else the module's own no_grad() would leave no trace
            return torch.export.export(_traceable(module), args, kwargs or None, dynamic_shapes=shapes, strict=False)

    limits = ""
    try:
        try:
            program = capture()
        except torch._dynamo.exc.UserError as error:
            narrower = with_limits(torch, dynamic, shapes, str(error))
            if narrower is None:
                raise
            shapes, limits = narrower
            program = capture()
    except Exception as error:
        raise UnsupportedError(f"torch.export cannot capture the module: {error}") from error
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "model.pt2")
        target = os.path.join(folder, "model.hgm") if output is None else path_of(output)
        _save(torch, program, source)
        # The check runs here, against the module itself.
        named, symbols, ranges = named_sizes(torch, module, program, args, kwargs, shapes)
        words = ["--no-check", *named, *options]
        try:
            details = _run(source, target, words)
        except UnsupportedError as error:
            if not any(each["op"].startswith("torch._functorch.") for each in error.ops):
                raise
            _save(torch, _without_transforms(capture, error), source)
            details = _run(source, target, words)
        model = _loaded(target, output)
    model._tree = _tree_of(torch, result)
    model._order = flatten(args)[1]
    model._own_gradients = sorted(own)
    model.report = Report(details)
    if limits:
        model.report.warnings.append(f"torch.export limits the open sizes to those for which it captured the module: {limits}")
    if own:
        model.report.warnings.append(lost_gradients(model._own_gradients))
    if not check:
        model.report.unchecked = "check=False"
        return model

    def plain(part, arguments):
        return _convert_module(torch, part, tuple(arguments), {}, None, None, False, options)

    compare_with_module(torch, module, model, args, kwargs, symbols, ranges,
                        lambda *rest: compare_from_levels(torch, capture(), plain, *rest))  # fmt: skip
    return model
