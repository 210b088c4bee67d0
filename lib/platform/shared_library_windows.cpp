// SPDX-License-Identifier: Apache-2.0
#include "lib/platform/shared_library.h"

#define WIN32_LEAN_AND_MEAN
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>

namespace hg {

void* open_shared_library(const char* file) {
  const int length = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, file, -1, nullptr, 0);
  if (length <= 0) return nullptr;
  std::wstring name(static_cast<size_t>(length), L'\0');
  MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, file, -1, name.data(), length);
  for (wchar_t& c : name)
    if (c == L'/') c = L'\\';  // the system does not search folders for paths with '/'
  return LoadLibraryW(name.c_str());
}

// On this system each library has its own namespace.
void* open_shared_library_beside(const char* file, const char*) {
  return open_shared_library(file);
}

void* find_function(void* library, const char* name) {
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(library), name));
}

void close_shared_library(void* library) { FreeLibrary(static_cast<HMODULE>(library)); }

std::string shared_library_error() {
  const DWORD error = GetLastError();
  switch (error) {
    case ERROR_MOD_NOT_FOUND:
      return "it, or a library that it needs, is not found";
    case ERROR_BAD_EXE_FORMAT:
      return "it is not a library for this kind of machine";
    default:
      return "error " + std::to_string(error) + " of Windows";
  }
}

}  // namespace hg
