// SPDX-License-Identifier: Apache-2.0
// Builders for lib/ops/reduce.cpp. `dim` lists the dims to reduce; empty: all. Reduced dims are
// removed, or become 1 if keepdim.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "hg/graph.h"

namespace hg {

// Integers and bool return i64.
inline Value sum(const Value& x, std::vector<Dim> dim = {}, bool keepdim = false) {
  return x.graph()->call("sum", {x}, {{"dim", std::move(dim)}, {"keepdim", keepdim}});
}
inline Value prod(const Value& x, std::vector<Dim> dim = {}, bool keepdim = false) {
  return x.graph()->call("prod", {x}, {{"dim", std::move(dim)}, {"keepdim", keepdim}});
}
// Floats only.
inline Value mean(const Value& x, std::vector<Dim> dim = {}, bool keepdim = false) {
  return x.graph()->call("mean", {x}, {{"dim", std::move(dim)}, {"keepdim", keepdim}});
}
// Largest and smallest element; NaN if any element is NaN. Equal elements share the gradient.
inline Value amax(const Value& x, std::vector<Dim> dim = {}, bool keepdim = false) {
  return x.graph()->call("amax", {x}, {{"dim", std::move(dim)}, {"keepdim", keepdim}});
}
inline Value amin(const Value& x, std::vector<Dim> dim = {}, bool keepdim = false) {
  return x.graph()->call("amin", {x}, {{"dim", std::move(dim)}, {"keepdim", keepdim}});
}
// True if all, or any, elements are nonzero: bool.
inline Value all(const Value& x, std::vector<Dim> dim = {}, bool keepdim = false) {
  return x.graph()->call("all", {x}, {{"dim", std::move(dim)}, {"keepdim", keepdim}});
}
inline Value any(const Value& x, std::vector<Dim> dim = {}, bool keepdim = false) {
  return x.graph()->call("any", {x}, {{"dim", std::move(dim)}, {"keepdim", keepdim}});
}
// Index (i64) of the first largest or smallest element along dim; without dim, in the flattened
// tensor.
inline Value argmax(const Value& x, std::optional<Dim> dim = {}, bool keepdim = false) {
  NamedAttrs attrs = {{"keepdim", keepdim}};
  if (dim) attrs.push_back({"dim", *dim});
  return x.graph()->call("argmax", {x}, attrs);
}
inline Value argmin(const Value& x, std::optional<Dim> dim = {}, bool keepdim = false) {
  NamedAttrs attrs = {{"keepdim", keepdim}};
  if (dim) attrs.push_back({"dim", *dim});
  return x.graph()->call("argmin", {x}, attrs);
}
// sum((x - mean)^2) / max(0, count - correction)
inline Value var(const Value& x, std::vector<Dim> dim = {}, double correction = 1,
                 bool keepdim = false) {
  return x.graph()->call(
      "var", {x}, {{"dim", std::move(dim)}, {"correction", correction}, {"keepdim", keepdim}});
}
// Square root of var: the op `std`, whose name C++ reserves.
inline Value stddev(const Value& x, std::vector<Dim> dim = {}, double correction = 1,
                    bool keepdim = false) {
  return x.graph()->call(
      "std", {x}, {{"dim", std::move(dim)}, {"correction", correction}, {"keepdim", keepdim}});
}
// Largest or smallest element along dim, or of all elements, and its index (i64; the first of equal
// ones). NaN if any is NaN.
inline std::vector<Value> max(const Value& x, std::optional<Dim> dim = {}, bool keepdim = false) {
  NamedAttrs attrs = {{"keepdim", keepdim}};
  if (dim) attrs.push_back({"dim", *dim});
  return x.graph()->calls("max", {x}, attrs);
}
inline std::vector<Value> min(const Value& x, std::optional<Dim> dim = {}, bool keepdim = false) {
  NamedAttrs attrs = {{"keepdim", keepdim}};
  if (dim) attrs.push_back({"dim", *dim});
  return x.graph()->calls("min", {x}, attrs);
}
// (sum |x|^ord)^(1 / ord). ord 0: number of nonzero elements; infinity: largest |x|.
inline Value norm(const Value& x, double ord = 2, std::vector<Dim> dim = {}, bool keepdim = false) {
  return x.graph()->call("norm", {x},
                         {{"ord", ord}, {"dim", std::move(dim)}, {"keepdim", keepdim}});
}
// log(sum(e^x))
inline Value logsumexp(const Value& x, std::vector<Dim> dim = {}, bool keepdim = false) {
  return x.graph()->call("logsumexp", {x}, {{"dim", std::move(dim)}, {"keepdim", keepdim}});
}

}  // namespace hg
