# SPDX-License-Identifier: Apache-2.0
"""PyTorch's module features applied to every layer of hg.nn and compared with torch: hooks, copies, files, parametrizations,
checkpoints, casts, flags, further backward passes.

python modules.py SEED COUNT [WAY [LAYER]]: COUNT random cases of each feature with each layer.
"""

import copy
import io
import pickle
import sys

import torch
from torch.nn.utils import parametrizations, parametrize, prune
from torch.optim.swa_utils import AveragedModel
from torch.utils.checkpoint import checkpoint

import hologram as hg
from layers import LACKING, LAYERS, OF_TORCH, _leaves, case


class Inputs:
    """Inputs for repeated calls of a module, as new leaves, and the results."""

    def __init__(self, inputs, call, dtype, seed):
        self.inputs, self.call, self.dtype, self.seed = inputs, call, dtype, seed
        self.leaves = []

    def _given(self, x):
        if isinstance(x, tuple):
            return tuple(self._given(each) for each in x)
        if x is None or not x.is_floating_point():
            return x
        self.leaves.append(x.detach().to(self.dtype).clone().requires_grad_())
        return self.leaves[-1] * 1  # a result, which in-place layers may write to

    def made(self):
        """New leaves, and the arguments that are made from them."""
        self.leaves = []
        return [self._given(x) for x in self.inputs]

    def results(self, module, **more):
        torch.manual_seed(self.seed)
        return _leaves(module(*self.made(), **self.call, **more))

    def total(self, results):
        parts = [
            (y.abs() * torch.linspace(0.5, 1.5, y.numel(), dtype=torch.float64).view(y.shape)).sum()
            for y in results if y.is_floating_point() and y.requires_grad
        ]  # fmt: skip
        return sum(parts) if parts else None

    def __call__(self, module, **more):
        """Results, gradients of inputs and parameters, buffers."""
        results = self.results(module, **more)
        total = self.total(results)
        if total is not None:
            total.backward()
        return results, self.gradients(module), list(module.buffers())

    def gradients(self, module):
        return [torch.zeros_like(x) if x.grad is None else x.grad.clone() for x in [*self.leaves, *module.parameters()]]


# -- Ways: each returns what is compared, for a module and its inputs -------------------------------


def plain(module, run):
    return run(module)


def forward_hooks(module, run):
    seen = []
    module.register_forward_pre_hook(lambda m, args: seen.append(len(args)))
    module.register_forward_pre_hook(lambda m, args, kwargs: (args, kwargs), with_kwargs=True)
    module.register_forward_hook(lambda m, args, kwargs, y: seen.append(sorted(kwargs)), with_kwargs=True)
    module.register_forward_hook(lambda m, args, y: y * 2 if isinstance(y, torch.Tensor) and y.is_floating_point() else None)
    module.register_forward_hook(lambda m, args, y: seen.append(type(y).__name__), always_call=True)
    return [run(module), run(module), repr(seen)]


def backward_hooks(module, run):
    seen = []
    module.register_full_backward_pre_hook(lambda m, dy: seen.append([None if d is None else d.clone() for d in dy]))
    module.register_full_backward_hook(lambda m, dx, dy: seen.append([None if d is None else d.clone() for d in (*dx, *dy)]))
    module.register_full_backward_hook(lambda m, dx, dy: tuple(None if d is None else d * 3 for d in dx))
    return [run(module), run(module), seen]


def global_hooks(module, run):
    seen = []
    handles = [
        torch.nn.modules.module.register_module_forward_hook(lambda m, args, y: seen.append(type(m).__name__)),
        torch.nn.modules.module.register_module_full_backward_hook(lambda m, dx, dy: seen.append(len(dx) + len(dy))),
    ]
    try:
        return [run(module), repr(seen)]
    finally:
        for each in handles:
            each.remove()


def tensor_hooks(module, run):
    seen = []
    list_of = list(module.parameters())
    for p in list_of:
        if not torch.nn.parameter.is_lazy(p):
            p.register_hook(lambda g: g * 2)
            p.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
    found = run(module)
    seen.sort(key=lambda g: (tuple(g.shape), float(g.nan_to_num().sum())))
    return [found, [tuple(g.shape) for g in seen]]


