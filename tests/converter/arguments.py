# SPDX-License-Identifier: Apache-2.0
"""Replaces arguments of all ops by data-dependent numbers and compares the results with PyTorch.

  python3 tests/converter/arguments.py build/bin FOLDER [--count 100] [--seed 1] [--reasons 20] [--exported]

Each case takes a sample from PyTorch's own table of ops and replaces one or two of its integers and floats by `int(n)`
and `float(t)` of inputs. hg-convert converts the scripted call, and hg-run runs it for several values of either sign.
Results must equal PyTorch's. Refusals, and values that stop a run, are counted by message. A wrong result fails the
test. Skipped without torch, or if its table of ops cannot be imported.
"""
import importlib.util
import itertools
import math
import random
import re
import sys
import warnings
from collections import Counter

from batch import batch, options, with_hg_run

warnings.simplefilter("ignore")
try:
    import numpy as np
    import torch
    from torch.testing._internal.common_methods_invocations import op_db
except Exception as missing:  # the requirements of the table depend on the version
    print(f"no Python with torch's table of ops: numbers of data are left out: {missing}")
    sys.exit(77)

LEFT_OUT = re.compile(r"^_|empty|rand|dropout|normal|bernoulli|multinomial|uniform|exponential|cauchy|geometric|poisson$|jiterator|sparse|to_sparse|nested|"
                      r"resize|^ops\.|masked\.|linalg\.(eig|svd|lobpcg)|svd|pca_lowrank|stft|istft|fft\.|new_|as_strided|nonzero_static|item|torch\.ops|fractional|"
                      r"polar|complex|view_as|cdouble|cfloat|chalf|record_stream|unbind_copy|data_ptr|set_")
DTYPES = {torch.float32: "f32", torch.int64: "i64", torch.bool: "bool"}


class Source:
    """The text of a call in which the chosen numbers are inputs."""

    def __init__(self, chosen, exported):
        self.tensors, self.numbers, self.chosen, self.exported = [], [], chosen, exported

    def text(self, value):
        if isinstance(value, torch.Tensor):
            if value.dtype not in DTYPES or value.requires_grad and value.grad_fn is not None:
                raise ValueError("a tensor of another dtype")
            self.tensors.append(value.detach())
            return f"x{len(self.tensors) - 1}"
        if isinstance(value, bool) or value is None:
            return str(value)
        if isinstance(value, (int, float)):
            self.numbers.append(value)
            at = len(self.numbers) - 1
            if at in self.chosen:
                return f"n{at}.item()" if self.exported else f"{type(value).__name__}(n{at})"
            return repr(value) if math.isfinite(value) else f"float('{value}')"
        if isinstance(value, (list, tuple, torch.Size)):
            return "[" + ", ".join(self.text(each) for each in value) + "]"
        if isinstance(value, str):
            return repr(value)
        if isinstance(value, (torch.dtype, torch.memory_format)):
            return str(value)
        raise ValueError(f"a {type(value).__name__}")


def call_of(op, sample, chosen, exported=False):
    """Returns the body of forward and its Source."""
    source = Source(chosen, exported)
    owner, name = torch, op.name
    is_method = False
    for part in name.split("."):
        owner = getattr(owner, part, None)
    if not callable(owner):
        is_method = hasattr(torch.Tensor, name)
        if not is_method:
            raise ValueError("no function")
    first = source.text(sample.input)
    rest = [source.text(each) for each in sample.args]
    rest += [f"{key}={source.text(value)}" for key, value in sample.kwargs.items()]
    call = f"{first}.{name}({', '.join(rest)})" if is_method else f"torch.{name}({', '.join([first, *rest])})"
    return call, source


def module_of(call, source, folder, seed):
    names = [f"x{i}" for i in range(len(source.tensors))] + [f"n{at}" for at in sorted(source.chosen)]
    text = ("import torch\nfrom torch import Tensor\n\n\nclass Call(torch.nn.Module):\n"
            f"    def forward(self, {', '.join(f'{name}: Tensor' for name in names)}):\n        return {call}\n")
    path = folder / f"call_{seed}.py"
    path.write_text(text)
    found = importlib.util.spec_from_file_location(f"call_{seed}", path)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module.Call(), text


