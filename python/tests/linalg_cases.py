# SPDX-License-Identifier: Apache-2.0
"""Random calls of linear systems, spectra, histograms and polynomials of torch, for torch_names.py."""

import torch

LINALG = """
cholesky_ex cond eig eigh eigvals eigvalsh householder_product inv_ex ldl_factor ldl_factor_ex ldl_solve lstsq lu_factor_ex matrix_rank
pinv solve solve_ex solve_triangular svdvals
""".split()
POLYNOMIALS = """
chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w shifted_chebyshev_polynomial_t
shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he
laguerre_polynomial_l legendre_polynomial_p
""".split()
_KINDS = (torch.float32, torch.float64)


def _singular(d, a):
    """The matrices, or with a row of zeros that no rounding changes."""
    if a.shape[-1] and d.int(0, 3) == 0:
        a = a.clone()
        a[..., d.int(0, a.shape[-1] - 1), :] = 0
    return a


def systems(d):
    batch, n, kind = d.shape(0, 2), d.int(0, 4), d.one(*_KINDS)
    a = d.real(*batch, n, n, dtype=kind) + 3 * torch.eye(n, dtype=kind)
    left = d.flip()
    inner = batch[d.int(0, len(batch)) :]
    b = d.real(*inner, *([n, d.int(0, 3)] if left else [d.int(0, 3), n]), dtype=kind)
    vectors = d.real(*d.one(batch, []), n, dtype=kind)
    symmetric = a + a.mT
    both, pivots = torch.linalg.ldl_factor(symmetric)
    square = d.real(*batch, n, d.int(0, 3), dtype=kind)
    upper = d.flip()
    definite = a @ a.mT + torch.eye(n, dtype=kind)
    rows, columns = d.int(1, 5), d.int(1, 5)
    wide = d.real(*batch, rows, columns, dtype=kind)
    sides = d.real(*batch, rows, *d.one([], [d.int(1, 3)]), dtype=kind)
    tall, tau = d.real(*batch, columns + d.int(0, 2), columns), d.real(*batch, d.int(0, columns))
    whole, other = d.real(*batch, columns), d.real(*batch, tall.shape[-2], d.int(1, 3))
    return d.one(
        ("solve", [a, b], {"left": left}), ("solve", [a, vectors], {}), ("solve_ex", [a, b], {"left": left}), ("inv_ex", [a], {}),
        ("solve_triangular", [a, b], {"left": left, "upper": upper, **d.some(unitriangular=True)}),
        ("lu_factor_ex", [_singular(d, a)], {}), ("cholesky_ex", [definite], {"upper": upper}),
        ("ldl_factor", [symmetric], {}), ("ldl_factor_ex", [symmetric], {}), ("ldl_solve", [both, pivots, square], {}),
        ("pinv", [wide], d.one({}, {"rtol": 0.2}, {"atol": 0.5}, {"atol": 0.3, "rtol": 0.1}, {"atol": 0.0})), ("pinv", [wide, 0.3], {}),
        ("pinv", [symmetric], {"hermitian": True, **d.some(rtol=0.3)}), ("pinv", [wide], {"rtol": torch.tensor(0.3, dtype=kind)}),
        ("lstsq", [wide, sides], d.some(driver=d.one("gelsy", "gelsd", "gelss"))), ("lstsq", [tall, d.real(*tall.shape[:-1])], {"driver": "gels"}),
        ("householder_product", [tall, tau], {}), ("orgqr", [tall, tau], {}), ("ormqr", [tall, whole, other], d.some(transpose=True)),
        ("ormqr", [tall, whole, other.mT], {"left": False, **d.some(transpose=True)}),
        ("norm_except_dim", [d.real(2, 3, 4), d.one(1, 2), d.one(0, 1, 2, -1)], {}),
    )  # fmt: skip


