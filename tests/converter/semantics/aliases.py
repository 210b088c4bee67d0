# SPDX-License-Identifier: Apache-2.0
"""Tensors that branches and loops pass on: the tensor that a name refers to, and writes to it."""
from typing import List

import torch
from torch import nn

from semantics.case import T, case


@case("f32[n]=50..100")
def the_point_before(self, x: T):
    p = x
    old = x
    while bool(p.abs().max() > 10):
        old = p
        p = p * 0.5
    return p, old


@case()
def rotations(self, x: T):
    a, b, c = x, x + 1, x + 2
    for _ in range(x.size(0) * 2):
        a, b, c = b, c, a
    u, v = x.t(), x.t() * 2
    for i in range(x.size(0)):
        u, v = v, u + v
    return a, b, c, u, v


@case("f32[4,4]", "f32[n]")
def turns_over_itself(self, x: T, y: T):
    for _ in range(y.size(0) + 1):
        x = x.t()
    return x


@case("f32[n,4]=-1..1")
def views_that_data_chooses(self, x: T):
    y = x.clone()
    v = y[0]
    if bool(x.sum() > -100):
        v = y[1]
    if bool(x.sum() < 100):
        v.fill_(3.0)
    w = y[:, 1]
    if bool(x[0, 0] > 0):
        w = y[:, 2]
    w.add_(1)
    y.mul_(2)
    return y, v, w


@case("f32[n,4]=-1..1")
def the_best_is_an_alias(self, x: T):
    h = x.clone()
    best = x * 0
    for i in range(x.size(0) * 3):
        if bool(h.sum() < i - 2) or i == 1:
            best = h
        h.mul_(0.9)
        if i == 2:
            h = h + 1
    return best, h


@case("f32[n,4]=-1..1")
def swaps_of_written_tensors(self, x: T):
    a = x.clone()
    b = x + 1
    first = a
    for i in range(x.size(0) + 1):
        a.add_(1)
        a, b = b, a
        if bool(a.sum() > b.sum()):
            b.mul_(0.5)
            a = b
    a.sub_(3)
    return a, b, first


@case("f32[n,4]=-1..1")
def writes_before_a_new_name(self, x: T):
    y = x.clone()
    a = y
    for i in range(x.size(0)):
        a.add_(1)
        a = a * 2
    if bool(x.sum() > 100):
        a = y
    a.neg_()
    return y, a


@case("f32[n,4]=-1..1")
def two_names_from_one_side(self, x: T):
    a = x.clone()
    b = x + 1
    if bool(x[0, 0] > x[0, 1]):
        a = x * 2
        b = a[:]
    a.add_(1)
    b[0].mul_(3)
    return a, b


@case("f32[n,4]=-1..1")
def nested_choices(self, x: T):
    y = x.clone()
    z = x * 2
    v = y
    if bool(x[0, 0] > 0):
        if bool(x[0, 1] > 0):
            v = z
        else:
            v = v.t().t()
            v[0] = 9
    w = v[1:]
    for i in range(x.size(0)):
        if bool(w.sum() > 3):
            w = z[1:]
        w.add_(1)
    return y, z, v, w


@case("f32[n,4]=-1..1")
def views_of_what_a_loop_carries(self, x: T):
    a = x.clone()
    r = x[0] * 2
    s = r
    for i in range(x.size(0) * 2):
        if bool(a.sum() < 100):
            r = a[0]
        a.add_(1)
        if i % 2 == 1:
            a = a * 0.5
        r.mul_(2)
    r.neg_()
    return a, r, s


@case("f32[n,4]=-1..1", exit=3, words="share memory")
def rows_that_a_round_chooses(self, x: T):
    y = x.clone()
    v = y[0]
    for i in range(x.size(0)):
        v = y[i]
    v.fill_(7)
    return y


@case("f32[n,4]=-1..1", exit=3, words="share memory")
def reshapes_in_branches_that_may_share(self, x: T):
    y = x.t().contiguous()
    v = y[0]
    if bool(x.sum() > 0):
        v = y.t().reshape(-1)[:2]
    else:
        v = y.t().reshape(-1)[2:4]
    v.zero_()
    return y


@case("f32[n,4]=-1..1")
def only_prints(self, x: T):
    y = x * 2
    if bool(y.max() > 1000):
        print("large", y.max())
    for i in range(x.size(0)):
        if bool(y.sum() > 1000):
            print("larger", i)
            if bool(y.sum() > 2000):
                print("largest", i)
    rows = [x[0]]
    for i in range(x.size(0)):
        rows.append(x[i])
    print(rows)
    return y, len(rows)


# A view, whatever the strides of x are.
@case("f32[n]=-1..1", "f32[n,2]=-1..1")
def writes_through_a_reshaped_element(self, x: T, z: T):
    if x.shape[0]:
        for element in x:
            element.reshape(1).abs_()
    for i in range(z.size(0)):
        z[i].flatten().mul_(2)
        z[:, 1].reshape(1, -1, 1).add_(1)
    return x + 1, z + 1


@case("f32[n,4]=-1..1")
def lists_that_grow_in_a_branch(self, x: T):
    parts: List[T] = []
    if bool(x.sum() > 0):
        for i in range(x.size(0)):
            parts.append(x[i])
    return torch.stack(parts + [x[0]])


