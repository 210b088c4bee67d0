// SPDX-License-Identifier: Apache-2.0
// Memory of an engine's states. States that no run changes use the graph's data; each other state
// has its own memory, initialized from the graph.
#pragma once

#include <limits>
#include <span>
#include <vector>

#include "hg/graph.h"
#include "hg/shared_states.h"
#include "lib/run/memory.h"

namespace hg {

// Number of written positions of a state that the host may have written.
constexpr int64_t kAllWritten = std::numeric_limits<int64_t>::max();

class States {
 public:
  // Call again after passes added states; values that runs changed are kept. The graph's data of
  // states that change becomes the engine's memory.
  // States of `shared`, which may be null, use its memory.
  Status prepare(Graph& graph, const Allocator& allocator, const SharedStates* shared);

  bool changes(size_t index) const { return changes_[index]; }
  const std::vector<bool>& changing() const { return changes_; }
  void* data(size_t index) const { return data_[index]; }  // null: only packed copies remain
  // As tensors, for a device that copies them.
  std::vector<Tensor> tensors(const Graph& graph) const;
  int64_t own_bytes() const;
  // Drops the data; only the copies packed by kernels remain.
  void drop(Graph& graph, size_t index);
  // Finds the states of make_stateful() that grow. `source` is the graph before passes.
  void find_growing(const Graph& source);
  // Fails if a run would read positions that no run has written: the host gave a past that is
  // longer than what the states hold.
  Status check_past(const Graph& graph, const Bindings& sizes) const;
  // Call it before a run. Once the states that grow are half full, they move to large pages, where
  // a decoder reads its past faster.
  void will_grow(const Bindings& sizes);
  // Call it after a run, which added positions to the states that grow.
  void grew(const Bindings& sizes);
  // The host may write a state: all of its positions count as written.
  void may_be_written(size_t index) const;
  // Stores the value of a state after a run.
  void assign(size_t index, const Tensor& value) const {
    if (value.data == data_[index]) return;  // updated in place
    copy_elements(value, view(data_[index], value.dtype, value.shape));
  }

 private:
  void keep(Graph& graph, size_t index);
  Status allocate_zeroed(Graph& graph, const Allocator& allocator,
                         const std::vector<size_t>& indices);

  // States whose first `past` positions a run reads, and which hold `all` of `most` after it.
  struct Growing {
    Dim past, all, most;
    std::vector<size_t> states;
  };
  std::vector<Growing> growing_;
  std::vector<bool> changes_;
  std::vector<void*> data_;
  std::vector<bool> is_shared_, owns_;
  std::vector<Memory64> own_;  // of one state that owns its memory, or of several
  bool has_large_pages_ = false;
  std::vector<int64_t> own_written_;
  std::vector<int64_t*> written_;  // per state: its own, or that of the shared state
};

}  // namespace hg
