# SPDX-License-Identifier: Apache-2.0
"""Arguments of ops."""
from typing import List, Optional

import torch
import torch.nn.functional as F
from torch import nn

from semantics.case import T, case


@case("f32[n,9]", "i64[2]=0..9")
def parts_by_data(self, x: T, cuts: T):
    return torch.tensor_split(x, cuts, dim=1)


@case("f32[n,3,4]")
def fake_quantize(self, x: T):
    scale = torch.tensor([0.1, 0.02, 0.3])
    zero = torch.tensor([0, 3, -2], dtype=torch.int32)
    return (torch.fake_quantize_per_tensor_affine(x, 0.05, 2, -8, 7),
            torch.fake_quantize_per_tensor_affine(x, scale[1], zero[1], 0, 255),
            torch.fake_quantize_per_channel_affine(x, scale, zero, 1, -128, 127),
            torch.ops.aten.fake_quantize_per_channel_affine_cachemask(
                x, scale, zero, 1, -4, 3))


@case("f32[n,40]")
def wide_unfold(self, x: T):
    return x.unfold(1, 2, 7), x.unfold(-1, 40, 1).unfold(0, 1, 2)


@case("f32[9,4]", "i64[n]=0..9", "i64[3]=0..1")
def bags_with_a_last_offset(self, weight: T, rows: T, offsets: T):
    mean = F.embedding_bag(rows, weight, offsets, mode="mean", include_last_offset=True)
    return mean, F.embedding_bag(rows, weight, offsets, mode="sum", include_last_offset=True)


@case("f32[9,4]", "i64[n]=0..9", "i64[3]=0..1")
def largest_of_bags_with_a_last_offset(self, weight: T, rows: T, offsets: T):
    return F.embedding_bag(rows, weight, offsets, mode="max", include_last_offset=True)


@case("f32[n,4]")
def places_from_the_end(self, x: T):
    halves = torch.div((x * 100).to(torch.int16), x.half() + 9, rounding_mode="trunc")
    return x.index_fill(1, torch.tensor([-1, 0]), 2.), halves


@case("f32[n,3,3]=0.1..1", "f32[n,3,2]")
def systems(self, x: T, b: T):
    a = x @ x.transpose(1, 2) + 2 * torch.eye(3)
    l = torch.linalg.cholesky(a)
    return (torch.linalg.solve(a, b), torch.inverse(a) @ b[0], torch.cholesky_solve(b, l),
            torch.linalg.solve_triangular(l, b, upper=False), torch.linalg.det(x),
            torch.slogdet(a)[1], torch.logdet(a), torch.linalg.matrix_power(a, -2),
            torch.linalg.solve(a, b[:, :, 0]), torch.linalg.inv_ex(a)[1])


@case("f32[n,4,3]")
class SingularValues(nn.Module):
    def forward(self, x: T):
        u, s, vh = torch.linalg.svd(x, full_matrices=False)
        w, v = torch.linalg.eigh(x.transpose(1, 2) @ x)
        q, r = torch.linalg.qr(x)
        return (u * s.unsqueeze(1) @ vh, s, w, v.abs(), q @ r, torch.linalg.pinv(x), r,
                torch.linalg.matrix_norm(x, 2), torch.linalg.matrix_norm(x, "nuc", keepdim=True),
                torch.linalg.matrix_norm(x, -2, dim=(2, 0)), torch.linalg.matrix_rank(x))


@case("f32[4,3]", exit=4, words="linalg_svd")  # signs, and the entire last column, are arbitrary
def full_singular_vectors(self, x: T):
    return torch.linalg.svd(x)[0]


@case("f32[5,n]")
def statistics(self, x: T):
    return (torch.trapezoid(x, dim=0), torch.cumulative_trapezoid(x, dx=0.5), torch.cov(x),
            torch.corrcoef(x), torch.cov(x, correction=0), torch.pdist(x), torch.angle(x),
            torch.renorm(x, 2, 0, 0.5), torch.combinations(x[:, 0], 2),
            torch.fft.fftshift(x), torch.fft.ifftshift(x, dim=0), x.sum_to_size(5, 1))


@case("f32[3,n]=0.1..1")
def drawn(self, x: T):
    some = torch.multinomial(x, 2)
    many = torch.multinomial(x, 9, replacement=True)
    return ((some >= 0) & (some < x.size(1)), some[:, 0] != some[:, 1],
            many.max() < x.size(1), F.alpha_dropout(x, 0.5, training=True).size(),
            F.rrelu(x, training=True))


