# SPDX-License-Identifier: Apache-2.0
"""Models: load, call, inspect."""

import html
import json
import os
import types
from typing import NamedTuple

from . import _core
from ._errors import HologramError, NotFoundError, UnsupportedError
from ._tree import order_of, rebuild_of

Session = _core.Session


def require_gradients(model):
    """Raises if the gradients of the model are not those of the module it was converted from."""
    if model._own_gradients:
        raise HologramError(lost_gradients(model._own_gradients))


def lost_gradients(of):
    return f"gradients are those of the forward pass: torch.export leaves out what {', '.join(of)} of the module makes of them"


def path_of(path):
    """A path as UTF-8 text."""
    path = os.fsdecode(path)
    try:
        path.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{path!r} is not UTF-8, which paths are here") from None
    return path


def refuse_overwriting(written, read):
    """Raises ValueError if the path ``written`` is one of the existing files ``read``, under whatever name."""
    for path in read:
        if os.path.isfile(written) and os.path.isfile(path) and os.path.samefile(written, path):
            raise ValueError(f"'{written}' would replace '{path}', which is read; give another path")


class TensorSpec(NamedTuple):
    """Name, dtype and shape of an input or output. Open sizes are text, such as ``"n"``."""

    name: str
    dtype: str
    shape: tuple


class Profile:
    """The time of each node of a model in one run.

    ``rows`` holds the nodes, slowest first, each with ``node op kernel module ms flops bytes``. ``str()`` is a table,
    which notebooks also show; ``save_trace()`` writes a Chrome trace.
    """

    def __init__(self, rows):
        self._in_order = list(rows)
        self.rows = sorted(rows, key=lambda row: -row.ms)
        self.total_ms = sum(row.ms for row in rows)

    _HEAD = ("node", "op", "kernel", "ms", "%", "GFLOP/s", "bytes")

    def _cells(self):
        for row in self.rows:
            share = 100 * row.ms / self.total_ms if self.total_ms > 0 else 0
            speed = row.flops / row.ms / 1e6 if row.ms > 0 else 0
            yield (row.node, row.op, row.kernel, f"{row.ms:.4f}", f"{share:.1f}", f"{speed:.2f}", str(row.bytes))

    def save_trace(self, path):
        """Writes the run in Chrome's trace event format, for chrome://tracing and Perfetto: the nodes one after the other."""
        events, at = [], 0.0
        for row in self._in_order:
            args = {"node": row.node, "op": row.op, "kernel": row.kernel, "flops": row.flops, "bytes": row.bytes}
            events.append({"name": row.module or row.node, "cat": row.op, "ph": "X", "ts": at * 1e3, "dur": row.ms * 1e3,
                           "pid": 1, "tid": 1, "args": args})  # fmt: skip
            at += row.ms
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events, "displayTimeUnit": "ms"}, file)

    def __len__(self):
        return len(self.rows)

    def __iter__(self):
        return iter(self.rows)

    def __str__(self):
        table = [self._HEAD, *self._cells()]
        widths = [max(len(line[i]) for line in table) for i in range(len(self._HEAD))]
        lines = []
        for line in table:
            words = [w.ljust(n) if i < 3 else w.rjust(n) for i, (w, n) in enumerate(zip(line, widths))]
            lines.append("  ".join(words).rstrip())
        lines.append(f"total {self.total_ms:.4f} ms")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self):
        def line(cells, tag):
            return "<tr>" + "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in cells) + "</tr>"

        body = "".join(line(cells, "td") for cells in self._cells())
        return f"<table><caption>{self.total_ms:.4f} ms</caption>{line(self._HEAD, 'th')}{body}</table>"


def _session_profile(self, *args, **kwargs):
    """The time of each node: of a call with these inputs, or of the last call if there are none.

    The session must have been created with ``profile=True``.
    """
    if args or kwargs:
        self(*args, **kwargs)
    return Profile(self._rows())


Session.profile = _session_profile


def _attachments_of(base):
    """The property ``attachments`` of what ``base`` returns for a model."""

    def read(self):
        """Files that belong to the model, such as ``tokenizer.json``: names and bytes. Assign a dict to replace all."""
        return types.MappingProxyType(base(self).attachments_)

    def write(self, files):
        for name, content in files.items():
            if not isinstance(name, str) or not name:
                raise ValueError(f"an attachment has the name {name!r}, expected a text that is not empty")
            if not isinstance(content, (bytes, bytearray, memoryview)):
                raise TypeError(f"the attachment {name!r} is a {type(content).__name__}, expected bytes")
        base(self).attachments_ = [(name, bytes(content)) for name, content in files.items()]

    return property(read, write, doc=read.__doc__)


