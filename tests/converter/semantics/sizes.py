# SPDX-License-Identifier: Apache-2.0
"""Structure that depends on a size: right for every size, or rejected by name at run time."""
import math

import torch
import torch.nn.functional as F
from torch import nn

from semantics.case import T, case

ONE = "n is 1, but the model was converted for n other than 1, because of squeeze at "


@case(sizes="1,3", exit=4, words=ONE)
def squeezes_the_batch(self, x: T) -> T:
    return x.squeeze(0)


@case(sizes="2,3")
def squeezes_the_batch_of_several(self, x: T) -> T:
    return x.squeeze(0)


@case(sizes="0,1,2,3")
def squeezes_and_sums(self, x: T):
    return x.squeeze(0).sum(), torch.cov(x).sum()


@case(sizes="0,1,2,3")
def asks_for_the_rank_after_squeeze(self, x: T) -> T:
    y = x.squeeze(0)
    if y.dim() == 1:
        return y * 2
    return y.sum(0)


@case(sizes="0,1,2,3")
def undoes_the_squeeze(self, x: T) -> T:
    y = x.squeeze(0)
    if y.dim() == 1:
        y = (y * 2).unsqueeze(0)
    return y + 1


@case(sizes="1,2,3")
def writes_through_the_squeeze(self, x: T) -> T:
    z = x.clone()
    y = z.squeeze(0)
    y.mul_(3)
    y[0] = 5
    return z


@case(sizes="1,2,3")
def squeezes_where_the_size_is_known(self, x: T) -> T:
    if x.size(0) == 1:
        return x.squeeze(0).sum() * 3
    return x.squeeze(0).amax()


@case(sizes="0,1,2,3")
def squeezes_in_a_loop(self, x: T) -> T:
    s = x.sum() * 0
    for i in range(x.size(0)):
        s = s + x[i:].squeeze(0).sum()
    return s


