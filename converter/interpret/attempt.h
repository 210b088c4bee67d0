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
        unsupported_(in.report_.result().unsupported),
        forks_(in.report_.forks().size()),
        poisoned_(in.memory_.poison_mark()),
        marks_(in.identities_.marks()) {}
  bool has_failed() const { return in_.report_.rejected() > unsupported_.size(); }
  void undo() {
    (void)in_.memory_.graph().take_status().ok();
    in_.report_.result().unsupported = unsupported_;
    in_.report_.forks().resize(forks_);
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

}  // namespace hg::convert
