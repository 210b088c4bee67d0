// SPDX-License-Identifier: Apache-2.0
// Creates arrays by calling ops without inputs.
#include "hg/create.h"

#include <cmath>

#include "hg/eager.h"
#include "lib/graph/border.h"

namespace hg {
namespace {

Result<ExecutorBase> executor(uint64_t seed = 0) {
  return ExecutorBase::create({.threads = 1, .seed = seed, .most_plans = 8});
}

std::vector<Dim> dims_of(const Sizes& sizes) { return {sizes.begin(), sizes.end()}; }

Result<Array> drawn(std::string_view op, const Sizes& shape, uint64_t seed, DType dtype) {
  HG_TRY_ASSIGN(ExecutorBase ex, executor(seed));
  return ex.call(op, {}, {{"shape", dims_of(shape)}, {"dtype", dtype}});
}

}  // namespace

Result<Array> zeros(const Sizes& shape, DType dtype) {
  return or_no_memory([&]() -> Result<Array> {
    HG_TRY_ASSIGN(TensorData data, TensorData::allocate(dtype, shape));
    return Array(std::move(data));
  });
}

Result<Array> ones(const Sizes& shape, DType dtype) { return full(shape, 1, dtype); }

Result<Array> full(const Sizes& shape, double value, DType dtype) {
  return or_no_memory([&]() -> Result<Array> {
    HG_TRY_ASSIGN(ExecutorBase ex, executor());
    return ex.call("full", {}, {{"shape", dims_of(shape)}, {"value", value}, {"dtype", dtype}});
  });
}

Result<Array> arange(double start, double end, double step, DType dtype) {
  return or_no_memory([&]() -> Result<Array> {
    const double size = std::ceil((end - start) / step);
    HG_CHECK(step != 0 && size >= 0 && size < 0x1p53, "arange: from ", start, " to ", end,
             " there is no way in steps of ", step);
    HG_TRY_ASSIGN(ExecutorBase ex, executor());
    const DType inner = is_float(dtype) ? f64 : i64;
    HG_TRY_ASSIGN(const Array counted,
                  ex.call("arange", {}, {{"end", static_cast<int64_t>(size)}, {"dtype", inner}}));
    if (inner == i64)
      HG_CHECK(start == std::floor(start) && step == std::floor(step), "arange: ", start, " and ",
               step, " are no numbers of ", dtype);
    const Result<Array> scaled = ex.call("mul", {counted, step});
    const Result<Array> moved = ex.call("add", {scaled, start});
    return ex.call("cast", {moved}, {{"dtype", dtype}});
  });
}

Result<Array> linspace(double start, double end, int64_t steps, DType dtype) {
  return or_no_memory([&]() -> Result<Array> {
    HG_TRY_ASSIGN(ExecutorBase ex, executor());
    return ex.call("linspace", {},
                   {{"start", start}, {"end", end}, {"steps", steps}, {"dtype", dtype}});
  });
}

Result<Array> eye(int64_t n, int64_t m, DType dtype) {
  return or_no_memory([&]() -> Result<Array> {
    HG_TRY_ASSIGN(ExecutorBase ex, executor());
    return ex.call("eye", {}, {{"n", n}, {"m", m < 0 ? n : m}, {"dtype", dtype}});
  });
}

Result<Array> rand(const Sizes& shape, uint64_t seed, DType dtype) {
  return or_no_memory([&]() -> Result<Array> { return drawn("rand", shape, seed, dtype); });
}

Result<Array> randn(const Sizes& shape, uint64_t seed, DType dtype) {
  return or_no_memory([&]() -> Result<Array> { return drawn("randn", shape, seed, dtype); });
}

Result<Array> randint(int64_t low, int64_t high, const Sizes& shape, uint64_t seed, DType dtype) {
  return or_no_memory([&]() -> Result<Array> {
    HG_CHECK(low < high, "randint: there is no number from ", low, " to before ", high);
    const double range = static_cast<double>(high) - static_cast<double>(low);
    HG_CHECK(range <= 0x1p53, "randint: from ", low, " to ", high, " are more than 2^53 numbers");
    HG_TRY_ASSIGN(ExecutorBase ex, executor(seed));
    const Result<Array> unit = ex.call("rand", {}, {{"shape", dims_of(shape)}, {"dtype", f64}});
    const Result<Array> scaled = ex.call("floor", {ex.call("mul", {unit, range})});
    const Result<Array> whole = ex.call("cast", {scaled}, {{"dtype", i64}});
    HG_TRY_ASSIGN(const Array lowest, full({}, static_cast<double>(low), i64));
    return ex.call("cast", {ex.call("add", {whole, lowest})}, {{"dtype", dtype}});
  });
}

Result<Array> cast(const Array& array, DType dtype) {
  return or_no_memory([&]() -> Result<Array> {
    if (array.dtype() == dtype) return array;
    HG_TRY_ASSIGN(ExecutorBase ex, executor());
    return ex.call("cast", {array}, {{"dtype", dtype}});
  });
}

}  // namespace hg
