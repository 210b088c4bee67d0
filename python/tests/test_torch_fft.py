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


@needs_torch
def test_short_time_transforms_are_torchs():
    rng = np.random.default_rng(0)
    count = collections.Counter()
    for case in range(150):
        n = int(rng.choice([2, 3, 4, 5, 8, 16]))
        hop, win = (None if each == 0 else int(each) for each in (rng.integers(0, 5), rng.choice([0, n, n - 1])))
        dtype = [torch.float32, torch.float64, torch.complex64, torch.complex128][case % 4]
        real = torch.zeros((), dtype=dtype).real.dtype
        window = (torch.from_numpy(rng.random(win or n)) + 0.1).to(real) if case % 3 else None
        torch.manual_seed(case)
        x = torch.randn([(30,), (3, 40), (1, 5)][case % 3], dtype=dtype)
        named = {"hop_length": hop, "win_length": win, "window": window, "center": bool(rng.integers(0, 2)), "normalized": bool(rng.integers(0, 2)),
                 "pad_mode": str(rng.choice(["reflect", "constant", "replicate", "circular"])), "onesided": [None, False, True][case % 7 % 3]}  # fmt: skip
        want, got = (torch_names.outcome(lambda: module.stft(x, n, return_complex=case % 5 > 0, **named)) for module in (torch, hg.ops))
        assert (want is None) == (got is None), (case, n, x.shape, named)
        if want is None:
            continue
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
        count["stft"] += 1
        named.pop("pad_mode")
        named["length"] = [None, x.shape[-1], x.shape[-1] + 3][case % 11 % 3]
        if want.is_complex():
            back = [torch_names.outcome(lambda: module.istft(want, n, return_complex=case % 13 == 0, **named)) for module in (torch, hg.ops)]
            assert (back[0] is None) == (back[1] is None), (case, n, x.shape, named)
            if back[0] is not None:
                torch.testing.assert_close(back[1], back[0], rtol=1e-3, atol=1e-3)
                count["istft"] += 1
    assert count["stft"] > 60 and count["istft"] > 30
    x, window = torch.randn(2, 30, dtype=torch.float64, requires_grad=True), torch.rand(8, dtype=torch.float64, requires_grad=True)
    grads = []
    for module in (torch, hg.ops):
        y = module.stft(x, 8, window=window, return_complex=True)
        grads.append(torch.autograd.grad(module.istft(y * 2, 8, window=window).pow(2).sum() + y.abs().sum(), (x, window)))
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


@needs_torch
@pytest.mark.parametrize("name", ["abs", "sgn", "square", "norm"])
def test_gradients_of_complex_numbers_are_zero_at_zero(name):
    class Spectrum(torch.nn.Module):
        def forward(self, x):
            z = torch.fft.rfft(x)
            y = z.norm(dim=-1) if name == "norm" else getattr(torch, name)(z)
            return torch.view_as_real(y).sum(-1) if y.is_complex() else y

    x = torch.tensor([[0.0, 0, 0, 0], [1, -1, 0, 0], [2, 0, 2, 0]])  # bins of 0 in each row
    functions = [Spectrum(), hg.torch.wrap(hg.convert(Spectrum(), x))]
    if name == "sgn":
        functions.append(lambda x: torch.view_as_real(hg.ops.sgn(hg.ops.rfft(x))).sum(-1))
    leaves = [x.clone().requires_grad_() for _ in functions]
    want, *found = [torch.autograd.grad(f(leaf).sum(), leaf)[0] for f, leaf in zip(functions, leaves)]
    for got in found:
        torch.testing.assert_close(got, want)
