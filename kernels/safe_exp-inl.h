// SPDX-License-Identifier: Apache-2.0
// Highway's exp with NaN kept: its own turns NaN into 0. Included once for each instruction set.
#include "hwy/contrib/math/math-inl.h"

#if defined(HG_KERNELS_SAFE_EXP_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_SAFE_EXP_INL
#undef HG_KERNELS_SAFE_EXP_INL
#else
#define HG_KERNELS_SAFE_EXP_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V safe_exp(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, x));
}

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
