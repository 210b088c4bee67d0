# SPDX-License-Identifier: Apache-2.0
"""Texts of tensors with a given dtype and shape."""
from __future__ import annotations

import scalars
from operators import operator
from scope import Impossible, Listing, Mapping, Pair, Scope, Tensor
from views import view

METHOD = {"f32": "float()", "f64": "double()", "i64": "long()", "i32": "int()", "bool": "to(torch.bool)"}
TORCH = {"f32": "torch.float32", "f64": "torch.float64", "i64": "torch.int64", "i32": "torch.int32", "bool": "torch.bool"}


def constant(s: Scope, dtype: str) -> str:
    if dtype in ("f32", "f64"):
        return s.pick(["0.5", "2", "1.5", "-1", "0.25", "1", "3", "-0.5"])
    return s.pick(["1", "2", "3", "-1"])


def with_number(s: Scope, dtype: str) -> str:
    """A number by which an element of this dtype may be moved without a change of dtype."""
    if s.chance(0.6):
        return constant(s, dtype)
    return scalars.real(s, 0) if dtype in ("f32", "f64") and s.chance(0.5) else scalars.integer(s, 0)


def base(s: Scope, want: Tensor) -> str:
    """A tensor of any such shape, built without other tensors if there are none."""
    names = s.tensors(want.like)
    if names:
        return s.pick(names)
    others = s.tensors(lambda kind: kind.dims == want.dims and kind.dtype != "bool" and "?" not in kind.dims)
    if others:
        return f"{s.pick(others)}.{METHOD[want.dtype]}"
    if want.dims is None or any(not dim.isdigit() and dim not in s.sizes for dim in want.dims):
        for _ in range(6):
            name = s.pick(s.tensors(lambda kind: kind.dtype == want.dtype))
            try:
                text, kind = view(s, name, s.names[name])
            except Impossible:
                continue
            if kind.dims == want.dims and "?" not in (kind.dims or "?"):
                return text
        raise Impossible
    sizes = ", ".join(s.sizes.get(dim, dim) for dim in want.dims)
    if want.dtype == "bool":
        return f"torch.ones([{sizes}], dtype=torch.bool)"
    if len(want.dims) == 1 and s.chance(0.3):
        return f"torch.arange({sizes}, dtype={TORCH[want.dtype]})"
    value = s.pick([f"torch.zeros([{sizes}]", f"torch.ones([{sizes}]", f"torch.full([{sizes}], {constant(s, want.dtype)}"])
    return value + ("" if want.dtype == "f32" and "full" not in value else f", dtype={TORCH[want.dtype]}") + ")"


def unary(s: Scope, a: str, want: Tensor) -> str:
    if want.dtype == "bool":
        return s.pick([f"~{a}", f"({a}).logical_not()"])
    limit = s.pick(["1", "2", "5"])
    options = {f"{a}.abs()": 2, f"(-{a})": 2, f"{a}.clamp(-{limit}, {limit})": 2, f"{a}.clone()": 2, f"torch.sign({a})": 0.5,
               f"{a}.clamp(min=0)": 0.7, f"torch.relu({a})": 1.5}
    if want.dtype in ("f32", "f64"):
        options |= {f"torch.tanh({a})": 1, f"torch.sigmoid({a})": 1, f"torch.floor({a})": 0.7, f"{a}.abs().sqrt()": 0.5,
                    f"torch.exp(-{a}.abs())": 0.5, f"{a}.square()": 0.4, f"torch.round({a})": 0.3}
    if want.dims:
        d = s.rng.randrange(len(want.dims))
        options |= {f"{a}.flip({d})": 1, f"{a}.cumsum({d})": 1 if want.dtype != "i32" else 0, f"torch.roll({a}, 1, {d})": 0.8,
                    f"{a}.sort({d})[0]": 0.5, f"{a}.contiguous()": 0.5}
        if want.dtype in ("f32", "f64"):
            options[f"{a}.softmax({d})"] = 0.4
    return s.weighted(options)


def binary(s: Scope, a: str, b: str, dtype: str) -> str:
    if dtype == "bool":
        return s.pick([f"({a} & {b})", f"({a} | {b})", f"({a} ^ {b})", f"torch.logical_and({a}, {b})"])
    return s.weighted({f"({a} + {b})": 6, f"({a} - {b})": 5, f"({a} * {b})": 4, f"torch.maximum({a}, {b})": 1,
                       f"torch.minimum({a}, {b})": 0.7, f"torch.add({a}, {b}, alpha=2)": 0.5,
                       f"({a} / 4 + {b})": 0 if dtype not in ("f32", "f64") else 0.7})


def mask(s: Scope, dims: tuple[str, ...], depth: int = 1) -> str:
    """A bool tensor of this shape."""
    names = s.tensors(lambda kind: kind.dims == dims and kind.dtype in ("f32", "i64", "f64"))
    a = s.pick(names)
    return s.pick([f"({a} > {scalars.limit(s)})", f"({a} < {scalars.limit(s)})", f"({a} != 0)", f"({a} >= {s.pick(names)})",
                   f"({a} % 2 == 0)"])


def broadcast(s: Scope, want: Tensor) -> str:
    """A variable of this dtype that broadcasts to the shape."""

    def fits(kind: Tensor) -> bool:
        if kind.dtype != want.dtype or not kind.dims or len(kind.dims) > len(want.dims) or kind.dims == want.dims:
            return kind.dtype == want.dtype and kind.dims == ()
        return all(x in (y, "1") and x != "?" for x, y in zip(kind.dims[::-1], want.dims[::-1]))

    return s.pick(s.tensors(fits))


