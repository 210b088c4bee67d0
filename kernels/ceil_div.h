// SPDX-License-Identifier: Apache-2.0
// Integer division that rounds up.
#pragma once

#include <cstdint>

namespace hg::kernels {

// a / b rounded up, for b > 0.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }

}  // namespace hg::kernels
