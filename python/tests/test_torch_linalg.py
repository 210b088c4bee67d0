# SPDX-License-Identifier: Apache-2.0
"""Linear systems, spectra, histograms and polynomials of hg.ops, compared with torch."""

import numpy as np
import pytest

import hologram as hg

try:
    import torch
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="needs torch")


@needs_torch
def test_lu_is_that_of_linalg():
    for case, shape in enumerate([(3, 3), (2, 3, 3), (4, 2), (2, 4), (2, 1, 3, 5), (1, 1)]):
        torch.manual_seed(case)
        a = torch.randn(shape, dtype=torch.float64, requires_grad=True)
        want, got = torch.linalg.lu(a), hg.ops.lu(a)
        grads = []
        for p, low, up in (want, got):
            grads.append(torch.autograd.grad((low * torch.arange(low.numel()).reshape(low.shape)).sum() + (up**2).sum(), a)[0])
        torch.testing.assert_close((*got, grads[1]), (*want, grads[0]))
    p, low, up = hg.ops.lu(np.array([[0.0, 2], [1, 3]]))
    np.testing.assert_array_equal(p @ low @ up, [[0, 2], [1, 3]])


def test_fields_are_torchs():
    x = np.array([[2.0, 1], [1, 3]])
    fields = {
        "eigh": "eigenvalues eigenvectors", "eig": "eigenvalues eigenvectors", "inv_ex": "inverse info", "cholesky_ex": "L info", "lu_factor_ex": "LU pivots info",
        "ldl_factor": "LD pivots", "ldl_factor_ex": "LD pivots info",
    }  # fmt: skip
    for name, expected in fields.items():
        assert getattr(hg.ops, name)(x)._fields == tuple(expected.split())
    assert hg.ops.lstsq(x, x)._fields == ("solution", "residuals", "rank", "singular_values")
    assert hg.ops.solve_ex(x, x)._fields == ("result", "info") and hg.ops.histogram(x, 2)._fields == ("hist", "bin_edges")


def test_spectra_rebuild_their_matrices():
    rng = np.random.default_rng(0)
    for n in (1, 2, 5):
        x = rng.standard_normal((3, n, n))
        for triangle in ("L", "u"):
            lower = np.tril(x) if triangle == "L" else np.swapaxes(np.triu(x), -1, -2)
            symmetric = lower + np.swapaxes(np.tril(lower, -1), -1, -2)
            values, vectors = hg.ops.eigh(x, UPLO=triangle)
            np.testing.assert_allclose(vectors * values[:, None] @ np.swapaxes(vectors, -1, -2), symmetric, atol=1e-12)
        for matrix in (x, x + 1j * rng.standard_normal(x.shape)):
            values, vectors = hg.ops.eig(matrix)
            assert values.dtype == np.complex128
            np.testing.assert_allclose(matrix @ vectors, vectors * values[:, None], atol=1e-10)
    with pytest.raises(ValueError, match="eigh: UPLO is 'X', expected 'L' or 'U'"):
        hg.ops.eigh(x, "X")


def test_matrices_without_a_solution():
    """Reported by index; the others of a batch are solved."""
    x = np.array([[[1.0, 2], [2, 4]], [[1, 0], [0, 2]], [[0, 0], [0, 1]]])
    inverse, info = hg.ops.inv_ex(x)
    assert info.dtype == np.int32 and info.tolist() == [2, 0, 1]
    np.testing.assert_array_equal(np.isnan(inverse).all((1, 2)), [True, False, True])
    np.testing.assert_allclose(inverse[1], [[1, 0], [0, 0.5]])
    assert hg.ops.solve_ex(x, np.ones((3, 2))).info.tolist() == info.tolist()
    assert np.isinf(hg.ops.cond(x, "fro")).tolist() == [True, False, True]
    assert hg.ops.matrix_rank(x).tolist() == [1, 2, 1]
    definite = np.array([[[2.0, 9], [1, 1]], [[-1, 0], [0, 1]], [[1, 9], [2, 1]], [[1, 9], [1, 1]]])
    made = hg.ops.cholesky_ex(definite)
    assert made.info.tolist() == [0, 1, 2, 2]
    np.testing.assert_allclose(made.L[0], np.linalg.cholesky(np.array([[2.0, 1], [1, 1]])))
    assert np.isnan(made.L[1:]).all()
    for call in (lambda: hg.ops.inv_ex(x, check_errors=True), lambda: hg.ops.cholesky_ex(definite, check_errors=True), lambda: hg.ops.solve(x, x)):
        with pytest.raises(ValueError):
            call()
    with pytest.raises(ValueError, match="solve: A is .*; the sizes differ"):
        hg.ops.solve(x, np.ones((3, 3, 1)))


