# SPDX-License-Identifier: Apache-2.0
"""Writes the results of PyTorch's optimizers and schedules for trainer_answers_test.cpp, next to itself:

  optimizers.inc   parameters after some of 100 steps, one row per optimizer
  schedules.inc    the learning rates of 40 ticks, one row per schedule

  python3 make_answers.py

Made with PyTorch 2.13. The test builds the same network, data and options; names connect the two.
"""
import math
from pathlib import Path

import torch
from torch import optim

HERE = Path(__file__).resolve().parent
STEPS = (1, 2, 3, 10, 50, 100)
OPTIMIZERS = {
    "sgd": lambda p: optim.SGD(p, lr=0.1),
    "sgd momentum": lambda p: optim.SGD(p, lr=0.05, momentum=0.9),
    "sgd dampening": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.5, weight_decay=0.01),
    "sgd nesterov": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    "sgd maximize": lambda p: optim.SGD(p, lr=0.01, momentum=0.5, maximize=True, weight_decay=0.1),
    "adam": lambda p: optim.Adam(p, lr=0.01),
    "adam options": lambda p: optim.Adam(p, lr=0.02, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.05),
    "adam amsgrad": lambda p: optim.Adam(p, lr=0.02, amsgrad=True),
    "adamw": lambda p: optim.AdamW(p, lr=0.01),
    "adamw amsgrad": lambda p: optim.AdamW(p, lr=0.02, weight_decay=0.1, amsgrad=True),
    "adamw maximize": lambda p: optim.AdamW(p, lr=0.01, weight_decay=0.1, maximize=True),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.01),
    "rmsprop momentum": lambda p: optim.RMSprop(p, lr=0.002, alpha=0.9, momentum=0.8, weight_decay=0.01),
    "rmsprop centered": lambda p: optim.RMSprop(p, lr=0.01, alpha=0.9, eps=1e-2, centered=True),
    "groups": lambda p: optim.SGD([{"params": p[:1], "lr": 0.2, "weight_decay": 0.0}, {"params": p[1:]}],
                                  lr=0.05, momentum=0.9, weight_decay=0.1),
    "clip norm": lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
    "clip value": lambda p: optim.Adam(p, lr=0.01),
    "one_cycle": lambda p: optim.AdamW(p, lr=0.05),
}
TICKS = 40
SCHEDULES = {
    "step": lambda o: optim.lr_scheduler.StepLR(o, step_size=7, gamma=0.3),
    "exponential": lambda o: optim.lr_scheduler.ExponentialLR(o, gamma=0.9),
    "linear": lambda o: optim.lr_scheduler.LinearLR(o, start_factor=0.25, end_factor=0.75, total_iters=20),
    "cosine": lambda o: optim.lr_scheduler.CosineAnnealingLR(o, T_max=TICKS, eta_min=0.01),
    "one_cycle": lambda o: optim.lr_scheduler.OneCycleLR(o, max_lr=0.5, total_steps=TICKS, cycle_momentum=False),
    "one_cycle options": lambda o: optim.lr_scheduler.OneCycleLR(
        o, max_lr=0.5, total_steps=TICKS, cycle_momentum=False, pct_start=0.45, div_factor=10, final_div_factor=100),
    "plateau": lambda o: optim.lr_scheduler.ReduceLROnPlateau(o, factor=0.4, patience=2, cooldown=1, min_lr=0.02),
    "plateau maximum": lambda o: optim.lr_scheduler.ReduceLROnPlateau(
        o, mode="max", factor=0.4, patience=2, cooldown=1, min_lr=0.02),
}


def plateau_loss(epoch):
    """Falls, stays, falls a little, and stays."""
    return 1 / (1 + min(epoch, 6)) + (0.05 if epoch > 20 else 0.1)


def train(name, make):
    x = torch.tensor([[math.sin(1.7 * i + 0.9 * j) for j in range(3)] for i in range(8)])
    target = torch.tensor([[math.cos(0.6 * i + k) for k in range(2)] for i in range(8)])
    weight = torch.tensor([[0.1 * (k + 1) - 0.2 * j for j in range(3)] for k in range(2)], requires_grad=True)
    bias = torch.tensor([0.05 * (k + 1) for k in range(2)], requires_grad=True)
    optimizer = make([weight, bias])
    for group in optimizer.param_groups:
        group["foreach"] = False
    schedule = None
    if name == "one_cycle":
        schedule = optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.05, total_steps=100, cycle_momentum=False)
    rows = []
    for step in range(1, 101):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(torch.tanh(x @ weight.T + bias), target).backward()
        if name == "clip norm":
            torch.nn.utils.clip_grad_norm_([weight, bias], 0.1)
        if name == "clip value":
            torch.nn.utils.clip_grad_value_([weight, bias], 0.02)
        optimizer.step()
        if schedule:
            schedule.step()
        if step in STEPS:
            rows += weight.detach().flatten().tolist() + bias.detach().tolist()
    return rows


def rates(name, make):
    optimizer = optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
    schedule = make(optimizer)
    out = []
    for tick in range(TICKS):
        out.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        number = {"plateau": plateau_loss(tick), "plateau maximum": 1 - plateau_loss(tick)}
        schedule.step(*([number[name]] if name in number else []))
    return out


def write(path, rows, digits):
    lines = [f"// Made by make_answers.py with PyTorch {torch.__version__.split('+')[0]}."]
    for name, numbers in rows.items():
        lines.append(f'{{"{name}", {{')
        texts = [f"{x:.{digits}g}" for x in numbers]
        lines += ["  " + ", ".join(texts[i:i + 8]) + "," for i in range(0, len(texts), 8)]
        lines.append("}},")
    (HERE / path).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    write("optimizers.inc", {name: train(name, make) for name, make in OPTIMIZERS.items()}, 9)
    write("schedules.inc", {name: rates(name, make) for name, make in SCHEDULES.items()}, 17)
