# SPDX-License-Identifier: Apache-2.0
"""Every layer of hg.nn with random arguments and inputs, compared with torch: results, gradients, buffers, random numbers.

python layers.py SEED COUNT [NAME]: COUNT cases of each layer.
"""

import copy
import random
import sys

import torch

import hologram as hg
from layer_cases import LAYERS

# Cases that only torch rejects: some memory layouts, and a target with a gradient.
OF_TORCH = ("view size is not compatible", "must be contiguous", "not differentiable with respect to argument 'target'")


def _made(what):
    if isinstance(what, tuple):
        return tuple(_made(each) for each in what)
    return what() if callable(what) else torch.randn(what)


def _leaves(what):
    if isinstance(what, (tuple, list)):
        return [leaf for each in what for leaf in _leaves(each)]
    return [] if what is None else [what]


def _strided(r, x):
    """The same elements in another memory layout."""
    way = r.choice(["as it is", "as it is", "transposed", "apart"])
    if way == "transposed" and x.dim() > 1:
        return x.transpose(0, -1).contiguous().transpose(0, -1)
    if way == "apart" and x.dim() > 0:
        return torch.stack([x, x], -1)[..., 0]
    return x


def _run(layer, inputs, call, dtype, training, seed):
    layer = layer.train(training)
    leaves = []

    def given(x):
        if isinstance(x, tuple):
            return tuple(given(each) for each in x)
        if x is None or not x.is_floating_point():
            return x
        leaves.append(x.detach().to(dtype).requires_grad_() if x.dtype != dtype else x.detach().requires_grad_())
        return leaves[-1] * 1  # a result, which in-place layers may write to

    torch.manual_seed(seed)
    results = _leaves(layer(*[given(x) for x in inputs], **call))
    total = sum((y * torch.linspace(0.5, 1.5, y.numel(), dtype=y.dtype).view(y.shape)).sum() for y in results if y.is_floating_point())
    if isinstance(total, torch.Tensor) and total.requires_grad:
        total.backward()
    grads = [torch.zeros_like(x) if x.grad is None else x.grad for x in [*leaves, *layer.parameters()]]
    return results, grads, [*layer.buffers()], torch.rand(1)


def _shapes(inputs):
    return [_shapes(x) if isinstance(x, tuple) else None if x is None else tuple(x.shape) for x in inputs]


def case(name, seed):
    """A random layer, ours and torch's; its inputs; its further arguments; the random generator."""
    r = random.Random(f"{name} {seed}")
    torch.manual_seed(seed)
    args, options, inputs, *call = LAYERS[name](r)
    made = []
    for module in (hg.nn, torch.nn):
        torch.manual_seed(seed)
        made.append(getattr(module, name)(*args, **copy.deepcopy(options)))
    return made, [_made(each) for each in inputs], call[0] if call else {}, r


def difference(name, seed):
    """How a random case of a layer differs from torch, or None."""
    made, inputs, call, r = case(name, seed)
    dtype, training = r.choice([torch.float32, torch.float32, torch.float64]), r.random() < 0.6
    if name.startswith("Transformer"):
        dtype = torch.float64  # two norms of two elements in a row
    made = [layer.to(dtype) for layer in made]
    if repr(made[0]) != repr(made[1]) or list(made[0].state_dict()) != list(made[1].state_dict()):
        return f"{made[0]} is not {made[1]}"
    for a, b in zip(made[0].state_dict().values(), made[1].state_dict().values(), strict=True):
        if not torch.nn.parameter.is_lazy(a) and not torch.equal(a, b):
            return "another initialisation"
    inputs = [_strided(r, x) if isinstance(x, torch.Tensor) else x for x in inputs]
    call = {k: v.to(dtype) if isinstance(v, torch.Tensor) and v.is_floating_point() else v for k, v in call.items()}
    found = []
    for layer in (made[0], made[1]):
        try:
            found.append([_run(layer, inputs, call, dtype, training, seed) for _ in range(2)])
        except (RuntimeError, ValueError, IndexError, hg.HologramError) as error:
            found.append(error)
    what = f"{made[1]} of {_shapes(inputs)}, {dtype}, training {training}"
    if isinstance(found[0], Exception) or isinstance(found[1], Exception):
        if isinstance(found[1], Exception) and (isinstance(found[0], Exception) or any(w in str(found[1]) for w in OF_TORCH)):
            return None
        if "no window lies" in str(found[0]) and getattr(made[1], "groups", 1) > 1:
            return None  # torch rejects an empty result too, except of ConvTranspose with groups
        return f"{what}: {[repr(each) if isinstance(each, Exception) else 'no error' for each in found]}"
    if repr(made[0]) != repr(made[1]) or type(made[0]) is not getattr(hg.nn, type(made[1]).__name__):
        return f"{what}: became {made[0]}"
    # A factor in torch's gradients of these is a float32.
    rate = 1e-9 if dtype == torch.float64 and name not in ("CELU", "Hardsigmoid") else 2e-4
    try:
        torch.testing.assert_close(found[0], found[1], rtol=rate, atol=rate, equal_nan=True)
    except AssertionError as error:
        return f"{what}: {error}"
    return None


# All layers accept 16-bit floats, even if torch has no kernel for them on the CPU.
LACKING = ("not implemented for 'Half'", "not implemented for 'BFloat16'")
OTHER_DTYPES = [torch.int64, torch.int32, torch.uint8, torch.bool, torch.complex64, torch.float16, torch.bfloat16]


def taken(name, seed, dtype):
    """What a layer in float32 makes of inputs of another dtype that torch refuses, or makes something else of; or None."""
    (ours, theirs), inputs, call, _ = case(name, seed)

    def given(x):
        if isinstance(x, tuple):
            return tuple(given(each) for each in x)
        return (x * 3).to(dtype) if x is not None and x.is_floating_point() else x

    found = []
    for layer in (ours, theirs):
        torch.manual_seed(seed)
        try:
            with torch.no_grad():
                found.append(_leaves(layer.train(seed % 2 == 0)(*[given(x) for x in inputs], **call)))
        except (RuntimeError, ValueError, TypeError, IndexError, AssertionError, NotImplementedError, hg.HologramError) as error:
            found.append(error)
    if isinstance(found[0], Exception):
        return None
    what = f"{theirs} of {_shapes(inputs)} {dtype}"
    if isinstance(found[1], Exception):
        return None if any(w in str(found[1]) for w in (*OF_TORCH, *LACKING)) else f"{what}: torch says {str(found[1])[:100]!r}"
    for a, b in zip(*found, strict=True):
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"{what}: {a.dtype} {tuple(a.shape)}, torch gives {b.dtype} {tuple(b.shape)}"
        rate = {torch.float16: 1e-2, torch.bfloat16: 8e-2}.get(a.dtype, 1e-4)
        scale = max(1.0, float(b.to(torch.complex128).abs().nan_to_num(0, 0, 0).max())) if b.numel() else 1.0
        if not torch.allclose(a.to(torch.complex128), b.to(torch.complex128), rtol=rate, atol=rate * scale, equal_nan=True):
            return f"{what}: another result"
    return None


if __name__ == "__main__":
    torch.set_num_threads(1)
    bad = 0
    for layer in [sys.argv[3]] if len(sys.argv) > 3 else LAYERS:
        for k in range(int(sys.argv[2])):
            seed = int(sys.argv[1]) + k
            for problem in (difference(layer, seed), taken(layer, seed, OTHER_DTYPES[k % len(OTHER_DTYPES)])):
                if problem:
                    print(layer, seed, problem, flush=True)
                    bad += 1
    print(bad, "differences")
    sys.exit(bad > 0)
