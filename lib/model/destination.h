// SPDX-License-Identifier: Apache-2.0
// A file being written: until it is whole, what was there before stays.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

#include "hg/status.h"

namespace hg {

class Destination {
 public:
  // Writes to a new file beside `path`, which finish() renames; a link is followed. What is not a
  // regular file, such as a pipe or /dev/null, is written to as it stands.
  static Result<Destination> open(const std::string& path);
  Destination(Destination&& other) noexcept;
  ~Destination();  // without finish(), nothing of the new file stays

  Status write(const void* data, uint64_t bytes);
  // On the disk when it returns; a new file takes its place unless `keep` is given and says no.
  Status finish(const std::function<bool(const std::string& temporary)>& keep);

 private:
  Destination() = default;
  Status failed(int error) const;

  std::FILE* file_ = nullptr;
  std::string path_, temporary_;  // no temporary: written in place
};

}  // namespace hg
