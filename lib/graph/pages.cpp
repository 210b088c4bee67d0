// SPDX-License-Identifier: Apache-2.0
#include "lib/graph/access.h"
#include "lib/platform/memory.h"

namespace hg {

void release_pages(const Graph& graph, const TensorData& data) {
  const std::shared_ptr<void>& file = GraphAccess::body(graph).file;
  if (file == nullptr || file.owner_before(data.owner) || data.owner.owner_before(file)) return;
  release_file_pages(data.tensor.data, static_cast<uint64_t>(data.tensor.bytes()));
}

}  // namespace hg
