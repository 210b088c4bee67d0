// SPDX-License-Identifier: Apache-2.0
// A file being written. The old file stays until the new one is complete.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

#include "hg/status.h"

namespace hg {

class Destination {
 public:
  // Writes to a new file next to `path`, which finish() renames. Follows a link. Writes directly to
  // anything that is not a regular file, such as a pipe or /dev/null.
  static Result<Destination> open(const std::string& path);
  Destination(Destination&& other) noexcept;
  ~Destination();  // without finish(), removes the new file

  Status write(const void* data, uint64_t bytes);
  // Returns when the file is on disk. The new file replaces the old one unless `keep` is given and
  // returns false.
  Status finish(const std::function<bool(const std::string& temporary)>& keep);

 private:
  Destination() = default;
  Status failed(int error) const;

  std::FILE* file_ = nullptr;
  std::string path_, temporary_;  // temporary_ is empty: written in place
};

}  // namespace hg
