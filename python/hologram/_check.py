# SPDX-License-Identifier: Apache-2.0
"""Checks a converted model against the module it was made from."""

import contextlib
import copy
import re

from . import _core
from ._conditioning import excused, movements
from ._errors import HologramError, MismatchError
from ._open_sizes import short_dtype
from ._tree import flatten

_TOLERANCE = {"f64": 1e-9, "f32": 2e-4, "f16": 2e-2, "bf16": 6e-2, "c64": 2e-4, "c128": 1e-9}


def compare_with_module(torch, module, model, args, kwargs, symbols, ranges=None, from_levels=None):
    """Runs the module and the model on the example and with other open sizes. `from_levels` compares them again if a quantized
    module's outputs differ."""
    _warn_of_fast_path(torch, module, model, (args, kwargs))
    leaves, tree = torch.utils._pytree.tree_flatten((args, kwargs))
    sizes = _sizes_of(torch, leaves, symbols)
    if not _check_at(torch, module, model, torch.utils._pytree.tree_unflatten(leaves, tree), sizes, from_levels):
        return
    for text in sorted({text for found in symbols for text in found.values()}):
        try:
            _core.size_of(text, sizes)
        except ValueError as error:
            model.report.warnings.append(f"checked at the example's sizes alone: {error}")
            return
    for other in _other_sizes(sizes, ranges or {}):
        given = torch.utils._pytree.tree_unflatten(_resized(torch, leaves, symbols, other), tree)
        try:
            _outputs_of(torch, module, given)
        except Exception:
            continue  # the module does not accept such sizes
        try:
            _check_at(torch, module, model, given, other, from_levels)
            return
        except MismatchError:
            raise
        except (HologramError, ValueError) as error:
            model.report.warnings.append(f"the model does not take {sizes_text(other)}: {error}")


def _check_at(torch, module, model, call, sizes, from_levels):
    """Compares both at these sizes; False if that is not possible."""
    report = model.report
    state = torch.random.get_rng_state()
    first, again = _outputs_of(torch, module, call), _outputs_of(torch, module, call)
    torch.random.set_rng_state(state)
    if any(not same(torch, a, b) for a, b in zip(first, again)):
        report.unchecked = "the module draws random numbers"
        return False
    inputs = [each for each in torch.utils._pytree.tree_leaves(call) if isinstance(each, torch.Tensor)]
    with torch.no_grad():
        ours = model.session(threads=0)(*inputs)
    ours = [_tensor(torch, each) for each in results_of(torch, ours)[0]]  # numpy arrays if there is no input
    first = [_tensor(torch, each) for each in first]
    computed_in, names = report.details["computed_in"], [each.name for each in model.outputs]
    outputs = [compare(torch, *each) for each in zip(names, first, ours, computed_in, strict=True)]
    if from_levels and not all(map(is_within, outputs)):
        if again := from_levels(torch.utils._pytree.tree_leaves(call), names, ours, computed_in):
            outputs, differing = again
            report.notes.append(f"{differing} levels are the neighbors of the module's, because rounding decides between them")
    if not all(map(is_within, outputs)):
        outputs = _excused(torch, module, model, call, outputs, first, ours)
    report.checks.append({"sizes": sizes, "outputs": outputs})
    for each in outputs:
        if not is_within(each):
            raise MismatchError(
                f"output '{each['name']}' differs from the module's by {each['largest_error']:.3g}, "
                f"allowed are {each['allowed']:.3g}, at {sizes_text(sizes)}",
                report,
            )
    return True


def is_within(compared):
    return compared["largest_error"] <= compared["allowed"]


def _excused(torch, module, model, call, outputs, first, ours):
    """The comparisons, with another tolerance where the module's own output moves under rounding."""
    try:
        moved = movements(torch, module, call, _outputs_of)
    except Exception:
        return outputs  # the module does not accept a nearly equal input
    for i, each in enumerate(outputs):
        if not is_within(each):
            outputs[i] = excused(torch, each, torch.as_tensor(first[i]), ours[i], moved[i])
            if is_within(outputs[i]):
                model.report.notes.append(
                    f"output '{each['name']}' differs by {each['largest_error']:.3g}, where the module's own moves as much when "
                    "inputs and weights change in their last place"
                )
    return outputs


def _tensor(torch, value):
    """The value as a tensor. Numbers become tensors too, as in torch.export."""
    if isinstance(value, float):
        return torch.tensor(value, dtype=torch.float64)
    if isinstance(value, torch.Tensor):
        return value.detach()  # a parameter may be a result
    return torch.tensor(value) if isinstance(value, int) else _core.share(value, "torch")


@contextlib.contextmanager
def _without_fast_path(torch):
    """torch.export does not capture the fast path of nn.TransformerEncoder, which sets padded positions to 0."""
    mha = torch.backends.mha
    enabled = mha.get_fastpath_enabled()
    mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        mha.set_fastpath_enabled(enabled)


