# SPDX-License-Identifier: Apache-2.0
"""Data-dependent integers of either sign. The ranges of the inputs determine the values to check."""
from typing import List

import torch
import torch.nn.functional as F
from torch import nn

from semantics.case import T, case

SMALLEST, LARGEST = -(2 ** 63), 2 ** 63 - 1


def at(*values, exit=0, words=""):
    """Checks the module with these numbers as inputs after x."""
    return case("f32[5,4]", *[f"i64[]={value}..{value}" for value in values], exit=exit, words=words)


def at_each(*values, exit=0):
    def write(module):
        for value in values:
            at(*(value if isinstance(value, tuple) else (value,)), exit=exit)(module)
        return module

    return write


@at_each((-1, 2), (0, 0), (3, -1), (-7, 7), (2, 1), (7, LARGEST))
def cuts_rows(self, x: T, n: T, m: T):
    a, b = int(n), int(m)
    return x[:a], x[a:], x[a:b], x[:, a:b], x[-a:], x[a:b:2], torch.cat([x[:a], x[a:]]), x[:a] + x[:a]


@at_each(-7, -1, 0, 2, 9)
def cuts_at_computed_places(self, x: T, n: T):
    a = int(n)
    return x[: max(0, min(a, 3))], x[a + 1:], x[a - 1: a + 2], x[: a // 2], x[: abs(a)], x[x.size(0) - a:]


@at_each(-2, 0, 7)
def rolls_rows(self, x: T, n: T):
    return torch.roll(x, int(n), 0), torch.roll(x, [int(n), 1], [1, 0]), torch.roll(x, int(n))


@at_each(-1, 0, 3)
def pads_rows(self, x: T, n: T):
    return F.pad(x, [0, int(n)]), F.pad(x, [1, 1, int(n), 0], value=2.0)


@at_each((-2, 5), (1, 1), (-4, -1))
def counts_from_an_integer(self, x: T, n: T, m: T):
    a, b = int(n), int(m)
    return torch.arange(a, b), torch.arange(a, b, 2), torch.arange(b, a, -3), torch.arange(a, a + 3) + x[0, :3]


@at_each(SMALLEST, -9, -1, 0, 1, 9, LARGEST)
def takes_triangles(self, x: T, n: T):
    return torch.triu(x, int(n)), torch.tril(x, int(n)), x.diagonal(int(n))


@at_each(-5, -1, 0, 4)
def selects_rows(self, x: T, n: T):
    z = x.clone()
    z[int(n)] = 1.0
    return x.select(0, int(n)), x[int(n)], torch.select_scatter(x, x[0], 0, int(n)), z


@at_each((-2, 4), (1, -3), (0, 9), (SMALLEST, LARGEST))
def writes_rows(self, x: T, n: T, m: T):
    a, b = int(n), int(m)
    z = x.clone()
    z[a:b] = 1.0
    y = x.clone()
    y[:, a:] += 1.0
    return z, y


@at_each((-2, 4), (1, -3), (0, 9))
def splits_rows(self, x: T, n: T, m: T):
    return torch.tensor_split(x, [int(n), int(m)])


@at_each(1, 2, 3, 4, 5, 9)
def gives_parts(self, x: T, n: T):
    k = int(n)
    chunks, parts = x.chunk(k), x.split(k)
    y, z = torch.zeros(4), torch.zeros(4)
    for i in range(len(chunks)):
        y = y * 2 + chunks[i].sum(0)
    for i in range(len(parts)):
        z = z * 2 + parts[i].sum(0)
    return y, z, len(chunks), len(parts), chunks[0], parts[-1], x[:0].chunk(k)[0], len(x[:0].chunk(k)), len(x[:0].split(k))


@at_each(0, -1, exit=4)
def gives_no_chunks(self, x: T, n: T):
    return x.chunk(int(n))[0]


@at_each(0, -1, exit=4)
def gives_no_parts(self, x: T, n: T):
    return x.split(int(n))[0]


@at_each(1, 2, 3, 4, 5, 6, 9)
def gives_unequal_parts(self, x: T, n: T):
    parts = x.tensor_split(int(n))
    sums = torch.cat([part.sum(0, keepdim=True) for part in parts])
    return parts[0], parts[-1], len(parts), sums, torch.cat(parts), torch.cat(x.tensor_split(n))


@at_each(0, -1, exit=4)
def gives_no_unequal_parts(self, x: T, n: T):
    return x.tensor_split(int(n))[0]


@at_each(1, 2, 4)
def gives_parts_of_one_size(self, x: T, n: T):
    columns, rows = x.hsplit(int(n)), x[:4].vsplit(int(n))
    y = x.t().split(4 // int(n))
    return columns[-1], rows[0], torch.cat(columns, 1), torch.stack(y), torch.cat(y, 1), torch.stack(rows, 2)


@at_each(1, 2, 3, 5, 7)
def joins_parts(self, x: T, n: T):
    k = int(n)
    parts, y = x.split(k), x.clone()
    more = list(x.split(k))
    more.append(x)
    written = y.split(k)
    before = torch.cat(written)
    written[0].mul_(2)
    if k > 2:
        z = torch.cat(parts)
    else:
        z = torch.cat(parts[::-1])
    return torch.cat(parts), torch.cat(x.chunk(k, 1), 1), torch.cat(more), y, before, torch.cat(written), z


@at_each(2, 3, exit=4)
def joins_uneven_parts(self, x: T, n: T):
    return torch.cat(x.split(int(n)), 1)


@at_each((0, 2), (1, 1), (2, 3), (5, 5))
def pads_sequences(self, x: T, n: T, m: T):
    some = [x, x[:2] * 2, x[: int(n)]]
    open = [x[:k] for k in range(int(m))]
    pad = torch.nn.utils.rnn.pad_sequence
    return (pad(some, True, 1.5), pad(some), pad(some, False, float(n)), pad(open, True, 1.5), pad(open),
            pad([x[0, :3].long(), x[1, :1].long()], True, -1.0), pad(x.split(int(m)), True), pad(list(x.unbind(0)), True))


@at_each(1, 2, 4)
def orders_of_gamma(self, x: T, n: T):
    return torch.mvlgamma(x.abs() + 2, int(n)), torch.mvlgamma(x.sum().abs().double() + 2, int(n))


@at_each(0, 1, 3, 6)
class DifferencesOfAnyOrder(nn.Module):
    def forward(self, x: T, n: T):
        k = int(n)
        return x.diff(k), torch.diff(x > 0, k, 0), torch.diff((x * 9).long(), n=k, dim=0), x[:, :0].diff(k)


@at_each(1, 4)
class DifferencesOfJoinedTensors(nn.Module):
    def forward(self, x: T, n: T):
        return torch.diff(x, int(n), 0, prepend=x[:2] * 3, append=x[4:])


@at_each(0, 1, 3)
def corrects_a_covariance(self, x: T, n: T):
    k = int(n)
    return torch.cov(x.t(), correction=k), torch.cov(x.t(), correction=k, aweights=x[:, 0].abs() + 1), torch.cov(x.t(), correction=k, fweights=torch.arange(1, 6))


@at_each(-(2 ** 62) - 1, -100, -7, 1, 3)
def ignores_a_class(self, x: T, n: T):
    k = int(n)
    labels = torch.tensor([k, 0, 1, 2, 3])
    return F.nll_loss(x.log_softmax(1), labels, ignore_index=k), F.cross_entropy(x, labels, ignore_index=k, label_smoothing=0.1), F.cross_entropy(x, x.softmax(1), ignore_index=k)


@at_each((1, 5), (5, 5), (1, 1))
def sums_to_a_size(self, x: T, n: T, m: T):
    y = x.sum_to_size([int(n), 4])
    return y, x[None].sum_to_size([int(m), 4]), y + 1


@at_each((-2, 0), (2, 3))
def tiles_rows(self, x: T, n: T, m: T):
    return x[:, :0].tile([max(int(n), 0), int(n)]), x.tile([int(m), 1])


@at_each(0, 1, 2, 5)
def counts_steps_between_numbers(self, x: T, n: T):
    low, high, k = float(x[0, 0]), float(x[1, 1]), int(n)
    return torch.linspace(low, high, k), torch.logspace(low, high, k), torch.linspace(-2.0, 3.0, k), torch.linspace(low, low, k)


@case("f32[n,4]", sizes="1,2,5")
def counts_steps_by_size(self, x: T):
    return torch.linspace(float(x[0, 0]), float(x[0, 1]), x.size(0)), torch.linspace(1.0, 2.0, x.size(0))


@at_each((-3, 2), (2, -3), (0, 0))
def loops_between_integers(self, x: T, n: T, m: T):
    y, z = x, x
    for i in range(int(n), int(m)):
        y = y * 0.5 + i
    for i in range(int(n)):
        z = z + x[i: i + 1]
    return y, z


@at_each((-2,), (0,), (3,))
def counts_to_0(self, x: T, n: T):
    k = int(n)
    y = x
    while k > 0:
        k -= 1
        y = y + x[k:].sum()
    return y, x[k:]


@at_each((-1, 1), (4, 2))
def reads_a_list(self, x: T, n: T, m: T):
    ends: List[int] = torch.stack([n, m]).tolist()
    return x[ends[0]: ends[1]], torch.tensor(ends)


@at_each(0, 3)
def needs_a_size(self, x: T, n: T):
    k = int(n)
    return torch.zeros(k) + 1, torch.zeros([k, 4]) + x[:k], torch.arange(k), x.repeat(k, 1), torch.ones(k, k)


@case("f32[5,4]", "i64[]")
def draws_what_zeros_takes(self, x: T, n: T):
    return torch.zeros(int(n)), x[: int(n)]


@case("f32[4,4]", "i32[4]", "f32[4,2]")
def draws_pivots(self, x: T, pivots: T, b: T):
    return torch.linalg.ldl_solve(x, pivots, b), torch.lu_unpack(x, pivots.abs())


@case("f32[4,4]")
def draws_definite_matrices(self, x: T):
    return torch.linalg.cholesky_ex(x)


@case("f32[9,9]", "i64[3]", "i64[]", "i64[2]")
def draws_parts_of_a_size(self, x: T, sizes: T, rest: T, order: T):
    a = x.split([int(sizes[0]), int(sizes[1]), int(sizes[2])])
    return a, x.split([int(rest), 1], 1), x.permute([int(order[0]), int(order[1])])


@case("f32[5,4]", "f32[3,9]", "f32[n,7]", "i64[2]", "i64[3]", "i64[]", "i64[]")
def draws_parts_of_several_sizes(self, x: T, y: T, z: T, a: T, b: T, k: T, l: T):
    return x.split([int(a[0]), int(a[1])]), y.split([int(b[0]), int(b[1]), int(b[2])], 1), z.split([int(k), int(l)], 1)


@case("f32[1,2,3,4]", "i64[1,2,3,4]", "f32[3,2,4]", "i64[3,2,4]", "f32[2,3,5]", "i64[2,3,5]", "f32[2,5]", "i64[2,5]", "f32[2,2,2,3]", "i64[2,2,2,3]")
def draws_distinct_places(self, a: T, i: T, b: T, j: T, c: T, k: T, d: T, l: T, e: T, m: T):
    return (F.max_unpool2d(a, i, 2), F.max_unpool2d(b, j, 2), F.max_unpool1d(c, k, 2), F.max_unpool1d(d, l, 2), F.max_unpool3d(e, m, 2),
            F.max_unpool1d(*F.max_pool1d(c.sin(), 2, return_indices=True), 2))


@case("f32[1,3,5]", "i64[]=-9..9")
def draws_pads_that_wrap_once(self, x: T, n: T):
    return F.pad(x, [1, int(n)], "circular")


@case("f32[5,4]", "i64[]")
def checks_that_an_integer_is_a_size(self, x: T, n: T):
    k = int(n)
    assert k >= 0 and k <= x.size(0)
    return x[:k] + torch.ones(k, 4)
