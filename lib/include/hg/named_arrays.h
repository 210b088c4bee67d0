// SPDX-License-Identifier: Apache-2.0
// An ordered list of named arrays, used by archives, named models and optimizers.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hg/array.h"

namespace hg {

// A vector of pairs with lookup by name: {{"x", x}, {"y", y}}. Names should be unique; lookup finds
// the first. Copies share the memory of the arrays.
class NamedArrays : public std::vector<std::pair<std::string, Array>> {
 public:
  using Base = std::vector<std::pair<std::string, Array>>;
  using Base::Base;
  NamedArrays() = default;
  NamedArrays(Base arrays) : Base(std::move(arrays)) {}  // NOLINT: implicit

  // Returns the array with this name, or null. Valid until the list changes.
  const Array* find(std::string_view name) const {
    for (const auto& [known, array] : *this)
      if (known == name) return &array;
    return nullptr;
  }
  using Base::operator[];  // by index
  // Returns the array with this name, or an empty array.
  Array operator[](std::string_view name) const {
    const Array* const array = find(name);
    return array != nullptr ? *array : Array();
  }
  // Replaces the array with this name, or appends it.
  void set(std::string_view name, Array array) {
    for (auto& [known, old] : *this)
      if (known == name) {
        old = std::move(array);
        return;
      }
    emplace_back(std::string(name), std::move(array));
  }
};

}  // namespace hg
