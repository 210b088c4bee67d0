// SPDX-License-Identifier: Apache-2.0
#include "lib/generate/past_buffers.h"

#include <algorithm>
#include <utility>

#include "lib/graph/ends.h"

namespace hg {

Result<PastBuffers> PastBuffers::create(const Graph& graph,
                                        const std::vector<CarriedValue>& carried) {
  PastBuffers made;
  for (const CarriedValue& names : carried) {
    const TensorType& in = graph.value_info(input_named(graph, names.input)).type;
    const TensorType& out = graph.value_info(output_named(graph, names.output)).type;
    Cache& cache = made.caches_.emplace_back();
    cache.names = names;
    cache.dtype = in.dtype;
    bool fits = out.dtype == in.dtype && out.rank() == in.rank();
    for (int d = 0; fits && d < in.rank(); ++d) {
      const Dim &before = in.shape[static_cast<size_t>(d)],
                &after = out.shape[static_cast<size_t>(d)];
      cache.shape.push_back(before.is_constant() ? before.constant() : 1);
      if (before.is_constant()) {
        fits = before == after;
      } else if (before != after) {
        // The batch may have another symbol in the output.
        if (cache.grows == 0 && cache.batch < 0) cache.batch = std::exchange(cache.grows, -1);
        fits = cache.grows < 0;
        cache.grows = d;
      } else {
        fits = cache.batch < 0;
        cache.batch = d;
      }
    }
    if (!is_float(in.dtype) || (fits && cache.grows < 0))
      return unsupported("generate: the input '", names.input, "' is ", in,
                         ", expected floats [batch, heads, past, dim], where past is a symbol");
    if (!fits)
      return unsupported("generate: the output '", names.output, "' is ", out, ", but the input '",
                         names.input, "' is ", in);
  }
  return made;
}

Sizes PastBuffers::Cache::shape_of(int64_t batch, int64_t positions) const {
  Sizes sizes = shape;
  if (this->batch >= 0) sizes[static_cast<size_t>(this->batch)] = batch;
  sizes[static_cast<size_t>(grows)] = positions;
  return sizes;
}

void PastBuffers::start(int64_t batch) {
  batch_ = batch;
  past_ = 0;
}

// Makes room for the past and the present. Keeps the past.
Status PastBuffers::reserve(int64_t positions) {
  if (batch_ == capacity_batch_ && positions <= capacity_) return {};
  constexpr int64_t kLeast = 64;
  const int64_t grown =
      std::max({positions, kLeast, batch_ == capacity_batch_ ? 2 * capacity_ : 0});
  capacity_ = capacity_batch_ = 0;  // until all buffers are allocated
  for (Cache& cache : caches_) {
    const Sizes held = cache.shape_of(batch_, past_);
    // Reallocates one buffer at a time: the peak is the new buffers plus the old past.
    cache.buffers[1 - now_] = {};
    for (int i : {1 - now_, now_}) {
      HG_TRY_ASSIGN(TensorData larger,
                    TensorData::allocate(cache.dtype, cache.shape_of(batch_, grown)));
      if (i == now_ && past_ > 0)
        copy_elements(view(cache.buffers[now_].tensor.data, cache.dtype, held),
                      view(larger.tensor.data, cache.dtype, held));
      cache.buffers[i] = std::move(larger);
    }
  }
  capacity_ = grown;
  capacity_batch_ = batch_;
  return {};
}

Status PastBuffers::set(Session& session, int64_t time) {
  HG_TRY(reserve(past_ + time));
  for (const Cache& cache : caches_) {
    HG_TRY(session.set_input(cache.names.input, view(cache.buffers[now_].tensor.data, cache.dtype,
                                                     cache.shape_of(batch_, past_))));
    HG_TRY(session.set_output(cache.names.output,
                              view(cache.buffers[1 - now_].tensor.data, cache.dtype,
                                   cache.shape_of(batch_, past_ + time))));
  }
  return {};
}

void PastBuffers::ran(int64_t time) {
  now_ = 1 - now_;
  past_ += time;
}

Status PastBuffers::reorder(std::span<const size_t> from) {
  for (const Cache& cache : caches_) {
    if (cache.batch < 0) continue;  // one row
    int64_t outer = 1, row = size_of(cache.dtype);
    const Sizes shape = cache.shape_of(batch_, past_);
    for (int d = 0; d < cache.batch; ++d) outer *= shape[static_cast<size_t>(d)];
    for (size_t d = static_cast<size_t>(cache.batch) + 1; d < shape.size(); ++d) row *= shape[d];
    char* const data = static_cast<char*>(cache.buffers[now_].tensor.data);
    const std::vector<char> before(data, data + outer * batch_ * row);
    for (int64_t at = 0; at < outer; ++at)
      for (size_t i = 0; i < from.size(); ++i)
        std::copy_n(before.data() + (at * batch_ + static_cast<int64_t>(from[i])) * row, row,
                    data + (at * batch_ + static_cast<int64_t>(i)) * row);
  }
  return {};
}

}  // namespace hg