def _warn_of_fast_path(torch, module, model, call):
    if not any(isinstance(part, torch.nn.TransformerEncoder) for part in module.modules()):
        return
    with torch.no_grad():
        fast = results_of(torch, copy.deepcopy(module)(*call[0], **call[1]))[0]
    pairs = [(torch.as_tensor(a), torch.as_tensor(b)) for a, b in zip(fast, _outputs_of(torch, module, call))]
    if any(a.shape != b.shape or not torch.allclose(a, b, 1e-3, 1e-3, equal_nan=True) for a, b in pairs if a.is_floating_point()):
        model.report.warnings.append(
            "without gradients, PyTorch's fast path of nn.TransformerEncoder sets padded positions to 0; the model computes "
            "them, as PyTorch does with gradients"
        )


def _outputs_of(torch, module, call):
    with torch.no_grad(), _without_fast_path(torch):
        return results_of(torch, copy.deepcopy(module)(*call[0], **call[1]))[0]


def results_of(torch, result):
    """(leaves, tree) of a module's result, as torch.export sees it."""
    return flatten(result, nodes=torch.utils._pytree.SUPPORTED_NODES)


def _other_sizes(sizes, ranges):
    """Sizes to check in addition to the example's: larger ones first, within torch's ranges."""
    for change in (lambda n: n + 3, lambda n: 2 * n, lambda n: 3 * n, lambda n: n + 1, lambda n: n - 1):
        found = {}
        for name, size in sizes.items():
            least, most = ranges.get(name, (None, None))
            found[name] = max(change(size), least or 2)
            if most is not None and found[name] > most:
                found[name] = size - 1 if size - 1 >= (least or 2) else size
        if found != sizes:
            yield found


def _resized(torch, leaves, symbols, sizes):
    """The arguments with other open sizes. Elements repeat, so that indices stay valid."""
    out, found = list(leaves), iter(symbols)
    for i, leaf in enumerate(out):
        if not isinstance(leaf, torch.Tensor):
            continue
        for d, text in next(found).items():
            index = torch.arange(_core.size_of(text, sizes)) % leaf.shape[d]
            out[i] = out[i].index_select(d, index)
    return out


def _sizes_of(torch, leaves, symbols):
    """The open sizes of the example by name, except those that no input size determines."""
    sizes = {}
    for leaf, found in zip((each for each in leaves if isinstance(each, torch.Tensor)), symbols):
        for d, text in found.items():
            names = set(re.findall(r"[A-Za-z_]\w*", text))
            if len(names) == 1:
                sizes.setdefault(*names, _solved(text, *names, int(leaf.shape[d])))
    return {name: size for name, size in sizes.items() if size is not None}


def _solved(text, name, size):
    """Solves a*n + b = size for n; None for other expressions."""
    try:
        at = [_core.size_of(text, {name: n}) for n in (0, 1)]
        n = (size - at[0]) // (at[1] - at[0])
        return n if _core.size_of(text, {name: n}) == size else None
    except (ValueError, ZeroDivisionError):
        return None


def sizes_text(sizes):
    return ", ".join(f"{name}={size}" for name, size in sizes.items()) or "example sizes"


def tolerance_of(dtype):
    """Relative to the largest number, for a dtype of torch such as "float32"."""
    return _TOLERANCE[short_dtype(dtype)]


def same(torch, a, b):
    """Whether both are equal in every element; NaN equals NaN."""
    if not isinstance(a, torch.Tensor):
        return a == b
    return a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())


def compare(torch, name, want, got, computed_in):
    """The largest error and the tolerance. The error is infinite if shapes, dtypes or non-finite elements differ.
    ``computed_in`` is the coarsest float dtype used in the computation."""
    want = want if isinstance(want, torch.Tensor) else torch.as_tensor(want)
    out = {"name": name, "largest_error": float("inf"), "allowed": 0.0}
    if want.shape != got.shape or want.dtype != got.dtype:
        return out
    if want.numel() == 0:
        return {**out, "largest_error": 0.0}
    if not (want.is_floating_point() or want.is_complex()):
        # Different 64-bit integers may be equal as f64.
        error = float((want.to(torch.float64) - got.to(torch.float64)).abs().max())
        return {**out, "largest_error": 0.0 if torch.equal(want, got) else max(error, 1.0)}
    wide = torch.complex128 if want.is_complex() else torch.float64
    a, b = want.to(wide), got.to(wide)
    finite = torch.isfinite(a)
    if not torch.equal(finite, torch.isfinite(b)):
        return out
    if not want.is_complex() and not torch.equal(torch.nan_to_num(a[~finite], nan=7.0), torch.nan_to_num(b[~finite], nan=7.0)):
        return out
    scale = float(a[finite].abs().max()) if bool(finite.any()) else 0.0
    error = float((a[finite] - b[finite]).abs().max()) if bool(finite.any()) else 0.0
    rate = max(tolerance_of(str(want.dtype).removeprefix("torch.")), _TOLERANCE[computed_in])
    return {**out, "largest_error": error, "allowed": rate * max(scale, 1e-3)}
