// SPDX-License-Identifier: Apache-2.0
// Detects overflow in size arithmetic: a shape rule that compared a wrapped result has checked
// nothing. As in <cfenv>, the flag belongs to the thread: operators of Dim have no parameter for
// it, and a flag in each Dim would get lost where a rule compares sizes or reads constant().
#pragma once

namespace hg {

// Records overflows on this thread during its lifetime. Nestable: the innermost object records.
class Overflows {
 public:
  Overflows();
  ~Overflows();
  Overflows(const Overflows&) = delete;
  Overflows& operator=(const Overflows&) = delete;

  bool any() const;

 private:
  const bool outer_;
};

}  // namespace hg
