// SPDX-License-Identifier: Apache-2.0
#include "converter/check/seeded.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "lib/graph/element.h"
#include "lib/graph/split_mix.h"

namespace hg::convert {
namespace {

struct Random {
  uint64_t state;
  uint64_t next() { return split_mix(state); }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // [0, 1)
  double normal() {                                                         // Box and Muller 1958
    double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }
};

void put(void* data, DType dtype, int64_t i, double value) {
  switch (dtype) {
    case f32:
      static_cast<float*>(data)[i] = static_cast<float>(value);
      break;
    case f64:
      static_cast<double*>(data)[i] = value;
      break;
    case f16:
      static_cast<Half*>(data)[i] = Half(static_cast<float>(value));
      break;
    case bf16:
      static_cast<BFloat16*>(data)[i] = BFloat16(static_cast<float>(value));
      break;
    case i64:
      static_cast<int64_t*>(data)[i] = static_cast<int64_t>(value);
      break;
    case i32:
      static_cast<int32_t*>(data)[i] = static_cast<int32_t>(value);
      break;
    case i16:
      static_cast<int16_t*>(data)[i] = static_cast<int16_t>(value);
      break;
    case i8:
      static_cast<int8_t*>(data)[i] = static_cast<int8_t>(value);
      break;
    case u8:
      static_cast<uint8_t*>(data)[i] = static_cast<uint8_t>(value);
      break;
    case boolean:
      static_cast<bool*>(data)[i] = value != 0;
      break;
    case c64:
    case c128:
      break;  // filled in pairs
  }
}

using Kind = Recipe::Kind;
constexpr Recipe kRecipes[] = {
    {Kind::normal, 0, 10},      {Kind::uniform, 0, 1},      {Kind::uniform, -1, 1},
    {Kind::constant, 0, 0},     {Kind::constant, 1, 0},     {Kind::constant, -1, 0},
    {Kind::normal, 0, 0.1},     {Kind::sparse, 0, 1},       {Kind::rising, 0, 1},
    {Kind::rising, 0, -1},      {Kind::normal, 0, 100},     {Kind::normal, 0, 0.01},
    {Kind::uniform, 0, 10},     {Kind::uniform, -10, 10},   {Kind::constant, 10, 0},
    {Kind::constant, -10, 0},   {Kind::constant, 2, 0},     {Kind::constant, 0.5, 0},
    {Kind::normal, 5, 1},       {Kind::normal, -5, 1},      {Kind::magnitudes, 0, 1},
    {Kind::uniform, 0, 100},    {Kind::normal, 0, 1000},    {Kind::sparse, 0, 100},
    {Kind::constant, 100, 0},   {Kind::constant, -100, 0},  {Kind::constant, 3, 0},
    {Kind::uniform, -100, 100}, {Kind::normal, 0, 1e-4},    {Kind::uniform, 0, 1000},
    {Kind::constant, 1000, 0},  {Kind::constant, -1000, 0}, {Kind::normal, 0, 1e4},
    {Kind::constant, 1e-6, 0},  {Kind::rising, 0, 100},
};

double least(DType dtype) {
  switch (dtype) {
    case u8:
      return 0;
    case i8:
      return -128;
    case i16:
      return -32768;
    case i32:
      return -2147483648.0;
    default:
      return -1e15;
  }
}
double most(DType dtype) { return dtype == u8 ? 255 : dtype == i64 ? 1e15 : -least(dtype) - 1; }

// Fills integers within the draw's limit, intersected with the range unless the intersection is
// empty.
void fill_up_to(const Tensor& integers, const Draw& draw,
                const std::optional<std::pair<double, double>>& range, Random& random) {
  double low = draw.filling == Filling::lengths ? 1 : 0;
  double high = std::max(low, std::min(static_cast<double>(draw.most), most(integers.dtype)));
  if (range) {
    const double first = std::ceil(range->first), last = std::floor(range->second);
    low = std::clamp(low, first, last);
    high = std::clamp(high, low, last);
  }
  std::vector<double> values(integers.count());
  for (double& value : values) value = low + std::floor((high - low + 1) * random.uniform());
  if (draw.filling == Filling::lengths) std::sort(values.rbegin(), values.rend());
  for (size_t i = 0; i < values.size(); ++i)
    put(integers.data, integers.dtype, static_cast<int64_t>(i), values[i]);
}

// Replaces each matrix x by x x^T / n + 1.
void make_definite(const Tensor& matrices) {
  const int64_t n = matrices.shape[matrices.rank() - 1], size = n * n;
  std::vector<double> x(static_cast<size_t>(size));
  for (int64_t first = 0; size > 0 && first < matrices.count(); first += size) {
    for (int64_t i = 0; i < size; ++i) x[i] = element(matrices, first + i);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = i == j;
        for (int64_t k = 0; k < n; ++k) sum += x[i * n + k] * x[j * n + k] / static_cast<double>(n);
        set_element(matrices, first + i * n + j, sum);
      }
  }
}

}  // namespace