def deep_copy(module, run):
    first = run(module)
    other = copy.deepcopy(module)
    found = run(other)
    with torch.no_grad():
        for p in other.parameters():
            p.fill_(9)
    return [first, found, run(module), type(other).__name__, str(other)]


def shallow_copy(module, run):
    other = copy.copy(module)
    return [run(other), run(module)]


def pickled(module, run):
    before = pickle.loads(pickle.dumps(module))
    first = run(module)
    after = pickle.loads(pickle.dumps(module))
    return [first, run(before), run(after), type(after).__name__]


def saved(module, run):
    first = run(module)
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    other = torch.load(file, weights_only=False)
    state = io.BytesIO()
    torch.save(module.state_dict(), state)
    state.seek(0)
    found = run(other)
    return [first, found, torch.load(state, weights_only=True)]


def state_of(module, run):
    run(module)
    state = {name: value * 2 if value.is_floating_point() else value for name, value in module.state_dict().items()}
    results = []
    for options in ({}, {"strict": False}, {"assign": True}):
        results += [str(module.load_state_dict(copy.deepcopy(state), **options)), run(module)]
    state["further"] = torch.zeros(1)
    results.append(str(module.load_state_dict(state, strict=False)))
    try:
        module.load_state_dict(state)
    except RuntimeError as error:
        results.append(str(error))
    state = dict(list(state.items())[1:-1])
    results.append(str(module.load_state_dict(state, strict=False)))
    return [*results, run(module)]


def weight_norm(module, run):
    run(module)
    names = [n for n, p in module.named_parameters(recurse=False) if p.dim() > 1]
    for name in names:
        parametrizations.weight_norm(module, name)
    found = [run(module), str(module), sorted(module.state_dict())]
    for name in names:
        parametrize.remove_parametrizations(module, name)
    return [found, run(module), type(module).__name__]


def old_weight_norm(module, run):
    run(module)
    names = [n for n, p in module.named_parameters(recurse=False) if p.dim() > 1]
    for name in names:
        torch.nn.utils.weight_norm(module, name)
    return [run(module), run(copy.deepcopy(module)) if not names else 0, sorted(module.state_dict())]


def spectral_norm(module, run):
    run(module)
    names = [n for n, p in module.named_parameters(recurse=False) if p.dim() > 1]
    for name in names:
        torch.manual_seed(3)
        parametrizations.spectral_norm(module, name)
    return [run(module), run(module.eval())]


def own_parametrization(module, run):
    class Twice(torch.nn.Module):
        def forward(self, w):
            return w * 2 + 0.1

    run(module)
    for name, _ in list(module.named_parameters(recurse=False)):
        parametrize.register_parametrization(module, name, Twice())
    with parametrize.cached():
        found = run(module)
    return [found, run(module), run(copy.deepcopy(module))]


def pruned(module, run):
    run(module)
    for name, p in list(module.named_parameters(recurse=False)):
        if p.numel() > 1:
            prune.l1_unstructured(module, name, amount=0.5)
    return [run(module), sorted(module.state_dict())]


def checkpointed(module, run):
    run(module)
    results = []
    for reentrant in (True, False):
        module.zero_grad()
        torch.manual_seed(run.seed)
        given = run.made()
        y = _leaves(checkpoint(lambda *args: module(*args, **run.call), *given, use_reentrant=reentrant))
        total = run.total(y)
        if total is not None:
            total.backward()
        results.append([y, run.gradients(module), list(module.buffers())])
    return results


def functional(module, run):
    run(module)
    state = {n: (p.detach() * 1.5).requires_grad_() for n, p in module.named_parameters()}
    buffers = {n: b.clone() for n, b in module.named_buffers()}
    torch.manual_seed(run.seed)
    y = _leaves(torch.func.functional_call(module, {**state, **buffers}, tuple(run.made()), run.call))
    total = run.total(y)
    gradients = [] if total is None else torch.autograd.grad(total, [*run.leaves, *state.values()], allow_unused=True)
    return [y, [torch.zeros(()) if g is None else g for g in gradients], list(buffers.values()), list(module.buffers())]


