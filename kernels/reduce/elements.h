// SPDX-License-Identifier: Apache-2.0
// The elements of a reduction as the reducers read them: stored in a tensor, or computed on demand.
// Only reduce.cpp includes this file; what it calls once is inlined, because its linkage is
// internal.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/lines.h"
#include "kernels/pointwise/pointwise.h"
#include "kernels/reduce/reducers.h"
#include "kernels/simd/half_simd.h"

namespace hg::kernels {
namespace {

constexpr int64_t kBlock = 512;  // elements that are converted together
constexpr int64_t kWidest = 8;   // bytes of an element as reducers read it

bool is_as_stored(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::i64;
}

// Position of element `index` of a row-major shape.
int64_t offset_of(int64_t index, const Sizes& shape, const Sizes& strides) {
  int64_t offset = 0;
  for (int d = shape.rank() - 1; d > 0; --d) {
    offset += index % shape[d] * strides[d];
    index /= shape[d];
  }
  return shape.rank() > 0 ? offset + index * strides[0] : offset;
}

// An element as the reducers read it.
template <class T>
using Converted = std::conditional_t<std::is_integral_v<T>, int64_t, Wide<T>>;

// n elements as the reducers read them.
template <class T>
void convert(const T* from, int64_t stride, int64_t n, void* to) {
  using X = Converted<T>;
  X* out = static_cast<X*>(to);
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    if (stride == 1) return half_table().widen(n, from, out);
  }
  if (stride == 1)
    for (int64_t k = 0; k < n; ++k) out[k] = static_cast<X>(from[k]);
  else
    for (int64_t k = 0; k < n; ++k) out[k] = static_cast<X>(from[k * stride]);
}

// `count` rows of neighboring elements, `step` elements apart.
struct Rows {
  const void* x;
  int64_t count, step;
};

// The elements of a tensor: in place, or at most kBlock of them converted.
class StoredElements {
 public:
  static constexpr bool kInPlace = true;
  static constexpr int64_t kTile = 64;  // results that are computed together

  StoredElements(const RunContext& c, const ReducePlan& plan) : x_(c.in(0)), plan_(plan) {}

  // The number of elements that can be read together.
  int64_t at_once() const { return plan_.run; }
  // n elements from `offset` on; valid until the next call.
  const void* read(int64_t offset, int64_t stride, int64_t n, int64_t) {
    const std::byte* from = static_cast<const std::byte*>(x_.data) + offset * size_of(x_.dtype);
    if (is_as_stored(x_.dtype) && stride == 1) return from;
    for_type(x_.dtype, [&](auto zero) {
      convert(reinterpret_cast<const decltype(zero)*>(from), stride, n, room_);
    });
    return room_;
  }
  // Up to n rows of `width` elements from row i on; at most kBlock elements are converted.
  Rows rows(int64_t base, int64_t i, int64_t n, int64_t width) {
    const int64_t offset = base + offset_of(i, plan_.shape, plan_.strides);
    if (plan_.shape.rank() != 1) return {read(offset, 1, width, 0), 1, 0};
    const int64_t step = plan_.strides[0];
    if (is_as_stored(x_.dtype)) return {read(offset, 1, width, 0), n, step};
    const int64_t count = std::min(n, kBlock / width);
    for_type(x_.dtype, [&](auto zero) {
      using T = decltype(zero);
      auto* const room = reinterpret_cast<Converted<T>*>(room_);
      for (int64_t r = 0; r < count; ++r)
        convert(x_.as<const T>() + offset + r * step, 1, width, room + r * width);
    });
    return {room_, count, width};
  }

 private:
  const Tensor& x_;
  const ReducePlan& plan_;
  alignas(64) std::byte room_[kBlock * kWidest];
};

// Elements that are computed on demand.
class ComputedElements {
 public:
  static constexpr bool kInPlace = false;
  static constexpr int64_t kTile = 256;

  ComputedElements(const RunContext& c, const ReducePlan& plan) : c_(c), plan_(plan) {}

  int64_t at_once() const { return kPiece; }
  // Computes further elements before `end` ahead, if the number is the same.
  const std::byte* read(int64_t offset, int64_t, int64_t n, int64_t end) {
    if (offset < begin_ || offset + n > end_) {
      begin_ = offset;
      end_ = plan_.in_order ? std::min(end, offset + std::max<int64_t>(1, kPiece / n) * n)
                            : offset + n;
      compute();
    }
    return room_ + (offset - begin_) * element_bytes_;
  }
  Rows rows(int64_t base, int64_t i, int64_t n, int64_t width) {
    const bool together = plan_.shape.rank() == 1 && plan_.strides[0] == width;
    const int64_t count = together ? std::min(n, std::max<int64_t>(1, kPiece / width)) : 1;
    begin_ = base + offset_of(i, plan_.shape, plan_.strides);
    end_ = begin_ + count * width;
    compute();
    return {room_, count, width};
  }

 private:
  static constexpr int64_t kPiece = 1024;

  void compute() {
    const bool converts = !is_float(plan_.dtype) && plan_.dtype != DType::i64;
    compute_block(plan_.elements, c_, begin_, end_, converts ? stored_ : room_);
    if (converts)
      for_type(plan_.dtype, [&](auto zero) {
        convert(reinterpret_cast<const decltype(zero)*>(stored_), 1, end_ - begin_, room_);
      });
  }

  const RunContext& c_;
  const ReducePlan& plan_;
  // As the reducers read it.
  int64_t element_bytes_ = is_float(plan_.dtype) && plan_.dtype != DType::f64 ? 4 : 8;
  int64_t begin_ = 0, end_ = 0;  // the range that the buffer holds
  alignas(64) std::byte room_[kPiece * kWidest];
  alignas(64) std::byte stored_[kPiece * kWidest];
};

}  // namespace
}  // namespace hg::kernels
