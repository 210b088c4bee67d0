# SPDX-License-Identifier: Apache-2.0
"""``torch.compile(model, backend="hologram")``: graphs that can be converted run in Hologram, the others run eagerly."""

import contextlib
import copy
import functools
from dataclasses import dataclass, field

import torch

from .._check import same
from .._convert import convert
from .._core import Graph
from .._errors import HologramError
from ._wrap import Wrapped, run_seeded

_log = None  # what explain() is listening to


@dataclass
class Explanation:
    """How much of a module runs in Hologram. ``graphs`` counts the captured graphs, ``converted`` those that run in Hologram.
    ``fallbacks`` has a dict with ``reason`` and ``ops`` for each graph that runs eagerly. ``breaks`` lists the reasons of graph breaks."""

    graphs: int = 0
    converted: int = 0
    fallbacks: list = field(default_factory=list)
    breaks: list = field(default_factory=list)

    @property
    def unsupported(self):
        """Names of the ops that cannot be converted."""
        return sorted({each["op"] if isinstance(each, dict) else str(each) for f in self.fallbacks for each in f["ops"]})

    def __str__(self):
        lines = [f"{self.graphs} graphs, {self.converted} run in Hologram, {len(self.fallbacks)} eagerly"]
        lines += [f"eager: {each['reason']}" for each in self.fallbacks]
        lines += [f"graph break: {each}" for each in self.breaks]
        return "\n".join(lines)

    __repr__ = __str__


class _Graph:
    """One graph captured by torch.compile: a session, a Wrapped model if it has gradients, or the graph itself."""

    def __init__(self, graph, examples, options, freeze, numbers):
        self.graph, self.options, self.numbers = graph, options, numbers
        # Weights that are a part of the model, with the version that it has.
        self.frozen = {i: (t, t._version) for i, t in enumerate(examples) if freeze and _is_weight(t)}
        self.tensors = [i for i, t in enumerate(examples) if isinstance(t, torch.Tensor) and i not in {*self.frozen, *numbers}]
        self.run, self.plain, self.reason, self.ops = None, None, "", []
        self.written = []  # places of tensors that the graph writes to
        outputs = next(node for node in graph.graph.nodes if node.op == "output").args[0]
        self.outputs = [list(outputs).index(each) for each in outputs]  # the first of equal ones
        self.strides = []  # of results, None where they are contiguous
        self.draws = False  # random numbers
        try:
            with torch.random.fork_rng(devices=()), _modes_kept():
                self._convert(examples)
        except HologramError as error:
            self.reason, self.ops = str(error), list(getattr(error, "ops", []))
        except Exception as error:  # whatever cannot be captured runs as it did
            self.reason = f"{type(error).__name__}: {error}"

    def _convert(self, examples):
        if not self.tensors:
            raise HologramError("the graph takes no tensors")
        _require_no_derivatives(self.graph)
        _require_gradients(self.graph, examples)
        given = [each.item() if i in self.numbers else _real(each) for i, each in enumerate(examples)]
        graph = _with_numbers(self.graph, {i: given[i] for i in self.numbers}) if self.numbers else self.graph
        self.written, self.strides = _probed(graph, given)
        for i in self.written:
            _require_plain(examples, i, i in self.tensors)
        if _shares(examples, self.written):
            raise HologramError("the graph writes to an argument that shares memory with another")
        if self.written and torch.is_grad_enabled() and _follows_writes(graph, given, examples, self.written):
            raise HologramError("the graph makes an argument require a gradient")
        fixed = {i: v for i, v in enumerate(given) if i not in self.tensors}
        module = _Given(graph, fixed, len(given), self.written)
        tensors = tuple(given[i] for i in self.tensors)
        with torch.autocast("cpu", enabled=False):  # which is a region of the module
            model = convert(module, tensors)
        if torch.is_grad_enabled():  # torch.compile captures anew where that changes
            self.run = Wrapped(model, "as-traced", **self.options)
            wanted = [i for i, place in enumerate(self.tensors) if examples[place].requires_grad]
            self.run._half(wanted)  # fails now where an op has no gradient
        self.plain = model.session(**self.options)
        self.draws = self.plain._draws

    def is_stale(self):
        """Whether a weight that is part of the model has changed."""
        return any(tensor._version != version for tensor, version in self.frozen.values())

    def __call__(self, *args):
        if self.plain is None or _shares(args, self.written):
            return self.graph(*args)
        tensors = [args[i] for i in self.tensors]
        if torch.is_grad_enabled() and any(isinstance(t, torch.Tensor) and t.requires_grad for t in args):
            if self.run is None:
                return self.graph(*args)
            # What is written to below is not what the backward pass must find as it was.
            out = self.run(*(args[i].clone() if i in self.written else args[i] for i in self.tensors))
        else:
            with torch.no_grad():
                out = run_seeded(self.plain, tensors) if self.draws else self.plain(*tensors)
        out = out if isinstance(out, (tuple, list)) else (out,)
        with torch.no_grad():
            for i, value in zip(self.written, out[len(self.outputs) :]):
                args[i].copy_(value)
        out = [_with_strides(each, strides) for each, strides in zip(out, self.strides)]
        return [out[i] for i in self.outputs]

    @property
    def is_pure(self):
        """Whether the session alone implements the graph: it takes all arguments and returns the graph's results."""
        return not (self.draws or self.written or self.frozen or any(self.strides)) and self.outputs == list(range(len(self.outputs)))


