# SPDX-License-Identifier: Apache-2.0
"""Writes random modules with two to four methods that share buffers, and libtorch's results when the methods are called
in random order.

Usage: make_methods.py FOLDER [COUNT [SEED]].

FOLDER/cases.txt has a line per program, separated by tabs: the file, "keeps" or "loses" (a method reads a non-tensor
attribute that a method sets), the size of the tensors, the states, and the methods with their numbers of inputs, such
as `m0/2`. FILE.calls has a line per call: the method, the numbers of its inputs, outputs and states, and each of these
tensors as "count number ...". Without torch it writes only a file `skipped`.
"""
import importlib.util
import random
import sys
import warnings

from maker import folder

import torch

count = int(sys.argv[2]) if len(sys.argv) > 2 else 60
first = int(sys.argv[3]) if len(sys.argv) > 3 else 1
warnings.simplefilter("ignore")


class Program:
    """The source of a module."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.size = self.random.choice([0, 1, 2, 5])
        self.states = [f"s{i}" for i in range(self.random.randint(1, 3))]
        self.whole = self.random.random() < 0.5  # a buffer of integers
        self.inner = self.random.random() < 0.4  # a submodule with a buffer
        self.number = self.random.choice(["", "", "", "int", "float", "bool", "list"])  # a non-tensor attribute
        self.reads, self.sets = False, False
        self.methods = {}
        for k in range(self.random.randint(2, 4)):
            self.methods[f"m{k}"] = self.method(f"m{k}")

    def state(self):
        names = ["self." + name for name in self.states] + (["self.inner.h"] if self.inner else [])
        return self.random.choice(names)

    def method(self, name):
        inputs = [f"x{i}" for i in range(self.random.choice([0, 1, 1, 1, 2]))]
        self.source = self.random.choice(inputs) if inputs else "self.w"
        self.is_set = False
        lines = [f"y = {self.source} * self.w"]
        for _ in range(self.random.randint(1, 5)):
            lines += self.statement()
        kind = self.random.choice(["y", "y", "y", "y, s", "None"])
        if kind == "None":
            lines.append("self.s0.add_(y * 0.25)")
            result = "None"
        elif kind == "y":
            lines.append("return y")
            result = "torch.Tensor"
        else:
            lines.append(f"return y, {self.state()} * 1")
            result = "Tuple[torch.Tensor, torch.Tensor]"
        head = ", ".join(["self"] + [f"{each}: torch.Tensor" for each in inputs])
        return (inputs, [f"def {name}({head}) -> {result}:"] + ["    " + line for line in lines])

    def statement(self):
        a, b, x = self.state(), self.state(), self.source
        choices = [
            [f"{a}.add_(y * 0.5)"],
            [f"{a}.copy_(torch.tanh({b} + {x}))"],
            [f"{a}.mul_(0.5)"],
            [f"{a}.zero_()"],
            [f"{a}[:1].add_(1.0)"],
            [f"{a}.view(-1)[1:] -= 0.25"],
            [f"y = y + {a}"],
            [f"y = torch.sin(y) - {a}"],
            [f"t = {a}.clone()", f"{a}.copy_({b} * 0.5)", "y = y + t"],
            [f"if bool({x}.sum() > 0):", f"    {a}.add_(1.0)", "else:", f"    y = y - {b}"],
            [f"for i in range(2):", f"    {a}.add_(y * 0.125)"],
        ]
        if not a.startswith("self.inner"):
            choices += [[f"{a} = {b} * 0.5 + {x}"], [f"{a} = {a} * 0.5"]]
        if self.whole:
            choices += [["self.c.add_(1)"], ["y = y + self.c"], ["if int(self.c) > 2:", f"    {a}.mul_(0.5)"]]
        if self.inner:
            choices += [["y = y + self.inner(y)"]]
        chosen = self.random.choice(choices)
        if self.number and self.random.random() < 0.3:
            return self.use_of_number()
        return chosen

    def use_of_number(self):
        if self.random.random() < 0.5:
            self.reads = self.reads or not self.is_set
            return {
                "int": ["y = y + self.k"],
                "float": ["y = y * self.k"],
                "bool": ["if self.k:", "    y = y + 1.0"],
                "list": ["y = y + len(self.k)"],
            }[self.number]
        self.sets = True
        self.is_set = self.number != "list"
        return {
            "int": self.random.choice([["self.k = 3"], ["self.k = x0.numel() + 7" if self.source == "x0" else "self.k = 9"]]),
            "float": ["self.k = 0.5"],
            "bool": ["self.k = True"],
            "list": ["self.k.append(4)"],
        }[self.number]

    def text(self):
        lines = ["import torch", "from typing import List, Tuple", "", "", "class Inner(torch.nn.Module):"]
        lines += ["    def __init__(self):", "        super().__init__()"]
        lines += [f"        self.register_buffer('h', torch.ones({self.size}))", ""]
        lines += ["    def forward(self, x: torch.Tensor) -> torch.Tensor:"]
        lines += ["        self.h.mul_(0.5).add_(x * 0.125)", "        return self.h * 2", "", "", "class M(torch.nn.Module):"]
        if self.number:
            lines += [f"    k: {'List[int]' if self.number == 'list' else self.number}", ""]
        lines += ["    def __init__(self):", "        super().__init__()"]
        for i, name in enumerate(self.states):
            lines.append(f"        self.register_buffer('{name}', torch.arange({self.size}, dtype=torch.float32) / {i + 2})")
        lines.append(f"        self.w = torch.nn.Parameter(torch.linspace(-1, 1, {self.size}))")
        if self.whole:
            lines.append("        self.register_buffer('c', torch.zeros((), dtype=torch.int64))")
        if self.inner:
            lines.append("        self.inner = Inner()")
        first_value = {"int": "2", "float": "1.5", "bool": "False", "list": "[1, 2]"}
        if self.number:
            lines.append(f"        self.k = {first_value[self.number]}")
        for _, body in self.methods.values():
            lines += ["", "    @torch.jit.export"] + ["    " + line for line in body]
        return "\n".join(lines) + "\n"


def numbers(tensor):
    values = tensor.detach().double().reshape(-1).tolist()
    return " ".join([str(len(values))] + [repr(value) for value in values])


def write_calls(module, program, seed, path):
    torch.manual_seed(seed)
    states = dict(module.named_buffers())
    with open(path, "w") as file:
        for _ in range(12):
            name = program.random.choice(list(program.methods))
            given = [torch.randn(program.size) for _ in program.methods[name][0]]
            with torch.no_grad():
                result = getattr(module, name)(*[x.clone() for x in given])
            outputs = [] if result is None else [result] if isinstance(result, torch.Tensor) else list(result)
            states = dict(module.named_buffers())
            parts = [numbers(each) for each in given + outputs + [states[key] for key in sorted(states)]]
            print(name, len(given), len(outputs), len(states), *parts, file=file)
    return sorted(states)


lines = []
for seed in range(first, first + count):
    program = Program(seed)
    source = folder / f"m{seed}.py"
    source.write_text(program.text())
    spec = importlib.util.spec_from_file_location(f"methods_{seed}", source)
    python = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = python
    spec.loader.exec_module(python)
    scripted = torch.jit.script(python.M())
    scripted.save(str(folder / f"m{seed}.pt"))
    states = write_calls(torch.jit.load(str(folder / f"m{seed}.pt")), program, seed, folder / f"m{seed}.calls")
    kind = "loses" if program.reads and program.sets else "keeps"
    methods = [f"{name}/{len(inputs)}" for name, (inputs, _) in program.methods.items()]
    lines.append("\t".join([f"m{seed}.pt", kind, str(program.size), ",".join(states)] + methods))
(folder / "cases.txt").write_text("".join(line + "\n" for line in lines))
