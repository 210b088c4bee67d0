# SPDX-License-Identifier: Apache-2.0
"""Converts exported programs (.pt2) without --input, runs them, and compares the results with the module.

Usage: exported FOLDER_WITH_TOOLS SCRATCH_FOLDER [NAME, or autocast=, quantized=, chain=, composed= or shaped=FIRST:COUNT].
The reader does not compute expected results: the module runs in Python, at the example's sizes and at others. Exits
with 77 if this Python installation has no torch that writes these archives.
"""
import collections
import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path

try:
    import numpy
    import torch
except ImportError:
    sys.exit(77)
if tuple(map(int, torch.__version__.split("+")[0].split(".")[:2])) < (2, 9):
    sys.exit(77)

sys.path.insert(0, str(Path(__file__).parent))
import cases  # noqa: E402
import damage  # noqa: E402
import defaults  # noqa: E402
import drawn  # noqa: E402
import older  # noqa: E402

tools, scratch = Path(sys.argv[1]), Path(sys.argv[2])
version = subprocess.run([str(tools / "hg-convert"), "--version"], capture_output=True, text=True).stdout
checks = "without libtorch" not in version  # otherwise only runs show whether a file is right
only = sys.argv[3] if len(sys.argv) > 3 else ""
kind, _, seeds = only.partition("=")
if seeds:  # FIRST:COUNT of one kind only
    first, count = map(int, seeds.split(":"))
    cases.all_cases.clear()
    drawn.draw(kind, range(first, first + count))
    only = kind.capitalize() + "_"
else:
    for kind, (_, count) in drawn.KINDS.items():
        drawn.draw(kind, range(count))


def flat(value):
    """Returns tensors and numbers in the order of the file's outputs."""
    if value is None:
        return []
    if isinstance(value, torch.Tensor):
        return [value.detach()]
    if isinstance(value, (bool, int, float)):
        kind = {bool: torch.bool, int: torch.int64, float: torch.float64}[type(value)]
        return [torch.tensor(value, dtype=kind)]
    leaves, _ = torch.utils._pytree.tree_flatten(value)
    return [each for leaf in leaves if leaf is not None for each in flat(leaf)]


def names_of(value):
    """Returns the names of these outputs: keys of dicts, and positions in containers."""
    names = []
    for path, leaf in torch.utils._pytree.tree_flatten_with_path(value)[0]:
        if leaf is None:
            continue
        name = ""
        for key in path:
            if isinstance(key, torch.utils._pytree.MappingKey):
                name = f"{name}_{key.key}" if name else str(key.key)
            elif name and isinstance(key, torch.utils._pytree.SequenceKey):
                name = f"{name}_{key.idx}"
        names.append(name or f"output_{len(names)}")
    return names


def difference(got, want):
    if got.shape != tuple(want.shape) or got.dtype != want.numpy().dtype:
        return f"is {got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"
    close = 1e-10 if want.dtype == torch.float64 else 1e-4
    if not numpy.allclose(got, want.numpy(), rtol=close, atol=close / 10, equal_nan=True):
        return f"is wrong by {numpy.abs(got.astype(float) - want.numpy().astype(float)).max()}"
    return ""


