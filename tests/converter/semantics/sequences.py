# SPDX-License-Identifier: Apache-2.0
"""Loops over symbolic lengths, the lists that they fill, and packed sequences."""
from typing import Dict, List

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from semantics.case import T, case


@case("f32[n,t,4]")
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


@case("f32[n,t,4]")
def lists_of_a_loop(self, x: T):
    outs: List[T] = [x[:, 0] * 2]
    back: List[T] = []
    sizes: List[int] = []
    for step in range(x.size(1)):
        if bool(x[:, step].sum() > 0):
            outs.append(x[:, step].abs())
        back.insert(0, x[:, step])
        sizes.append(int(x[:, step].argmax()))
    y = torch.cat(back, 1).view(x.size(0), x.size(1), 4) + x
    return torch.stack(outs), outs[-1], len(outs), y, torch.tensor(sizes)


@case("f32[n,t,4]")
def lists_of_loops_in_loops(self, x: T):
    rows: List[T] = []
    for i in range(x.size(0)):
        row: List[T] = []
        for j in range(x.size(1)):
            row.append(x[i, j] * i + j)
        rows.append(torch.stack(row))
    total = torch.zeros(4)
    for k in range(len(rows)):
        total = total + rows[k][0]
    return torch.stack(rows) * x, total


@case("f32[n,t,4]", exit=3, words="decides")
def list_of_a_loop_as_output(self, x: T):
    outs: List[T] = []
    for step in range(x.size(1)):
        outs.append(x[:, step])
    return outs


@case("f32[n,t,4]", "i64[n]=1..5")
class PackedLSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(4, 3, 2, bidirectional=True, batch_first=True)

    def forward(self, x: T, lengths: T):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        y, (h, c) = self.layer(packed)
        padded, counts = pad_packed_sequence(y, batch_first=True)
        return padded, counts, h, c


@case("f32[t,n,4]", "i64[n]=1..2", "f32[2,n,3]")
class PackedGRU(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.GRU(4, 3, bidirectional=True)
        self.other = nn.RNN(6, 3)

    def forward(self, x: T, lengths: T, h: T):
        lengths = lengths.sort(descending=True)[0]
        packed = pack_padded_sequence(x, lengths)
        y, last = self.layer(packed, h)
        z, end = self.other(y)
        padded, _ = pad_packed_sequence(z, padding_value=-1.0, total_length=x.size(0))
        return padded, last, end, y.data.sum(0)


@case("f32[n,t,4]", exit=3, words="after a write")
def writes_to_elements_of_a_list(self, x: T):
    outs: List[T] = []
    for step in range(x.size(1)):
        y = x[:, step] * 2
        outs.append(y)
        y.add_(1)
    return torch.stack(outs)


@case("f32[n,t,4]", exit=3, words="after a write")
def writes_to_the_last_element_of_a_list(self, x: T):
    outs: List[T] = []
    h = torch.zeros(x.size(0), 4)
    for step in range(x.size(1)):
        h.add_(x[:, step])
        outs.append(h)
    return torch.stack(outs)


@case("f32[n,t,4]")
class ListOfStates(nn.Module):
    """A loop of unknown length writes to a list and a dict from outside."""

    def __init__(self):
        super().__init__()
        self.cells = nn.ModuleList([nn.LSTMCell(4, 4) for _ in range(2)])

    def forward(self, x: T):
        zero = torch.zeros(x.size(0), 4)
        states = [(zero, zero) for _ in range(2)]
        last: Dict[str, T] = {"top": zero, "sum": zero}
        untouched = [zero + 1]
        outs: List[T] = []
        for step in range(x.size(1)):
            h = x[:, step]
            for i, cell in enumerate(self.cells):
                h, c = cell(h, states[i])
                states[i] = (h, c)
            last["top"] = h + untouched[0]
            last["sum"] = last["sum"] + h
            outs.append(h)
        return torch.stack(outs), states[0][1], states[1][0], last["top"], last["sum"]


@case("f32[n,t,4]")
def list_of_loops_in_loops(self, x: T):
    sums = [torch.zeros(4), torch.zeros(4)]
    for i in range(x.size(0)):
        for j in range(x.size(1)):
            sums[1] = sums[1] + x[i, j] * j
        sums[0] = sums[0] * 0.5 + sums[1]
    return sums[0], sums[1]


@case("f32[n,t,4]")
def list_in_a_branch_of_a_loop(self, x: T):
    kept = [torch.zeros(4)]
    for i in range(x.size(0)):
        if bool(x[i].sum() > 0):
            kept[0] = x[i, 0]
    return kept[0]


@case("f32[t,n,4]", "f32[n,t,4]")
class PartsOfUnknownNumber(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, 4)

    def forward(self, x: T, y: T):
        h, outs = torch.zeros(x.size(1), 4), torch.jit.annotate(List[T], [])
        for part in x.unbind(0):
            h = self.cell(part, h)
            outs.append(h)
        columns = y.unbind(1)
        return torch.stack(outs[::-1]), torch.stack(outs[1:]), columns[-1] + columns[0]


@case("f32[t,n,4]")
def parts_of_what_is_written(self, x: T):
    y = x * 2
    parts = y.unbind(0)
    y.add_(1)
    return parts[0]


if not torch.__version__.startswith("1."):  # 1.13 pads only to the longest sequence

    @case("f32[n,t,8]", "bool[n,t]")
    class PaddedEncoder(nn.Module):
        def __init__(self):
            super().__init__()
            layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2)

        def forward(self, x: T, padding: T):
            lengths = (~padding).sum(1, keepdim=True)
            aligned = torch.arange(x.size(1)) >= lengths
            return self.encoder(x, src_key_padding_mask=padding), self.encoder(
                x, src_key_padding_mask=aligned
            )


@case("f32[n,t,8]", "bool[n,t]")
class RowsOfAMask(nn.Module):
    """The number of true elements is the same in every query."""

    def forward(self, x: T, mask: T):
        y = x.clone()
        y[~mask] += x[~mask].abs()
        return y, x[mask] * y[mask]


@case()
def writes_through_parts_of_open_number(self, x: T):
    y = x.clone()
    for r in y:
        r.mul_(2)
    for i, r in enumerate(y.unbind(1)):
        r.add_(i)
    parts = y.unbind(0)
    parts[-1].fill_(-1)
    y.add_(1)
    a = parts[0] + parts[-1]
    y[0] = 7
    parts[0].mul_(3)
    i = 0
    while i < 3 and bool(y.sum() > -100):
        parts[i % len(parts)].sub_(1)
        i += 1
    return y, a, torch.stack(parts), torch.cat(parts[1:]), len(parts)


@case()
def parts_in_a_list_that_grows(self, x: T):
    y = x.clone()
    parts = y.unbind(0)
    s = torch.zeros_like(x[0])
    for r in parts[1:]:
        s = s + r
        r.zero_()
    parts.append(s)
    return torch.stack(parts), y
