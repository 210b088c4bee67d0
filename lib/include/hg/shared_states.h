// SPDX-License-Identifier: Apache-2.0
// Parameters and buffers shared by the sessions of several entries: a run of `decode` reads what
// the last run of `encode` stored in a buffer.
//
// Use sessions that share states, and the object itself, from one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hg/model.h"
#include "hg/tensor.h"

namespace hg {

class SharedStates {
 public:
  // Allocates each state that an entry of the model assigns, with the model's value. States
  // of the same name in several entries are one state. Fails with invalid_argument, naming both
  // entries, if their dtypes, shapes or values differ, or if states that are tied in one entry
  // are separate in the other.
  //
  // Pass the object to all sessions of the model in SessionOptions::states. They keep it alive.
  static Result<std::shared_ptr<SharedStates>> create(const Model& model);

  // Names of the states, including aliases.
  std::vector<std::string> names() const;
  // Returns a view of the current value. Valid while the object lives; runs change it. The host may
  // write it. Fails with not_found, listing the states.
  Result<Tensor> value(std::string_view name) const;
  // Overwrites a state. dtype and shape must match.
  Status set_value(std::string_view name, const ConstTensor& tensor);
  // Restores the model's values.
  void reset();

 private:
  friend class States;
  struct Shared {
    std::vector<std::string> names;
    TensorData first;  // the model's value
    TensorData now;
    int64_t first_written = 0;    // positions that `first` holds, if the state grows
    mutable int64_t written = 0;  // positions that `now` holds
  };
  SharedStates() = default;
  Result<const Shared*> find(std::string_view name) const;
  std::vector<Shared> all_;
};

}  // namespace hg
