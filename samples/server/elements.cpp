// SPDX-License-Identifier: Apache-2.0
#include "elements.h"

#include <cmath>
#include <limits>

namespace {

using nlohmann::json;

struct Datatype {
  const char* name;
  hg::DType dtype;
};
constexpr Datatype kDatatypes[] = {
    {"BOOL", hg::boolean}, {"UINT8", hg::u8},  {"INT8", hg::i8},  {"INT16", hg::i16},
    {"INT32", hg::i32},    {"INT64", hg::i64}, {"FP16", hg::f16}, {"FP32", hg::f32},
    {"FP64", hg::f64},     {"BF16", hg::bf16},
};

template <class T>
hg::Status store_integer(const json& value, void* to, const std::string& where) {
  using Limits = std::numeric_limits<T>;
  const bool fits = value.is_number_unsigned()
                        ? value.get<uint64_t>() <= static_cast<uint64_t>(Limits::max())
                        : value.is_number_integer() && value.get<int64_t>() >= Limits::min() &&
                              value.get<int64_t>() <= Limits::max();
  HG_CHECK(fits, where, " has the element ", shown(value), ", which does not fit");
  *static_cast<T*>(to) = value.get<T>();
  return {};
}

hg::Status store(const json& value, hg::DType dtype, void* to, const std::string& where) {
  switch (dtype) {
    case hg::boolean:
      HG_CHECK(value.is_boolean(), where, " has the element ", shown(value), ", not true or false");
      *static_cast<bool*>(to) = value.get<bool>();
      return {};
    case hg::u8:
      return store_integer<uint8_t>(value, to, where);
    case hg::i8:
      return store_integer<int8_t>(value, to, where);
    case hg::i16:
      return store_integer<int16_t>(value, to, where);
    case hg::i32:
      return store_integer<int32_t>(value, to, where);
    case hg::i64:
      return store_integer<int64_t>(value, to, where);
    default:
      break;
  }
  HG_CHECK(value.is_number(), where, " has the element ", shown(value), ", which is no number");
  const double number = value.get<double>();
  if (dtype == hg::f64) {
    *static_cast<double*>(to) = number;
    return {};
  }
  const auto single = static_cast<float>(number);
  const hg::Half half(single);
  const hg::BFloat16 brain(single);
  HG_CHECK(std::isfinite(dtype == hg::f16    ? static_cast<float>(half)
                         : dtype == hg::bf16 ? static_cast<float>(brain)
                                             : single),
           where, " has the element ", shown(value), ", which does not fit");
  if (dtype == hg::f32) *static_cast<float*>(to) = single;
  if (dtype == hg::f16) *static_cast<hg::Half*>(to) = half;
  if (dtype == hg::bf16) *static_cast<hg::BFloat16*>(to) = brain;
  return {};
}

// Elements of `data` in order, as one flat list or nested lists of the tensor's shape.
hg::Status store_all(const json& data, const hg::Tensor& tensor, int64_t& at, int depth,
                     const std::string& where) {
  if (!data.is_array()) {
    HG_CHECK(at < tensor.count(), where, " has more elements than its shape ", tensor.shape);
    return store(data, tensor.dtype, tensor.as<std::byte>() + at++ * hg::size_of(tensor.dtype),
                 where);
  }
  const bool is_flat = depth == 0 && (data.empty() || !data[0].is_array());
  HG_CHECK(is_flat || depth < tensor.rank(), where, " has other levels than its shape ",
           tensor.shape);
  const bool is_deepest = is_flat || depth + 1 == tensor.rank();
  HG_CHECK(is_flat || static_cast<int64_t>(data.size()) == tensor.shape[depth], where,
           " has a list of ", uint64_t{data.size()}, " in dim ", depth, "; its shape is ",
           tensor.shape);
  for (const json& part : data) {
    HG_CHECK(part.is_array() != is_deepest, where, " has other levels than its shape ",
             tensor.shape);
    HG_TRY(store_all(part, tensor, at, depth + 1, where));
  }
  return {};
}

json element_of(const hg::Tensor& tensor, int64_t i) {
  switch (tensor.dtype) {
    case hg::boolean:
      return tensor.as<bool>()[i];
    case hg::u8:
      return tensor.as<uint8_t>()[i];
    case hg::i8:
      return tensor.as<int8_t>()[i];
    case hg::i16:
      return tensor.as<int16_t>()[i];
    case hg::i32:
      return tensor.as<int32_t>()[i];
    case hg::i64:
      return tensor.as<int64_t>()[i];
    case hg::f16:
      return static_cast<float>(tensor.as<hg::Half>()[i]);
    case hg::bf16:
      return static_cast<float>(tensor.as<hg::BFloat16>()[i]);
    case hg::f64:
      return tensor.as<double>()[i];
    default:
      return tensor.as<float>()[i];
  }
}

}  // namespace

const char* datatype_of(hg::DType dtype) {
  for (const Datatype& each : kDatatypes)
    if (each.dtype == dtype) return each.name;
  return "COMPLEX";  // the protocol has no name for it, so no request can use it
}

std::string shown(const json& given) {
  if (given.is_structured()) return given.is_array() ? "[...]" : "{...}";
  const std::string text = given.dump();
  return text.size() <= 40 ? text : text.substr(0, 40) + "...";
}

hg::Status read_elements(const json& data, const hg::Tensor& tensor, const std::string& where) {
  int64_t at = 0;
  HG_TRY(store_all(data, tensor, at, 0, where));
  HG_CHECK(at == tensor.count(), where, " has ", at, " elements; its shape ", tensor.shape,
           " needs ", tensor.count());
  return {};
}

json write_elements(const hg::Tensor& tensor) {
  json data = json::array();
  for (int64_t i = 0; i < tensor.count(); ++i) data.push_back(element_of(tensor, i));
  return data;
}
