// SPDX-License-Identifier: Apache-2.0
// Converts 16-bit floats to f32 exactly, and back with rounding to nearest even, for every
// instruction set.
#pragma once

#include <cstdint>

#include "hg/tensor.h"

namespace hg::kernels {

struct HalfTable {
  void (*widen_f16)(int64_t count, const Half* from, float* to) = nullptr;
  void (*widen_bf16)(int64_t count, const BFloat16* from, float* to) = nullptr;
  void (*narrow_f16)(int64_t count, const float* from, Half* to) = nullptr;
  void (*narrow_bf16)(int64_t count, const float* from, BFloat16* to) = nullptr;
  // Narrows and widens; `to` may be `from`.
  void (*round_f16)(int64_t count, const float* from, float* to) = nullptr;
  void (*round_bf16)(int64_t count, const float* from, float* to) = nullptr;

  void widen(int64_t count, const Half* from, float* to) const { widen_f16(count, from, to); }
  void widen(int64_t count, const BFloat16* from, float* to) const { widen_bf16(count, from, to); }
  void narrow(int64_t count, const float* from, Half* to) const { narrow_f16(count, from, to); }
  void narrow(int64_t count, const float* from, BFloat16* to) const {
    narrow_bf16(count, from, to);
  }
};

const HalfTable& half_table();

}  // namespace hg::kernels
