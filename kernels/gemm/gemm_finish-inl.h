// SPDX-License-Identifier: Apache-2.0
// What happens to the sums of a block of gemm.h: the epilogue, and the store. Included once for
// every instruction set, as kernels/simd/simd.h describes.
#if defined(HG_KERNELS_GEMM_FINISH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_GEMM_FINISH_INL_H_
#undef HG_KERNELS_GEMM_FINISH_INL_H_
#else
#define HG_KERNELS_GEMM_FINISH_INL_H_
#endif

#include <array>
#include <utility>

#include "hwy/highway.h"
#include "kernels/gemm/gemm.h"
#include "kernels/pointwise/activation-inl.h"
#include "kernels/saves_code.h"
#include "kernels/simd/rows-inl.h"
#include "lib/table/holds.h"

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

// relu or relu6; NaN stays NaN.
HWY_INLINE V clamped(V x, bool has_high) {
  const D d;
  const V low = hn::Zero(d), high = hn::Set(d, 6.0f);
  x = hn::IfThenElse(hn::Lt(x, low), low, x);
  return has_high ? hn::IfThenElse(hn::Gt(x, high), high, x) : x;
}

// Adds and finishes the sums of a block, and stores the `valid` columns of each vector. sums holds
// the vectors row by row. at: the columns of the vectors.
template <int kVectors>
HWY_NOINLINE void store_edge(const Block& block, const float* sums, const int64_t* at,
                             const int* valid) {
  const D d;
  const Epilogue none;
  const Epilogue& e = block.epilogue != nullptr ? *block.epilogue : none;
  const bool clamps = is_clamp(e.activation) && e.activation != Activation::none;
  const bool has_high = e.activation == Activation::relu6;
  V bias[kVectors];
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v)
    bias[v] = e.column_bias ? load_part(d, e.column_bias + at[v], valid[v]) : hn::Zero(d);
  const float* residual = e.residual;
  float* y = block.y;
  for (int i = 0; i < block.rows; ++i, y += block.y_row, sums += kVectors * kLanes) {
    V x[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) x[v] = hn::Load(d, sums + v * kLanes);
    if (block.add) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) x[v] = hn::Add(load_part(d, y + at[v], valid[v]), x[v]);
    }
    if (e.row_bias != nullptr) {
      const V each = hn::Set(d, e.row_bias[i]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) x[v] = hn::Add(x[v], each);
    }
    if (e.column_bias != nullptr) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) x[v] = hn::Add(x[v], bias[v]);
    }
    if (residual != nullptr) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v)
        x[v] = hn::Add(x[v], load_part(d, residual + at[v], valid[v]));
      residual += block.y_row;
    }
    if (clamps) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) x[v] = clamped(x[v], has_high);
    }
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) store_part(d, x[v], valid[v], y + at[v]);
  }
}

// A pointer that the compiler cannot analyze, so that it makes no separate loop for null. This
// costs no time next to the rest, and programs are smaller.
HWY_INLINE const float* opaque(const float* p) {
  asm volatile("" : "+r"(p));
  return p;
}

template <Activation kActivation>
HWY_NOINLINE void finish_with(int64_t rows, int64_t columns, const Epilogue& e, float* y,
                              int64_t y_row) {
  const D d;
  const auto term = [](const float* p) {
    return !kSavesCode && is_clamp(kActivation) ? p : opaque(p);
  };
  for (int64_t i = 0; i < rows; ++i) {
    float* row = y + i * y_row;
    const float* residual = e.residual ? e.residual + i * y_row : nullptr;
    const V row_bias = hn::Set(d, e.row_bias ? e.row_bias[i] : 0.0f);
    int64_t j = 0;
    for (; j + kLanes <= columns; j += kLanes) {
      V x = hn::LoadU(d, row + j);
      if (term(e.row_bias)) x = hn::Add(x, row_bias);
      if (const float* bias = term(e.column_bias)) x = hn::Add(x, hn::LoadU(d, bias + j));
      if (const float* more = term(residual)) x = hn::Add(x, hn::LoadU(d, more + j));
      hn::StoreU(Activated<kActivation>()(x), d, row + j);
    }
    if (j == columns) continue;
    HWY_ALIGN float edge[kLanes] = {};
    for (int64_t t = j; t < columns; ++t) {
      float x = row[t];
      if (term(e.row_bias)) x += e.row_bias[i];
      if (term(e.column_bias)) x += e.column_bias[t];
      if (term(residual)) x += residual[t];
      edge[t - j] = x;
    }
    hn::Store(Activated<kActivation>()(hn::Load(d, edge)), d, edge);
    for (int64_t t = j; t < columns; ++t) row[t] = edge[t - j];
  }
}

using Finish = void (*)(int64_t rows, int64_t columns, const Epilogue& e, float* y, int64_t y_row);
template <Activation kActivation>
constexpr Finish finish_of() {
  if constexpr (holds(kActivation))
    return finish_with<kActivation>;
  else
    return nullptr;
}
template <int... kIndex>
constexpr std::array<Finish, sizeof...(kIndex)> finishes(std::integer_sequence<int, kIndex...>) {
  return {finish_of<static_cast<Activation>(kIndex)>()...};
}
constexpr auto kFinish = finishes(std::make_integer_sequence<int, kActivationCount>());

HWY_NOINLINE void finish(int64_t rows, int64_t columns, const Epilogue& given, float* y,
                         int64_t y_row) {
  Epilogue e = given;
  // Consecutive rows that do not fill vectors are treated as one.
  if (y_row == columns && columns < kLanes && !e.column_bias) {
    if (e.row_bias)
      finish_with<Activation::none>(rows, columns, {.row_bias = e.row_bias}, y, y_row);
    e.row_bias = nullptr;
    columns *= rows;
    rows = 1;
  }
  if (!e.empty()) kFinish[static_cast<size_t>(e.activation)](rows, columns, e, y, y_row);
}

// Only the activation, for a few whole vectors in each row: constants stay in registers.
template <Activation kActivation>
void activate_rows(int rows, int vectors, float* y, int64_t y_row) {
  const D d;
  for (int i = 0; i < rows; ++i, y += y_row)
    for (int v = 0; v < vectors; ++v)
      hn::StoreU(Activated<kActivation>()(hn::LoadU(d, y + v * kLanes)), d, y + v * kLanes);
}
using Activate = void (*)(int rows, int vectors, float* y, int64_t y_row);
template <Activation kActivation>
constexpr Activate activate_of() {
  if constexpr (holds(kActivation) && !is_clamp(kActivation))
    return activate_rows<kActivation>;
  else
    return nullptr;
}
template <int... kIndex>
constexpr std::array<Activate, sizeof...(kIndex)> activates(std::integer_sequence<int, kIndex...>) {
  return {activate_of<static_cast<Activation>(kIndex)>()...};
}
constexpr auto kActivate = activates(std::make_integer_sequence<int, kActivationCount>());

// The operations that the block itself does not apply, while its elements are still in the
// first-level cache.
HWY_INLINE void activate_block(const Block& block, int64_t at, int columns) {
  if (block.epilogue == nullptr || is_clamp(block.epilogue->activation)) return;
  const auto activation = static_cast<size_t>(block.epilogue->activation);
  if (columns % kLanes == 0)
    return kActivate[activation](block.rows, columns / kLanes, block.y + at, block.y_row);
  finish(block.rows, columns, {.activation = block.epilogue->activation}, block.y + at,
         block.y_row);
}

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
