// SPDX-License-Identifier: Apache-2.0
// The exception border of the C++ API. Public functions that allocate and return a Status or Result
// run their body in or_no_memory(). The library is built with exceptions, so std::bad_alloc from
// operator new unwinds the call. Other exceptions, which only a host's callbacks throw, propagate.
#pragma once

#include <new>
#include <stdexcept>
#include <type_traits>

#include "hg/status.h"

namespace hg {

// Returns the Status or Result of `call`, or no_memory() if memory is exhausted or an allocation
// exceeds the possible size. Functions that only call a function with or_no_memory() do not need
// it.
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

// For destructors, which must not throw: runs `call` and ignores exceptions.
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
