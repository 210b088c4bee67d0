// SPDX-License-Identifier: Apache-2.0
// Builders for lib/ops/special.cpp. Floats only.
#pragma once

#include <cstdint>
#include <string_view>

#include "hg/graph.h"

namespace hg {

enum class PolynomialKind : uint8_t {
  chebyshev_t,
  chebyshev_u,
  chebyshev_v,
  chebyshev_w,
  shifted_chebyshev_t,
  shifted_chebyshev_u,
  shifted_chebyshev_v,
  shifted_chebyshev_w,
  hermite_h,
  hermite_he,
  laguerre_l,
  legendre_p,
};
std::string_view to_string(PolynomialKind word);
Result<PolynomialKind> parse_polynomial_kind(std::string_view name);

// sum over k >= 0 of (k + q)^-s
inline Value zeta(const Value& s, const Value& q) { return s.graph()->call("zeta", {s, q}); }
// n-th derivative of digamma
inline Value polygamma(const Value& x, Dim n) {
  return x.graph()->call("polygamma", {x}, {{"n", n}});
}
inline Value erfcx(const Value& x) { return x.graph()->call("erfcx", {x}); }  // e^(x^2) erfc(x)
// Bessel functions of orders 0 and 1. i, k: modified, first and second kind; a trailing e scales
// them by e^-|x| and e^x. j, y: first and second kind.
inline Value bessel_i0(const Value& x) { return x.graph()->call("bessel_i0", {x}); }
inline Value bessel_i0e(const Value& x) { return x.graph()->call("bessel_i0e", {x}); }
inline Value bessel_i1(const Value& x) { return x.graph()->call("bessel_i1", {x}); }
inline Value bessel_i1e(const Value& x) { return x.graph()->call("bessel_i1e", {x}); }
inline Value bessel_k0(const Value& x) { return x.graph()->call("bessel_k0", {x}); }
inline Value bessel_k0e(const Value& x) { return x.graph()->call("bessel_k0e", {x}); }
inline Value bessel_k1(const Value& x) { return x.graph()->call("bessel_k1", {x}); }
inline Value bessel_k1e(const Value& x) { return x.graph()->call("bessel_k1e", {x}); }
inline Value bessel_j0(const Value& x) { return x.graph()->call("bessel_j0", {x}); }
inline Value bessel_j1(const Value& x) { return x.graph()->call("bessel_j1", {x}); }
inline Value bessel_y0(const Value& x) { return x.graph()->call("bessel_y0", {x}); }
inline Value bessel_y1(const Value& x) { return x.graph()->call("bessel_y1", {x}); }
// The polynomial of degree n at x. Both broadcast.
inline Value polynomial(const Value& x, const Value& n, PolynomialKind kind) {
  return x.graph()->call("polynomial", {x, n}, {{"kind", kind}});
}
// Regularized incomplete gamma functions, lower and upper.
inline Value igamma(const Value& a, const Value& x) { return a.graph()->call("igamma", {a, x}); }
inline Value igammac(const Value& a, const Value& x) { return a.graph()->call("igammac", {a, x}); }

}  // namespace hg
