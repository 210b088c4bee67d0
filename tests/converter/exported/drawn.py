# SPDX-License-Identifier: Apache-2.0
"""Random modules as cases: autocast regions, low-bit integer ops, layers between quantizations, and the modules of composed.py and shaped.py."""
import copy

import torch

import autocast
import composed
import quantized
import shaped
from cases import AUTO, Case, N, all_cases, rand


def random_autocast(seed):
    """A module with autocast regions, compared with the exported program itself. None if dtypes do not fit each
    other."""
    if not autocast.answers(seed):
        return
    torch.manual_seed(seed)
    sizes = [rand(5, autocast.WIDTH), rand(1, autocast.WIDTH), rand(2, autocast.WIDTH)]
    all_cases.append(Case(f"Autocast_{seed}", lambda: autocast.Random(seed), (sizes[0],), dynamic=({0: N},),
                          others=[(each,) for each in sizes[1:]], strict=seed == 7, difference=autocast.difference))


def random_quantized(first):
    """Random calls of the ops of quantized programs, many in one program."""
    batch = quantized.Batch(first)
    all_cases.append(Case(f"Quantized_{first}", lambda: quantized.Batch(first), batch.inputs(0), dynamic=batch.dynamic(),
                          others=[batch.inputs(k) for k in (1, 2, 3)], difference=quantized.difference))


def random_chain(seed):
    """Layers between quantizations, of one and of several images."""
    torch.manual_seed(seed)
    all_cases.append(Case(f"Chain_{seed}", lambda: quantized.Chain(seed), (rand(2, 4, 7, 6) * 3,), dynamic=({0: N},),
                          others=[(rand(1, 4, 7, 6),), (rand(3, 4, 7, 6) * 8,)], difference=quantized.difference))


def random_composed(seed):
    """A module with control flow, transforms, state and trees, at other sizes than those of the export."""
    how = composed.options(seed)
    torch.manual_seed(seed)
    args, kwargs = composed.arguments(seed, how["rows"])
    dynamic = None
    if how["open"]:
        dynamic = torch.export.ShapesCollection()
        for leaf in torch.utils._pytree.tree_leaves(args):
            dynamic[leaf] = {0: AUTO}
    others = [composed.arguments(seed, rows) for rows in ((how["rows"], 1, 2, 0, 7) if how["open"] else (how["rows"],))]
    all_cases.append(Case(f"Composed_{seed}", lambda: composed.Composed(seed), args, kwargs, dynamic=dynamic, others=others,
                          strict=how["strict"], decompose=how["decompose"], difference=composed.difference_of(composed.Composed(seed).dtype), random=True))


def random_shaped(seed):
    """A module with views, writes and arithmetic on sizes, at other sizes and again at its own."""
    module = shaped.Shaped(seed)
    args, kwargs = shaped.inputs_of(seed, 0, module.dtype)
    dynamic = shaped.dynamic_of(seed, args, kwargs)
    others = [shaped.inputs_of(seed, k, module.dtype) for k in range(1, len(shaped.SIZES) if dynamic else 1)]
    all_cases.append(Case(f"Shaped_{seed}", lambda: copy.deepcopy(module), args, kwargs, dynamic=dynamic, others=others, strict=seed % 16 == 0,
                          decompose="train" if seed % 3 == 0 else "", difference=composed.difference_of(module.dtype), random=True))


# The maker of each kind, and its number of seeds in a normal run.
KINDS = {"autocast": (random_autocast, 24), "quantized": (random_quantized, 2), "chain": (random_chain, 12),
         "composed": (random_composed, 12), "shaped": (random_shaped, 12)}


def draw(kind, seeds):
    for seed in seeds:
        KINDS[kind][0](seed)
