// SPDX-License-Identifier: Apache-2.0
#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

#include <cstdint>

#include "lib/graph/access.h"

namespace hg {

void release_pages(const Graph& graph, const TensorData& data) {
#ifdef __linux__
  const std::shared_ptr<void>& file = GraphAccess::body(graph).file;
  if (file == nullptr || file.owner_before(data.owner) || data.owner.owner_before(file)) return;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(data.tensor.data);
  const uintptr_t first = (begin + page - 1) / page * page;
  const uintptr_t last = (begin + static_cast<uintptr_t>(data.tensor.bytes())) / page * page;
  // Advice: failing is no harm.
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
#else
  (void)graph;
  (void)data;
#endif
}

}  // namespace hg
