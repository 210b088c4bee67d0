# SPDX-License-Identifier: Apache-2.0
"""Statements: assignments, branches, loops, containers, and early exits."""
from __future__ import annotations

from dataclasses import replace

import scalars
from scope import Impossible, Listing, Mapping, Maybe, Number, Pair, Scope, Tensor
from tensors import tensor
from views import view
from writes import write

DEEPEST = 3


def some_type(s: Scope) -> Tensor:
    """A type for which an expression always exists."""
    kind = s.names[s.pick(s.tensors(lambda kind: kind.dims is not None and kind.dtype != "bool"))]
    return Tensor(kind.dtype, kind.dims)


def assign_new(s: Scope) -> None:
    kind = some_type(s)
    if s.chance(0.08):
        kind = replace(kind, dtype=s.pick(["f64", "i64", "bool", "i32", "f32"]))
    text = tensor(s, kind)
    name = s.fresh("t")
    # A plain name is an alias: writes to one are visible in the other.
    writable = text not in s.names or s.names[text].writable
    s.emit(f"{name} = {text}")
    s.names[name] = replace(kind, writable=writable)


def assign_again(s: Scope) -> None:
    name = s.pick(s.tensors(lambda kind: kind.dims is not None))
    kind = s.names[name]
    if s.chance(0.06) and kind.dims:  # of another size
        text = s.pick([f"{name}[1:]", f"{name}[:-1]", f"torch.cat([{name}, {name}[:1]])", f"{name}.sum(0, keepdim=True)"])
        s.emit(f"{name} = {text}")
        s.change(name, replace(kind, dims=("?",) + kind.dims[1:]))
        return
    s.emit(f"{name} = {tensor(s, Tensor(kind.dtype, kind.dims))}")
    if not kind.writable and not s.loops and not s.branches:
        s.change(name, kind)


def take_view(s: Scope) -> None:
    name = s.pick(s.tensors(lambda kind: kind.dtype != "bool"))
    text, kind = view(s, name, s.names[name])
    if s.chance(0.25):
        same = s.tensors(lambda other: other.like(kind))
        if same:  # an older variable now points here
            other = s.pick(same)
            s.emit(f"{other} = {text}")
            s.change(other, replace(s.names[other], writable=s.names[other].writable and kind.writable))
            return
    new = s.fresh("v")
    s.emit(f"{new} = {text}")
    s.names[new] = kind


def assign_number(s: Scope) -> None:
    kind = s.weighted({"int": 4, "float": 3, "bool": 2})
    names = [name for name in s.find(lambda each: isinstance(each, Number) and each.kind == kind) if name not in s.frozen]
    if names and s.chance(0.6):
        name = s.pick(names)
        if kind != "bool" and s.chance(0.5):
            sign = s.pick(["+=", "-=", "+="])
            s.emit(f"{name} {sign} {scalars.number(s, kind, 0)}")
        else:
            s.emit(f"{name} = {scalars.number(s, kind)}")
        s.change(name, Number(kind))
        return
    name = s.fresh({"int": "k", "float": "f", "bool": "b"}[kind])
    if kind == "int" and s.chance(0.4):
        s.emit(f"{name} = {scalars.small(s, scalars.integer(s))}")
        s.names[name] = Number(kind, True)
    else:
        s.emit(f"{name} = {scalars.number(s, kind)}")
        s.names[name] = Number(kind)


def rotate(s: Scope) -> None:
    """a, b = b, a; a, b, c = b, c, a; p, q = q, p + q."""
    first = s.pick(s.tensors(lambda kind: kind.dims is not None and kind.writable))
    kind = s.names[first]
    same = [name for name in s.tensors(lambda other: other == kind) if name != first]
    count = min(len(same), s.pick([1, 1, 2]))
    if count == 0:
        raise Impossible
    names = [first] + s.rng.sample(same, count)
    sources = names[1:] + names[:1]
    if s.chance(0.4):
        sources[-1] = tensor(s, kind, 1)
    s.emit(f"{', '.join(names)} = {', '.join(sources)}")


