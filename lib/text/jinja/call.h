// SPDX-License-Identifier: Apache-2.0
// Arguments of a call of a function, method, filter, test or macro.
#pragma once

#include <ctime>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/text/jinja/value.h"

namespace hg::jinja {

// Data that functions share during a run.
struct RunState {
  Meter meter;
  std::vector<std::unique_ptr<Namespace>> namespaces;
  const std::tm* now = nullptr;  // null: unknown
};

struct Call {
  RunState& state;
  std::vector<Value> in_order;
  std::vector<std::pair<std::string, Value>> named;

  Meter& meter() { return state.meter; }
  // Returns the arguments in the order of `names`. The first `needed` must be given; absent ones
  // are nullptr. Fails for other names.
  Result<std::vector<const Value*>> take(std::initializer_list<std::string_view> names,
                                         size_t needed) const;
};

// Typed arguments; `name` is for messages.
Result<const std::string*> text_argument(const Value& value, std::string_view name);
Result<int64_t> whole_argument(const Value& value, std::string_view name);

}  // namespace hg::jinja