@case("f32[n,2,9,7]", "f32[n,2,2]=0..1", "f32[2,6,7,5]", "f32[1,2,3]=0..1")
def fractional_pools(self, x: T, u: T, y: T, v: T):
    plane = torch.ops.aten.fractional_max_pool2d(x, [2, 3], [4, 3], u)
    space = torch.ops.aten.fractional_max_pool3d(y, [2, 2, 1], [3, 1, 4], v)
    return plane[0], plane[1], space[0], space[1]


if hasattr(torch, "_grouped_mm"):

    @case("f32[7,8]", "f32[8,3]", "f32[3,8,5]")
    def experts_of_sorted_rows(self, x: T, router: T, weight: T):
        expert = (x @ router).argmax(-1)
        order = expert.argsort()
        ends = F.one_hot(expert, 3).sum(0).cumsum(0).to(torch.int32)
        rows = torch._grouped_mm(x[order], weight, offs=ends)
        columns = torch._grouped_mm(weight.transpose(1, 2), x[order].t(), offs=ends)
        each = torch._grouped_mm(x[order].t(), x[order], offs=ends)
        return rows, columns, each, torch._grouped_mm(weight, weight.transpose(1, 2))


@case("f32[n,8]")
class SumsOfReshapedProducts(nn.Module):
    def __init__(self):
        super().__init__()
        self.advantage, self.state = nn.Linear(8, 12), nn.Linear(8, 4)

    def forward(self, x: T):
        advantage, state = self.advantage(x).view(-1, 3, 4), self.state(x).view(-1, 1, 4)
        return state + advantage - advantage.mean(1, keepdim=True)


if not torch.__version__.startswith("1."):  # 1.13 has neither

    @case("f32[n,4,5,8]", "f32[n,2,5,8]")
    def keys_and_values_of_other_heads(self, q: T, k: T):
        v = torch.cat([k, -k], 1)
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


    @case("f32[n,5,8]", "bool[n,5]")
    class NothingToAttendTo(nn.Module):
        """If all keys are hidden, the result of the fast path is NaN."""

        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x: T, padding: T):
            hidden = torch.cat([torch.ones_like(padding[:1]), padding[1:]])
            return self.attention(x, x, x, key_padding_mask=hidden, need_weights=False)[0]


@case("f32[n,4]")
def counts_in_whole_floats(self, x: T):
    n = x.size(0)
    down = torch.arange(n, -n, -1.0, dtype=torch.int64)
    return down, torch.arange(0.0, float(n), 2.0), torch.arange(n, 0, -2.0)


@case("f32[n,6]", "f32[6]=1..2")
def gradients(self, x: T, steps: T):
    at = steps.cumsum(0)
    return (
        torch.gradient(x),
        torch.gradient(x, spacing=0.5, dim=1, edge_order=2),
        torch.gradient(x, spacing=[at], dim=[1]),
        torch.gradient(x, spacing=[at], dim=[1], edge_order=2),
        torch.gradient((x * 4).long(), dim=[1, 0]),
    )


@case("f32[b,5,3]", "f32[b,3]=0..2", "f32[b,5,2]")
def householder_reflections(self, a: T, tau: T, y: T):
    q = torch.linalg.householder_product(a, tau)
    return q, torch.ormqr(a, tau, y), torch.ormqr(a, tau, y.mT, left=False, transpose=True)


@case("f32[b,5,3]", "f32[b,3,5]", "f32[40,30]", "f32[n,4]")
def complete_qr(self, tall: T, wide: T, large: T, open_rows: T):
    a, tau = torch.geqrf(tall)
    q, r = torch.linalg.qr(large, mode="complete")
    return (
        a,
        tau,
        torch.geqrf(wide),
        torch.linalg.qr(tall, mode="complete"),
        torch.linalg.qr(wide, mode="complete"),
        q,
        r,
        torch.qr(tall, some=False),
        torch.linalg.qr(open_rows, mode="complete"),
    )


@case("f32[b,5,3]", "f32[2,4]")
def complete_svd(self, tall: T, wide: T):
    u, s, vh = torch.linalg.svd(tall, full_matrices=True)
    rest = u[..., 3:]
    v = torch.linalg.svd(wide)[2].mT
    nothing, values, none = torch.svd(wide, compute_uv=False)
    return (
        s,
        (u[..., :3] * s.unsqueeze(-2)) @ vh,
        rest @ rest.mT,  # the rest is an arbitrary basis
        u.mT @ u,
        v[:, 2:] @ v[:, 2:].mT,
        torch.svd(tall, some=False)[0].mT @ u[..., :3] * 0,
        (nothing, values, none),
    )


