// SPDX-License-Identifier: Apache-2.0
// What RNN, LSTM and GRU compute: several scans, in a graph or at once.
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "lib/nn/layer.h"

namespace hg::nn {

// Returns y and the states after the last step, [layers * directions, batch, size] each. T is a
// Value or an Array; call(op, inputs, attrs) returns a Result<std::vector<T>>. x: [time, batch,
// features], or [batch, time, features] if the batch comes first. `given`: the states before the
// first step, or nothing for zeros.
template <class T, class Call>
Result<std::vector<T>> run_recurrent(const Layer::Body& body, const TensorType& x_type, const T& x,
                                     std::span<const T> given, std::span<const T> weights,
                                     const Call& call) {
  const Layer::Body::Recurrent& r = *body.recurrent;
  HG_CHECK(x_type.rank() == 3, body.kind, ": x must be ",
           r.is_batch_first ? "[batch, time, features]" : "[time, batch, features]", ", but is ",
           x_type);
  const Dim batch = x_type.shape[r.is_batch_first ? 0 : 1];
  for (size_t k = 0; k < given.size(); ++k) {
    const auto& is = given[k].shape();
    const Shape wanted = {r.layers * r.directions, batch, r.sizes[static_cast<int>(k)]};
    HG_CHECK(std::equal(is.begin(), is.end(), wanted.begin(), wanted.end(),
                        [](const Dim& a, const Dim& b) { return a == b; }),
             "an initial state must be ", wanted, ", but is ", is);
  }
  const auto one = [&](std::string_view op, std::vector<T> inputs, NamedAttrs attrs) -> Result<T> {
    HG_TRY_ASSIGN(const std::vector<T> made, call(op, inputs, attrs));
    return made[0];
  };
  const auto swap = [&](const T& value) {
    return one("permute", {value}, {{"dims", std::vector<Dim>{1, 0, 2}}});
  };
  const auto joined = [&](const std::vector<T>& parts, int64_t dim) -> Result<T> {
    if (parts.size() == 1) return parts[0];
    return one("concat", parts, {{"dim", dim}});
  };
  T y = x;
  if (r.is_batch_first) {
    HG_TRY_ASSIGN(y, swap(x));
  }
  std::vector<std::vector<T>> last(static_cast<size_t>(r.sizes.rank()));
  const size_t count = 2 + (r.has_bias ? 2 : 0) + (r.is_projected ? 1 : 0);
  for (int64_t layer = 0; layer < r.layers; ++layer) {
    std::vector<T> both;
    for (int64_t direction = 0; direction < r.directions; ++direction) {
      const int64_t place = layer * r.directions + direction;
      const std::span<const T> own = weights.subspan(static_cast<size_t>(place) * count, count);
      std::vector<T> inputs = {T()};
      HG_TRY_ASSIGN(inputs[0], one("linear", {y, own[0], r.has_bias ? own[2] : T()}, {}));
      for (int k = 0; k < r.sizes.rank(); ++k) {
        const std::vector<Dim> shape = {batch, r.sizes[k]};
        T state;
        if (given.empty()) {
          HG_TRY_ASSIGN(
              state, one("full", {}, {{"shape", shape}, {"value", 0.0}, {"dtype", x_type.dtype}}));
        } else {
          HG_TRY_ASSIGN(state,
                        one("slice", {given[static_cast<size_t>(k)]},
                            {{"dim", 0}, {"start", place}, {"end", place + 1}, {"step", 1}}));
          HG_TRY_ASSIGN(state, one("reshape", {state}, {{"shape", shape}}));
        }
        inputs.push_back(state);
      }
      inputs.push_back(own[1]);
      inputs.push_back(r.has_bias ? own[3] : T());
      if (r.is_projected) inputs.push_back(own[count - 1]);
      NamedAttrs attrs = body.attrs;
      attrs.push_back({"reverse", direction == 1});
      HG_TRY_ASSIGN(const std::vector<T> made, call(body.op, inputs, attrs));
      both.push_back(made[0]);
      for (size_t k = 0; k < last.size(); ++k) {
        const std::vector<Dim> shape = {1, batch, r.sizes[static_cast<int>(k)]};
        HG_TRY_ASSIGN(last[k].emplace_back(), one("reshape", {made[k + 1]}, {{"shape", shape}}));
      }
    }
    HG_TRY_ASSIGN(y, joined(both, 2));
  }
  if (r.is_batch_first) {
    HG_TRY_ASSIGN(y, swap(y));
  }
  std::vector<T> results = {std::move(y)};
  for (const std::vector<T>& states : last) {
    HG_TRY_ASSIGN(results.emplace_back(), joined(states, 0));
  }
  return results;
}

}  // namespace hg::nn
