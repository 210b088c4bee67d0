// SPDX-License-Identifier: Apache-2.0
#include "tools/command_line/overwrites.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

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

Outcome check_place(const std::string& path) {
  if (!names_a_file(path)) return {};
  const auto refused = [&](const auto&... why) {
    return Outcome{Exit::unreadable, str_cat("cannot write '", path, "': ", why...)};
  };
  std::error_code error;
  fs::path file = std::u8string(path.begin(), path.end());
  if (fs::exists(file, error)) file = fs::canonical(file, error);
  if (fs::is_directory(file, error)) return refused("it is a directory");
  if (fs::exists(file, error) && !fs::is_regular_file(file, error)) return {};  // a pipe or device
  const fs::path folder = file.parent_path();
  if (!folder.empty() && !fs::is_directory(folder, error)) {
    const std::u8string name = folder.u8string();
    return refused("there is no directory '", std::string(name.begin(), name.end()), "'");
  }
  // The file will be written next to its place, and renamed.
  const fs::path probe = file.native() + fs::path(".probe").native();
  if (fs::exists(probe, error)) return {};
  errno = 0;
  if (!std::ofstream(probe)) return refused(std::strerror(errno));
  fs::remove(probe, error);
  return {};
}

}  // namespace hg::tools