def spectra(d):
    batch, n, kind = d.shape(0, 2), d.int(0, 4), d.one(*_KINDS)
    a = d.real(*batch, n, n, dtype=kind)
    wide = d.real(*batch, d.int(1, 4), d.int(1, 4), dtype=kind)
    some = d.one({}, {"atol": 0.5}, {"rtol": 0.3}, {"atol": 0.4, "rtol": 0.2}, {"rtol": torch.tensor(0.3, dtype=kind)})
    two = [int(each) - (wide.dim() if d.flip() else 0) for each in d.rng.permutation(wide.dim())[:2]]
    return d.one(
        ("eigvalsh", [a], d.some(UPLO="U")), ("svdvals", [wide], {}), ("matrix_rank", [wide], some), ("matrix_rank", [wide, 0.5], {}),
        ("matrix_rank", [a + a.mT], {"hermitian": True, **some}), ("cond", [wide.double()], {}), ("cond", [wide.double(), d.one(2, -2)], {}),
        ("cond", [a.double(), "nuc"], {}), ("cond", [_singular(d, a.double()), d.one("fro", 1, -1, float("inf"), float("-inf"))], {}),
        ("nuclear_norm", [d.real(3, 2)], d.some(keepdim=True)), ("norm", [d.real(3, 2), "nuc"], {}), ("norm", [wide, "nuc", two], d.some(keepdim=True)), ("nuclear_norm", [wide, two], d.some(keepdim=True)),
        ("frobenius_norm", [wide, d.one(two, two[:1], two[0])], d.some(keepdim=True)),
    )  # fmt: skip


def histograms(d):
    kind = d.one(*_KINDS)
    x = d.real(*d.shape(), dtype=kind)
    weight = d.some(weight=d.real(*x.shape, dtype=kind).abs(), density=True)
    edges = torch.sort(d.real(d.int(2, 6), dtype=kind))[0]
    points = d.real(*d.shape(1, 2), d.int(1, 3), dtype=kind)
    dims = points.shape[-1]
    ranges = d.one(None, [each for k in range(dims) for each in (-1.0 - k, 1.5)])
    bins = d.one(d.int(1, 4), [d.int(1, 4) for _ in range(dims)], [torch.sort(d.real(d.int(2, 4), dtype=kind))[0] for _ in range(dims)])
    of_points = d.some(weight=d.real(*points.shape[:-1], dtype=kind).abs(), density=True)
    if points.numel() and (ranges is None or not isinstance(bins, list) or not isinstance(bins[0], torch.Tensor)):
        of_points["range"] = ranges
    return d.one(
        ("histogram", [x, d.int(1, 9)], {**weight, **d.some(range=(-1.0, 0.5))}), ("histogram", [x], weight), ("histogram", [x, edges], weight),
        ("histogram", [torch.round(x * 2), d.int(1, 5)], weight), ("histogramdd", [points, bins], of_points),
    )  # fmt: skip


def cells(d):
    batch, width, hidden, kind = d.int(0, 3), d.int(1, 4), d.int(1, 4), d.one(*_KINDS)
    name, gates = d.one(("lstm_cell", 4), ("gru_cell", 3), ("rnn_tanh_cell", 1), ("rnn_relu_cell", 1))
    state = d.real(batch, hidden, dtype=kind)
    weights = [d.real(gates * hidden, n, dtype=kind) for n in (width, hidden)]
    biases = d.one([], [d.real(gates * hidden, dtype=kind) for _ in range(2)])
    return name, [d.real(batch, width, dtype=kind), [state, state + 1] if name == "lstm_cell" else state, *weights, *biases], {}


def special(d):
    x = d.one(d.real(*d.shape()) * d.one(0.5, 1.5), d.real(*d.shape(), dtype=torch.float32), d.whole(d.shape(0, 2)))
    other = [1 if d.int(0, 3) == 0 else n for n in x.shape][d.int(0, x.dim()) :]
    n = d.one(d.int(0, 6), d.whole(other, 0, 8), d.whole(other, -1, 12).to(torch.float64))
    return d.one(
        (d.one(*POLYNOMIALS), [x, n], {}), (d.one(*POLYNOMIALS), [x, n], {}), (d.one(*POLYNOMIALS), [d.one(0.5, -0.25, 2), d.whole([3], 0, 9)], {}),
        (d.one("modified_bessel_k0", "modified_bessel_k1", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "bessel_j0", "bessel_y1", "erfcx"), [d.real(*d.shape()).abs()], {}),
        ("zeta", [d.real(*other).abs() + 1.5, d.real(*other).abs() + 0.5], {}),
    )  # fmt: skip


FAMILIES = [systems, systems, spectra, histograms, special, cells]
