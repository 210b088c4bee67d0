// SPDX-License-Identifier: Apache-2.0
// Comparisons and logic.
#include "kernels/reference/pointwise.h"

namespace hg::reference::rows {
namespace {

constexpr Row kRows[] = {
    {"eq", binary<[](double a, double b) { return double(a == b); }>},
    {"ne", binary<[](double a, double b) { return double(a != b); }>},
    {"lt", binary<[](double a, double b) { return double(a < b); }>},
    {"le", binary<[](double a, double b) { return double(a <= b); }>},
    {"gt", binary<[](double a, double b) { return double(a > b); }>},
    {"ge", binary<[](double a, double b) { return double(a >= b); }>},
    {"logical_and", binary<[](double a, double b) { return double(a != 0 && b != 0); }>},
    {"logical_or", binary<[](double a, double b) { return double(a != 0 || b != 0); }>},
    {"logical_xor", binary<[](double a, double b) { return double((a != 0) != (b != 0)); }>},
};

}  // namespace

std::span<const Row> compare() { return kRows; }

}  // namespace hg::reference::rows