def channels_last(module, run):
    module = module.to(memory_format=torch.channels_last) if all(p.dim() in (0, 1, 2, 4) for p in module.parameters()) else module
    plain = run.inputs
    run.inputs = [x.contiguous(memory_format=torch.channels_last) if isinstance(x, torch.Tensor) and x.dim() == 4 else x for x in plain]
    return run(module)


def requires_some(module, run):
    run(module)
    for k, p in enumerate(module.parameters()):
        p.requires_grad_(k % 2 == 1)
        p.grad = None
    results = run.results(module)
    total = run.total(results)
    if total is not None:
        total.backward()
    return [results, [p.grad is None for p in module.parameters()], run.gradients(module), [y.requires_grad for y in results]]


def no_leaf_gradient(module, run):
    """Inputs without gradients."""
    given = [x.detach() if isinstance(x, torch.Tensor) else x for x in run.made()]
    given = [tuple(e.detach() for e in x) if isinstance(x, tuple) else x for x in given]
    torch.manual_seed(run.seed)
    results = _leaves(module(*given, **run.call))
    total = run.total(results)
    if total is not None and total.requires_grad:
        total.backward()
    run.leaves = []
    return [results, [y.requires_grad for y in results], run.gradients(module)]


def no_grad(module, run):
    with torch.no_grad():
        first = run.results(module)
    with torch.inference_mode():
        second = run.results(module)
    return [first, [y.requires_grad for y in first], [y.is_inference() for y in second], [y.clone() for y in second], run(module)]


def applied(module, run):
    run(module)

    def change(m):
        for p in m.parameters(recurse=False):
            with torch.no_grad():
                p.mul_(0.5)

    module.apply(change)
    return [run(module), [type(m).__name__ for m in module.modules()], [n for n, _ in module.named_modules()]]


def modes(module, run):
    outer = torch.nn.Sequential(torch.nn.ModuleDict({"m": module}))
    results = []
    for training in (False, True, False):
        outer.train(training)
        results += [[m.training for m in module.modules()], run(module)]
    return results


def accumulated(module, run):
    first = run(module)
    return [first, run(module), run(module)]


def retained(module, run):
    results = run.results(module)
    total = run.total(results)
    if total is None:
        return [results]
    total.backward(retain_graph=True)
    first = run.gradients(module)
    total.backward()
    return [results, first, run.gradients(module)]


def double_backward(module, run):
    results = run.results(module)
    total = run.total(results)
    if total is None:
        return [results]
    wanted = [x for x in [*run.leaves, *module.parameters()] if x.requires_grad]
    first = torch.autograd.grad(total, wanted, create_graph=True, allow_unused=True)
    penalty = sum(g.square().sum() for g in first if g is not None)
    if not (isinstance(penalty, torch.Tensor) and penalty.requires_grad):
        return [results, [torch.zeros_like(x) if g is None else g for g, x in zip(first, wanted)]]
    penalty.backward()
    return [results, [torch.zeros_like(x) if g is None else g.detach() for g, x in zip(first, wanted)], run.gradients(module)]


def by_autograd_grad(module, run):
    results = run.results(module)
    total = run.total(results)
    if total is None:
        return [results]
    out = [results]
    for x in [*run.leaves, *module.parameters()]:
        (g,) = torch.autograd.grad(total, x, retain_graph=True, allow_unused=True)
        out.append(torch.zeros_like(x) if g is None else g)
    return out


def saved_elsewhere(module, run):
    with torch.autograd.graph.save_on_cpu():
        first = run(module)
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: packed.append(x.detach().numpy().copy()) or len(packed) - 1,
                                                  lambda i: torch.from_numpy(packed[i])):  # fmt: skip
        second = run(module)
    return [first, second]


def watched(module, run):
    with torch.autograd.detect_anomaly(check_nan=False):
        return run(module)


def shared(module, run):
    run(module)
    module.share_memory()
    return [run(module), [p.is_shared() for p in module.parameters()]]


def on_meta(module, run):
    """Layers created without memory, which get it later."""
    run(module)
    state = copy.deepcopy(module.state_dict())
    module = copy.deepcopy(module).to("meta")
    devices = [p.device.type for p in module.parameters()]
    module = module.to_empty(device="cpu")
    module.load_state_dict(state)
    return [devices, run(module)]


