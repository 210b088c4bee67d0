// SPDX-License-Identifier: Apache-2.0
// The border of the C++ API: what a public function does that can take memory, and has a Status to
// say so, stands inside. Behind it the library is built with exceptions, so that what operator new
// throws ends what was begun; other exceptions, which only a host's callbacks throw, pass.
#pragma once

#include <new>
#include <stdexcept>
#include <type_traits>

#include "hg/status.h"

namespace hg {

// Around what takes memory itself: a function that only calls one that stands inside needs none.
// What `call` returns, a Status or a Result; no_memory() where memory ran out, or where more was
// asked for than there can be.
template <class Call>
std::invoke_result_t<Call> or_no_memory(Call&& call) {
#if defined(__cpp_exceptions)
  try {
    return call();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  return Status::no_memory();
#else
  return call();
#endif
}

// Of destructors, which throw nothing: `call` as far as memory goes.
template <class Call>
void as_memory_allows(Call&& call) noexcept {
#if defined(__cpp_exceptions)
  try {
    call();
  } catch (...) {
  }
#else
  call();
#endif
}

}  // namespace hg
