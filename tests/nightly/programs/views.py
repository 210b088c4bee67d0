# SPDX-License-Identifier: Apache-2.0
"""Texts that share memory with a tensor, or may share it."""
from __future__ import annotations

from dataclasses import replace

from scope import Impossible, Number, Scope, Tensor, at_most, less, product



def index(s: Scope, dim: str) -> str:
    """An index into a dim, mostly a valid one."""
    small = s.find(lambda kind: isinstance(kind, Number) and kind.small)
    options = {"0": 4, "-1": 3}
    if dim.isdigit():
        options |= {str(s.rng.randrange(max(int(dim), 1))): 4}
    else:
        options |= {"1": 0.3}
        if dim in s.sizes:
            options |= {f"{s.sizes[dim]} - 1": 1, f"{s.sizes[dim]} // 2": 1, f"-{s.sizes[dim]}": 0.5}
            if small:
                options |= {f"{s.pick(small)} % {s.sizes[dim]}": 1}
    counters = [name for name in s.counts.get(dim, ()) if name in s.names]
    if counters:
        options |= {s.pick(counters): 8}
    return s.weighted(options)


def bounds(s: Scope, dim: str) -> tuple[str, str]:
    """The text of a slice and the size it leaves."""
    known = dim != "?"
    options = {
        ("1:", less(dim, 1)): 4, (":-1", less(dim, 1)): 4, ("1:-1", less(dim, 2)): 2,
        (":2", at_most(dim, 2)): 2, (":1", at_most(dim, 1)): 1, ("::2", f"half({dim})"): 2,
        ("-2:", at_most(dim, 2)): 1, (":", dim): 1, ("1::2", f"other({dim})"): 0.5,
        ("2:", less(dim, 2)): 1, (":100", dim): 0.3,
    }
    if dim in s.sizes:
        n = s.sizes[dim]
        options |= {(f"{n} // 2:", f"upper({dim})"): 1, (f":{n} // 2", f"lower({dim})"): 1,
                    (f"{n} // 2:{n} + 3", f"upper({dim})"): 0.5, (f"-{n}:", dim): 0.3,
                    (f":{n} - 1", less(dim, 1)): 0.7}
    ints = s.find(lambda kind: kind == Number("int", True))
    if ints:
        name = s.pick(ints)
        options |= {(f"{name}:", "?"): 0.5, (f":{name}", "?"): 0.5, (f"{name}:{name} + 1", "?"): 0.5}
    text, left = s.weighted(options)
    if not known:
        left = "?"
    if dim.isdigit() and not left.isdigit():
        left = "?" if "?" in left else str(len(range(int(dim))[{"::2": slice(None, None, 2), "1::2": slice(1, None, 2)}[text]]))
    return text, left