@case("f32[b,4,4]", "f32[b,4,2]")
def symmetric_factors(self, x: T, y: T):
    ld, pivots = torch.linalg.ldl_factor(x)
    return ld, pivots, torch.linalg.ldl_factor_ex(x)[2], torch.linalg.ldl_solve(ld, pivots, y)


@case("f32[5,3]", "f32[5,2]", "f32[b,5,3]", "f32[b,5,2]")
def least_squares(self, a: T, y: T, many: T, right: T):
    lower = a * torch.tensor([1.0, 1.0, 0.0])  # rank 2: no residuals
    return (
        torch.linalg.lstsq(a, y, driver="gelsd"),
        torch.linalg.lstsq(a, y, driver="gelss")[1],
        torch.linalg.lstsq(many, right),
        torch.linalg.lstsq(lower, y, driver="gelsd")[1],
    )


@case("f32[b,4,4]")
def cholesky_of_an_input(self, x: T):
    return torch.linalg.cholesky(x)


if hasattr(torch, "nonzero_static"):  # not in 1.13

    @case("f32[n,6]")
    def places_of_fixed_number(self, x: T):
        few = torch.nonzero_static(x > 0.5, size=4)
        return few, torch.nonzero_static(x > 0.5, size=40, fill_value=7)


@case("f32[b,4,4]")
def symmetric_pseudoinverse(self, x: T):
    return torch.linalg.pinv(x @ x.mT + torch.eye(4), hermitian=True)


@case("f32[]=1..2")
def logarithmic_steps(self, x: T):
    return torch.logspace(0.9, 4.2, 5, base=3.0, dtype=torch.int64), torch.logspace(x, 3.0, 7, base=2.0)


@case("f32[3,5]", "i64[5]=1..3", "f32[5]=0.5..2")
def weighted_covariance(self, x: T, often: T, much: T):
    return (
        torch.cov(x, fweights=often),
        torch.cov(x, correction=0, aweights=much),
        torch.cov(x, fweights=often, aweights=much),
    )


@case("f32[2,6,3]", "f32[6]", "f32[2,4]", "f32[2,3]")
def least_squares_and_tensors(self, a: T, b: T, c: T, d: T):
    one = 3 * torch.eye(6).view(6, 3, 2).movedim(2, 0)
    few = torch.linalg.lstsq(c, d, driver="gelsd")
    return torch.linalg.tensorsolve(one + a / 10, b, dims=(0,)), few.solution, few.singular_values, few.rank


@case("f32[n,9]=0..1", "f64[n]=-1..1")
def quantiles_far_out(self, x: T, y: T):
    return torch.special.ndtri(x), torch.special.ndtri(x**20 * 1e-20), torch.special.ndtri(y * 1e-30), \
        torch.special.ndtri(x.double() ** 200)


@case("f32[n,4]", "f64[n]=-1e-300..1e300", "f16[n]")
def parts_of_floats(self, x: T, y: T, z: T):
    powers = torch.exp2(torch.arange(-140, 120).float())
    edges = torch.tensor([0.0, -0.0, float("inf"), float("nan"), 1e-45, 3e38, 0.5, 1.0, -2.0])
    return (torch.frexp(x), torch.frexp(y), torch.frexp(z), torch.frexp(powers), torch.frexp(edges),
            torch.frexp(y * 1e-310), torch.frexp(y * 1e8))


@case("f32[n,9]=0..8", "f32[n,9]")
def histograms(self, x: T, w: T):
    whole = x.round()
    edges = torch.tensor([-1.0, 0.0, 0.5, 3.0, 3.0, 9.0])
    return (torch.histogram(x, 5), torch.histogram(whole, 8, range=[0.0, 8.0]),
            torch.histogram(whole, 4, range=[1.0, 5.0], weight=w), torch.histogram(x, 3, weight=w, density=True),
            torch.histogram(whole, edges, weight=w), torch.histogram(w.double(), 7, range=[-1.0, 1.0], density=True),
            torch.histogram(torch.ones(3), 4), torch.histogram(whole, 2, range=[3.0, 3.0]))


