// SPDX-License-Identifier: Apache-2.0
// Where a program has its states: those that no run changes lie where the graph has them, each
// other one in memory of its own, which starts from the graph's values.
#pragma once

#include <span>
#include <vector>

#include "hg/graph.h"
#include "lib/run/memory.h"

namespace hg {

class States {
 public:
  // To be called again when passes added states; what runs changed stays. The graph's data of
  // states that change becomes that of the program.
  Status prepare(Graph& graph, const Allocator& allocator);

  bool changes(size_t index) const { return changes_[index]; }
  const std::vector<bool>& changing() const { return changes_; }
  void* data(size_t index) const { return data_[index]; }  // null: only packed copies are left
  // As tensors, for a device that copies them.
  std::vector<Tensor> tensors(const Graph& graph) const;
  int64_t own_bytes() const;
  // What is left of it are the copies that kernels packed.
  void drop(Graph& graph, size_t index);
  // The value of a state after a run, wherever it lies.
  void assign(size_t index, const Tensor& value) const {
    if (value.data == data_[index]) return;  // updated in place
    copy_elements(value, view(data_[index], value.dtype, value.shape));
  }

 private:
  std::vector<bool> changes_;
  std::vector<void*> data_;
  std::vector<Memory64> own_;
};

}  // namespace hg
