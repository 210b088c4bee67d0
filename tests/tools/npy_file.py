# SPDX-License-Identifier: Apache-2.0
"""Reads and writes .npy files of f32 without numpy."""

import struct


def write_npy(path, values, shape):
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }" % "".join(f"{n}, " for n in shape)
    head = head.ljust((len(head) + 10) // 64 * 64 + 64 - 11) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode()
                     + struct.pack(f"<{len(values)}f", *values))


def read_npy(path):
    data = path.read_bytes()
    start = 10 + struct.unpack("<H", data[8:10])[0]
    return list(struct.unpack(f"<{(len(data) - start) // 4}f", data[start:]))
