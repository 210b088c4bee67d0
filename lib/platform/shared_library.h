// SPDX-License-Identifier: Apache-2.0
// Shared libraries opened at run time. Their symbols stay separate from those of the program.
#pragma once

#include <string>

namespace hg {

// Returns null if the library cannot be opened; shared_library_error() then says why. `file` is a
// path in UTF-8, or a name that the system looks up.
void* open_shared_library(const char* file);
// The same. If the library defines `name`, its own calls never resolve to functions of the program
// with the same names.
void* open_shared_library_beside(const char* file, const char* name);
void* find_function(void* library, const char* name);  // null if it has none
void close_shared_library(void* library);
std::string shared_library_error();  // of this thread's last failed call

}  // namespace hg
