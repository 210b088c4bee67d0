# SPDX-License-Identifier: Apache-2.0
"""Random op calls on tensors of all dtypes and on numbers, compared with PyTorch: dtypes, shapes and values.

Usage: compare.py --driver FILE [--count N] [--seed S]

Calls that torch rejects must be rejected, except for ops that accept more. Exits with 77 without torch 2.4 or newer.
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

DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64,
          "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool}
NAMES = {dtype: name for name, dtype in DTYPES.items()}

def both_tensors(function, gives_floats=False):
    """Of tensors alone in torch: numbers become those without dims, which count as numbers do in result_type."""
    def call(a, b):
        dtype = torch.result_type(a, b)
        if gives_floats and not dtype.is_floating_point:
            dtype = torch.float32
        numbers = {float: torch.float64, int: torch.int64, bool: torch.bool}
        return function(*(x if isinstance(x, torch.Tensor) else torch.tensor(x, dtype=numbers[type(x)]).to(dtype) for x in (a, b)))
    return call

def clamp(x, low, high):
    return torch.clamp(x, low, high)

# Name: torch's computation, the kinds of operands (t: tensor, n: tensor or number, c: condition), and whether
# the op accepts dtypes that torch rejects.
OPS = {
    "add": (torch.add, "nn", False),
    "sub": (torch.sub, "nn", False),
    "mul": (torch.mul, "nn", False),
    "div": (torch.div, "nn", False),
    "floor_divide": (lambda a, b: torch.div(a, b, rounding_mode="floor"), "nn", False),
    "trunc_divide": (lambda a, b: torch.div(a, b, rounding_mode="trunc"), "nn", False),
    "remainder": (torch.remainder, "nn", False),
    "fmod": (torch.fmod, "tn", False),
    "maximum": (both_tensors(torch.maximum), "nn", False),
    "fmin": (both_tensors(torch.fmin), "nn", False),
    "atan2": (both_tensors(torch.atan2, True), "nn", True),
    "hypot": (both_tensors(torch.hypot, True), "nn", True),
    "eq": (torch.eq, "tn", False),
    "lt": (torch.lt, "tn", False),
    "ge": (torch.ge, "tn", False),
    "bitwise_and": (torch.bitwise_and, "tn", False),
    "bitwise_xor": (torch.bitwise_xor, "tn", False),
    "where": (torch.where, "cnn", False),
    "concat": (lambda *x: torch.cat(x), "ttt", False),
    "lerp": (torch.lerp, "ttt", True),
    "floor": (torch.floor, "t", False),
    "ceil": (torch.ceil, "t", False),
    "trunc": (torch.trunc, "t", False),
    "round": (torch.round, "t", False),
    "nan_to_num": (torch.nan_to_num, "t", False),
    "sin": (torch.sin, "t", False),
    "sqrt": (torch.sqrt, "t", False),
    "neg": (torch.neg, "t", False),
    "sigmoid": (torch.sigmoid, "t", False),
    "gelu": (torch.nn.functional.gelu, "t", True),
}

def tensor_of(chance, shape, dtype):
    count = math.prod(shape)
    if dtype == torch.bool:
        values = [chance.random() < 0.5 for _ in range(count)]
    elif dtype.is_floating_point:
        values = [chance.choice((-2.5, -1.0, -0.25, 0.5, 1.0, 1.75, 3.0)) for _ in range(count)]
    else:
        low = 0 if dtype == torch.uint8 else -9
        values = [chance.choice([n for n in range(low, 10) if n]) for _ in range(count)]
    return torch.tensor(values, dtype=dtype).reshape(shape)

def operands_of(chance, kinds, name):
    full = [chance.choice((1, 2, 3)) for _ in range(chance.choice((1, 2)))]
    operands = []
    for kind in kinds:
        if kind == "n" and chance.random() < 0.35:
            # 16 bits do not hold the last ones, which is not to be seen where torch does not round them
            beyond = (0.1, 1e6, 1e-6) if name in ("mul", "div") else ()
            # Integers that small dtypes do not hold wrap, or are refused by `where`.
            wide = (300, -129, 70001, 2**40 + 5) if chance.random() < 0.3 else ()
            operands.append(chance.choice((True, 2, 3, 1, 0.5, 2.0, 2.25, *beyond, *wide)))
            continue
        dtype = torch.bool if kind == "c" else chance.choice(list(DTYPES.values()))
        shape = [] if chance.random() < 0.25 and name != "concat" else [n if chance.random() < 0.8 else 1 for n in full]
        if name == "concat":
            shape = [chance.choice((1, 2, 3))] + full[1:]
        operands.append(tensor_of(chance, shape, dtype))
    if not any(isinstance(x, torch.Tensor) for x in operands[-2:]):
        operands[-1] = tensor_of(chance, full, chance.choice(list(DTYPES.values())))
    return operands

def lines(name, operands):
    yield f"op {name}"
    for value in operands:
        if isinstance(value, torch.Tensor):
            shape = ",".join(map(str, value.shape)) or "-"
            yield f"tensor {NAMES[value.dtype]} {shape} {bytes(value.contiguous().reshape(-1).view(torch.uint8).tolist()).hex() or '-'}"
        elif isinstance(value, float):
            yield f"number real {value!r}"
        else:
            yield f"number {'bool' if isinstance(value, bool) else 'int'} {int(value)}"
    yield "run"

def parse(dtype, shape, hexes):
    sizes = [] if shape == "-" else [int(n) for n in shape.split(",")]
    data = bytes.fromhex("" if hexes == "-" else hexes)
    return torch.frombuffer(bytearray(data), dtype=DTYPES[dtype]).reshape(sizes)

def problem_of(answer, reference, goes_further):
    how, *rest = answer.split()
    if reference is None:
        return None if rest[0] == "error" or goes_further else f"{how} gives {rest[0]}, torch refuses"
    if rest[0] == "error":
        return answer
    ours = parse(*rest)
    if ours.dtype != reference.dtype or ours.shape != reference.shape:
        return f"{how}: {NAMES[ours.dtype]}{list(ours.shape)}, torch's is {NAMES[reference.dtype]}{list(reference.shape)}"
    a, b = ours.double(), reference.double()
    eps = torch.finfo(reference.dtype).eps if reference.dtype.is_floating_point else 0
    right = ((a - b).abs() <= 4 * eps * (1 + b.abs())) | (a == b) | (a.isnan() & b.isnan())
    return None if right.all() else f"{how}: {ours.tolist()}, torch's are {reference.tolist()}"

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--driver", required=True)
    parser.add_argument("--count", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    driver = subprocess.Popen([options.driver], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    compared = refused = failed = 0
    for seed in range(options.seed, options.seed + options.count):
        chance = random.Random(seed)
        name = chance.choice(list(OPS))
        function, kinds, goes_further = OPS[name]
        operands = operands_of(chance, kinds, name)
        try:
            reference = function(*operands)
            compared += 1
        except (RuntimeError, TypeError):
            reference = None
            refused += 1
        driver.stdin.write("\n".join(lines(name, operands)) + "\n")
        driver.stdin.flush()
        answers = []
        for line in driver.stdout:
            if line == "done\n":
                break
            answers.append(line.rstrip("\n"))
        problems = [problem_of(answer, reference, goes_further) for answer in answers] or ["the driver ended"]
        for problem in filter(None, problems):
            failed += 1
            print(f"--seed {seed} --count 1: {name}({', '.join(f'{NAMES[x.dtype]}{x.tolist()}' if isinstance(x, torch.Tensor) else repr(x) for x in operands)})\n  {problem}")
        if failed > 20:
            break
    driver.stdin.close()
    print(f"{compared} calls as torch's, {refused} refused by it, {failed} wrong")
    sys.exit(1 if failed else 0)

if __name__ == "__main__":
    main()
