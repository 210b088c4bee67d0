# SPDX-License-Identifier: Apache-2.0
"""Inputs, outputs and Python values."""
import enum
import math
from typing import Dict, List, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import nn

from semantics.case import T, case


class Kind(enum.Enum):
    FIRST = "first"
    SECOND = "second"


@case()
class Enums(nn.Module):
    def __init__(self):
        super().__init__()
        self.kind = Kind.SECOND

    def forward(self, x: T):
        if self.kind != Kind.FIRST:
            x = x * 2
        return x + 1 if self.kind == Kind.SECOND else x


@case("a:f32[n,4]", "b:f32[n,4]")
def tuple_input(self, x: Tuple[T, T]):
    return {"sum": x[0] + x[1], "difference": x[0] - x[1]}


@case("u:f32[n,4]", "v:f32[n,4]")
def dict_input(self, x: Dict[str, T]):
    return x["u"] * 2 + x["v"], (x["u"], [x["v"]])


class Pair(NamedTuple):
    a: torch.Tensor
    b: torch.Tensor


@case("a:f32[n,4]", "b:f32[n,4]")
def named_tuple_input(self, x: Pair) -> Pair:
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


# Python values.


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
def scripted_class(self, x: T):
    p = Accumulator(x, 3)
    a = p.add(x)
    b = p.add(a)
    return a, b, p.x


