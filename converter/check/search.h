// SPDX-License-Identifier: Apache-2.0
// Inputs that may reach branches that default inputs do not reach: values of other signs, scales
// and orders, and other sizes. The same seed gives the same inputs on every machine.
#pragma once

#include <cstdint>
#include <string>

#include "converter/check/check_inputs.h"

namespace hg::convert {

// Attempts are numbered from 0: first one recipe for all inputs, then random mixtures of recipes,
// also at other sizes.
class Search {
 public:
  // `base` are sizes that libtorch accepts. Symbols with sizes in the job keep these.
  Search(std::span<const InputSpec> specs, const Binding& base, const Job& job);

  // Bindings to try if sizes decide branches, small ones first.
  const std::vector<Binding>& sizes() const { return sizes_; }
  Binding sizes_of(int number) const;

  struct Attempt {
    Inputs inputs;
    std::string values;  // "all values 100"
  };
  // Returns default values for a negative number. Fills integers by `integers` unless it is null.
  // Throws Failure if inputs cannot have the sizes.
  Attempt attempt(const Binding& sizes, int number, const Draw* integers = nullptr) const;

 private:
  std::span<const InputSpec> specs_;
  Binding base_;
  const Job& job_;
  std::vector<Binding> sizes_;
};

}  // namespace hg::convert
