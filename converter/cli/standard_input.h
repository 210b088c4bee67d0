// SPDX-License-Identifier: Apache-2.0
// Standard input as a file that can be read more than once.
#pragma once

#include <cstdio>
#include <string>

namespace hg::convert {

// A file that is read from its beginning is itself; the rest is copied to a temporary file without
// a name. Throws Failure.
class StandardInput {
 public:
  StandardInput();
  ~StandardInput();
  StandardInput(const StandardInput&) = delete;
  StandardInput& operator=(const StandardInput&) = delete;
  int descriptor() const;
  std::string path() const { return "/dev/fd/" + std::to_string(descriptor()); }

 private:
  std::FILE* copy_ = nullptr;
};

}  // namespace hg::convert
