// SPDX-License-Identifier: Apache-2.0
// Sized structs. A program may have been compiled with an older or newer header than this library.
#pragma once

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "hg/status.h"

namespace hg::c {

// Rejects sizes that no header has: too short for the first fields, or not aligned for a list.
template <class T>
Status check_size(size_t size, std::string_view name, size_t least = 2 * sizeof(uint32_t)) {
  HG_CHECK(size >= least && size % alignof(T) == 0, name, ".struct_size is ", uint64_t{size},
           "; set it to sizeof(", name, ")");
  return {};
}

// Implements init functions: copies as much of `defaults` as fits into the caller's struct.
template <class T>
void write_defaults(T* to, size_t size, T defaults) {
  if (to == nullptr || size < sizeof defaults.struct_size) return;
  defaults.struct_size = static_cast<uint32_t>(size);
  std::memset(static_cast<void*>(to), 0, size);
  std::memcpy(static_cast<void*>(to), &defaults, std::min(size, sizeof defaults));
}

// Returns the struct as this library knows it. Fields that an older header lacks have their
// default.
template <class T>
Result<T> read_struct(const T* given, const T& defaults, std::string_view name) {
  T all = defaults;
  if (given == nullptr) return all;
  const size_t size = given->struct_size;
  HG_TRY(check_size<T>(size, name));
  const char* bytes = reinterpret_cast<const char*>(given);
  if (size > sizeof all &&
      std::any_of(bytes + sizeof all, bytes + size, [](char byte) { return byte != 0; }))
    return unsupported(name, " has ", uint64_t{size},
                       " bytes and sets fields that this library does not have; it knows ",
                       uint64_t{sizeof all}, " bytes");
  std::memcpy(static_cast<void*>(&all), given, std::min(size, sizeof all));
  return all;
}

// Fills the fields that the caller's struct has, except struct_size.
template <class T>
Status write_struct(T* to, const T& from, std::string_view name) {
  HG_CHECK(to != nullptr, "the ", name, " to fill is null");
  const uint32_t size = to->struct_size;
  HG_TRY(check_size<T>(size, name));
  std::memcpy(static_cast<void*>(to), &from, std::min<size_t>(size, sizeof from));
  to->struct_size = size;
  return {};
}

// The k-th element of a list, whose elements have the struct_size of the first.
template <class T>
const T* element(const T* first, size_t k) {
  return reinterpret_cast<const T*>(reinterpret_cast<const char*>(first) + k * first->struct_size);
}

}  // namespace hg::c
