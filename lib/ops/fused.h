// SPDX-License-Identifier: Apache-2.0
// What linear and conv share: y = activation(product + bias + residual).
#pragma once

#include "hg/op.h"
#include "lib/graph/activation.h"

namespace hg::ops {

inline Status check_activation(const InferContext& c) {
  const std::string& name = c.attrs().string("activation");
  if (!activation_named(name)) {
    std::string known;
    for (const std::string_view one : kActivationNames) known += str_cat(" ", one);
    return c.fail("activation is '", name, "', known are", known);
  }
  if (name != "none" && !is_float(c.in(0).dtype))
    return c.fail("activation '", name, "' needs a float tensor, x is ", c.in(0).dtype);
  return {};
}

// Of a node whose activation infer has checked.
inline Activation activation_attr(const AttrReader& attrs) {
  return *activation_named(attrs.string("activation"));
}

}  // namespace hg::ops
