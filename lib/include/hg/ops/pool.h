// SPDX-License-Identifier: Apache-2.0
// Builders of lib/ops/pool.cpp. x: [n, c, spatial...] with one to three spatial dims.
#pragma once

#include <utility>
#include <vector>

#include "hg/graph.h"

namespace hg {

// Lists hold one number per spatial dim; one number stands for all. An empty stride is the kernel's
// size.
struct PoolOptions {
  std::vector<Dim> stride = {};
  std::vector<Dim> padding = {0};
  bool ceil_mode = false;
  std::vector<Dim> dilation = {1};  // max_pool only
  bool count_include_pad = true;    // avg_pool only
};

// The largest element of each window.
inline Value max_pool(const Value& x, std::vector<Dim> kernel_size, const PoolOptions& o = {}) {
  return x.graph()->call("max_pool", {x},
                         {{"kernel_size", Attr(std::move(kernel_size))},
                          {"stride", o.stride},
                          {"padding", o.padding},
                          {"dilation", o.dilation},
                          {"ceil_mode", o.ceil_mode}});
}
// The mean of each window.
inline Value avg_pool(const Value& x, std::vector<Dim> kernel_size, const PoolOptions& o = {}) {
  return x.graph()->call("avg_pool", {x},
                         {{"kernel_size", Attr(std::move(kernel_size))},
                          {"stride", o.stride},
                          {"padding", o.padding},
                          {"ceil_mode", o.ceil_mode},
                          {"count_include_pad", o.count_include_pad}});
}
// The means of windows that are chosen so that output_size elements come out.
inline Value adaptive_avg_pool(const Value& x, std::vector<Dim> output_size) {
  return x.graph()->call("adaptive_avg_pool", {x}, {{"output_size", Attr(std::move(output_size))}});
}

}  // namespace hg
