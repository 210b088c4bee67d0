// SPDX-License-Identifier: Apache-2.0
// Inputs for checking a conversion. The same seed gives the same inputs on every machine.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "hg/tensor.h"

namespace hg::convert {

// Fillings to try one after another: models reject some values, such as an index that is too large.
enum class Filling {
  usual,     // floats normal(0, 1); integers 0 or 1, so that they can be indices; bools 0 or 1
  zeros,     // the same floats; integers 0
  positive,  // floats from 0.1 to 1; integers 1
  definite,  // square float matrices are symmetric positive definite; others as usual
  counts,    // the same floats; integers from 0 to a limit
  lengths,   // the same floats; integers from 1 to a limit, descending
};
inline constexpr Filling kFillings[] = {Filling::usual, Filling::zeros, Filling::positive,
                                        Filling::definite};
struct Draw {
  Filling filling = Filling::usual;
  int64_t most = 1;                    // the limit
  uint64_t turn = 0;                   // selects other numbers of the same kind
  std::map<size_t, int64_t> limits{};  // by group of rules: see number_rules.h; otherwise `most`
  int64_t limit_of(size_t group) const {
    const auto found = limits.find(group);
    return found != limits.end() ? found->second : most;
  }
};
// Returns "integers from 0 to 5"; empty for the default.
std::string describe(const Draw& draw);

// Other values, for branches that default values do not reach.
struct Recipe {
  enum class Kind { normal, uniform, constant, rising, sparse, magnitudes } kind;
  double at, scale;  // at + scale * (normal(0, 1), [0, 1), 0, sorted normal, normal in a tenth of
                     // elements, normal times 10^(-3 .. 3))
};
std::span<const Recipe> recipes();  // mild ones first
std::string describe(const Recipe& recipe);

// With a range, the interval [-1, 1] of a recipe maps to the range, and larger values exceed it.
// Integers are rounded; bools are true if the value is greater than 0.
Result<TensorData> seeded_input(DType dtype, const Sizes& shape,
                                const std::optional<std::pair<double, double>>& range,
                                const Recipe& recipe, uint64_t seed);

// With a range, values are uniform in the range, both ends included. Fails with out_of_memory.
Result<TensorData> seeded_input(DType dtype, const Sizes& shape,
                                const std::optional<std::pair<double, double>>& range,
                                const Draw& draw, uint64_t seed);

}  // namespace hg::convert
