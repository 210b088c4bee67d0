# SPDX-License-Identifier: Apache-2.0
"""The inputs of a run: sizes of the program's symbols, and a scale."""
from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from generate import Program

# Powers of two, and data in quarters: sums and products of a few are exact in any order.
SMALL, LARGE = 1 / 128, 128.0
DTYPES = {"f32": np.float32, "i64": np.int64, "f64": np.float64, "f16": np.float16, "i32": np.int32, "i16": np.int16, "i8": np.int8,
          "u8": np.uint8}


@dataclass(frozen=True)
class Point:
    n: int
    m: int
    k: int
    scale: float

    def sizes(self, dims: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(int(dim) if dim.isdigit() else getattr(self, dim) for dim in dims)


POINTS = [Point(3, 3, 2, 1), Point(1, 2, 4, 1), Point(2, 1, 1, 1), Point(6, 4, 3, 1), Point(0, 2, 4, 1),
          Point(3, 2, 4, SMALL), Point(3, 3, 4, LARGE), Point(3, 1, 3, -1), Point(3, 3, 4, 0),
          Point(2, 2, 4, SMALL), Point(2, 3, 3, -1), Point(1, 1, 4, LARGE), Point(1, 0, 1, 0), Point(6, 6, 4, LARGE),
          Point(6, 1, 2, -1)]
TRACED_AT = Point(5, 4, 3, 1)


def points_of(program: Program) -> list[Point]:
    """A trace must also answer at the sizes where it was made."""
    return POINTS + [TRACED_AT] if program.traced else POINTS


@cache
def array(which: int, dtype: str, dims: tuple[str, ...], point: Point) -> np.ndarray:
    sizes = point.sizes(dims)
    rng = np.random.default_rng([which, point.n, point.m, point.k, len(sizes)])
    data = np.asarray(rng.integers(-16, 17, sizes))
    kind = DTYPES[dtype]
    if np.issubdtype(kind, np.integer):  # numbers that are too large for it wrap around
        return np.asarray(data // 3 * (point.scale if abs(point.scale) != SMALL else 1)).astype(np.int64).astype(kind)
    return np.asarray(data / 4 * point.scale).astype(kind)


def arrays(program: Program, point: Point) -> list[np.ndarray]:
    return [array(which, *each, point) for which, each in enumerate(program.inputs)]


def files(folder: Path, program: Program, point: Point) -> list[str]:
    """Paths of the inputs. They are written once for all programs."""
    paths = []
    for which, (dtype, dims) in enumerate(program.inputs):
        sizes = "x".join(map(str, point.sizes(dims)))
        path = folder / f"{which}_{dtype}_{sizes}_{point.n}_{point.m}_{point.k}_{point.scale}.npy"
        if not path.exists():
            np.save(path, array(which, dtype, dims, point))
        paths.append(str(path))
    return paths