def run(model, inputs, taken, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.npy"):
        old.unlink()
    options = []
    leaves, _ = torch.utils._pytree.tree_flatten(inputs)
    for k, tensor in enumerate(flat([leaf for leaf, is_taken in zip(leaves, taken, strict=True) if is_taken])):
        numpy.save(folder / f"in_{k}.npy", tensor.numpy())
        options += ["--input", str(folder / f"in_{k}.npy")]
    done = subprocess.run([str(tools / "hg-run"), str(model), *options, "--output-dir", str(folder)],
                          capture_output=True, text=True)
    return done.stderr.strip() if done.returncode else ""


def names_of_trace(case, folder):
    """Returns the names of the outputs if the module is traced instead of exported."""
    torch.jit.trace(case.module(), case.args, strict=False).save(str(folder / "model.pt"))
    done = subprocess.run([str(tools / "hg-convert"), str(folder / "model.pt"), "--input", case.traced], capture_output=True, text=True)
    if done.returncode:
        return done.stderr
    done = subprocess.run([str(tools / "hg-info"), str(folder / "model.hgm"), "--json"], capture_output=True, text=True)
    return [output["name"] for output in json.loads(done.stdout)["outputs"]]


def check(case):
    """Returns what is wrong with a case, or nothing."""
    folder = scratch / case.name
    folder.mkdir(parents=True, exist_ok=True)
    source, model = folder / "model.pt2", folder / "model.hgm"
    torch.manual_seed(1)
    module = case.module()
    try:
        program = torch.export.export(module, case.args, case.kwargs or None, dynamic_shapes=case.dynamic, strict=case.strict)
        if case.decompose:
            program = program.run_decompositions(None if case.decompose == "core" else {})
        torch.export.save(program, source)
    except Exception as error:  # noqa: BLE001: whatever PyTorch raises
        if not case.random:
            raise
        torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth(0)  # transforms that were not left
        return Left(str(error).strip().splitlines()[0][:120] if str(error).strip() else type(error).__name__)
    taken = [spec.arg.__class__.__name__ != "ConstantArgument" for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    model.unlink(missing_ok=True)
    done = subprocess.run([str(tools / "hg-convert"), str(source), "-o", str(model), *case.options],
                          capture_output=True, text=True)
    said = done.stdout + done.stderr
    if done.returncode in (2, 3) and case.random:
        return Refused(said.strip()[-400:]) if is_readable(source) else Left("PyTorch itself does not read the file")
    if done.returncode != case.exit:
        return f"exit code {done.returncode}, not {case.exit}: {said.strip()[-600:]}"
    for words in case.words:
        if words not in said and (checks or "check" not in words and "no other sizes" not in words):
            return f"hg-convert does not say '{words}': {said.strip()[-600:]}"
    if case.exit:
        return "" if not model.exists() else "a file is written all the same"
    expected = any("nothing is checked" in words for words in case.words)
    if checks and not expected and not case.random and ("is unchecked" in said or "nothing is checked" in said):
        return f"hg-convert checks nothing: {said.strip()[-600:]}"
    for k, given in enumerate([(case.args, case.kwargs), *case.others]):
        args, kwargs = given if isinstance(given[-1], dict) and len(given) == 2 and isinstance(given[0], tuple) else (given, {})
        torch.manual_seed(1)
        fresh = case.module()
        fresh.load_state_dict(module_state[case.name])
        if case.random and not (answers(fresh, args, kwargs) and answers(program.module(), args, kwargs)):
            continue
        fresh.load_state_dict(module_state[case.name])
        result = fresh(*torch.utils._pytree.tree_map(clone, args), **torch.utils._pytree.tree_map(clone, kwargs))
        want, names = flat(result), names_of(result)
        trouble = run(model, (args, kwargs), taken, folder / f"run_{k}")
        if case.random and "the model was converted for" in trouble:
            narrow[trouble.partition("because of")[2][:80]] += 1  # the graph rejects sizes that PyTorch accepts
            continue
        if trouble:
            return f"run {k}: hg-run says {trouble}"
        for name, tensor in zip(names, want, strict=True):
            path = folder / f"run_{k}" / f"{name}.npy"
            if not path.exists():
                return f"run {k}: there is no {name}"
            wrong = (case.difference or difference)(numpy.load(path), tensor)
            if wrong:
                return f"run {k}: {name} {wrong}"
        if case.traced and checks and (traced := names_of_trace(case, folder)) != names:
            return f"the outputs are {names}, but of the traced module {traced}"
    for args in case.refused:
        said = run(model, (args, {}), taken, folder / "refused")
        if "the model was converted for" not in said:
            return f"at {[list(each.shape) for each in flat(args)]} hg-run says '{said}'"
    return ""


class Left(str):
    """Why torch.export rejects a random case."""


class Refused(str):
    """Why hg-convert rejects it."""


def is_readable(source):
    try:
        torch.export.load(source)
        return True
    except Exception:  # noqa: BLE001: whatever PyTorch raises
        return False


def answers(module, args, kwargs):
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # programs print when they raise
            module(*torch.utils._pytree.tree_map(clone, args), **torch.utils._pytree.tree_map(clone, kwargs))
    except Exception:  # noqa: BLE001: whatever PyTorch raises
        return False
    return True


def clone(leaf):
    return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf


module_state = {}
failed = 0
left, refused, narrow = collections.Counter(), collections.Counter(), collections.Counter()
for case in cases.all_cases:
    if only and only not in case.name:
        continue
    torch.manual_seed(1)
    module_state[case.name] = case.module().state_dict()
    try:
        trouble = check(case)
    except Exception as error:  # a case that PyTorch rejects must be fixed
        trouble = f"{type(error).__name__}: {str(error)[:600]}"
    if isinstance(trouble, Left):
        left[trouble] += 1
    elif isinstance(trouble, Refused):
        refused[trouble] += 1
        print(f"refused {case.name}: {trouble}", flush=True)
    elif trouble:
        failed += 1
        print(f"FAILED {case.name}: {trouble}", flush=True)
if not only:
    for troubles in (damage.troubles(tools, scratch), older.troubles(tools, scratch, checks), defaults.troubles(tools),
                     drawn.autocast.table_troubles()):
        for trouble in troubles:
            failed += 1
            print(f"FAILED {trouble}", flush=True)
for why, times in left.most_common(12):
    print(f"not exported, {times} times: {why}")
for why, times in narrow.most_common(12):
    print(f"excluded sizes, {times} runs: {why}")
failed += refused.total() > len(cases.all_cases) // 20
print(json.dumps({"cases": len(cases.all_cases), "failed": failed, "refused": refused.total(), "not exported": left.total()}))
sys.exit(1 if failed else 0)
