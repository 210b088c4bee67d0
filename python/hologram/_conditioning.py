# SPDX-License-Identifier: Apache-2.0
"""Measures how far a module's outputs move if inputs and weights change by about one unit in the last place.

A difference of that size is not a conversion error, as in hg-convert (converter/check/conditioning.cpp).
"""

import copy
import math

_ULPS = (1, 1, 1, 4, 4, 4)  # products of many terms lose a few units
_FACTOR = 4  # a few runs may miss the largest movement


def _moved(torch, value, ulps, noise):
    """The floats of a tensor, each moved by half of `ulps` units or up to all of them, so that none rounds back to itself. Numbers
    with few digits, such as 0.5, are probably exact."""
    if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()):
        return value
    if value.dim() == 0 and not value.is_complex() and (math.frexp(float(value))[0] * 4096).is_integer():
        return value
    unit = torch.finfo(value.dtype).eps
    by = torch.rand(value.shape, generator=noise, dtype=torch.float64) * 2 - 1
    by = (by + torch.where(by < 0, -1, 1)) / 2
    wide = value.detach().to(torch.complex128 if value.is_complex() else torch.float64)
    return (wide * (1 + by * (ulps * unit))).to(value.dtype)


def _reals(torch, value):
    value = torch.as_tensor(value)
    return torch.view_as_real(value).double() if value.is_complex() else value.double()


def movements(torch, module, call, outputs_of):
    """The largest movement of each element of each output, or None for an output whose shape changes. `outputs_of` runs a
    module with the arguments of a call."""
    plain, largest = None, []
    for seed, ulps in enumerate((0, *_ULPS)):
        noise = torch.Generator().manual_seed(seed)
        other = copy.deepcopy(module)
        with torch.no_grad():
            for state in (*other.parameters(), *other.buffers()):
                state.copy_(_moved(torch, state, ulps, noise))
        given = torch.utils._pytree.tree_map(lambda each: _moved(torch, each, ulps, noise), call)
        outputs = [_reals(torch, each) for each in outputs_of(torch, other, given)]
        if plain is None:
            plain, largest = outputs, [torch.zeros_like(each) for each in outputs]
            continue
        for i, (a, b) in enumerate(zip(outputs, plain, strict=True)):
            if largest[i] is None or a.shape != b.shape:
                largest[i] = None
                continue
            changes = torch.isfinite(a) != torch.isfinite(b)
            distance = torch.where(changes, torch.inf, torch.nan_to_num((a - b).abs(), nan=0.0))
            largest[i] = torch.maximum(largest[i], distance)
    return largest


def excused(torch, compared, want, got, movement):
    """The comparison with the tolerance that the movement allows, if all elements are within it; otherwise unchanged."""
    if movement is None or want.shape != got.shape or want.dtype != got.dtype:
        return compared
    a, b = _reals(torch, want), _reals(torch, got)
    same = (a == b) | (torch.isnan(a) & torch.isnan(b))
    error = torch.where(same, 0.0, torch.nan_to_num((a - b).abs(), nan=torch.inf))
    if bool((error > torch.clamp(_FACTOR * movement, min=compared["allowed"])).any()):
        return compared
    return {**compared, "allowed": max(compared["largest_error"], compared["allowed"])}
