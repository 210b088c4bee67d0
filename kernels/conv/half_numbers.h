// SPDX-License-Identifier: Apache-2.0
// Images of f16 or bf16 for convolutions that sum in f32: a kernel widens the parts that it copies,
// sums a tile in f32, and rounds it once. Their weights are packed as f32.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "hg/kernel.h"
#include "kernels/simd/half_simd.h"
#include "lib/table/holds.h"

namespace hg::kernels {

inline constexpr bool kHoldsHalves = holds(DType::f16) || holds(DType::bf16);

struct HalfNumbers {
  DType dtype = DType::f32;  // of x, bias, residual and y
  const HalfTable* table = nullptr;

  HalfNumbers() = default;
  explicit HalfNumbers(DType of) : dtype(of) {
    if constexpr (kHoldsHalves) table = &half_table();
  }
  explicit operator bool() const { return kHoldsHalves && dtype != DType::f32; }
  void widen(int64_t count, const uint16_t* from, float* to) const {
    if (dtype == DType::f16)
      table->widen(count, reinterpret_cast<const Half*>(from), to);
    else
      table->widen(count, reinterpret_cast<const BFloat16*>(from), to);
  }
  // Of a pack: the same bits are other numbers in the other dtype.
  std::string key(std::string_view pack) const { return str_cat(pack, ".", to_string(dtype)); }
  // The weights in f32, packed once; null if there is no memory.
  const float* pack_widened(PrepareContext& c, int64_t count) const {
    const auto* const halves = c.in(1).as<uint16_t>();
    return static_cast<const float*>(c.pack(
        1, key("conv.widened"), count * 4,
        [*this, count, halves](void* to) { widen(count, halves, static_cast<float*>(to)); }));
  }
  void narrow(int64_t count, const float* from, uint16_t* to) const {
    if (dtype == DType::f16)
      table->narrow(count, from, reinterpret_cast<Half*>(to));
    else
      table->narrow(count, from, reinterpret_cast<BFloat16*>(to));
  }
};

// Whether a kernel for f32 also takes the convolution: of f32, or of halves with weights to pack.
inline bool is_f32_or_packed_half(const PrepareContext& c) {
  const DType dtype = c.out(0).dtype;
  if (dtype == DType::f32) return true;
  return kHoldsHalves && (dtype == DType::f16 || dtype == DType::bf16) && c.is_constant(1) &&
         !c.low_memory() && c.precision() == Precision::f32 && !c.attrs().flag("transposed");
}

}  // namespace hg::kernels