@case("f32[n,4]=-1..1", exit=3, words="4 elements are unpacked into 3 names")
def unpacks_too_few(self, x: T):
    a, b, c = x.unbind(1)
    return a + b + c


@case("f32[n,4]=-1..1", exit=3, words="under another name")
def lists_that_data_chooses(self, x: T):
    first = [x, x * 2]
    second = [x * 3, x * 4]
    chosen = first
    if bool(x.sum() > 0):
        chosen = second
    chosen.append(x)
    return torch.stack(first), torch.stack(second)


@case("f32[n,4]=-1..1", exit=3, words="under another name")
def lists_that_a_loop_chooses(self, x: T):
    first = [x, x * 2]
    second = first
    for i in range(x.size(0)):
        first = second
        if i > 1:
            first = [x, x]
    first.append(x)
    return torch.stack(first), torch.stack(second)


@case("f32[n,4]=-1..1", exit=3, words="a tensor of f32 to one of f64")
def another_dtype_in_a_round(self, x: T):
    i = 0
    while bool(x.abs().max() > 1) and i < 5:
        x = (x * 0.5).double()
        i += 1
    return x


@case("f32[n,4]=-1..1")
def complex_views_without_gradients(self, x: T):
    z = torch.complex(x, x)
    with torch.no_grad():
        v = z[0]
        v.mul_(2)
        if bool(x.sum() > 0):
            v = z[-1]
        v.add_(1)
    return torch.view_as_real(z)


@case("f32[n,4]=-1..1")
class BuffersThatAreNamesOfOthers(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("last", torch.ones(4))

    def forward(self, x: T):
        old = self.mean
        total = x.sum(0)
        self.mean = total
        total.add_(1)
        old.sub_(2)
        swapped = self.last
        self.last = old
        self.last.mul_(0.5)
        return old, self.mean * 1.0, self.last * 1.0, swapped


@case("f32[n,4]=-1..1", exit=3, words="may be one tensor after a run")
class OneBufferWithTwoNames(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("last", torch.ones(4))

    def forward(self, x: T):
        self.last = self.mean
        self.mean.add_(x[0])
        return x + self.last


@case("f32[n,4]=-1..1", exit=3, words="share memory")
def elements_of_a_list_are_names_of_others(self, x: T):
    parts = [x.clone()]
    for i in range(x.size(0)):
        parts.append(x * i)
    first = parts[0]
    second = parts[-1]
    first.add_(1)
    return second


@case("f32[n,4]=-1..1")
def reshapes_of_what_a_loop_gives(self, x: T):
    a = x.clone()
    b = x * 2
    for i in range(x.size(0) + 1):
        if bool(a.sum() > 1):
            a = a - 1
        else:
            b = a
        a.reshape(-1).add_(0.5)
        a, b = b, a
    if bool(b.sum() > 0):
        b = b.abs()
    b.flatten()[:2].mul_(2)
    b.contiguous().add_(1)
    return a, b


@case("f32[n,4]=-1..1")
def conversions_that_are_the_tensor_itself(self, x: T):
    y = x.clone()
    y.real.add_(1)
    y.positive().mul_(2)
    torch.conj(y).add_(1)
    torch.conj_physical(y).mul_(2)
    torch.as_tensor(y).sub_(3)
    torch.as_tensor(y, dtype=torch.float64).sub_(3)
    torch.nn.functional.alpha_dropout(y, 0.5, False).mul_(0.5)
    y.sum_to_size(y.size(0), 4).add_(1)
    y.sum_to_size(1, 4).add_(1)
    k = torch.tensor([1.0, 2.0, 3.0, 4.0])
    torch.as_tensor(k).add_(1)
    torch.add(k, k, out=k)
    return y, k


@case("f32[n,4]=-1..1")
def several_out_arguments(self, x: T):
    values = torch.zeros_like(x)
    places = torch.zeros_like(x).long()
    torch.sort(x, 1, values=values, indices=places)
    best = values[:, 0]
    largest = torch.zeros(x.size(0), 2)
    torch.topk(x, 2, values=largest, indices=places[:, :2])
    places.add_(1)
    return values, places, best, largest


@case("f32[n,4]=0.5..1")
def leaves_that_stay(self, x: T):
    b = x * 2
    c = b
    j = 0
    while b.sum().item() < 40 and j < 3:
        j += 1
        for _ in range(3):
            b += x
        c = b.view(-1, 4)
    c.neg_()
    return b, c


@case("f32[n,4]", "i64[]=-1..1", sizes="2,5")
def writes_one_of_two_sizes(self, x: T, n: T):
    y, z = x.clone(), x * 3
    v = y if int(n) > 0 else y[1:]
    v.mul_(2)
    v[0] = 7.0
    y += 1
    w = z if int(n) > 0 else y[:, 1:]
    w[1:] += v[0, 0]
    w.neg_()
    return y, v, z, w


@case("f32[n,4]", "i64[]=-1..1")
def writes_one_of_two_ranks(self, x: T, n: T):
    y = x.clone()
    v = y if int(n) > 0 else y[0]
    v.mul_(2)
    return y, v.sum()


@case("f32[n,4]", "f32[n,4]")
def fills_under_a_size_what_data_chose(self, x: T, y: T) -> T:
    if x.max():
        if 1:
            return x
    else:
        y = y[1:]
    v = y.unsqueeze(1)
    if x.shape[0]:
        y[0].fill_(v)
    return x
