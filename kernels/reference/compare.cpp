// SPDX-License-Identifier: Apache-2.0
// Comparisons and logic.
#include "kernels/reference/pointwise.h"

namespace hg::reference::rows {
namespace {

constexpr Row kRows[] = {
    {"eq", binary_loop<[](double a, double b) { return double(a == b); }>},
    {"ne", binary_loop<[](double a, double b) { return double(a != b); }>},
    {"lt", binary_loop<[](double a, double b) { return double(a < b); }>},
    {"le", binary_loop<[](double a, double b) { return double(a <= b); }>},
    {"gt", binary_loop<[](double a, double b) { return double(a > b); }>},
    {"ge", binary_loop<[](double a, double b) { return double(a >= b); }>},
    {"logical_and", binary_loop<[](double a, double b) { return double(a != 0 && b != 0); }>},
    {"logical_or", binary_loop<[](double a, double b) { return double(a != 0 || b != 0); }>},
    {"logical_xor", binary_loop<[](double a, double b) { return double((a != 0) != (b != 0)); }>},
};

}  // namespace

std::span<const Row> compare() { return kRows; }

}  // namespace hg::reference::rows
