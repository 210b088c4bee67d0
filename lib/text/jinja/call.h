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

// What functions share during a run.
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
  // The arguments in the order of `names`, of which the first `needed` must be given. Absent ones
  // are nullptr. Fails for others.
  Result<std::vector<const Value*>> take(std::initializer_list<std::string_view> names,
                                         size_t needed) const;
};

// Typed arguments; `name` is for messages.
Result<const std::string*> text_argument(const Value& value, std::string_view name);
Result<int64_t> whole_argument(const Value& value, std::string_view name);

}  // namespace hg::jinja
