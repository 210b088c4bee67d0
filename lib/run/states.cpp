// SPDX-License-Identifier: Apache-2.0
#include "lib/run/states.h"

#include "lib/graph/rewrite.h"
#include "lib/run/compiled.h"

namespace hg {

namespace {

Result<Tensor> shared_memory(const SharedStates& shared, const State& state) {
  HG_TRY_ASSIGN(const Tensor memory, shared.value(state.name));
  const Tensor& tensor = state.data.tensor;
  HG_CHECK(memory.dtype == tensor.dtype && memory.shape == tensor.shape, "'", state.name, "' is ",
           tensor.dtype, tensor.shape, ", but the shared state is ", memory.dtype, memory.shape);
  return memory;
}

}  // namespace

Status States::prepare(Graph& graph, const Allocator& allocator, const SharedStates* shared) {
  std::vector<State>& states = GraphAccess::body(graph).states;
  changes_ = changed_states(graph);
  own_.resize(states.size());
  data_.resize(states.size());
  is_shared_.resize(states.size());
  for (size_t i = 0; i < states.size(); ++i) {
    const Tensor tensor = states[i].data.tensor;
    data_[i] = tensor.data;
    if (!changes_[i] || own_[i].data() != nullptr || is_shared_[i]) continue;
    if (shared != nullptr) {
      HG_TRY_ASSIGN(const Tensor memory, shared_memory(*shared, states[i]));
      data_[i] = memory.data;
      is_shared_[i] = true;
    } else {
      if (!own_[i].allocate(allocator, tensor.bytes()))
        return out_of_memory("no memory for the ", tensor.bytes(), " bytes of '", states[i].name,
                             "'");
      data_[i] = own_[i].data();
    }
    const Tensor own = view(data_[i], tensor.dtype, tensor.shape);
    if (shared == nullptr) copy_elements(tensor, own);
    release_pages(graph, states[i].data);
    // Does not keep the initial bytes alive for this session.
    const auto lent = [](void*) {};
    states[i].data = {own, std::shared_ptr<void>(own.data, lent)};
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

void States::drop(Graph& graph, size_t index) {
  drop_data(GraphAccess::body(graph).states[index]);
  data_[index] = nullptr;
}

}  // namespace hg
