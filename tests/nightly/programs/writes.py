# SPDX-License-Identifier: Apache-2.0
"""Statements that write into the memory of a tensor."""
from __future__ import annotations

import scalars
from scope import Impossible, Scope, Tensor
from tensors import broadcast, constant, mask, places, tensor, with_number
from views import view


def target(s: Scope) -> tuple[str, Tensor]:
    """A variable or a view of one, and its type."""
    name = s.pick(s.tensors(lambda kind: kind.writable and kind.dtype in ("f32", "i64", "f64")))
    kind = s.names[name]
    if s.chance(0.5):
        return name, kind
    text, kind = view(s, name, kind)
    if not kind.writable:
        raise Impossible
    return text, kind


def value(s: Scope, kind: Tensor) -> str:
    """A value that fits such a place."""
    if kind.dims is None or "?" in kind.dims or s.chance(0.4):
        return with_number(s, kind.dtype) if kind.dtype != "i64" else scalars.integer(s, 0)
    if s.chance(0.2):
        try:
            return broadcast(s, kind)
        except Impossible:
            pass
    return tensor(s, kind, 1)


def write(s: Scope) -> None:
    text, kind = target(s)
    whole = text in s.names
    item = text.endswith("]") and ")[" not in text
    floats = kind.dtype in ("f32", "f64")
    options = {"method": 5, "assign": 5 if item and not whole else 0, "augment": 4 if item or whole else 0, "fill": 2, "copy": 2,
               "masked": 1.5, "out": 1 if whole else 0, "index": 0.8, "unary": 1.5}
    what = s.weighted(options)
    if what == "assign":
        s.emit(f"{text} = {value(s, kind)}")
    elif what == "augment":
        sign = s.weighted({"+=": 5, "-=": 3, "*=": 3, "/=": 1 if floats else 0})
        amount = s.pick(["2", "4", "0.5"]) if sign == "/=" else value(s, kind)
        s.emit(f"{text} {sign} {amount}")
    elif what == "method":
        verb = s.weighted({"add_": 4, "mul_": 3, "sub_": 2})
        alpha = ", alpha=2" if verb == "add_" and s.chance(0.15) else ""
        s.emit(f"{text}.{verb}({value(s, kind)}{alpha})")
    elif what == "fill":
        s.emit(f"{text}.{s.pick(['zero_()', f'fill_({constant(s, kind.dtype)})', f'fill_({scalars.integer(s, 0)})'])}")
    elif what == "copy":
        if kind.dims is None or "?" in kind.dims:
            s.emit(f"{text}.copy_(torch.zeros_like({text}))")
        else:
            s.emit(f"{text}.copy_({tensor(s, kind, 1)})")
    elif what == "unary":
        verbs = ["abs_()", "neg_()", "clamp_(-5, 5)", "clamp_(min=0)"] + (["relu_()", "tanh_()", "sigmoid_()"] if floats else [])
        s.emit(f"{text}.{s.pick(verbs)}")
    elif what == "masked":
        if kind.dims is None:
            raise Impossible
        if "?" in kind.dims:
            where = f"{text} > {scalars.limit(s)}"
        else:
            where = mask(s, kind.dims)
        number = constant(s, kind.dtype)
        s.emit(s.pick([f"{text}.masked_fill_({where}, {number})", f"{text}[{where}] = {number}"]))
    elif what == "index":
        if not kind.dims:
            raise Impossible
        at = places(s, kind.dims[0])
        number = constant(s, kind.dtype)
        options = [f"{text}.index_fill_(0, {at}, {number})", f"{text}[{at}] = {number}"]
        if kind.dims and "?" not in kind.dims:
            options += [f"{text}.index_add_(0, {at}, {tensor(s, Tensor(kind.dtype, kind.dims), 1)})",
                        f"{text}.index_put_(({at},), {number if floats else number}, accumulate=True)".replace(
                            f", {number},", f", torch.full_like({text}, {number}),")]
        s.emit(s.pick(options))
    else:
        plain = Tensor(kind.dtype, kind.dims)
        if kind.dims is None or "?" in kind.dims:
            raise Impossible
        op = s.pick(["add", "sub", "mul"])
        s.emit(f"torch.{op}({tensor(s, plain, 1)}, {tensor(s, plain, 0)}, out={text})")
