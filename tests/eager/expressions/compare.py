# SPDX-License-Identifier: Apache-2.0
"""Random text kernels compared with PyTorch: values, dtypes, shapes and gradients.

Usage: compare.py --driver FILE [--count N] [--seed S]

Each case is an expression tree with its own seed, printed as a kernel's text and evaluated by torch on the same arguments: tensors
of all dtypes, broadcast and strided, and Python numbers. Every op must agree to some units in the last place of its dtype and the
conditioning of the case, which torch itself shows with arguments one unit apart. Exits with 77 without torch 2.4 or newer.
"""
import argparse
import math
import random
import subprocess
import sys

try:
    import torch
    from torch.nn import RMSNorm  # noqa: F401  # since 2.4: older versions lack functions of f16
except ImportError:
    print("compare.py: no torch, or an old one")
    sys.exit(77)

FLOATS = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}
INTEGERS = {"i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8}
DTYPES = {**FLOATS, **INTEGERS, "bool": torch.bool}
NAMES = {dtype: name for name, dtype in DTYPES.items()}

# The text with places for operands, and torch's computation. Numbers as operands stay numbers.
def tensor(x):
    return x if isinstance(x, torch.Tensor) else torch.tensor(x)

def unary(function):
    def call(x):
        if isinstance(x, torch.Tensor):
            return function(x)
        if isinstance(x, bool) or (isinstance(x, int) and function in (
                torch.abs, torch.square, torch.floor, torch.ceil, torch.trunc)):
            return function(torch.tensor(x)).item()
        return function(torch.tensor(x, dtype=torch.float64)).item()  # numbers are doubles
    return call

def cast(x, dtype):
    return x.to(dtype) if isinstance(x, torch.Tensor) else torch.tensor(x).to(dtype) if isinstance(x, int) \
        else torch.tensor(x, dtype=torch.float64).to(dtype)

def shifted(x):  # for which 0 is not an edge
    return x * x + 0.5

def tensors(a, b):
    dtype = torch.result_type(a, b) if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor) else None
    return tuple(tensor(x) if dtype is None else cast(x, dtype) for x in (a, b))

def clamp(a):
    if isinstance(a, torch.Tensor):
        return torch.clamp(a, -2, 3)
    return type(a + 0)(max(min(a, 3), -2))

def invert(a):
    return not a if isinstance(a, bool) else ~a

def atan2(a, b):
    if not isinstance(a, torch.Tensor) and not isinstance(b, torch.Tensor):
        return math.atan2(a, b)
    dtype = torch.result_type(a, b)
    return torch.atan2(*(cast(x, dtype if dtype.is_floating_point else torch.float32) for x in (a, b)))

def minimum(a, b):
    if not isinstance(a, torch.Tensor) and not isinstance(b, torch.Tensor):
        return type(a + b + 0)(min(a, b))
    return torch.minimum(*tensors(a, b))

def maximum(a, b):
    if not isinstance(a, torch.Tensor) and not isinstance(b, torch.Tensor):
        return type(a + b + 0)(max(a, b))
    return torch.maximum(*tensors(a, b))

def choose(condition, a, b):
    if not any(isinstance(x, torch.Tensor) for x in (condition, a, b)):
        taken = a if condition else b
        return float(taken) if isinstance(a, float) or isinstance(b, float) else taken
    return torch.where(tensor(condition), a, b)

