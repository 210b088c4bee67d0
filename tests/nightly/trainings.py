#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random trainings compared with PyTorch: networks, losses, optimizers, schedules, rules, clipping, accumulation.

  PYTHONPATH=BUILD/python tests/nightly/trainings.py --seed 1 --count 500

Each trains a random network in f64 (one in eight in f32) for some updates with Hologram and with torch.optim. It compares the loss of
every batch, all parameters and buffers at the end, and the evaluation. "unsteady" means that PyTorch's own result changes when the
weights change by a rounding. Rates are powers of two, because Hologram stores them in f32. Exits with 1 if one differs, and with 77
without PyTorch.
"""

import argparse
import contextlib
import copy
import io
import random
import sys
import traceback

try:
    import torch
    import torch.export  # which hg.convert needs
except ImportError:
    sys.exit(77)
from torch import nn
from torch.nn import functional as F

import hologram as hg


class Residual(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return x + self.inner(x)


class Tied(nn.Module):
    """One weight, used twice, once transposed."""

    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n, n) * 0.3)

    def forward(self, x):
        return torch.tanh(x @ self.weight) @ self.weight.t()


class Attention(nn.Module):
    def __init__(self, n, heads, causal):
        super().__init__()
        self.qkv, self.out = nn.Linear(n, 3 * n), nn.Linear(n, n)
        self.heads, self.causal = heads, causal

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).flatten(2))


class Recurrent(nn.Module):
    def __init__(self, kind, n, r):
        super().__init__()
        self.rnn = kind(n, n // 2 if r else n, num_layers=1 + r, bidirectional=bool(r), batch_first=True)

    def forward(self, x):
        return self.rnn(x)[0]


class Last(nn.Module):
    def forward(self, x):
        return x[:, -1]


class Mean(nn.Module):
    def __init__(self, *dims):
        super().__init__()
        self.dims = dims

    def forward(self, x):
        return x.mean(self.dims)


def activation(r):
    return r.choice(
        [nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.ELU, nn.Softplus, nn.Hardswish, nn.Mish, nn.LeakyReLU, nn.SELU,
         nn.Softsign, nn.LogSigmoid, nn.ReLU6, nn.Hardtanh, nn.CELU, nn.PReLU]
    )()  # fmt: skip


def dense(r, n):
    """Layers on [..., n] that keep the last size."""
    return r.choice([
        lambda: nn.Sequential(nn.Linear(n, 2 * n), activation(r), nn.Linear(2 * n, n, bias=r.random() < 0.7)),
        lambda: Residual(nn.Linear(n, n)),
        lambda: nn.LayerNorm(n, elementwise_affine=r.random() < 0.8),
        lambda: nn.RMSNorm(n),
        lambda: activation(r),
        lambda: Tied(n),
        lambda: nn.Dropout(0.0),
        lambda: nn.utils.parametrizations.weight_norm(nn.Linear(n, n)),
    ])()  # fmt: skip


def flat(r):
    n = r.choice([1, 2, 3, 5, 8])
    layers = []
    for _ in range(r.randint(1, 4)):
        layers.append(r.choice([lambda: dense(r, n), lambda: nn.BatchNorm1d(n, momentum=r.choice([0.1, 0.5]), affine=r.random() < 0.8)])())
    return layers, n, lambda b: torch.randn(b, n)


def pooled(r):
    return r.choice([
        lambda: nn.MaxPool2d(2, 1),
        lambda: nn.AvgPool2d(2, 1, padding=r.choice([0, 1]), count_include_pad=r.random() < 0.5),
        lambda: nn.MaxPool2d(3, 2, 1, ceil_mode=r.random() < 0.5),
        lambda: nn.Upsample(scale_factor=2, mode=r.choice(["nearest", "bilinear", "bicubic"])),
        lambda: nn.ZeroPad2d(1),
        lambda: nn.ReflectionPad2d(1),
        lambda: nn.ReplicationPad2d((1, 0, 2, 1)),
        lambda: nn.AdaptiveAvgPool2d(r.choice([1, 2, 3])),
        lambda: nn.LPPool2d(2, 2, 1),
    ])()  # fmt: skip


def image(r):
    c, layers = r.choice([1, 2, 4]), []
    first, size = c, r.choice([4, 5, 7])
    for _ in range(r.randint(1, 3)):
        to = r.choice([2, 4, 6])
        groups = r.choice([1, 1, 2]) if c % 2 == 0 and to % 2 == 0 else 1
        conv = r.choice([
            lambda: nn.Conv2d(c, to, r.choice([1, 2, 3]), stride=r.choice([1, 1, 2]), padding=r.choice([1, 2]), groups=groups,
                              dilation=1, bias=r.random() < 0.7, padding_mode=r.choice(["zeros", "zeros", "reflect", "circular", "replicate"])),
            lambda: nn.ConvTranspose2d(c, to, r.choice([2, 3]), stride=r.choice([1, 2]), groups=groups),
            lambda: nn.Conv2d(c, c * 2, 3, padding=1, groups=c),
        ])()  # fmt: skip
        layers.append(conv)
        c = conv.out_channels
        layers.append(r.choice([
            lambda: nn.BatchNorm2d(c, momentum=r.choice([0.1, 0.3])), lambda: nn.GroupNorm(r.choice([1, 2]), c),
            lambda: nn.InstanceNorm2d(c, affine=r.random() < 0.5), lambda: activation(r), lambda: nn.Identity(),
        ])())  # fmt: skip
        if r.random() < 0.3:
            layers.append(nn.Upsample(size=(6, 5)))
            layers.append(pooled(r))
        if r.random() < 0.3:
            layers.append(activation(r))
    layers.append(nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten()) if r.random() < 0.5 else Mean(2, 3))
    with torch.no_grad():
        n = nn.Sequential(*layers).eval()(torch.zeros(2, first, size, size)).shape[-1]
    return layers, n, lambda b: torch.randn(b, first, size, size)


def sequence(r):
    n, t = r.choice([2, 4, 6]), r.choice([1, 3, 5])
    ids = r.random() < 0.5
    layers = [nn.Embedding(7, n, padding_idx=r.choice([None, 0]))] if ids else []
    for _ in range(r.randint(1, 3)):
        layers.append(r.choice([
            lambda: Residual(Attention(n, 2, r.random() < 0.5)), lambda: dense(r, n),
            lambda: Recurrent(r.choice([nn.LSTM, nn.GRU, nn.RNN]), n, r.randint(0, 1)),
            lambda: nn.TransformerEncoderLayer(n, 2, 2 * n, dropout=0.0, batch_first=True, norm_first=r.random() < 0.5),
        ])())  # fmt: skip
    layers.append(r.choice([Last, lambda: Mean(1)])())
    return layers, n, (lambda b: torch.randint(0, 7, (b, t))) if ids else lambda b: torch.randn(b, t, n)


def losses(r, n, dtype):
    """Layers of the head, hg's loss, torch's function, and targets of a batch."""
    out = r.choice([1, 2, 5])
    reduction = r.choice(["mean", "mean", "sum"])
    kind = r.choice(["mse", "l1", "smooth_l1", "huber", "cross_entropy", "cross_entropy", "cross_entropy_soft", "nll", "bce",
                     "bce_with_logits", "kl_div"])  # fmt: skip
    own, head = {"kind": kind.removesuffix("_soft"), "reduction": reduction}, [nn.Linear(n, out)]
    if kind in ("mse", "l1", "smooth_l1", "huber"):
        beta = r.choice([1.0, 0.3])
        if kind in ("smooth_l1", "huber"):
            own["beta"] = beta
        f = {"mse": F.mse_loss, "l1": F.l1_loss, "smooth_l1": lambda x, y, reduction: F.smooth_l1_loss(x, y, reduction=reduction, beta=beta),
             "huber": lambda x, y, reduction: F.huber_loss(x, y, reduction=reduction, delta=beta)}[kind]  # fmt: skip
        return head, own, lambda x, y: f(x, y, reduction=reduction), lambda b: torch.randn(b, out, dtype=dtype)
    if kind in ("cross_entropy", "cross_entropy_soft", "nll"):
        weights = [r.choice([0.5, 1.0, 2.0]) for _ in range(out)] if r.random() < 0.4 else None
        w = None if weights is None else torch.tensor(weights, dtype=dtype)
        smoothing = r.choice([0.0, 0.0, 0.1]) if kind != "nll" else 0.0
        ignore = r.choice([-100, 0]) if kind != "cross_entropy_soft" and out > 1 and reduction == "sum" else -100
        if weights:
            own["class_weights"] = weights
        if smoothing:
            own["label_smoothing"] = smoothing
        if ignore != -100:
            own["ignore_index"] = ignore
        if kind == "nll":
            head.append(nn.LogSoftmax(1))
            return head, own, lambda x, y: F.nll_loss(x, y, w, reduction=reduction, ignore_index=ignore), lambda b: torch.randint(0, out, (b,))
        if kind == "cross_entropy_soft":
            own["target_type"] = (str(dtype).removeprefix("torch."), ["b", out])
            return (head, own, lambda x, y: F.cross_entropy(x, y, w, reduction=reduction, label_smoothing=smoothing),
                    lambda b: torch.softmax(torch.randn(b, out, dtype=dtype), 1))  # fmt: skip
        return (head, own, lambda x, y: F.cross_entropy(x, y, w, reduction=reduction, ignore_index=ignore, label_smoothing=smoothing),
                lambda b: torch.randint(0, out, (b,)))  # fmt: skip
    if kind == "kl_div":
        head.append(nn.LogSoftmax(1))
        log = r.random() < 0.5
        if log:
            own["log_target"] = True
        return (head, own, lambda x, y: F.kl_div(x, y, reduction=reduction, log_target=log),
                lambda b: (torch.log_softmax if log else torch.softmax)(torch.randn(b, out, dtype=dtype), 1))  # fmt: skip
    if kind == "bce":
        head.append(nn.Sigmoid())
    f = F.binary_cross_entropy if kind == "bce" else F.binary_cross_entropy_with_logits
    return head, own, lambda x, y: f(x, y, reduction=reduction), lambda b: torch.rand(b, out, dtype=dtype)


def optimizers(r):
    """hg's optimizer, and a function that makes torch's from groups."""
    lr, decay, maximize = r.choice([0.1, 0.01, 1e-3]), r.choice([0, 0, 0.1]), r.random() < 0.1
    common = {"lr": lr, "weight_decay": decay, "maximize": maximize}
    kind = r.choice(["SGD", "Adam", "AdamW", "RMSprop"])
    if kind == "SGD":
        momentum = r.choice([0, 0.9])
        nesterov = momentum > 0 and r.random() < 0.4
        common |= {"momentum": momentum, "nesterov": nesterov, "dampening": 0 if nesterov or not momentum else r.choice([0, 0.5])}
    elif kind == "RMSprop":
        common |= {"momentum": r.choice([0, 0.9]), "alpha": r.choice([0.99, 0.5]), "centered": r.random() < 0.4, "eps": r.choice([1e-8, 1e-3])}
    else:
        common |= {"betas": r.choice([(0.9, 0.999), (0.5, 0.9)]), "eps": r.choice([1e-8, 1e-3]), "amsgrad": r.random() < 0.4}
    return lr, decay, getattr(hg, kind)(**common), lambda groups: getattr(torch.optim, kind)(groups, **common)


def schedules(r, updates):
    """hg's schedule options, and a function that makes torch's schedule of an optimizer."""
    s = torch.optim.lr_scheduler
    kind = r.choice(["constant", "constant", "step", "exponential", "linear", "cosine", "one_cycle"])
    gamma, low = r.choice([0.5, 0.9]), r.choice([0, 1e-4])
    return {
        "constant": (None, lambda o: s.ConstantLR(o, 1.0, 1)),
        "step": (hg.Schedule("step", period=2, gamma=gamma), lambda o: s.StepLR(o, 2, gamma)),
        "exponential": (hg.Schedule("exponential", gamma=gamma), lambda o: s.ExponentialLR(o, gamma)),
        "linear": (hg.Schedule("linear", total=3, start=0.25, end=0.75), lambda o: s.LinearLR(o, 0.25, 0.75, 3)),
        "cosine": (hg.Schedule("cosine", total=updates, min_lr=low), lambda o: s.CosineAnnealingLR(o, updates, low)),
        "one_cycle": (
            hg.Schedule("one_cycle", total=updates + 2),
            lambda o: s.OneCycleLR(o, [g["lr"] for g in o.param_groups], updates + 2, cycle_momentum=False),
        ),
    }[kind]


class Case:
    def __init__(self, seed):
        r = self.r = random.Random(seed)
        torch.manual_seed(seed)
        self.dtype = torch.float32 if r.random() < 0.125 else torch.float64
        layers, n, self.make = r.choice([flat, image, sequence])(r)
        head, self.loss, self.function, self.target = losses(r, n, self.dtype)
        self.net = nn.Sequential(*layers, *head).to(self.dtype)
        self.lr, self.decay, self.optimizer, self.optim = optimizers(r)
        self.accumulate = r.choice([1, 1, 1, 2, 3])
        self.updates = r.randint(1, 5)
        self.schedule, self.scheduler = schedules(r, 2 * self.updates)
        self.clip_norm, self.clip_value = r.choice([0, 0, 0.5]), r.choice([0, 0, 0.05])
        self.batch = r.choice([2, 3, 7])
        self.sizes = [self.batch] * (self.updates * self.accumulate)
        if r.random() < 0.3 and self.accumulate == 1:
            self.sizes[-1] += 1  # of another size
        names = [name for name, _ in self.net.named_parameters()]
        self.frozen = {r.choice(names)} if r.random() < 0.2 and len(names) > 2 else set()
        for name, parameter in self.net.named_parameters():
            if name in self.frozen:
                parameter.requires_grad_(False)
        self.rules = {}
        if r.random() < 0.3:
            name = r.choice(names)
            self.rules = {name: r.choice([{"lr": 0.02}, {"weight_decay": 0.2}, {"lr": 0.003, "weight_decay": 0.0}])}
            if self.schedule and self.schedule["kind"] in ("one_cycle", "cosine"):
                self.rules = {}
        self.penalty = r.choice([None, None, (0.01, 0), (0, 0.02), (0.01, 0.02)])
        self.dynamic = len({*self.sizes, self.batch}) > 1 or r.random() < 0.5
        self.threads = r.choice([1, 2])
        # fit() trains two epochs over arrays, whose last batch may be smaller.
        self.fits = self.accumulate == 1 and r.random() < 0.3
        if self.fits and self.dynamic and r.random() < 0.5:
            self.sizes[-1] = 1 if not any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in self.net.modules()) else 2
        elif self.fits:
            self.sizes[-1] = self.batch

    def data(self, b):
        x = self.make(b)
        return (x if x.dtype == torch.int64 else x.to(self.dtype)), self.target(b)

    def __str__(self):
        return (f"{self.net}\nloss {self.loss}, {self.optimizer}, schedule {self.schedule}, accumulate {self.accumulate}, "
                f"clip {self.clip_norm} {self.clip_value}, sizes {self.sizes}, fit {self.fits}, frozen {self.frozen}, rules {self.rules}, "
                f"penalty {self.penalty}, {self.dtype}")  # fmt: skip

    def theirs(self, batches, held_out, moved=0.0):
        """Losses, state and evaluation; `moved` changes the initial weights by this fraction."""
        net = copy.deepcopy(self.net).train()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter += moved * torch.randn_like(parameter) * (parameter.abs() + 0.01)
        groups, trained = [], []
        for name, parameter in net.named_parameters():
            if parameter.requires_grad:
                groups.append({"params": [parameter], **self.rules.get(name, {})})
                trained.append(parameter)
        optimizer = self.optim(groups)
        scheduler = self.scheduler(optimizer)
        seen = []

        def penalty():
            if not self.penalty:
                return 0.0
            return sum(self.penalty[0] * p.abs().sum() + self.penalty[1] * (p * p).sum() for p in trained)

        for i, (x, y) in enumerate(batches):
            loss, extra = self.function(net(x), y), penalty()
            # An update of several batches uses the sum of their sums, or the mean of their means.
            ((loss if self.loss["reduction"] == "sum" else loss / self.accumulate) + extra / self.accumulate).backward()
            seen.append(float(loss.detach() + extra))
            if (i + 1) % self.accumulate == 0:
                if self.clip_norm:
                    nn.utils.clip_grad_norm_(trained, self.clip_norm)
                if self.clip_value:
                    nn.utils.clip_grad_value_(trained, self.clip_value)
                optimizer.step()
                optimizer.zero_grad()
                scheduler.step()
        net.eval()
        with torch.no_grad():
            return seen, dict(net.state_dict()), float(self.function(net(held_out[0]), held_out[1]) + penalty())

    def ours(self, batches, held_out):
        net = copy.deepcopy(self.net)
        net.train(self.r.random() < 0.3)
        model = hg.convert(net, batches[0][0], dynamic={0: {0: "b"}} if self.dynamic else None)
        options = {"accumulate": self.accumulate, "threads": self.threads}
        if self.clip_norm:
            options["clip_norm"] = self.clip_norm
        if self.clip_value:
            options["clip_value"] = self.clip_value
        if self.penalty:
            options["penalties"] = [{"pattern": "*", "l1": self.penalty[0], "l2": self.penalty[1]}]
        options["rules"] = [{"pattern": name, **rule} for name, rule in self.rules.items()]
        loss = dict(self.loss)
        if "target_type" in loss and not self.dynamic:
            loss["target_type"] = (loss["target_type"][0], [self.batch, loss["target_type"][1][1]])
        trainer = hg.Trainer(model, loss=loss, optimizer=self.optimizer, schedule=self.schedule, **options)
        if self.fits:
            x, y = (torch.cat([each[k] for each in batches[: len(self.sizes)]]) for k in (0, 1))
            seen = []
            trainer.fit(x, y, epochs=2, batch_size=self.batch, shuffle=False, callbacks=lambda e: None if e.is_epoch else seen.append(e.loss))
        else:
            seen = [trainer.step(x, y) for x, y in batches]
        evaluated = trainer.evaluate(*held_out, batch_size=None)["loss"]
        return seen, trainer.state_dict(), evaluated

    def run(self):
        batches = [self.data(b) for b in self.sizes] * (2 if self.fits else 1)
        held_out = self.data(self.batch)
        want = self.theirs(batches, held_out)
        got = self.ours(batches, held_out)
        problems = self.differences(want, got)
        if problems:  # signs of rounding errors make PyTorch's own result unsteady
            tiny = 1e-13 if self.dtype == torch.float64 else 1e-6
            if any(self.differences(want, self.theirs(batches, held_out, tiny)) for _ in range(4)):
                return None
        return problems

    def differences(self, want, got):
        rate = 1e-9 if self.dtype == torch.float64 else 2e-3
        problems = []

        def near(name, a, b):
            a, b = torch.as_tensor(a, dtype=torch.float64), torch.as_tensor(b, dtype=torch.float64)
            if a.shape != b.shape or not torch.allclose(a, b, rtol=rate, atol=rate, equal_nan=True):
                problems.append(f"{name}: largest difference {float((a - b).abs().max()):.3g}")

        if len(want[0]) != len(got[0]):
            problems.append(f"{len(got[0])} batches, not {len(want[0])}")
        for i, (a, b) in enumerate(zip(want[0], got[0])):
            near(f"loss {i}", a, b)
        for name, value in want[1].items():
            if name in got[1]:
                near(name, value, got[1][name])
            elif not name.endswith("num_batches_tracked"):
                problems.append(f"{name} is missing")
        near("evaluation", want[2], got[2])
        return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    equal = refused = unsteady = wrong = 0
    for seed in range(args.seed * 1000000, args.seed * 1000000 + args.count):
        case = None
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                case = Case(seed)
        except Exception as error:  # the generator's own
            print(f"{seed}: no case: {error}")
            continue
        try:
            problems = case.run()
        except (hg.HologramError, ValueError) as error:
            refused += 1
            print(f"{seed}: refused: {error}")
            if args.verbose:
                print(case)
                traceback.print_exc()
            continue
        if problems is None:
            unsteady += 1
        elif problems:
            wrong += 1
            print(f"{seed}: WRONG\n{case}\n  " + "\n  ".join(problems), flush=True)
        else:
            equal += 1
    print(f"{args.count} trainings: {equal} equal, {unsteady} unsteady, {refused} refused, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
