// SPDX-License-Identifier: Apache-2.0
#include "converter/onnx/types.h"

#include "hg_onnx.pb.h"

namespace hg::convert {

std::string describe_onnx_dtype(int64_t data_type) {
  const auto type = static_cast<int>(data_type);
  if (type != data_type || !onnx_file::TensorProto::DataType_IsValid(type))
    return str_cat("type ", data_type);
  std::string name =
      onnx_file::TensorProto::DataType_Name(static_cast<onnx_file::TensorProto::DataType>(type));
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return name;
}

std::optional<SmallInteger> small_integer_of_onnx(int64_t data_type) {
  switch (data_type) {
    case onnx_file::TensorProto::UINT32:
      return SmallInteger{i64, 32, false};
    case onnx_file::TensorProto::UINT16:
      return SmallInteger{i32, 16, false};
    case onnx_file::TensorProto::UINT4:
      return SmallInteger{u8, 4, false};
    case onnx_file::TensorProto::INT4:
      return SmallInteger{i8, 4, true};
    case onnx_file::TensorProto::UINT2:
      return SmallInteger{u8, 2, false};
    case onnx_file::TensorProto::INT2:
      return SmallInteger{i8, 2, true};
    default:
      return std::nullopt;
  }
}

}  // namespace hg::convert