std::span<const Recipe> recipes() { return kRecipes; }

std::string describe(const Recipe& recipe) {
  const auto around = [&](const char* what) {
    return str_cat(what, recipe.at != 0 ? str_cat(" around ", recipe.at) : std::string(),
                   " of scale ", recipe.scale);
  };
  switch (recipe.kind) {
    case Kind::normal:
      return around("normal values");
    case Kind::uniform:
      return str_cat("values from ", recipe.at, " to ", recipe.at + recipe.scale);
    case Kind::constant:
      return str_cat("all values ", recipe.at);
    case Kind::rising:
      return around(recipe.scale > 0 ? "rising values" : "falling values");
    case Kind::sparse:
      return around("sparse values");
    case Kind::magnitudes:
      break;
  }
  return "values of mixed magnitudes";
}

std::string describe(const Draw& draw) {
  if (draw.filling == Filling::counts) return str_cat("integers from 0 to ", draw.most);
  if (draw.filling == Filling::lengths)
    return str_cat("integers from 1 to ", draw.most, " in falling order");
  return "";
}

Result<TensorData> seeded_input(DType dtype, const Sizes& shape,
                                const std::optional<std::pair<double, double>>& range,
                                const Recipe& recipe, uint64_t seed) {
  HG_TRY_ASSIGN(TensorData data, TensorData::allocate(dtype, shape));
  const Tensor parts = view_as_real(data.tensor);
  dtype = parts.dtype;
  Random random{seed * 0x2545F4914F6CDD1D + 2};
  random.next();
  std::vector<double> values(parts.count());
  for (double& value : values) {
    switch (recipe.kind) {
      case Kind::normal:
      case Kind::rising:
        value = random.normal();
        break;
      case Kind::uniform:
        value = random.uniform();
        break;
      case Kind::constant:
        value = 0;
        break;
      case Kind::sparse:
        value = random.uniform() < 0.1 ? random.normal() : 0;
        break;
      case Kind::magnitudes:
        value = random.normal() * std::pow(10, 6 * random.uniform() - 3);
        break;
    }
  }
  if (recipe.kind == Kind::rising) std::sort(values.begin(), values.end());
  for (size_t i = 0; i < values.size(); ++i) {
    double value = recipe.at + recipe.scale * values[i];
    if (range) {
      const double middle = (range->first + range->second) / 2;
      value = std::clamp(middle + (range->second - middle) * value, range->first, range->second);
    }
    if (!is_float(dtype) && dtype != boolean) {
      value = std::clamp(std::round(value), least(dtype), most(dtype));
      if (range) value = std::clamp(value, std::ceil(range->first), std::floor(range->second));
    }
    put(data.tensor.data, dtype, static_cast<int64_t>(i), dtype == boolean ? value > 0 : value);
  }
  return data;
}

Result<TensorData> seeded_input(DType dtype, const Sizes& shape,
                                const std::optional<std::pair<double, double>>& range,
                                const Draw& draw, uint64_t seed) {
  const Filling filling = draw.filling;
  HG_TRY_ASSIGN(TensorData data, TensorData::allocate(dtype, shape));
  const Tensor parts = view_as_real(data.tensor);
  dtype = parts.dtype;
  Random random{seed * 0x2545F4914F6CDD1D + 1};
  random.next();
  const bool limited = filling == Filling::counts || filling == Filling::lengths;
  if (limited && !is_float(dtype) && dtype != boolean) {
    fill_up_to(data.tensor, draw, range, random);
    return data;
  }
  for (int64_t i = 0; i < parts.count(); ++i) {
    double value;
    if (range && is_float(dtype)) {
      value = range->first + (range->second - range->first) * random.uniform();
    } else if (range) {
      double low = std::ceil(range->first), steps = std::floor(range->second) - low + 1;
      value = low + std::floor(steps * random.uniform());
    } else if (is_float(dtype)) {
      value = filling == Filling::positive ? 0.1 + 0.9 * random.uniform() : random.normal();
    } else if (dtype == boolean || (filling != Filling::zeros && filling != Filling::positive)) {
      value = static_cast<double>(random.next() >> 63);
    } else {
      value = filling == Filling::positive ? 1 : 0;
    }
    put(data.tensor.data, dtype, i, value);
  }
  const int rank = data.tensor.rank();
  if (filling == Filling::definite && !range && is_float(data.tensor.dtype) && rank >= 2 &&
      shape[rank - 1] == shape[rank - 2])
    make_definite(data.tensor);
  return data;
}

}  // namespace hg::convert
