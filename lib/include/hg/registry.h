// SPDX-License-Identifier: Apache-2.0
// The ops and kernels that graphs and sessions know.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "hg/device.h"
#include "hg/status.h"

namespace hg {

struct KernelDef;  // hg/kernel.h
struct Op;         // hg/op.h
struct OpDef;

// Ops and kernels by name. A Registry is a value: copy it, extend the copy, and pass it to Graph,
// Model::load or SessionOptions, which keep a reference. Reading and adding are thread-safe, and
// returned pointers and spans stay valid.
class Registry {
 public:
  static const Registry& built_in();
  Registry();  // a copy of built_in()
  ~Registry();
  Registry(const Registry&);
  Registry& operator=(const Registry&);

  // Adds an op. The row's strings must outlive the registry. The name must be new and the signature
  // must parse.
  Status add(const OpDef& op);
  // Adds a kernel, which must outlive the registry. It is tried before kernels added earlier; a
  // fallback is tried after all kernels that are not fallbacks.
  Status add(const KernelDef& kernel);

  const Op* find(std::string_view name) const;  // null if unknown; valid as long as the registry
  std::vector<const Op*> ops() const;           // sorted by name
  std::span<const KernelDef* const> kernels(std::string_view op, Device device) const;
  // Returns the registered name closest in spelling, for messages; may be empty.
  std::string_view closest(std::string_view name) const;

 private:
  friend class RegistryWatch;  // lib/graph/registry_watch.h
  struct Body;
  explicit Registry(std::nullptr_t);  // has no ops
  std::shared_ptr<Body> body_;
};

}  // namespace hg
