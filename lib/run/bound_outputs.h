// SPDX-License-Identifier: Apache-2.0
// Outputs bound to the host's memory. Kernels write there directly where that is safe; otherwise
// the run copies at its end. check() ensures before each run that no two bound tensors overlap.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "hg/graph.h"
#include "lib/plan/plan.h"
#include "lib/run/memory.h"

namespace hg {

// For each output: the block of this plan that contains its value and nothing else, so that the
// whole block can be placed in the host's memory; otherwise -1. Earlier contents of the block may
// be written there too.
void find_blocks_of_outputs(const Graph& graph, const Plan& plan, std::vector<int32_t>& blocks);

class BoundOutputs {
 public:
  // `graph` must outlive this object and keep its outputs.
  BoundOutputs(const Graph& graph, const Allocator& allocator);

  // See Session::set_output().
  Status set(size_t index, const Tensor& tensor);
  void forget();

  bool any() const { return any_; }
  // Null data if not bound.
  std::span<const Tensor> tensors() const { return bound_; }

  // Called before a run: checks the shapes that are known and that no two tensors overlap.
  Status check(std::span<const std::optional<Sizes>> shapes) const;
  // Sets the home of each block of find_blocks_of_outputs(): its address minus its offset in the
  // arena, in host memory that overlaps no input; or null. Returns whether a home has changed.
  bool place(const Plan& plan, std::span<const int32_t> blocks, std::span<const Tensor> inputs,
             std::span<std::byte*> homes) const;
  // Records the result of a run for an output. Fails if the host's memory is too small. Also called
  // for unbound outputs that are stored in an input.
  Status take(size_t index, const Tensor& made);
  // Forgets the results of an earlier run.
  void begin();
  // Copies the outputs that no kernel wrote in place. Called after take() for all outputs.
  Status copy();
  // Returns an output of the run: the bound tensor, restricted to its first elements if the size
  // depends on data. If unbound, returns `made`, or its copy if it was stored in an input that a
  // copy overwrote.
  Tensor filled(size_t index, const Tensor& made) const;

 private:
  bool is_bound(size_t index) const { return bound_[index].data != nullptr; }
  bool is_copied(size_t index) const;
  std::byte* home_of(size_t index, const Block& block, std::span<const Tensor> inputs) const;
  Status put_aside(size_t index);

  const Graph* graph_;
  Allocator allocator_;
  std::vector<Tensor> bound_;       // per output: the bound tensor
  std::vector<Tensor> made_;        // per output: result of this run
  std::vector<bool> data_decides_;  // per output: whether a size depends on data
  std::vector<bool> is_aside_;      // per output, for this run
  std::vector<Memory64> aside_;     // per output: values that a copy would overwrite
  bool any_ = false;
};

}  // namespace hg
