// SPDX-License-Identifier: Apache-2.0
// Tries alternatives of a script before committing one.
#pragma once

#include <string>
#include <vector>

#include "converter/interpret/interpreter.h"

namespace hg::convert {

// Detects whether an op was rejected since the attempt began, and can restore the state from
// before.
class Interpreter::Attempt {
 public:
  explicit Attempt(Interpreter& in)
      : in_(in),
        unsupported_(in.result_.unsupported),
        forks_(in.result_.forks.size()),
        poisoned_(in.memory_.poison_mark()),
        marks_(in.identities_.marks()) {}
  bool has_failed() const { return in_.result_.unsupported.size() > unsupported_.size(); }
  void undo() {
    (void)in_.memory_.graph().take_status().ok();
    in_.result_.unsupported = unsupported_;
    in_.result_.forks.resize(forks_);
    in_.memory_.undo_poison(poisoned_);
    in_.identities_.marks() = marks_;
  }

 private:
  Interpreter& in_;
  std::vector<Unsupported> unsupported_;
  size_t forks_;
  size_t poisoned_;
  Identities::Marks marks_;
};

// How a block ends when it is run alone, in a body that is then discarded.
struct Tried {
  enum class End { raises, fails, runs } end = End::runs;
  std::string exception;  // if it raises one
};

// During its lifetime, the condition on sizes or on data has the known result `value`, as on one
// side of an `if`.
class Interpreter::Given {
 public:
  Given(Interpreter& in, const Scalar* sizes, ScriptId data, bool value)
      : in_(in), count_(in.given_.size()), data_count_(in.given_data_.size()) {
    if (sizes != nullptr) in_.given_.emplace_back(sizes->top, value);
    if (data >= 0) in_.given_data_.emplace_back(data, value);
  }
  ~Given() {
    in_.given_.resize(count_);
    in_.given_data_.resize(data_count_);
  }
  Given(const Given&) = delete;
  Given& operator=(const Given&) = delete;

 private:
  Interpreter& in_;
  size_t count_, data_count_;
};

}  // namespace hg::convert
