# SPDX-License-Identifier: Apache-2.0
"""Writes GGUF files, and random blocks of each type together with the numbers that they represent."""
import struct

import numpy as np

U32, I32, F32, BOOL, TEXT, ARRAY = 4, 5, 6, 7, 8, 9


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def value(item):
    """Returns the number of a metadata value's type and the value's bytes."""
    if isinstance(item, bool):
        return struct.pack("<IB", BOOL, item)
    if isinstance(item, int):
        return struct.pack("<II", U32, item)
    if isinstance(item, float):
        return struct.pack("<If", F32, item)
    if isinstance(item, str):
        return struct.pack("<I", TEXT) + text(item)
    if item and isinstance(item[0], (int, float)):
        kind, letter = (I32, "i") if isinstance(item[0], int) else (F32, "f")
        return struct.pack(f"<IIQ{len(item)}{letter}", ARRAY, kind, len(item), *item)
    return struct.pack("<IIQ", ARRAY, TEXT, len(item)) + b"".join(map(text, item))


def container(metadata, tensors, version=3, moves={}):
    """Returns the bytes of a file. `tensors` maps names to (type, shape, bytes); the last dim of a shape is
    contiguous. `moves` maps names to bytes added to the stated offset, or to None for offset 0."""
    alignment = metadata.get("general.alignment", 32)
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    for key, item in metadata.items():
        head += text(key) + value(item)
    data = b""
    for name, (kind, shape, content) in tensors.items():
        head += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape[::-1])
        head += struct.pack("<iQ", kind, (len(data) + moves.get(name, 0)) if moves.get(name, 0) is not None else 0)
        data += content + bytes(-len(content) % alignment)
    return head + bytes(-len(head) % alignment) + data


