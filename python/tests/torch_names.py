# SPDX-License-Identifier: Apache-2.0
"""Random calls of hg.ops, compared with torch's functions of the same names: ``torch_names.py [--count N] [--seed S]``.

The calls are those of name_cases.py, transform_cases.py and linalg_cases.py.
"""

import argparse
import collections

import numpy as np
import torch
import torch.nn.functional as F

import hologram as hg
import linalg_cases
import name_cases
import transform_cases

# Methods of torch.Tensor that hg.ops has as functions.
METHODS = {"view": "view", "view_as": "view_as", "reshape_as": "reshape_as", "expand": "expand", "expand_as": "expand_as", "repeat": "repeat"}
FAMILIES = {"name": name_cases.FAMILIES, "transform": transform_cases.FAMILIES, "linalg": linalg_cases.FAMILIES}  # by file


def torch_of(name):
    """torch's function of that name; None if torch has none."""
    if name in METHODS:
        return getattr(torch.Tensor, name)
    found = getattr(F, name, None)
    if callable(found) and name in F.__dict__ and not isinstance(found, type):
        return found
    for module, names in ((torch.fft, transform_cases.FFT), (torch.linalg, transform_cases.LINALG + linalg_cases.LINALG)):
        if name in names:
            return getattr(module, name)
    return getattr(torch, name, None) or getattr(torch.special, name, None)


def outcome(call):
    """Its result; None if it refuses."""
    try:
        return call()
    except (RuntimeError, TypeError, ValueError, OverflowError, ZeroDivisionError):
        return None


def case(rng, families):
    d = name_cases.Draw(rng)
    return families[d.int(0, len(families) - 1)](d)


def numpys(value):
    if isinstance(value, torch.Tensor):
        return value.numpy()
    if isinstance(value, (tuple, list)) and any(isinstance(each, torch.Tensor) for each in value):
        return type(value)(map(numpys, value)) if type(value) in (tuple, list) else tuple(map(numpys, value))
    if isinstance(value, torch.Size):
        return tuple(value)
    return value


def describe(value):
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return f"{value.dtype}{list(value.shape)}"
    return f"[{', '.join(map(describe, value))}]" if isinstance(value, (tuple, list)) else repr(value)


def same(want, got, where):
    if isinstance(want, (tuple, list)):
        assert isinstance(got, (tuple, list)) and len(got) == len(want), f"{where}: {describe(got)} for {describe(want)}"
        for a, b in zip(want, got):
            same(a, b, where)
        return
    if not isinstance(want, torch.Tensor):
        assert want == got, f"{where}: {got} for {want}"
        return
    got = np.asarray(got)
    want = want.resolve_conj().numpy()
    assert got.shape == want.shape and got.dtype == want.dtype, f"{where}: {describe(got)} for {describe(want)}"
    rate = 1e-5 if want.dtype in (np.float32, np.complex64) else 1e-8
    np.testing.assert_allclose(got, want, rtol=rate, atol=rate, err_msg=where)


def check(seed, families):
    """One case; returns "equal", "refused" (only torch answers) or "both refuse"."""
    name, args, named = case(np.random.default_rng(seed), families)
    where = f"torch_names.py --seed {seed} --count 1: {name}({', '.join([describe(each) for each in args] + [f'{k}={describe(v)}' for k, v in named.items()])})"
    copies = [each.clone() if isinstance(each, torch.Tensor) else each for each in args]
    try:
        want = torch_of(name)(*copies, **named)
    except Exception as error:
        want = error
    try:
        got = getattr(hg.ops, name)(*map(numpys, args), **{key: numpys(value) for key, value in named.items()})
    except (ValueError, TypeError, IndexError, hg.HologramError) as error:
        return name, "both refuse" if isinstance(want, Exception) else "refused", where, f"{type(error).__name__}: {error}"
    if isinstance(want, Exception):
        return name, "wider", where, str(want)[:200]
    same(want, got, where)
    return name, "equal", where, ""


# torch's gradient of a triangular factor fills the other triangle too; those of as_strided_scatter, of ldexp by negative integers
# and of empty blocks differ from finite differences; pdist of no rows crashes.
_OTHER_GRADIENTS = {"cholesky_solve", "cholesky_inverse", "as_strided_scatter", "ldexp", "pdist"}


def check_gradients(seed, families):
    """One case on torch tensors whose gradients are compared; "no gradient" if torch has none for it."""
    name, args, named = case(np.random.default_rng(seed), families)
    if name in _OTHER_GRADIENTS or name == "block_diag" and any(0 in each.shape for each in args):
        return name, "no gradient", "", ""
    where = f"check_gradients({seed}): {name}({', '.join(map(describe, args))}, {named})"

    def tracked(value):
        if isinstance(value, torch.Tensor):
            made = value.detach().clone()
            return made.requires_grad_() if made.is_floating_point() else made
        return type(value)(map(tracked, value)) if type(value) in (list, tuple) else value

    def leaves(value):
        if isinstance(value, torch.Tensor):
            return [value]
        return [leaf for each in value for leaf in leaves(each)] if isinstance(value, (list, tuple)) else []

    sides = []
    for function in (torch_of(name), getattr(hg.ops, name)):
        given = [tracked(each) for each in args]
        torch.manual_seed(0)
        try:
            made = leaves(function(*given, **named))
            made = [each for each in made if each.is_floating_point() and each.requires_grad]
            inputs = [each for each in leaves(given) if each.requires_grad]
            if not made or not inputs or name.endswith("_") or any(not each.isfinite().all() for each in made):
                return name, "no gradient", where, ""
            sides.append(torch.autograd.grad([(each * torch.linspace(0.5, 2, each.numel()).reshape(each.shape)).sum() for each in made], inputs, allow_unused=True))
        except Exception as error:
            if not sides:
                return name, "no gradient", where, str(error)
            return name, "refused", where, f"{type(error).__name__}: {error}"
    for want, got, leaf in zip(*sides, leaves(args)):
        want, got = (torch.zeros(()) if each is None else each for each in (want, got))
        rate = 1e-4 if torch.float32 in (want.dtype, named.get("dtype")) else 1e-7
        np.testing.assert_allclose(got.numpy(force=True) + np.zeros(want.shape), want.numpy(force=True) + np.zeros(got.shape), rtol=rate, atol=rate, err_msg=where)
    return name, "equal", where, ""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", choices=FAMILIES, default="name", help="calls of CASES_cases.py")
    given = parser.parse_args()
    families = FAMILIES[given.cases]
    counts, failed, shown = collections.Counter(), 0, collections.Counter()
    names = collections.Counter()
    for seed in range(given.seed, given.seed + given.count):
        try:
            name, outcome, where, why = check(seed, families)
            names[name] += 1
            counts[outcome] += 1
            if outcome in ("refused", "wider") and shown[name] < 1:
                shown[name] += 1
                print(outcome, where, why)
        except AssertionError as error:
            failed += 1
            text = str(error).split(": ")
            if shown["fail " + text[1][:12]] < 1:
                shown["fail " + text[1][:12]] += 1
                print("DIFFERS", str(error)[:400])
    print(dict(counts), "differ:", failed, "functions:", len(names))
    return failed > 0


if __name__ == "__main__":
    raise SystemExit(main())
