// SPDX-License-Identifier: Apache-2.0
// Whether arithmetic of sizes wrapped around: a shape rule that compared what came of it has proven
// nothing.
#pragma once

namespace hg {

// Notes, while it lives, what wraps around on its thread. They may be nested: the innermost notes.
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