def view(s: Scope, name: str, kind: Tensor) -> tuple[str, Tensor]:
    """A random view of a variable."""
    if kind.dims is None:
        raise Impossible
    dims, rank = kind.dims, len(kind.dims)
    if rank == 0:
        text, shape = s.pick([(f"{name}.unsqueeze(0)", ("1",)), (f"{name}.reshape(1)", ("1",)), (f"{name}.view(-1)", ("1",))])
        return text, replace(kind, dims=shape)
    d = s.rng.randrange(rank)
    negative = s.chance(0.3)
    axis = str(d - rank if negative else d)
    rest = dims[:d] + dims[d + 1:]
    colons = ":, " * d
    what = s.weighted({"select": 6, "slice": 6, "transpose": 3 if rank > 1 else 0, "flat": 2, "unsqueeze": 1.5,
                       "unbind": 1.5, "chunk": 1.2, "split": 0.8, "expand": 0.8, "diagonal": 1.2 if rank > 1 else 0,
                       "narrow": 1, "squeeze": 0.8, "same": 0.8, "two": 1.5 if rank > 1 else 0, "permute": 0.5 if rank > 1 else 0,
                       "pair": 0.4})
    if what == "select":
        at = index(s, dims[d])
        return s.pick([f"{name}[{colons}{at}]", f"{name}.select({axis}, {at})"]), replace(kind, dims=rest)
    if what == "slice":
        text, left = bounds(s, dims[d])
        return f"{name}[{colons}{text}]", replace(kind, dims=dims[:d] + (left,) + dims[d + 1:])
    if what == "two":
        at, (text, left) = index(s, dims[0]), bounds(s, dims[1])
        return f"{name}[{at}, {text}]", replace(kind, dims=(left,) + dims[2:])
    if what == "transpose":
        if rank == 2 and s.chance(0.5):
            return f"{name}.t()", replace(kind, dims=dims[::-1])
        e = (d + 1) % rank
        shape = list(dims)
        shape[d], shape[e] = shape[e], shape[d]
        return f"{name}.transpose({axis}, {e})", replace(kind, dims=tuple(shape))
    if what == "permute":
        order = list(range(rank))
        s.rng.shuffle(order)
        return f"{name}.permute({order})", replace(kind, dims=tuple(dims[k] for k in order))
    if what == "flat":
        text = s.pick(["reshape(-1)", "flatten()", "view(-1)" if s.chance(0.3) else "reshape(-1)"])
        return f"{name}.{text}", replace(kind, dims=(product(dims),))
    if what == "pair":
        if not dims[-1].isdigit() or int(dims[-1]) % 2 or dims[-1] == "0":
            raise Impossible
        front = ", ".join(s.sizes.get(dim, dim) if not dim == "?" else f"{name}.size({k})" for k, dim in enumerate(dims[:-1]))
        if any(not dim.isdigit() and dim not in s.sizes for dim in dims[:-1]):
            raise Impossible
        text = f"{name}.{s.pick(['view', 'reshape'])}({front + ', ' if front else ''}2, {int(dims[-1]) // 2})"
        return text, replace(kind, dims=dims[:-1] + ("2", str(int(dims[-1]) // 2)))
    if what == "unsqueeze":
        at = s.rng.randrange(rank + 1)
        return f"{name}.unsqueeze({at})", replace(kind, dims=dims[:at] + ("1",) + dims[at:])
    if what == "unbind":
        at = s.pick(["0", "-1"])
        return f"{name}.unbind({axis})[{at}]", replace(kind, dims=rest)
    if what == "chunk":
        at = s.pick(["0", "-1", "1" if s.chance(0.3) else "0"])
        left = str(int(dims[d]) // 2) if dims[d].isdigit() and int(dims[d]) % 2 == 0 else "?"
        return f"{name}.chunk(2, {axis})[{at}]", replace(kind, dims=dims[:d] + (left,) + dims[d + 1:])
    if what == "split":
        left = "2" if dims[d].isdigit() and int(dims[d]) % 2 == 0 and dims[d] != "0" else "?"
        return f"{name}.split(2, {axis})[{s.pick(['0', '-1'])}]", replace(kind, dims=dims[:d] + (left,) + dims[d + 1:])
    if what == "expand":
        if s.chance(0.5):
            return f"{name}.unsqueeze(0).expand(3{', -1' * rank})", replace(kind, dims=("3",) + dims, writable=False)
        return f"{name}.expand_as({name})", kind
    if what == "diagonal":
        if rank != 2:
            raise Impossible
        return f"{name}.diagonal()", replace(kind, dims=("?",))
    if what == "narrow":
        if dims[d].isdigit() and int(dims[d]) >= 2:
            return f"{name}.narrow({axis}, 1, {int(dims[d]) - 1})", replace(kind, dims=dims[:d] + (less(dims[d], 1),) + dims[d + 1:])
        if dims[d] not in s.sizes:
            raise Impossible
        n = s.sizes[dims[d]]
        return f"{name}.narrow({axis}, 1, {n} - 1)", replace(kind, dims=dims[:d] + (less(dims[d], 1),) + dims[d + 1:])
    if what == "squeeze":
        if dims[d] == "1":
            return f"{name}.squeeze({axis})", replace(kind, dims=rest)
        if dims[d].isdigit():
            return f"{name}.squeeze({axis})", kind
        if not s.chance(0.3):
            raise Impossible
        return f"{name}.squeeze({axis})", replace(kind, dims=None)
    return f"{name}.{s.pick(['detach()', 'contiguous()', 'view_as(' + name + ')', 'reshape_as(' + name + ')'])}", kind
