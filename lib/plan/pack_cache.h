// SPDX-License-Identifier: Apache-2.0
// Packed weights, shared by the plans of a session and by sessions that share packed weights
// (hg/session.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "hg/graph.h"
#include "hg/kernel.h"
#include "hg/quantize.h"

namespace hg {

class PackCache {
 public:
  virtual ~PackCache() = default;
  // Returns 64-byte aligned memory that `fill` writes once per key, or null if memory is exhausted.
  // Unless `at_once`, `fill` runs later, before the first run, possibly concurrently with other
  // fills.
  virtual void* pack(std::string_view kernel, ValueId value, int64_t bytes,
                     std::function<void(void* to)> fill, bool at_once) = 0;
};

}  // namespace hg
