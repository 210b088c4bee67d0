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
  // The values must exist. Fails unless an input is floats in which one symbol, the past, is larger
  // in its output, and at most one more is a symbol, the batch.
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
    Sizes shape = {};            // for a batch of 1 and a past of 1
    int grows = -1, batch = -1;  // dims of the past and of the batch; -1: none
    TensorData buffers[2] = {};  // with room for the capacity

    Sizes shape_of(int64_t batch, int64_t positions) const;
  };
  Status reserve(int64_t positions);

  std::vector<Cache> caches_;
  int64_t batch_ = 0, past_ = 0;
  int64_t capacity_ = 0, capacity_batch_ = 0;
  int now_ = 0;  // index of the buffers that hold the past
};

}  // namespace hg
