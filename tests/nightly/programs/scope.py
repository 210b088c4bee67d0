# SPDX-License-Identifier: Apache-2.0
"""State of the program being written: its variables, their types, its lines."""
from __future__ import annotations

import random
from contextlib import contextmanager
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Tensor:
    """Sizes are texts; equal texts are certainly equal at run time. None: even the rank is unknown."""

    dtype: str
    dims: tuple[str, ...] | None
    writable: bool = True

    def like(self, other: object) -> bool:
        return isinstance(other, Tensor) and (self.dtype, self.dims) == (other.dtype, other.dims)


@dataclass(frozen=True)
class Number:
    kind: str  # int, float or bool
    small: bool = False  # surely in 0..6


@dataclass(frozen=True)
class Listing:
    element: object
    filled: bool = False  # surely not empty


@dataclass(frozen=True)
class Mapping:
    keys: tuple[str, ...]
    element: Tensor


@dataclass(frozen=True)
class Maybe:
    element: Tensor


@dataclass(frozen=True)
class Pair:
    elements: tuple[object, ...]


class Impossible(Exception):
    """The wanted expression is impossible with these variables; the caller tries another one."""


@dataclass
class Scope:
    rng: random.Random
    traced: bool = False  # for jit.trace: nothing may depend on data
    names: dict[str, object] = field(default_factory=dict)
    sizes: dict[str, str] = field(default_factory=dict)  # of a symbol: the text that reads it
    lines: list[str] = field(default_factory=list)
    indent: int = 1
    made: int = 0
    loops: list[str] = field(default_factory=list)  # "for" or "while" around the present line
    branches: int = 0
    frozen: frozenset[str] = frozenset()  # counters of loops
    counts: dict[str, tuple[str, ...]] = field(default_factory=dict)  # counters that stay below a size
    results: tuple[object, ...] = ()

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def fresh(self, stem: str) -> str:
        self.made += 1
        return f"{stem}{self.made}"

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def pick(self, items):
        items = list(items)
        if not items:
            raise Impossible
        return self.rng.choice(items)

    def weighted(self, options: dict):
        return self.rng.choices(list(options), list(options.values()))[0]

    def find(self, test) -> list[str]:
        return [name for name, kind in self.names.items() if test(kind)]

    def tensors(self, test=lambda kind: True) -> list[str]:
        return self.find(lambda kind: isinstance(kind, Tensor) and test(kind))

    def change(self, name: str, kind: object) -> None:
        self.names[name] = kind

    @contextmanager
    def block(self, loop: str = ""):
        """An indented block, of which the variables end with it. What it says of older ones stays where
        they have changed."""
        before = dict(self.names)
        self.indent += 1
        if loop:
            self.loops.append(loop)
        else:
            self.branches += 1
        start = len(self.lines)
        try:
            yield
        finally:
            if len(self.lines) == start:
                self.emit("pass")
            self.indent -= 1
            if loop:
                self.loops.pop()
            else:
                self.branches -= 1
            self.names = {name: joined(kind, self.names.get(name, kind)) for name, kind in before.items()}

    @contextmanager
    def attempt(self):
        """Undoes everything if the body turns out to be impossible."""
        state = (dict(self.names), len(self.lines), self.indent, list(self.loops), self.branches, self.frozen)
        try:
            yield
        except Impossible:
            self.names, count, self.indent, self.loops, self.branches, self.frozen = state
            del self.lines[count:]
            raise


def joined(a: object, b: object) -> object:
    """What is known of a variable that may be either of two."""
    if a == b:
        return a
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        dims = None
        if a.dims is not None and b.dims is not None and len(a.dims) == len(b.dims):
            dims = tuple(x if x == y else "?" for x, y in zip(a.dims, b.dims))
        return Tensor(a.dtype, dims, a.writable and b.writable)
    if isinstance(a, Listing) and isinstance(b, Listing):
        element = joined(a.element, b.element)
        return Listing(element, a.filled and b.filled)
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return replace(a, keys=tuple(key for key in a.keys if key in b.keys))
    if isinstance(a, Number) and isinstance(b, Number):
        return Number(a.kind, a.small and b.small)
    return a


def less(dim: str, count: int) -> str:
    """The size that remains after `count` elements are cut off."""
    return str(max(int(dim) - count, 0)) if dim.isdigit() else f"({dim}-{count})"


def at_most(dim: str, count: int) -> str:
    return str(min(int(dim), count)) if dim.isdigit() else f"min({dim},{count})"


def product(dims) -> str:
    dims = list(dims)
    number = 1
    for dim in dims:
        number *= int(dim) if dim.isdigit() else 1
    symbols = [dim for dim in dims if not dim.isdigit()]
    if not symbols:
        return str(number)
    if "?" in symbols:
        return "?"
    return "*".join(([str(number)] if number != 1 else []) + symbols)