@contextlib.contextmanager
def _modes_kept():
    """Restores torch's modes, even if a graph ends between calls that change them."""
    depth, level = torch._C._functorch.get_dynamic_layer_stack_depth(), torch.autograd.forward_ad._current_level
    try:
        with torch.set_grad_enabled(torch.is_grad_enabled()):
            yield
    finally:
        torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
        while torch.autograd.forward_ad._current_level > level:
            torch.autograd.forward_ad.exit_dual_level()


def _named_nodes(graph):
    """The nodes of a graph and its subgraphs, with the names of the functions that they call."""
    for part in graph.modules():
        for node in part.graph.nodes if isinstance(part, torch.fx.GraphModule) else ():
            yield node, getattr(node.target, "__name__", "")


def _require_no_derivatives(graph):
    """Raises if a second run of the graph would differ: torch.func transforms leave dead tensors behind."""
    for _, name in _named_nodes(graph):
        if name in ("_grad_increment_nesting", "_jvp_increment_nesting"):
            raise HologramError("the graph takes derivatives by torch.func")


def _require_gradients(graph, examples):
    """Raises if autograd tracks the arguments and the graph's gradient is not that of its forward pass."""
    if not any(isinstance(each, torch.Tensor) and each.requires_grad for each in examples):
        return
    for node, name in _named_nodes(graph):
        if not torch.is_grad_enabled():
            if name == "_set_grad_enabled" and node.args[0]:
                raise HologramError("the graph takes part in autograd where its caller does not")
        elif name in ("autograd_function_apply", "_enter_inference_mode"):
            raise HologramError(f"gradients are not those of the forward pass: the graph has {name}")
        elif name in _SPARSE and (node.kwargs.get("sparse") or node.args[_SPARSE[name] :][:1] == (True,)):
            raise HologramError(f"the gradient of {name} is sparse")


_SPARSE = {"embedding": 6, "embedding_bag": 7}  # places of the argument


def _follows_writes(graph, given, examples, written):
    """Whether an argument requires a gradient after the graph has written to it."""
    probes = [
        each.clone().requires_grad_(of.requires_grad) if isinstance(each, torch.Tensor) else each
        for each, of in zip(given, examples)
    ]
    with torch.inference_mode(False), torch.enable_grad():
        graph(*probes)
    return any(probes[i].requires_grad for i in written)


def _is_weight(value):
    """Whether it is a parameter or buffer of a module, which dynamo marks and whose writes are counted."""
    named = isinstance(value, torch.nn.Parameter) or getattr(value, "_dynamo_static_input_type", None) is not None
    return named and isinstance(value, torch.Tensor) and not value.is_inference()


def _probed(graph, given):
    """The positions of the tensors that the graph writes to, and the strides of its results (None if contiguous). Raises if a result
    shares memory with an argument."""
    with torch.inference_mode(False), torch.no_grad():
        probes = [each.clone() if isinstance(each, torch.Tensor) else each for each in given]
        before = {i: each._version for i, each in enumerate(probes) if isinstance(each, torch.Tensor)}
        results = graph(*probes)
    memory = {probes[i].untyped_storage().data_ptr() for i in before if probes[i].numel()}
    if any(isinstance(each, torch.Tensor) and each.untyped_storage().data_ptr() in memory for each in results):
        raise HologramError("a result is a view of an argument, or an argument")
    tensors = {id(each): each for each in results if isinstance(each, torch.Tensor)}.values()
    if _overlap(tensors):
        raise HologramError("two results share memory")
    strides = [each.stride() if isinstance(each, torch.Tensor) and _is_permuted(each) else None for each in results]
    # batch_norm writes to its statistics without counting that.
    return [i for i, version in before.items() if probes[i]._version != version or not same(torch, probes[i], given[i])], strides


