// SPDX-License-Identifier: Apache-2.0
// A registry that records which ops are looked up in it, and which kernels plans choose: the needs
// of a model.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "hg/registry.h"

namespace hg {

class RegistryWatch {
 public:
  using Kernel = std::pair<std::string, std::string>;  // (op, kernel)

  RegistryWatch();
  RegistryWatch(const RegistryWatch&) = delete;
  RegistryWatch& operator=(const RegistryWatch&) = delete;
  // The built-in ops and kernels; models loaded with it are recorded.
  const Registry& registry() const { return registry_; }
  const std::set<std::string>& ops() const { return ops_; }
  // Kernels recorded since the last call.
  std::set<Kernel> take_kernels() { return std::exchange(kernels_, {}); }

  // Records a kernel that a plan chose from this registry, if it is that of a RegistryWatch.
  static void note_kernel(const Registry& registry, std::string_view op, std::string_view kernel);

 private:
  friend class Registry;
  Registry registry_;
  std::set<std::string> ops_;
  std::set<Kernel> kernels_;
};

}  // namespace hg
