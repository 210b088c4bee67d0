// SPDX-License-Identifier: Apache-2.0
// ONNX Runtime as a shared library that is found at run time. Its C API is a table of functions to
// which versions only append, so building hg-convert does not require it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hg/tensor.h"

namespace hg::convert {

class OnnxRuntime {
 public:
  // `where` is the library or a folder that contains it. If empty, uses the library that the loader
  // finds, or the package of a Python installation on PATH or of this process's libtorch. Throws
  // Failure (usage) if none is found, or if it is older than 1.5.
  explicit OnnxRuntime(const std::string& where);
  ~OnnxRuntime();
  OnnxRuntime(const OnnxRuntime&) = delete;
  OnnxRuntime& operator=(const OnnxRuntime&) = delete;

  std::string version() const;  // "1.32.0"

 private:
  friend class OnnxSession;
  struct Api;
  std::unique_ptr<const Api> api_;
};

// ONNX Runtime rejects a model or its inputs.
struct OnnxRefusal {
  std::string reason;
};

// A model in ONNX Runtime, without optimizations, on one CPU thread.
class OnnxSession {
 public:
  // Loads a file. The runtime must outlive the session. All functions throw OnnxRefusal.
  OnnxSession(const OnnxRuntime& runtime, const std::string& path);
  // Loads the bytes of a file whose external data is in `folder`.
  OnnxSession(const OnnxRuntime& runtime, const std::string& bytes, const std::string& folder);
  ~OnnxSession();
  OnnxSession(const OnnxSession&) = delete;
  OnnxSession& operator=(const OnnxSession&) = delete;

  using Feeds = std::vector<std::pair<std::string, Tensor>>;  // row-major, by name
  // Returns the tensors of each output: one, the elements of a sequence, or none if the value is
  // missing or has a dtype that Hologram does not have.
  std::vector<std::vector<TensorData>> run(const Feeds& feeds,
                                           const std::vector<std::string>& outputs) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hg::convert
