// SPDX-License-Identifier: Apache-2.0
#include "tools/npy_cast.h"

namespace hg::tools {
namespace {

// In C order, whatever the strides.
template <class To, class From>
std::optional<NpyArray> copied(const Tensor& from, DType type) {
  Result<TensorData> data = TensorData::allocate(type, from.shape);
  if (!data.ok()) return std::nullopt;
  To* to = data->tensor.as<To>();
  Sizes at(from.rank(), 0);
  for (int64_t i = 0; i < from.count(); ++i) {
    int64_t offset = 0;
    for (int d = 0; d < from.rank(); ++d) offset += at[d] * from.strides[d];
    to[i] = static_cast<To>(from.as<From>()[offset]);
    for (int d = from.rank() - 1; d >= 0 && ++at[d] == from.shape[d]; --d) at[d] = 0;
  }
  return NpyArray{data->tensor, data->owner};
}

}  // namespace

std::optional<NpyArray> cast(const NpyArray& array, DType type) {
  const Tensor& from = array.tensor;
  if (type == f32 && from.dtype == f64) return copied<float, double>(from, type);
  if (type != i64) return std::nullopt;
  if (from.dtype == i32) return copied<int64_t, int32_t>(from, type);
  if (from.dtype == i16) return copied<int64_t, int16_t>(from, type);
  if (from.dtype == i8) return copied<int64_t, int8_t>(from, type);
  if (from.dtype == u8) return copied<int64_t, uint8_t>(from, type);
  return std::nullopt;
}

}  // namespace hg::tools