def _overlap(tensors):
    """Whether the tensors share an element."""
    by_memory = {}
    for each in tensors:
        by_memory.setdefault(each.untyped_storage().data_ptr(), []).append(each)
    for those in by_memory.values():
        if len(those) < 2 or not those[0].numel():
            continue
        if len({each.dtype for each in those}) > 1:
            return True
        size = those[0].untyped_storage().nbytes() // those[0].element_size()
        count = torch.zeros(size, dtype=torch.int32)
        for each in those:
            mark = torch.zeros(size, dtype=torch.int32)
            mark.as_strided(each.shape, each.stride(), each.storage_offset()).fill_(1)
            count += mark
        if bool((count > 1).any()):
            return True
    return False


def _is_permuted(tensor):
    return not tensor.is_contiguous() and torch.ops.aten.is_non_overlapping_and_dense(tensor)


def _with_strides(result, strides):
    """The result with the strides of eager PyTorch, on which later code may rely."""
    if strides is None or result.stride() == strides:
        return result
    return torch.empty_strided(result.shape, strides, dtype=result.dtype).copy_(result)


def _shares(args, written):
    """Whether an argument that the graph writes to shares memory with another argument."""
    if not written:
        return False
    owners = {}
    for i, each in enumerate(args):
        if isinstance(each, torch.Tensor):
            owners.setdefault(each.untyped_storage().data_ptr(), []).append(i)
    return any(len(places) > 1 and any(i in written for i in places) for places in owners.values())


def _require_plain(examples, i, is_given):
    """Raises if writes to an argument would be visible elsewhere."""
    if not is_given or examples[i].requires_grad or examples[i].is_inference():
        raise HologramError("the graph writes to a weight, or to what requires a gradient")


class _Given(torch.nn.Module):
    """A graph with fixed values for some arguments, under autocast if its caller is. The tensors that it writes to are extra results
    after its own."""

    def __init__(self, graph, fixed, count, written):
        super().__init__()
        self.graph, self.fixed, self.count, self.written = graph, dict(fixed), count, written
        self.autocast = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
        for i, value in fixed.items():
            if isinstance(value, torch.Tensor):
                self.register_buffer(f"fixed_{i}", self.fixed.pop(i))

    def forward(self, *tensors):
        left, held = iter(tensors), dict(self.named_buffers(recurse=False))
        values = [
            self.fixed[i] if i in self.fixed else held[f"fixed_{i}"] if f"fixed_{i}" in held else next(left)
            for i in range(self.count)
        ]
        for i in self.written:
            values[i] = values[i].clone()
        with torch.autocast("cpu", self.autocast) if self.autocast else contextlib.nullcontext():
            results = self.graph(*values)
        return (*results, *(values[i].detach() for i in self.written))


def _real(value):
    """A separate example; numbers stay."""
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().clone().requires_grad_(False)


def _attributes_lifted(graph):
    """The graph with its tensors as arguments after the others, and these tensors. For an optimizer, dynamo keeps weights and moments
    as attributes, which others read and write."""

    def value_of(node):
        return functools.reduce(getattr, node.target.split("."), graph)

    if not any(node.op == "get_attr" and isinstance(value_of(node), torch.Tensor) for node in graph.graph.nodes):
        return graph, []
    nodes = copy.deepcopy(graph.graph)
    first = next(node for node in nodes.nodes if node.op != "placeholder")
    lifted = {}
    for node in list(nodes.nodes):
        value = value_of(node) if node.op == "get_attr" else None
        if not isinstance(value, torch.Tensor):
            continue
        if id(value) not in lifted:
            with nodes.inserting_before(first):
                lifted[id(value)] = nodes.placeholder(f"attribute_{len(lifted)}"), value
        node.replace_all_uses_with(lifted[id(value)][0])
        if node is first:
            first = node.next
        nodes.erase_node(node)
    return torch.fx.GraphModule(graph, nodes), [value for _, value in lifted.values()]


def _numbers(graph):
    """Positions of tensors that represent a Python number: only `item()` reads them."""
    places = [node for node in graph.graph.nodes if node.op == "placeholder"]
    return [i for i, node in enumerate(places) if node.users and all((u.op, u.target) == ("call_method", "item") for u in node.users)]