def test_least_squares_of_low_rank():
    """A singular value below rcond times the largest one counts as 0, also in the gradient."""
    a, b = np.diag([2.0, 1, 0.1])[:, :3], np.array([2.0, 1, 1])
    solution, residuals, rank, values = hg.ops.lstsq(a, b, 0.2, driver="gelsd")
    np.testing.assert_allclose(solution, [1, 1, 0], atol=1e-12)
    assert rank == 2 and residuals.shape == (0,)
    np.testing.assert_allclose(values, [2, 1, 0.1])
    np.testing.assert_allclose(hg.ops.pinv(a, 0.2), np.diag([0.5, 1, 0]), atol=1e-12)
    np.testing.assert_allclose(hg.ops.pinv(a, atol=1.5), np.diag([0.5, 0, 0]), atol=1e-12)


@needs_torch
def test_batched_vander_is_torchs():
    for x in (torch.randn(4), torch.randn(2, 3, 4), torch.randint(-3, 4, (2, 3))):
        for n in (None, 2, 5):
            torch.testing.assert_close(hg.ops.vander(x, n, increasing=True), torch.linalg.vander(x, N=n))


def test_systems_of_expressions():
    x = np.array([[2.0, 1], [1, 3]], np.float32)
    a, b = hg.Var(x), hg.Var(np.ones((2, 1), np.float32))
    for name in ("solve", "lstsq"):
        made = getattr(hg.ops, name)(a, b)
        np.testing.assert_allclose((made[0] if name == "lstsq" else made).numpy(), np.linalg.solve(x, np.ones((2, 1))), rtol=1e-5)
    np.testing.assert_allclose(hg.ops.pinv(a).numpy(), np.linalg.inv(x), rtol=1e-5)
    assert hg.ops.inv_ex(a)[1].numpy() == 0
    for call in (lambda: hg.ops.cholesky_ex(a), lambda: hg.ops.inv_ex(a, check_errors=True), lambda: hg.ops.histogram(a, 3)):
        with pytest.raises(TypeError, match="which an expression would keep"):
            call()


def test_binomial_draws_numbers_of_successes():
    with hg.Executor("cpu", seed=3):
        for count, prob in ((1, 0.25), (10, 0.3), (1000, 0.9)):
            drawn = hg.ops.binomial(np.full(20000, count, np.float32), np.full((2, 1), prob, np.float32))
            variance = count * prob * (1 - prob)
            assert drawn.shape == (2, 20000) and drawn.dtype == np.float32 and (drawn == drawn.round()).all() and drawn.min() >= 0 and drawn.max() <= count
            assert abs(drawn.mean() - count * prob) < 4 * (variance / 40000) ** 0.5 and abs(drawn.var() / variance - 1) < 0.1
        assert not np.array_equal(*(hg.ops.binomial(np.full(99, 50.0), np.full(99, 0.5)) for _ in range(2)))
    draws = []
    for _ in range(2):
        with hg.Executor("cpu", seed=5):
            draws.append(hg.ops.binomial(np.full(99, 50.0), np.full(99, 0.5)))
    np.testing.assert_array_equal(*draws)
    one = np.ones(2)
    for count, prob in ((-one, one), (one, 2 * one), (one, one * np.nan), (one * np.inf, one), (one, one.astype(np.float32)), (np.array([1]), np.array([1]))):
        with pytest.raises(ValueError, match="^binomial: "):
            hg.ops.binomial(count, prob)


def test_histograms_check_their_arguments():
    x = np.array([0.0, 1, 2])
    for call in (
        lambda: hg.ops.histogram(x, 0),
        lambda: hg.ops.histogram(x, 3, range=(2, 1)),
        lambda: hg.ops.histogram(np.array([np.nan]), 3),
        lambda: hg.ops.histogram(x, 3, weight=np.ones(2)),
        lambda: hg.ops.histogram(np.array([1, 2]), 3),
        lambda: hg.ops.histogram(x, np.array([1.0])),
        lambda: hg.ops.histogramdd(x, 3),
        lambda: hg.ops.histogramdd(np.ones((4, 2)), [3]),
    ):
        with pytest.raises(ValueError, match=r"^histogram(dd)?: "):
            call()
