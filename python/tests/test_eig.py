# SPDX-License-Identifier: Apache-2.0
"""Eigenvalues of random matrices compared with PyTorch in any order, and gradients that do not depend on order or phase."""

import pytest

import hologram as hg

torch = pytest.importorskip("torch", "2.5")

KINDS = ["plain", "symmetric", "triangle", "defective", "nearly", "scaled"]


def random_matrices(generator, kind, dtype, n, batch):
    x = torch.randn(*batch, n, n, dtype=dtype, generator=generator)
    if kind == "symmetric":
        x = x + x.mH
    elif kind == "triangle":
        x = x.triu()
    elif kind in ("defective", "nearly"):  # a transformed Jordan block
        q = torch.linalg.qr(x)[0]
        block = torch.diag(torch.full((n,), 0.7, dtype=dtype)) + torch.diag(torch.ones(max(n - 1, 0), dtype=dtype), 1)[:n, :n]
        if kind == "nearly" and n > 1:
            block[-1, 0] += 1e-6
        x = q @ block @ q.mH
    elif kind == "scaled":
        factors = 2.0 ** torch.randint(-8, 9, (n,), generator=generator)
        x = x * factors[:, None] / factors
    return x


def distance(a, b):
    """The distance of two sets of equal size: each number is matched with the nearest unmatched one."""
    rest, most = list(b), 0.0
    for each in a:
        k = min(range(len(rest)), key=lambda i: abs(rest[i] - each))
        most = max(most, abs(rest.pop(k) - each))
    return most


def ours(op, x):
    results = getattr(hg.ops, op)(x)
    return list(results) if isinstance(results, tuple) else [results]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_values_and_vectors(kind, dtype):
    generator = torch.Generator().manual_seed(3)
    epsilon = torch.finfo(dtype).eps
    for n in (0, 1, 2, 3, 4, 5, 8, 17, 40):
        for batch in ((), (3,), (2, 0), (2, 2)):
            x = random_matrices(generator, kind, dtype, n, batch)
            values, vectors = ours("eig", x)
            alone = ours("eigvals", x)[0]
            want = torch.linalg.eigvals(x)
            assert values.shape == want.shape and values.dtype == want.dtype and vectors.shape == x.shape
            if x.numel() == 0:
                continue
            size = x.abs().amax((-1, -2)).clamp_min(1e-30) * n
            spread = (30 * epsilon) ** (1 / n) if kind in ("defective", "nearly") else 1e3 * epsilon if kind != "scaled" else 1e4 * epsilon
            for got, more, theirs, one in zip(values.reshape(-1, n), alone.reshape(-1, n), want.reshape(-1, n), size.flatten()):
                for each in (got, more):
                    assert distance(each.tolist(), theirs.tolist()) <= spread * one * 3
            wide = x.to(torch.complex128)
            left = wide @ vectors.to(torch.complex128) - vectors.to(torch.complex128) * values.to(torch.complex128).unsqueeze(-2)
            assert (left.abs().amax((-1, -2)) <= 20 * epsilon * size).all()
            torch.testing.assert_close(vectors.abs().square().sum(-2), torch.ones_like(vectors.real[..., 0, :]))


def loss_of(values, vectors):
    turned = torch.view_as_real(values * (0.3 + 0.7j)).sin().sum()
    if vectors is None:
        return turned
    return turned + (vectors.abs().pow(4) * values.abs().unsqueeze(-2)).sum()


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("op", ["eig", "eigvals"])
def test_gradients(op, dtype):
    generator = torch.Generator().manual_seed(4)
    for n in (0, 1, 2, 3, 6, 11):
        for batch in ((), (3,), (2, 2)):
            x = random_matrices(generator, "plain", dtype, n, batch)
            a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
            loss_of(*ours(op, a), *([None] if op == "eigvals" else [])).backward()
            if op == "eig":
                loss_of(*torch.linalg.eig(b)).backward()
            else:
                loss_of(torch.linalg.eigvals(b), None).backward()
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-7, atol=1e-8)


class Spectrum(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.eigvals(x).abs().sort().values, torch.linalg.eig(x)[0].sum(-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
def test_converted(dtype):
    model = hg.convert(Spectrum(), torch.randn(2, 4, 4, dtype=dtype), dynamic={"x": {0: "n"}})
    for n in (1, 3):
        x = torch.randn(n, 4, 4, dtype=dtype)
        for got, want in zip(model(x), Spectrum()(x)):
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
