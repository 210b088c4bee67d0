# SPDX-License-Identifier: Apache-2.0
"""Random modules as TorchScript, .pt2 and ONNX: one step of hg-train changes each parameter as PyTorch does.

usage: trained BIN LIBRARY WORK [--count N] [--seed S] [--formats NAME,...]
Exits with 77 if Python has no torch that exports. A failing case prints the seed that repeats it alone.
"""
import argparse
import contextlib
import copy
import logging
import os
import pathlib
import shutil
import subprocess
import sys
import warnings

try:
    import numpy
    import torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
if tuple(map(int, torch.__version__.split("+")[0].split(".")[:2])) < (2, 9):
    sys.exit(77)
try:
    import onnx
except ImportError:
    onnx = None
try:
    import onnxscript
except ImportError:
    onnxscript = None

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import models  # noqa: E402
from states import Library  # noqa: E402

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
LR = 1.0
ADAM = {"lr": 0.01, "eps": 1e-3}  # this eps makes small gradients distinguishable
TOLERANCE = 2e-4  # relative to the largest change of a parameter


def save_torchscript(module, inputs, path):
    torch.jit.save(torch.jit.trace(module, tuple(inputs), check_trace=False), path)


def save_exported(module, inputs, path):
    torch.export.save(torch.export.export(module, tuple(inputs)), path)


def folds_apart(module):
    """Returns whether an exporter that folds merges several weights into one or changes a weight."""
    return any(isinstance(m, (torch.nn.RNNBase, torch.nn.modules.batchnorm._BatchNorm, models.Einsum)) for m in module.modules())


def save_onnx(module, inputs, path):
    plain = folds_apart(module)
    mode = torch.onnx.TrainingMode.PRESERVE if plain else torch.onnx.TrainingMode.EVAL
    torch.onnx.export(module, tuple(inputs), path, dynamo=False, training=mode, do_constant_folding=not plain, opset_version=17)


def save_dynamo(module, inputs, path):
    torch.onnx.export(module, tuple(inputs), path, dynamo=True, external_data=False, verbose=False, optimize=not folds_apart(module))


FORMATS = {"pt": save_torchscript, "pt2": save_exported}
FORMATS |= {"onnx": save_onnx} if onnx else {}
FORMATS |= {"dynamo.onnx": save_dynamo} if onnx and onnxscript else {}


def stepped(module, inputs, target, kind):
    """Returns the parameters after one step of PyTorch, by name, and their values before."""
    before = {name: p.detach().clone() for name, p in module.named_parameters()}
    optimizer = torch.optim.SGD(module.parameters(), lr=LR) if kind == "sgd" else torch.optim.Adam(module.parameters(), **ADAM)
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(module(*inputs), target).backward()
    optimizer.step()
    after = {name: p.detach().clone() for name, p in module.named_parameters()}
    with torch.no_grad():
        for name, p in module.named_parameters():
            p.copy_(before[name])
    return before, after


@contextlib.contextmanager
def silence():
    """Exporters print, also from C++."""
    sys.stdout.flush()
    kept, nothing = [os.dup(1), os.dup(2)], os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 1), os.dup2(nothing, 2)
        yield
    finally:
        sys.stdout.flush()
        for i in (0, 1):
            os.dup2(kept[i], i + 1), os.close(kept[i])
        os.close(nothing)


def forms(x):
    """Yields the forms in which exporters write a parameter: unchanged, transposed, with sizes of 1 added or
    removed."""
    yield lambda a: a
    if x.ndim >= 2:
        yield lambda a: numpy.swapaxes(a, -1, -2)


def partner(name, ours, before):
    """Returns the PyTorch parameter that a state is, and its form."""
    for theirs in [name, *before]:
        if theirs not in before:
            continue
        for form in forms(before[theirs]):
            value = form(before[theirs])
            if value.size == ours.size and numpy.array_equal(value.reshape(-1), ours.reshape(-1)):
                return theirs, form
    return None, None


