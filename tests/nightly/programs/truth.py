# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side: programs as TorchScript, and their results."""
from __future__ import annotations

import os
import re
import resource
import signal
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Dict, List, Optional, Tuple

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from export import Exported
from generate import Program
from points import TRACED_AT, Point, arrays, points_of

NAMES = {"__name__": "program", "torch": torch, "Tensor": Tensor, "List": List, "Dict": Dict, "Optional": Optional, "Tuple": Tuple}
SECONDS = 60  # of one program
MEMORY = 6 << 30  # of a process
# Messages of errors that PyTorch raises but a graph does not, because its values share no memory.
EXCUSES = {"refer to a single memory location": "a write from overlapping memory",
           "single memory location": "a write to overlapping memory",
           "INTERNAL ASSERT FAILED": "a fault of PyTorch", "Expected Tensor but got None": "a fault of PyTorch",
           "PythonDispatcher": "a fault of PyTorch", "MKL FFT error": "a fault of PyTorch",
           "Only zero batch or zero channel": "a layer on no elements", "other non-zero dimensions for input": "a layer on no elements",
           "0 dim batch size for input": "a layer on no elements", "to have non-zero size": "a layer on no elements"}


@dataclass
class Answer:
    """The tensors of a result in order, or the first line of the exception."""

    values: list[np.ndarray] | None
    raised: str = ""
    excuse: str = ""  # why a graph need not raise the error too


def prepare() -> None:
    """Call it once per process: sets the plain interpreter, one thread, and no text on standard output."""
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    torch._C._jit_set_profiling_executor(False)
    torch._C._jit_set_profiling_mode(False)
    torch._C._set_graph_executor_optimize(False)
    warnings.simplefilter("ignore")


@contextmanager
def silence():
    """print() of a program writes to the process's standard output."""
    kept, null = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(null)


def compile_program(program: Program):
    """The function compiled for libtorch, which can be saved. Raises PyTorch's exceptions."""
    if not program.traced:
        return torch.jit.CompilationUnit(program.source).forward
    arguments = tuple(torch.from_numpy(each.copy()) for each in arrays(program, TRACED_AT))
    if program.exported:
        return Exported(eager(program), [dims for _, dims in program.inputs], arguments)
    return torch.jit.trace(eager(program), arguments, check_trace=False)


def eager(program: Program):
    names = dict(NAMES)
    exec(compile(program.source, "program", "exec"), names)  # noqa: S102
    return names["forward"]


def flat(value, into: list[np.ndarray]) -> list[np.ndarray]:
    if isinstance(value, Tensor):
        into.append(value.detach().numpy().copy())
    elif isinstance(value, bool):
        into.append(np.array(value))
    elif isinstance(value, int):
        into.append(np.array(value, np.int64))
    elif isinstance(value, float):
        into.append(np.array(value, np.float64))
    elif isinstance(value, dict):
        for each in value.values():
            flat(each, into)
    elif value is not None:
        for each in value:
            flat(each, into)
    return into


def ask(function, inputs: list[np.ndarray]) -> Answer:
    try:
        return Answer(flat(function(*(torch.from_numpy(each.copy()) for each in inputs)), []))
    except Exception as error:  # noqa: BLE001: whatever PyTorch raises
        lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
        text = lines[-1] if lines else type(error).__name__
        return Answer(None, text[:160], next((why for words, why in EXCUSES.items() if words in text), ""))


def ask_eager(program: Program, point: Point) -> Answer:
    with silence():
        return ask(eager(program), arrays(program, point))


def ask_optimized(program: Program, point: Point) -> Answer:
    """Runs libtorch with its passes, which remove unread values even if they would raise."""
    torch._C._set_graph_executor_optimize(True)
    try:
        with silence():
            return ask(compile_program(program), arrays(program, point))
    finally:
        torch._C._set_graph_executor_optimize(False)


def answers(program: Program) -> tuple[object, dict[Point, Answer]]:
    """The compiled function, and what PyTorch answers at every point; of a traced program where the trace
    says what eager says, and of an exported one also where its guards refuse what eager answers."""
    signal.alarm(SECONDS)
    try:
        function = compile_program(program)
        with silence():
            points = points_of(program)
            result = {point: ask(function, arrays(program, point)) for point in points}
            if program.traced:
                plain = eager(program)
                for point in points:
                    expected = ask(plain, arrays(program, point))
                    if program.exported and result[point].values is None:
                        result[point] = expected
                    if expected.values is None or not same(result[point].values, expected.values):
                        del result[point]
    finally:
        signal.alarm(0)
    return function, result


class Overlap(TorchDispatchMode):
    """Notes ops in place whose arguments lie across what they write: PyTorch finds only some of them, and
    what the others give depends on the order in which elements are computed."""

    def __init__(self):
        super().__init__()
        self.found = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        writes = func._schema.name.endswith("_") and args and isinstance(args[0], Tensor)
        self.found |= bool(writes) and any(across(args[0], other) for other in args[1:] if isinstance(other, Tensor))
        return func(*args, **(kwargs or {}))


def places(tensor: Tensor) -> Tensor:
    """The offset of each element in the storage."""
    index = torch.arange(tensor.untyped_storage().nbytes() // tensor.element_size())
    return index.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()).contiguous()


def across(written: Tensor, read: Tensor) -> bool:
    """Whether an element is read to compute a different element that is also written."""
    if written.untyped_storage().data_ptr() != read.untyped_storage().data_ptr() or not (written.numel() and read.numel()):
        return False
    mine, theirs = places(written), places(read).expand(written.shape).contiguous()
    return bool(torch.isin(mine, theirs).any()) and not torch.equal(mine, theirs)


