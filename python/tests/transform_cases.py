# SPDX-License-Identifier: Apache-2.0
"""Random calls of functions with names of torch.fft and torch.linalg, for torch_names.py."""

import torch

FFT = """
fft ifft rfft irfft hfft ihfft fft2 ifft2 rfft2 irfft2 hfft2 ihfft2 fftn ifftn rfftn irfftn hfftn ihfftn fftshift ifftshift fftfreq
rfftfreq
""".split()  # fmt: skip
LINALG = "inv lu_factor lu_solve matrix_norm multi_dot tensorinv tensorsolve vecdot vector_norm".split()
_KINDS = [torch.float32, torch.float64, torch.complex64, torch.complex128, torch.int64, torch.int32, torch.uint8, torch.bool, torch.float16]


def _of(d, shape, kind):
    return torch.complex(d.real(*shape), d.real(*shape)).to(kind) if kind.is_complex else d.tensor(shape, kind)


def fourier(d):
    name = d.one(*FFT)
    if name.endswith("freq"):
        return name, [d.int(0, 7)], d.some(d=d.one(0.5, 2.0), dtype=torch.float64)
    x = _of(d, d.shape(0, 4), d.one(*_KINDS))
    rank = x.dim()
    if name.endswith("shift"):
        return name, [x], d.some(dim=d.one(d.dim(rank), d.dims(rank)))
    norm = d.one(None, "backward", "ortho", "forward", "forwards" if d.int(0, 9) == 0 else None)
    if name[-1] in "2n":
        dims = d.dims(rank, 2) if name[-1] == "2" else d.dims(rank)
        sizes = d.one(None, [d.one(-1, 1, 2, 3, 6, 0 if d.int(0, 5) == 0 else 4) for _ in dims])
        return name, [x, *d.one([sizes, dims], [sizes], [None, dims], [])], {"norm": norm} if d.flip() else {}
    return name, [x, *d.one([], [None], [d.int(0, 7)], [d.int(1, 7), d.dim(rank)])], d.some(norm=norm)


def linear(d):
    batch, n, kind = d.shape(0, 2), d.int(0, 4), d.one(torch.float32, torch.float64)
    a = d.real(*batch, n, n, dtype=kind) + 3 * torch.eye(n, dtype=kind)
    x = _of(d, d.shape(0, 4), d.one(*_KINDS[:7]))
    real = d.real(*d.shape(0, 4), dtype=kind)
    wide = d.real(*[size or 2 for size in d.shape(2, 4)], dtype=kind)
    two = [int(each) - (wide.dim() if d.flip() else 0) for each in d.rng.permutation(wide.dim())[:2]]
    keep = d.some(keepdim=True)
    factors = torch.linalg.lu_factor(a)
    left = d.flip()
    b = d.real(*batch[d.int(0, len(batch)) :], *([n, d.int(0, 3)] if left else [d.int(0, 3), n]), dtype=kind)
    tall = d.real(*batch, n, d.int(0, 4), dtype=kind)
    sizes = [d.int(1, 3) for _ in range(d.int(2, 4))]
    chain = [d.real(*pair) for pair in zip(sizes, sizes[1:])] or [d.real(2, 2)]
    if len(chain) > 1 and d.flip():
        chain[0] = chain[0][0]
    return d.one(
        ("inv", [a], {}), ("lu_factor", [tall], {}), ("lu_unpack", [*torch.linalg.lu_factor(tall)], d.some(unpack_data=False, unpack_pivots=False)),
        ("lu_solve", [*factors, b], {"left": left, **d.some(adjoint=True)}), ("lu_solve", [*factors, b], {"left": left}),
        ("vecdot", [x, x.flip(0) if x.dim() else x], d.some(dim=d.dim(x.dim()))), ("vecdot", [a, a[..., :1, :]], {}),
        ("vector_norm", [d.one(x, real), *d.one([], [d.one(0, 0.5, 1, 2, 3, -1, -2.5, float("inf"), float("-inf"))])], {**keep, **d.some(dim=d.dim(real.dim()))}),
        ("vector_norm", [real, 2, d.one(d.dims(real.dim()), None)], {**keep, **d.some(dtype=torch.float64)}),
        ("matrix_norm", [wide, *d.one([], [d.one("fro", "nuc", 1, -1, 2, -2, float("inf"), float("-inf"))])], {**keep, **d.some(dim=two)}),
        ("multi_dot", [chain], {}), ("tensorinv", [d.real(*d.one((2, 3, 6), (6, 2, 3), (4, 2, 2)))], d.some(ind=1)),
        ("tensorsolve", [d.real(2, 3, 6), d.real(2, 3)], {}), ("tensorsolve", [d.real(2, 6, 3), d.real(2, 3)], {"dims": (1,)}),
        ("renorm", [wide * 2, d.one(1, 2, 3.0, float("inf")), d.int(-wide.dim(), wide.dim() - 1), d.one(0, 1.0, 2.5)], {}),
        ("pinverse", [d.real(*d.shape(0, 2), d.int(1, 4), d.int(1, 4), dtype=kind)], d.some(rcond=0.2)),
        (d.one("modified_bessel_i0", "modified_bessel_i1", "spherical_bessel_j0"), [d.real(*d.shape()) * d.one(0.1, 5)], {}),
        (d.one("gcd_", "lcm_"), [d.whole([2, 3]), d.whole([3])], {}), ("addmv_", [d.real(2), d.real(2, 3), d.real(3)], d.some(beta=0.5)),
        ("unsafe_chunk", [d.real(5), 2], {}), ("unsafe_split", [d.real(5), 2], {}), ("unsafe_split_with_sizes", [d.real(5), [2, 3]], {}),
        ("vander", [d.one(d.real(d.int(0, 4), dtype=kind), d.whole([d.int(0, 4)], -4, 4, d.one(torch.int64, torch.int32, torch.int8)))], d.some(N=d.int(0, 5), increasing=True)),
    )  # fmt: skip


FAMILIES = [fourier, linear]