ANY = [
    ("({} + {})", lambda a, b: a + b), ("({} - {})", lambda a, b: a - b), ("({} * {})", lambda a, b: a * b),
    ("-{}", lambda a: -a), ("abs({})", unary(torch.abs)), ("square({})", unary(torch.square)),
    ("min({}, {})", lambda a, b: minimum(a, b)), ("max({}, {})", lambda a, b: maximum(a, b)),
    ("clamp({}, -2, 3)", lambda a: clamp(a)),
]
FLOAT = [
    ("({} / ({} * 2 + 9))", lambda a, b: a / (b * 2 + 9)),
    # Away from edges, where a rounding error would decide.
    ("floor({} + 0.013)", lambda a: unary(torch.floor)(a + 0.013)),
    ("ceil({} + 0.013)", lambda a: unary(torch.ceil)(a + 0.013)),
    ("trunc({} + 0.013)", lambda a: unary(torch.trunc)(a + 0.013)),
    ("sin({})", unary(torch.sin)), ("cos({})", unary(torch.cos)), ("tanh({})", unary(torch.tanh)),
    ("exp(min({}, 2))", lambda a: unary(torch.exp)(minimum(a, 2))),
    ("log(abs({}) + 1)", lambda a: unary(torch.log)(abs(a) + 1)),
    ("sqrt(abs({}) + 1)", lambda a: unary(torch.sqrt)(abs(a) + 1)),
    ("sigmoid({})", unary(torch.sigmoid)), ("erf({})", unary(torch.erf)), ("atan({})", unary(torch.atan)),
    ("expm1(min({}, 1))", lambda a: unary(torch.expm1)(minimum(a, 1))),
    ("atan2({}, abs({}) + 1)", lambda a, b: atan2(a, abs(b) + 1)),
]
TEST = [
    ("({} < {})", lambda a, b: a < b), ("({} <= {})", lambda a, b: a <= b),
    ("({} == {})", lambda a, b: a == b), ("({} != {})", lambda a, b: a != b),
    ("({} > {})", lambda a, b: a > b),
]
LOGIC = [
    ("({} and {})", lambda a, b: torch.logical_and(tensor(a), tensor(b))),
    ("({} or {})", lambda a, b: torch.logical_or(tensor(a), tensor(b))),
    ("(not {})", lambda a: torch.logical_not(tensor(a))),
]
INTEGER = [
    ("({} & {})", lambda a, b: a & b), ("({} | {})", lambda a, b: a | b), ("({} ^ {})", lambda a, b: a ^ b),
    ("(~{})", invert), ("({} // 3)", lambda a: a // 3), ("({} % 5)", lambda a: a % 5),
    ("floor({})", unary(torch.floor)), ("ceil({})", unary(torch.ceil)), ("trunc({})", unary(torch.trunc)),
    ("({} >> 1)", lambda a: a >> 1), ("({} ** 2)", lambda a: a ** 2),
]

class Case:
    def __init__(self, seed):
        self.random = random.Random(seed)
        torch.manual_seed(seed)
        self.arguments = []  # (name, value)
        self.literal = True
        rank = self.random.randrange(4)
        self.shape = [self.random.choice([0, 1, 2, 3, 3, 5, 17]) if self.random.random() < 0.3 else
                      self.random.choice([1, 2, 3, 4]) for _ in range(rank)]
        # Numbers with 16-bit operands are excluded, because kernels and torch round them differently.
        self.dtypes = self.random.choice([["f32"], ["f32"], ["f64", "f32"], ["f16"], ["bf16"], ["i64", "f32"],
                                          list(INTEGERS), ["i32", "u8", "bool"], ["i64", "i8", "f32", "f64"]])
        self.numbers = not any(d in ("f16", "bf16") for d in self.dtypes)
        for i in range(self.random.randrange(1, 4)):
            self.arguments.append((f"a{i}", self.argument(first=i == 0)))
        self.text, self.tree = self.node(self.random.randrange(1, 5))

    def argument(self, first):
        r = self.random
        if not first and self.numbers and r.random() < 0.3:
            return r.choice([r.randrange(-3, 4), round(r.uniform(-2, 2), 3)])
        dtype = DTYPES[r.choice(self.dtypes)]
        shape = [n if r.random() < 0.8 else 1 for n in self.shape]
        shape = shape[r.randrange(len(shape) + 1):] if shape and r.random() < 0.3 else shape
        if dtype.is_floating_point:
            x = (torch.rand(shape, dtype=torch.float64) * 4 - 2).to(dtype)
        elif dtype == torch.bool:
            x = torch.rand(shape) < 0.5
        else:
            x = torch.randint(0 if dtype == torch.uint8 else -6, 7, shape).to(dtype)
        if shape and r.random() < 0.3:  # strided: every second element, or transposed
            if r.random() < 0.5:
                x = torch.stack([x, x], -1).reshape(*shape[:-1], 2 * shape[-1])[..., ::2]
            else:
                x = x.transpose(0, -1).contiguous().transpose(0, -1)
        return x

    # A text, and a function from the arguments' values to torch's result.
    def node(self, depth, wants="any"):
        r = self.random
        if depth == 0 and wants == "any":
            if self.numbers and r.random() < 0.2:
                value = r.choice([r.randrange(0, 5), round(r.uniform(0, 2), 2)])
                return repr(value), lambda v: value
            name = r.choice(self.arguments)[0]
            return name, lambda v: v[name]
        if wants == "test" or r.random() < 0.08:
            if depth > 1 and r.random() < 0.4:
                rows, wanted = LOGIC, "test"
            else:
                rows, wanted = TEST, "any"
        elif r.random() < 0.15:
            c, ct = self.node(max(depth - 1, 0), "test")
            a, at = self.node(depth - 1)
            b, bt = self.node(depth - 1)
            return f"({c} ? {a} : {b})", lambda v: choose(ct(v), at(v), bt(v))
        elif r.random() < 0.1:
            dtype = r.choice(["f32", "f64", "i64", "i32"])
            a, at = self.node(depth - 1)
            return f"{dtype}({a})", lambda v: cast(at(v), DTYPES[dtype])
        elif all(d in INTEGERS for d in self.dtypes) and r.random() < 0.5:
            rows, wanted = INTEGER, "any"
        else:
            rows, wanted = r.choice([ANY, FLOAT]), "any"
        text, function = r.choice(rows)
        parts = [self.node(max(depth - 1, 0), wanted) for _ in range(text.count("{}"))]
        return text.format(*(f"({p})" if p.startswith("-") else p for p, _ in parts)), \
            lambda v: function(*(t(v) for _, t in parts))

    def lines(self, gradients):
        yield f"text ({', '.join(name for name, _ in self.arguments)}) -> {self.text}"
        for name, value in self.arguments:
            if isinstance(value, torch.Tensor):
                size = 1 + sum((n - 1) * s for n, s in zip(value.shape, value.stride())) if value.numel() else 0
                data = torch.as_strided(value, [size], [1]).clone().view(torch.uint8)
                listed = lambda sizes: ",".join(map(str, sizes)) or "-"
                yield (f"tensor {name} {NAMES[value.dtype]} {listed(value.shape)} {listed(value.stride())} "
                       f"{bytes(data.tolist()).hex() or '-'}")
            elif isinstance(value, int):
                yield f"number {name} int {value}"
            else:
                yield f"number {name} real {value!r}"
        for name in gradients:
            yield f"grad {name}"
        yield "run"

    def is_narrow(self):
        return any(word in self.text for word in ("f32", "i64", "i32")) or any(isinstance(value, torch.Tensor) and value.dtype != torch.float64
                                         for _, value in self.arguments)

    def evaluate(self, scale=0.0):
        """torch's result and gradients, with float arguments moved by this number of units in the last place."""
        values, leaves = {}, {}
        for name, value in self.arguments:
            if isinstance(value, torch.Tensor) and value.dtype.is_floating_point:
                value = (value * (1 + scale * torch.finfo(value.dtype).eps)).detach().requires_grad_()
                leaves[name] = value
            values[name] = value
        y = tensor(self.tree(values))
        shapes = [value.shape for value in values.values() if isinstance(value, torch.Tensor)]
        y = y.expand(torch.broadcast_shapes(*shapes)) if shapes else y
        gradients = {}
        if y.dtype.is_floating_point and y.requires_grad:
            found = torch.autograd.grad(y.sum(), list(leaves.values()), allow_unused=True)
            for (name, leaf), dx in zip(leaves.items(), found):
                gradients[name] = torch.zeros_like(leaf) if dx is None else dx
        return y.detach(), gradients

def parse(line):
    kind, dtype, shape, hexes = line.split()
    sizes = [] if shape == "-" else [int(n) for n in shape.split(",")]
    data = bytes.fromhex("" if hexes == "-" else hexes)
    if not data:
        return kind, torch.zeros(sizes, dtype=DTYPES[dtype])
    return kind, torch.frombuffer(bytearray(data), dtype=DTYPES[dtype]).reshape(sizes)

def differs(ours, reference, moved, narrow):
    """What is wrong with ours, or None. `moved` are torch's answers to moved arguments; in between, results may
    be `narrow`, f32, though the last is not."""
    if ours.dtype != reference.dtype:
        return f"dtype {NAMES[ours.dtype]}, torch's is {NAMES[reference.dtype]}"
    if ours.shape != reference.shape:
        return f"shape {list(ours.shape)}, torch's is {list(reference.shape)}"
    if not reference.dtype.is_floating_point:
        wrong = ours != reference
        for other in moved:  # on an edge, where one unit decides
            wrong &= other == reference
        return f"{ours.tolist()}, torch's are {reference.tolist()}" if wrong.any() else None
    a, b = ours.double(), reference.double()
    spread = sum(((m.double() - b).abs().nan_to_num(math.inf) for m in moved), torch.zeros_like(b))
    eps = max(torch.finfo(reference.dtype).eps, torch.finfo(torch.float32).eps if narrow else 0)
    allowed = 16 * eps * (1 + b.abs()) + 32 * spread
    wrong = ~(((a - b).abs() <= allowed) | (a == b) | (a.isnan() & b.isnan()))
    return f"{ours.tolist()}, torch's are {reference.tolist()}" if wrong.any() else None

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--driver", required=True)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    driver = subprocess.Popen([options.driver], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    compared = differentiated = refused = failed = 0
    for seed in range(options.seed, options.seed + options.count):
        case = Case(seed)
        try:
            reference, gradients = case.evaluate()
            moved = [case.evaluate(scale) for scale in (-2, 2)]
        except (RuntimeError, TypeError, ValueError, ZeroDivisionError, OverflowError):
            refused += 1  # torch rejects it; the kernel may accept it
            reference = None
        wide = reference is not None and all(g.dtype in (torch.float32, torch.float64) for g in gradients.values())
        names = list(gradients) if reference is not None and wide else []
        driver.stdin.write("\n".join(case.lines(names)) + "\n")
        driver.stdin.flush()
        answers = []
        for line in driver.stdout:
            if line == "done\n":
                break
            answers.append(line.rstrip("\n"))
        if reference is None:
            continue
        problem = None
        if answers and answers[0].endswith(("must be numbers, but is bool", "must be numbers, a is bool",
                                            "does not fit u8")):
            refused += 1  # arithmetic of bool, a negative number beside u8
            continue
        if not answers or answers[0].startswith("error"):
            problem = answers[0] if answers else "the driver ended"
        else:
            problem = differs(parse(answers[0])[1], reference, [m[0] for m in moved], case.is_narrow())
            compared += 1
            for name, line in zip(names, answers[1:]):
                if line.startswith("error"):
                    problem = problem or line
                    break
                wrong = differs(parse(line)[1], gradients[name], [m[1][name] for m in moved if name in m[1]],
                                case.is_narrow())
                differentiated += 1
                problem = problem or (wrong and f"d/d{name}: {wrong}")
        if problem:
            failed += 1
            print(f"--seed {seed} --count 1: {case.text}\n  {problem}")
            for name, value in case.arguments:
                print(f"  {name} = {value if not isinstance(value, torch.Tensor) else (NAMES[value.dtype], value.tolist())}")
            if failed > 20:
                break
    driver.stdin.close()
    print(f"{compared} kernels and {differentiated} gradients as torch's, {refused} refused, {failed} wrong")
    sys.exit(1 if failed else 0)

if __name__ == "__main__":
    main()
