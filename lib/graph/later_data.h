// SPDX-License-Identifier: Apache-2.0
// Data of a state that a pass made, computed from other data when it is needed: never, if only
// packed weights need it and a file has those.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/graph/access.h"

namespace hg {

class LaterData {
 public:
  struct Source {
    TensorData data;
    std::optional<uint32_t> recorded;  // recorded_sum()
  };
  // What the data is a function of.
  struct Origin {
    Source source;
    std::vector<double> parameters;
  };
  // Writes all elements of `to`; called on any thread.
  using Compute = void (*)(const Origin& origin, const Tensor& to);
  static Result<Value> add(Graph& graph, std::string_view name, DType dtype, const Sizes& shape,
                           Origin origin, Compute compute);
  // Null for other data.
  static std::shared_ptr<LaterData> find(const Graph& graph, const TensorData& data);

  LaterData(TensorData memory, Origin origin, Compute compute)
      : memory_(std::move(memory)), origin_(std::move(origin)), compute_(compute) {}
  // Computes the data unless it is, and calls `reader`, which may read it. Thread-safe.
  void use(const std::function<void()>& reader);
  // Gives the memory to the system until somebody uses the data again. Thread-safe.
  void discard();
  const Origin& origin() const { return origin_; }

 private:
  TensorData memory_;
  Origin origin_;
  Compute compute_;
  std::mutex lock_;
  bool is_computed_ = false;
};

#if defined(HG_SMALL)  // computes the data at once
inline std::shared_ptr<LaterData> LaterData::find(const Graph&, const TensorData&) {
  return nullptr;
}
#endif

// Computes the data if it is LaterData that nobody needed so far.
inline void compute_now(const Graph& graph, const TensorData& data) {
  const auto later = LaterData::find(graph, data);
  if (later == nullptr) return;
  later->use([] {});
  release_pages(graph, later->origin().source.data);
}

}  // namespace hg
