// SPDX-License-Identifier: Apache-2.0
// Creates arrays, with PyTorch's names and semantics, and converts dtypes. An Executor has the same
// functions as methods that cache their plans: prefer them for repeated calls.
#pragma once

#include <cstdint>

#include "hg/array.h"

namespace hg {

Result<Array> zeros(const Sizes& shape, DType dtype = f32);
Result<Array> ones(const Sizes& shape, DType dtype = f32);
Result<Array> full(const Sizes& shape, double value, DType dtype = f32);
// start, start + step, ..., excluding end: ceil((end - start) / step) numbers. step may be
// negative.
Result<Array> arange(double start, double end, double step = 1, DType dtype = f32);
// `steps` evenly spaced numbers from start to end, both included.
Result<Array> linspace(double start, double end, int64_t steps, DType dtype = f32);
// Ones on the diagonal of an [n, m] matrix; a negative m means n.
Result<Array> eye(int64_t n, int64_t m = -1, DType dtype = f32);

// Uniform in [0, 1). Equal seeds produce equal numbers on every machine and device.
Result<Array> rand(const Sizes& shape, uint64_t seed, DType dtype = f32);
// Normal, mean 0, variance 1.
Result<Array> randn(const Sizes& shape, uint64_t seed, DType dtype = f32);
// Integers, uniform in [low, high).
Result<Array> randint(int64_t low, int64_t high, const Sizes& shape, uint64_t seed,
                      DType dtype = i64);

// Converts as the op `cast` does. Returns the array itself if it already has this dtype.
Result<Array> cast(const Array& array, DType dtype);

}  // namespace hg