@case("f32[n,3,2]=0..8", "f32[n,3]", "i64[]=3..3")
class HistogramsOfPoints(nn.Module):
    def forward(self, x: T, w: T, n: T):
        whole = x.round()
        edges = [torch.tensor([-1.0, 0.0, 0.5, 3.0, 3.0, 9.0]), torch.tensor([1.0, 2.5, 8.0])]
        return (torch.histogramdd(x, [2, 3]), torch.histogramdd(whole, [4, 2], range=[0.0, 8.0, 2.0, 6.0]),
                torch.histogramdd(whole, [3, 2], weight=w), torch.histogramdd(x, [2, 2], weight=w.abs() + 1, density=True),
                torch.histogramdd(whole, edges, weight=w), torch.histogramdd(x.double(), 3),
                torch.histogramdd(x[..., :1], [2]), torch.histogram(x, int(n)), torch.histogramdd(x, [int(n), 2]))


if not torch.__version__.startswith("1."):  # 1.13 rounds the factors to 16 bits

    @case("f16[n,8]=-1e-3..1e-3", "bf16[8]", "f32[]=2e5..3e5", "f64[]=1e-7..2e-7")
    def factors_beyond_halves(self, x: T, y: T, big: T, small: T):
        return (x * 1e6, x / 1e-7, x * 100000, x * torch.tensor(1e6), x * big, x / small, y * big, y / 1e-30,
                torch.div(x, 1e-7, rounding_mode="trunc"), torch.div(x, small, rounding_mode="floor"), x // 1e-7,
                big * y, x * 1e-9)


if hasattr(F, "rms_norm"):  # not in 1.13

    @case("f16[n,8]=-1e-3..1e-3", "f32[8]")
    def norms_of_small_numbers(self, x: T, w: T):
        each = [F.rms_norm(x.to(d), [8], w.to(d)) for d in (torch.float16, torch.bfloat16, torch.float64)]
        return F.rms_norm(x.float(), [8]), each[0], each[1], each[2], (x * 1e6).std(1), x.std()


if not torch.__version__.startswith("1."):  # 1.13 counts NaN in a bin

    @case("f32[n,9]=0..8")
    def histogram_of_nothing(self, x: T):
        return torch.histogram(torch.where(x > 4, float("nan"), x), 4, range=[0.0, 8.0])


@case("f32[6,n]", "f64[6]=0.5..2")
def segments(self, x: T, y: T):
    lengths, offsets = torch.tensor([2, 0, 3, 1]), torch.tensor([0, 2, 2, 5, 6])
    return ([torch.segment_reduce(x, kind, lengths=lengths) for kind in ["sum", "mean", "max", "min", "prod"]],
            [torch.segment_reduce(x, kind, lengths=lengths, initial=0.5) for kind in ["sum", "mean", "max", "min"]],
            torch.segment_reduce(y, "prod", offsets=offsets, initial=2.0),
            torch.segment_reduce(y, "mean", lengths=lengths, axis=0),
            [torch.segment_reduce(x, kind, offsets=torch.tensor([1, 1, 3, 5])) for kind in ["sum", "mean", "max"]],
            torch.segment_reduce(x, "sum", lengths=torch.tensor([1, 0, 3]), unsafe=True))


@case("f32[4,3,n]")
def segments_of_rows(self, x: T):
    lengths = torch.tensor([[1, 2], [2, 1], [0, 3], [3, 0]])
    return ([torch.segment_reduce(x, kind, lengths=lengths, axis=1) for kind in ["sum", "mean", "max", "min", "prod"]],
            torch.segment_reduce(x, "mean", lengths=lengths, axis=1, initial=0.5))


@case("f32[n,m]")
def triangles(self, x: T):
    upper, lower = torch.triu_indices(x.size(0), x.size(1), 1), torch.tril_indices(x.size(0), x.size(1), -1, dtype=torch.int32)
    return upper, lower, x[upper[0], upper[1]], torch.triu_indices(3, x.size(0))


@case("f32[n,m]")
def windows_of_symbolic_sizes(self, x: T):
    n, m = x.size(0), x.size(1)
    return (torch.hann_window(m), torch.hamming_window(n, False), torch.blackman_window(n + 1, False),
            torch.bartlett_window(m), torch.bartlett_window(n, False), torch.kaiser_window(m),
            torch.kaiser_window(n, False, 5.0, dtype=torch.float64), torch.hann_window(n - 1),
            torch.hann_window(1), torch.kaiser_window(6))


