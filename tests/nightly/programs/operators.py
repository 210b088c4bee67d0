# SPDX-License-Identifier: Apache-2.0
"""Texts of single ops whose result has the dtype and shape of their operands, chosen for common mistakes: integers and their
division, narrow dtypes that overflow, ties, masks, scatters, numbers combined with tensors."""
from __future__ import annotations

import re

from scope import Impossible, Scope, Tensor

FLOATS, INTEGERS = ("f32", "f64", "f16", "bf16"), ("i64", "i32", "u8", "i16", "i8")
TORCH = {"f32": "torch.float32", "f64": "torch.float64", "i64": "torch.int64", "i32": "torch.int32", "bool": "torch.bool",
         "f16": "torch.float16", "bf16": "torch.bfloat16", "u8": "torch.uint8", "i16": "torch.int16", "i8": "torch.int8"}

# {a}, {b}: operands; {p}: a number that is not 0; {q}: a positive one; {t}: the dtype; {m}: a mask; {d}: a dim.
BOTH = """({a} // {p})|({a} % {p})|torch.fmod({a}, {p})|torch.remainder({a}, {p})|torch.div({a}, {p}, rounding_mode="trunc")
torch.div({a}, {p}, rounding_mode="floor")|torch.floor_divide({a}, {b} * 2 + 1)|torch.remainder({a}, {b} * 2 + 1)|torch.fmod({a}, {b} * 2 + 1)
torch.div({a}, {b} * 2 + 1, rounding_mode="trunc")|torch.div({a}, {b} * 2 + 1, rounding_mode="floor")|({a} / {p}).to({t})|({a} / ({b}.abs() + 1)).to({t})
torch.where({m}, {a}, 2)|torch.where({m}, 1.5, {a}).to({t})|torch.where({m}, {a}, {b})|{a}.masked_fill({m}, 3)|({a} * {m})|({a} + {m})
({a} > {b}).to({t})|({a} == {b}).to({t})|({a} >= 1.5).to({t})|({a} != {p}).to({t})|({a} * 0.5).to({t})|({p} - {a})|torch.rsub({a}, {p})|{a}.clamp(-9, 9).pow(2)
{a}.clamp(-9, 9) ** 3|({a}.clamp(-99, 99).to(torch.int8) * 3).to({t})|({a}.clamp(-99, 99).to(torch.int16) * 2).to({t})|({a}.abs().clamp(0, 99).to(torch.uint8) + 200).to({t})
(-{a}.abs().clamp(0, 99).to(torch.uint8)).to({t})|(({a} > 0).to(torch.uint8) - 1).to({t})|({a}.clamp(-99, 99).half() + 0.5).to({t})|({a}.clamp(-99, 99).to(torch.bfloat16) * 2).to({t})
torch.sign({a})|{a}.square().clamp(max=100)|torch.maximum({a}, {m}.to({t}))|torch.clamp({a}, {b}, {b} + 2)|torch.clamp({a}, min={b})|{a}.new_zeros({a}.shape) + {a}
torch.full_like({a}, {q}) + {a}|torch.ones_like({a}, dtype=torch.int32) * {a}|({a} + torch.tensor(2))|({a} * torch.tensor(0.5)).to({t})|torch.add({a}, {b}, alpha=-2)
torch.sub({a}, {p}, alpha=3)|({a}.abs() + 1).log2().floor().to({t})|torch.sqrt({a}.abs()).to({t})|torch.heaviside({a}, {b})|(({a} > 0) ^ {m}).to({t})|(({a} > 0) | {m}).to({t})
(~({a} > 0) & {m}).to({t})|torch.logical_xor({a}, {b}).to({t})|torch.logical_and({a}, {m}).to({t})|{a}.logical_not().to({t})|torch.bitwise_not({m}).to({t})
({a} > 0).all().to({t}) + {a}|{m}.any().to({t}) * {a}|{m}.sum() + {a}|{m}.to(torch.float32).mean().to({t}) + {a}|torch.fmax({a}.to(torch.float32), {b}.to(torch.float32)).to({t})"""
OF_FLOATS = """torch.trunc({a})|torch.frac({a})|torch.round({a})|torch.round({a}, decimals=1)|torch.copysign({a}, {b})|torch.hypot({a}, {b})|torch.lerp({a}, {b}, 0.25)
torch.addcmul({a}, {a}, {b}, value=0.5)|torch.nan_to_num({a} / {b}, 1.0, 2.0, -2.0)|torch.pow({a}.abs(), 0.5)|torch.pow(2, {a}.clamp(-5, 5))|torch.atan2({a}, {b})
torch.nn.functional.relu6({a})|torch.nn.functional.hardtanh({a})|torch.nn.functional.leaky_relu({a}, 0.25)|torch.isnan({a} / {b}).to({t}) + {a}|torch.isinf({a} / {b}).to({t})
torch.signbit({a}).to({t})|torch.xlogy({a}, {b}.abs())|({a} / 0.0).clamp(-3, 3)|torch.nn.functional.softshrink({a})|torch.nn.functional.threshold({a}, 1.0, 7.0)
torch.logaddexp({a}, {b})|{a}.ceil().to(torch.int64).to({t})|{a}.to(torch.int32).to({t})|torch.ldexp({a}, {m}.to(torch.int64))|torch.where({m}, {a}, float("inf")).clamp(max=9)"""
OF_INTEGERS = """({a} & {b})|({a} | {b})|({a} ^ {b})|~{a}|({a} << 2)|({a} >> 1)|({a} >> 3)|torch.bitwise_left_shift({a}, {b}.abs() % 5)|torch.bitwise_right_shift({a}, {b}.abs() % 5)
torch.gcd({a}, {b})|torch.lcm({a} % 7, {b} % 5)|({a} // ({b}.abs() + 1))|({a} % ({b}.abs() + 1))|({a} // -3)|({a} % -3)|({a} & 6)|({a} | 1)|({a} ^ -1)|({a} & {m})
torch.bitwise_and({a}, 5)|{a}.to(torch.uint8).to({t})|{a}.to(torch.int8).to({t})|({a}.to(torch.uint8) >> 1).to({t})|({a}.to(torch.uint8) << 3).to({t})|({a}.to(torch.int8) >> 1).to({t})
({a}.to(torch.uint8) // 3).to({t})|({a}.to(torch.uint8) % 7).to({t})|(~{a}.to(torch.uint8)).to({t})|({a}.to(torch.int8).abs()).to({t})|({a}.to(torch.uint8) * {b}.to(torch.uint8)).to({t})
({a}.to(torch.uint8) > {b}).to({t})|({a}.to(torch.uint8) - {b}.to(torch.uint8)).to({t})|({a}.to(torch.uint8) / 2).to({t})|torch.pow({a} % 4, {b}.abs() % 4)|torch.pow(2, {b}.abs() % 9).to({t})
({a}.to(torch.float32) / 3).to({t})|torch.maximum({a}.to(torch.uint8), {b}.to(torch.uint8)).to({t})|({a}.to(torch.int8) // ({b}.to(torch.int8) | 1)).to({t})"""
# Ops for operands with at least one dim.
ALONG = """torch.roll({a}, -1, {d})|torch.roll({a}, 3)|{a}.flip({d})|torch.cummax({a}, {d})[0]|torch.cummin({a}, {d})[0]|{a}.sort({d}, descending=True)[0]
{a}.clamp(-2, 2).cumprod({d}).to({t})|{a}.amax({d}, keepdim=True).expand_as({a})|({a} - {a}.amin({d}, keepdim=True))|{a}.argmax({d}, keepdim=True).to({t}) + {a}
{a}.argmin({d}, keepdim=True).to({t}) + {a}|({a} == {a}.max({d}, keepdim=True)[0]).to({t})|{m}.sum({d}, keepdim=True).to({t}) + {a}|{m}.any({d}, keepdim=True).to({t}) + {a}
{m}.all({d}, keepdim=True).to({t}) + {a}|{m}.to({t}).cumsum({d}).to({t})|{m}.cumsum({d}).to({t})|{a}.sum({d}, keepdim=True).to({t}) + {a}|{a}.prod({d}, keepdim=True).clamp(-99, 99).to({t}) + {a}
{a}.count_nonzero({d}).unsqueeze({d}).to({t}) + {a}|{a}.argsort(stable=True, dim={d}).to({t})|{a}.sort(stable=True, dim={d})[1].to({t})|{a}.sort(stable=True, dim={d}, descending=True)[1].to({t})
torch.take_along_dim({a}, {a}.argsort(stable=True, dim={d}), {d})|torch.gather({a}, {d}, ({b}.long() % {a}.size({d})))|{a}.scatter({d}, {a}.argsort(stable=True, dim={d}), {b})
{a}.scatter_add({d}, ({b}.long() % {a}.size({d})), {a})|{a}.scatter_reduce({d}, ({b}.long() % {a}.size({d})), {b}, "amax")
{a}.scatter_reduce({d}, ({b}.long() % {a}.size({d})), {b}, "amin", include_self=False)|{a}.scatter_reduce({d}, ({b}.long() % {a}.size({d})), {b}, "sum", include_self=False)
{a}.scatter({d}, ({b}.long() % {a}.size({d})), 2)|{a}.scatter_reduce({d}, ({b}.long() % {a}.size({d})), {b} % 3, "prod")|torch.cat([{a}, {b}], {d}).narrow({d}, 0, {a}.size({d}))
torch.stack([{a}, {b}], {d}).sum({d}).to({t})|torch.stack([{a}, {b}]).amax(0)|torch.diff(torch.cat([{a}, {b}[:1]]), dim=0)|{a}.index_add(0, torch.arange({a}.size(0)) // 2, {b})
{a}.index_copy(0, torch.arange({a}.size(0)).flip(0), {b})|{a}.index_fill(0, torch.arange({a}.size(0))[::2], 5)|{a}.index_put((torch.arange({a}.size(0)) // 2,), {b}, accumulate=True)
{a}[torch.arange({a}.size(0)).flip(0)]|{a}[{a}.flatten(1).sum(1).argsort(stable=True)] if {a}.dim() > 1 else {a}|{a}.masked_scatter({m}, {b})|{a}.median({d}, keepdim=True)[0] + {a}
{a}.kthvalue(1, {d}, True)[0] + {a}|{a}.topk({a}.size({d}), {d})[0]|{a}.mode({d}, True)[0] + {a}|torch.tril({a}) if {a}.dim() > 1 else {a}|torch.triu({a}, 1) if {a}.dim() > 1 else {a}
{a}.aminmax(dim={d}, keepdim=True)[1] + {a}|torch.searchsorted({a}.flatten().sort()[0], {b}.contiguous()).to({t})|torch.bucketize({a}, torch.tensor([-2, 0, 3])).to({t})
torch.isin({a}.contiguous(), {b}.contiguous()).to({t})|{a}.unfold({d}, 1, 1).squeeze(-1)|{a}.repeat_interleave(2, {d}).narrow({d}, 0, {a}.size({d}))|torch.where({m})[0].sum() + {a}|{m}.nonzero().sum() + {a}
{a}[{m}].sum() + {a}|torch.masked_select({a}, {m}).sum() + {a}|{a}.take(torch.arange({a}.numel()).flip(0)).view({a}.shape)|{a}.diagonal_scatter({b}.diagonal()) if {a}.dim() == 2 else {a}
{a}.select_scatter({b}.select({d}, 0), {d}, -1)|{a}.slice_scatter({b}.narrow({d}, 0, 1), {d}, 0, 1)|{a}.tile((2,)).narrow(-1, 0, {a}.size(-1))|torch.rot90({a}, 2) if {a}.dim() > 1 else {a}"""
FLOATS_ALONG = """{a}.std({d}, keepdim=True) + {a}|{a}.var({d}, unbiased=False, keepdim=True) + {a}|{a}.logsumexp({d}, keepdim=True) + {a}|{a}.log_softmax({d})|{a}.softmax({d}, dtype=torch.float64).to({t})
torch.logcumsumexp({a}, {d})|{a}.norm(2, [{d}], True) + {a}|{a}.norm(1, [{d}], True) + {a}|torch.nn.functional.normalize({a}, dim={d})|{a}.renorm(2, {d}, 1.0) if {a}.dim() > 1 else {a}|{a}.mean({d}, keepdim=True) + {a}
{a}.nansum({d}, keepdim=True) + {a}|{a}.scatter_reduce({d}, ({b}.long() % {a}.size({d})), {b}, "mean")|{a}.quantile(0.5, {d}, True) + {a}|torch.nn.functional.layer_norm({a}, {a}.shape[-1:])
{a}.clamp(-4, 4).matmul({a}.clamp(-4, 4).transpose(-1, -2)).clamp(-4, 4).matmul({a}.clamp(-4, 4)) if {a}.dim() > 1 else {a}|torch.einsum("...i,...i->...", {a}, {b}).unsqueeze(-1) + {a}|torch.nn.functional.pad({a}, [1, 1])[..., 1:-1]
torch.nn.functional.pad({a}, [0, 2], value=1.5)[..., :-2]|torch.nn.functional.cosine_similarity({a}, {b}, dim={d}).unsqueeze({d}) + {a}|torch.cumsum({a}, {d}, dtype=torch.float64).to({t})
torch.fft.ifft(torch.fft.fft({a}, dim={d}), dim={d}).real.to({t})|torch.fft.irfft(torch.fft.rfft({a}, dim={d}, norm="ortho"), n={a}.size({d}), dim={d}, norm="ortho")|torch.fft.fftshift({a}, {d})
torch.nn.functional.glu(torch.cat([{a}, {b}], {d}), {d})|torch.std_mean({a}, {d}, keepdim=True)[1] + {a}|torch.nn.functional.softmin({a}, {d})|torch.dist({a}, {b}) + {a}"""


def rows(text: str) -> list[str]:
    """Splits the text at each `|` without blanks around it; with blanks it is the operator."""
    return [row for line in text.splitlines() for row in re.split(r"(?<! )\|(?! )", line)]


TABLES = {"both": rows(BOTH), "floats": rows(OF_FLOATS), "integers": rows(OF_INTEGERS), "along": rows(ALONG), "floats along": rows(FLOATS_ALONG)}


def operator(s: Scope, want: Tensor, a: str, b: str, mask: str) -> str:
    if want.dtype not in FLOATS + INTEGERS or want.dims is None:
        raise Impossible
    tables = ["both", "floats" if want.dtype in FLOATS else "integers"]
    if want.dims:
        tables += ["along", "along"] + (["floats along"] if want.dtype in FLOATS else [])
    text = s.pick(TABLES[s.pick(tables)])
    return "(" + text.format(a=a, b=b, m=mask, t=TORCH[want.dtype], p=s.pick(["2", "3", "-2", "-3", "7"]), q=s.pick(["1", "4"]),
                             d=s.rng.randrange(max(len(want.dims), 1)) if want.dims else 0) + ")"
