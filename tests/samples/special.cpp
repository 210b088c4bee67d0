// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/special.cpp.
#include "tests/ops/samples.h"

namespace hg::test::samples {

std::vector<Sample> special() {
  std::vector<Sample> s;
  for (std::string_view op : {"erfcx", "bessel_i0", "bessel_i0e", "bessel_i1", "bessel_i1e"})
    for (const Sizes& shape : {Sizes{}, Sizes{3, 17}, Sizes{0, 2}})
      s.push_back({op, {{f32, shape, -3, 3}}, {}, 1e-5});
  for (std::string_view op : {"bessel_k0", "bessel_k0e", "bessel_k1", "bessel_k1e", "bessel_j0",
                              "bessel_j1", "bessel_y0", "bessel_y1"})
    for (const Sizes& shape : {Sizes{}, Sizes{3, 17}, Sizes{0, 2}})
      s.push_back({op, {{f32, shape, 0.3, 5}}, {}, 1e-5});
  for (std::string_view op : {"zeta", "igamma", "igammac"}) {
    const double low = op == "zeta" ? 1.5 : 0.2;
    s.push_back({op, {{f32, {3, 17}, low, 5}, {f32, {17}, 0.3, 6}}, {}, 2e-5});
    s.push_back({op, {{f32, {}, low, 5}, {f32, {}, 0.3, 6}}, {}, 2e-5});
    // Only the second argument has a gradient.
    SampleInput first{f32, {3, 1}, low, 5};
    first.constant = true;
    s.push_back({op, {first, {f32, {3, 7}, 0.3, 6}}, {}, 2e-5});
  }
  for (int n : {0, 1, 2, 5}) s.push_back({"polygamma", {{f32, {2, 13}, 0.8, 6}}, {{"n", n}}, 1e-4});
  for (const char* kind :
       {"chebyshev_t", "chebyshev_u", "chebyshev_v", "chebyshev_w", "shifted_chebyshev_t",
        "shifted_chebyshev_u", "shifted_chebyshev_v", "shifted_chebyshev_w", "hermite_h",
        "hermite_he", "laguerre_l", "legendre_p"})
    s.push_back({"polynomial",
                 {{f32, {7, 1}, 0.1, 0.9}, {f32, {9}, 0, 0, {-1, -0.5, 0, 1, 2, 3.5, 5, 6, 7}}},
                 {{"kind", kind}},
                 1e-4});
  return s;
}

}  // namespace hg::test::samples
