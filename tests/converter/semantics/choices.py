# SPDX-License-Identifier: Apache-2.0
"""Arguments of data that choose how an op computes: dims, orders of matrix norms, -1 among sizes, decimals, bounds of bins. Each
choice is checked alone."""
import torch
import torch.nn.functional as F

from semantics.case import T, case


def at(*values, exit=0, words="", dtype="i64"):
    return case("f32[5,4]", *[f"{dtype}[]={value}..{value}" for value in values], exit=exit, words=words)


def at_each(*values, dtype="i64"):
    def write(module):
        for value in values:
            at(*(value if isinstance(value, tuple) else (value,)), dtype=dtype)(module)
        return module

    return write


@at_each(-2, -1, 0, 1)
def reduces_a_dim(self, x: T, n: T):
    d = int(n)
    top, at = x.max(d)
    return x.sum(d), x.sum([d]), x.mean(d, keepdim=True), x.argmax(d), top, at, x.logsumexp(d), x.var(d), x.norm(2.0, d), x / x.sum(d, keepdim=True)


@at_each(-2, -1, 0, 1)
def scans_a_dim(self, x: T, n: T):
    d = int(n)
    y = x * 2
    y.cumsum_(d)
    return torch.softmax(x, d), x.cumsum(d), x.sort(d)[1], x.topk(2, d)[0], x.flip(d), torch.roll(x, 1, d), y


@at_each(-2, -1, 0, 1)
def selects_in_a_dim(self, x: T, n: T):
    d = int(n)
    at = torch.tensor([0, 2])
    return x.index_select(d, at), x.narrow(d, 1, 2), x.select(d, 1), x.gather(d, torch.zeros([2, 2], dtype=torch.long)), x.size(d), x.split(2, d)[0], x.unbind(d)[1]


@at_each((-2, 2), (-1, -3), (0, 0), (1, 1))
def joins_in_a_dim(self, x: T, n: T, m: T):
    d = int(n)
    return torch.cat([x, x], d), x.transpose(d, 1), x.transpose(d, d), x.unsqueeze(int(m)), torch.stack([x, x * 2], int(m))


@at_each(-1, 2)
def takes_a_dim_of_the_right_size(self, x: T, n: T):
    y = torch.stack([x[:, :3], x[:, :3] * 2])
    return torch.linalg.cross(y, y.sin(), dim=int(n)), y.unflatten(int(n), [1, 3])


@at_each(-3, -2, -1, 0, 1, 2)
def counts_from_the_larger_rank(self, x: T, n: T):
    return F.cosine_similarity(x[:1], x[None], dim=int(n))


@at_each((-3, 1), (-1, 0), (0, -1), (2, -2))
def moves_a_dim(self, x: T, n: T, m: T):
    y = torch.stack([x, x * 2])
    return y.movedim(int(n), 0), y.movedim(-1, int(n)), torch.moveaxis(y, [int(n)], [1]), x.swapaxes(0, int(m)), x.unfold(int(m), 2, 1)


@at_each(-2, -1, 0, 1)
def writes_through_a_dim(self, x: T, n: T):
    a, b, c, d = x.clone(), x.clone(), x.clone(), x.clone()
    a.narrow(int(n), 1, 2).zero_()
    b.select(int(n), 1).add_(1)
    c.transpose(int(n), 0).mul_(2)
    z = d.narrow(int(n), 1, 2)
    z[0] = 9.0
    d += 1
    return a, b, b.select(int(n), 1), c, d, z


@at_each(-2, -1, 0, 1)
def writes_through_parts_of_a_dim(self, x: T, n: T):
    a, b = x.clone(), x.clone()
    a.unbind(int(n))[1].mul_(2)
    p, q = b.chunk(2, int(n))
    q.zero_()
    return a, b, p, len(x.unbind(int(n))), torch.stack(x.unbind(int(n)))


@at_each(-2, -1, 0, 1)
def writes_through_uneven_parts(self, x: T, n: T):
    a, b, c = x.clone(), x.clone(), x.clone()
    parts = a.split(2, int(n))
    parts[1].mul_(2)
    parts[-1].add_(1)
    four = b.chunk(4, int(n))
    four[0].zero_()
    c.split(3, int(n))[1][0] = 9.0
    total = torch.zeros(())
    for part in x.split(2, int(n)):
        total = total * 2 + part.sum()
    return a, b, c, len(parts), len(four), parts[0], four[2], total


