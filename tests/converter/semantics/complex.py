# SPDX-License-Identifier: Apache-2.0
"""Complex numbers and Fourier transforms."""

from typing import Dict

import torch
from torch import nn

from semantics.case import T, case


@case("f32[n,t,6]")
class Transforms(nn.Module):
    def forward(self, x: T):
        half, whole = torch.fft.rfft(x), torch.fft.fft2(x)
        many = torch.fft.rfftn(x, dim=[0, 1, 2], norm="ortho")
        short = torch.fft.fft(x, n=4, dim=1, norm="forward")
        return (torch.fft.irfft(half, n=x.size(2)), torch.fft.ifft2(whole).real, half, many, short,
                torch.fft.irfftn(many, s=x.shape, norm="ortho"), torch.fft.ihfft(x),
                torch.fft.hfft(half, n=x.size(2)), torch.fft.fftfreq(x.size(1)))


@case("f32[n,t,6]")
class InnerTransforms(nn.Module):
    """The ops in decomposed programs that replace those above."""
    def forward(self, x: T):
        z = torch._fft_r2c(x, [1, 2], 0, True)
        all = torch._fft_r2c(x, [0, 2], 1, False)
        return (z, all, torch._fft_c2r(z, [1, 2], 2, 6), torch._fft_c2r(z, [2], 1, 7), torch._fft_c2c(all, [2, 0], 2, False),
                torch._fft_c2c(all, [1], 1, True))


@case("f32[n,t,6]", "f32[n,t,6]")
def arithmetic(self, x: T, y: T):
    z = torch.complex(x, y)
    w = (z * x + 3.0 - z.conj()) / (z + 4)
    return (torch.view_as_real(w), w.abs(), w.angle(), torch.exp(z), z * w, z ** 2,
            z @ w.transpose(1, 2), torch.einsum("ntk,nsk->nts", z, w), w.real, z.imag.sum())


@case("f32[n]")
def powers_and_roots(self, x: T):
    """At 0 and near the branch cut."""
    z = torch.complex(torch.tensor([0.0, -2.0, -2.0, 3.0]), torch.tensor([0.0, 0.0, 1e-6, 4.0])) + x.sum() * 0
    some = z[1:]  # 0 ** -1 depends on torch's version: see exported
    return some ** -1, some ** -2, some ** -0.5, z ** 2.5, z ** 0.5, torch.sqrt(z), torch.sqrt(torch.sqrt(z).real)


@case("f32[n,t,6]", "f32[n,t,6]")
def moves(self, x: T, y: T):
    z = torch.complex(x, y)
    return (z.permute(2, 0, 1)[1:, :, ::2], torch.cat([z, x], 2).reshape(z.size(0), -1),
            torch.stack([z, z.conj()]).sum(0), z.unsqueeze(1).expand(-1, 3, -1, -1).mean(1),
            torch.where(x > 0, z, -z), z.flip(1).roll(1, 2), z.size(2), z.dim())


@case("f32[n,4]")
class WritesIntoParts(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, dtype=torch.cfloat))
        self.register_buffer("total", torch.zeros(3, dtype=torch.cfloat))

    def forward(self, x: T):
        z = torch.zeros(x.size(0), 3, dtype=torch.cfloat)
        z[:, 1:] += self.weight[1:]
        z.real[:, 0] = 1.5
        torch.view_as_real(z)[:, 2, 1] = x[:, 0]
        self.total += z.sum(0)
        return z, z.is_complex(), self.total * 1.0


@case("f32[n,80]")
class ShortTime(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(16))

    def forward(self, x: T):
        z = torch.stft(x, 16, 4, 16, window=self.window, return_complex=True)
        y = torch.istft(z, 16, 4, 16, window=self.window, length=80)
        return z.abs(), y


# A real signal follows from the first half of all frequencies, also if the rest differs.
@case("z:c64[n,16,5]")
def signals_of_whole_spectra(self, z: T):
    return torch.istft(z, 16, 4, 16, window=torch.ones(16), onesided=False)


# The order, and the phases of the vectors, are arbitrary.
@case("f32[n,4,4]", "f32[n,4,4]")
def eigenvalues(self, x: T, y: T):
    z = torch.complex(x, y)
    w, v = torch.linalg.eig(x)
    u, vectors = torch.linalg.eig(z)
    return (torch.linalg.eigvals(z).abs().sort().values, w.abs().sort().values, w.sum(1),
            (v * w.unsqueeze(1)) @ v.mH, (vectors * u.unsqueeze(1)) @ vectors.mH,
            v.abs().square().sum(1), vectors.abs().square().sum(1), torch.linalg.eigvals(x).sum(1))


@case("f32[n,t,4]", exit=3, words="not supported for complex numbers")
def sort_of_complex_numbers(self, x: T):
    return torch.cumprod(torch.fft.fft(x), 1)


@case("z:c64[n,4]")
def complex_input(self, z: T):
    return z * z.conj(), z.abs(), torch.fft.ifft(z), z.real, z[:, 1:].sum(1), z.size(1), z.is_complex()


@case("z:c128[n,4]=-1..1", "x:f64[4]", "w:c64[n,1]")
def complex_inputs_of_both_widths(self, z: T, x: T, w: T):
    z[:, 0] = 2 * z[:, 1]
    return (z @ torch.complex(x, -x)).exp(), z + w, w.clone(), torch.view_as_real(z.t()), z.t()


@case("z:c64[]", "u:c64[n]", "v:c64[n]")
def complex_in_containers(self, z: T, x: Dict[str, T]):
    if bool(z.real > 0):
        r = x["u"] * z
    else:
        r = x["v"] - z
    return {"r": r, "both": [x["u"], x["v"].conj()]}


@case("z:c64[n,4]", exit=3, words="not supported for complex numbers")
def products_of_complex_inputs(self, z: T):
    return torch.cumprod(z, 1)