def assigned_from_meta(module, run):
    run(module)
    state = copy.deepcopy(module.state_dict())
    module = copy.deepcopy(module).to("meta")
    module.load_state_dict(state, assign=True)
    return run(module)


def reset(module, run):
    run(module)
    torch.manual_seed(5)
    for m in module.modules():
        if hasattr(m, "reset_parameters"):
            m.reset_parameters()
    return run(module)


def _cast(dtype):
    def way(module, run):
        run(module)
        run.dtype = dtype
        module = module.to(dtype)
        return [run(module), [p.dtype for p in module.parameters()]]

    return way


def by_torchs_own(module, run):
    run(module)
    return [run(hg.nn.as_torch(module)), run(module)]


def autocast(module, run):
    with torch.autocast("cpu", torch.bfloat16):
        results = run.results(module)
    total = run.total(results)
    if total is not None:
        total.backward()
    return [results, run.gradients(module)]


def averaged(module, run):
    run(module)
    other = AveragedModel(module)
    with torch.no_grad():
        for p in module.parameters():
            p.mul_(3)
    other.update_parameters(module)
    return run(other)


def swapped(module, run):
    run(module)
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        module.to(torch.float64)
        run.dtype = torch.float64
        return run(module)
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


def in_parallel(module, run):
    run(module)
    return run(torch.nn.DataParallel(module))


def optimised(module, run):
    run(module)
    if not list(module.parameters()):
        return run(module)
    results = []
    for kind, options in ((torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}), (torch.optim.AdamW, {"lr": 0.01}), (torch.optim.SGD, {"lr": 0.1, "foreach": True})):
        optimizer = kind(module.parameters(), **options)
        for _ in range(2):
            optimizer.zero_grad()
            results.append(run(module))
            torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimizer.step()
    return [*results, run(module)]


def by_sample(module, run):
    run(module)
    module.eval()
    state = {n: p.detach() for n, p in module.named_parameters()}
    given = [x.detach() if isinstance(x, torch.Tensor) else x for x in run.made()]
    if not given or not all(isinstance(x, torch.Tensor) for x in given):
        return 0

    def f(state, *args):
        return torch.func.functional_call(module, state, args, run.call)

    stacked = [torch.stack([x, x * 2 if x.is_floating_point() else x]) for x in given]
    return torch.func.vmap(f, in_dims=(None, *[0] * len(given)))(state, *stacked)


WAYS = {
    f.__name__: f
    for f in (
        forward_hooks, backward_hooks, global_hooks, tensor_hooks, deep_copy, shallow_copy, pickled, saved, state_of, weight_norm,
        old_weight_norm, spectral_norm, own_parametrization, pruned, checkpointed, functional, channels_last, requires_some,
        no_leaf_gradient, no_grad, applied, modes, accumulated, retained, double_backward, by_autograd_grad, saved_elsewhere, watched,
        shared, on_meta, assigned_from_meta, reset, autocast, averaged, swapped, in_parallel, optimised, by_sample, by_torchs_own,
    )
} | {"half": _cast(torch.float16), "bfloat16": _cast(torch.bfloat16)}  # fmt: skip

# Cases that only torch rejects.
REFUSED = (*OF_TORCH, *LACKING, "is not implemented", "not implemented for", "do not yet support", "support the deepcopy protocol",
           "Expected attn_mask dtype", "elements of input should be between 0 and 1", "Attempted to vmap over `mask`")  # fmt: skip
# Known differences, and the reasons.
DIFFERENT = {
    ("checkpointed", "RReLU"): "torch's recomputation gives numbers of memory that nobody wrote",
    ("checkpointed", "BatchNorm"): "a recomputation ends at the last tensor that is kept; torch has moved statistics by then",
    ("spectral_norm", "RNN"): "each reading of a weight is a step of the power iteration, and torch reads more often",
    ("spectral_norm", "LSTM"): "as RNN",
    ("spectral_norm", "GRU"): "as RNN",
    ("global_hooks", "AdaptiveLogSoftmaxWithLoss"): "the order of the parts",
    ("global_hooks", "LinearCrossEntropyLoss"): "torch does not call its linear part",
    ("functional", "HingeEmbeddingLoss"): "no gradient of the target is zeros here",
    ("functional", "CosineEmbeddingLoss"): "no gradient of the target is zeros here",
    ("pickled", "Lazy"): "before its first call such a layer forgets float64, and torch lets empty inputs differ",
    ("half", "InstanceNorm1d"): "a gradient of two values that is 0 but for rounding",
    ("by_sample", "MaxUnpool"): "the indices are looked at, which vmap refuses",
}


