# SPDX-License-Identifier: Apache-2.0
"""Functions of hg.ops with names of torch.fft and torch.linalg, compared with torch."""

import collections

import numpy as np
import pytest

import hologram as hg

try:
    import torch
    import torch_names
    import transform_cases
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="needs torch")


@needs_torch
def test_random_calls_are_torchs():
    """MKL fails for some transforms of no elements, which have the shapes of others here."""
    equal = collections.Counter()
    for seed in range(1500):
        name, outcome, where, why = torch_names.check(seed, transform_cases.FAMILIES)
        assert outcome in ("equal", "both refuse") or outcome == "wider" and "MKL FFT error" in why, f"{outcome}: {where}: {why}"
        equal[name] += outcome == "equal"
    assert all(equal[name] > 3 for name in (*transform_cases.FFT, *transform_cases.LINALG, "renorm", "vander", "lu_unpack", "pinverse")), equal


@needs_torch
def test_random_gradients_are_torchs():
    outcomes = collections.Counter()
    for seed in range(700):
        name, outcome, where, why = torch_names.check_gradients(seed, transform_cases.FAMILIES)
        assert outcome != "refused", f"{where}: {why}"
        outcomes[outcome] += 1
    assert outcomes["equal"] > 200


@needs_torch
@pytest.mark.parametrize("name", [] if torch is None else [each for each in transform_cases.FFT if "freq" not in each])
def test_gradients_of_transforms_are_torchs(name):
    for dtype in (torch.float64, torch.complex128):
        if dtype.is_complex and name.startswith(("rfft", "ihfft")):
            continue
        x, grads = torch.randn(3, 4, 5, dtype=dtype), []
        for module in (torch.fft, hg.ops):
            leaf = x.clone().requires_grad_()
            y = getattr(module, name)(leaf)
            y = torch.view_as_real(y.resolve_conj()) if y.is_complex() else y
            grads.append(torch.autograd.grad((y * torch.linspace(0.5, 2, y.numel()).reshape(y.shape)).sum() + (y**2).sum(), leaf)[0])
        torch.testing.assert_close(grads[1], grads[0])


def test_transforms_of_expressions_and_open_sizes():
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    np.testing.assert_allclose(hg.ops.irfft(hg.ops.rfft(hg.Var(x))).numpy(), x, atol=1e-6)
    g = hg.Graph()
    a = g.input("x", ("n", 4))
    g.output("y", hg.ops.irfft(hg.ops.rfft(a), 4))
    for n in (3, 1, 0):
        np.testing.assert_allclose(g.model()(x[:n]), x[:n], atol=1e-6)
    with pytest.raises(ValueError, match="rfft: the size n of dim 0 is open; expected n"):
        hg.ops.rfft(a, dim=0)


def test_results_are_written_to_out():
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    out = np.empty((3, 4), np.complex64)
    assert hg.ops.fft(x, out=out) is out
    np.testing.assert_allclose(out, np.fft.fft(x), atol=1e-5)
    wide = np.zeros((4, 6), np.complex64)
    hg.ops.fft(x, out=wide[::-1, ::2].T)
    np.testing.assert_allclose(wide[::-1, ::2].T, np.fft.fft(x), atol=1e-5)
    assert (wide[:, 1::2] == 0).all()
    for wrong in (np.empty((3, 4), np.float32), np.empty((3, 4), np.complex128), np.empty((4, 3), np.complex64)):
        with pytest.raises(ValueError, match="^fft: the result is "):
            hg.ops.fft(x, out=wrong)
    both, pivots = np.empty((4, 4), np.float32), np.empty(4, np.int32)
    hg.ops.lu_factor(x.T @ x, out=(both, pivots))
    made = hg.ops.lu_factor(x.T @ x)
    np.testing.assert_array_equal(both, made.LU)
    np.testing.assert_array_equal(pivots, made.pivots)


@needs_torch
def test_complex_results_are_written_to_torchs_tensors():
    x, out = torch.randn(3, 4), torch.zeros(4, 3, dtype=torch.complex64).T
    assert hg.ops.fft(x, out=out) is out
    torch.testing.assert_close(out, torch.fft.fft(x))


def test_arguments_are_checked():
    x = np.ones((2, 2), np.float32)
    for call in (
        lambda: hg.ops.fft(x, norm="none"),
        lambda: hg.ops.fft(x, 0),
        lambda: hg.ops.fft(np.float32(1)),
        lambda: hg.ops.rfft(x.astype(np.complex64)),
        lambda: hg.ops.lu_solve(x, x, x),
        lambda: hg.ops.vecdot(x, x.astype(np.float64)),
        lambda: hg.ops.matrix_norm(x, 3),
        lambda: hg.ops.renorm(x, 0, 0, 1),
    ):
        with pytest.raises((ValueError, IndexError), match=r"^\w+: "):
            call()