@case("f32[n,2,n,4]", sizes="2,3")
class ScaledToTheSameSize(nn.Module):
    """Torch copies if the size stays the same, except for plain cubic."""

    def forward(self, x: T):
        return (F.interpolate(x, scale_factor=1.3, mode="bilinear"), F.interpolate(x, scale_factor=1.2, mode="bicubic"),
                F.interpolate(x[:, :, 0], scale_factor=1.1, mode="linear"),
                F.interpolate(x.unsqueeze(2), scale_factor=1.3, mode="trilinear", align_corners=True))


if not torch.__version__.startswith("1."):  # 1.13 resamples there

    @case("f32[n,2,n,4]", sizes="2,3")
    def antialiased_to_the_same_size(self, x: T):
        return (F.interpolate(x, scale_factor=[1.3, 2.0], mode="bilinear", antialias=True),
                F.interpolate(x, scale_factor=[1.4, 2.0], mode="bicubic", antialias=True))


if hasattr(torch, "_chunk_cat"):  # not in 1.13

    @case("f32[n,5,4]", "f32[n,3]")
    def chunks_side_by_side(self, x: T, y: T):
        return (torch.ops.aten._chunk_cat([x, x * 2], 1, 3), torch.ops.aten._chunk_cat([x], 2, 3),
                torch.ops.aten._chunk_cat([y, y + 1], 1, 1))


@case("f32[n,6]", "f32[n,6]")
def backward_of_softmax(self, dy: T, x: T):
    return (torch.ops.aten._softmax_backward_data(dy, x.softmax(1), 1, torch.float32),
            torch.ops.aten._log_softmax_backward_data(dy, x.log_softmax(0), 0, torch.float32),
            torch.ops.aten._softmax_backward_data(dy.double(), x.double().softmax(-1), -1, torch.float64))


@case("f32[n,6]", "bool[n,6]", "i64[n,6]=0..9")
def backward_of_dropout(self, dy: T, kept: T, whole: T):
    return torch.ops.aten.native_dropout_backward(dy, kept, 1.25), torch.ops.aten.native_dropout_backward(whole, kept, 1.25)


@case("f32[n,2,7,6]", sizes="1,3")
def backward_of_max_pool(self, x: T):
    y, at = F.max_pool2d_with_indices(x, [3, 2], [2, 1], [1, 0], [1, 2])
    z, places = F.max_pool2d_with_indices(x[0], 2)
    return (torch.ops.aten.max_pool2d_with_indices_backward(y * 2, x, [3, 2], [2, 1], [1, 0], [1, 2], False, at),
            torch.ops.aten.max_pool2d_with_indices_backward(z, x[0], [2, 2], [2, 2], [0, 0], [1, 1], False, places))


@case("f32[n,4,3]", "i64[n,1]=-9..9", "bool[n,2]", sizes="1,3")
def masked_indices(self, x: T, i: T, mask: T):
    places: List[Optional[T]] = [i, torch.arange(2)]
    second: List[Optional[T]] = [None, i[0]]
    a = torch.ops.aten._unsafe_masked_index(x, mask.unsqueeze(-1), places, 0.5)
    b = torch.ops.aten._unsafe_masked_index(x, mask[:, :1].unsqueeze(-1), second, -1)
    return a, b, torch.ops.aten._unsafe_masked_index_put_accumulate(x, mask.unsqueeze(-1), places, torch.ones_like(a))


@case("bool[n,2,5,5]")
def unfold_of_bool(self, x: T):
    return F.unfold(x, 3, padding=1)


@case("i64[n,4]=-9..9", "u8[n,4]=0..9")
def hardtanh_of_integers(self, x: T, y: T):
    return F.hardtanh(x, -2.7, 3.9), torch.ops.aten.hardtanh(x, -1, 4), F.hardtanh(y, 0.0, 4.5)


if not torch.__version__.startswith("1."):  # 1.13 adds in 16 bits

    @case()
    class ScattersManyHalves(nn.Module):
        """More elements than bf16 can count: torch adds them in f32."""

        def forward(self, x: T):
            ones = (x.sum() * 0 + 1).to(torch.bfloat16).expand(1500)
            index = torch.zeros(1500, dtype=torch.int64)
            y = ones[:3]
            return (y.scatter_add(0, index, ones), y.scatter_reduce(0, index, ones / 2, "mean"),
                    y.scatter(0, index, ones, reduce="add"))
