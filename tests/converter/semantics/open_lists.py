# SPDX-License-Identifier: Apache-2.0
"""Lists that loops of unknown length fill, change and replace, and loops whose first iteration changes types."""
import enum
import math
from typing import Dict, List, Optional, Tuple

import torch
from torch import nn

from semantics.case import T, case


@case()
def past_that_starts_empty(self, x: T):
    past: List[T] = []
    for i in range(x.size(0)):
        past = [torch.cat([past[0], x[i : i + 1]])] if len(past) > 0 else [x[i : i + 1]]
    return past[0] if len(past) > 0 else x, len(past)


@case(sizes="0,3")
def empty_lists_have_a_type_of_numbers(self, x: T):
    a: List[int] = []
    b: List[float] = []
    c: List[bool] = []
    d: List[List[int]] = [a, a]
    e: List[int] = []
    f: List[bool] = []
    for i in range(x.size(0)):
        e.append(i)
        f.append(i > 1)
    return (x + 1, torch.tensor(a), torch.tensor(b), torch.tensor(c), torch.tensor(d), torch.as_tensor(a), torch.tensor(e), torch.tensor(f),
            torch.tensor(a, dtype=torch.float64), torch.tensor([1, 2][2:]), torch.tensor(e[:0]))


@case()
def pairs_in_a_list(self, x: T):
    found: List[Tuple[float, T]] = []
    for i in range(x.size(0)):
        found.append((float(x[i].sum()), x[i] * 2))
    best, total = -1e9, torch.zeros(4)
    for score, row in found:
        if score > best:
            best = score
        total = total + row * score
    rows: List[T] = []
    for k in range(len(found)):
        score, row = found[len(found) - 1 - k]
        rows.append(row + score)
    return torch.stack(rows), best, total


@case()
def elements_of_several_sizes(self, x: T):
    out: List[T] = []
    for i in range(x.size(0)):
        out.append(x[i][x[i] > 0])
    total = torch.zeros(())
    for part in out:
        total = total + part.sum() * part.numel()
    last = out[-1]
    out.append(x[:, 0])
    return torch.cat(out), len(out), last, total


@case()
class LaterElementsDifferInSize(nn.Module):
    """An element of another size changes how the list is kept, in a loop that did not make it."""

    def forward(self, x: T):
        words: List[List[int]] = []
        rows: List[T] = []
        groups: List[List[T]] = []
        mixed: List[List[int]] = []
        for i in range(x.size(0)):
            words.append([i, 3])
            rows.append(x[:2])
            groups.append([x[i]])
            mixed.append([i])
            mixed.append([i, 3])
        for i in range(x.size(0)):
            words.append([i])
            rows.append(x[:1] * 2)
            groups.append([x[i], x[i] * 2])
        if bool(x.sum() > 0):
            words.append([7, 8, 9])
        sizes: List[int] = []
        for word in words:
            sizes.append(len(word))
            for letter in word:
                sizes.append(letter)
        total = torch.zeros(4)
        for group in groups:
            for row in group:
                total = total * 0.5 + row
        return len(words), len(rows), len(groups), len(mixed), torch.tensor(sizes), torch.cat(rows), total


@case()
class ListsFromOutsideThatABodyFinds(nn.Module):
    """Elements of lists and dicts, which the loop and the branch did not make."""

    def forward(self, x: T):
        first: List[int] = [0]
        second: List[int] = [0]
        third: List[int] = [0]
        lists, named = [first], {"second": second}
        popped = [third, [1]]
        for i in range(x.size(0)):
            found = lists[0]
            found.append(i)
            named["second"].append(i * 2)
        if bool(x.sum() > 0):
            last = popped.pop(0)
            last.append(3)
        return torch.tensor(first), torch.tensor(second), len(third), len(popped)


@case()
def rows_of_several_sizes(self, x: T):
    out: List[T] = []
    for i in range(x.size(0)):
        out.append(x[: i + 1])
    out.reverse()
    out.insert(0, x * 2)
    y = out.pop()
    return torch.cat(out), y, len(out), out[0], torch.cat(out[1:] + [y])


@case()
def changes_of_a_number_list(self, x: T):
    a: List[int] = []
    for i in range(x.size(0)):
        a.append(int(x[i].argmax()) * 3 + i)
    a.append(7)
    a.sort()
    last = a.pop()
    a.insert(1, 100)
    a.insert(-1, 101)
    a.reverse()
    a.extend([5, 6, 7])
    at, count = a.index(7), a.count(7)
    a.remove(7)
    has = 100 in a
    parts = torch.tensor(a[1:3] + a[::-1] + a[:-1] + a[::2] + sorted(a))
    a[0] = 55
    a[-2] += 1
    del a[1]
    numbers = torch.tensor(a)
    total, least, most = sum(a), min(a), max(a)
    a.clear()
    return numbers, parts, last, at, count, has, total, least, most, len(a)


@case()
def least_and_most_of_floats(self, x: T):
    a: List[float] = [0.5]
    b: List[float] = [math.nan, 1.0]
    c: List[float] = [2.0, math.nan]
    for i in range(x.size(0)):
        a.append(float(x[i, 0]))
        b.append(float(x[i, 1]))
        c.append(float(x[i, 2]))
    return min(a), max(a), min(b), max(b), min(c), max(c)