def grow_list(s: Scope) -> None:
    lists = s.find(lambda kind: isinstance(kind, Listing))
    what = s.weighted({"new": 4, "append": 8 if lists else 0, "set": 2 if lists else 0, "pop": 1 if lists else 0,
                       "make": 1.5, "sum": 2 if lists else 0})
    if what == "new":
        kind = some_type(s) if s.chance(0.75) else Number(s.pick(["int", "float"]))
        name = s.fresh("l")
        text = "Tensor" if isinstance(kind, Tensor) else kind.kind
        if s.chance(0.5):
            s.emit(f"{name}: List[{text}] = []")
            s.names[name] = Listing(kind)
        else:
            s.emit(f"{name} = [{of(s, kind)}, {of(s, kind)}]")
            s.names[name] = Listing(kind, True)
        return
    if what == "make":
        kind, name, counter = some_type(s), s.fresh("l"), s.fresh("i")
        s.emit(f"{name} = [{of(s, kind)} {s.pick(['+', '*'])} {counter} for {counter} in range({scalars.small(s, scalars.integer(s, 0, False))})]")
        s.names[name] = Listing(kind)
        return
    name = s.pick(lists)
    kind = s.names[name]
    if what == "append":
        s.emit(f"{name}.append({of(s, kind.element)})")
        s.change(name, replace(kind, filled=True))
    elif what == "set" and kind.filled:
        s.emit(f"{name}[{s.pick(['0', '-1'])}] = {of(s, kind.element)}")
    elif what == "pop" and kind.filled:
        new = s.fresh("e")
        s.emit(f"{new} = {name}.pop()")
        s.names[new] = kind.element
        s.change(name, replace(kind, filled=False))
    elif what == "sum" and isinstance(kind.element, Tensor) and kind.element.dims is not None:
        new = s.fresh("t")
        if kind.filled:
            stacked = s.chance(0.6) and "?" not in kind.element.dims
            s.emit(f"{new} = torch.{'stack' if stacked else 'cat'}({name})")
            if not stacked and not kind.element.dims:
                raise Impossible
            dims = ("?",) + (kind.element.dims if stacked else kind.element.dims[1:])
            s.names[new] = Tensor(kind.element.dtype, dims)
        else:
            zero = of(s, kind.element)
            s.emit(f"{new} = torch.stack({name}).sum(0) if len({name}) > 0 else {zero}")
            s.names[new] = Tensor(kind.element.dtype, kind.element.dims)
    else:
        raise Impossible


def of(s: Scope, kind: object) -> str:
    if isinstance(kind, Tensor):
        return tensor(s, kind, 1)
    if isinstance(kind, Number):
        return scalars.number(s, kind.kind, 0)
    raise Impossible


def use_dict(s: Scope) -> None:
    dicts = s.find(lambda kind: isinstance(kind, Mapping))
    if dicts and s.chance(0.7):
        name = s.pick(dicts)
        kind = s.names[name]
        key = s.pick(kind.keys + ("c",))
        s.emit(f'{name}["{key}"] = {tensor(s, kind.element, 1)}')
        s.change(name, replace(kind, keys=tuple(sorted({*kind.keys, key}))))
        return
    kind, name = some_type(s), s.fresh("d")
    s.emit(f'{name} = {{"a": {tensor(s, kind, 1)}, "b": {tensor(s, kind, 1)}}}')
    s.names[name] = Mapping(("a", "b"), kind)


def use_maybe(s: Scope) -> None:
    maybes = s.find(lambda kind: isinstance(kind, Maybe))
    if not maybes:
        kind, name = some_type(s), s.fresh("o")
        s.emit(f"{name}: Optional[Tensor] = None")
        s.names[name] = Maybe(kind)
        return
    name = s.pick(maybes)
    kind = s.names[name].element
    if s.chance(0.5):
        s.emit(f"{name} = {tensor(s, kind, 1)}")
        return
    into = s.pick(s.tensors(kind.like))
    s.emit(f"if {name} is not None:")
    with s.block():
        s.emit(f"{into} = {into} + {name}")


