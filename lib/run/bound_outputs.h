// SPDX-License-Identifier: Apache-2.0
// Outputs in the host's memory: written there by the kernels where that is safe, else copied when
// the run is at its end. No two of the host's tensors overlap: check() sees to that before a run.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "hg/graph.h"
#include "lib/plan/plan.h"
#include "lib/run/memory.h"

namespace hg {

// By output: the block of this plan that has its value and no other byte, so that the whole block
// may lie at the host's: what is in it before the value is there may as well lie there. Or -1.
std::vector<int32_t> blocks_of_outputs(const Graph& graph, const Plan& plan);

class BoundOutputs {
 public:
  // Of this graph, which must outlive them and keeps its outputs.
  BoundOutputs(const Graph& graph, const Allocator& allocator);

  // As Session::set_output.
  Status set(size_t index, const Tensor& tensor);
  void forget();

  bool any() const { return any_; }
  // Without data where nothing was set.
  std::span<const Tensor> tensors() const { return bound_; }
  // Whether data decides some of its sizes.
  bool data_decides(size_t index) const { return data_decides_[index]; }

  // Before anything runs: shapes, where they are known by then, and that no two overlap.
  Status check(std::span<const std::optional<Sizes>> shapes) const;
  // Sets for each block of blocks_of_outputs() where it lies, less its offset in the arena: at the
  // host's, apart from all inputs, or null. Whether that is not what stood there before.
  bool place(const Plan& plan, std::span<const int32_t> blocks, std::span<const Tensor> inputs,
             std::span<std::byte*> homes) const;
  // What the run made of an output; fails where the host's memory has no room for it. Of outputs
  // that the host has no memory for, those that lie in its inputs.
  Status take(size_t index, const Tensor& made);
  // Forgets what an earlier run made.
  void begin();
  // Copies what no kernel wrote to its place, once all are taken.
  Status copy();
  // Where an output is that the run made: the host's tensor as it fills it, of what data decides
  // its first elements; without one, `made` or its copy from an input that a copy overwrote.
  Tensor filled(size_t index, const Tensor& made) const;

 private:
  bool is_bound(size_t index) const { return bound_[index].data != nullptr; }
  bool is_copied(size_t index) const;
  std::byte* home_of(size_t index, const Block& block, std::span<const Tensor> inputs) const;
  Status put_aside(size_t index);

  const Graph* graph_;
  Allocator allocator_;
  std::vector<Tensor> bound_;       // by output: where the host wants it
  std::vector<Tensor> made_;        // by output: of this run
  std::vector<bool> data_decides_;  // by output
  std::vector<bool> is_aside_;      // by output: of this run
  std::vector<Memory64> aside_;     // by output: for what would be overwritten by a copy
  bool any_ = false;
};

}  // namespace hg