def values_near(value, rng):
    if isinstance(value, int):
        return list(dict.fromkeys([value, value - 1, value + 1, -value - 1, 0, -1, 2, rng.randint(-9, 9)]))
    return list(dict.fromkeys([value, value + 0.25, value * 0.5, 0.0, -0.75, 1.5] if math.isfinite(value) else [value, 1.5]))


def flat(result):
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, (tuple, list)):
        return [each for part in result for each in flat(part)]
    if isinstance(result, (bool, int, float)):
        return [torch.tensor(result, dtype=torch.float64 if isinstance(result, float) else None)]
    raise ValueError(f"a result is a {type(result).__name__}")


def answer(module, tensors, numbers):
    return flat(module(*[t.clone() for t in tensors], *numbers))


def is_same(got, want):
    """Compares in the precision of the wanted tensors."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    if got.dtype.kind not in "fc":
        return np.array_equal(got, want)
    with np.errstate(all="ignore"):
        scale = np.max(np.abs(want[np.isfinite(want)]), initial=1.0)
        return np.allclose(got, want, 1e-3, 1e-4 * scale, equal_nan=True)


def sample_with_numbers(rng):
    """Returns an op, one of its samples, and the Source of the unchanged call."""
    ops = [op for op in op_db if not LEFT_OUT.search(op.name) and torch.float32 in op.dtypes]
    for _ in range(30):
        op = rng.choice(ops)
        samples = list(itertools.islice(op.sample_inputs("cpu", torch.float32, requires_grad=False), 20))
        rng.shuffle(samples)
        for sample in samples[:4]:
            try:
                _, plain = call_of(op, sample, set())
            except ValueError:
                continue
            if plain.numbers:
                return op, sample, plain
    raise ValueError("no numbers")


class Case:
    def __init__(self, seed, folder, exported):
        rng = random.Random(seed)
        torch.manual_seed(seed)
        op, sample, plain = sample_with_numbers(rng)
        self.seed, self.name, self.runs = seed, op.name, []
        places = rng.sample(range(len(plain.numbers)), min(len(plain.numbers), rng.choice([1, 1, 1, 2])))
        if any(isinstance(plain.numbers[at], int) and abs(plain.numbers[at]) > 2**40 for at in places):
            raise ValueError("a huge number")
        call, source = call_of(op, sample, set(places), exported)
        plain_module, self.text = module_of(call, source, folder, seed)
        self.module = plain_module if exported else torch.jit.script(plain_module)
        self.tensors, self.places = source.tensors, sorted(places)
        choices = [values_near(source.numbers[at], rng) for at in self.places]
        picks = [tuple(c[0] for c in choices)] + [tuple(rng.choice(c) for c in choices) for _ in range(12)]
        for values in dict.fromkeys(picks):
            numbers = [torch.tensor(v, dtype=torch.float64 if isinstance(v, float) else torch.int64) for v in values]
            try:
                torch.manual_seed(1)
                want = answer(self.module, self.tensors, numbers)
                torch.manual_seed(2)
                again = answer(self.module, self.tensors, numbers)
            except Exception:  # PyTorch rejects it
                continue
            if not all(a.shape == b.shape and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)) for a, b in zip(want, again)):
                raise ValueError("it draws numbers")
            if any(w.is_complex() for w in want):
                raise ValueError("complex")
            self.runs.append((values, numbers, [w.detach().resolve_conj().numpy() for w in want]))
        if not self.runs:
            raise ValueError("no values")
        self.path = folder / f"{seed}"
        self.path.mkdir(exist_ok=True)
        self.model = self.path / ("model.pt2" if exported else "model.pt")
        if exported:
            program = torch.export.export(plain_module, (*self.tensors, *self.runs[0][1]), strict=False)
            torch.export.save(program, str(self.model))
        else:
            self.module.save(str(self.model))

    def job(self):
        inputs = [f"x{i}:{DTYPES[t.dtype]}[{','.join(map(str, t.shape))}]" for i, t in enumerate(self.tensors)]
        for k, at in enumerate(self.places):
            values = [run[0][k] for run in self.runs if math.isfinite(run[0][k])] or [0.0]
            kind = "f64" if isinstance(self.runs[0][0][k], float) else "i64"
            inputs.append(f"n{at}:{kind}[]={min(values)}..{max(values)}")
        for i, t in enumerate(self.tensors):
            if t.dtype == torch.int64 and t.numel() > 0:
                inputs[i] += f"={int(t.min())}..{int(t.max())}"
        return {"model": str(self.model), "output_dir": str(self.path), "inputs": inputs}

    def run_jobs(self):
        jobs = []
        for i, t in enumerate(self.tensors):
            np.save(self.path / f"x{i}.npy", t.numpy())
        for r, (_, numbers, _) in enumerate(self.runs):
            files = [f"x{i}={self.path}/x{i}.npy" for i in range(len(self.tensors))]
            for at, number in zip(self.places, numbers):
                np.save(self.path / f"n{at}_{r}.npy", number.numpy())
                files.append(f"n{at}={self.path}/n{at}_{r}.npy")
            jobs.append({"model": str(self.path / "model.hgm"), "inputs": files, "output_dir": str(self.path / f"out{r}")})
        return jobs


def short(message):
    return re.sub(r"^\S*model\.\w+: |'[^']*/(?=\w)|-?\d+(\.\d+)?", "", message)[:150]


def show(title, reasons, most):
    if reasons:
        print(f"{title}: {sum(reasons.values())}")
        for reason, count in reasons.most_common(most):
            print(f"  {count:5}  {reason}")


def main():
    parser = options(__doc__, 100)
    parser.add_argument("--exported", action="store_true", help="programs of torch.export instead of TorchScript")
    parser.add_argument("--reasons", type=int, default=20)
    given = with_hg_run(parser)
    cases, useless = [], Counter()
    for seed in range(given.seed, given.seed + given.count):
        try:
            cases.append(Case(seed, given.folder, given.exported))
        except Exception as error:  # no sample with numbers, or TorchScript rejects it
            useless[str(error).strip().split("\n")[0][:60]] += 1
    refused, differing, stopped, wrong, equal = Counter(), Counter(), Counter(), [], 0
    kept, jobs = [], []
    for case, reply in zip(cases, batch(given.bin / "hg-convert", [case.job() for case in cases], given.folder)):
        if reply["status"] == "ok":
            kept.append(case)
            jobs += case.run_jobs()
        elif reply["status"] == "unsupported":
            refused[f"{case.name}: {short(reply['message'])} (seed {case.seed})"] += 1
        else:
            differing[f"{case.name}: {short(reply['message'])} (seed {case.seed})"] += 1
    replies = iter(batch(given.bin / "hg-run", jobs, given.folder))
    for case in kept:
        for r, (values, _, want) in enumerate(case.runs):
            reply, out = next(replies), case.path / f"out{r}"
            if reply["status"] != "ok":
                stopped[f"{case.name}: {short(reply['message'])} (seed {case.seed}, {values})"] += 1
                continue
            names = [f"output_{i}" for i in range(len(want))]
            files = [out / f"{name}.npy" for name in names]
            if not all(file.exists() for file in files):
                files = sorted(out.glob("*.npy"))
            got = [np.load(file) for file in files]
            if len(got) == len(want) and all(is_same(g, w) for g, w in zip(got, want)):
                equal += 1
            else:
                wrong.append(f"seed {case.seed}: {case.name} at {values}: {got} instead of {want}\n{case.text}"[:1500])
    print(f"{len(cases)} calls of {given.count} samples, {len(kept)} convert, {equal} runs equal, {len(wrong)} wrong")
    show("useless", useless, given.reasons if given.reasons > 20 else 3)
    show("refused", refused, given.reasons)
    show("mismatch", differing, given.reasons)
    show("stopped where PyTorch answers", stopped, given.reasons)
    print("\n".join(wrong[:10]))
    return 1 if wrong else 0


sys.exit(main())