def use_pair(s: Scope) -> None:
    pairs = s.find(lambda kind: isinstance(kind, Pair))
    if pairs and s.chance(0.4):
        name = s.pick(pairs)
        news = [s.fresh("u") for _ in s.names[name].elements]
        s.emit(f"{', '.join(news)} = {name}")
        s.names.update(zip(news, s.names[name].elements))
        return
    kinds = (some_type(s), s.pick([some_type(s), Number("int")]))
    name = s.fresh("p")
    s.emit(f"{name} = ({of(s, kinds[0])}, {of(s, kinds[1])})")
    s.names[name] = Pair(kinds)


def speak(s: Scope) -> None:
    if s.traced:
        raise Impossible
    what = s.weighted({"print": 3, "assert": 1, "raise": 1})
    if what == "print":
        s.emit(f'print("seen", {s.pick([name for name in s.names])})')
    elif what == "assert":
        size = s.pick(s.tensors(lambda kind: bool(kind.dims)))
        s.emit(s.weighted({f'assert {size}.dim() > 0': 2, f'assert {scalars.truth(s, 0)}, "must hold"': 1}))
    else:
        s.emit(f"if {scalars.condition(s)}:")
        with s.block():
            s.emit('raise ValueError("no such value")')


def leave(s: Scope) -> None:
    """An early return, or break or continue out of the present loop."""
    s.emit(f"if {scalars.condition(s)}:")
    with s.block():
        if s.loops and s.chance(0.75):
            if s.chance(0.3):
                write_something(s)
            s.emit(s.pick(["break", "continue"]))
        else:
            s.emit(f"return {returned(s)}")


def write_something(s: Scope) -> None:
    for _ in range(5):
        try:
            with s.attempt():
                return s.pick([write, assign_again, assign_number])(s)
        except Impossible:
            continue


def returned(s: Scope) -> str:
    texts = []
    for kind in s.results:
        if isinstance(kind, Tensor) and not s.chance(0.07):
            texts.append(tensor(s, kind, s.pick([0, 0, 1])))
        elif isinstance(kind, Tensor):  # of other sizes
            same = [name for name in s.tensors(lambda each: each.dtype == kind.dtype and each.dims is not None)
                    if len(s.names[name].dims) == len(kind.dims)]
            texts.append(s.pick(same) if same else tensor(s, kind, 0))
        else:
            texts.append(scalars.number(s, kind.kind))
    return ", ".join(texts)


def branch(s: Scope) -> None:
    if s.branches + len(s.loops) >= DEEPEST:
        raise Impossible
    both = s.chance(0.15)
    s.emit(f"if {scalars.condition(s)}:")
    new, kind = s.fresh("t"), some_type(s) if both else None
    with s.block():
        body(s, s.rng.randrange(1, 4))
        if both:
            s.emit(f"{new} = {tensor(s, kind, 1)}")
    if s.chance(0.2) and not both:
        s.emit(f"elif {scalars.condition(s)}:")
        with s.block():
            body(s, s.rng.randrange(1, 3))
    if both or s.chance(0.5):
        s.emit("else:")
        with s.block():
            body(s, s.rng.randrange(1, 3))
            if both:
                s.emit(f"{new} = {tensor(s, kind, 1)}")
    if both:
        s.names[new] = kind


