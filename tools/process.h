// SPDX-License-Identifier: Apache-2.0
// Information about the process, and paths, which are UTF-8 on every system.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

#include "tools/command_line/cli.h"

namespace hg::tools {

// Converts the arguments of main to UTF-8 on systems that use another encoding, and sets the
// console to UTF-8.
void use_utf8(int& argc, char**& argv);
int64_t process_id();
bool is_terminal(std::FILE* stream);

std::filesystem::path path_of(const std::string& text);
std::string text_of(const std::filesystem::path& path);

// Replaces the file.
Outcome write_text(const std::string& text, const std::string& path);

}  // namespace hg::tools
