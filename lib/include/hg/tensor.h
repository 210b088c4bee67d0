// SPDX-License-Identifier: Apache-2.0
// Element types, concrete sizes, and strided views of memory. Only TensorData allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "hg/status.h"

namespace hg {

// The values are part of the file format: append only.
enum class DType : uint8_t { f32, f64, f16, bf16, i64, i32, i16, i8, u8, bool_, c64, c128 };
inline constexpr int kDTypeCount = 12;

inline constexpr DType f32 = DType::f32;
inline constexpr DType f64 = DType::f64;
inline constexpr DType f16 = DType::f16;
inline constexpr DType bf16 = DType::bf16;
inline constexpr DType i64 = DType::i64;
inline constexpr DType i32 = DType::i32;
inline constexpr DType i16 = DType::i16;
inline constexpr DType i8 = DType::i8;
inline constexpr DType u8 = DType::u8;
inline constexpr DType boolean = DType::bool_;
// Complex dtypes store the real part, then the imaginary part, as two f32 or two f64. Only the
// inputs and outputs of a graph may be complex. view_as_real and view_as_complex (hg/ops/complex.h)
// convert to and from real tensors.
inline constexpr DType c64 = DType::c64;
inline constexpr DType c128 = DType::c128;

constexpr int64_t size_of(DType dtype) {  // bytes per element
  constexpr int64_t kBytes[kDTypeCount] = {4, 8, 2, 2, 8, 4, 2, 1, 1, 1, 8, 16};
  return kBytes[static_cast<int>(dtype)];
}
constexpr bool is_float(DType dtype) { return dtype <= DType::bf16; }
constexpr bool is_integer(DType dtype) { return dtype >= DType::i64 && dtype <= DType::u8; }
constexpr bool is_complex(DType dtype) { return dtype == DType::c64 || dtype == DType::c128; }
// c64 -> f32, c128 -> f64; any other dtype is returned unchanged
constexpr DType real_of(DType dtype) {
  return dtype == DType::c64 ? DType::f32 : dtype == DType::c128 ? DType::f64 : dtype;
}
std::string_view to_string(DType dtype);  // "f32", "bool"
// the inverse of to_string(); invalid_argument if unknown
Result<DType> parse_dtype(std::string_view name);
void append_text(std::string& out, DType dtype);

// 16-bit floats, stored as bits. Convert to float for arithmetic.
struct Half {
  uint16_t bits = 0;
  Half() = default;
  explicit Half(float value);  // rounds to nearest, ties to even
  explicit operator float() const;
};
struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float value);  // rounds to nearest, ties to even
  explicit operator float() const;
};

// Returns the DType that stores a C++ element type.
template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>)
    return f32;
  else if constexpr (std::is_same_v<T, double>)
    return f64;
  else if constexpr (std::is_same_v<T, Half>)
    return f16;
  else if constexpr (std::is_same_v<T, BFloat16>)
    return bf16;
  else if constexpr (std::is_same_v<T, bool>)
    return boolean;
  else if constexpr (std::is_integral_v<T> && sizeof(T) == 8 && std::is_signed_v<T>)
    return i64;
  else if constexpr (std::is_same_v<T, int32_t>)
    return i32;
  else if constexpr (std::is_same_v<T, int16_t>)
    return i16;
  else if constexpr (std::is_same_v<T, int8_t>)
    return i8;
  else {
    static_assert(std::is_same_v<T, uint8_t>, "no DType for this element type");
    return u8;
  }
}

inline constexpr int kMaxRank = 12;

// Up to kMaxRank integers without allocation: concrete sizes or strides. push_back() beyond
// kMaxRank drops the value and sets overflowed(), so that readers of untrusted data can reject it.
class Sizes {
 public:
  constexpr Sizes() = default;
  constexpr Sizes(std::initializer_list<int64_t> values) : Sizes(values.begin(), values.size()) {}
  constexpr Sizes(std::span<const int64_t> values) : Sizes(values.data(), values.size()) {}
  constexpr Sizes(int rank, int64_t value) {
    for (int i = 0; i < rank; ++i) push_back(value);
  }

