// SPDX-License-Identifier: Apache-2.0
// One execution of a node as an observer sees it, in a run that keeps libtorch's values by the
// script's value numbers. Includes libtorch.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>

#include <vector>

#include "converter/check/reference.h"

namespace hg::convert {

class RecordedRun : public NodeRun {
 public:
  // Of a node that has run. `replays` is true while a node runs again, which nobody observes; it
  // and the values must outlive this.
  RecordedRun(std::vector<c10::IValue>& values, bool& replays, const ScriptNode& of, int64_t which);

  std::vector<Argument> arguments() const final;
  Identity identity(size_t output) const final;
  std::vector<Argument> elements() const final;
  bool reads_what_it_writes() const final;
  std::optional<bool> boolean(std::string_view argument) const final;
  std::optional<std::vector<TensorData>> outputs_of(std::span<const Tensor> given) const final;
  void replace(size_t output, const Tensor& tensor) final;

 private:
  // Whether the node gives the same again and writes to nothing.
  virtual bool is_repeatable() const = 0;
  // Runs the node again, on the values that are there now. Throws where it fails.
  virtual void run_again() const = 0;

  c10::IValue& value(ScriptId id) const { return values_[id]; }
  // The node's inputs, and what its blocks take from around.
  std::vector<ScriptId> values_read() const;
  void set_given(std::span<const Tensor> given) const;
  std::vector<TensorData> listed_outputs() const;

  std::vector<c10::IValue>& values_;
  bool& replays_;
};

// As values of the graph are: a complex tensor is its parts, [..., 2].
TensorData to_parts(const at::Tensor& tensor);
// A tensor of ours in the place of one of libtorch's, which may be complex.
at::Tensor in_place_of(const at::Tensor& theirs, const Tensor& ours);

}  // namespace hg::convert
