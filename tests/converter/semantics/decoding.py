# SPDX-License-Identifier: Apache-2.0
"""Greedy, beam and CTC decoding in TorchScript, over dynamic lengths."""
from typing import List, Tuple

import torch
from torch import nn

from semantics.case import T, case


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 8)
        self.cell = nn.GRUCell(8, 8)
        self.out = nn.Linear(8, 7)


@case("f32[n,8]")
class GreedyTensor(Decoder):
    def forward(self, x: T):
        h = x.sum(0, keepdim=True)
        tokens = torch.ones(1, 1, dtype=torch.int64)
        for _ in range(20):
            h = self.cell(self.embed(tokens[:, -1]), h)
            token = self.out(h).argmax(-1, keepdim=True)
            tokens = torch.cat([tokens, token], 1)
            if int(token) == 2:
                break
        return tokens


@case("f32[n,8]")
class GreedyList(Decoder):
    def forward(self, x: T):
        h = x.sum(0, keepdim=True)
        out: List[int] = [1]
        scores: List[T] = []
        while len(out) < 15:
            h = self.cell(self.embed(torch.tensor([out[-1]])), h)
            logits = self.out(h).log_softmax(-1)
            token = int(logits.argmax())
            if token == 2:
                break
            out.append(token)
            scores.append(logits[0, token])
        return torch.tensor(out), torch.stack(scores) if len(scores) > 0 else torch.zeros(0)


@case("f32[n,8]")
class GreedyBatch(Decoder):
    def forward(self, x: T):
        token = torch.ones(x.size(0), dtype=torch.int64)
        done = torch.zeros(x.size(0), dtype=torch.bool)
        h, steps = x, torch.jit.annotate(List[T], [])
        while len(steps) < 12 and not bool(done.all()):
            h = self.cell(self.embed(token), h)
            token = self.out(h).argmax(-1).masked_fill(done, 0)
            done = done | (token == 2)
            steps.append(token)
        return torch.stack(steps, 1), done


class PreciseDecoder(Decoder):
    """In f64, so that rounding does not decide between sequences of nearly equal score."""

    def __init__(self):
        super().__init__()
        self.double()


