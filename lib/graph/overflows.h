// SPDX-License-Identifier: Apache-2.0
// Detects overflow in size arithmetic: a shape rule that compared a wrapped result has checked
// nothing.
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
