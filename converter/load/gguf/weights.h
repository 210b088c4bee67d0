// SPDX-License-Identifier: Apache-2.0
// The tensors of a GGUF file as weights of a graph. Blocks stay integers with scales, followed by
// nodes that dequantize them. The dequantized numbers equal those of the file bit by bit.
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
  // Returns the size of a dim. Throws Failure if the tensor is missing or has too few dims.
  int64_t size(std::string_view name, int dim) const;
  // Returns the tensor's numbers as an f32 value. Throws Failure if it is missing, has another
  // shape or an unsupported type.
  //
  // If pairs > 0, the rows form heads of `head` rows. In each head, the first `pairs` pairs of
  // neighboring rows are reordered: first all even rows, then all odd rows.
  Value take(std::string_view name, const Sizes& shape, int64_t head = 0, int64_t pairs = 0);
  // Returns the numbers of a small tensor, such as factors for angles.
  std::vector<double> numbers(std::string_view name, int64_t count);
  // Returns the name of a tensor that was not taken; empty if all were taken.
  std::string untaken() const;

 private:
  const TensorInfo& find(std::string_view name) const;

  const File& file_;
  Graph& graph_;
  std::set<std::string_view> taken_;
};

}  // namespace hg::convert::gguf