@at_each((0, 1), (1, 0), (-1, -2), (-2, 1))
def flattens_dims(self, x: T, n: T, m: T):
    k = int(n)
    y, z = x.sum(0), x.sum()
    if k == 1:
        flat = x.flatten(1, k)
    else:
        flat = x
    return y.flatten(min(k, 0) // 2), y.flatten(0, max(k, -1) // 2), z.flatten(0, k // 2), x.flatten(k, k), flat


@at_each(0, 1, -2, -3)
def flattens_two_dims(self, x: T, n: T):
    k = int(n)
    y = torch.stack([x, x * 2])
    return y.flatten(k, k + 1), y.flatten(k, k + 1) * 2


@case("f32[a,b]", "i64[]=-2..1")
def writes_through_a_dim_of_open_sizes(self, x: T, n: T):
    y = x.clone()
    y.select(int(n), 0).fill_(7.0)
    return y


@at_each(-1, 0)
def reduces_a_scalar(self, x: T, n: T):
    y, d = x.sum(), int(n)
    least, most = torch.aminmax(y, dim=d, keepdim=True)  # libtorch 1 adds a dim
    return least, most, y.sum(d, keepdim=True), y.max(d)[0], y.amax(d, keepdim=True), y.cumsum(d), y.softmax(d), y.argmax(d), y.sort(d)[0], y.flip(d)


@at_each(-(2 ** 63), -1, 0, 1, 2, 3, 6)
def turns_an_image(self, x: T, n: T):
    return torch.rot90(x, int(n)), torch.rot90(torch.stack([x, x * 2]), int(n), [0, 2])


@at_each((1, 2), (2, 2))
def orders_of_edges_and_inverses(self, x: T, n: T, m: T):
    y = (torch.eye(4) * 2 + x[:4] * 0.1).reshape(2, 2, 2, 2)
    return torch.gradient(x, dim=1, edge_order=int(n))[0], torch.linalg.tensorinv(y, ind=int(m))


@at_each(-3, -1, 0, 1, 2, 3, 7)
def takes_powers_of_a_matrix(self, x: T, n: T):
    y = torch.eye(4) * 1.5 + x[:4] * 0.03
    return torch.matrix_power(y, int(n)), torch.linalg.matrix_power(torch.stack([y, y.t()]), int(n))


@at_each(0, 1, 2, 5)
def takes_powers_of_integers(self, x: T, n: T):
    return torch.matrix_power((x[:4] * 3).long(), int(n)), torch.matrix_power(torch.full([2, 2], float("inf")), int(n))


@at_each((-2, 1), (0, 0), (1, 3), dtype="i64")
def takes_another_dim(self, x: T, n: T, m: T):
    y = x[None].expand(2, 5, 4)
    d = int(n)
    return y.sum([d, 2]) if d != -1 else y.sum([0, 2]), y.diagonal(0, 2, d), x.tile([1, int(m)]), x.tile([int(m)])


@at_each((-3, 0), (-1, 1), (0, -1), (2, -3))
def embeds_diagonals(self, x: T, n: T, m: T):
    return torch.diag_embed(x, 0, int(n), 1), torch.fft.fft(x, dim=int(m) if int(m) > -3 else 0).real


@at_each(-2, -1, 0, 1)
def counts_dims_of_complex_numbers(self, x: T, n: T):
    z = torch.complex(x, x * 2)
    return torch.view_as_real(z.sum(int(n))), z.cumsum(int(n)).imag


@at(-3, exit=4)
def dim_is_out_of_range(self, x: T, n: T):
    return x.sum(int(n))


@case("f32[a,b,3]", "i64[]=-3..2")
def reduces_a_dim_of_open_sizes(self, x: T, n: T):
    return x.sum(int(n)), torch.softmax(x, int(n))


@at(0, exit=3, words="depends on data, and so does the number of dims of the result (use reshape()")
def flattens_from_a_dim(self, x: T, n: T):
    return x.flatten(int(n))


@at_each(-2, -1, 0, 1)
def flattens_to_several_ranks(self, x: T, n: T):
    k = int(n)
    y = torch.stack([x, x * 2])
    total = torch.zeros(())
    for i in range(2):
        total = total * 3 + (x + i).flatten(k).sin().prod(-1).sum()
    a = y.flatten(k)
    rows = a.exp().sum(-1).reshape(-1) * a.size(0)
    return x.flatten(k).sum(), rows, x.flatten(0, k).numel(), y.flatten(k).mean() + y.flatten(0, k).amax(), total


@at_each((-1, 4), (5, -1), (5, 4))
def rest_of_the_sizes(self, x: T, n: T, m: T):
    return x.view(int(n), 4), x.reshape(int(n), int(m)), x.view(5, int(m)), x.reshape(int(n), -1, 2) if int(n) > 0 else x[None], x.view(int(m), 5) if int(m) > 0 else x


@at_each(-1, 20)
def flattens_by_data(self, x: T, n: T):
    return x.reshape(int(n)), x.view(int(n)), x.unflatten(1, [2, int(n) // 10 if int(n) > 0 else -1])


@at_each((-1, 4), (5, -1), (-1, -1))
def keeps_sizes(self, x: T, n: T, m: T):
    return x.expand(int(n), int(m)), x.expand([2, -1, int(m)]), x[:, None].expand(int(n), 3, -1), x.broadcast_to(int(n), 4)


@at((-1), exit=4)
def rest_that_does_not_divide(self, x: T, n: T):
    return x.view(int(n), 3)


@at_each(-400, -2, -1, 0, 1, 3, 40)
def rounds_to_decimals(self, x: T, n: T):
    return torch.round(x * 7.3, decimals=int(n)), torch.round(x.double() * 77.7, decimals=int(n))


@at_each((-1.0, 1.0), (0.0, 0.5), (0.0, 0.0), (0.25, 0.25), (-100.0, 100.0), dtype="f64")
def counts_in_bins(self, x: T, a: T, b: T):
    low, high = float(a), float(b)
    return torch.histc(x, 7, low, high), torch.histc(x * 0 + 2, 3, low, high), torch.histc(x[:0], 3, low, high), torch.histc(x, 4, max=high + 1)


@at((1.0), (0.0), exit=4, dtype="f64")
def bins_out_of_order(self, x: T, a: T, b: T):
    return torch.histc(x, 7, float(a), float(b))


@at_each(1, -1, 2, -2)
def takes_matrix_norms(self, x: T, n: T):
    return torch.linalg.matrix_norm(x, float(n)), torch.linalg.norm(x, float(n)), torch.linalg.matrix_norm(x[None], float(n), keepdim=True)


@at(0.5, exit=3, words="call interpolate with recompute_scale_factor=True", dtype="f64")
def scales_an_image(self, x: T, t: T):
    return F.interpolate(x[None, None], scale_factor=[float(t), float(t)], mode="bilinear")


@at_each(0.5, 1.5, 2.0, dtype="f64")
def resizes_an_image(self, x: T, t: T):
    return F.interpolate(x[None, None], scale_factor=[float(t), float(t)], mode="bilinear", recompute_scale_factor=True)


@case(exit=3, words="but a file has a fixed number of outputs (return torch.stack(list) or torch.cat(list)")
def returns_a_list_of_open_length(self, x: T):
    rows = [x[0]]
    for i in range(x.size(0)):
        rows.append(x[i] * 2)
    return rows


@case(exit=3, words="but a file has a fixed number of outputs (return torch.stack(list) or torch.cat(list)")
def returns_parts(self, x: T):
    return x.split(2)


@case("f32[3,4]", exit=3, words="data decides between a tensor f32[4] and a tensor f32[3, 4], but a result has one dtype")
def returns_one_of_two_ranks(self, x: T):
    if bool(x.sum() > 0):
        y = x[0]
    else:
        y = x
    return y


@case("f32[3,4]")
def uses_what_a_branch_made(self, x: T):
    y = x
    for i in range(3):
        if bool(y.sum() > i):
            z = y * 2
            w = z.mean(0)
        else:
            w = y[0]
            z = y - 1
        y = y + w + z
    return y