def _plain(x):
    return x.detach() if isinstance(x, torch.Tensor) else x


def _mapped(f, x):
    if isinstance(x, dict):
        return {k: _mapped(f, v) for k, v in x.items()}
    return type(x)(_mapped(f, each) for each in x) if isinstance(x, (list, tuple)) else f(x)


def _unequal(a, b, rate, path=""):
    """The place where two structures differ, or None."""
    if type(a) is not type(b):
        if isinstance(a, (int, float)) and isinstance(b, (int, float)):
            return None if a == b else f"{path}: {a} for {b}"
        return f"{path}: {type(a)} for {type(b)}"
    if isinstance(a, dict):
        if list(a) != list(b):
            return f"{path}: {list(a)} for {list(b)}"
        a, b = list(a.values()), list(b.values())
    if isinstance(a, (list, tuple)):
        if len(a) != len(b):
            return f"{path}: {len(a)} for {len(b)}"
        return next((u for i, (x, y) in enumerate(zip(a, b)) if (u := _unequal(x, y, rate, f"{path}[{i}]"))), None)
    if isinstance(a, torch.Tensor):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{path}: {a.dtype} {tuple(a.shape)} for {b.dtype} {tuple(b.shape)}"
        if a.dtype in (torch.float16, torch.bfloat16):
            rate = 0.08 if a.dtype == torch.bfloat16 else 0.02
        if a.dtype == torch.float32:
            rate = max(rate, 3e-4)
        wide = b.detach().double() if not b.is_complex() else b.detach()
        finite = wide.abs().nan_to_num(0, 0, 0)
        atol = rate * max(1.0, float(finite.max())) if b.numel() else rate
        if not torch.allclose(a.detach().to(wide.dtype), wide, rtol=rate, atol=atol, equal_nan=True):
            return f"{path}: {a.flatten()[:6].tolist()} for {b.flatten()[:6].tolist()}"
        return None
    return None if a == b else f"{path}: {a!r} for {b!r}"


ERRORS = (RuntimeError, ValueError, IndexError, TypeError, AttributeError, NotImplementedError, KeyError, AssertionError,
          pickle.PicklingError, hg.HologramError)  # fmt: skip


def difference(way, name, seed, dtype=torch.float64):
    """How a way affects a random case of a layer differently from torch's layer, or None."""
    if any(way == w and (name.startswith(n) or name.removeprefix("Lazy").startswith(n)) for w, n in DIFFERENT):
        return None
    made, inputs, call, _ = case(name, seed)
    call = {k: v.to(dtype) if isinstance(v, torch.Tensor) and v.is_floating_point() else v for k, v in call.items()}
    found = []
    for layer in made:
        torch.manual_seed(seed)
        try:
            layer = layer.to(dtype).train(seed % 2 == 0)
            found.append(_mapped(_plain, WAYS[way](layer, Inputs(inputs, dict(call), dtype, seed))))
        except ERRORS as error:
            found.append(error)
    ours, theirs = found
    what = f"{way} {name} {seed}: {made[1]}"
    if isinstance(theirs, Exception):
        known = isinstance(ours, Exception) or any(each in str(theirs) for each in REFUSED)
        return None if known else f"{what}: torch says {theirs!r}"
    if isinstance(ours, Exception):
        return f"{what}: {ours!r}"
    unequal = _unequal(ours, theirs, 1e-8)
    return f"{what}: {unequal}" if unequal else None


if __name__ == "__main__":
    import warnings

    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    bad = 0
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    for way in [sys.argv[3]] if len(sys.argv) > 3 else WAYS:
        for layer in [sys.argv[4]] if len(sys.argv) > 4 else LAYERS:
            for k in range(count):
                problem = difference(way, layer, seed + k)
                if problem:
                    print(problem, flush=True)
                    bad += 1
    print(bad, "differences")