@case()
def lists(self, x: T):
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
def dicts(self, x: T):
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
def integers(self, x: T):
    n = x.size(0)
    a = (-7 // 2, -7 % 3, 7 // -2, 7 % -3, (-n) // 3, (-n) % 3, -n // 2, (n - 3) % 2)
    b = (n / 2, int(n / 2), round(2.5), 2**3, -7.5 // 2, -7.5 % 2, math.sqrt(n))
    c = (1 << n, n & 3, n ^ 5, math.gcd(n, 6), n**2, min(n, 4), int(-3.7), n > 3)
    return x, a, b, c


@case(exit=3, words="division by zero")
def division_by_zero(self, x: T):
    return x * (3 % (x.size(1) - 4))


@case("f32[4]", "i64[]=1..5")
def numbers_of_data(self, x: T, k: T):
    i = int(k)
    return x * (7 // i) + (-7 % i), -7 // i, min([i, 3]), sum([i, 2])


@case()
def texts(self, x: T):
    assert x.dim() == 2, "dim {}".format(x.dim())
    print("x", x.shape)
    if "{}-{}".format(1, 2) == "1-2":
        x = x + 1
    assert bool((x == x).all()), "nan"
    return x


@case()
def refined(self, x: T, y: Optional[T] = None):
    if torch.jit.isinstance(y, T):
        return x + y
    return x


@case("f32[6,4]", "i64[]=1..5")
def sizes_of_data(self, x: T, k: T):
    i = int(k)
    j = int(k.item())
    heads = (x[:i] * i, x[i:], x[:-i], x[i - 1], x[i - 2 : i + 1])
    return heads, torch.zeros(i, 2), torch.arange(i + 2), x.narrow(0, i, 1), x[:i].view(j, 2, 2)


@case("f32[4,3]", "i64[3]=1..4")
def masks_of_lengths(self, x: T, lengths: T):
    m = int(lengths.max())
    mask = torch.arange(m)[None, :] < lengths[:, None]
    return mask, x[:m], F.pad(x, (0, m - 1)), x.new_full((m, 2), 3.0), x.repeat(1, m)


@case("f32[6]", "i64[3]=1..2")
def sizes_in_lists(self, x: T, k: T):
    sizes: List[int] = k.tolist()
    total = sizes[0] + sizes[1] + sizes[2]
    return torch.split(x[:total], sizes)[0], x.narrow(0, sizes[0], 2)


@case("x:f32[n,4]", "s:f32[3]")
def sizes_from_outside(self, x: T, s: T):
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
def writes_at_numbers_of_data(self, x: T):
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
    """As in detection models that choose boxes: sizes depend on the class."""

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
def results_of_loops_over_data(self, x: T):
    found = (x[:, 0] > 0).nonzero().squeeze(1)
    rows = torch.zeros(0, 4)
    for i in range(found.size(0)):
        rows = torch.cat([rows, x[found[i]].unsqueeze(0) * i])
    return rows, rows.sum(0)


@case("f32[u0,4]")
def symbol_of_the_user(self, x: T):
    found = (x > 0).nonzero()
    return x[: found.size(0)], found


@case("f32[n,4]", "i64[]=0..3", exit=3, words="which element of a dict is meant")
def keys_of_data_are_not_looked_up(self, x: T, k: T):
    places = {1: 2.0, 2: 3.0}
    if int(k) in places:
        return x + 1
    return x


@case("f32[n,4]", "i64[]=0..3")
def values_of_data_are_removed(self, x: T, k: T):
    places = [1, 2, int(k), 3]
    places.remove(3)
    return x * places[2]


@case("k:i64[n]=1..5")
def lists_hold_what_sizes_and_data_decide(self, k: T):
    total, half = int(k.sum()), float(k[0]) / 2
    found = [total in [4, 6, 8, 10], total not in [5, 7], half in [0.5, 1.5], k.size(0) in [1, 2]]
    found += [3 in [total, 3], k.size(0) in [k.size(0), total], "b" in ["a", "b"], 2.5 in [1.5]]
    if total in [3, 6, 9, 12]:
        return k * 2, found
    return k, found


class WithSettings(nn.Module):
    def forward(self, x: T, sr: int, mode: str, scale: float = 1.0, flip: bool = False, top: Optional[int] = None):
        y = x * (sr // 8000) * scale
        if mode in ["mean", "sum"]:
            y = y.mean(1) if mode == "mean" else y.sum(1)
        if flip:
            y = y.flip(0)
        return y if top is None else y[:top]


@case("f32[n,4]", constants=["sr=16000", "mode=mean", "scale=.5", "flip=true", "top=1"])
class EveryKindOfConstant(WithSettings):
    pass


@case("f32[n,4]", constants=["sr=16000", "mode=sum", "top=None"])
class ConstantsAndDefaults(WithSettings):
    pass


@case("f32[n,4]", "i64[]=8000..24000", constants=["mode="])
class AConstantBesideANumber(WithSettings):
    pass


@case("f32[n,4]", exit=1, words="--constant mode=", constants=["sr=16000"])
class AConstantIsMissing(WithSettings):
    pass


@case("f32[n,4]", exit=1, words="'fast' is no value of type int", constants=["sr=fast", "mode=sum"])
class AConstantOfAnotherType(WithSettings):
    pass


@case("f32[n,4]", exit=1, words="did you mean mode?", constants=["sr=1", "mod=sum"])
class AConstantOfAnotherName(WithSettings):
    pass


@case("f32[n,4]", exit=1, words="which takes an --input", constants=["x=1", "sr=1", "mode=sum"])
class ATensorAsConstant(WithSettings):
    pass


@case("f32[n,4]", constants=["sizes=[1, 3]", "pads=(1, 0)", "names=a,b"])
def constant_lists(self, x: T, sizes: List[int], pads: Tuple[int, int], names: List[str]):
    if names == ["a", "b"]:
        return [F.pad(y, pads) for y in x.split(sizes, 1)]
    return [x]


@case("x.0.0:f32[n,4]", "x.0.1:f32[n,4]", "x.1.0:f32[n,4]", "x.1.1:f32[n,4]")
def list_of_pairs(self, x: List[Tuple[T, T]]):
    total = x[0][0] * len(x)
    for a, b in x:
        total = total + a - 2 * b
    return total


@case("x.left.0:f32[n,4]", "x.left.1:f32[n,4]", "x.right.0:f32[n,4]", "y:f32[4]")
def dict_of_lists(self, x: Dict[str, List[T]], y: T):
    return x["left"][1] - x["right"][0] * y, len(x["left"]), [k for k in x.keys()] == ["left", "right"]


class State(NamedTuple):
    hidden: torch.Tensor
    cells: List[torch.Tensor]
    mask: Optional[torch.Tensor]


@case("state.hidden:f32[n,4]", "state.cells.0:f32[n,4]", "state.mask:f32[n,1]", "past.3:f32[n,4]", "past.7:f32[n,4]")
def named_fields_and_numbers(self, state: State, past: Dict[int, T]):
    y = state.hidden - state.cells[0] + past[7] * 2 - past[3]
    mask = state.mask
    return y if mask is None else y * mask


@case("state.hidden:f32[n,4]", "state.cells.0:f32[n,4]", "state.cells.1:f32[n,4]")
def a_field_is_left_out(self, state: State):
    y = state.hidden - state.cells[1]
    mask = state.mask
    return y if mask is None else y * mask


@case("x:f32[n,4]", "bias:f32[4]")
def an_optional_before_is_left_out(self, x: T, mask: Optional[T] = None, bias: Optional[T] = None):
    if mask is not None:
        x = x * mask
    return x if bias is None else x - bias


@case("x:f32[n,4]", "y:f32[n,4]")
def an_optional_between_is_left_out(self, x: T, mask: Optional[T], y: T):
    return x - y if mask is None else x * mask


@case("x.0.0:f32[n,4]", "x.1.0:f32[n,4]", exit=3, words="has no --input")
def a_pair_lacks_one(self, x: List[Tuple[T, T]]):
    return x[0][0]


@case("mask:f32[n,4]", "u:f32[n,4]", "y:f32[n,4]")
def a_key_is_the_name_of_an_argument(self, x: Dict[str, T], y: T, mask: Optional[T] = None):
    y = x["mask"] - 2 * x["u"] * y
    return y if mask is None else y * mask


@case()
def lists_that_branches_fill(self, x: T):
    found: List[T] = []
    sizes: List[int] = []
    if bool(x.sum() > 0):
        found.append(x)
        sizes.append(3)
    if bool(x.sum() < 5):
        found += [x + 1, x * 2]
    rows: List[T] = []
    for i in range(x.size(0)):
        if bool(x[i].sum() > 0):
            rows.append(x[i] * 2)
            sizes.append(i)
    total = x.sum(0)
    for row in rows:
        total = total + row
    return torch.stack(found).sum(0), len(rows), total, len(sizes)


@case()
def elements_that_branches_change(self, x: T):
    d = {"a": x, "b": x * 2}
    k = [1, 2]
    if bool(x.sum() > 0):
        d["a"] = x + 1
        k[0] = x.size(0)
    else:
        k[0] = 7
        if bool(x.sum() < -3):
            d["b"] = d["a"]
    for i in range(x.size(0)):
        both = [x, x] if bool(x[i].sum() > 0) else [x * 2, x]
        both[1] = both[0] + i
        if bool(x[i].max() > 1):
            k[1] += i
            both.append(x)
            x = x + torch.stack(both).sum(0)
    return d, k, x
