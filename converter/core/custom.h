// SPDX-License-Identifier: Apache-2.0
// Ops that only the application knows, declared by --custom. A call becomes a node with the op's
// name, and its results have the dtype and shape of an input. When the application loads the file,
// its own OpDef is checked against these dtypes and shapes. During the conversion a stand-in, which
// returns that input, replaces the op in libtorch and in this library, so the rest of the model can
// be checked.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hg/op.h"

namespace hg::convert {

struct CustomOp {
  std::string name;       // "acme.wave"
  std::string signature;  // "acme.wave(x, gain: float) -> like_x"
  // For each result, the input whose dtype and shape it has: name and position.
  std::vector<std::pair<std::string, int>> likes;
  bool bare = false;  // declared by name alone: any tensors, one result like the first

  std::string kind() const;  // "acme::wave", the name in TorchScript
};

// Parses "acme.wave" or "acme.wave(x, gain: float = 1) -> like x". Throws Failure (usage).
CustomOp parse_custom(std::string_view text);

// The built-in ops and the custom ops with their stand-ins. Throws Failure (usage) if an op is
// given twice.
class CustomRegistry {
 public:
  explicit CustomRegistry(const std::vector<CustomOp>& ops);
  CustomRegistry(const CustomRegistry&) = delete;
  CustomRegistry& operator=(const CustomRegistry&) = delete;
  const Registry& registry() const { return registry_; }

 private:
  std::deque<CustomOp> ops_;  // the registry refers to their texts
  Registry registry_;
};

// Returns the custom op that a node of this kind calls, or null.
const Op* find_custom(const Registry& registry, std::string_view kind);

}  // namespace hg::convert
