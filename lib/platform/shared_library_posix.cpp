// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include "lib/platform/shared_library.h"

namespace hg {

#ifdef __EMSCRIPTEN__
// Its dlopen() aborts the program unless the program was linked for it.
void* open_shared_library(const char*) { return nullptr; }
void* open_shared_library_beside(const char*, const char*) { return nullptr; }
std::string shared_library_error() { return "WebAssembly loads no libraries"; }
#else
void* open_shared_library(const char* file) { return dlopen(file, RTLD_NOW | RTLD_LOCAL); }

void* open_shared_library_beside(const char* file, const char* name) {
  int mode = RTLD_NOW | RTLD_LOCAL;
#if defined(RTLD_DEEPBIND) && !defined(__SANITIZE_ADDRESS__)
  if (dlsym(RTLD_DEFAULT, name) != nullptr) mode |= RTLD_DEEPBIND;
#else
  (void)name;
#endif
  return dlopen(file, mode);
}

std::string shared_library_error() {
  const char* const why = dlerror();
  return why != nullptr ? why : "";
}
#endif

void* find_function(void* library, const char* name) { return dlsym(library, name); }

void close_shared_library(void* library) { dlclose(library); }

}  // namespace hg
