# SPDX-License-Identifier: Apache-2.0
"""Random networks in random training loops, compiled by Hologram and compared with eager PyTorch: results, gradients, parameters and
buffers.

python compiled.py SEED COUNT
"""

import copy
import random
import sys

import torch
from torch import nn

import hologram as hg  # noqa: F401 - an installed package is a backend of torch.compile
import hologram.torch  # noqa: F401

ACTIVATIONS = [nn.ReLU, nn.GELU, nn.Tanh, nn.SiLU, nn.LeakyReLU, nn.ELU, nn.Hardswish]


class Recurrent(nn.Module):
    def __init__(self, r):
        super().__init__()
        kind, both = r.choice([nn.GRU, nn.LSTM, nn.RNN]), r.random() < 0.3
        self.layers = kind(2, 4, r.choice([1, 2]), batch_first=True, bidirectional=both)
        self.last = nn.Linear(8 if both else 4, 3)

    def forward(self, x):
        return self.last(self.layers(x.view(len(x), 3, 2))[0].mean(1))


class Attention(nn.Module):
    def __init__(self, r):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(2, 1, 4, dropout=0.0, batch_first=True, norm_first=r.random() < 0.5)
        self.last = nn.Linear(6, 3)

    def forward(self, x):
        return self.last(self.layer(x.view(len(x), 3, 2)).flatten(1))


class Residual(nn.Module):
    """A weight shared by two layers, and a parameter outside of layers."""

    def __init__(self, r):
        super().__init__()
        self.a, self.b, self.norm, self.last = nn.Linear(6, 6), nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)
        self.b.weight = self.a.weight
        self.gain = nn.Parameter(torch.ones(6))

    def forward(self, x):
        y = x + self.norm(self.a(x)).relu() * self.gain
        return self.last(y + self.b(y).sigmoid())


class Embedded(nn.Module):
    def __init__(self, r):
        super().__init__()
        self.table, self.last = nn.Embedding(5, 4, padding_idx=r.choice([None, 0])), nn.Linear(24, 3)

    def forward(self, x):
        return self.last(self.table((x * 2).long().remainder(5)).flatten(1))


class Heads(nn.Module):
    """Several results, one of them for the loss; some slopes are infinite at 0."""

    def __init__(self, r):
        super().__init__()
        self.body, self.heads = nn.Linear(6, 4), nn.ModuleList(nn.Linear(4, 3) for _ in range(3))

    def forward(self, x):
        y = self.body(x).relu()
        a, b, c = (head(y) for head in self.heads)
        return a, b + c.detach(), c.round() + b, y.sqrt()[:, :3] + a.detach()


def rows(r):
    norm = r.choice([nn.BatchNorm1d(8), nn.LayerNorm(8), nn.Identity()])
    return nn.Sequential(nn.Linear(6, 8), norm, r.choice(ACTIVATIONS)(), nn.Linear(8, 3))


def images(r):
    norm = r.choice([nn.BatchNorm2d(4), nn.GroupNorm(2, 4), nn.InstanceNorm2d(4, affine=True, track_running_stats=r.random() < 0.5)])
    pool, count = r.choice([(nn.MaxPool2d(2), 8), (nn.AvgPool2d(2, 1), 24), (nn.AdaptiveAvgPool2d((2, 2)), 16)])
    conv = nn.Conv2d(1, 4, 2, padding=1, bias=r.random() < 0.5)
    return nn.Sequential(nn.Unflatten(1, (1, 2, 3)), conv, norm, r.choice(ACTIVATIONS)(), pool, nn.Flatten(), nn.Linear(count, 3))


def changed(r, net):
    """A change between two steps that a compiled graph must notice."""
    parameters = list(net.parameters())
    kind = r.randrange(4)
    if kind == 0:
        with torch.no_grad():
            for each in parameters:
                each.mul_(0.9)
    elif kind == 1:
        one = r.choice(parameters)
        one.requires_grad_(not one.requires_grad)
        if not any(each.requires_grad for each in parameters):
            one.requires_grad_()
    elif kind == 2:
        net.load_state_dict({name: x * 1.01 if x.is_floating_point() else x for name, x in copy.deepcopy(net.state_dict()).items()})


def trained(seed, compiled):
    """All results of the training loop of a seed."""
    r = random.Random(seed)
    torch.manual_seed(seed)
    net = r.choice([rows, images, Recurrent, Attention, Residual, Embedded, Heads])(r)
    dtype = r.choice([torch.float32, torch.float32, torch.float32, torch.float64])
    net.to(dtype)
    dynamic = r.choice([None, True])
    run = torch.compile(net, backend="hologram", dynamic=dynamic) if compiled else net
    # Adam would turn the rounding error of a zero gradient into a step.
    optimizer = r.choice([
        lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, weight_decay=0.1), lambda p: torch.optim.AdamW(p, 1e-2, eps=1e-2, weight_decay=0.3),
    ])(net.parameters())  # fmt: skip
    is_whole = r.random() < 0.1  # also the optimizer
    update = torch.compile(optimizer.step, backend="hologram") if compiled and is_whole else optimizer.step

    def one_of(results, k):
        return results[k % len(results)] if isinstance(results, tuple) else results

    seen = []
    for step in range(10):
        dice = torch.Generator().manual_seed(seed * 100 + step)
        x = torch.randn(r.choice([4, 4, 4, 5, 2, 7]), 6, generator=dice, dtype=dtype)
        target = torch.randint(0, 3, (len(x),), generator=dice)
        if r.random() < 0.12:
            net.eval()
            with torch.no_grad():
                seen.append(one_of(run(x), step).clone())
            net.train()
            continue
        if r.random() < 0.3:
            changed(r, net)
        x.requires_grad_(r.random() < 0.3)
        optimizer.zero_grad(set_to_none=r.random() < 0.5)
        which = r.randrange(4)
        results = [one_of(run(x * (1 + 0.1 * k)), which + k) for k in range(r.choice([1, 1, 2]))]
        if r.random() < 0.2:
            results.reverse()
        for each in results:
            loss = nn.functional.cross_entropy(each, target) + each.square().mean()
            loss.backward(retain_graph=r.random() < 0.1)
        seen += [torch.zeros(()) if each.grad is None else each.grad.clone() for each in (x, *net.parameters())]
        if r.random() < 0.3:
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        update()
        seen += [each.detach().clone() for each in (*results, *net.buffers(), *net.parameters())]
    return seen, dtype


def difference(seed):
    """How the results differ from eager PyTorch's, or None."""
    torch._dynamo.reset()
    (want, dtype), (got, _) = trained(seed, False), trained(seed, True)
    rate = 1e-8 if dtype == torch.float64 else 2e-3
    for place, (a, b) in enumerate(zip(got, want, strict=True)):
        largest = max(1.0, float(b.abs().max())) if b.numel() else 1.0
        try:
            torch.testing.assert_close(a, b, rtol=rate, atol=rate * largest, equal_nan=True)
        except AssertionError as error:
            return f"{place} of {len(want)}: {error}"
    return None


def main():
    first, count = int(sys.argv[1]), int(sys.argv[2])
    wrong = 0
    for seed in range(first, first + count):
        found = difference(seed)
        if found:
            wrong += 1
            print(f"seed {seed}: {found}", flush=True)
    print(f"{count - wrong} of {count} as eager PyTorch")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
