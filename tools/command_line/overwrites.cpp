// SPDX-License-Identifier: Apache-2.0
#include "tools/command_line/overwrites.h"

#include <filesystem>

namespace hg::tools {
namespace {

namespace fs = std::filesystem;

bool names_a_file(const std::string& path) { return !path.empty() && path != "-"; }

Outcome overwrites(const FileOption& written, const FileOption& other) {
  return usage(written.option, " '", written.path, "' would replace '", other.path, "', which ",
               other.option, " names; give another path");
}

}  // namespace

bool is_same_file(const std::string& a, const std::string& b) {
  if (!names_a_file(a) || !names_a_file(b)) return false;
  const fs::path first = std::u8string(a.begin(), a.end());
  const fs::path second = std::u8string(b.begin(), b.end());
  std::error_code error;
  const bool first_exists = fs::exists(first, error), second_exists = fs::exists(second, error);
  if (first_exists != second_exists) return false;
  if (first_exists)
    return fs::is_regular_file(first, error) && fs::equivalent(first, second, error) && !error;
  if (a == b) return true;
  const fs::path at = fs::weakly_canonical(fs::absolute(first, error), error);
  return !error && at == fs::weakly_canonical(fs::absolute(second, error), error) && !error;
}

std::vector<FileOption> files_in(std::string_view option, std::span<const std::string> words) {
  std::vector<FileOption> files;
  for (const std::string& word : words) {
    files.push_back({std::string(option), word});
    if (const size_t equals = word.find('='); equals != std::string::npos)
      files.push_back({std::string(option), word.substr(equals + 1)});
  }
  return files;
}

Outcome check_overwrites(std::span<const FileOption> written, std::span<const FileOption> read) {
  for (size_t i = 0; i < written.size(); ++i) {
    for (const FileOption& each : read)
      if (is_same_file(written[i].path, each.path)) return overwrites(written[i], each);
    for (const FileOption& each : written.first(i))
      if (is_same_file(written[i].path, each.path)) return overwrites(written[i], each);
  }
  return {};
}

}  // namespace hg::tools
