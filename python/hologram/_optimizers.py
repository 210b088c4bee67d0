# SPDX-License-Identifier: Apache-2.0
"""torch.optim's optimizers and schedules, as a Trainer accepts them."""


def _optimizer(kind, **options):
    return {"kind": kind, **{name: value for name, value in options.items() if value is not None}}


def SGD(lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, maximize=False):
    """SGD with the steps of torch.optim.SGD."""
    return _optimizer("sgd", lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay,
                      nesterov=nesterov, maximize=maximize)  # fmt: skip


def Adam(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, maximize=False):
    """Adam with the steps of torch.optim.Adam."""
    return _optimizer("adam", lr=lr, beta1=betas[0], beta2=betas[1], eps=eps, weight_decay=weight_decay,
                      amsgrad=amsgrad, maximize=maximize)  # fmt: skip


def AdamW(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, amsgrad=False, maximize=False):
    """AdamW with the steps of torch.optim.AdamW."""
    return _optimizer("adamw", lr=lr, beta1=betas[0], beta2=betas[1], eps=eps, weight_decay=weight_decay,
                      amsgrad=amsgrad, maximize=maximize)  # fmt: skip


def RMSprop(lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False, maximize=False):
    """RMSprop with the steps of torch.optim.RMSprop."""
    return _optimizer("rmsprop", lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum,
                      centered=centered, maximize=maximize)  # fmt: skip


def Schedule(kind, mode="min", **options):
    """A learning rate schedule: "constant", "step", "exponential", "linear", "cosine", "one_cycle" or "plateau".

    Options: ``by_epoch warmup total period gamma min_lr start end rise div_factor final_div_factor patience
    cooldown threshold``, as in hg/train.h. "plateau" lowers the rate if the loss stays; with ``mode="max"``, if the first
    metric stays, on validation data.
    """
    if mode not in ("min", "max") or (mode == "max" and kind != "plateau"):
        raise ValueError(f"mode is {mode!r}, expected 'min', or 'max' for a plateau; the schedule is {kind!r}")
    return {"kind": kind, **({"maximize": True} if mode == "max" else {}), **options}
