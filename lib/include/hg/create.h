// SPDX-License-Identifier: Apache-2.0
// Arrays made from nothing, with PyTorch's names and meanings, and arrays in other dtypes. An
// Executor has the same as methods, which keep their plans: the choice where it is done often.
#pragma once

#include <cstdint>

#include "hg/array.h"

namespace hg {

Result<Array> zeros(const Sizes& shape, DType dtype = f32);
Result<Array> ones(const Sizes& shape, DType dtype = f32);
Result<Array> full(const Sizes& shape, double value, DType dtype = f32);
// start, start + step, ... before end, ceil((end - start) / step) of them; step may be negative.
Result<Array> arange(double start, double end, double step = 1, DType dtype = f32);
// `steps` numbers from start to end, both among them.
Result<Array> linspace(double start, double end, int64_t steps, DType dtype = f32);
// n rows, and m columns, or n where m is negative.
Result<Array> eye(int64_t n, int64_t m = -1, DType dtype = f32);

// Equal seeds give equal numbers, on every machine and device. Uniform in [0, 1).
Result<Array> rand(const Sizes& shape, uint64_t seed, DType dtype = f32);
// Normal, with mean 0 and variance 1.
Result<Array> randn(const Sizes& shape, uint64_t seed, DType dtype = f32);
// Whole numbers from low to before high, each as likely.
Result<Array> randint(int64_t low, int64_t high, const Sizes& shape, uint64_t seed,
                      DType dtype = i64);

// The same numbers in another dtype, as the op `cast` gives them; the array itself where it has
// that dtype.
Result<Array> cast(const Array& array, DType dtype);

}  // namespace hg
