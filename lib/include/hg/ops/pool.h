// SPDX-License-Identifier: Apache-2.0
// Builders for lib/ops/pool.cpp. x: [n, c, spatial...] with one to three spatial dims.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "hg/graph.h"

namespace hg {

// Each list has one number per spatial dim, or one number for all of them. An empty stride equals
// the kernel size.
struct PoolOptions {
  std::vector<Dim> stride = {};
  std::vector<Dim> padding = {0};
  bool ceil_mode = false;
  std::vector<Dim> dilation = {1};           // max_pool only
  bool count_include_pad = true;             // avg_pool only
  std::optional<Dim> divisor_override = {};  // avg_pool only: replaces the window size
};

// Largest element of each window.
inline Value max_pool(const Value& x, std::vector<Dim> kernel_size, const PoolOptions& o = {}) {
  return x.graph()->call("max_pool", {x},
                         {{"kernel_size", Attr(std::move(kernel_size))},
                          {"stride", o.stride},
                          {"padding", o.padding},
                          {"dilation", o.dilation},
                          {"ceil_mode", o.ceil_mode}});
}
// Also returns the position of each maximum, in row-major order within its channel: i64.
inline std::vector<Value> max_pool_with_indices(const Value& x, std::vector<Dim> kernel_size,
                                                const PoolOptions& o = {}) {
  return x.graph()->calls("max_pool_with_indices", {x},
                          {{"kernel_size", Attr(std::move(kernel_size))},
                           {"stride", o.stride},
                           {"padding", o.padding},
                           {"dilation", o.dilation},
                           {"ceil_mode", o.ceil_mode}});
}
// Mean of each window.
inline Value avg_pool(const Value& x, std::vector<Dim> kernel_size, const PoolOptions& o = {}) {
  NamedAttrs attrs = {{"kernel_size", Attr(std::move(kernel_size))},
                      {"stride", o.stride},
                      {"padding", o.padding},
                      {"ceil_mode", o.ceil_mode},
                      {"count_include_pad", o.count_include_pad}};
  if (o.divisor_override) attrs.push_back({"divisor_override", *o.divisor_override});
  return x.graph()->call("avg_pool", {x}, attrs);
}
// Means of windows chosen to produce output_size elements.
inline Value adaptive_avg_pool(const Value& x, std::vector<Dim> output_size) {
  return x.graph()->call("adaptive_avg_pool", {x}, {{"output_size", Attr(std::move(output_size))}});
}
// Largest element of each such window, and its position as in max_pool_with_indices.
inline std::vector<Value> adaptive_max_pool(const Value& x, std::vector<Dim> output_size) {
  return x.graph()->calls("adaptive_max_pool", {x},
                          {{"output_size", Attr(std::move(output_size))}});
}

}  // namespace hg
