// SPDX-License-Identifier: Apache-2.0
// One execution of a node as seen by an observer, in a run that keeps libtorch's values by the
// script's value numbers. Includes libtorch.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>

#include <vector>

#include "converter/check/reference.h"

namespace hg::convert {

class RecordedRun : public NodeRun {
 public:
  // `of` has just run. `replays` is true while a node runs again, which observers do not see.
  // `replays` and the values must outlive this object.
  RecordedRun(std::vector<c10::IValue>& values, bool& replays, const ScriptNode& of, int64_t which);

  std::vector<Argument> arguments() const final;
  Identity identity(size_t output) const final;
  double level(size_t output) const final;
  std::vector<Argument> elements() const final;
  bool reads_what_it_writes() const final;
  std::optional<bool> boolean(std::string_view argument) const final;
  std::optional<std::vector<TensorData>> outputs_of(std::span<const Tensor> given) const final;
  void replace(size_t output, const Tensor& tensor) final;

 private:
  // Whether the node is deterministic and writes to no input.
  virtual bool is_repeatable() const = 0;
  // Runs the node again with the current values. Throws if it fails.
  virtual void run_again() const = 0;

  c10::IValue& value(ScriptId id) const { return values_[id]; }
  // Returns the node's inputs, and the values that its blocks read from outside.
  std::vector<ScriptId> values_read() const;
  void set_given(std::span<const Tensor> given) const;
  std::vector<TensorData> listed_outputs() const;

  std::vector<c10::IValue>& values_;
  bool& replays_;
};

// Seeds libtorch's random numbers, and limits it to one thread: on a busy machine, its threads
// spend most of the time on waiting for each other.
void begin_libtorch_run(uint64_t seed);
// Converts to the form of graph values: a complex tensor becomes its parts, [..., 2].
TensorData to_parts(const at::Tensor& tensor);
// Converts our tensor to replace one of libtorch's, which may be complex.
at::Tensor in_place_of(const at::Tensor& theirs, const Tensor& ours);

}  // namespace hg::convert
