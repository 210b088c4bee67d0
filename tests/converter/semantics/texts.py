# SPDX-License-Identifier: Apache-2.0
"""Text: parsing numbers, and libtorch's printing."""
from typing import List

import torch
from torch import nn

from semantics.case import T, case


def numbers_from_text(text, kind, **said):
    """Returns a module that parses a number from text, for which PyTorch raises if `said` expects it."""

    class FromText(nn.Module):
        def __init__(self):
            super().__init__()
            self.text = text

    class Int(FromText):
        def forward(self, x: T):
            return x * int(self.text)

    class Float(FromText):
        def forward(self, x: T):
            return x * float(self.text)

    module = {int: Int, float: Float}[kind]
    module.__name__ = f"{kind.__name__}_{text.encode().hex()}"
    case(**said)(module)


for text in ("12", " 3", "+3", "-3", "007"):
    numbers_from_text(text, int)
for text in ("abc", "", "3 ", "0x10", "1_0", "1.5", "99999999999999999999"):
    numbers_from_text(text, int, exit=3, words="raises an exception in PyTorch")
for text in ("1.5", " 1.5", "0x10", ".5", "1e3", "Infinity", "-INF"):
    numbers_from_text(text, float)
for text in ("abc", "", "1.5 ", "1.5f", "1e400", "1_0.5"):
    numbers_from_text(text, float, exit=3, words="raises an exception in PyTorch")


@case()
class TextsAreWhatLibtorchPrints(nn.Module):
    def __init__(self):
        super().__init__()
        self.tenth, self.numbers, self.words = 0.1, [1, 2], "a b\tc"

    def forward(self, x: T):
        right = [
            str(self.tenth) == "0.10000000000000001",
            str(2.0) == "2.",
            str(1e10) == "10000000000.",
            str(-(2.0 ** 63)) == "-9223372036854775808.",
            str(2.0 ** 63) == "9.2233720368547758e+18",
            str(self.numbers) == "[1, 2]",
            "{:.2f}".format(1.5) == "{:.2f}",
            "{} {}".format(1, "a") == "1 a",
            "%d %s" % (3, "b") == "3 b",
            "%f" % 1.5 == "1.500000",
            self.words.split() == ["a", "b", "c"],
            self.words.replace(" ", "", 0) == self.words,
            "aXbX".replace("X", "", 1) == "abX",
            "a,b,c".split(",", 1) == ["a", "b,c"],
            "abc".startswith("b", 1),
            "abc".endswith("b", 0, 2),
        ]
        return x, right


@case(exit=3, words="is not known for all sizes")
def text_of_sizes_is_not_compared(self, x: T):
    name = "{}".format(x.size(0))
    if name == "n":
        return x + 1
    return x


@case()
def text_of_sizes_is_left_out(self, x: T):
    print("rows: {}".format(x.size(0)) + "!")
    return x


def with_numbers(*numbers):
    def write(module):
        for number in numbers:
            case("f32[n,4]", f"i64[]={number}..{number}", sizes="1,10,100")(module)
        return module

    return write


@with_numbers(-2 ** 63, -(10 ** 18), -1000, -10, -9, -1, 0, 9, 10, 99, 100, 12345, 10 ** 18, 2 ** 63 - 1)
def text_of_integers_has_a_length(self, x: T, n: T):
    k = int(n)
    size, number = str(x.size(0)), "{}".format(k)
    y = x * 2 if len(number) > 3 else x
    return (y, len(size), len(number), torch.zeros(len(size), len(number)), len("%d of %i, %s" % (k, x.size(0), "rows")),
            len(str([k, 3]) + number + "!"), len(str((k,))), len(str(k > 5)), len(f"{size}-{k}"))


@case("f64[4]=-1e3..1e3", "f64[4]=-1e-3..1e-3", "f32[4]")
def text_of_floats_has_a_length(self, x: T, y: T, z: T):
    lengths = [0]
    for i in range(4):
        a, b, c = float(x[i]), float(y[i]), float(z[i])
        size = 10.0 ** (2 * i + 1)
        lengths += [len(str(a)), len(str(b)), len(str(c)), len(str(round(a))), len(str(float(torch.round(x[i] * size) / size))), len(str(a * size * size)), len(str(c / size / size))]
    return x * len(f"{float(x[0])} of {float(z.sum())}, {x.size(0)}"), lengths


ENDS_OF_FLOATS = [0.0, -0.0, 1.0, -1.0, 0.1, -0.25, 9999999999.0, 1e10, 10000000000.5, 1e16, 1e17, 123456789012345678.0, 1e22, -1.5e300, 1.7976931348623157e308, 1e-4, 0.00012, 9.9999e-5,
                  1e-5, 5e-324, 2.2250738585072014e-308, 1e-100, 0.99999999999999989, 99999999999999990.0, 0.5, float("inf"), float("-inf"), float("nan"), 1 / 3, 4503599627370497.5, 2.0 ** 70, 1e18, 2.0 ** 63, -(2.0 ** 63), -(2.0 ** 63) - 2048, 2.0 ** 63 - 1024]


@case("f64[]=1..1")
class TextOfFloatsAtTheirEnds(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("ends", torch.tensor(ENDS_OF_FLOATS, dtype=torch.float64))

    def forward(self, one: T):
        values = self.ends * one
        lengths: List[int] = []
        for i in range(values.size(0)):
            lengths.append(len(str(float(values[i]))))
        return lengths


@case("f32[n,4]", exit=3, words="the length of a text that sizes or data decide is known only if")
def text_of_formatted_floats_has_no_length(self, x: T):
    return x * len("%f" % float(x.sum()))


@case()
class TextHasTheMethodsOfLibtorch(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = ["12", "ab", "a1", "", " ", "Ab Cd", "AB", "Hello World", "A_b", "aXbXc", "a\nb"]

    def forward(self, x: T):
        right, parts = [False], [""]
        for w in self.words:
            right += [w.isnumeric(), w.isdigit(), w.isdecimal(), w.isalpha(), w.isalnum()]
            right += [w.isupper(), w.islower(), w.isspace(), w.istitle(), w.isidentifier()]
            right += [w.isprintable(), "b" in w, w.count("b") == 1, w.rfind("X") == 3]
            parts += [w.capitalize(), w.title(), w.swapcase(), w.upper(), w.zfill(5)]
            parts += [w.center(9), w.center(8, "-"), w.ljust(7), w.rjust(7, "*"), w.expandtabs(3)]
            parts += w.partition("X")
            parts += w.rpartition("X")
            parts += w.rsplit("X", 1)
            parts += w.splitlines()
        codes = [0]
        for part in parts:
            codes.append(len(part))
            for letter in part:
                codes.append(ord(letter))
        return x, right, codes


@case(exit=4, words="substring not found")
def text_has_no_such_part(self, x: T):
    return x * "abc".index("d")
