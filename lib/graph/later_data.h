// SPDX-License-Identifier: Apache-2.0
// Data of a state that a pass creates, computed from other data on first use. If only packed
// weights use it, and a file has these weights, the data is never computed.
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
  // Determines the data.
  struct Origin {
    TensorData source;
    std::optional<uint32_t> recorded;  // recorded_sum() of the source
    std::vector<double> parameters;
  };
  // Writes all elements of `to`; called on any thread.
  using Compute = void (*)(const Origin& origin, const Tensor& to);
  static Result<Value> add(Graph& graph, std::string_view name, DType dtype, const Sizes& shape,
                           Origin origin, Compute compute);
  // Returns null if the data is not LaterData.
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

// Computes the data if it is LaterData and not computed yet.
inline void compute_now(const Graph& graph, const TensorData& data) {
  const auto later = LaterData::find(graph, data);
  if (later == nullptr) return;
  later->use([] {});
  release_pages(graph, later->origin().source);
}

}  // namespace hg
