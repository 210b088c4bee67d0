# SPDX-License-Identifier: Apache-2.0
"""Memory layout of results: compares the strides that hg-convert knows with PyTorch.

  python3 tests/converter/layouts.py build/bin FOLDER [--programs 12] [--seed 1] [--unknown]

Every program calls all ops on tensors that are permuted, sliced, expanded or broadcast, and asks whether each result is contiguous,
and for its strides. Unknown answers are rejected with their line and left out; known answers must be PyTorch's at n = 0, 1, 2 and
3. `--unknown` lists the unknown ones.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path

try:
    import numpy as np
    import torch
except ImportError:
    print("no Python with torch and numpy: the layouts are left out")
    sys.exit(77)

# The type of an input, and an expression that turns it into [n,3,4].
FULL = {
    "rows": ("f32[n,3,4]", "{}"),
    "swapped": ("f32[n,4,3]", "{}.transpose(1, 2)"),
    "turned": ("f32[4,3,n]", "{}.permute(2, 1, 0)"),
    "cycled": ("f32[3,4,n]", "{}.permute(2, 0, 1)"),
    "moved": ("f32[3,n,4]", "{}.transpose(0, 1)"),
    "sliced": ("f32[n,3,8]", "{}[:, :, ::2]"),
    "cut": ("f32[4,n,5]", "{}.permute(1, 2, 0)[:, 1:4]"),
    "expanded": ("f32[n,1,4]", "{}.expand(-1, 3, -1)"),
    "stretched": ("f32[4,n]", "{}.t().unsqueeze(1).expand(-1, 3, -1)"),
}
# Expressions that broadcast to it.
PART = {
    "row": ("f32[4]", "{}"),
    "column": ("f32[3,1]", "{}"),
    "matrix": ("f32[4,3]", "{}.t()"),
    "first": ("f32[n,1,1]", "{}"),
    "outer": ("f32[4,n,1]", "{}.permute(1, 2, 0)"),
    "number": ("f32[]", "{}"),
}
UNARY = """-a|a + 1|a * 2.5|1 - a|a > 0|a.abs()|a.exp()|torch.relu(a)|a.sigmoid()|a.tanh()|torch.nn.functional.gelu(a)|a.clone()
a.contiguous()|a.clamp(min=0)|a.clamp(-1, 1)|a.double()|a.long()|a.to(torch.float64)|a.float()|torch.zeros_like(a)|torch.ones_like(a)
torch.full_like(a, 2)|torch.empty_like(a).fill_(1)|a.softmax(1)|a.log_softmax(-1)|torch.nn.functional.softplus(a)|a.pow(2)|a ** 3|a.sqrt()
torch.nn.functional.leaky_relu(a)|torch.nn.functional.silu(a)|torch.nn.functional.elu(a)|torch.nn.functional.hardswish(a)|a.masked_fill(a > 0, 1.)
a.isnan()|a.floor()|a.round()|a.sign()|a.logical_not()|a.flip(1)|a.roll(1, 1)|a.cumsum(1)|a.cumprod(2)|a.sort(1)[0]|a.sort(2)[1]|a.argsort(1)
a.topk(2, 1)[0]|a.topk(2, 2)[1]|a.sum(1)|a.sum(0, keepdim=True)|a.mean(2)|a.mean((0, 2), keepdim=True)|a.amax(1)|a.max(1)[0]|a.min(2)[1]|a.argmax(1)
a.var(1)|a.std(2)|a.prod(1)|a.norm(dim=1)|a.logsumexp(1)|a.all(1)|a.any(2)|a.repeat(1, 2, 1)|a.tile((2,))|a.tril()|a.triu()|a[:, [0, 2]]|a[[0]]
a.index_select(1, torch.tensor([0, 2]))|a.gather(1, torch.zeros_like(a).long())|torch.cat([a, a], 1)|torch.cat([a, a], 0)|torch.stack([a, a])
torch.stack([a, a], -1)|a.repeat_interleave(2, 1)|torch.nn.functional.pad(a, (1, 1))|torch.nn.functional.pad(a, (1, 1), "reflect")
torch.nn.functional.layer_norm(a, (4,))|torch.nn.functional.normalize(a, dim=1)|torch.nn.functional.dropout(a, 0.5, False)|a.nan_to_num()
torch.matmul(a, torch.ones(4, 5))|torch.matmul(torch.ones(5, 3), a)|torch.matmul(a, torch.ones(4))|torch.nn.functional.linear(a, torch.ones(5, 4))
torch.bmm(a, a.transpose(1, 2))|a @ a.transpose(1, 2)|a[0] @ a[0].t()|torch.einsum("nij,kj->nik", a, torch.ones(2, 4))|torch.tensordot(a, torch.ones(4, 2), 1)
a.unfold(2, 2, 1) + 1|a.diff(dim=1)|torch.where(a > 0, a, 0.)|torch.nn.functional.one_hot((a > 0).long(), 2)|a.square()|a.reciprocal()|a.rsqrt()
a.type_as(torch.ones(1, dtype=torch.float64))|torch.nn.functional.relu6(a)|torch.nn.functional.mish(a)|torch.logit(a)|torch.nn.functional.logsigmoid(a)
torch.nn.functional.softshrink(a)|torch.nn.functional.hardtanh(a)|torch.erf(a)|torch.nn.functional.threshold(a, 0., 1.)|a.scatter(1, torch.zeros_like(a).long(), 1.)
a.index_add(1, torch.tensor([0]), a[:, :1])|a.index_fill(1, torch.tensor([0]), 1.)|torch.nn.functional.glu(a, 2)|a.new_zeros(a.shape)|a.median(1)[0]
a.clone(memory_format=torch.contiguous_format)|a.cummax(1)[0]|torch.nn.functional.group_norm(a, 3)|torch.nn.functional.instance_norm(a)
torch.nn.functional.batch_norm(a, torch.ones(3), torch.ones(3))|torch.nn.functional.avg_pool1d(a, 2)|torch.nn.functional.max_pool1d(a, 2)
torch.nn.functional.adaptive_avg_pool1d(a, 2)|torch.nn.functional.conv1d(a, torch.ones(2, 3, 1))|torch.nn.functional.interpolate(a, scale_factor=2.0)
torch.nn.functional.prelu(a, torch.ones(3))|torch.nn.functional.prelu(a, torch.ones(1))|torch.frac(a)|torch.fmod(a, 2)|a % 2|torch.addcmul(a, a, a)|torch.lerp(a, a, 0.5)
torch.nan_to_num(a)|torch.logcumsumexp(a, 1)|torch.rot90(a, 1, (1, 2))|torch.movedim(a, 0, 1) * 2|a.transpose(0, 2).exp()|a.mT + 1|a[:, 1:] * 2|a[:, :, 0] + 1
torch.nn.functional.embedding((a > 0).long(), torch.ones(2, 3))|torch.bucketize(a, torch.ones(2))|torch.count_nonzero(a, 1)|torch.nn.functional.softmin(a, 1)
torch.nn.functional.scaled_dot_product_attention(a, a, a)|torch.cdist(a, a)|torch.linalg.norm(a, dim=1)|torch.linalg.vector_norm(a, dim=2)|a.aminmax(dim=1)[0]
torch.special.expit(a)|torch.bitwise_not((a > 0))|(a > 0) & (a < 1)|torch.isclose(a, a)|torch.heaviside(a, a)|a.kthvalue(1, 1)[0]|a.quantile(0.5, 1)
torch.zeros([3, 4])|torch.arange(4)[:, None] + torch.zeros(3)|a.exp_()|a.clone().mul_(2)|a.bernoulli() * 0|torch.rand_like(a) * 0|a.nonzero()|a[a > 0]
a.cummin(1)[1]|a.topk(1, 1)[1]|a.kthvalue(1, 1)[1]|a.median(1, True)[1]|a.nanmedian(1, True)[0]|a.tile((2, 1, 1, 1))|a.repeat(2, 1, 1, 1)|a.repeat_interleave(2)|a.roll(1)|a.sort(0, descending=True)[0]|a.msort()
a.scatter_add(1, torch.zeros_like(a).long(), a)|a.scatter_reduce(1, torch.zeros_like(a).long(), a, "amax")|a.index_copy(1, torch.tensor([0]), a[:, :1])|a.new_full([3, 4], 2)
a.std(0, True)|a.amin(1, True)|a.sum()|a.std((1, 2))|a.norm()|a.norm(2, [1], True)|a.nansum(1)|torch.std_mean(a, 1)[1]|torch.var_mean(a, 1, keepdim=True)[0]|a.max(1, True)[1]
a.matmul(torch.ones(4, 2))|torch.matmul(torch.ones(3), a)|torch.matmul(a[0], torch.ones(4))|torch.matmul(a.unsqueeze(1), a.mT)|torch.linalg.matmul(a, a.mT)|a.fliplr()|a.half()|a.int()|a.to(torch.int32)"""
UNARY = [each for line in UNARY.splitlines() for each in line.split("|")]
BINARY = """a + b|a - b|a * b|a / b|torch.maximum(a, b)|a > b|a == b|torch.where(a > 0, a, b)|torch.where(b > 0, a, b)|torch.pow(a, b)|torch.atan2(a, b)|a.double() + b
a + b.double()|a.long() + b|a.long() // b.long().clamp(min=1)|a.long() / b.long()|torch.lerp(a, b, 0.5)|torch.lerp(a, b, a)|torch.addcmul(a, b, b)|torch.addcmul(b, a, b)
torch.addcdiv(a, b, a)|torch.clamp(a, b, b)|torch.clamp(a, max=b)|torch.rsub(a, b)|torch.logical_and(a > 0, b > 0)|torch.fmod(a, b)|a % b|torch.floor_divide(a, b)
torch.nn.functional.mse_loss(a, b.expand_as(a), reduction="none")|torch.nn.functional.l1_loss(a, b.expand_as(a), reduction="none")|torch.hypot(a, b)|torch.fmax(a, b)
torch.nn.functional.smooth_l1_loss(a, b.expand_as(a), reduction="none")|torch.dist(a, b)|a.masked_fill(b > 0, 1.)|torch.xlogy(a, b)|torch.copysign(a, b)
torch.logaddexp(a, b)|torch.isclose(a, b)|torch.ge(a, b)|torch.sub(a, b, alpha=2)|a.copy_(b)|a.clone().add_(b)|torch.cross(a.transpose(1, 2), b.expand_as(a).transpose(1, 2), dim=2)
torch.cat([a, b.expand_as(a)], 1)|torch.stack([a, b.expand_as(a)], 1)|torch.remainder(a, b)|torch.true_divide(a, b)|torch.nextafter(a, b)|torch.heaviside(a, b)|torch.eq(a, b)
torch.nn.functional.binary_cross_entropy_with_logits(a, b.expand_as(a), reduction="none")|torch.cdist(a, b.expand_as(a))|a.to(b.dtype)|torch.matmul(a, b.expand_as(a).transpose(1, 2))"""
BINARY = [each for line in BINARY.splitlines() for each in line.split("|")]


def program(texts, views):
    """Returns the source, and the text of each line that queries a layout."""
    lines = [f"def forward({', '.join(f'{name}_: Tensor' for name in views)}):"]
    lines += [f"    {name} = {view.format(name + '_')}" for name, view in views.items()]
    asked = {}
    lines += ["    asked: List[int] = []"]
    for text in texts:
        lines += [f"    y = {text}", "    asked += [int(y.is_contiguous())]"]
        asked[len(lines)] = (text, "is_contiguous")
        lines += ["    asked += y.stride()"]
        asked[len(lines)] = (text, "stride")
    return "\n".join([*lines, "    return asked", ""]), asked


def without(source, dropped):
    lines = source.splitlines()
    return "\n".join("" if number + 1 in dropped else line for number, line in enumerate(lines)) + "\n"


def sizes_of(kind, n):
    inside = kind[kind.index("[") + 1:-1]
    return [n if each == "n" else int(each) for each in inside.split(",") if each]


def compiled(source):
    return torch.jit.CompilationUnit(source).forward


def answers(function, inputs):
    return [int(each) for each in function(*[each.clone() for each in inputs])]


def usable(texts, views, inputs):
    """Returns the texts that PyTorch accepts at every size."""
    good = []
    for text in texts:
        try:
            function = compiled(program([text], views)[0])
            for tensors in inputs.values():
                answers(function, tensors)
            good.append(text)
        except Exception:  # noqa: BLE001: whatever PyTorch raises
            continue
    return good


def ended(tool, *arguments):
    return subprocess.run([tool, *map(str, arguments)], capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})


def is_layout(refusal):
    return "memory layout" in refusal["reason"] or "strides that are not all known" in refusal["reason"]


def check(options, folder, texts, views, types):
    """Returns counts, and messages about wrong results."""
    folder.mkdir(parents=True, exist_ok=True)
    inputs = {n: [torch.rand(sizes_of(each, n)) + 1 for each in types] for n in (0, 1, 2, 3)}
    texts = usable(texts, views, inputs)
    source, asked = program(texts, views)
    unknown = Counter()
    for _ in range(3):
        function = compiled(source)
        function.save(str(folder / "model.pt"))
        given = [argument for each in types for argument in ("--input", each)]
        done = ended(options.bin / "hg-convert", folder / "model.pt", "-o", folder / "model.hgm", "--no-check", "--json", folder / "report.json", *given)
        if done.returncode == 0:
            break
        dropped = set()
        for each in json.loads((folder / "report.json").read_text())["unsupported"]:
            line = int(each["source"].split(":")[1])
            line += 0 if line in asked else 1
            text, what = asked[line]
            unknown[text, what if is_layout(each) else each["reason"]] += 1
            dropped |= {line} if line in asked and is_layout(each) else {line - 1, line, line + 1}
        source = without(source, dropped)
        asked = {line: each for line, each in asked.items() if line not in dropped}
    else:
        return Counter(), unknown, [f"{types}: {done.stderr}"]
    wrong = []
    for n, tensors in inputs.items():
        files = []
        for k, tensor in enumerate(tensors):
            np.save(folder / f"in_{k}.npy", tensor.numpy())
            files += ["--input", folder / f"in_{k}.npy"]
        out = folder / f"out_{n}"
        done = ended(options.bin / "hg-run", folder / "model.hgm", "--output-dir", out, *files)
        if done.returncode != 0:
            wrong.append(f"{types} at n = {n}: {done.stderr}")
            continue
        wanted = answers(function, tensors)
        found = [int(np.load(out / f"output_{k}.npy")) for k in range(len(wanted))]
        # Each number belongs to a line: is_contiguous has one, stride has one per dim.
        at = 0
        for line, (text, what) in asked.items():
            count = 1 if what == "is_contiguous" else int(ranks(text, views, tensors))
            # Strides of empty tensors are meaningless.
            if found[at:at + count] != wanted[at:at + count] and (n > 0 or what == "is_contiguous"):
                wrong.append(f"{types} {list(views.values())} at n = {n}: {what} of {text} is {found[at:at + count]} instead of {wanted[at:at + count]}")
            at += count
    return Counter(asked.values()), unknown, wrong


def ranks(text, views, tensors, kept={}):
    key = text, tuple(views.values())
    if key not in kept:
        lines = [f"def forward({', '.join(f'{name}_: Tensor' for name in views)}):"]
        lines += [f"    {name} = {view.format(name + '_')}" for name, view in views.items()]
        kept[key] = compiled("\n".join([*lines, f"    y = {text}", "    return y.dim()", ""]))(*[each.clone() for each in tensors])
    return kept[key]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--programs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--unknown", action="store_true")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    known, unknown, wrong = Counter(), Counter(), []
    for number in range(options.programs):
        first = list(FULL.values())[number % len(FULL)]
        second = rng.choice(list({**FULL, **PART}.values()))
        if rng.random() < 0.3:
            first, second = second, first
        types = [first[0], second[0]]
        a, b, c = check(options, options.folder / str(number), UNARY + BINARY, {"a": first[1], "b": second[1]}, types)
        known += a
        unknown += b
        wrong += c
    for sentence in wrong:
        print(sentence)
    print(f"{known.total()} answers known, {unknown.total()} not, {len(wrong)} wrong")
    if options.unknown:
        for (text, why), count in sorted(unknown.items(), key=lambda each: (each[0][1], each[0][0])):
            print(f"  {count:4} {text}: {why}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
