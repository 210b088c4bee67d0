# SPDX-License-Identifier: Apache-2.0
"""Programs with lists that loops of open length fill, change and read."""
from __future__ import annotations

import random

# Types of elements, by the kind of the list.
TYPES = {"int": "int", "float": "float", "row": "Tensor", "ragged": "Tensor", "pair": "Tuple[float, Tensor]", "ids": "List[int]"}


class Writer:
    def __init__(self, rng: random.Random):
        self.rng, self.lines, self.indent, self.lists, self.count = rng, [], 1, {}, 0

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def pick(self, *options):
        return self.rng.choice(options)

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def integer(self, i: str) -> str:
        row = f"x[{i}]"
        return self.pick(f"int({row}.argmax())", f"int({row}[0] * 4)", f"{i} * 2", i, f"3 - {i}", f"int(({row} > 0).sum())", "7")

    def real(self, i: str) -> str:
        return self.pick(f"float(x[{i}].sum())", f"float(x[{i}][1])", f"x[{i}].max().item()", f"{i} * 0.5", "1.25")

    def row(self, i: str) -> str:
        return self.pick(f"x[{i}]", f"x[{i}] * 2", f"x[{i}].relu()", f"x[: {i} + 1].sum(0)")

    def element(self, kind: str, i: str) -> str:
        if kind == "int":
            return self.integer(i)
        if kind == "float":
            return self.real(i)
        if kind == "row":
            return self.row(i)
        if kind == "ragged":
            return self.pick(f"x[{i}][x[{i}] > 0]", f"x[: {i} + 1, 0]", f"x[{i}]", f"x[{i}:, 1]")
        if kind == "pair":
            return f"({self.real(i)}, {self.row(i)})"
        return self.pick(f"[{self.integer(i)}]", f"[{self.integer(i)}, {self.integer(i)}]")

    def new_list(self) -> None:
        kind = self.pick("int", "int", "float", "row", "row", "ragged", "pair", "ids")
        name = self.fresh("a")
        first = "[]"
        # x may have no rows, so that first elements are of x as a whole.
        if self.rng.random() < 0.3:
            whole = {"int": "3", "float": "0.5", "row": "x.sum(0)", "ragged": "x[:, 0]", "pair": "(0.25, x.sum(0))", "ids": "[1]"}[kind]
            first = f"[{whole}]"
        self.emit(f"{name}: List[{TYPES[kind]}] = {first}")
        self.lists[name] = kind

    def change(self, i: str) -> None:
        name = self.rng.choice(list(self.lists))
        kind = self.lists[name]
        what = self.rng.choices(["append", "guarded", "insert", "pop", "set", "replace", "extend", "plus", "order", "last", "clear"],
                                [8, 3, 2, 3, 2, 3, 2, 2, 2, 2, 0.5])[0]
        element = self.element(kind, i)
        if what == "append":
            self.emit(f"{name}.append({element})")
        elif what == "guarded":
            self.emit(f"if {self.condition(i)}:")
            self.emit(f"    {name}.append({element})")
        elif what == "insert":
            self.emit(f"{name}.insert({self.pick('0', '1', '-1')}, {element})")
        elif what == "pop":
            self.emit(f"if len({name}) > {self.pick(0, 1, 2)}:")
            self.emit(f"    {name}.pop({self.pick('', '0', '-1')})")
        elif what == "set":
            self.emit(f"if len({name}) > 0:")
            self.emit(f"    {name}[{self.pick('0', '-1', f'{i} % len({name})')}] = {element}")
        elif what == "replace" and kind in ("int", "float", "row"):
            joined = f"{name}[0] + {element}" if kind != "row" else f"{name}[-1] * 0.5 + {element}"
            self.emit(f"{name} = [{joined}] if len({name}) > 0 else [{element}]")
        elif what == "extend":
            self.emit(f"{name}.extend([{element}, {self.element(kind, i)}])")
        elif what == "plus":
            self.emit(f"{name} = {name} + [{element}]")
        elif what == "order":
            self.emit(f"{name}.sort({self.pick('', 'reverse=True')})" if kind in ("int", "float") else f"{name}.reverse()")
        elif what == "last" and kind in ("int", "float"):
            self.emit(f"{name}.append({name}[-1] + 1 if len({name}) > 0 else {element})")
        elif what == "clear":
            self.emit(f"if len({name}) > 4:")
            self.emit(f"    {name}.clear()")
        else:
            self.emit(f"{name}.append({element})")

    def condition(self, i: str) -> str:
        name = self.rng.choice(list(self.lists))
        return self.pick(f"bool(x[{i}].sum() > 0)", f"len({name}) < 3", f"{i} % 2 == 0", f"int(x[{i}].argmax()) != {i}")

    def loop(self) -> None:
        i = self.fresh("i")
        counted = self.pick(True, True, False)
        if counted:
            self.emit(f"for {i} in range({self.pick('x.size(0)', 'x.size(0)', 'len(x)', 'x.size(0) // 2')}):")
            self.indent += 1
        else:
            self.emit(f"{i} = 0")
            name = self.rng.choice(list(self.lists))
            more = self.pick("", f" and len({name}) < 5", f" and bool(x[{i}].sum() < 9)")
            self.emit(f"while {i} < x.size(0){more}:")
            self.indent += 1
        for _ in range(self.rng.randint(1, 3)):
            self.change(i)
        if counted and self.rng.random() < 0.15:
            self.emit(f"if {self.condition(i)}:")
            self.emit(f"    {self.pick('break', 'continue')}")
            self.change(i)
        if not counted:
            self.emit(f"{i} += {self.pick(1, 1, 2)}")
        self.indent -= 1

    def result(self) -> str:
        name = self.rng.choice(list(self.lists))
        kind, out = self.lists[name], self.fresh("r")
        if self.rng.random() < 0.2:
            return f"len({name})"
        if kind in ("int", "float"):
            first = "0" if kind == "int" else "0.0"
            return self.pick(f"torch.tensor({name})", f"sum({name})", f"max({name}) if len({name}) > 0 else {first}",
                             f"{name}[-1] if len({name}) > 0 else {first}", f"torch.tensor({name}[1:])", f"torch.tensor(sorted({name}))",
                             f"torch.tensor([v * 2 for v in {name}])")
        if kind == "row":
            choice = self.pick("stack", "loop", "last", "slice")
            if choice == "stack":
                return f"torch.stack({name}) if len({name}) > 0 else torch.zeros(0, 4)"
            if choice == "last":
                return f"{name}[{self.pick('0', '-1')}] if len({name}) > 0 else torch.zeros(4)"
            if choice == "slice":
                return f"torch.stack({name}[::2]) if len({name}) > 0 else torch.zeros(0, 4)"
            self.emit(f"{out} = torch.zeros(4)")
            self.emit(f"for v in {name}:")
            self.emit(f"    {out} = {out} * 0.5 + v")
            return out
        if kind == "ragged":
            if self.pick(True, False):
                return f"torch.cat({name}) if len({name}) > 0 else torch.zeros(0)"
            self.emit(f"{out} = torch.zeros(())")
            self.emit(f"for v in {name}:")
            self.emit(f"    {out} = {out} * 0.5 + v.sum() + v.numel()")
            return out
        if kind == "pair":
            self.emit(f"{out} = torch.zeros(4)")
            self.emit(f"for score, v in {name}:")
            self.emit(f"    {out} = {out} + v * score" if self.pick(True, False) else f"    {out} = {out} * 0.5 + v + score")
            return out
        self.emit(f"{out}: List[int] = []")
        self.emit(f"for v in {name}:")
        self.emit(self.pick(f"    {out}.extend(v)", f"    {out}.append(len(v))", f"    {out}.append(v[0])"))
        return f"torch.tensor({out})"


def write_lists(rng: random.Random) -> str:
    """The source of forward(x) for x: f32[n, 4]."""
    w = Writer(rng)
    for _ in range(rng.randint(1, 3)):
        w.new_list()
    for _ in range(rng.choice([1, 1, 2])):
        w.loop()
    results = [w.result() for _ in range(rng.randint(1, 2))]
    w.emit(f"return {', '.join(results)}")
    return "def forward(x: Tensor):\n" + "\n".join(w.lines) + "\n"
