// SPDX-License-Identifier: Apache-2.0
// Runs libtorch's program node by node, for reference.cpp. Includes libtorch.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "converter/check/reference.h"
#include "converter/load/torchscript/torch_module.h"

namespace hg::convert {

class NodeRunner {
 public:
  struct Stop {};  // thrown when the observer ends the run

  // All loops together run at most `most_rounds` iterations; 0: no limit.
  NodeRunner(const TorchModule& torch, uint64_t seed, const Observer& observer,
             int64_t most_rounds);
  void set(const torch::jit::Value* value, c10::IValue to) { values_[id(value)] = std::move(to); }
  const c10::IValue& get(const torch::jit::Value* value) const { return values_[id(value)]; }
  void run(const torch::jit::Block& block, const ScriptBlock& script);

 private:
  class Run;
  size_t id(const torch::jit::Value* value) const {
    return static_cast<size_t>(torch_.ids.at(value));
  }
  void run(torch::jit::Node& node, const ScriptNode& script);
  void branch(const torch::jit::Node& node, const ScriptNode& script, size_t index);
  void loop(const torch::jit::Node& node, const ScriptNode& script);
  void execute(torch::jit::Node& node, const ScriptNode& script);

  const TorchModule& torch_;
  uint64_t seed_;
  const Observer& observer_;
  int64_t rounds_left_;
  bool replays_ = false;  // a node runs again with other inputs, which is not part of the run
  std::vector<c10::IValue> values_;
  std::map<const ScriptNode*, int64_t> occurrences_;
};

bool leaves_memory(std::string_view kind);
// Fills memory that such an op leaves uninitialized with a pattern that depends on the seed.
void fill_memory(const at::Tensor& tensor, uint64_t seed);
bool is_bag(std::string_view kind);
// Throws if libtorch would read memory out of bounds instead of rejecting the arguments; changes
// arguments that it would write out of bounds for to equivalent ones.
void keep_in_bounds(std::string_view kind, torch::jit::Stack& arguments);
// Extracts the reason from libtorch's error.
std::string one_line(std::string_view what);

}  // namespace hg::convert
