// SPDX-License-Identifier: Apache-2.0
#include "lib/generate/past_buffers.h"

#include <algorithm>

#include "lib/graph/ends.h"

namespace hg {

Result<PastBuffers> PastBuffers::create(const Graph& graph,
                                        const std::vector<CarriedValue>& carried) {
  PastBuffers made;
  for (const CarriedValue& names : carried) {
    const TensorType& in = graph.value_info(input_named(graph, names.input)).type;
    const TensorType& out = graph.value_info(output_named(graph, names.output)).type;
    if (!is_float(in.dtype) || in.rank() != 4 || !in.shape[1].is_constant() ||
        in.shape[2].is_constant() || !in.shape[3].is_constant())
      return unsupported("generate: the input '", names.input, "' is ", in,
                         ", expected floats [batch, heads, past, dim], where past is a symbol");
    if (out.dtype != in.dtype || out.rank() != 4)
      return unsupported("generate: the output '", names.output, "' is ", out, ", but the input '",
                         names.input, "' is ", in);
    Cache& cache = made.caches_.emplace_back();
    cache.names = names;
    cache.dtype = in.dtype;
    cache.heads = in.shape[1].constant();
    cache.dim = in.shape[3].constant();
  }
  return made;
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
    const Sizes held = {batch_, cache.heads, past_, cache.dim};
    // Reallocates one buffer at a time: the peak is the new buffers plus the old past.
    cache.buffers[1 - now_] = {};
    for (int i : {1 - now_, now_}) {
      HG_TRY_ASSIGN(TensorData larger,
                    TensorData::allocate(cache.dtype, {batch_, cache.heads, grown, cache.dim}));
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
                                                     {batch_, cache.heads, past_, cache.dim})));
    HG_TRY(session.set_output(cache.names.output,
                              view(cache.buffers[1 - now_].tensor.data, cache.dtype,
                                   {batch_, cache.heads, past_ + time, cache.dim})));
  }
  return {};
}

void PastBuffers::ran(int64_t time) {
  now_ = 1 - now_;
  past_ += time;
}

Status PastBuffers::reorder(std::span<const size_t> from) {
  for (const Cache& cache : caches_) {
    const Sizes row = {1, cache.heads, past_, cache.dim};
    const int64_t bytes = row.count() * size_of(cache.dtype);
    char* const data = static_cast<char*>(cache.buffers[now_].tensor.data);
    const std::vector<char> before(data, data + batch_ * bytes);
    for (size_t i = 0; i < from.size(); ++i)
      std::copy_n(before.data() + static_cast<int64_t>(from[i]) * bytes, bytes,
                  data + static_cast<int64_t>(i) * bytes);
  }
  return {};
}

}  // namespace hg
