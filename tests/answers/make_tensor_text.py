# SPDX-License-Identifier: Apache-2.0
"""Prints tensor_text.inc: PyTorch's text of tensors, with hg's dtype names.

  python3 tests/answers/make_tensor_text.py > tests/answers/tensor_text.inc
"""
import random
import re

import torch

NAMES = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16",
         torch.int64: "i64", torch.int32: "i32", torch.int16: "i16", torch.int8: "i8",
         torch.uint8: "u8", torch.bool: "bool", torch.complex64: "c64", torch.complex128: "c128"}


def row(dtype, shape, first, step, values):
    count = 1
    for size in shape:
        count *= size
    numbers = values or [first + step * i for i in range(count)]
    if dtype.is_complex:
        numbers = [complex(x, -0.5 * x) for x in numbers]
    tensor = torch.tensor(numbers, dtype=torch.complex128 if dtype.is_complex else torch.float64)
    text = re.sub(r"dtype=torch\.\w+", "dtype=" + NAMES[dtype], repr(tensor.to(dtype).reshape(shape)))
    listed = ", ".join(repr(float(x)) for x in values).replace("inf", "HUGE_VAL").replace("nan", "NAN")
    print(f'{{"{NAMES[dtype]}", {{{", ".join(map(str, shape))}}}, {first!r}, {step!r}, {{{listed}}},\n'
          f' R"({text})"}},')


def main():
    print("// SPDX-License-Identifier: Apache-2.0")
    print("// Printed by make_tensor_text.py: dtype, shape, then element i as first + step * i, or the")
    print("// elements one by one; of complex dtypes x - 0.5 x j. The text is PyTorch's.")
    random.seed(1)
    for dtype in NAMES:
        row(dtype, (3,), 0, 1, [])
        row(dtype, (), 1, 1, [])
        row(dtype, (0,), 0, 1, [])
        row(dtype, (2, 0, 3), 0, 1, [])
        row(dtype, (2, 2, 3), 0, 1, [])
    inf, nan = float("inf"), float("nan")
    for values in ([1e-5, 1.0, 1000.0], [0.0, -0.0, 0.0], [inf, -inf, nan], [1.0, nan, 2.5], [0.5, 1e9, 2.0],
                   [1.0, 2e8, 3.0], [1.0, 1001.0, 0.0], [-1.5, 22.25, 333.125], [1e-4, 2e-4, 3e-4],
                   [9e-5, 2e-4, 3e-4], [1e300, 1.0, -1e300], [123456.0, 654321.0, 1.0]):
        row(torch.float64, (3,), 0, 0, values)
        row(torch.float64, (3, 1), 0, 0, values)
        row(torch.complex128, (3,), 0, 0, [v for v in values if v == v and abs(v) != inf] + [1.0] *
            sum(1 for v in values if v != v or abs(v) == inf))
    row(torch.float32, (40,), -3, 0.37, [])
    row(torch.int64, (50,), -25, 1000, [])
    row(torch.bool, (30,), 0, 1, [])
    row(torch.float64, (2, 30), 0, 0.125, [])
    row(torch.float32, (1000,), 0, 1, [])
    row(torch.float32, (1001,), 0, 1, [])
    row(torch.float64, (12, 300), 0, 1 / 7, [])
    row(torch.int32, (9, 9, 20), 0, 3, [])
    row(torch.int64, (6, 7, 40), -500, 1, [])
    row(torch.float32, (1, 1, 1, 2000), 0, 0.5, [])
    row(torch.float64, (1, 1, 1, 1, 1, 1, 1, 1, 10), 0, 0.5, [])
    for _ in range(30):
        shape = [random.choice([1, 2, 3, 5, 8]) for _ in range(random.randint(1, 3))]
        count = 1
        for size in shape:
            count *= size
        scale = 10.0 ** random.randint(-6, 9)
        values = [random.choice([0.0, 1.0, random.uniform(-1, 1) * scale, round(random.uniform(-9, 9) * scale)])
                  for _ in range(count)]
        row(torch.float64, shape, 0, 0, [float(v) for v in values])


main()
