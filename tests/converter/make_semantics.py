# SPDX-License-Identifier: Apache-2.0
"""Writes small modules that use TorchScript the way people do, each with what hg-convert must say.

Usage: make_semantics.py FOLDER. Every line of FOLDER/cases.txt has, between tabs: the file, the exit
code, words of the message, and the --input options. Converting proves the result at two sizes, and
with two runs where there is state, so exit code 0 means that it equals libtorch's. Writes nothing
but a file `skipped` where torch is missing.
"""
import math
import sys
import warnings
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
try:
    import torch
except ImportError:
    (folder / "skipped").write_text("this Python has no torch\n")
    sys.exit(0)

import torch.nn.functional as F
from torch import nn

warnings.simplefilter("ignore")
T = torch.Tensor
lines = []


def case(*inputs, exit=0, words=""):
    """Scripts the module; without inputs it takes one matrix of n rows."""

    def write(module):
        name = module.__name__ + ".pt"
        torch.manual_seed(0)
        torch.jit.script(module().eval()).save(str(folder / name))
        options = inputs or ("f32[n,4]",)
        lines.append("\t".join([name, str(exit), words, *options]))
        return module

    return write


# Control flow.


@case()
class EarlyReturn(nn.Module):
    def forward(self, x: T) -> T:
        if x.size(0) > 100:
            return x * 2
        if x.sum() > 0:
            return x + 1
        return x - 1


@case()
class WhileOverData(nn.Module):
    def forward(self, x: T):
        i = 0
        while bool(x.abs().sum() < 100):
            x = x * 2
            i += 1
        return x, i


@case()
class WritesInBranches(nn.Module):
    def forward(self, x: T):
        y = x.clone()
        if bool(x.sum() > 0):
            y[:, 1:3] += 1
            y[0] = 5
        else:
            y.mul_(3)
        return y


