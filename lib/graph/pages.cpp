// SPDX-License-Identifier: Apache-2.0
// Data of a graph in its mapped file.
#include "lib/graph/access.h"
#include "lib/platform/memory.h"
#include "lib/platform/read_ahead.h"

namespace hg {
namespace {

// The file, if the data is in it.
const DataFile* file_of(const Graph& graph, const TensorData& data) {
  const DataFile* const file = GraphAccess::body(graph).file.get();
  if (file == nullptr || file->owner.owner_before(data.owner) ||
      data.owner.owner_before(file->owner))
    return nullptr;
  return file;
}

}  // namespace

void read_ahead(const Graph& graph) {
  const DataFile* const file = GraphAccess::body(graph).file.get();
  if (file != nullptr && file->ahead != nullptr) file->ahead->start();
}

void release_pages(const Graph& graph, const TensorData& data) {
  if (file_of(graph, data) != nullptr)
    release_pages(data.tensor.data, static_cast<uint64_t>(data.tensor.bytes()));
}

std::optional<uint32_t> recorded_sum(const Graph& graph, const TensorData& data) {
  const DataFile* const file = file_of(graph, data);
  if (file == nullptr) return std::nullopt;
  const auto found = file->sums.find({data.tensor.data, data.tensor.bytes()});
  if (found == file->sums.end()) return std::nullopt;
  return found->second;
}

}  // namespace hg
