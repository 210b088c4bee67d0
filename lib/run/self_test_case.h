// SPDX-License-Identifier: Apache-2.0
// What a case of the self-test is made of.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "hg/graph.h"

namespace hg {

// Adds the inputs of a case to its graph.
struct CaseInputs {
  Graph& graph;
  DType real;
  int count = 0;
  Value add(const Sizes& shape, DType dtype) {
    std::vector<Dim> dims(shape.begin(), shape.end());
    return graph.input(str_cat("x", count++), dtype, Shape(dims));
  }
  Value x(const Sizes& shape) { return add(shape, real); }
};

// Odd sizes beyond a vector, so that the edges of tiles are tested. An op (or kernel) may have
// several rows, for example if it chooses among tiles by size.
struct Case {
  std::string_view op;  // or "op=kernel" for a case of only that kernel
  void (*build)(CaseInputs& in);
};

// Of ops that few devices compute: decompositions, recurrent layers, regions of images, trees.
std::span<const Case> rare_cases();

}  // namespace hg
