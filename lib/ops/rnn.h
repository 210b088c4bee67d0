// SPDX-License-Identifier: Apache-2.0
// Shared by the scans of recurrent layers and their gradients when they are unrolled into steps.
#pragma once

#include "hg/op.h"
#include "lib/ops/terms.h"

namespace hg::ops {

inline Value part_of(const Value& gates, int i, const Dim& hidden) {
  return term::slice(gates, 1, hidden * i, hidden * (i + 1));
}

inline Value linear(const Value& x, const Value& weight, const Value& bias) {
  return x.graph()->call("linear", {x, weight, bias});
}

inline Value at_time(const Value& x, int64_t t) {
  return term::reshape(term::slice(x, 0, t, t + 1), {x.dim(1), x.dim(2)});
}

// The recurrent weights times the state, or its gradient, at each step; in[0]: [time, batch,
// width].
inline double scan_flops(std::span<const Sizes> in, size_t weight) {
  return 2 * static_cast<double>(in[0][0] * in[0][1]) * static_cast<double>(in[weight].count());
}

// One value per time step, each [batch, width]; `like` supplies the type.
inline Value stack(const std::vector<Value>& steps, const Value& like) {
  if (steps.empty()) return term::expand(term::number(like, 0), {Dim(0), like.dim(0), like.dim(1)});
  std::vector<Value> all;
  for (const Value& v : steps) all.push_back(term::reshape(v, {Dim(1), v.dim(0), v.dim(1)}));
  return all[0].graph()->call("concat", all, {{"dim", 0}});
}

// Time steps of the first input. They must be a number to unroll the loop.
inline Result<int64_t> steps_of(const ExpandContext& c) {
  if (!c.in(0).dim(0).is_constant())
    return unsupported(c.attrs().op().name(), ": the number of time steps, ", c.in(0).dim(0),
                       ", must be known to unroll the loop");
  return c.in(0).dim(0).constant();
}

// Calls step(t) in the order of the direction, or in reverse.
template <class Step>
void for_steps(const ExpandContext& c, int64_t time, bool back, const Step& step) {
  const bool falling = c.attrs().flag("reverse") != back;
  for (int64_t k = 0; k < time; ++k) step(falling ? time - 1 - k : k);
}

}  // namespace hg::ops
