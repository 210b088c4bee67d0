// SPDX-License-Identifier: Apache-2.0
// A file of a test, removed at its end.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "hg/status.h"

namespace hg::test {

class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view name)
      : path_((std::filesystem::temp_directory_path() / str_cat("hg_", name, "_", getpid()))
                  .string()) {}
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    for (const auto& each : std::filesystem::directory_iterator(
             std::filesystem::temp_directory_path()))  // a killed process leaves parts
      if (each.path().string().starts_with(path_)) std::filesystem::remove(each.path());
  }
  const std::string& path() const { return path_; }
  std::string content() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void set_content(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary) << bytes;
  }

 private:
  std::string path_;
};

}  // namespace hg::test
