// SPDX-License-Identifier: Apache-2.0
// Elementwise special functions, computed in double for every dtype.
#include "kernels/pointwise/pointwise.h"
#include "kernels/pointwise/special_functions.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

template <double (*f)(double)>
struct Of {
  template <class T>
  T operator()(T x) const {
    return static_cast<T>(f(static_cast<double>(x)));
  }
};
template <double (*f)(double, double)>
struct OfTwo {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(f(static_cast<double>(a), static_cast<double>(b)));
  }
};
struct Polynomial {
  template <class T>
  T operator()(T x, T n, const PointwiseParams& p) const {
    return static_cast<T>(polynomial(static_cast<PolynomialKind>(p.n), static_cast<double>(x),
                                     static_cast<double>(n)));
  }
};
void polynomial_params(const PrepareContext& c, PointwiseParams& p) {
  p.n = static_cast<int64_t>(*parse_polynomial_kind(c.attrs().string("kind")));  // infer checked it
}

constexpr KernelDef kKernels[] = {
    pointwise_kernel<float_unary<Of<erfcx>>>("erfcx"),
    pointwise_kernel<float_unary<Of<bessel_i0>>>("bessel_i0"),
    pointwise_kernel<float_unary<Of<bessel_i0e>>>("bessel_i0e"),
    pointwise_kernel<float_unary<Of<bessel_i1>>>("bessel_i1"),
    pointwise_kernel<float_unary<Of<bessel_i1e>>>("bessel_i1e"),
    pointwise_kernel<float_unary<Of<bessel_k0>>>("bessel_k0"),
    pointwise_kernel<float_unary<Of<bessel_k0e>>>("bessel_k0e"),
    pointwise_kernel<float_unary<Of<bessel_k1>>>("bessel_k1"),
    pointwise_kernel<float_unary<Of<bessel_k1e>>>("bessel_k1e"),
    pointwise_kernel<float_unary<Of<bessel_j0>>>("bessel_j0"),
    pointwise_kernel<float_unary<Of<bessel_j1>>>("bessel_j1"),
    pointwise_kernel<float_unary<Of<bessel_y0>>>("bessel_y0"),
    pointwise_kernel<float_unary<Of<bessel_y1>>>("bessel_y1"),
    pointwise_kernel<float_binary<OfTwo<zeta>>>("zeta"),
    pointwise_kernel<float_binary<OfTwo<igamma>>>("igamma"),
    pointwise_kernel<float_binary<OfTwo<igammac>>>("igammac"),
    pointwise_kernel<float_binary<Polynomial, polynomial_params>>("polynomial"),
};

}  // namespace

std::span<const KernelDef> special() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