@case(sizes="1,2,3")
def squeezes_one_row(self, x: T):
    return x[: x.size(0) // 2 + 1][:1].squeeze(0), x[-1:].squeeze(0)


@case(sizes="1,2,3,6")
def last_of_the_chunks(self, x: T):
    return x.chunk(2)[-1], len(x.chunk(2)), x.chunk(3)[0], len(x.chunk(4))


@case(sizes="1,2,3,6")
def first_and_last_of_the_split(self, x: T):
    return x.split(2)[0], x.split(2)[-1], len(x.split(2))


@case(sizes="2,3,6")
def unpacks_chunks(self, x: T):
    a, b = x.chunk(2)
    return a, b


@case(sizes="1,2,3,6")
def loops_over_chunks(self, x: T) -> T:
    s = torch.zeros(1)
    for part in x.chunk(3):
        s = s * 2 + part.sum()
    return s


@case(sizes="1,2,3,6")
def writes_into_the_last_chunk(self, x: T) -> T:
    y = x.clone()
    y.chunk(3)[-1].add_(1)
    return y


@case(sizes="1,2,3")
def other_values_for_one_row(self, x: T) -> T:
    if x.size(0) == 1:
        return x * 2
    return x + x.sum(0)


@case(sizes="1,2,3,6")
def other_sizes_for_one_row(self, x: T):
    k = 1 if x.size(0) == 1 else x.size(0) // 2
    y = x[:k]
    if x.size(0) % 2 == 1:
        y = torch.cat([y, y])
    return y, k, y.view(y.size(0), 2, 2)


@case(sizes="1,3", exit=4, words="for n other than 1, because of `if` at ")
def other_rank_for_one_row(self, x: T) -> T:
    if x.size(0) == 1:
        return x[0]
    return x


@case(sizes="2,3")
def raises_for_one_row(self, x: T) -> T:
    y = x + 1
    if x.size(0) < 2:
        y = x - 1
    elif x.size(0) > 1000:
        raise ValueError("too many")
    return y[1]


@case(sizes="1,5")
def raises_for_many_rows(self, x: T) -> T:
    if x.size(0) > 5:
        raise ValueError("too many")
    return x * 2


@case(sizes="1,2,3,6")
def slices_that_are_clamped(self, x: T):
    n = x.size(0)
    return x[1:-1], x[n // 2 : n + 5], x[-3:], x[3:], x[-2:-1], x[: n - 2], x[-n:], x[2:4]


@case(sizes="1,2,5")
class ShiftedByOne(nn.Module):
    """Removing and adding a row restores the size of x, as when decoders shift their targets."""

    def forward(self, x: T):
        n, y = x.size(0), x[:-1]
        zeros = torch.zeros(1, x.size(1))
        return torch.cat([zeros, y]) + x, F.pad(y, [0, 0, 1, 0]) * x, y.reshape(n - 1, 2, x.size(1) // 2), y + torch.arange(n - 1).unsqueeze(1)


@case(sizes="1,2,5,27")
class RoundedTwice(nn.Module):
    """1 / 49 * 49 is less than 1, and other n / 49 * 49 are less than n."""

    def forward(self, x: T):
        n = x.size(0)
        return x[: int(n / 49 * 49)], math.floor(n / 3 + n / 7 * 2.5), n / 49 * 49, int(n / 49 / 3 * 8 + 1)


@case(sizes="1,2,6")
def indices_from_the_end(self, x: T):
    n = x.size(0)
    return x[-n], x[n - 1], x[-1], x[n // 2]


@case(sizes="0,1,2")
def nothing_of_nothing(self, x: T):
    return x[:2], x[2:], x * 2, torch.cat([x, x]), x.sum(0)


@case(sizes="1,3")
def contiguous_for_one_row(self, x: T) -> T:
    if x.t().is_contiguous():
        return x + 1
    return x - 1


@case("f32[n,1,t]")
class PaddedToAValidLength(nn.Module):
    """A denoiser: padded so that strides of 4 fit, downsampled and upsampled, cropped."""

    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([nn.Conv1d(1, 4, 8, 4), nn.Conv1d(4, 6, 8, 4)])
        self.up = nn.ModuleList([nn.ConvTranspose1d(6, 4, 8, 4), nn.ConvTranspose1d(4, 1, 8, 4)])

    def valid_length(self, length: int) -> int:
        for _ in range(2):
            length = max(int(torch.ceil(torch.tensor((length - 8) / 4)).item()) + 1, 1)
        for _ in range(2):
            length = (length - 1) * 4 + 8
        return length

    def forward(self, x: T) -> T:
        length = x.size(-1)
        x = F.pad(x, (0, self.valid_length(length) - length))
        skips = []
        for layer in self.down:
            x = layer(x).relu()
            skips.append(x)
        for layer in self.up:
            skip = skips.pop(-1)
            x = layer(x + skip[..., : x.shape[-1]]).relu()
        return x[..., :length]


@case(sizes="1,3")
def pads_and_cuts(self, x: T):
    return F.pad(x, [0, 0, 1, -1]), F.pad(x, [-1, -2, -1, 3])


@case(sizes="0,3")
def sums_of_nothing(self, x: T):
    return x.logsumexp(0)


@case("f16[n,4]", "bf16[n,4]")
def multiplies_16_bits_by_a_size(self, x: T, y: T):
    n = x.size(0)
    return x * n, x / n, x // n, y * (n * 1.5), y / n


@case("f32[2,3,n]", "f32[2,5,n]")
def attends_with_an_open_head_size(self, x: T, y: T):
    q, k = x.unsqueeze(1), y.unsqueeze(1)
    return F.scaled_dot_product_attention(q, k, k), F.scaled_dot_product_attention(q, k, k, scale=0.5)


@case("f32[n,5]", sizes="2,7")
def ranks_a_matrix_of_open_size(self, x: T):
    y = x @ x.t()
    return torch.linalg.pinv(x), torch.linalg.matrix_rank(y), torch.linalg.pinv(x, atol=0.5)