@case()
def numbers_that_a_loop_pops_and_sorts(self, x: T):
    heap: List[int] = []
    taken = 0
    for i in range(x.size(0)):
        heap.append(int(x[i].argmax()) + i)
        heap.append(int(x[i].argmin()))
        heap.sort(reverse=True)
        taken = taken * 2 + heap.pop()
        if len(heap) > 3:
            heap.pop(0)
    return torch.tensor(heap), taken


@case()
def list_of_number_lists(self, x: T):
    words: List[List[int]] = []
    word: List[int] = []
    ids = x.argmax(1)
    for i in range(x.size(0)):
        token = int(ids[i])
        if token == 0:
            if len(word) > 0:
                words.append(word)
            word = []
        else:
            word.append(token)
    if len(word) > 0:
        words.append(word)
    sizes: List[int] = []
    flat: List[int] = []
    for w in words:
        sizes.append(len(w))
        for token in w:
            flat.append(token)
    return torch.tensor(sizes), torch.tensor(flat)


@case()
def choice_from_a_list_by_data(self, x: T):
    rows = [x[0], x[-1] * 2, x.sum(0)]
    numbers = [3, 1, int(x.argmax())]
    at = int(x[0].argmax()) % 3
    numbers[at] = 9
    numbers.sort()
    return rows[at], numbers[at], torch.tensor(numbers)


@case(exit=3, words="element of a list")
def element_that_is_changed_later(self, x: T):
    words: List[List[int]] = []
    for i in range(x.size(0)):
        word = [i]
        words.append(word)
        word.append(int(x[i].argmax()))
    return len(words)


@case(exit=3, words="another name")
def list_that_a_loop_changes_under_two_names(self, x: T):
    first: List[int] = [1]
    word = first
    for i in range(x.size(0)):
        if bool(x[i].sum() > 0):
            word = [0]
        word.append(i)
    return torch.tensor(word), len(first)


@case()
def dtype_of_the_first_round(self, x: T):
    total = torch.zeros(4, dtype=torch.int64)
    for i in range(x.size(0)):
        total = total + x[i]
    return total * 1.5


@case()
def none_before_the_first_round(self, x: T):
    h: Optional[T] = None
    for i in range(x.size(0)):
        h = x[i] if h is None else h * 0.5 + x[i]
    if h is None:
        return x.sum(0)
    return h + 1


@case()
def rank_of_the_first_round(self, x: T):
    total = torch.zeros(())
    for i in range(x.size(0)):
        total = total + x[i]
    return total.sum()


@case()
class BufferOfAnotherShape(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("m", torch.zeros(1))

    def forward(self, x: T):
        self.m = x.mean(1, keepdim=True)
        return x - self.m


@case(exit=3, words="changes its type")
class BufferOfAnotherShapeThatIsRead(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("m", torch.zeros(1))

    def forward(self, x: T):
        y = x + self.m
        self.m = x.mean(1, keepdim=True)
        return y - self.m


class Mode(enum.Enum):
    SHIFT = 3
    SCALE = 5


@case()
class ValuesOfAnEnum(nn.Module):
    def __init__(self):
        super().__init__()
        self.mode = Mode.SCALE

    def forward(self, x: T):
        if self.mode == Mode.SHIFT:
            return x + self.mode.value
        return x * self.mode.value + len(self.mode.name) + len("text") + Mode.SHIFT.value


# unbind() returns views, which a write to x changes.
@case("f32[n,4]", "f32[4]", exit=3, words="decide whether the two share memory")
def parts_in_a_sum_of_lists(self, x: T, y: T):
    parts = list(x.unbind(0)) + [y]
    x.add_(1)
    return torch.stack(parts)


@case("f32[n,4]", "f32[4]", exit=3, words="decide whether the two share memory")
def parts_that_extend_a_list(self, x: T, y: T):
    parts: List[T] = [y]
    parts.extend(x.unbind(0))
    x.add_(1)
    return torch.stack(parts)


@case()
class ListsOfPartsAsOutputs(nn.Module):
    def forward(self, x: T) -> Dict[str, List[T]]:
        first, second = [y + 1 for y in x.chunk(2)]
        return {"halves": [y * 2 for y in x.chunk(2)], "others": [first, second, x], "one": [x.sum()]}


@case("f32[n,4]", "i64[]=0..2")
class ListsThatDataChangesAsOutputs(nn.Module):
    def forward(self, x: T, n: T) -> Tuple[List[T], List[int], List[T]]:
        rows, numbers, kept = [x, x + 1, x + 2], [1, 2, 3], [x[0], x[1], x.sum(0)]
        rows[int(n)] = x * 10
        numbers[int(n)] = 7
        last = kept.pop(int(n))
        return rows, numbers, kept + [last]


@case(exit=3, words="the model returns a list whose length only data or a symbolic size decides")
class ListOfDataAsOutput(nn.Module):
    def forward(self, x: T) -> List[T]:
        rows = [x]
        if bool(x.sum() > 0):
            rows = [x + 1, x + 2]
        return rows


@case(exit=3, words="the op takes a list whose length only data or a symbolic size decides")
def sum_of_lists_of_grown_lists(self, x: T):
    parts: List[T] = []
    for i in range(x.size(0)):
        parts.append(x[i])
    both = [parts] + [parts]
    return torch.stack(both[0]) + torch.stack(both[1])
