// SPDX-License-Identifier: Apache-2.0
// Element types and tensors.
#include "hg/tensor.h"

#include <bit>
#include <cstdint>

#include "lib/graph/border.h"
#include "lib/graph/readable.h"
#include "lib/platform/memory.h"

namespace hg {
namespace {

constexpr std::string_view kNames[kDTypeCount] = {"f32", "f64", "f16", "bf16", "i64", "i32",
                                                  "i16", "i8",  "u8",  "bool", "c64", "c128"};

}  // namespace

std::string_view to_string(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  return index < kDTypeCount ? kNames[index] : "invalid";
}

Result<DType> parse_dtype(std::string_view name) {
  return or_no_memory([&]() -> Result<DType> {
    for (int i = 0; i < kDTypeCount; ++i)
      if (kNames[i] == name) return static_cast<DType>(i);
    return invalid_argument("there is no dtype '", name,
                            "'; use one of f32 f64 f16 bf16 i64 i32 i16 i8 u8 bool c64 c128");
  });
}

void append_text(std::string& out, DType dtype) { out.append(to_string(dtype)); }

Half::Half(float value) {
  const uint32_t x = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((x >> 16) & 0x8000u);
  const uint32_t magnitude = x & 0x7fffffffu;
  if (magnitude >= 0x7f800000u) {  // infinity or NaN
    bits = static_cast<uint16_t>(sign | 0x7c00u | (magnitude > 0x7f800000u ? 0x200u : 0u));
  } else if (magnitude >= 0x477ff000u) {  // rounds to infinity
    bits = static_cast<uint16_t>(sign | 0x7c00u);
  } else if (magnitude >= 0x38800000u) {  // normal
    const uint32_t rebased = magnitude - 0x38000000u;
    bits = static_cast<uint16_t>(sign | ((rebased + 0xfffu + ((rebased >> 13) & 1u)) >> 13));
  } else if (magnitude > 0x33000000u) {  // subnormal
    const uint32_t exponent = magnitude >> 23;
    const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    const uint32_t shift = 126u - exponent;
    const uint32_t half = 1u << (shift - 1);
    const uint32_t kept = mantissa >> shift;
    const uint32_t rest = mantissa & ((1u << shift) - 1u);
    bits = static_cast<uint16_t>(sign | (kept + (rest > half || (rest == half && (kept & 1u)))));
  } else {
    bits = sign;
  }
}

Half::operator float() const {
  const uint32_t sign = (bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return sign ? -magnitude : magnitude;
}

BFloat16::BFloat16(float value) {
  const uint32_t x = std::bit_cast<uint32_t>(value);
  if ((x & 0x7fffffffu) > 0x7f800000u)
    bits = static_cast<uint16_t>((x >> 16) | 0x40u);
  else
    bits = static_cast<uint16_t>((x + 0x7fffu + ((x >> 16) & 1u)) >> 16);
}

BFloat16::operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

void append_text(std::string& out, const Sizes& sizes) {
  out.push_back('[');
  for (int i = 0; i < sizes.rank(); ++i) {
    if (i > 0) out.append(", ");
    append_text(out, sizes[i]);
  }
  out.push_back(']');
}

Sizes contiguous_strides(const Sizes& shape) {
  Sizes strides(shape.rank(), 1);
  // With a size of 0 the other sizes may be anything. Their strides are unused and may wrap.
  for (int i = shape.rank() - 2; i >= 0; --i)
    (void)__builtin_mul_overflow(strides[i + 1], shape[i + 1], &strides[i]);
  return strides;
}

bool Tensor::is_contiguous() const { return ConstTensor(*this).is_contiguous(); }

bool ConstTensor::is_contiguous() const {
  int64_t expected = 1;
  bool dense = true;
  for (int i = rank() - 1; i >= 0; --i) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != expected) dense = false;
    expected *= shape[i];
  }
  return dense;
}

Tensor view(void* data, DType dtype, const Sizes& shape) {
  return Tensor{data, dtype, shape, contiguous_strides(shape)};
}

ConstTensor view(const void* data, DType dtype, const Sizes& shape) {
  return ConstTensor(data, dtype, shape, contiguous_strides(shape));
}

namespace {

template <class AnyTensor>
AnyTensor as_pairs(const AnyTensor& tensor) {
  if (!is_complex(tensor.dtype)) return tensor;
  AnyTensor pairs = tensor;
  pairs.dtype = real_of(tensor.dtype);
  pairs.shape.push_back(2);
  for (int64_t& stride : pairs.strides) stride *= 2;
  pairs.strides.push_back(1);
  return pairs;
}

}  // namespace

Tensor view_as_real(const Tensor& tensor) { return as_pairs(tensor); }
ConstTensor view_as_real(const ConstTensor& tensor) { return as_pairs(tensor); }

Result<TensorData> TensorData::allocate(DType dtype, const Sizes& shape) {
  return or_no_memory([&]() -> Result<TensorData> {
    int64_t bytes = size_of(dtype);
    for (int64_t size : shape)
      if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes))
        return invalid_argument("a tensor of ", shape, " does not fit into memory");
    void* const memory = allocate_zeros(static_cast<uint64_t>(bytes));
    if (memory == nullptr) return out_of_memory("no memory for a tensor of ", bytes, " bytes");
    return TensorData{view(memory, dtype, shape), std::shared_ptr<void>(memory, free_block)};
  });
}

std::string unreadable_part(const Sizes& shape, const Sizes& strides) {
  const bool has_strides = strides.rank() == shape.rank();
  return str_cat(has_strides ? "null data" : str_cat("strides ", strides), " for shape ", shape);
}

Result<TensorData> TensorData::copy_of(const ConstTensor& source) {
  return or_no_memory([&]() -> Result<TensorData> {
    HG_CHECK(is_readable(source), "a tensor has ", unreadable_part(source));
    HG_TRY_ASSIGN(TensorData data, allocate(source.dtype, source.shape));
    copy_elements(source, data.tensor);
    return data;
  });
}

}  // namespace hg
