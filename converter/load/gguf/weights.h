// SPDX-License-Identifier: Apache-2.0
// The tensors of a GGUF file as weights of a graph. Blocks stay integers with scales; nodes that
// dequantize them follow. Their numbers are those of the file, to the bit.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "converter/load/gguf/file.h"
#include "hg/graph.h"

namespace hg::convert::gguf {

class Weights {
 public:
  // Both must outlive this.
  Weights(const File& file, Graph& graph) : file_(file), graph_(graph) {}

  bool has(std::string_view name) const { return file_.tensors().contains(name); }
  // The size of a dim of a tensor. Throws Failure if it is missing or has fewer dims.
  int64_t size(std::string_view name, int dim) const;
  // An f32 value of the tensor's numbers. Throws Failure if it is missing, has another shape or an
  // unsupported type.
  //
  // pairs > 0: the rows are heads of `head` rows. Of each, the first `pairs` pairs of neighboring
  // rows become a first half of even rows and a second half of odd rows.
  Value take(std::string_view name, const Sizes& shape, int64_t head = 0, int64_t pairs = 0);
  // The numbers of a small tensor, such as factors of angles.
  std::vector<double> numbers(std::string_view name, int64_t count);
  // A name of a tensor that nothing has taken; empty if there is none.
  std::string untaken() const;

 private:
  const TensorInfo& find(std::string_view name) const;

  const File& file_;
  Graph& graph_;
  std::set<std::string_view> taken_;
};

}  // namespace hg::convert::gguf
