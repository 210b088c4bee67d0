// SPDX-License-Identifier: Apache-2.0
// Shared by linear and conv: y = activation(product + bias + residual).
#pragma once

#include "hg/op.h"
#include "lib/graph/activation.h"
#include "lib/graph/lacks.h"

namespace hg::ops {

inline Status check_activation(const InferContext& c) {
  const std::string& name = c.attrs().string("activation");
  const std::optional<Activation> activation = parse_activation(name);
  if (!activation) {
    std::string known;
    for (const std::string_view one : kActivationNames) known += str_cat(" ", one);
    return c.fail("activation is '", name, "', expected one of", known);
  }
  if (activation == Activation::none) return {};
  if (!is_float(c.in(0).dtype))
    return c.fail("activation '", name, "' needs a float tensor, x is ", c.in(0).dtype);
  if (!holds(*activation)) return lacks(str_cat("the activation ", name));
  return {};
}

// The bias and residual of a call whose result has this shape; `channels` is its features.
inline Status check_added(const InferContext& c, const Dim& channels, const Shape& shape) {
  if (c.has(2) && (c.in(2).rank() != 1 || !c.require_equal(c.in(2).shape[0], channels)))
    return c.fail("bias must be [", channels, "], but is ", c.in(2).shape);
  if (!c.has(3)) return {};
  bool same = c.in(3).shape.size() == shape.size();
  for (size_t i = 0; same && i < shape.size(); ++i)
    same = c.require_equal(c.in(3).shape[i], shape[i]);
  return same ? Status() : c.fail("residual must be ", shape, ", but is ", c.in(3).shape);
}

// For a node whose activation infer has checked.
inline Activation activation_attr(const AttrReader& attrs) {
  return *parse_activation(attrs.string("activation"));
}

}  // namespace hg::ops