class Model(_core.CallableModel):
    """A model from a ``.hgm`` file. Call it to run it; ``hg.load`` creates one.

    Pass inputs in order or by name, as numpy arrays, torch tensors, or any object that supports DLPack or the buffer
    protocol. They are borrowed, not copied. Outputs are torch tensors if an input is one, otherwise numpy arrays;
    ``out=`` names arrays to write to. Several outputs are a tuple, or the structure that the converted module returns.
    The GIL is released during a run, and any thread may call.
    """

    _tree = None  # the tree of the converted module's result
    _order = None  # the tree of its arguments
    report = None  # of the conversion, where convert() made the model
    _own_gradients = ()  # parts of the converted module whose gradients the model lacks

    @classmethod
    def _of(cls, base, tree=None, order=None, own_gradients=()):
        model = cls(base)
        model._tree, model._order, model._own_gradients = tree, order, own_gradients
        return model

    def session(self, **options):
        """Creates a session with its own options; call it like the model.

        Options: ``device`` ("cpu", "vulkan", "auto"), ``threads`` (0: all processors), ``memory_limit`` (bytes, or
        "512M"), ``precision`` ("float32"; "bfloat16" rounds weights; "int8" rounds the inputs of products with quantized
        weights), ``low_memory``, ``autotune``, ``tuning``, ``packed`` (the file of ``save_packed()``, which makes the next
        start faster), ``profile``, ``dims`` (sizes to plan at creation), ``ranges`` (sizes that share one plan, as
        ``{"n": (1, 512)}``), ``seed``, ``checkpoint``, ``first_run`` (the run number with
        which random ops start), ``gpu_name``, ``most_rounds`` (limit of loop iterations), ``lazy_allocation``,
        ``keep_all_values``, ``kernels``, ``disabled_passes``, ``states`` (from ``states()``).
        """
        made = self.session_(options)
        if self._tree is not None:
            made._set_rebuild(rebuild_of(self._tree))
        made._set_order(order_of(self._order, [spec.name for spec in self.inputs]))
        return made

    def states(self):
        """Creates the buffers that runs change, with the values of the file: ``states = model.states()``,
        ``session = model.session(states=states)``, and ``states.reset()`` starts again. See ``Library.states``."""
        return _core.shared_states(self)

    @property
    def inputs(self):
        """One TensorSpec per input, in order."""
        return [TensorSpec(*spec) for spec in self.inputs_]

    @property
    def outputs(self):
        """One TensorSpec per output, in order."""
        return [TensorSpec(*spec) for spec in self.outputs_]

    @property
    def graph(self):
        """The graph: ``print(m.graph)`` shows it as text, a notebook draws it."""
        return self.graph_

    def memory(self, **dims):
        """Bytes that a run needs at these sizes, or those of the last call; exact before the first run."""
        return self._default.memory(**dims)

    def flops(self, **dims):
        """Multiplications and additions of one run."""
        return self._default.flops(**dims)

    def profile(self, *args, repeat=3, **kwargs):
        """Runs the model ``repeat`` times and returns the time of each node in the last run.

        Without inputs it uses zeros, with size 1 for each open size that is not given by name.
        """
        names = {spec.name for spec in self.inputs}
        symbols = set(self.graph.symbols)
        dims = {key: kwargs.pop(key) for key in list(kwargs) if key in symbols and key not in names}
        if not args and not kwargs:
            args = self._zeros(dims)
        session = self.session(profile=True)
        for _ in range(max(1, repeat)):
            session(*args, **kwargs)
        return session.profile()

    def _zeros(self, dims):
        import numpy as np

        sizes = {name: 1 for name in self.graph.symbols}
        sizes.update(dims)
        out = []
        for spec in self.inputs:
            shape = tuple(_core.size_of(dim, sizes) for dim in spec.shape)
            out.append(np.zeros(shape, _core.numpy_dtype(spec.dtype)))
        return out

    def memory_svg(self, **dims):
        """Draws the arena over the steps of a run as an SVG file."""
        return _core.draw_memory(self._default, dims)

    attachments = _attachments_of(lambda model: model)

    def save(self, path):
        """Writes a .hgm file; an existing file is replaced only when the new one is complete."""
        self.save_(path_of(path))

    def parameters(self):
        """Weights by name, as read-only numpy arrays."""
        return self.parameters_()

    def buffers(self):
        """Buffers, such as running statistics, by name, as read-only numpy arrays."""
        return self.buffers_()

    def state_dict(self):
        """Parameters and buffers by name, as torch tensors with their own memory.

        Raises UnsupportedError if weights are quantized: a module would load their levels as numbers. ``buffers()`` has them.
        """
        levels = next(iter(self.info["quantized"]), None)
        if levels is not None:
            raise UnsupportedError(f"state_dict: '{levels}' has quantized levels, which a module would load as numbers; see buffers()")
        arrays = {**self.parameters_(), **self.buffers_()}
        return {
            name: _core.copy(array, "torch") for name, array in arrays.items() if not name.startswith("train/")
        }

    def __reduce__(self):
        return (_read, (self.serialize(), self._tree, self._order, self._own_gradients))

    def __repr__(self):
        def words(specs):
            return ", ".join(f"{s.name}: {s.dtype}[{', '.join(map(str, s.shape))}]" for s in specs)

        return f"Model({words(self.inputs)} -> {words(self.outputs)})"


