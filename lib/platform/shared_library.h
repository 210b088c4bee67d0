// SPDX-License-Identifier: Apache-2.0
// Shared libraries that are opened at run time. Their names stay apart from those of the program.
#pragma once

#include <string>

namespace hg {

// Null when there is none that can be opened; shared_library_error() then says why. `file` is a
// path in UTF-8, or a name that the system looks for.
void* open_shared_library(const char* file);
// The same; calls that it makes of itself never reach functions of these names in the program,
// where it has `name` of its own.
void* open_shared_library_beside(const char* file, const char* name);
void* find_function(void* library, const char* name);  // null when it has none
void close_shared_library(void* library);
std::string shared_library_error();  // of this thread's last call

}  // namespace hg