def tool(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    return f"{pathlib.Path(str(words[0])).name}: {done.stderr.strip()[-600:]}" if done.returncode else ""


def check(given, library, module, inputs, kind, folder):
    """Yields what is wrong, for each format."""
    folder.mkdir(parents=True)
    with torch.no_grad():
        answer = module(*inputs)
    target = answer + torch.randn_like(answer)
    before, after = stepped(module, inputs, target, kind)
    wide = [x.double() if x.is_floating_point() else x for x in inputs]
    _, exact = stepped(copy.deepcopy(module).double(), wide, target.double(), kind)
    # PyTorch's own rounding error; a gradient that cancels, as for a bias before a norm, consists only of it.
    rounding = {name: (after[name] - exact[name]).abs().max().item() for name in after}
    before, after = ({n: p.numpy() for n, p in ps.items()} for ps in (before, after))
    options = []
    for i, x in enumerate(inputs):
        numpy.save(folder / f"in_{i}.npy", x.numpy())
        options += ["--input", folder / f"in_{i}.npy"]
    numpy.save(folder / "target.npy", target.numpy())
    options += ["--target", folder / "target.npy", "--loss", "mse", "--batch", "all", "--epochs", "1", "--mode", "as-traced"]
    options += ["--optimizer", "sgd", "--lr", LR] if kind == "sgd" else ["--optimizer", "adam", "--lr", ADAM["lr"], "--eps", ADAM["eps"]]
    for kind_of_file in given.formats.split(",") if given.formats else FORMATS:
        source = folder / f"model.{kind_of_file}"
        if "onnx" in kind_of_file and any(getattr(m, "padding_idx", None) is not None for m in module.modules()):
            yield kind_of_file, "not exported: ONNX has no padding_idx, whose row PyTorch does not train"
            continue
        try:
            with silence():
                FORMATS[kind_of_file](module, inputs, str(source))
        except Exception as why:  # noqa: BLE001: whatever PyTorch raises
            yield kind_of_file, "not exported: " + str(why).strip().splitlines()[0][:150]
            continue
        model, trained = folder / f"{kind_of_file}.hgm", folder / f"{kind_of_file}.trained.hgm"
        sizes = [word for x in inputs for word in ("--input", f"{'f32' if x.is_floating_point() else 'i64'}{list(x.shape)}".replace(" ", ""))]
        trouble = tool(given.bin / "hg-convert", source, "-o", model, *(sizes if kind_of_file == "pt" else []))
        if not trouble:
            # ONNX does not mark buffers, except in files of the exporter that is based on torch.export.
            buffered = any(isinstance(m, models.Buffered) for m in module.modules())
            frozen = ["--freeze", models.BUFFER] if kind_of_file == "onnx" and buffered else []
            trouble = tool(given.bin / "hg-train", model, *options, *frozen, "--out", trained)
        yield kind_of_file, trouble or difference(library.states(model), library.states(trained), before, after, rounding)


def difference(old, new, before, after, rounding):
    seen = set()
    for name, (kind, trained, value) in old.items():
        theirs, form = partner(name, value, before)
        if theirs is None:
            if kind == "parameter" and trained and not name.endswith(models.BUFFER[1:]):
                return f"the parameter '{name}' {list(value.shape)} is none of PyTorch's"
            if not numpy.array_equal(value, new[name][2]) and kind != "buffer":
                return f"'{name}', which is no parameter, has changed"
            continue
        if kind != "parameter":
            return f"PyTorch's parameter '{theirs}' is a {kind}"
        if theirs in seen:
            return f"'{name}' is a second copy of PyTorch's '{theirs}'"
        seen.add(theirs)
        want = form(after[theirs] - before[theirs]).reshape(-1)
        got = (new[name][2] - value).reshape(-1)
        least = 3e-7 * max(1, numpy.abs(value).max(initial=0))  # error of the subtraction
        if numpy.abs(got - want).max(initial=0) > TOLERANCE * numpy.abs(want).max(initial=0) + 2 * least + 4 * rounding[theirs]:
            return f"'{name}' moves by another amount: off by {numpy.abs(got - want).max():.3g} of {numpy.abs(want).max():.3g}"
    missing = [name for name in before if name not in seen and numpy.abs(after[name] - before[name]).max(initial=0) > 0]
    return f"there is no parameter for {', '.join(missing)}" if missing else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--formats", default="")
    given = parser.parse_args()
    torch.set_num_threads(1)
    shutil.rmtree(given.work, ignore_errors=True)
    library = Library(given.library)
    compared = bad = 0
    left_out = {}
    for seed in range(given.seed, given.seed + given.count):
        rng = numpy.random.default_rng(seed)
        module, inputs = models.make(rng)
        kind = "sgd" if seed % 3 else "adam"
        for kind_of_file, trouble in check(given, library, module, inputs, kind, given.work / str(seed)):
            if trouble.startswith("not exported"):
                left_out.setdefault(f"{kind_of_file} {trouble}", []).append(seed)
                continue
            compared += 1
            if trouble:
                bad += 1
                print(f"FAILED --seed {seed} --count 1 --formats {kind_of_file}: {trouble}", flush=True)
        if given.count > 1:
            shutil.rmtree(given.work / str(seed), ignore_errors=True)
    for why, seeds in left_out.items():
        print(f"{len(seeds)} left out ({seeds[:4]}): {why}")
    print(f"{compared} files of {given.count} modules, {bad} wrong")
    sys.exit(1 if bad or not compared else 0)


main()
