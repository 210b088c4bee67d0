// SPDX-License-Identifier: Apache-2.0
// Keeps a decoder's past outside its session, for models that make_stateful() does not support.
// Each run reads the past from one buffer and writes the present to a second one. Then the buffers
// are swapped.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hg/session.h"
#include "hg/stateful.h"

namespace hg {

class PastBuffers {
 public:
  // The values must exist. Fails if an input is not floats [batch, heads, past, dim], or if the
  // dtypes of an input and its output differ.
  static Result<PastBuffers> create(const Graph& graph, const std::vector<CarriedValue>& carried);

  void start(int64_t batch);
  // Sets the carried inputs and outputs of a run that adds `time` positions.
  Status set(Session& session, int64_t time);
  void ran(int64_t time);
  // Row i gets the past of row from[i].
  Status reorder(std::span<const size_t> from);

 private:
  struct Cache {
    CarriedValue names;
    DType dtype = f32;
    int64_t heads = 0, dim = 0;
    TensorData buffers[2] = {};  // batch * heads * capacity * dim elements
  };
  Status reserve(int64_t positions);

  std::vector<Cache> caches_;
  int64_t batch_ = 0, past_ = 0;
  int64_t capacity_ = 0, capacity_batch_ = 0;
  int now_ = 0;  // index of the buffers that hold the past
};

}  // namespace hg
