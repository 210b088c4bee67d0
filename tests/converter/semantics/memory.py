# SPDX-License-Identifier: Apache-2.0
"""Tensors that share memory."""

import torch
import torch.nn.functional as F
from torch import nn

from semantics.case import T, case


@case()
class State(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: T):
        self.count += 1
        self.mean = self.mean * 0.9 + x.mean(0) * 0.1
        return x + self.mean, self.count.clone()


@case("ids:i64[n,3]=0..9")
class RenormedEmbeddings(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Embedding(10, 4, max_norm=1.0)
        self.second = nn.Embedding(10, 6, max_norm=2.0, norm_type=1.0)

    def forward(self, ids: T):
        return self.first(ids), self.second(ids[:, :2]), self.first.weight * 2


@case()
def writes_through_views(self, x: T):
    y = x.clone()
    y[:, 1:3] += 10
    y.t()[0].copy_(y[:, 1])
    y[:, 3][0] = 7
    v = y[:, 1:][:, :2]
    v.mul_(2)
    v[0].fill_(3)
    a, b = y.chunk(2, 1)
    a.add_(1)
    for i, column in enumerate(y.unbind(1)):
        column.sub_(i)
    y.detach()[0] = 1
    y[:, 1:] = y[:, :-1].clone()
    return y, v


@case()
def writes_to_inputs(self, x: T):
    x.add_(1)
    y = x * 2
    x[0] = 0
    return x, y


@case()
def reshapes_that_share(self, x: T):
    y = x.clone()
    y.reshape(-1)[1] = 100
    y.flatten()[2] = 50
    y.view(-1, 2, 2)[:, 0].add_(1)
    y.contiguous()[0] = 3
    z = F.dropout(y, 0.5, False)
    z[:, 1] = 8
    return y


@case("f32[n,3,4]")
def reshapes_that_copy(self, x: T):
    y = x.clone()
    z = y.transpose(1, 2).reshape(-1, 12)
    z.add_(5)
    w = y[:, :, 1:3].flatten()
    w.zero_()
    c = y.transpose(1, 2).contiguous()
    y.mul_(2)
    return y, z, w, c


@case(exit=3, words="decide whether the two share memory")
def reshapes_that_may_copy(self, x: T):
    y = x.clone()
    y.t().contiguous().zero_()
    return y


@case()
def new_shapes_in_place(self, x: T):
    y = x.clone()
    z = y.view(-1)
    y.unsqueeze_(1)
    z[0] = 9
    y.add_(1)
    w = y
    y.squeeze_(1)
    t = x.clone().t_()
    return y, z, w.dim(), t, x.clone().transpose_(0, 1)


@case()
def known_numbers_written(self, x: T):
    k = torch.tensor([1, 2, 3, 4])
    k[0] = 5
    k.view(2, 2)[1, 1] = 7
    k[1:3].mul_(2)
    return x * k, k


@case(exit=3, words="expand")
def writes_to_expanded(self, x: T):
    y = x[0].clone().unsqueeze(0).expand(3, 4)
    y.add_(1)
    return y


@case("f32[n,3,4]")
def strides(self, x: T):
    y = x.transpose(1, 2)
    return (x.stride(0), y.stride(1), y.is_contiguous(), x[:, 1:].storage_offset(),
            x[1:].is_contiguous(), y.reshape(-1).is_contiguous())


@case()
def out_arguments(self, x: T):
    o = torch.empty_like(x)
    torch.add(x, x, out=o)
    torch.sub(x[:, 0], 1, out=o[:, 1])
    q = torch.zeros_like(x)
    torch.cumsum(x, 0, out=q)
    return o, q


@case("f32[n,3,h,w]")
def in_place_of_sizes_that_round_otherwise(self, x: T):
    y = F.max_pool2d(F.max_pool2d(x, 2, ceil_mode=True), 2, ceil_mode=True)
    y += F.avg_pool2d(x, 4, ceil_mode=True)
    y -= x[:, :, 3::4, 3::4]
    return y


@case("f32[n,4,6]")
def overlaps_of_transposed(self, x: T):
    y = (x * 2).transpose(0, 1).transpose(1, 2)
    s = y.stride()
    windows = y.as_strided([3, 6, y.size(2), 2], [s[0], s[1], s[2], s[0]])
    y.as_strided([2, 6, y.size(2)], [s[0], s[1], s[2]]).mul_(3)
    return windows.sum(-1), y


@case("f32[n,8,6]")
class WindowsOverATransposedResult(nn.Module):
    """Overlapping chunks, as in Longformer."""

    def __init__(self):
        super().__init__()
        self.query, self.value = nn.Linear(6, 6), nn.Linear(6, 6)

    def chunk(self, x: T, window: int):
        x = x.view(x.size(0), x.size(1) // (window * 2), window * 2, x.size(2))
        size, stride = x.size(), x.stride()
        return x.as_strided([size[0], size[1] * 2 - 1, size[2], size[3]],
                            [stride[0], stride[1] // 2, stride[2], stride[3]])

    def forward(self, x: T):
        n, length = x.size(0), x.size(1)
        hidden = x.transpose(0, 1)
        query = self.query(hidden)
        query /= 2.0
        query = query.view(length, n, 2, 3).transpose(0, 1)
        query = query.transpose(1, 2).reshape(n * 2, length, 3)
        value = self.value(hidden).view(length, n, 2, 3).transpose(0, 1)
        value = torch.nn.functional.pad(value.transpose(1, 2).reshape(n * 2, length, 3), (0, 0, 2, 2), value=-1.0)
        stride = value.stride()
        windows = value.as_strided([n * 2, 4, 6, 3], [stride[0], stride[1] * 2, stride[1], stride[2]])
        return self.chunk(query, 2), windows


@case("f32[n,4]=1..2", exit=3, words="data decides how the tensor lies in memory")
def views_of_what_a_branch_may_transpose(self, x: T):
    y = x.t()
    if bool(x.sum() > 0):
        y = x.t().contiguous()
    return y.view(-1)


@case("f32[n,4]=1..2", exit=3, words="data decides how the tensor lies in memory")
def views_of_what_is_computed_from_that(self, x: T):
    y = x.t()
    if bool(x.sum() > 0):
        y = x.t().contiguous()
    return (y + 1).exp().view(-1)


@case("f32[n,4]=-1..1")
class ViewsOfWhatIsComputedFromSlices(nn.Module):
    """Results computed from slices have no gaps."""

    def forward(self, x: T):
        y = x[:, :2]
        if bool(x.sum() > 0):
            y = x[:, 2:]
        return (y + 1).view(-1)


@case(sizes="1,1")
class ViewsOfWhatIsComputedFromTransposed(nn.Module):
    """PyTorch raises if there is more than one row."""

    def forward(self, x: T):
        return (x.t() + 1).view(-1)


@case("f32[n,3,4,5]", exit=3, words="decide whether the two share memory")
def reshapes_of_another_memory_format(self, x: T):
    y = x.clone(memory_format=torch.channels_last)
    z = y.reshape(-1)
    z.add_(1)
    return y, z


@case("f32[n,3,4,5]", exit=3, words="decide whether the two share memory")
def perhaps_in_another_memory_format(self, x: T):
    y = x.clone()
    z = y.to(memory_format=torch.channels_last)
    w = y.contiguous(memory_format=torch.channels_last)
    y[:, 1] = 7
    return z, w


@case(exit=3, words="decide whether the two share memory")
def einsum_that_permutes(self, x: T):
    y = x.clone()
    z = torch.einsum("ij->ji", y)
    z.add_(1)
    return y, z, torch.einsum("ij->j", y)


@case("f32[n,4,3]")
def strides_of_what_is_computed(self, x: T):
    y = x.transpose(1, 2) * 2
    z = y.sigmoid().cumsum(1)
    return y.stride(1), y.flip(0).stride(2), z.stride(1), y.clone().stride(1), (z + y).stride(1)


@case("f32[n,4]=-1..1")
def views_that_any_strides_allow(self, x: T):
    y = x[:, :2]
    if bool(x.sum() > 0):
        y = x[:, 2:].exp()
    return y.view(1, -1, 1, 2)


@case("i64[n]")
def ties_of_flipped_numbers(self, x: T):
    y = x[(x * x.size(0)).flip(0).argsort()]
    y += x.clamp(min=0)
    steps = 0
    while bool(x.abs().max() < 2) and steps < 5:
        steps += 1
    return y, steps
