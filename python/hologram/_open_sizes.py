# SPDX-License-Identifier: Apache-2.0
"""Open sizes of inputs: from the user's spelling to torch.export and hg-convert."""

import inspect
import re


def symbols_of(dynamic, names, shapes):
    """{dim: symbol} of each input, if sizes are named by words alone; `names` may be fewer than the inputs."""
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
        out.append({} if shape is None else _symbols_of_one(dynamic, i, name, len(shape)))
        for d, symbol in out[i].items():
            size, where = seen.setdefault(symbol, (shape[d], f"dim {d} of input {name or i}"))
            if size != shape[d]:
                raise ValueError(
                    f"dynamic gives the name '{symbol}' to sizes that differ: {size}, {where}, and {shape[d]}, dim {d} of input "
                    f"{name or i}"
                )
    return out


def _entry_of(dynamic, index, name):
    """The entry of a dict or a list for one input."""
    if isinstance(dynamic, dict):
        return dynamic.get(name) if name in dynamic else dynamic.get(index)
    return dynamic[index] if index < len(dynamic) else None


def _symbols_of_one(dynamic, index, name, rank):
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


def _parameters(module):
    try:
        return list(inspect.signature(module.forward).parameters.values())
    except (TypeError, ValueError):
        return []


def _argument_names(module, args, kwargs):
    names = [p.name for p in _parameters(module) if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    while len(names) < len(args):
        names.append(None)
    return names[: len(args)] + list(kwargs)


def _is_own_language(dynamic):
    """Whether sizes are named with words alone."""
    if isinstance(dynamic, dict):
        return all(_is_own_language(each) for each in dynamic.values())
    if isinstance(dynamic, (list, tuple)):
        return all(_is_own_language(each) for each in dynamic)
    return dynamic is None or isinstance(dynamic, (str, bool))


def dynamic_shapes(torch, module, args, kwargs, dynamic):
    """The value for torch.export's dynamic_shapes."""
    if dynamic is None or dynamic is False:
        return None
    dims = {}
    if not _is_own_language(dynamic):
        given = dynamic.dynamic_shapes(module, args, kwargs) if hasattr(dynamic, "dynamic_shapes") else dynamic
        return _with_dims(torch, given, dims)
    values, names = [*args, *kwargs.values()], _argument_names(module, args, kwargs)
    tensors = [tuple(value.shape) if isinstance(value, torch.Tensor) else None for value in values]
    symbols, entries = symbols_of(dynamic, names, tensors), []
    for value, found in zip(values, symbols):
        if isinstance(value, torch.Tensor):
            entries.append({d: _dim(torch, dims, symbol) for d, symbol in found.items()} or None)
        elif isinstance(dynamic, (str, bool)):  # also for all tensors in lists and dicts
            entries.append(_map(torch, value, lambda t: {0: _dim(torch, dims, "n" if dynamic is True else dynamic)} if t.dim() else None))
        else:
            entry = _entry_of(dynamic, len(entries), names[len(entries)])
            entries.append(_map(torch, value, lambda t: None) if entry is None else _with_dims(torch, entry, dims))
    return _as_forward_has_them(module, names, entries, len(args))


def _as_forward_has_them(module, names, entries, places):
    """The value for each parameter of forward: *args and **kwargs are combined."""
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
        if not name.isidentifier():
            raise ValueError(f"dynamic names a size '{name}'; a name is a word, such as n")
        dims[name] = torch.export.Dim(name)
    return dims[name]


def _with_dims(torch, shapes, dims):
    """The value for torch.export, in which words may stand for sizes."""
    if isinstance(shapes, str):
        return _dim(torch, dims, shapes)
    if isinstance(shapes, dict):
        return {key: _with_dims(torch, each, dims) for key, each in shapes.items()}
    if isinstance(shapes, (list, tuple)):
        made = [_with_dims(torch, each, dims) for each in shapes]
        return type(shapes)(*made) if hasattr(shapes, "_fields") else type(shapes)(made)
    return shapes


def with_limits(torch, dynamic, shapes, message):
    """(the value for dynamic_shapes with the limits of sizes that torch.export found in a module, the limits as text), or None."""
    lines = message.partition("Suggested fixes:\n")[2].splitlines()
    fixes = {m[1]: m[2] for m in map(re.compile(r"  (\w+) = (.+)").fullmatch, lines) if m}
    limits = {name: re.fullmatch(rf"Dim\('{name}'(?:, min=(\d+))?(?:, max=(\d+))?\)", fix) for name, fix in fixes.items()}
    if not limits or not all(limits.values()) or not _is_own_language(dynamic):
        return None
    dims = {name: torch.export.Dim(name, **{key: int(each) for key, each in zip(("min", "max"), m.groups()) if each}) for name, m in limits.items()}

    def limited(value):
        if isinstance(value, dict):
            return {key: limited(each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)([limited(each) for each in value])
        return dims.get(getattr(value, "__name__", None), value)

    return limited(shapes), ", ".join(fixes.values())


def _map(torch, value, f):
    if isinstance(value, dict):
        return {k: _map(torch, v, f) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        made = [_map(torch, v, f) for v in value]
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    return f(value) if isinstance(value, torch.Tensor) else None


def _marks(torch, module, args, kwargs, shapes):
    """{dim: torch.export.Dim or similar} of each tensor among the arguments, in order."""
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


def exportable(torch, module, args, kwargs, shapes):
    """The arguments with open sizes of at least 2: torch.export treats 0 and 1 as constants."""
    leaves, tree = torch.utils._pytree.tree_flatten((args, kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    marked, seen = list(zip(places, _marks(torch, module, args, kwargs, shapes))), {}
    for place, marks in marked:
        for d, mark in marks.items():
            size, name = leaves[place].shape[d], getattr(mark, "__name__", None)
            if name is None:
                continue
            if size == 0:
                raise ValueError(f"the open size {name} of the example is 0; give one that is 2 or more")
            if seen.setdefault(name, size) != size:
                raise ValueError(f"dynamic gives the name '{name}' to sizes that differ: {seen[name]} and {size}")
    for place, marks in marked:
        for d, mark in marks.items():
            if leaves[place].shape[d] == 1 and getattr(mark, "__name__", "").isidentifier():
                leaves[place] = torch.cat([leaves[place], leaves[place]], d)
    return torch.utils._pytree.tree_unflatten(leaves, tree)


def named_sizes(torch, module, program, args, kwargs, shapes):
    """Options for hg-convert with the user's names of open sizes; {dim: expression of names} for each tensor; and
    {name: (least, most)}. torch uses names of its own, such as s40."""
    tensors = [each for each in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    inputs = [nodes[name] for name in program.graph_signature.user_inputs if isinstance(name, str) and name in nodes]
    has_numbers = any(isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool)) for node in inputs)
    inputs = [node for node in inputs if isinstance(node.meta.get("val"), torch.Tensor)]
    if not shapes or len(inputs) != len(tensors):
        return [], [{} for _ in tensors], {}
    sizes = [
        {d: size.node.expr for d, size in enumerate(node.meta["val"].shape) if isinstance(size, torch.SymInt)} for node in inputs
    ]
    names = {}
    for found, marks in zip(sizes, _marks(torch, module, args, kwargs, shapes)):
        for d, mark in marks.items():
            name = getattr(getattr(mark, "root", mark), "__name__", "")  # 2*n has the root n
            if d in found and len(found[d].free_symbols) == 1 and name.isidentifier():
                names.setdefault(*found[d].free_symbols, name)
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
        name = f"{node.name}:" if has_numbers else ""  # else in order, since tensors of a cache get other names
        words += ["--input", f"{name}{short_dtype(str(dtype).removeprefix('torch.'))}[{dims}]"]
    plain = all(re.fullmatch(r"[\w +*()-]+", text) and "**" not in text for found in texts for text in found.values())
    renamed = any(str(symbol) != name for symbol, name in names.items())
    return words if plain and renamed else [], texts, ranges


def _bound(value):
    """None without a bound: torch has its own infinities."""
    return int(value) if getattr(value, "is_Integer", False) else None


def short_dtype(dtype):
    """hg-convert's name of a dtype: f32 for float32."""
    names = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c"}
    for word, letter in names.items():
        if dtype.startswith(word) and dtype[len(word) :].isdigit():
            return letter + dtype[len(word) :]
    return dtype
