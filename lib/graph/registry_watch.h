// SPDX-License-Identifier: Apache-2.0
// Records which ops are looked up, in any registry, and which kernels plans choose: the needs of a
// model.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace hg {

// Records on this thread during its lifetime; at most one object per thread.
class RegistryWatch {
 public:
  RegistryWatch();
  ~RegistryWatch();
  RegistryWatch(const RegistryWatch&) = delete;
  RegistryWatch& operator=(const RegistryWatch&) = delete;
  const std::set<std::string>& ops() const { return ops_; }
  // Kernels recorded since the last call.
  std::set<std::pair<std::string, std::string>> take_kernels() {
    return std::exchange(kernels_, {});
  }

  static void note_op(std::string_view name);
  static void note_kernel(std::string_view op, std::string_view kernel);

 private:
  std::set<std::string> ops_;
  std::set<std::pair<std::string, std::string>> kernels_;  // (op, kernel)
};

}  // namespace hg