def for_loop(s: Scope) -> None:
    if s.branches + len(s.loops) >= DEEPEST:
        raise Impossible
    counter = s.fresh("i")
    what = s.weighted({"size": 6, "number": 3, "constant": 2, "rows": 2, "list": 1.5, "enumerate": 0.7, "zip": 0.5, "step": 1})
    below = {}
    element = None
    if what == "size":
        name = s.pick(s.tensors(lambda kind: bool(kind.dims) and len(kind.dims) > 0))
        dim = s.names[name].dims[0]
        text = s.pick([f"{name}.size(0)", f"len({name})", f"{name}.shape[0]"])
        shift = s.weighted({"": 5, " - 1": 2, " - 2": 1})
        head = f"for {counter} in range({text}{shift}):"
        below = {dim: (*s.counts.get(dim, ()), counter)} if dim != "?" else {}
    elif what == "step":
        name = s.pick(s.tensors(lambda kind: bool(kind.dims)))
        dim = s.names[name].dims[0]
        head = s.pick([f"for {counter} in range(1, {name}.size(0)):", f"for {counter} in range(0, {name}.size(0), 2):",
                       f"for {counter} in range({name}.size(0) - 1, -1, -1):", f"for {counter} in range({name}.size(0) // 2):"])
        below = {dim: (*s.counts.get(dim, ()), counter)} if dim != "?" else {}
    elif what == "number":
        head = f"for {counter} in range({scalars.small(s, scalars.integer(s))}):"
    elif what == "constant":
        head = f"for {counter} in range({s.rng.randrange(1, 5)}):"
    else:
        if what == "list":
            name = s.pick(s.find(lambda kind: isinstance(kind, Listing)))
            element = s.names[name].element
        else:
            name = s.pick(s.tensors(lambda kind: bool(kind.dims) and (kind.dims[0] in s.sizes or kind.dims[0].isdigit())))
            element = replace(s.names[name], dims=s.names[name].dims[1:])
        text = name if what == "list" or s.chance(0.5) else s.pick([f"{name}.unbind(0)", name])
        item = s.fresh("r")
        head = f"for {item} in {text}:" if what != "enumerate" else f"for {counter}, {item} in enumerate({text}):"
        if what == "zip":
            head = f"for {item}, {counter} in zip({text}, range(5)):"
    s.emit(head)
    old = s.counts
    with s.block("for"):
        s.frozen |= {counter}
        if element is not None:
            s.names[item] = element
        if element is None or what in ("enumerate", "zip"):
            s.names[counter] = Number("int", True)
        s.counts = old | below
        if what == "list":  # Python would never reach the end of a list that its loop extends
            del s.names[name]
        body(s, s.rng.randrange(1, 5))
    s.counts = old


def while_loop(s: Scope) -> None:
    if s.branches + len(s.loops) >= DEEPEST:
        raise Impossible
    counter = s.fresh("w")
    s.emit(f"{counter} = 0")
    s.names[counter] = Number("int")
    s.frozen |= {counter}
    most = s.rng.randrange(2, 7)
    condition = scalars.condition(s)
    inside = s.chance(0.3)
    s.emit(f"while {condition}:" if inside else f"while {condition} and {counter} < {most}:")
    with s.block("while"):
        s.emit(f"{counter} += 1")
        if inside:
            s.emit(f"if {counter} > {most}:")
            with s.block():
                s.emit("break")
        body(s, s.rng.randrange(1, 4))


KINDS = {assign_new: 6, assign_again: 7, take_view: 5, write: 9, assign_number: 5, rotate: 3, grow_list: 4, use_dict: 1, use_maybe: 1.2,
         use_pair: 1, speak: 0.5, leave: 1.8, branch: 6, for_loop: 5, while_loop: 2}
UNTRACED = {leave, branch, while_loop, use_maybe}


def body(s: Scope, count: int) -> None:
    """Adds this number of statements."""
    for _ in range(count):
        for _ in range(20):
            weights = dict(KINDS)
            if s.loops or s.branches:
                weights |= {assign_again: 10, rotate: 5, leave: 3}
            if s.traced:
                weights = {kind: weight for kind, weight in weights.items() if kind not in UNTRACED}
            kind = s.weighted(weights)
            try:
                with s.attempt():
                    kind(s)
                break
            except Impossible:
                continue