def reduction(s: Scope, want: Tensor) -> str:
    """Reduces a variable with one rank more, or all elements of one."""
    if want.dtype in ("bool", "i32"):
        raise Impossible
    if want.dims == ():
        name = s.pick(s.tensors(lambda kind: kind.dtype == want.dtype and kind.dims != ()))
        return f"{name}.{s.pick(['sum()', 'max()', 'min()', 'abs().sum()', 'mean()' if want.dtype != 'i64' else 'sum()'])}"

    def fits(kind: Tensor) -> bool:
        return (kind.dtype == want.dtype and kind.dims is not None and len(kind.dims) == len(want.dims) + 1 and
                any(kind.dims[:d] + kind.dims[d + 1:] == want.dims for d in range(len(kind.dims))))

    name = s.pick(s.tensors(fits))
    dims = s.names[name].dims
    d = s.pick(d for d in range(len(dims)) if dims[:d] + dims[d + 1:] == want.dims)
    means = [f"mean({d})"] if want.dtype != "i64" else []
    return f"{name}.{s.pick([f'sum({d})', f'sum({d})', f'amax({d})', f'max({d})[0]', f'cumsum({d}).select({d}, -1)', *means])}"


def places(s: Scope, dim: str) -> str:
    """An index tensor of as many elements as the dimension has."""
    name = s.pick(s.tensors(lambda kind: kind.dtype == "i64" and kind.dims == (dim,) and dim != "?"))
    size = f"{name}.size(0)"
    return s.pick([f"({name}.abs() % {size})", f"{name}.clamp(0, {size} - 1)", f"{name}.argsort()"])


def tensor(s: Scope, want: Tensor, depth: int = 2) -> str:
    """An expression of this dtype and shape."""
    names = s.tensors(want.like)
    unknown = want.dims is None or "?" in want.dims
    if unknown and not names:
        raise Impossible
    if depth <= 0 or (unknown and s.chance(0.3)):
        return s.pick(names) if names else base(s, want)
    a = lambda: tensor(s, want, depth - 1)  # noqa: E731
    options = {"name": 3 if names else 0, "unary": 4, "binary": 6, "number": 5, "where": 1.5, "choice": 0.5, "view": 2.5,
               "broadcast": 2, "reduction": 2, "cast": 0.7, "index": 0.7, "element": 2, "factory": 0.5, "operator": 3}
    if unknown:
        options = {key: options[key] for key in ("name", "unary", "number", "element")}
    for _ in range(8):
        what = s.weighted(options)
        try:
            if what == "name":
                return s.pick(names)
            if what == "unary":
                return unary(s, a(), want)
            if what == "binary":
                return binary(s, a(), a(), want.dtype)
            if what == "number" and want.dtype != "bool":
                sign = s.pick(["+", "-", "*", "+", "*"])
                return f"({a()} {sign} {with_number(s, want.dtype)})"if want.dtype in ("f32", "f64") else \
                    f"({a()} {s.pick(['+', '-', '*'])} {scalars.integer(s, 0)})"
            if what == "where":
                return f"torch.where({mask(s, want.dims)}, {a()}, {a()})"
            if what == "operator" and names:  # on variables, because the texts use them several times
                return operator(s, want, s.pick(names), s.pick(names), mask(s, want.dims))
            if what == "choice":
                return f"({a()} if {scalars.truth(s, 0)} else {a()})"
            if what == "view":
                name = s.pick(s.tensors(lambda kind: kind.dtype == want.dtype))
                text, kind = view(s, name, s.names[name])
                if kind.dims == want.dims:
                    return text
            if what == "broadcast":
                return binary(s, a(), broadcast(s, want), want.dtype)
            if what == "reduction":
                return reduction(s, want)
            if what == "cast":
                name = s.pick(s.tensors(lambda kind: kind.dims == want.dims and kind.dtype != want.dtype))
                source = name if want.dtype in ("f32", "f64", "bool") or s.names[name].dtype != "f32" else f"{name}.clamp(-99, 99)"
                return f"{source}.{METHOD[want.dtype]}"
            if what == "index":
                name = s.pick(s.tensors(lambda kind: kind.like(want) and kind.dims))
                at = places(s, want.dims[0])
                return s.pick([f"{name}[{at}]", f"torch.index_select({name}, 0, {at})"])
            if what == "element":
                return element(s, want)
            if what == "factory":
                return base(s, want)
        except Impossible:
            continue
    return s.pick(names) if names else base(s, want)


def element(s: Scope, want: Tensor) -> str:
    """An element of a list, dict or tuple."""
    options = []
    for name, kind in s.names.items():
        if isinstance(kind, Listing) and isinstance(kind.element, Tensor) and kind.filled:
            if kind.element.like(want):
                options += [f"{name}[0]", f"{name}[-1]"]
            elif want.dims and kind.element.dtype == want.dtype and kind.element.dims == want.dims[1:] and want.dims[0] == "?":
                options += [f"torch.stack({name})"]
            elif kind.element.dims is not None and kind.element.like(want):
                options += [f"torch.stack({name}).sum(0)"]
        if isinstance(kind, Mapping) and kind.element.like(want):
            options += [f'{name}["{key}"]' for key in kind.keys]
        if isinstance(kind, Pair):
            options += [f"{name}[{k}]" for k, each in enumerate(kind.elements) if want.like(each)]
    return s.pick(options)