def split(metadata, tensors, count):
    """Returns the bytes of each file of a split model. The first has the metadata and as few tensors as the others."""
    parts, names = [], list(tensors)
    for i in range(count):
        own = {name: tensors[name] for name in names[len(names) * i // count : len(names) * (i + 1) // count]}
        keys = {"split.no": i, "split.count": count, "split.tensors.count": len(names)}
        parts.append(container((metadata if i == 0 else {}) | keys, own))
    return parts


def halves(rng, low, high, rows):
    return rng.uniform(low, high, (rows, 1)).astype(np.float16)


def nibbles(packed):
    return np.concatenate([packed & 15, packed >> 4], 1)


def fifth_bits(packed):
    return (packed.copy().view("<u4") >> np.arange(32, dtype=np.uint32) & 1).astype(np.uint8)


def q4_0(rng, n, s):
    d, q = halves(rng, -s / 8, s / 8, n), rng.integers(0, 256, (n, 16), np.uint8)
    return [d, q], d * 1.0 * (nibbles(q).astype(int) - 8)


def q4_1(rng, n, s):
    d, m, q = halves(rng, 0, s / 8, n), halves(rng, -s, 0, n), rng.integers(0, 256, (n, 16), np.uint8)
    return [d, m, q], d.astype(float) * nibbles(q) + m


def q5_0(rng, n, s):
    d, h, q = halves(rng, -s / 16, s / 16, n), rng.integers(0, 256, (n, 4), np.uint8), rng.integers(0, 256, (n, 16), np.uint8)
    return [d, h, q], d.astype(float) * ((nibbles(q) | fifth_bits(h) << 4).astype(int) - 16)


def q5_1(rng, n, s):
    d, m = halves(rng, 0, s / 16, n), halves(rng, -s, 0, n)
    h, q = rng.integers(0, 256, (n, 4), np.uint8), rng.integers(0, 256, (n, 16), np.uint8)
    return [d, m, h, q], d.astype(float) * (nibbles(q) | fifth_bits(h) << 4) + m


def q8_0(rng, n, s):
    d, q = halves(rng, -s / 128, s / 128, n), rng.integers(-128, 128, (n, 32), np.int8)
    return [d, q], d.astype(float) * q


def scales_and_minimums(packed):
    """Unpacks eight 6-bit numbers each from 12 bytes: four complete ones, and four whose upper bits are in the first
    bytes."""
    first, second, both = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = np.concatenate([first & 63, both & 15 | first >> 6 << 4], 1)
    return scales.astype(float), np.concatenate([second & 63, both >> 4 | second >> 6 << 4], 1).astype(float)


def k_values(d, m, packed, levels):
    scales, minimums = scales_and_minimums(packed)
    groups = levels.reshape(len(levels), 8, 32)
    return (d.astype(float)[:, :, None] * scales[:, :, None] * groups - m.astype(float)[:, :, None] * minimums[:, :, None]).reshape(len(levels), 256)


def q4_k(rng, n, s):
    d, m = halves(rng, 0, s / 256, n), halves(rng, 0, s / 32, n)
    packed, q = rng.integers(0, 256, (n, 12), np.uint8), rng.integers(0, 256, (n, 128), np.uint8)
    levels = np.concatenate([nibbles(q[:, i : i + 32]) for i in range(0, 128, 32)], 1)
    return [d, m, packed, q], k_values(d, m, packed, levels)


def q5_k(rng, n, s):
    d, m = halves(rng, 0, s / 512, n), halves(rng, 0, s / 32, n)
    packed, h, q = (rng.integers(0, 256, (n, k), np.uint8) for k in (12, 32, 128))
    levels = [nibbles(q[:, i : i + 32]) for i in range(0, 128, 32)]
    high = np.concatenate([h >> g & 1 for g in range(8)], 1)
    return [d, m, packed, h, q], k_values(d, m, packed, np.concatenate(levels, 1) | high << 4)


def q6_k(rng, n, s):
    low, high = rng.integers(0, 256, (n, 128), np.uint8), rng.integers(0, 256, (n, 64), np.uint8)
    scales, d = rng.integers(-128, 128, (n, 16), np.int8), halves(rng, -s / 2048, s / 2048, n)
    levels = []
    for half in range(2):
        a, b, h = low[:, 64 * half :][:, :32], low[:, 64 * half + 32 :][:, :32], high[:, 32 * half :][:, :32]
        levels += [a & 15 | (h & 3) << 4, b & 15 | (h >> 2 & 3) << 4, a >> 4 | (h >> 4 & 3) << 4, b >> 4 | h >> 6 << 4]
    q = np.concatenate(levels, 1).astype(int) - 32
    return [low, high, scales, d], (d.astype(float)[:, :, None] * scales[:, :, None] * q.reshape(n, 16, 16)).reshape(n, 256)


BLOCKS = {2: (32, q4_0), 3: (32, q4_1), 6: (32, q5_0), 7: (32, q5_1), 8: (32, q8_0), 12: (256, q4_k), 13: (256, q5_k), 14: (256, q6_k)}


def tensor(rng, kind, shape, scale, center=0.0):
    """Returns a random tensor of a type, (type, shape, bytes), and its numbers in f64."""
    if kind in BLOCKS:
        elements, make = BLOCKS[kind]
        parts, numbers = make(rng, int(np.prod(shape)) // elements, scale)
        content = np.concatenate([np.ascontiguousarray(part).view(np.uint8) for part in parts], 1)
        return (kind, shape, content.tobytes()), numbers.reshape(shape)
    numbers = (rng.standard_normal(shape) * scale + center).astype(np.float32)
    if kind == 1:
        numbers = numbers.astype(np.float16)
        return (kind, shape, numbers.tobytes()), numbers.astype(float)
    if kind == 30:
        bits = numbers.view(np.uint32) >> 16
        return (kind, shape, bits.astype(np.uint16).tobytes()), (bits << 16).view(np.float32).astype(float)
    return (kind, shape, numbers.tobytes()), numbers.astype(float)
