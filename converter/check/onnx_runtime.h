// SPDX-License-Identifier: Apache-2.0
// ONNX Runtime as a shared library found at run time. Its C API is a table of functions to which
// versions only append, so building hg-convert needs nothing of it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hg/tensor.h"

namespace hg::convert {

class OnnxRuntime {
 public:
  // `where` is the library or a folder that holds it; empty: what the loader finds, or the package
  // of a Python whose bin folder is on PATH or whose libtorch this process has. Throws Failure
  // (usage) if there is none, or one older than 1.5.
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

// ONNX Runtime does not take a model or its inputs.
struct OnnxRefusal {
  std::string reason;
};

// One model, without ONNX Runtime's optimizations, on the CPU and one thread.
class OnnxSession {
 public:
  // A file. The runtime must outlive the session. All functions throw OnnxRefusal.
  OnnxSession(const OnnxRuntime& runtime, const std::string& path);
  // The bytes of a file that would lie in `folder`, where its external data is.
  OnnxSession(const OnnxRuntime& runtime, const std::string& bytes, const std::string& folder);
  ~OnnxSession();
  OnnxSession(const OnnxSession&) = delete;
  OnnxSession& operator=(const OnnxSession&) = delete;

  using Feeds = std::vector<std::pair<std::string, Tensor>>;  // row-major ones, by name
  // The tensors of each of these outputs: one, those of a sequence, or none where the value is
  // missing or of a dtype that Hologram lacks.
  std::vector<std::vector<TensorData>> run(const Feeds& feeds,
                                           const std::vector<std::string>& outputs) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hg::convert