def overlaps(program: Program, point: Point) -> bool:
    inputs = [torch.from_numpy(each.copy()) for each in arrays(program, point)]
    mode = Overlap()
    try:
        with silence(), mode:
            eager(program)(*inputs)
    except Exception:  # noqa: BLE001: whatever PyTorch raises
        pass
    return mode.found


def same(found: list[np.ndarray] | None, wanted: list[np.ndarray] | None) -> bool:
    """Whether both are results and equal up to rounding."""
    return found is not None and wanted is not None and not difference(found, wanted)


def difference(found: list[np.ndarray], wanted: list[np.ndarray]) -> str:
    if len(found) != len(wanted):
        return f"{len(found)} outputs instead of {len(wanted)}"
    for k, (a, b) in enumerate(zip(found, wanted)):
        if a.dtype != b.dtype:
            return f"output {k} is {a.dtype} instead of {b.dtype}"
        if a.shape != b.shape:
            return f"output {k} is of {a.shape} instead of {b.shape}"
        if not close(a, b).all():
            return f"output {k} is {shown(a)} instead of {shown(b)}"
    return ""


def close(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Which elements are equal; floats, up to rounding."""
    if found.dtype.kind != "f":
        return np.asarray(found == wanted)
    with np.errstate(all="ignore"):
        a, b = found.astype(np.float64), wanted.astype(np.float64)
        finite = b[np.isfinite(b)]
        largest = np.abs(finite).max() if finite.size else 0
        bound = 1e-4 * np.abs(b) + 1e-5 * largest + 1e-7
        if found.dtype == np.float16:
            bound = 4e-3 * np.abs(b) + 1e-3 * largest
        return np.asarray((np.abs(a - b) <= bound) | (a == b) | (np.isnan(a) & np.isnan(b)))


def shown(value: np.ndarray) -> str:
    text = np.array2string(value, precision=5, threshold=24, separator=", ").replace("\n", "")
    return re.sub(r"\s+", " ", text)[:300]


# Prefixes of the names of ops whose last bits depend on the algorithm.
ROUNDING = ("acos", "addbmm", "addmm", "asin", "atan", "baddbmm", "bmm", "conv", "cos", "cumprod", "div", "erf", "exp", "gelu", "hypot",
            "layer_norm", "linalg", "log", "mean", "mm", "native", "norm", "pow", "prod", "reciprocal", "rsqrt", "sigmoid", "silu", "sin",
            "softmax", "sqrt", "std", "tan", "var", "_fft", "_log_softmax", "_softmax")


class Rounded(TorchDispatchMode):
    """Moves what rounds by a rounding. FFTs round to their largest value; what they, and running variances, make
    of values that overflow depends on the order of their sums."""

    def __init__(self, rng: np.random.Generator):
        super().__init__()
        self.rng = rng
        self.overflowed = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.removeprefix("aten::")
        if name.startswith(("_fft", "std", "var")):
            parts = result if isinstance(result, tuple) else (result,)
            self.overflowed |= not all(bool(each.isfinite().all()) for each in parts)
        if isinstance(result, Tensor) and name.startswith(ROUNDING) and not name.endswith("_") and not func.is_view:
            if result.dtype in (torch.float32, torch.complex64) and result.numel():
                move = torch.from_numpy(self.rng.choice([-1, 0, 1], tuple(result.shape))).to(result.dtype) * 2.0 ** -23
                is_fft = name.startswith("_fft")
                result.add_(move * (result.abs().max() if is_fft else result.abs()))
        return result


def is_unsteady(program: Program, point: Point, found: list[np.ndarray]) -> bool:
    """Whether each found element is PyTorch's when inputs, constants and results of ops move by a few roundings, or
    lies between two of PyTorch's. One move need not give them all: what is truncated after a rounding jumps in every
    element on its own."""
    rng = np.random.default_rng(1)
    functions = [compile_program(program)]
    for shift in (1 - 1e-6, 1 + 1e-6):
        moved = re.sub(r"\b\d+\.\d+\b", lambda number: repr(float(number[0]) * shift), program.source)
        functions.append(compile_program(replace(program, source=moved)))
    functions.append(eager(program))
    reached = [np.zeros(each.shape, bool) for each in found]
    least, most = [np.full(each.shape, np.inf) for each in found], [np.full(each.shape, -np.inf) for each in found]
    with silence():
        for draw in range(32):
            size = 10.0 ** -(5 + draw % 3)
            which = draw % len(functions)
            inputs = arrays(program, point)
            if which < 3:
                inputs = [each if each.dtype.kind != "f" else
                          (each + np.maximum(np.abs(each), draw % 2) * rng.choice([-1, 1, 0], each.shape) * size).astype(each.dtype)
                          for each in inputs]
                values = ask(functions[which], inputs).values
            else:
                with Rounded(rng) as mode:
                    values = ask(functions[which], inputs).values
                if mode.overflowed:
                    return True
            if values is None or [(each.dtype, each.shape) for each in values] != [(each.dtype, each.shape) for each in found]:
                continue
            for into, low, high, a, b in zip(reached, least, most, found, values):
                np.fmin(low, b, out=low)
                np.fmax(high, b, out=high)
                into |= close(a, b) | ((a.dtype.kind == "f") & (low <= a) & (a <= high))
            if all(each.all() for each in reached):
                return True
    return False
