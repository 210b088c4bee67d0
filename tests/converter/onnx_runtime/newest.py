# SPDX-License-Identifier: Apache-2.0
"""Random nodes that opset 23 and newer added to the default domain: attention, rotary embeddings, caches.

onnx's evaluator provides the expected results where ONNX Runtime lacks a version, writes its own number for the -inf of a mask, or
lets a single query of a cache see all keys.
"""
import numpy as np

from case import either, flag, maybe, open_, values
from standard import NEWEST, axis, dims, standard


def attention(rng):
    version = int(rng.integers(23, NEWEST))
    b, kv = (int(rng.integers(1, 3)) for _ in range(2))
    heads, size, vsize = kv * int(rng.integers(1, 4)), int(rng.choice([4, 8])), int(rng.choice([4, 6]))
    queries, keys = int(rng.integers(1, 6)), int(rng.integers(1, 7))
    flat = flag(rng)
    dtype = np.float32 if rng.random() < 0.8 else np.float64
    tensor = lambda n, time, width: open_(values(rng, (b, time, n * width) if flat else (b, n, time, width), dtype))
    past = int(rng.integers(0, 4)) if rng.random() < 0.4 else -1
    total = keys + max(past, 0)
    counted = past < 0 and version >= 24 and rng.random() < 0.3
    valid = rng.integers(1, keys + 1, b).astype(np.int64)
    mask = None
    if rng.random() < 0.6:
        reach = total if version < 24 or flag(rng) else int(rng.integers(valid.max() if counted else 1, total + 1))
        if reach == 1:  # one column, to be repeated or padded
            reach = total
        shape = [(), (heads if flag(rng) else 1,), (b if flag(rng) else 1, heads if flag(rng) else 1)][int(rng.integers(0, 3))]
        mask = values(rng, (*shape, queries, reach), dtype)
        if flag(rng):
            mask = mask > -0.5
        elif flag(rng):
            mask = np.where(mask > 1, dtype(-np.inf), mask).astype(dtype)
    window = {}
    if version >= 25 and rng.random() < 0.5:
        window = {"left_window_size": int(rng.integers(-1, 4)), "right_window_size": int(rng.integers(-1, 4))}
    causal = flag(rng)
    keep = [0, 1, 2] if past >= 0 else [0]
    scores = int(rng.integers(0, 4)) if rng.random() < 0.4 else None
    if scores is not None:
        keep = [*keep, 3]
    evaluator = scores == 2 or (causal and past >= 0 and queries == 1)
    # For capped scores, the evaluator returns the capped ones as raw scores.
    capped = rng.random() < 0.3 and not (evaluator and scores == 0)
    return standard("Attention", [tensor(heads, queries, size), tensor(kv, keys, size), tensor(kv, keys, vsize), None if mask is None else open_(mask),
                                  *([open_(values(rng, (b, kv, past, width), dtype)) for width in (size, vsize)] if past >= 0 else [None, None]),
                                  open_(valid) if counted else None],
                    version, outputs=max(keep) + 1, keep=keep, evaluator=evaluator, is_causal=causal, q_num_heads=heads if flat else None,
                    kv_num_heads=kv if flat else None, scale=float(rng.choice([0.3, 1])) if flag(rng) else None,
                    softcap=float(rng.choice([0.5, 3])) if capped else None,
                    softmax_precision=int(rng.choice([1, 11])) if rng.random() < 0.2 else None,
                    qk_matmul_output_mode=scores, **window)


def rotary(rng):
    b, s, heads = (int(rng.integers(1, 4)) for _ in range(3))
    size = int(rng.choice([4, 8]))
    part = 4 if size == 8 and flag(rng) else 0
    placed, flat = flag(rng), flag(rng)
    angle = rng.normal(0, 2, (9 if placed else b, *([] if placed else [s]), (part or size) // 2))
    caches = [either(rng, f(angle).astype(np.float32)) for f in (np.cos, np.sin)]
    x = values(rng, (b, s, heads * size) if flat else (b, heads, s, size))
    return standard("RotaryEmbedding", [open_(x), *caches, open_(rng.integers(0, 9, (b, s))) if placed else None], rng.integers(23, NEWEST),
                    interleaved=flag(rng), rotary_embedding_dim=part or None, num_heads=heads if flat else None)


def rms_norm(rng):
    x = values(rng, dims(rng, 1, empty=0), np.float32 if flag(rng) else np.float64)
    at = axis(rng, x.ndim)
    shape = x.shape[at % x.ndim:]
    shape = shape if flag(rng) else tuple(d if flag(rng) else 1 for d in shape)[int(rng.integers(0, len(shape) + 1)):]
    return standard("RMSNormalization", [open_(x), either(rng, values(rng, shape, x.dtype))], rng.integers(23, NEWEST), axis=at,
                    epsilon=float(rng.choice([1e-5, 1e-3, 0.1])), evaluator=True)


def cache(rng):
    shape = [int(d) for d in rng.integers(1, 5, int(rng.integers(2, 5)))]
    at = int(rng.integers(1, len(shape)))
    shape[at] += 2
    round_ = flag(rng)
    count = int(rng.integers(1, shape[at] + 1))
    update = [*shape[:at], count, *shape[at + 1:]]
    where = rng.integers(0, 9 if round_ else shape[at] - count + 1, shape[0])
    return standard("TensorScatter", [open_(values(rng, shape)), open_(values(rng, update)), maybe(rng, open_(where), 0.8)], rng.integers(24, NEWEST),
                    mode="circular" if round_ else "linear" if flag(rng) else None, axis=None if at == len(shape) - 2 and flag(rng) else at - len(shape) * flag(rng), evaluator=True)


def swish(rng):
    return standard("Swish", [open_(values(rng, dims(rng), np.float32 if flag(rng) else np.float64))], rng.integers(24, NEWEST),
                    alpha=float(rng.choice([1, 0.5, -1.7])) if flag(rng) else None, evaluator=True)


MAKERS = [attention, rotary, rms_norm, cache, swish]
