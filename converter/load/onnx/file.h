// SPDX-License-Identifier: Apache-2.0
// An ONNX file as parsed by protobuf, and its tensors. Weights stay in the message or in a mapped
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

// Throws Failure (unreadable). `label` replaces the path in messages.
std::shared_ptr<file::ModelProto> read_model(const std::string& path, const std::string& label);

// Returns the dtype of a TensorProto.DataType; nothing if Hologram has no such dtype.
std::optional<DType> dtype_of_onnx(int data_type);

class Weights {
 public:
  // `path` is the path of the model; external data files are relative to its folder. `reads` is
  // called with the path of each such file before it is read.
  Weights(std::shared_ptr<file::ModelProto> model, std::string path, ReadsFile reads);

  // Throws Failure (unreadable) if bytes are missing or their number does not match the shape.
  // Returns nothing for element types that Hologram does not have.
  std::optional<TensorData> read(const file::TensorProto& tensor);
  // Reads a tensor of small integers, in the dtype that small_integer_of_onnx() names.
  std::optional<TensorData> read_small_integers(const file::TensorProto& tensor);

 private:
  struct Bytes {
    const char* data = nullptr;
    std::shared_ptr<void> owner;
  };
  // Returns nothing if the elements are in a numeric field. `type` is for messages.
  std::optional<Bytes> bytes_of(const file::TensorProto& tensor, int64_t count,
                                const std::string& type);
  Bytes external(const file::TensorProto& tensor, int64_t count, const std::string& type);

  std::shared_ptr<file::ModelProto> model_;
  std::string path_;
  ReadsFile reads_;
  struct Mapped {
    std::shared_ptr<void> owner;
    int64_t bytes = 0;
  };
  std::map<std::string, Mapped> mapped_;
};

}  // namespace hg::convert::onnx