def _graph_model(self):
    """A Model of the graph in its current state."""
    return Model._of(self.model_())


_core.Graph.model = _graph_model


def _read(data, tree=None, order=None, own_gradients=()):
    return Model._of(_core.ModelBase.read(data), tree, order, own_gradients)


class Library:
    """Named functions in one file that share weights: ``library.polynomial(x)``."""

    report = None  # of the conversion

    def __init__(self, base=None):
        if base is not None and not isinstance(base, _core.ModelBase):
            raise TypeError(f"Library() takes no {type(base).__name__}: hg.load(path) reads a file, add() adds models")
        self._base = base if base is not None else _core.ModelBase()
        self._models = {}

    def functions(self):
        """Names, in the order of their addition."""
        return self._base.entries_()

    def function(self, name):
        """The function, as a Model."""
        if name not in self._models:
            self._models[name] = Model._of(self._base.entry_(name))
        return self._models[name]

    def session(self, entry, **options):
        """A session of one function, with the options of ``Model.session``.

        With ``states=library.states()``, given to several sessions, a run of one entry sees the buffers that the runs of
        other entries changed.
        """
        return self.function(entry).session(**options)

    def states(self):
        """Creates the buffers that runs of the functions change, with the values of the file, for sessions to share.

        ``states["cache"]`` reads one, ``states["cache"] = array`` overwrites it, ``names()`` lists them, ``reset()`` restores
        the values of the file.
        """
        return _core.shared_states(self._base)

    def add(self, name, model):
        """Adds the model under a new name."""
        if not isinstance(model, _core.ModelBase):
            hint = "; add it to a hg.Graph and give graph.model()" if isinstance(model, _core.KernelBase) else ""
            raise TypeError(f"a library takes models; '{name}' is a {type(model).__name__}{hint}")
        self._base.add_entry_(name, model)

    attachments = _attachments_of(lambda library: library._base)

    def save(self, path):
        """Writes one .hgm file."""
        if not len(self):
            raise ValueError("a library has no functions to write")
        self._base.save_(path_of(path))

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self.function(name)
        except NotFoundError as error:
            raise AttributeError(str(error)) from None

    def __getitem__(self, name):
        return self.function(name)

    def __contains__(self, name):
        return name in self.functions()

    def __len__(self):
        return len(self.functions())

    def __iter__(self):
        return iter(self.functions())

    def __dir__(self):
        return sorted(set(super().__dir__()) | set(self.functions()))

    def __reduce__(self):
        return (_read_library, (self._base.serialize(),))

    def __repr__(self):
        return f"Library({', '.join(self.functions())})"


def _read_library(data):
    return Library(_core.ModelBase.read(data))


def save_library(functions, path):
    """Writes models by name as one library whose functions share equal weights."""
    library = Library()
    for name, model in functions.items():
        library.add(name, model)
    library.save(path)


def load(source, *, verify_weights=False):
    """Reads a ``.hgm`` file: a Model, or a Library if the file holds named functions.

    ``source`` is a path, bytes, or an open binary file. Weights are used directly from the file and read on demand;
    ``verify_weights`` checks all of them against their checksums. Raises FileNotFoundError, CorruptModelError (with
    what and where) or UnsupportedError.
    """
    if hasattr(source, "read"):
        source = source.read()
        if isinstance(source, str):
            raise TypeError("load reads binary files; open this one with mode 'rb'")
    if isinstance(source, (bytes, bytearray, memoryview)):
        data = bytes(source)
        base = _core.ModelBase.read(data)
        return Library(base) if base.entries_() else Model._of(base)
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(f"a {type(source).__name__} is no model; load a .hgm file, or make a model with hologram.convert()")
    path = path_of(source)
    if not os.path.exists(path):
        raise NotFoundError(f"{path}: there is no such file")
    base = _core.ModelBase.load_file(path, verify_weights)
    return Library(base) if base.entries_() else Model._of(base)
