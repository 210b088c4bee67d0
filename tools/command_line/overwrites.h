// SPDX-License-Identifier: Apache-2.0
// Checks the outputs of a command line: whether they would overwrite its inputs, and whether they
// can be written.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/command_line/cli.h"

namespace hg::tools {

// A path, and the option that names it. Empty paths and "-" name no file.
struct FileOption {
  std::string option, path;
};

// Whether two UTF-8 paths name one file. Follows links, and compares the places of files that do
// not exist yet. Devices and pipes are not files here: nothing written to them is lost.
bool is_same_file(const std::string& a, const std::string& b);

// Files that words of the form [NAME=]FILE may name. A '=' may also be part of a file's name.
std::vector<FileOption> files_in(std::string_view option, std::span<const std::string> words);

// Fails with a usage error if a written file is also read, or if two options write one file.
Outcome check_overwrites(std::span<const FileOption> written, std::span<const FileOption> read);

// Fails if a file cannot be written to `path`, so that long work does not end without its result.
// Leaves no file. Empty paths and "-" name no file.
Outcome check_place(const std::string& path);

}  // namespace hg::tools
