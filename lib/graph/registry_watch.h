// SPDX-License-Identifier: Apache-2.0
// Which ops are looked up, in any registry, and which kernels plans take: what a model needs of the
// tables.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace hg {

// Notes what this thread looks up and plans while the object lives; one at a time.
class RegistryWatch {
 public:
  RegistryWatch();
  ~RegistryWatch();
  RegistryWatch(const RegistryWatch&) = delete;
  RegistryWatch& operator=(const RegistryWatch&) = delete;
  const std::set<std::string>& ops() const { return ops_; }
  // Those since the last call.
  std::set<std::pair<std::string, std::string>> take_kernels() {
    return std::exchange(kernels_, {});
  }

  static void note_op(std::string_view name);
  static void note_kernel(std::string_view op, std::string_view kernel);

 private:
  std::set<std::string> ops_;
  std::set<std::pair<std::string, std::string>> kernels_;  // of which op
};

}  // namespace hg
