# SPDX-License-Identifier: Apache-2.0
"""Texts of int, float and bool."""
from __future__ import annotations

from scope import Impossible, Listing, Mapping, Number, Scope


def reduced(s: Scope) -> str:
    """A tensor of rank 0 that depends on data, of any dtype except bool."""
    name = s.pick(s.tensors(lambda kind: kind.dtype in ("f32", "i64", "f64")))
    return s.pick([f"{name}.sum()", f"{name}.abs().sum()", f"{name}.max()", f"{name}.min()", f"{name}.abs().max()",
                   f"({name} > {limit(s)}).sum()", f"{name}.sum()"])


def limit(s: Scope) -> str:
    return s.pick(["0", "0", "0", "0.5", "1", "2", "3", "10", "100", "-1"])


def integer(s: Scope, depth: int = 1, data: bool | None = None) -> str:
    """`data`: whether it may depend on data; None: mostly not."""
    if data is None:
        data = not s.traced and s.chance(0.3)
    options = {"size": 5, "constant": 3}
    names = s.find(lambda kind: isinstance(kind, Number) and kind.kind == "int")
    lists = s.find(lambda kind: isinstance(kind, (Listing, Mapping)))
    if names:
        options["name"] = 5
    if lists:
        options["length"] = 1
    if depth > 0:
        options["arithmetic"] = 5
        options["choice"] = 0.5
    if data:
        options["data"] = 3
    what = s.weighted(options)
    if what == "size":
        name = s.pick(s.tensors())
        dims = s.names[name].dims
        if not dims:
            return s.pick([f"{name}.dim()", f"{name}.numel()"])
        d = s.rng.randrange(len(dims))
        return s.weighted({f"{name}.size({d})": 6, f"{name}.shape[{d}]": 2, f"{name}.size(-1)": 1, f"len({name})": 1.5,
                           f"{name}.dim()": 1, f"{name}.numel()": 1})
    if what == "constant":
        return str(s.rng.randrange(0, 5))
    if what == "name":
        return s.pick(names)
    if what == "length":
        return f"len({s.pick(lists)})"
    if what == "data":
        return small(s, f"int({reduced(s)})") if s.chance(0.7) else f"int({s.pick(s.tensors(finite))}.clamp(-9, 9).sum())"
    if what == "choice":
        return f"({integer(s, 0, data)} if {truth(s, 0, data)} else {integer(s, 0, data)})"
    a, b = integer(s, depth - 1, data), integer(s, depth - 1, data)
    return s.weighted({f"({a} + {b})": 4, f"({a} - {b})": 4, f"({a} * 2)": 2, f"({a} // 2)": 3, f"({a} % 3)": 2,
                       f"max({a}, {b})": 1.5, f"min({a}, {b})": 1.5, f"({a} % 2)": 1, f"abs({a} - {b})": 0.5,
                       f"({a} // max({b}, 1))": 0.7, f"(-{a} // 2)": 0.7, f"(-{a} % 3)": 0.7})


def finite(kind) -> bool:
    return kind.dtype in ("f32", "i64", "f64")


def small(s: Scope, text: str) -> str:
    """The number, moved into 0..4."""
    return s.pick([f"min(max({text}, 0), 4)", f"max(0, min({text}, 3))", f"abs({text}) % 4"])


def real(s: Scope, depth: int = 1, data: bool | None = None) -> str:
    if data is None:
        data = not s.traced and s.chance(0.5)
    options = {"constant": 3, "size": 1.5}
    names = s.find(lambda kind: isinstance(kind, Number) and kind.kind == "float")
    if names:
        options["name"] = 5
    if data:
        options["data"] = 4
    if depth > 0:
        options["arithmetic"] = 4
    what = s.weighted(options)
    if what == "constant":
        return s.pick(["0.5", "2.0", "1.5", "-0.25", "0.0", "3.0", "-1.0"])
    if what == "size":
        n = integer(s, 0, False)
        return s.pick([f"float({n})", f"({n} / 2)", f"({n} * 0.5)"])
    if what == "name":
        return s.pick(names)
    if what == "data":
        text = reduced(s)
        return s.weighted({f"float({text})": 4, f"{text}.float().item()": 0 if s.chance(0.7) else 1})
    a, b = real(s, depth - 1, data), real(s, depth - 1, data)
    return s.weighted({f"({a} + {b})": 4, f"({a} - {b})": 3, f"({a} * {b})": 2, f"max({a}, {b})": 1, f"min({a}, {b})": 1,
                       f"abs({a})": 0.5, f"({a} / 4.0)": 1})


def truth(s: Scope, depth: int = 1, data: bool | None = None) -> str:
    if data is None:
        data = not s.traced and s.chance(0.6)
    options = {"size": 5}
    names = s.find(lambda kind: isinstance(kind, Number) and kind.kind == "bool")
    floats = s.find(lambda kind: isinstance(kind, Number) and kind.kind == "float")
    if data:
        options["data"] = 12
        if floats:
            options["float"] = 3
    if names:
        options["name"] = 2
    if depth > 0:
        options |= {"not": 0.7, "both": 1.5}
    what = s.weighted(options)
    compare = s.pick(["<", ">", "<=", ">=", ">", "=="])
    if what == "size":
        return s.weighted({f"{integer(s, 1, False)} {compare} {integer(s, 0, False)}": 3,
                           f"{integer(s, 0, False)} {s.pick(['>', '==', '<', '!='])} {s.rng.randrange(1, 5)}": 4,
                           f"{integer(s, 0, False)} % 2 == {s.rng.randrange(2)}": 1.5})
    if what == "float":
        return f"{s.pick(floats)} {compare} {s.pick(['0.0', '1.0', '-0.5', '10.0'])}"
    if what == "data":
        name = s.pick(s.tensors(finite))
        ints = s.find(lambda kind: kind == Number("int"))
        options = {f"bool({reduced(s)} {compare} {limit(s)})": 6,
                   f"bool(({name} > {limit(s)}).any())": 2, f"bool(({name} > {limit(s)}).all())": 1,
                   f"float({reduced(s)}) {compare} {s.pick(['0.0', '1.0', '10.0'])}": 2,
                   f"bool({reduced(s)} {compare} {reduced(s)})": 1}
        if ints:
            options[f"{s.pick(ints)} {compare} {s.rng.randrange(0, 4)}"] = 3
        return s.weighted(options)
    if what == "name":
        return s.pick(names)
    if what == "not":
        return f"not ({truth(s, 0, data)})"
    return f"({truth(s, 0, data)} {s.pick(['and', 'or'])} {truth(s, 0, data)})"


def condition(s: Scope) -> str:
    """A condition of an `if` or `while`, which may be a tensor."""
    if not s.traced and s.chance(0.25):
        return f"{reduced(s)} {s.pick(['<', '>', '>=', '=='])} {limit(s)}"
    return truth(s, 1)


def number(s: Scope, kind: str, depth: int = 1) -> str:
    if kind == "int":
        return integer(s, depth)
    if kind == "float":
        return real(s, depth)
    if kind == "bool":
        return truth(s, depth)
    raise Impossible
