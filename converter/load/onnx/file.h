// SPDX-License-Identifier: Apache-2.0
// An ONNX file as protobuf reads it, and its tensors. Weights stay in the message or in a mapped
// external file.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "converter/core/script.h"
#include "converter/load/onnx/onnx.h"
#include "hg_onnx.pb.h"

namespace hg::convert::onnx {

namespace file = hg::onnx_file;

// Throws Failure (unreadable). `label` stands for the path in messages.
std::shared_ptr<file::ModelProto> read_model(const std::string& path, const std::string& label);

// The dtype of TensorProto.DataType; none where Hologram has no such dtype.
std::optional<DType> dtype_of_onnx(int data_type);

class Weights {
 public:
  // `path` is the model's: external data lies beside it.
  Weights(std::shared_ptr<file::ModelProto> model, std::string path);

  // Throws Failure (unreadable) where the bytes are missing or are not as many as the shape says.
  // None for element types that Hologram lacks.
  std::optional<TensorData> read(const file::TensorProto& tensor);
  // The numbers of a tensor of such a type, in the dtype that small_integer_of_onnx() names.
  std::optional<TensorData> read_small_integers(const file::TensorProto& tensor);

 private:
  struct Bytes {
    const char* data = nullptr;
    std::shared_ptr<void> owner;
  };
  // None where the elements are in a field of numbers. `type` is for messages.
  std::optional<Bytes> bytes_of(const file::TensorProto& tensor, int64_t count,
                                const std::string& type);
  Bytes external(const file::TensorProto& tensor, int64_t count, const std::string& type);

  std::shared_ptr<file::ModelProto> model_;
  std::string path_;
  struct Mapped {
    std::shared_ptr<void> owner;
    int64_t bytes = 0;
  };
  std::map<std::string, Mapped> mapped_;
};

}  // namespace hg::convert::onnx
