// SPDX-License-Identifier: Apache-2.0
// Products of small matrices: SMMLA and BFMMLA of the Arm Architecture Reference Manual, for the
// tables of HG_SIMD_NEON_I8MM and HG_SIMD_NEON_BF16. A product adds to a square of sums, those of
// two rows of `a` and two columns of `b`: [row 0 column 0, row 0 column 1, row 1 column 0, row 1
// column 1]. A row or column has 8 bytes or 4 bf16. Included once for every instruction set.
#if defined(HG_KERNELS_MMLA_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_MMLA_INL_H_
#undef HG_KERNELS_MMLA_INL_H_
#else
#define HG_KERNELS_MMLA_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/simd/arm_instruction.h"

#undef HG_HAS_SQUARES  // where the instructions belong to sets of Isa
#if HWY_ARCH_ARM_A64 && !defined(HG_SMALL)
#define HG_HAS_SQUARES 1

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

// i8 in i32.
template <class V32>
HWY_INLINE V32 add_byte_square(V32 sum, V32 a, V32 b) {
  asm(HG_ARM_INSTRUCTION_3("0x4e80a400") : "+w"(sum.raw) : "w"(a.raw), "w"(b.raw));
  return sum;
}

// bf16 in f32. Rounds to odd, and reads numbers below 2^-126 as 0, unless the host sets FPCR.EBF.
template <class VF>
HWY_INLINE VF add_bf16_square(VF sum, VF a, VF b) {
  asm(HG_ARM_INSTRUCTION_3("0x6e40ec00") : "+w"(sum.raw) : "w"(a.raw), "w"(b.raw));
  return sum;
}

// Rows of sums from squares: vector v of row i, where square[i / 2] has the columns in order.
template <int kSquares, int kPairs, class V>
HWY_INLINE V row_of_squares(const V (&square)[kPairs][kSquares], int i, int v) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::DFromV<V> d;
  const V low = square[i / 2][2 * v], high = square[i / 2][2 * v + 1];
  return i % 2 == 0 ? hn::ConcatLowerLower(d, high, low) : hn::ConcatUpperUpper(d, high, low);
}

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
#endif
