// SPDX-License-Identifier: Apache-2.0
#include "lib/run/states.h"

#include <algorithm>

#include "lib/graph/past_names.h"
#include "lib/graph/rewrite.h"
#include "lib/graph/same_bits.h"
#include "lib/platform/checked_memory.h"
#include "lib/run/compiled.h"

namespace hg {

Status States::prepare(Graph& graph, const Allocator& allocator, const SharedStates* shared) {
  std::vector<State>& states = GraphAccess::body(graph).states;
  changes_ = changed_states(graph);
  data_.resize(states.size());
  is_shared_.resize(states.size());
  owns_.resize(states.size());
  own_written_.resize(states.size());
  written_.resize(states.size());
  for (size_t i = 0; i < states.size(); ++i)
    if (!is_shared_[i]) written_[i] = &own_written_[i];
  ConstTensor zeros;  // the last initial value that was found to be zeros; states may share one
  std::vector<size_t> zeroed;
  for (size_t i = 0; i < states.size(); ++i) {
    const Tensor tensor = states[i].data.tensor;
    data_[i] = tensor.data;
    if (!changes_[i] || owns_[i] || is_shared_[i]) continue;
    if (shared != nullptr) {
      HG_TRY_ASSIGN(const SharedStates::Shared* const found, shared->find(states[i].name));
      const Tensor& memory = found->now.tensor;
      HG_CHECK(memory.dtype == tensor.dtype && memory.shape == tensor.shape, "'", states[i].name,
               "' is ", tensor.dtype, tensor.shape, ", but the shared state is ", memory.dtype,
               memory.shape);
      data_[i] = memory.data;
      is_shared_[i] = true;
      written_[i] = &found->written;
    } else {
      const bool is_known = tensor.data == zeros.data && tensor.bytes() <= zeros.bytes();
      const bool is_zero = is_known || has_only_zero_bytes(tensor);
      if (is_zero && !is_known) zeros = tensor;
      if (is_zero) {
        zeroed.push_back(i);
        own_written_[i] = 0;
        continue;
      }
      Memory64& own = own_.emplace_back();
      if (!own.allocate(allocator, tensor.bytes()))
        return out_of_memory("no memory for the ", tensor.bytes(), " bytes of '", states[i].name,
                             "'");
      data_[i] = own.data();
      owns_[i] = true;
      copy_elements(tensor, view(data_[i], tensor.dtype, tensor.shape));
      own_written_[i] = kAllWritten;
    }
    keep(graph, i);
  }
  return allocate_zeroed(graph, allocator, zeroed);
}

// Makes the engine's memory the graph's data, which does not keep the initial bytes alive.
void States::keep(Graph& graph, size_t index) {
  State& state = GraphAccess::body(graph).states[index];
  release_pages(graph, state.data);
  const Tensor own = view(data_[index], state.data.tensor.dtype, state.data.tensor.shape);
  const auto lent = [](void*) {};
  state.data = {own, std::shared_ptr<void>(own.data, lent)};
}

// In one block, for large pages. In builds that check views, in blocks of their own.
Status States::allocate_zeroed(Graph& graph, const Allocator& allocator,
                               const std::vector<size_t>& indices) {
  const auto bytes_of = [&](size_t index) {
    return (graph.states()[index].data.tensor.bytes() + 63) / 64 * 64;
  };
  for (size_t i = 0; i < indices.size();) {
    int64_t bytes = 0;
    size_t end = i;
    do bytes += bytes_of(indices[end++]);
    while (end < indices.size() && !kChecksViews);
    Memory64& own = own_.emplace_back();
    if (!own.allocate_zeroed(allocator, bytes))
      return out_of_memory("no memory for the ", bytes, " bytes of '",
                           graph.states()[indices[i]].name, "'",
                           end > i + 1 ? str_cat(" and ", end - i - 1, " other states") : "");
    auto* at = static_cast<char*>(own.data());
    for (; i < end; at += bytes_of(indices[i++])) {
      data_[indices[i]] = at;
      owns_[indices[i]] = true;
      keep(graph, indices[i]);
    }
  }
  return {};
}

std::vector<Tensor> States::tensors(const Graph& graph) const {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < data_.size(); ++i) {
    const Tensor& tensor = graph.states()[i].data.tensor;
    tensors.push_back(view(data_[i], tensor.dtype, tensor.shape));
  }
  return tensors;
}

int64_t States::own_bytes() const {
  int64_t bytes = 0;
  for (const Memory64& own : own_) bytes += own.bytes();
  return bytes;
}

void States::find_growing(const Graph& source) {
  for (const Guard& guard : source.guards()) {
    if (!guard.reason.starts_with(kCapacityOf)) continue;
    for (const auto& [target, value] : source.assignments()) {
      const int32_t index = source.value_info(value).node;
      if (index < 0) continue;
      const Node& node = source.nodes()[static_cast<size_t>(index)];
      if (node.op->name() != "slice_scatter" || node.inputs[0] != target) continue;
      const AttrReader attrs(node.op, node.attrs);
      if (attrs.integer("end") != guard.left) continue;
      const Dim past = attrs.integer("start");
      const auto known = std::find_if(growing_.begin(), growing_.end(), [&](const Growing& each) {
        return each.past == past && each.all == guard.left;
      });
      Growing& growing = known != growing_.end()
                             ? *known
                             : growing_.emplace_back(Growing{past, guard.left, guard.right, {}});
      growing.states.push_back(static_cast<size_t>(source.value_info(target).state));
    }
  }
}

Status States::check_past(const Graph& graph, const Bindings& sizes) const {
  for (const Growing& growing : growing_) {
    HG_TRY_ASSIGN(const int64_t past, growing.past.evaluate(sizes));
    for (const size_t i : growing.states)
      HG_CHECK(past <= *written_[i], "the sizes of the inputs give a past of ", past,
               " positions, but '", graph.states()[i].name, "' holds ", *written_[i]);
  }
  return {};
}

void States::will_grow(const Bindings& sizes) {
  if (has_large_pages_) return;
  for (const Growing& growing : growing_) {
    const Result<int64_t> all = growing.all.evaluate(sizes), most = growing.most.evaluate(sizes);
    has_large_pages_ = has_large_pages_ || (all.ok() && most.ok() && *all >= *most / 2);
  }
  if (!has_large_pages_) return;
  for (Memory64& own : own_) own.move_to_large_pages();
}

void States::grew(const Bindings& sizes) {
  for (const Growing& growing : growing_)
    if (const Result<int64_t> all = growing.all.evaluate(sizes); all.ok())
      for (const size_t i : growing.states) *written_[i] = *all;
}

void States::may_be_written(size_t index) const { *written_[index] = kAllWritten; }

void States::drop(Graph& graph, size_t index) {
  drop_data(GraphAccess::body(graph).states[index]);
  data_[index] = nullptr;
}

}  // namespace hg
