// SPDX-License-Identifier: Apache-2.0
#include "lib/expression/item.h"

#include <optional>

#include "hg/ops/pointwise.h"
#include "hg/promotion.h"

namespace hg {
namespace {

int category(DType dtype) { return is_float(dtype) ? 2 : dtype == boolean ? 0 : 1; }

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
  Promotion of;
  std::optional<DType> numbers;
  for (const Item* item : items) {
    if (!item->is_number) {
      of.add_tensor(item->dtype(), item->parts[0].rank());
      continue;
    }
    of.add_number(item->dtype());
    Promotion::add(numbers, item->dtype());
  }
  return of.dims || of.zero ? of.result() : numbers.value_or(f32);
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
