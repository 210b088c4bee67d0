# SPDX-License-Identifier: Apache-2.0
"""Loops over symbolic lengths, the lists that they fill, and packed sequences."""
from typing import List

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
class ListsOfALoop(nn.Module):
    def forward(self, x: T):
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
class ListsOfLoopsInLoops(nn.Module):
    def forward(self, x: T):
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
class ListOfALoopAsOutput(nn.Module):
    def forward(self, x: T):
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
class WritesToElementsOfAList(nn.Module):
    def forward(self, x: T):
        outs: List[T] = []
        for step in range(x.size(1)):
            y = x[:, step] * 2
            outs.append(y)
            y.add_(1)
        return torch.stack(outs)


@case("f32[n,t,4]", exit=3, words="after a write")
class WritesToTheLastElementOfAList(nn.Module):
    def forward(self, x: T):
        outs: List[T] = []
        h = torch.zeros(x.size(0), 4)
        for step in range(x.size(1)):
            h.add_(x[:, step])
            outs.append(h)
        return torch.stack(outs)
