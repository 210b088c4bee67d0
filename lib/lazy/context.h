// SPDX-License-Identifier: Apache-2.0
// The sessions of expressions, by form.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "hg/promotion.h"
#include "hg/session.h"
#include "hg/var.h"
#include "lib/run/lru_cache.h"

namespace hg {

struct LazyContext {
  LazyContext(SessionOptions given, size_t most, uint64_t bytes)
      : options(std::move(given)), plans(most, bytes) {}

  // A cached session. The form of an expression is everything that its graph depends on, except the
  // values of its numbers. The first plan of a form stores them as constants. If they change later,
  // a second plan takes the changed ones as inputs and serves all later calls.
  struct Plan {
    // An input of the session: the place of its node and, for a number, its dtype and range.
    struct Input {
      int32_t place = 0;
      std::optional<DType> number;
      NumberRange range = NumberRange::any;
    };
    std::vector<uint64_t> numbers;  // their bits, in walk order
    std::vector<bool> is_read;      // per number: whether it is an input
    std::vector<Input> inputs;
    std::optional<Session> session;
    Gpu gpu;  // inputs and outputs are there; none: on the host
    std::vector<std::pair<DType, Sizes>> outputs;
    std::vector<Array> constants;  // kept alive: keys identify them by memory
    int64_t nodes = 0;
    bool draws = false;       // draws random numbers
    uint64_t bytes = 0;       // of the arena and constants
    bool is_running = false;  // a host op may evaluate expressions while it runs
  };
  SessionOptions options;
  LruCache<Plan> plans;  // several with the same key, for different numbers
  int64_t runs = 0, nodes = 0;
  uint64_t random = options.seed;  // the state that provides the plans' seeds

  static const std::shared_ptr<LazyContext>& of(const Lazy& lazy) { return lazy.context_; }
  static const Registry* registry_of(const Lazy& lazy) {
    return lazy.registry_ != nullptr || lazy.context_ == nullptr ? lazy.registry_
                                                                 : lazy.context_->options.registry;
  }
  static Lazy handle(std::shared_ptr<LazyContext> context) {
    Lazy lazy;
    lazy.context_ = std::move(context);
    return lazy;
  }
};

}  // namespace hg
