# SPDX-License-Identifier: Apache-2.0
"""Random small modules with parameters of every kind, and inputs for them."""
import torch
from torch import nn

WIDTH = 6
BUFFER = "*table"


def pick(rng, choices):
    return choices[int(rng.integers(len(choices)))]


class Scaled(nn.Module):
    """Parameters outside layers: a number, one with a single element, one that broadcasts."""

    def __init__(self, rng, shape):
        super().__init__()
        shape = pick(rng, [(), (1,), shape])
        self.scale, self.shift = nn.Parameter(1 + 0.3 * torch.randn(shape)), nn.Parameter(torch.randn(shape))

    def forward(self, x):
        return x * self.scale + self.shift


class Residual(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return x + self.inner(x)


class Twice(nn.Module):
    """A weight that is used twice, once transposed."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH) * 0.4)

    def forward(self, x):
        return torch.tanh(x @ self.weight) @ self.weight.t()


class Einsum(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, WIDTH, 3) * 0.4)
        self.back = nn.Parameter(torch.randn(2, 3, WIDTH) * 0.4)

    def forward(self, x):
        return torch.einsum("...hd,hde->...e", torch.einsum("...c,hcd->...hd", x, self.weight), self.back)


class Buffered(nn.Module):
    """A float buffer, which training does not change."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.randn(WIDTH))
        self.register_buffer("rates", torch.rand(WIDTH), persistent=False)

    def forward(self, x):
        return x * torch.cos(self.rates) + self.table


class Taken(nn.Module):
    """The first result of a module with several results."""

    def __init__(self, inner, copies=1):
        super().__init__()
        self.inner, self.copies = inner, copies

    def forward(self, x):
        return self.inner(*[x] * self.copies)[0]


class Mean(nn.Module):
    def __init__(self, *dims):
        super().__init__()
        self.dims = dims

    def forward(self, x):
        return x.mean(self.dims)


class RmsByHand(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(1 + 0.2 * torch.randn(WIDTH))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))


