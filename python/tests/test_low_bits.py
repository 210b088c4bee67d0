# SPDX-License-Identifier: Apache-2.0
"""Weights of 8 and 4 bits in the forms of other quantizers: sessions read their levels, and the results are those of the
dequantized weights in float64."""

import warnings

import numpy as np
import pytest

import hologram as hg

ops = hg.ops


def packed(levels, dim):
    """Two levels of a dim in each byte, as hg.quantize packs them."""
    half = (levels.shape[dim] + 1) // 2
    low, high = np.split(levels, [half], dim)
    if high.shape[dim] < half:
        high = np.concatenate([high, np.zeros_like(low.take([0], dim))], dim)
    return ((low.astype(np.uint8) & 15) | (high.astype(np.uint8) << 4)).view(np.int8)


def case(seed):
    """A model with a random form, its input and the answer, the allowed error, and whether sessions must read the levels."""
    rng = np.random.default_rng(seed)
    pick = lambda *choices: choices[int(rng.integers(len(choices)))]
    dtype = pick("f32", "f32", "f32", "bf16", "f16")
    n, k, m = (int(pick(1, rng.integers(1, 9), rng.integers(1, most))) for most in (60, 300, 20))
    m = pick(m, m, m, 0)
    signed, four = bool(rng.integers(2)), bool(rng.integers(3) == 0)
    low, high = (-8, 7) if four else (-128, 127) if signed else (0, 255)
    levels = rng.integers(low, high + 1, (n, k))
    way = pick("row", "matrix", "group", "rows of groups")
    group = int(pick(*[d for d in range(1, k + 1) if k % d == 0])) if "group" in way else k
    after = way in ("row", "matrix") and rng.random() < 0.4  # the product is scaled
    blocks = {"row": (n, 1), "matrix": (1, 1)}.get(way, (n, k // group))
    scales = rng.uniform(0.01, 0.1, blocks).astype(np.float32)
    if dtype != "f32":  # few enough digits for both kinds of 16 bits
        scales = np.round(scales * 1024) / np.float32(1024)
    of_zeros = blocks if rng.integers(2) else (blocks[0], 1)
    zeros = None if after or rng.integers(3) == 0 else rng.integers(low, high + 1, of_zeros)
    if zeros is not None and rng.integers(4) == 0:
        zeros[:] = 0

    spread = lambda v: np.repeat(np.broadcast_to(v, (v.shape[0], blocks[1])), k // blocks[1], 1)
    weight = (levels - (0 if zeros is None else spread(zeros))) * spread(scales.astype(np.float64))

    g = hg.Graph()
    cast, constant = ops.cast, lambda v, of: g.constant(np.ascontiguousarray(v).astype(of))
    if four:
        dim = 0 if n % 2 == 0 else 1 if k % 2 == 0 else int(k > n)
        bytes_, four_ = constant(packed(levels, dim), np.int8), constant(4, np.int8)
        parts = [ops.bitwise_right_shift(ops.bitwise_left_shift(bytes_, four_), four_), ops.bitwise_right_shift(bytes_, four_)]
        w = ops.cat(parts, dim)
        if levels.shape[dim] % 2:
            w = ops.narrow(w, dim, 0, levels.shape[dim])
    else:
        w = constant(levels, np.int8 if signed else np.uint8)
    shape = {"group": [n, k // group, group], "rows of groups": [n * (k // group), group]}.get(way, [n, k])
    numbers = {"group": [n, k // group, 1], "rows of groups": [n * (k // group), 1]}.get(way)
    of = lambda v: v if numbers is None else np.broadcast_to(v, blocks).reshape(numbers)
    turned_first = after and bool(rng.integers(2))
    if numbers is not None and rng.integers(2):
        w = cast(ops.reshape(w, shape), dtype)
    else:
        if turned_first:
            w = ops.permute(w, [1, 0])
        wide = "i32" if zeros is not None and numbers is None and rng.integers(2) else dtype
        w = cast(w, wide)
        if wide == "i32":
            w = cast(ops.sub(w, constant(of(zeros), np.int32)), dtype)
            zeros = None
        if numbers is not None:
            w = ops.reshape(w, shape)
    if zeros is not None:
        w = ops.sub(w, cast(constant(of(zeros), np.int32), dtype))
    factors = cast(constant(of(scales), np.float32), dtype)
    if not after:
        w = ops.mul(factors, w) if rng.integers(2) and shape[-1] != 1 else ops.mul(w, factors)
    if numbers is not None:
        w = ops.reshape(w, [n, k])
    reader = "linear" if after else pick("linear", "matmul", "embedding")
    if reader == "embedding":
        x = rng.integers(0, n, m)
        y, wanted = ops.index_select(w, 0, g.input("x", ("m",), dtype="i64")), weight[x]
    else:
        x = rng.standard_normal((m, k)).astype(np.float32)
        x = np.round(x * 8) / np.float32(8)
        given = cast(g.input("x", ("m", k)), dtype)
        if reader == "linear" and not turned_first:
            y = ops.linear(given, w)
        else:
            y = ops.matmul(given, w if turned_first else ops.permute(w, [1, 0]))
        wanted = x.astype(np.float64) @ weight.T
        if after:
            y = ops.mul(y, ops.reshape(factors, [blocks[0]]))
    g.output("y", cast(y, "f32"))
    # Of the largest level, the largest input and so many sums.
    unit = {"f32": 2.0**-22, "f16": 2.0**-9, "bf16": 2.0**-6}[dtype]
    size = 2 * max(abs(low), high) * float(scales.max()) * (1 if reader == "embedding" else np.abs(x).sum(-1).max(initial=0))
    return g.model(), x, wanted, unit * size


@pytest.mark.parametrize("first", range(0, 1200, 100))
def test_random_forms(first):
    kept = 0
    for seed in range(first, first + 100):
        model, x, wanted, allowed = case(seed)
        session = model.session(threads=1, profile=True)
        got = np.asarray(session(x), np.float64)
        assert got.shape == wanted.shape, seed
        assert np.abs(got - wanted).max(initial=0) <= allowed, seed
        names = [row["op"] if isinstance(row, dict) else row.op for row in session.profile()]
        kept += any(name.startswith("quantized") for name in names)
    assert kept > 80, kept


def test_torchao():
    """The levels of a module that torchao quantized stay in its model, and its sessions compute with them."""
    torch = pytest.importorskip("torch")
    ao = pytest.importorskip("torchao.quantization")
    asymmetric = ao.MappingType.ASYMMETRIC
    ways = {
        "rows": (8, lambda: ao.Int8WeightOnlyConfig()),
        "groups": (8, lambda: ao.Int8WeightOnlyConfig(granularity=ao.PerGroup(32))),
        "rows with zeros": (8, lambda: ao.IntxWeightOnlyConfig(torch.int8, granularity=ao.PerAxis(0), mapping_type=asymmetric)),
        "4 bits": (4, lambda: ao.IntxWeightOnlyConfig(torch.int4, granularity=ao.PerAxis(0))),
        "groups of 4 bits": (4, lambda: ao.IntxWeightOnlyConfig(torch.int4, granularity=ao.PerGroup(32), mapping_type=asymmetric)),
    }
    for dtype in (torch.float32, torch.bfloat16):
        for name, (bits, way) in ways.items():
            torch.manual_seed(1)
            module = torch.nn.Sequential(torch.nn.Linear(128, 96), torch.nn.ReLU(), torch.nn.Linear(96, 33)).eval().to(dtype)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ao.quantize_(module, way())
            x = torch.randn(5, 128, dtype=dtype)
            model = hg.convert(module, x, dynamic="n")  # compares itself with the module
            assert model.report.ok, name
            elements = 128 * 96 + 96 * 33
            levels = [array for key, array in model.buffers().items() if key.endswith("qdata")]
            levels += [array for key, array in model.parameters().items() if key.endswith("qdata")]
            assert sum(array.nbytes for array in levels) == elements * bits // 8, name
            # Scales and zero points in f32 and i8 take less than 2 bytes per 8 elements.
            memory = model.memory(n=1)
            assert memory.weights_bytes + memory.packed_bytes < elements * (bits / 8 + 0.5), name
