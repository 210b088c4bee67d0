// SPDX-License-Identifier: Apache-2.0
// Internals of an executor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hg/eager.h"
#include "hg/gpu.h"
#include "hg/options.h"
#include "hg/promotion.h"
#include "lib/run/engine.h"
#include "lib/run/lru_cache.h"

namespace hg {

// What an executor keeps of a call: an engine of the one op.
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

struct ExecutorBase::Body {
  explicit Body(const ExecutorOptions& options) : options(options), cache(options.most_plans) {}

  // Appends an input to the key. Fails if the input cannot be read.
  Status describe(std::string_view op, std::span<const Operand> inputs, size_t i,
                  CacheKey& key) const;
  Result<PlannedCall*> planned(std::string_view op, std::span<const Operand> inputs,
                               std::span<const Argument> attrs);
  Result<PlannedCall> plan(std::string_view op, std::span<const Operand> inputs,
                           std::span<const Argument> attrs) const;
  static Value add_input(const Operand& input, const std::string& name, Graph& graph,
                         PlannedCall& call);
  static std::vector<Value> add_inputs(const Op& op, std::span<const Operand> inputs,
                                       std::span<const std::optional<DType>> numbers, Graph& graph,
                                       PlannedCall& call);
  static void choose_way(PlannedCall& call);
  Status execute(std::string_view op, PlannedCall& call, std::span<const Operand> inputs,
                 std::span<Array> results, bool given);
  Status read_numbers(std::string_view op, const PlannedCall& call,
                      std::span<const Operand> inputs);
  Status run_general(PlannedCall& call, std::span<const Operand> inputs, std::span<Array> results,
                     bool given);
  // On a device.
  Result<DeviceTensor> number_on_device(const ConstTensor& number);
  Status set_device_input(Engine& engine, const PlannedCall& call, std::span<const Operand> inputs,
                          size_t k);
  Status take_from_device(Engine& engine, size_t i, const PlannedCall::Output& output, bool given,
                          Array& result) const;
  Status run_on_device(PlannedCall& call, std::span<const Operand> inputs, std::span<Array> results,
                       bool given);
  // Returns the tensor of an input, in the form that the engine expects.
  ConstTensor tensor_of(std::span<const Operand> inputs, size_t i) const;
  // Returns the error for an op that is not in the registry.
  Status unknown_op(std::string_view op) const;
  // Returns "input 'weight' of linear".
  std::string input_label(std::string_view op, size_t i) const;
  Status check_out(std::string_view op, const PlannedCall::Output& output, const Array& out) const;
  bool may_write_to(const PlannedCall& call, std::span<const Operand> inputs,
                    std::span<const Array> outs, size_t i) const;

  ExecutorOptions options;
  const Registry* registry = nullptr;
  SessionOptions session;
  std::vector<std::string> notes;
  LruCache<PlannedCall> cache;
  uint64_t draws = 0;  // calls of random ops so far
  bool is_closed = false;
  struct alignas(16) Number {
    std::array<std::byte, 16> bytes;
  };
  std::vector<Number> numbers;  // of the current call, per input
  std::map<std::pair<DType, std::array<std::byte, 16>>, DeviceTensor> device_numbers;  // by value
  DType number_dtype = f32;  // of `numbers`
};

}  // namespace hg