def _with_numbers(graph, numbers):
    """The graph with these numbers in place of reads of its inputs."""
    made = copy.deepcopy(graph)
    places = [node for node in made.graph.nodes if node.op == "placeholder"]
    for i, number in numbers.items():
        for item in list(places[i].users):
            for user in list(item.users):
                user.args = torch.fx.map_arg(user.args, lambda node: number if node is item else node)
                user.kwargs = torch.fx.map_arg(user.kwargs, lambda node: number if node is item else node)
            made.graph.erase_node(item)
    made.recompile()
    return made


class _BySize:
    """One graph per combination of sizes, up to a limit, created on first use. If it were created while dynamo traces, the sizes that
    torch.export learns would become guards of both."""

    MOST = 16

    def __init__(self, graph, examples, options, freeze):
        self.options, self.freeze, self.made = options, freeze, {}
        self.graph, self.attributes = _attributes_lifted(graph)
        examples = [*examples, *self.attributes]
        self.numbers = _numbers(self.graph)
        # Of one combination, which dynamo's guards see to: its session is called without a look at the arguments.
        self.is_fixed = not self.numbers and all(_is_fixed(each) for each in examples)
        self.only = None

    def _key(self, value):
        if isinstance(value, torch.Tensor):
            if self.freeze and _is_weight(value):
                return id(value)  # which the graph keeps alive
            return tuple(value.shape)
        return type(value), value

    def _at(self, args):
        key = tuple(each.item() if i in self.numbers else self._key(each) for i, each in enumerate(args))
        found = self.made.get(key)
        if found is None and len(self.made) >= self.MOST:
            return None
        if found is None or found.is_stale():
            with torch._dynamo.convert_frame.compile_lock:  # torch.export also uses dynamo
                found = self.made[key] = _Graph(self.graph, args, self.options, self.freeze, self.numbers)
            _tell(found)
        return found

    def __call__(self, *args):
        args = (*args, *self.attributes)
        if self.only is not None and not torch.is_grad_enabled():
            out = self.only(*args)
            return out if type(out) in (tuple, list) else (out,)
        found = self._at(args)
        if found is None:
            return self.graph(*args)
        if self.is_fixed and found.plain is not None and found.is_pure:
            self.only = found.plain
        return found(*args)


def _is_fixed(example):
    return isinstance(example, torch.Tensor) and not any(isinstance(size, torch.SymInt) for size in example.shape)


def _tell(graph):
    if _log is None:
        return
    _log.graphs += 1
    if graph.plain is not None:
        _log.converted += 1
    else:
        _log.fallbacks.append({"reason": graph.reason, "ops": graph.ops})


def backend(graph, example_inputs, *, options=None):
    """The function that torch.compile calls with each captured graph.

    ``options`` are session options; ``threads`` defaults to torch's number. ``freeze=True`` makes weights part of the model where no
    gradients are computed: they are packed, which is faster, and read again after they change. Changes through ``.data`` are not
    detected.
    """
    options = {"threads": torch.get_num_threads(), **(options or {})}
    freeze = bool(options.pop("freeze", False)) and not torch.is_grad_enabled()
    _check(options)
    return _BySize(graph, example_inputs, options, freeze)


def _check(options):
    """Raises if no session accepts these options; otherwise the failing conversion would only fall back to eager."""
    graph = Graph()
    graph.output("y", graph.input("x", (1,)) * 1.0)
    graph.model().session(**options)


def explain(model, *args, **kwargs):
    """Compiles and runs the module with these arguments; reports which graphs run in Hologram and why others do not."""
    global _log
    torch._dynamo.reset()
    _log = Explanation()
    try:
        torch.compile(model, backend=backend)(*args, **kwargs)
        found = _log
    finally:
        _log = None
        torch._dynamo.reset()
    try:
        seen = torch._dynamo.explain(model)(*args, **kwargs)
        found.breaks = [str(each.reason) for each in seen.break_reasons]
    except Exception:  # what dynamo explains of itself is an extra
        pass
    finally:
        torch._dynamo.reset()
    return found


def _register():
    """Registers the backend. torch finds an installed package through its entry point; otherwise it registers itself."""
    from importlib.metadata import entry_points

    if not any(each.name == "hologram" for each in entry_points(group="torch_dynamo_backends")):
        torch._dynamo.register_backend(backend, name="hologram")


_register()
