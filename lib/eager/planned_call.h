// SPDX-License-Identifier: Apache-2.0
// What an executor keeps of a call: an engine of the one op.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "hg/promotion.h"
#include "lib/run/engine.h"

namespace hg {

struct PlannedCall {
  // How the results are produced.
  enum class Way : uint8_t {
    direct,   // kernels write to the memory of the call
    view,     // results are views of inputs
    general,  // like a run of a session
  };
  struct Output {
    bool is_known = false;  // dtype and shape are known; otherwise they depend on data
    DType dtype = f32;
    Sizes shape;
    std::optional<Engine::InputView> view;
    std::vector<bool> may_overwrite;  // per engine input
  };
  Way way = Way::general;
  std::unique_ptr<Engine> engine;
  std::vector<size_t> operands;  // per engine input: index of the operand
  std::vector<int64_t> extents;  // per engine input: extent if it is passed as a line; else -1
  std::vector<Output> outputs;
  DType numbers = f32;              // dtype of the numbers among the inputs
  std::vector<NumberRange> ranges;  // per operand
  bool is_random = false;
  bool is_read_in_place = true;  // no input needs a copy
  // Addresses of the current call, per input and output of the engine.
  std::vector<void*> in, out;
};

}  // namespace hg
