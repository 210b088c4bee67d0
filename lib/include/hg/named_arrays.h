// SPDX-License-Identifier: Apache-2.0
// Arrays by name, in an order: what archives, named models and optimizers hand to one another.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hg/array.h"

namespace hg {

// A vector of pairs that also answers by name: {{"x", x}, {"y", y}}. Names are meant to differ; of
// equal ones the first counts. Copies share the memory of the arrays.
class NamedArrays : public std::vector<std::pair<std::string, Array>> {
 public:
  using Base = std::vector<std::pair<std::string, Array>>;
  using Base::Base;
  NamedArrays() = default;
  NamedArrays(Base arrays) : Base(std::move(arrays)) {}  // NOLINT: implicit

  // Null where there is none; valid until the next change.
  const Array* find(std::string_view name) const {
    for (const auto& [known, array] : *this)
      if (known == name) return &array;
    return nullptr;
  }
  using Base::operator[];  // by number
  // An empty array where there is none.
  Array operator[](std::string_view name) const {
    const Array* const array = find(name);
    return array != nullptr ? *array : Array();
  }
  // Instead of the array of that name, or behind all others.
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
