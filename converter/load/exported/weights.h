// SPDX-License-Identifier: Apache-2.0
// The tensors of an exported program: raw storages with sizes and strides, or, before PyTorch 2.9,
// nested archives that torch.save wrote.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "converter/core/script.h"
#include "converter/load/exported/archive.h"

namespace hg::convert {

// torch's number (c10::ScalarType) of the schema's.
int64_t torch_dtype_of_schema(int64_t type);

class ExportedWeights {
 public:
  // Lists the tensors of the model named so; none is read yet. Throws Failure.
  ExportedWeights(const Archive& archive, const std::string& model, ScriptProgram& program);

  // The entry of ScriptProgram::tensors, read on first sight; tied ones are one entry with all
  // names. A constant gets no name. Throws Failure when the archive has no such tensor.
  int32_t index_of(const std::string& name, State::Kind kind);

 private:
  struct Payload {
    const Archive* archive = nullptr;
    std::string record;
    int64_t torch_dtype = 0, offset = 0;
    std::vector<int64_t> sizes, strides;
    bool strided = true, requires_grad = true;
  };
  void list(const std::string& folder, const std::string& model);
  void list_saved(const std::string& record);
  ScriptTensor tensor(const std::string& name, const Payload& payload);

  const Archive& archive_;
  ScriptProgram& program_;
  int64_t expanded_ = 0;  // bytes of tensors with more elements than their storage
  std::map<std::string, Payload> payloads_;
  std::map<std::string, int32_t> known_;         // by record, type and place in it
  std::vector<std::unique_ptr<Archive>> saved_;  // that torch.save wrote
};

}  // namespace hg::convert
