// SPDX-License-Identifier: Apache-2.0
// The sessions of expressions by their form.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "hg/session.h"
#include "hg/var.h"

namespace hg {

struct LazyContext {
  explicit LazyContext(SessionOptions given, size_t most)
      : options(std::move(given)), most_plans(most) {}

  struct Plan {
    std::vector<uint64_t> key;
    Session session;
    std::vector<std::pair<DType, Sizes>> outputs;
    std::vector<Array> constants;  // kept, since keys know them by their memory
    int64_t nodes = 0;
    uint64_t used = 0;
  };
  SessionOptions options;
  size_t most_plans;
  std::unordered_multimap<uint64_t, Plan> plans;
  Lazy::Counters counters;
  uint64_t clock = 0;

  static const std::shared_ptr<LazyContext>& of(const Lazy& lazy) { return lazy.context_; }
  static Lazy handle(std::shared_ptr<LazyContext> context) {
    Lazy lazy;
    lazy.context_ = std::move(context);
    return lazy;
  }
};

}  // namespace hg
