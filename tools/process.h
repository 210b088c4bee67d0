// SPDX-License-Identifier: Apache-2.0
// Facts about the process, and paths, which are UTF-8 on every system.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

namespace hg::tools {

// Makes the arguments of main UTF-8 where the system gives others, and the console show such texts.
void use_utf8(int& argc, char**& argv);
int64_t process_id();
bool is_terminal(std::FILE* stream);

std::filesystem::path path_of(const std::string& text);
std::string text_of(const std::filesystem::path& path);

}  // namespace hg::tools