@case("f64[n,8]")
class BeamTensor(PreciseDecoder):
    def forward(self, x: T):
        beams = 3
        h = x.sum(0, keepdim=True).expand(beams, 8)
        tokens = torch.ones(beams, 1, dtype=torch.int64)
        scores = torch.tensor([0.0, -100.0, -90.0], dtype=torch.float64)
        for _ in range(x.size(0) + 2):
            h = self.cell(self.embed(tokens[:, -1]), h)
            all = self.out(h).log_softmax(-1) + 0.9 * scores[:, None]
            scores, at = all.view(-1).topk(beams)
            h = h[at // 7]
            tokens = torch.cat([tokens[at // 7], (at % 7)[:, None]], 1)
        return tokens, scores


@case("f64[n,8]")
class BeamTuples(PreciseDecoder):
    def forward(self, x: T):
        beams: List[Tuple[float, List[int], T]] = [(0.0, [1], x.sum(0, keepdim=True))]
        for _ in range(x.size(0)):
            found: List[Tuple[float, List[int], T]] = []
            for score, tokens, h in beams:
                h2 = self.cell(self.embed(torch.tensor([tokens[-1]])), h)
                best, at = self.out(h2).log_softmax(-1)[0].topk(2)
                for k in range(2):
                    found.append((0.9 * score + float(best[k]), tokens + [int(at[k])], h2))
            order = torch.tensor([f[0] for f in found], dtype=torch.float64).topk(2)[1]
            beams = []
            for k in range(2):
                beams.append(found[int(order[k])])
        return torch.tensor(beams[0][1]), beams[0][0]


@case("f64[n,8]")
class BeamLists(PreciseDecoder):
    def forward(self, x: T):
        tokens: List[List[int]] = [[1]]
        scores: List[float] = [0.0]
        states: List[T] = [x.sum(0, keepdim=True)]
        for _ in range(x.size(0)):
            tokens2: List[List[int]] = []
            scores2: List[float] = []
            states2: List[T] = []
            for j in range(len(tokens)):
                h = self.cell(self.embed(torch.tensor([tokens[j][-1]])), states[j])
                best, at = self.out(h).log_softmax(-1)[0].topk(3)
                for k in range(3):
                    tokens2.append(tokens[j] + [int(at[k])])
                    scores2.append(0.9 * scores[j] + float(best[k]))
                    states2.append(h)
            order = torch.tensor(scores2, dtype=torch.float64).topk(2)[1]
            tokens = []
            scores = []
            states = []
            for k in range(2):
                i = int(order[k])
                tokens.append(tokens2[i])
                scores.append(scores2[i])
                states.append(states2[i])
        return torch.tensor(tokens[0]), scores[0], torch.cat(states)


@case("f32[n,5]")
def ctc_collapse(self, x: T):
    ids = x.argmax(1)
    out: List[int] = []
    last = -1
    for i in range(ids.size(0)):
        token = int(ids[i])
        if token != last and token != 0:
            out.append(token)
        last = token
    return torch.tensor(out)


@case("f32[n,5]")
def ctc_unique(self, x: T):
    ids = torch.unique_consecutive(x.argmax(1))
    return ids[ids != 0]


@case("f32[b,n,5]")
def ctc_batch(self, x: T):
    out: List[T] = []
    for b in range(x.size(0)):
        ids = torch.unique_consecutive(x[b].argmax(1))
        out.append(ids[ids != 0])
    sizes: List[int] = []
    for o in out:
        sizes.append(o.size(0))
    return torch.cat(out), torch.tensor(sizes)


@case("f32[n,4]", "f32[n]=0..1", "i64[n]=0..2")
def best_boxes_of_each_class(self, x: T, scores: T, classes: T):
    low, high = x[:, :2], x[:, :2] + x[:, 2:].abs()
    area, order = (high - low).prod(1), scores.argsort(descending=True)
    kept: List[int] = []
    for i in range(order.size(0)):
        a, is_best = int(order[i]), True
        for b in kept:
            shared = (torch.min(high[a], high[b]) - torch.max(low[a], low[b])).clamp(min=0).prod()
            if int(classes[a]) == int(classes[b]) and bool(shared > 0.5 * (area[a] + area[b] - shared)):
                is_best = False
        if is_best:
            kept.append(a)
    return torch.tensor(kept)


@case("f64[n,4]")
class CtcPrefixLists(nn.Module):
    """Prefixes are lists of tokens that are compared."""

    def forward(self, x: T):
        p = x.softmax(-1)
        prefixes = [torch.jit.annotate(List[int], [])]
        blank: List[float] = [1.0]
        other: List[float] = [0.0]
        for t in range(p.size(0)):
            prefixes2: List[List[int]] = []
            blank2: List[float] = []
            other2: List[float] = []
            for j in range(len(prefixes)):
                total = blank[j] + other[j]
                for c in range(4):
                    new = prefixes[j]
                    b, o = 0.0, 0.0
                    if c == 0:
                        b = total * float(p[t, c])
                    else:
                        new = prefixes[j] + [c]
                        o = total * float(p[t, c])
                    at = -1
                    for k in range(len(prefixes2)):
                        if prefixes2[k] == new:
                            at = k
                    if at < 0:
                        prefixes2.append(new)
                        blank2.append(b)
                        other2.append(o)
                    else:
                        blank2[at] += b
                        other2[at] += o
            sums: List[float] = []
            for k in range(len(blank2)):
                sums.append(blank2[k] + other2[k])
            order = torch.tensor(sums, dtype=torch.float64).topk(2)[1]
            prefixes = []
            blank = []
            other = []
            for k in range(2):
                i = int(order[k])
                prefixes.append(prefixes2[i])
                blank.append(blank2[i])
                other.append(other2[i])
        return torch.tensor(prefixes[0]), blank[0] + other[0]
