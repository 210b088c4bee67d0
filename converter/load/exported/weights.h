// SPDX-License-Identifier: Apache-2.0
// The tensors of an exported program: raw storages with sizes and strides, or, before PyTorch 2.9,
// nested archives written by torch.save.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "converter/core/script.h"
#include "converter/load/exported/archive.h"

namespace hg::convert {

// Converts the schema's number of a dtype to torch's (c10::ScalarType).
int64_t torch_dtype_of_schema(int64_t type);

class ExportedWeights {
 public:
  // Lists the tensors of the model with this name and reads none of them. Throws Failure.
  ExportedWeights(const Archive& archive, const std::string& model, ScriptProgram& program);

  // Returns the index in ScriptProgram::tensors. Reads the tensor on the first call. Tied tensors
  // are one entry with all names; a constant gets no name. Throws Failure if the archive has no
  // such tensor.
  int32_t index_of(const std::string& name, State::Kind kind);
  // The names of the tensors of which an object of another class of tensors consists, such as
  // "qdata" and "scale" of torchao's; index_of() knows them as NAME.PART. Empty for a tensor.
  std::vector<std::string> parts_of(const std::string& name) const;

 private:
  struct Payload {
    const Archive* archive = nullptr;
    std::string record;
    int64_t torch_dtype = 0, offset = 0;
    std::vector<int64_t> sizes, strides;
    bool strided = true, requires_grad = true;
  };
  void list(const std::string& folder, const std::string& model);
  void list_saved(const std::string& record, const std::string& prefix = "");
  ScriptTensor tensor(const std::string& name, const Payload& payload);

  const Archive& archive_;
  ScriptProgram& program_;
  int64_t expanded_ = 0;  // bytes of tensors with more elements than their storage
  std::map<std::string, Payload> payloads_;
  std::map<std::string, int32_t> known_;         // by record, dtype and place in the record
  std::vector<std::unique_ptr<Archive>> saved_;  // written by torch.save
};

}  // namespace hg::convert
