// SPDX-License-Identifier: Apache-2.0
#include "lib/expression/item.h"

#include <cmath>
#include <limits>
#include <optional>

#include "hg/op.h"
#include "hg/ops/pointwise.h"

namespace hg {
namespace {

int category(DType dtype) { return is_float(dtype) ? 2 : dtype == boolean ? 0 : 1; }

using Type = std::optional<DType>;

Type join(const Type& a, DType b) { return a ? promote(*a, b) : b; }

// What tensors of one standing give, with those of the next.
Type combine(const Type& higher, const Type& lower) {
  if (!higher || !lower) return higher ? higher : lower;
  if (is_float(*higher)) return higher;
  if (*higher == boolean || is_float(*lower)) return promote(*higher, *lower);
  return higher;
}

bool fits(int64_t value, DType dtype) {
  if (dtype == i64 || is_float(dtype)) return true;
  if (dtype == boolean) return value == 0 || value == 1;
  const auto bits = static_cast<int>(size_of(dtype) * 8);
  const int64_t low = dtype == u8 ? 0 : -(int64_t{1} << (bits - 1));
  const int64_t high = (int64_t{1} << (dtype == u8 ? bits : bits - 1)) - 1;
  return value >= low && value <= high;
}

}  // namespace

DType result_dtype(std::span<const Item* const> items) {
  Type dims, zero, numbers, as_numbers;
  for (const Item* item : items) {
    if (item->is_number) {
      numbers = join(numbers, item->dtype());
      as_numbers = join(as_numbers, item->dtype() == f64 ? f32 : item->dtype());
    } else if (item->parts[0].rank() > 0) {
      dims = join(dims, item->dtype());
    } else {
      zero = join(zero, item->dtype());
    }
  }
  if (!dims && !zero) return numbers.value_or(f32);
  return *combine(dims, combine(zero, as_numbers));
}

Result<Value> convert(const Value& value, bool is_number, DType dtype) {
  if (value.dtype() == dtype) return value;
  Graph& graph = *value.graph();
  const TensorData* data = is_number ? graph.constant_of(value.id()) : nullptr;
  if (data == nullptr || category(value.dtype()) > category(dtype)) return cast(value, dtype);
  const DType from = value.dtype();
  if (from == f64) return graph.scalar(*data->tensor.as<double>(), dtype);
  const int64_t whole = from == i64 ? *data->tensor.as<int64_t>() : *data->tensor.as<bool>();
  HG_CHECK(fits(whole, dtype), "the number ", whole, " does not fit ", dtype);
  if (is_float(dtype)) return graph.scalar(static_cast<double>(whole), dtype);
  return graph.scalar(whole, dtype);
}

}  // namespace hg
