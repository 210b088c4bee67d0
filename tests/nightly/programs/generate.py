# SPDX-License-Identifier: Apache-2.0
"""One random program per seed."""
from __future__ import annotations

import random
from dataclasses import dataclass, replace

import statements
from layers import INPUTS, layer
from lists import write_lists
from operators import operator
from scope import Impossible, Number, Scope, Tensor

FIRST = {("f32", ("n",)): 3, ("f32", ("n", "4")): 9, ("f32", ("n", "k")): 3, ("i64", ("n",)): 2, ("i64", ("n", "3")): 1,
         ("f32", ("n", "2", "3")): 1}
SECOND = {("f32", ("n",)): 3, ("f32", ("n", "4")): 3, ("f32", ("m",)): 2, ("f32", ("m", "4")): 2, ("i64", ("n",)): 2,
          ("f32", ("4",)): 1, ("f32", ("n", "k")): 1}


@dataclass(frozen=True)
class Program:
    source: str  # of a function `forward`
    inputs: tuple[tuple[str, tuple[str, ...]], ...]  # dtype and sizes
    traced: bool = False
    exported: bool = False  # what can be traced, as a program of torch.export

    @property
    def model(self) -> str:
        return "model.pt2" if self.exported else "model.pt"

    def options(self) -> list[str]:
        return [] if self.exported else [f"{dtype}[{','.join(dims)}]" for dtype, dims in self.inputs]


def generate(seed: str, traced: bool = False, exported: bool = False, single: bool = False, lists: bool = False) -> Program:
    attempt = 0
    while True:
        rng = random.Random(f"{seed}/{attempt}")
        attempt += 1
        if lists:
            return Program(write_lists(rng), (("f32", ("n", "4")),))
        try:
            return replace(write_single(rng, traced or exported) if single else write_program(rng, traced or exported), exported=exported)
        except Impossible:
            continue


def write_program(rng: random.Random, traced: bool) -> Program:
    s = Scope(rng, traced)
    inputs = [s.weighted(FIRST)]
    if s.chance(0.35):
        inputs.append(s.weighted(SECOND))
    for name, (dtype, dims) in zip("xy", inputs):
        # Programs rarely write to their inputs.
        s.names[name] = Tensor(dtype, dims, writable=s.chance(0.1))
        for d, dim in enumerate(dims):
            if not dim.isdigit():
                s.sizes.setdefault(dim, f"{name}.size({d})")
    arguments = ", ".join(f"{name}: Tensor" for name, _ in zip("xy", inputs))
    s.results = tuple(results(s))
    for name, _ in zip("xy", inputs):
        if s.chance(0.7):
            kind = s.names[name]
            new = s.fresh("t")
            s.emit(f"{new} = {name}{s.pick(['.clone()', ' * 2', ' + 1', '.clone()', ' * 1'])}")
            s.names[new] = Tensor(kind.dtype, kind.dims)
    statements.body(s, s.weighted({2: 1, 3: 2, 4: 3, 5: 3, 6: 3, 8: 2, 11: 1}))
    made = [name for name, kind in s.names.items() if isinstance(kind, Tensor) and name not in "xy"]
    last = statements.returned(s)
    # The result shows what was written.
    seen = s.rng.sample(made, min(len(made), 2))
    s.emit(f"return {last}" if not seen or any(line.lstrip().startswith("return") for line in s.lines)
           else f"return {', '.join([last, *seen])}")
    source = f"def forward({arguments}):\n" + "\n".join(s.lines) + "\n"
    return Program(source, tuple(inputs), traced)


def write_single(rng: random.Random, traced: bool) -> Program:
    """One op on two tensors of one dtype and shape."""
    s = Scope(rng, traced)
    if s.chance(0.6):
        return Program("def forward(x: Tensor, y: Tensor):\n" + layer(s), INPUTS, traced)
    dtype = s.weighted({"f32": 4, "i64": 4, "f64": 1, "i32": 2, "f16": 1, "u8": 2, "i16": 1, "i8": 1.5})
    dims = s.weighted({("n",): 3, ("n", "4"): 3, ("2", "n", "3"): 2, ("n", "k"): 1, (): 1})
    for name in "xy":
        s.names[name] = Tensor(dtype, dims)
    kind = s.names["x"]
    text = operator(s, kind, "x", s.pick("xyy"), s.pick(["(x > 0)", "(y > x)", "(y != 0)", "(x % 2 == 0)", "(x.abs() > 2)"]))
    return Program(f"def forward(x: Tensor, y: Tensor):\n    return {text}\n", ((dtype, dims), (dtype, dims)), traced)


def results(s: Scope):
    for _ in range(s.pick([1, 2, 2, 3])):
        if s.traced or s.chance(0.75):
            kind = s.names[s.pick("xy" if "y" in s.names and s.chance(0.3) else "x")]
            yield Tensor(kind.dtype, kind.dims if s.chance(0.8) else kind.dims[1:])
        else:
            yield Number(s.pick(["int", "float", "bool"]))
