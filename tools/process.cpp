// SPDX-License-Identifier: Apache-2.0
#include "tools/process.h"

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
//
#include <io.h>
#include <process.h>
#include <shellapi.h>
#else
#include <unistd.h>
#endif

#include <fstream>
#include <vector>

namespace hg::tools {

#ifdef _WIN32

void use_utf8(int& argc, char**& argv) {
  SetConsoleOutputCP(CP_UTF8);
  static std::vector<std::string> texts;
  static std::vector<char*> pointers;
  int count = 0;
  wchar_t** const wide = CommandLineToArgvW(GetCommandLineW(), &count);
  if (wide == nullptr) return;
  for (int i = 0; i < count; ++i) texts.push_back(text_of(wide[i]));
  LocalFree(wide);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  argc = count;
  argv = pointers.data();
}

int64_t process_id() { return _getpid(); }
bool is_terminal(std::FILE* stream) { return _isatty(_fileno(stream)) != 0; }

#else

void use_utf8(int&, char**&) {}
int64_t process_id() { return getpid(); }
bool is_terminal(std::FILE* stream) { return isatty(fileno(stream)) != 0; }

#endif

std::filesystem::path path_of(const std::string& text) {
  return std::u8string(text.begin(), text.end());
}

std::string text_of(const std::filesystem::path& path) {
  const std::u8string text = path.u8string();
  return {text.begin(), text.end()};
}

Outcome write_text(const std::string& text, const std::string& path) {
  std::ofstream file(path_of(path), std::ios::binary);
  file << text;
  file.close();
  if (!file) return {Exit::unreadable, str_cat(path, ": cannot be written")};
  return {};
}

}  // namespace hg::tools