  constexpr int rank() const { return rank_; }
  constexpr size_t size() const { return static_cast<size_t>(rank_); }
  constexpr bool empty() const { return rank_ == 0; }
  constexpr bool overflowed() const { return overflowed_; }
  constexpr int64_t& operator[](int i) { return values_[i]; }
  constexpr int64_t operator[](int i) const { return values_[i]; }
  constexpr int64_t* begin() { return values_.data(); }
  constexpr int64_t* end() { return values_.data() + rank_; }
  constexpr const int64_t* begin() const { return values_.data(); }
  constexpr const int64_t* end() const { return values_.data() + rank_; }
  constexpr int64_t back() const { return values_[size() - 1]; }
  constexpr void push_back(int64_t value) {
    if (rank_ == kMaxRank)
      overflowed_ = true;
    else
      values_[rank_++] = value;
  }
  constexpr void insert(int at, int64_t value) {
    push_back(value);
    for (int i = rank_ - 1; i > at; --i) values_[size_t(i)] = values_[size_t(i - 1)];
    values_[at] = value;
  }
  constexpr void erase(int at) {
    for (int i = at; i + 1 < rank_; ++i) values_[size_t(i)] = values_[size_t(i + 1)];
    --rank_;
  }
  constexpr int64_t count() const {  // product of the values; 1 for rank 0
    int64_t product = 1;
    for (int64_t value : *this) product *= value;
    return product;
  }
  friend constexpr bool operator==(const Sizes& a, const Sizes& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i)
      if (a[i] != b[i]) return false;
    return true;
  }

 private:
  constexpr Sizes(const int64_t* values, size_t count) {
    for (size_t i = 0; i < count; ++i) push_back(values[i]);
  }
  std::array<int64_t, kMaxRank> values_{};
  int8_t rank_ = 0;
  bool overflowed_ = false;
};

void append_text(std::string& out, const Sizes& sizes);  // "[2, 3]"
Sizes contiguous_strides(const Sizes& shape);            // row-major, in elements

// A non-owning view of memory. One stride per dim, in elements; strides may be zero or negative.
struct Tensor {
  void* data = nullptr;
  DType dtype = f32;
  Sizes shape;
  Sizes strides;

  int rank() const { return shape.rank(); }
  int64_t count() const { return shape.count(); }
  // of the elements; excludes gaps between them
  int64_t bytes() const { return count() * size_of(dtype); }
  bool is_contiguous() const;  // row-major, no gaps
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

// A non-owning view of read-only memory. A Tensor converts to it.
struct ConstTensor {
  const void* data = nullptr;
  DType dtype = f32;
  Sizes shape;
  Sizes strides;

  ConstTensor() = default;
  ConstTensor(const void* from, DType type, const Sizes& sizes, const Sizes& steps)
      : data(from), dtype(type), shape(sizes), strides(steps) {}
  ConstTensor(const Tensor& tensor)  // NOLINT: implicit
      : ConstTensor(tensor.data, tensor.dtype, tensor.shape, tensor.strides) {}

  int rank() const { return shape.rank(); }
  int64_t count() const { return shape.count(); }
  int64_t bytes() const { return count() * size_of(dtype); }
  bool is_contiguous() const;
  template <class T>
  const T* as() const {
    return static_cast<const T*>(data);
  }
};

// Returns a contiguous view of `data`, which must outlive the view. Const data makes a ConstTensor.
// The overloads for spans and containers do not check that the number of elements matches `shape`.
Tensor view(void* data, DType dtype, const Sizes& shape);
ConstTensor view(const void* data, DType dtype, const Sizes& shape);
template <class T>
auto view(std::span<T> data, const Sizes& shape) {
  return view(data.data(), dtype_of<std::remove_const_t<T>>(), shape);
}
template <class Container>
requires requires(Container& c) {
  c.data();
  c.size();
}
auto view(Container& data, const Sizes& shape) {
  using Element = std::remove_cvref_t<decltype(*data.data())>;
  return view(data.data(), dtype_of<Element>(), shape);
}

// Views a complex tensor as its real and imaginary parts, [..., 2]. Returns any other tensor
// unchanged. Copies nothing.
Tensor view_as_real(const Tensor& tensor);
ConstTensor view_as_real(const ConstTensor& tensor);

// Copies the elements of `from` to `to`. Shapes and dtypes must be equal; strides may be any; the
// memory must not overlap.
void copy_elements(const ConstTensor& from, const Tensor& to);

// A contiguous tensor that shares ownership of its bytes, which are allocated or part of a mapped
// file. Copies share the bytes. The library never writes to bytes with more than one owner.
struct TensorData {
  Tensor tensor;
  std::shared_ptr<void> owner;

  // Allocates zeroed memory, aligned to 64 bytes. Fails with out_of_memory, or with
  // invalid_argument if a size is negative or the bytes overflow.
  static Result<TensorData> allocate(DType dtype, const Sizes& shape);
  static Result<TensorData> copy_of(const ConstTensor& source);
  bool empty() const { return owner == nullptr; }
};

}  // namespace hg