@case()
class ModulesInLists(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.heads = nn.ModuleDict({"a": nn.Linear(4, 2), "b": nn.Linear(4, 3)})

    def forward(self, x: T):
        for i, layer in enumerate(self.layers):
            x = layer(x) + i
        outs: List[T] = []
        for name, head in self.heads.items():
            outs.append(head(x))
        return torch.cat(outs, 1)


@case()
class Forked(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: T):
        calls: List[torch.jit.Future[T]] = []
        for i in range(2):
            calls.append(torch.jit.fork(self.layer, x * i))
        other = torch.jit.fork(F.relu, x)
        return torch.stack([torch.jit.wait(c) for c in calls]) + torch.jit.wait(other)


# Inputs and outputs.


@case("a:f32[n,4]", "b:f32[n,4]")
class TupleInput(nn.Module):
    def forward(self, x: Tuple[T, T]):
        return {"sum": x[0] + x[1], "difference": x[0] - x[1]}


@case("u:f32[n,4]", "v:f32[n,4]")
class DictInput(nn.Module):
    def forward(self, x: Dict[str, T]):
        return x["u"] * 2 + x["v"], (x["u"], [x["v"]])


class Pair(NamedTuple):
    a: torch.Tensor
    b: torch.Tensor


@case("a:f32[n,4]", "b:f32[n,4]")
class NamedTupleInput(nn.Module):
    def forward(self, x: Pair) -> Pair:
        return Pair(x.a - x.b, x.b * 2)


@case()
class OptionalLeftOut(nn.Module):
    def forward(self, x: T, mask: Optional[T] = None, scale: float = 2.0):
        if mask is not None:
            x = x * mask
        return x * scale


@case("f32[n,4]", "f32[n,4]")
class OptionalGiven(OptionalLeftOut):
    pass


# Python's values.


@torch.jit.script
class Accumulator(object):
    def __init__(self, x: torch.Tensor, k: int):
        self.x = x
        self.k = k

    def add(self, other: torch.Tensor) -> torch.Tensor:
        self.x = self.x + other
        self.k += 1
        return self.x * self.k


@case()
class ScriptedClass(nn.Module):
    def forward(self, x: T):
        p = Accumulator(x, 3)
        a = p.add(x)
        b = p.add(a)
        return a, b, p.x


@case()
class Lists(nn.Module):
    def forward(self, x: T):
        parts = [x * i for i in range(3)]
        sums = [a + b for a, b in zip(parts, parts[1:])]
        columns = torch.jit.annotate(List[T], [])
        for i in range(x.size(1)):
            columns.append(x[:, i])
        columns.insert(0, x[:, -1])
        taken = columns.pop(1)
        columns.reverse()
        columns.extend([taken, taken])
        numbers = [3, 1, 2]
        numbers.sort()
        return torch.stack(sums), torch.stack(columns[1:-1], 1), numbers[-1] + len(columns)


@case()
class Dicts(nn.Module):
    def forward(self, x: T):
        d = {"a": 1, "b": 2}
        d["c"] = 3
        v = d.pop("a")
        total = v
        for key, value in d.items():
            total += value
        if "a" in d:
            total += 100
        return x * total, d.get("zz", 9)


@case()
class Integers(nn.Module):
    def forward(self, x: T):
        n = x.size(0)
        a = (-7 // 2, -7 % 3, 7 // -2, 7 % -3, (-n) // 3, (-n) % 3, -n // 2, (n - 3) % 2)
        b = (n / 2, int(n / 2), round(2.5), 2**3, -7.5 // 2, -7.5 % 2, math.sqrt(n))
        c = (1 << n, n & 3, n ^ 5, math.gcd(n, 6), n**2, min(n, 4), int(-3.7), n > 3)
        return x, a, b, c


@case(exit=3, words="division by zero")
class DivisionByZero(nn.Module):
    def forward(self, x: T):
        return x * (3 % (x.size(1) - 4))


@case("f32[4]", "i64[]=1..5")
class NumbersOfData(nn.Module):
    def forward(self, x: T, k: T):
        i = int(k)
        return x * (7 // i) + (-7 % i), -7 // i, min([i, 3]), sum([i, 2])


@case()
class Texts(nn.Module):
    def forward(self, x: T):
        assert x.dim() == 2, "dim {}".format(x.dim())
        print("x", x.shape)
        if "{}-{}".format(1, 2) == "1-2":
            x = x + 1
        assert bool((x == x).all()), "nan"
        return x


@case()
class Refined(nn.Module):
    def forward(self, x: T, y: Optional[T] = None):
        if torch.jit.isinstance(y, T):
            return x + y
        return x


@case("f32[6,4]", "i64[]=1..5")
class SizesOfData(nn.Module):
    def forward(self, x: T, k: T):
        i = int(k)
        j = int(k.item())
        heads = (x[:i] * i, x[i:], x[:-i], x[i - 1], x[i - 2 : i + 1])
        return heads, torch.zeros(i, 2), torch.arange(i + 2), x.narrow(0, i, 1), x[:i].view(j, 2, 2)


@case("f32[4,3]", "i64[3]=1..4")
class MasksOfLengths(nn.Module):
    def forward(self, x: T, lengths: T):
        m = int(lengths.max())
        mask = torch.arange(m)[None, :] < lengths[:, None]
        return mask, x[:m], F.pad(x, (0, m - 1)), x.new_full((m, 2), 3.0), x.repeat(1, m)


@case("f32[6]", "i64[3]=1..2")
class SizesInLists(nn.Module):
    def forward(self, x: T, k: T):
        sizes: List[int] = k.tolist()
        total = sizes[0] + sizes[1] + sizes[2]
        return torch.split(x[:total], sizes)[0], x.narrow(0, sizes[0], 2)


@case("x:f32[n,4]", "s:f32[3]")
class SizesFromOutside(nn.Module):
    def forward(self, x: T, s: T):
        n = x.size(0)
        found = (x > 0).nonzero().size(0)
        y = s
        while bool(y.sum() > -100):
            y = y - torch.ones(n, 3).sum(0)
        z = s
        if bool(s.sum() > 0):
            z = torch.ones(found, 3).sum(0) + torch.ones((s > 0).nonzero().size(0), 3).sum(0)
        return y, z, torch.arange(found), x[:found], x[found:]


@case("f32[2,7]")
class WritesAtNumbersOfData(nn.Module):
    def forward(self, x: T):
        out = torch.zeros(2, 5, dtype=torch.long)
        done = torch.zeros(2, dtype=torch.bool)
        i = 0
        while i < 5 and not bool(done.all()):
            token = x.argmax(-1)
            out[:, i] = torch.where(done, torch.zeros_like(token), token)
            x.narrow(1, i, 2).mul_(2)
            done = done | (token == 2)
            x = torch.roll(x, 1, -1)
            i += 1
        return out, i


@case("f32[40,10]")
class PartsThatReadEarlierOnes(nn.Module):
    """As detection models choose boxes: each class has sizes of its own."""

    def forward(self, x: T):
        scores: List[T] = []
        boxes: List[T] = []
        p = x[:, :6].softmax(-1)
        for c in range(1, 6):
            keep = p[:, c] > 0.05
            best, at = p[:, c][keep].topk(2)
            scores.append(best)
            boxes.append((x[:, -4:] * 2)[keep][at])
        return torch.cat(scores), torch.cat(boxes)


@case("i64[1,n]=0..9")
class GreedyWords(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(10, 8)
        self.head = nn.Linear(8, 10)

    def forward(self, ids: T):
        i = 0
        while i < 6:
            scores = self.head(self.words(ids).mean(1))
            word = scores.argmax(-1, keepdim=True)
            ids = torch.cat([ids, word], 1)
            i += 1
            if bool((word == 3).all()):
                break
        return ids, i


@case("i64[1,n]=0..9")
class BeamOfWords(GreedyWords):
    def forward(self, ids: T):
        beams = ids.repeat(3, 1)
        scores = torch.zeros(3)
        scores[1:] = -1e9
        done = torch.zeros(3, dtype=torch.bool)
        step = 0
        while step < 4 and not bool(done.all()):
            p = F.log_softmax(self.head(self.words(beams[:, -1])), -1)
            p = torch.where(done.unsqueeze(1), p - 100, p)
            scores, at = (scores.unsqueeze(1) + p).view(-1).topk(3)
            parent = torch.div(at, 10, rounding_mode="floor")
            word = at % 10
            beams = torch.cat([beams[parent], word.unsqueeze(1)], 1)
            done = done[parent] | (word == 0)
            step += 1
        return beams, scores


@case("f32[n,4]")
class ResultsOfLoopsOverData(nn.Module):
    def forward(self, x: T):
        found = (x[:, 0] > 0).nonzero().squeeze(1)
        rows = torch.zeros(0, 4)
        for i in range(found.size(0)):
            rows = torch.cat([rows, x[found[i]].unsqueeze(0) * i])
        return rows, rows.sum(0)


@case("f32[u0,4]")
class SymbolOfTheUser(nn.Module):
    def forward(self, x: T):
        found = (x > 0).nonzero()
        return x[: found.size(0)], found


# Memory that tensors share.


@case()
class State(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: T):
        self.count += 1
        self.mean = self.mean * 0.9 + x.mean(0) * 0.1
        return x + self.mean, self.count.clone()


@case()
class WritesThroughViews(nn.Module):
    def forward(self, x: T):
        y = x.clone()
        y[:, 1:3] += 10
        y.t()[0].copy_(y[:, 1])
        y[:, 3][0] = 7
        v = y[:, 1:][:, :2]
        v.mul_(2)
        v[0].fill_(3)
        a, b = y.chunk(2, 1)
        a.add_(1)
        for i, column in enumerate(y.unbind(1)):
            column.sub_(i)
        y.detach()[0] = 1
        y[:, 1:] = y[:, :-1].clone()
        return y, v


@case()
class WritesToInputs(nn.Module):
    def forward(self, x: T):
        x.add_(1)
        y = x * 2
        x[0] = 0
        return x, y


@case()
class ReshapesThatShare(nn.Module):
    def forward(self, x: T):
        y = x.clone()
        y.reshape(-1)[1] = 100
        y.flatten()[2] = 50
        y.view(-1, 2, 2)[:, 0].add_(1)
        y.contiguous()[0] = 3
        z = F.dropout(y, 0.5, False)
        z[:, 1] = 8
        return y


@case("f32[n,3,4]")
class ReshapesThatCopy(nn.Module):
    def forward(self, x: T):
        y = x.clone()
        z = y.transpose(1, 2).reshape(-1, 12)
        z.add_(5)
        w = y[:, :, 1:3].flatten()
        w.zero_()
        c = y.transpose(1, 2).contiguous()
        y.mul_(2)
        return y, z, w, c


@case(exit=3, words="decide whether the two share memory")
class ReshapesThatMayCopy(nn.Module):
    def forward(self, x: T):
        y = x.clone()
        y.t().contiguous().zero_()
        return y


@case()
class NewShapesInPlace(nn.Module):
    def forward(self, x: T):
        y = x.clone()
        z = y.view(-1)
        y.unsqueeze_(1)
        z[0] = 9
        y.add_(1)
        w = y
        y.squeeze_(1)
        t = x.clone().t_()
        return y, z, w.dim(), t, x.clone().transpose_(0, 1)


@case()
class KnownNumbersWritten(nn.Module):
    def forward(self, x: T):
        k = torch.tensor([1, 2, 3, 4])
        k[0] = 5
        k.view(2, 2)[1, 1] = 7
        k[1:3].mul_(2)
        return x * k, k


@case(exit=3, words="expand")
class WritesToExpanded(nn.Module):
    def forward(self, x: T):
        y = x[0].clone().unsqueeze(0).expand(3, 4)
        y.add_(1)
        return y


@case("f32[n,3,4]")
class Strides(nn.Module):
    def forward(self, x: T):
        y = x.transpose(1, 2)
        return (x.stride(0), y.stride(1), y.is_contiguous(), x[:, 1:].storage_offset(),
                x[1:].is_contiguous(), y.reshape(-1).is_contiguous())


@case()
class OutArguments(nn.Module):
    def forward(self, x: T):
        o = torch.empty_like(x)
        torch.add(x, x, out=o)
        torch.sub(x[:, 0], 1, out=o[:, 1])
        q = torch.zeros_like(x)
        torch.cumsum(x, 0, out=q)
        return o, q


# Arguments of ops.


@case("f32[n,9]", "i64[2]=0..9")
class PartsByData(nn.Module):
    def forward(self, x: T, cuts: T):
        return torch.tensor_split(x, cuts, dim=1)


@case("i64[]", exit=3, words="tensor_indices_or_sections")
class SectionsByData(nn.Module):
    def forward(self, sections: T):
        return torch.tensor_split(torch.ones(4), sections)


@case("f32[n,40]")
class WideUnfold(nn.Module):
    def forward(self, x: T):
        return x.unfold(1, 2, 7), x.unfold(-1, 40, 1).unfold(0, 1, 2)


@case("f32[9,4]", "i64[n]=0..9", "i64[3]=0..1")
class BagsWithALastOffset(nn.Module):
    def forward(self, weight: T, rows: T, offsets: T):
        mean = F.embedding_bag(rows, weight, offsets, mode="mean", include_last_offset=True)
        return mean, F.embedding_bag(rows, weight, offsets, mode="sum", include_last_offset=True)


if not torch.__version__.startswith("1."):  # where libtorch itself writes out of bounds

    @case("f32[9,4]", "i64[n]=0..9", "i64[3]=0..1")
    class LargestOfBagsWithALastOffset(nn.Module):
        def forward(self, weight: T, rows: T, offsets: T):
            return F.embedding_bag(rows, weight, offsets, mode="max", include_last_offset=True)


@case("f32[n,4]")
class PlacesFromTheEnd(nn.Module):
    def forward(self, x: T):
        halves = torch.div((x * 100).to(torch.int16), x.half() + 9, rounding_mode="trunc")
        return x.index_fill(1, torch.tensor([-1, 0]), 2.), halves


@case("f32[n,3,3]=0.1..1", "f32[n,3,2]")
class Systems(nn.Module):
    def forward(self, x: T, b: T):
        a = x @ x.transpose(1, 2) + 2 * torch.eye(3)
        l = torch.linalg.cholesky(a)
        return (torch.linalg.solve(a, b), torch.inverse(a) @ b[0], torch.cholesky_solve(b, l),
                torch.linalg.solve_triangular(l, b, upper=False), torch.linalg.det(x),
                torch.slogdet(a)[1], torch.logdet(a), torch.linalg.matrix_power(a, -2),
                torch.linalg.solve(a, b[:, :, 0]), torch.linalg.inv_ex(a)[1])


@case("f32[n,4,3]")
class SingularValues(nn.Module):
    def forward(self, x: T):
        u, s, vh = torch.linalg.svd(x, full_matrices=False)
        w, v = torch.linalg.eigh(x.transpose(1, 2) @ x)
        q, r = torch.linalg.qr(x)
        return (u * s.unsqueeze(1) @ vh, s, w, v.abs(), q @ r, torch.linalg.pinv(x), r,
                torch.linalg.matrix_norm(x, 2), torch.linalg.matrix_norm(x, "nuc", keepdim=True),
                torch.linalg.matrix_norm(x, -2, dim=(2, 0)), torch.linalg.matrix_rank(x))


@case("f32[4,3]", exit=3, words="full_matrices")
class FullSingularVectors(nn.Module):
    def forward(self, x: T):
        return torch.linalg.svd(x)[0]


@case("f32[5,n]")
class Statistics(nn.Module):
    def forward(self, x: T):
        return (torch.trapezoid(x, dim=0), torch.cumulative_trapezoid(x, dx=0.5), torch.cov(x),
                torch.corrcoef(x), torch.cov(x, correction=0), torch.pdist(x), torch.angle(x),
                torch.renorm(x, 2, 0, 0.5), torch.combinations(x[:, 0], 2),
                torch.fft.fftshift(x), torch.fft.ifftshift(x, dim=0), x.sum_to_size(5, 1))


@case("f32[3,n]=0.1..1")
class Drawn(nn.Module):
    def forward(self, x: T):
        some = torch.multinomial(x, 2)
        many = torch.multinomial(x, 9, replacement=True)
        return ((some >= 0) & (some < x.size(1)), some[:, 0] != some[:, 1],
                many.max() < x.size(1), F.alpha_dropout(x, 0.5, training=True).size(),
                F.rrelu(x, training=True))


@case("f32[n,2,9,7]", "f32[n,2,2]=0..1", "f32[2,6,7,5]", "f32[1,2,3]=0..1")
class FractionalPools(nn.Module):
    def forward(self, x: T, u: T, y: T, v: T):
        plane = torch.ops.aten.fractional_max_pool2d(x, [2, 3], [4, 3], u)
        space = torch.ops.aten.fractional_max_pool3d(y, [2, 2, 1], [3, 1, 4], v)
        return plane[0], plane[1], space[0], space[1]


@case("f32[n,t,4]", exit=3, words="--dim t=7")
class StatesOfALoop(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, 5)

    def forward(self, x: T):
        h, states = torch.zeros(x.size(0), 5), torch.jit.annotate(List[T], [])
        for step in range(x.size(1)):
            h = self.cell(x[:, step], h)
            states.append(h)
        return torch.stack(states, 1)


@case("f32[n,t,4]")
class LastStateOfALoop(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, 5)

    def forward(self, x: T):
        h, states = torch.zeros(x.size(0), 5), torch.zeros(x.size(0), x.size(1), 5)
        for step in range(x.size(1)):
            h = self.cell(x[:, step], h)
            states[:, step] = h
        return h, states


(folder / "cases.txt").write_text("".join(line + "\n" for line in lines))
