// SPDX-License-Identifier: Apache-2.0
// Standard input as a file that can be read several times.
#pragma once

#include <cstdio>
#include <string>

namespace hg::convert {

// Uses standard input itself if it is a file at its beginning. Otherwise copies it to an unnamed
// temporary file. Throws Failure.
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
