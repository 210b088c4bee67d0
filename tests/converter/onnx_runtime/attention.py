# SPDX-License-Identifier: Apache-2.0
"""Random nodes of com.microsoft: attention with its masks, caches and rotary embeddings."""
import numpy as np

from case import Case, fixed, flag, maybe, open_, values


def masks(rng, b, s, total, past):
    kind = int(rng.integers(0, 5))
    if kind == 0:
        return None
    if kind == 1:
        return open_(rng.integers(1, total + 1, b).astype(np.int32))
    if kind == 2:
        end = rng.integers(1, total + 1, b)
        return open_(np.concatenate([end, [rng.integers(0, e) for e in end]]).astype(np.int32))
    shown = rng.integers(0, 2, (b, total) if kind == 3 else (b, s, total)).astype(np.int32)
    shown[..., 0] = 1
    return open_(shown)


def self_attention(rng):
    b, s, heads, size = (int(rng.integers(1, 4)) for _ in range(4))
    size *= 4
    width = int(rng.integers(1, 9))
    vsize = size if rng.random() < 0.7 else size + 4
    total = heads * (2 * size + vsize)
    past = int(rng.integers(0, 4)) if rng.random() < 0.5 and vsize == size else -1
    keys = s + max(past, 0)
    bias = maybe(rng, open_(values(rng, (b if flag(rng) else 1, heads if flag(rng) else 1, s, keys))), 0.3)
    return Case("Attention", [open_(values(rng, (b, s, width))), fixed(values(rng, (width, total))), maybe(rng, fixed(values(rng, (total,))), 0.7),
                              masks(rng, b, s, keys, past), open_(values(rng, (2, b, heads, past, size))) if past >= 0 else None, bias],
                num_heads=heads, unidirectional=flag(rng), qkv_hidden_sizes=[heads * size, heads * size, heads * vsize] if vsize != size else None,
                scale=float(rng.choice([0.3, 1])) if rng.random() < 0.3 else None,
                mask_filter_value=-1000.0 if rng.random() < 0.3 else None, outputs=2 if past >= 0 else 1)


def multi_head(rng):
    b, s, heads = (int(rng.integers(1, 4)) for _ in range(3))
    size = int(rng.choice([4, 8]))
    keys = s if rng.random() < 0.5 else int(rng.integers(1, 6))
    vsize = size if rng.random() < 0.7 else 4
    d, dv = heads * size, heads * vsize
    past = int(rng.integers(0, 4)) if rng.random() < 0.4 else -1
    total = keys + max(past, 0)
    bias = maybe(rng, fixed(values(rng, (2 * d + dv,))), 0.4)
    key, value = open_(values(rng, (b, keys, d))), open_(values(rng, (b, keys, dv)))
    past_k = past_v = None
    if past >= 0:
        past_k, past_v = open_(values(rng, (b, heads, past, size))), open_(values(rng, (b, heads, past, vsize)))
    elif rng.random() < 0.2:
        key, value, bias = open_(values(rng, (b, heads, keys, size))), open_(values(rng, (b, heads, keys, vsize))), None
    added = maybe(rng, open_(values(rng, (b if flag(rng) else 1, heads if flag(rng) else 1, s, total))), 0.3)
    mask = masks(rng, b, s, total, past)
    if mask is not None and mask[0].ndim == 1 and len(mask[0]) != b:
        mask = None
    return Case("MultiHeadAttention", [open_(values(rng, (b, s, d))), key, value, bias, mask, added, past_k, past_v],
                num_heads=heads, unidirectional=flag(rng) if keys == s else 0, scale=0.3 if rng.random() < 0.3 else None,
                outputs=3 if past >= 0 else 1)


def rotary(rng):
    b, s, heads = (int(rng.integers(1, 4)) for _ in range(3))
    size = int(rng.choice([4, 8]))
    part = 4 if size == 8 and rng.random() < 0.4 else 0
    half = (part or size) // 2
    angle = rng.normal(0, 2, (9, half))
    at = np.array([int(rng.integers(0, 5))]) if rng.random() < 0.4 else rng.integers(0, 9, (b, s))
    flat = rng.random() < 0.5
    x = values(rng, (b, s, heads * size) if flat else (b, heads, s, size))
    return Case("RotaryEmbedding", [open_(x), open_(at.astype(np.int64)), fixed(np.cos(angle).astype(np.float32)), fixed(np.sin(angle).astype(np.float32))],
                interleaved=flag(rng), rotary_embedding_dim=part or None, num_heads=heads if part or rng.random() < 0.3 else None)


def group_query(rng):
    b, kv = (int(rng.integers(1, 3)) for _ in range(2))
    heads, size = kv * int(rng.integers(1, 4)), int(rng.choice([16, 32]))
    prompt = rng.random() < 0.5
    s = int(rng.integers(1, 6)) if prompt else int(rng.integers(1, 3)) if b == 1 else 1
    lengths = rng.integers(1, s + 1, b) if prompt else rng.integers(s, s + 6, b)
    if not prompt:
        lengths = np.maximum(lengths, s + 1)
    total = s if prompt else int(lengths.max())
    cache = int(rng.integers(0, 4)) + (0 if prompt else total - s)
    if not prompt and rng.random() < 0.5:
        cache = total - s
    rotates, packed = rng.random() < 0.5, rng.random() < 0.3
    half = size // 2 if rng.random() < 0.7 else 8
    angle = rng.normal(0, 2, (24, half))
    q, k, v = (values(rng, (b, s, n * size)) for n in (heads, kv, kv))
    inputs = [open_(np.concatenate([q, k, v], -1)), None, None] if packed else [open_(q), open_(k), open_(v)]
    past = prompt and rng.random() < 0.5
    inputs += [None, None] if past else [open_(values(rng, (b, kv, cache, size))), open_(values(rng, (b, kv, cache, size)))]
    inputs += [open_((lengths - 1).astype(np.int32)), fixed(np.int32(total)) if rng.random() < 0.7 else open_(np.int32(total))]
    inputs += [fixed(np.cos(angle).astype(np.float32)), fixed(np.sin(angle).astype(np.float32))] if rotates else [None, None]
    inputs += [None, maybe(rng, open_(values(rng, (b if flag(rng) else 1, heads if flag(rng) else 1, s, total))), 0.2),
               maybe(rng, fixed(values(rng, (heads,))), 0.2)]
    # Rows of a prompt after its length are undefined.
    ends = lengths if prompt else [s] * b

    def rows(i, y):
        if i == 0:
            return np.concatenate([y[j, : ends[j]].ravel() for j in range(b)])
        return np.concatenate([y[j, :, : lengths[j]].ravel() for j in range(b)])

    return Case("GroupQueryAttention", inputs, num_heads=heads, kv_num_heads=kv, do_rotary=int(rotates), rotary_interleaved=flag(rng) if rotates else 0,
                local_window_size=int(rng.integers(1, 5)) if rng.random() < 0.3 else None, softcap=5.0 if rng.random() < 0.2 else None,
                smooth_softmax=1 if rng.random() < 0.1 else None, scale=0.2 if rng.random() < 0.2 else None, outputs=3, rows=rows)


MAKERS = [self_attention, multi_head, rotary, group_query]
