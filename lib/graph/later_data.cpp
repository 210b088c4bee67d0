// SPDX-License-Identifier: Apache-2.0
#include "lib/graph/later_data.h"

#include <memory>
#include <utility>

#include "lib/platform/memory.h"

namespace hg {

Result<Value> LaterData::add(Graph& graph, std::string_view name, DType dtype, const Sizes& shape,
                             Origin origin, Compute compute) {
  HG_TRY_ASSIGN(TensorData memory, TensorData::allocate(dtype, shape));
#if defined(HG_SMALL)
  compute(origin, memory.tensor);
  release_pages(graph, origin.source);
  return graph.constant(std::move(memory), std::string(name));
#else
  const Tensor tensor = memory.tensor;
  auto later = std::make_shared<LaterData>(std::move(memory), std::move(origin), compute);
  GraphAccess::body(graph).later[tensor.data] = later;
  return graph.constant({tensor, std::shared_ptr<void>(std::move(later), tensor.data)},
                        std::string(name));
#endif
}

#if !defined(HG_SMALL)
// Another owner may have allocated freed memory again.
std::shared_ptr<LaterData> LaterData::find(const Graph& graph, const TensorData& data) {
  const auto& all = GraphAccess::body(graph).later;
  const auto found = all.find(data.tensor.data);
  std::shared_ptr<LaterData> later = found == all.end() ? nullptr : found->second.lock();
  const bool owns = later && !later.owner_before(data.owner) && !data.owner.owner_before(later);
  return owns ? later : nullptr;
}
#endif

void LaterData::use(const std::function<void()>& reader) {
  const std::lock_guard<std::mutex> locked(lock_);
  if (!is_computed_) {
    const Tensor& tensor = memory_.tensor;
    take_pages(tensor.data, static_cast<uint64_t>(tensor.bytes()));
    compute_(origin_, tensor);
  }
  is_computed_ = true;
  reader();
}

void LaterData::discard() {
  const std::lock_guard<std::mutex> locked(lock_);
  is_computed_ = false;
  release_pages(memory_.tensor.data, static_cast<uint64_t>(memory_.tensor.bytes()));
}

}  // namespace hg