class Branches(nn.Module):
    """Two halves of the channels, each in its own branch."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(WIDTH // 2, WIDTH), nn.Linear(WIDTH // 2, WIDTH, bias=False)

    def forward(self, x):
        a, b = x.chunk(2, -1)
        return torch.cat([self.left(a) * torch.sigmoid(self.right(b))[..., :1], b], -1)[..., :WIDTH]


def activation(rng):
    return pick(rng, [nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.ELU, nn.Softplus, nn.Mish, nn.SELU,
                      lambda: nn.PReLU(), lambda: nn.GELU(approximate="tanh"), lambda: nn.Softmax(-1)])()


def rows_block(rng):
    """Blocks for [..., WIDTH]."""
    return pick(rng, [
        lambda: nn.Linear(WIDTH, WIDTH), lambda: nn.Linear(WIDTH, WIDTH, bias=False), lambda: nn.LayerNorm(WIDTH),
        lambda: nn.RMSNorm(WIDTH), RmsByHand, Twice, Einsum, Buffered, Branches, lambda: Scaled(rng, (WIDTH,)),
        lambda: nn.Sequential(nn.Linear(WIDTH, 1), nn.Linear(1, WIDTH)), lambda: activation(rng),
        lambda: Residual(nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 9), nn.GELU(), nn.Linear(9, WIDTH)))])()


def vectors(rng):
    blocks = [rows_block(rng) for _ in range(int(rng.integers(1, 5)))]
    if rng.random() < 0.3:
        blocks.insert(1, nn.BatchNorm1d(WIDTH))
    return nn.Sequential(nn.Linear(5, WIDTH), *blocks, nn.Linear(WIDTH, int(rng.integers(1, 4)))), [torch.randn(4, 5)]


def image_block(rng):
    return pick(rng, [
        lambda: nn.Conv2d(WIDTH, WIDTH, 3, padding=1), lambda: nn.Conv2d(WIDTH, WIDTH, 3, padding=2, dilation=2, bias=False),
        lambda: nn.Conv2d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH), lambda: nn.Conv2d(WIDTH, WIDTH, 1, groups=2),
        lambda: nn.ConvTranspose2d(WIDTH, WIDTH, 2, stride=2), lambda: nn.BatchNorm2d(WIDTH),
        lambda: nn.Sequential(nn.Conv2d(WIDTH, WIDTH, 3, padding=1, bias=False), nn.BatchNorm2d(WIDTH), nn.SiLU()),
        lambda: nn.GroupNorm(2, WIDTH), lambda: nn.InstanceNorm2d(WIDTH, affine=True), lambda: nn.PReLU(WIDTH),
        lambda: Scaled(rng, (WIDTH, 1, 1)), lambda: nn.AvgPool2d(3, 1, 1), lambda: nn.Upsample(scale_factor=2, mode="bilinear"),
        lambda: nn.LayerNorm([WIDTH, 8, 8]), lambda: nn.Conv2d(WIDTH, WIDTH, (3, 1), padding=(1, 0)), lambda: activation(rng),
        lambda: Residual(nn.Sequential(nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.Hardswish()))])()


def images(rng):
    blocks, size = [], 8
    for _ in range(int(rng.integers(1, 5))):
        block = image_block(rng)
        if isinstance(block, nn.LayerNorm) and size != 8:
            continue
        if isinstance(block, (nn.ConvTranspose2d, nn.Upsample)):
            size *= 2
            if size > 16:
                continue
        blocks.append(block)
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(WIDTH, 3)] if rng.random() < 0.7 else [Mean(2, 3)]
    return nn.Sequential(nn.Conv2d(3, WIDTH, 3, padding=1), *blocks, *head), [torch.randn(3, 3, 8, 8)]


class Words(nn.Module):
    def __init__(self, rng):
        super().__init__()
        self.words = nn.Embedding(11, WIDTH, padding_idx=0 if rng.random() < 0.3 else None)
        self.places = nn.Parameter(torch.randn(1, 5, WIDTH)) if rng.random() < 0.5 else None
        self.blocks = nn.Sequential(*[sequence_block(rng) for _ in range(int(rng.integers(1, 4)))])
        self.head = nn.Linear(WIDTH, 11, bias=False)
        if rng.random() < 0.4:
            self.head.weight = self.words.weight

    def forward(self, tokens):
        x = self.words(tokens)
        if self.places is not None:
            x = x + self.places
        return self.head(self.blocks(x))


class Turned(nn.Module):
    """Blocks that need channels first."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x.transpose(1, 2)).transpose(1, 2)


def sequence_block(rng):
    both = bool(rng.random() < 0.3)
    half = WIDTH // (2 if both else 1)
    return pick(rng, [
        lambda: rows_block(rng), lambda: rows_block(rng), lambda: Turned(nn.Conv1d(WIDTH, WIDTH, 3, padding=1)),
        lambda: Taken(nn.LSTM(WIDTH, half, batch_first=True, bidirectional=both)),
        lambda: Taken(nn.GRU(WIDTH, half, int(rng.integers(1, 3)), batch_first=True, bidirectional=both)),
        lambda: Taken(nn.RNN(WIDTH, half, batch_first=True, bidirectional=both)),
        lambda: Taken(nn.MultiheadAttention(WIDTH, 2, batch_first=True), copies=3),
        lambda: nn.TransformerEncoderLayer(WIDTH, 2, 8, dropout=0.0, batch_first=True, norm_first=bool(rng.random() < 0.5))])()


def sentences(rng):
    return Words(rng), [torch.randint(0, 11, (3, 5))]


def make(rng):
    torch.manual_seed(int(rng.integers(1 << 30)))
    module, inputs = pick(rng, [vectors, images, sentences])(rng)
    with torch.no_grad():
        for parameter in module.parameters():  # zeros and ones would hide confusions
            parameter += 0.1 * torch.randn_like(parameter)
        for name, buffer in module.named_buffers():
            if "running" in name:
                buffer += 0.2 * torch.rand_like(buffer)
    return module.eval(), inputs
