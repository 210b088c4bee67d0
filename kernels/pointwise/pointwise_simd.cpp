// SPDX-License-Identifier: Apache-2.0
// The most frequent elementwise ops in f32, for each instruction set. A partial last vector is
// computed like a full one, so results do not depend on where a range begins.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pointwise/pointwise_simd.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/pointwise/activation-inl.h"
#include "kernels/pointwise/cast-inl.h"
#include "kernels/pointwise/look_up-inl.h"
#include "kernels/pointwise/pointwise_simd.h"
#include "kernels/pointwise/quantized-inl.h"
#include "kernels/pointwise/vectors-inl.h"
#include "kernels/saves_code.h"
#include "kernels/simd/bytes-inl.h"
#include "kernels/simd/quotient-inl.h"
#include "kernels/simd/rows-inl.h"
// clang-format on
#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

struct Exp {
  HWY_INLINE V operator()(V x) const {
    const V y = exp_of(x);
    const auto is_tiny = hn::Lt(x, number_like(x, -87.0f));  // denormal: exp_of returns 0
    if (HWY_LIKELY(hn::AllFalse(hn::DFromV<V>(), is_tiny))) return y;
    const V root = exp_of(hn::Mul(x, number_like(x, 0.5f)));
    return hn::IfThenElse(is_tiny, hn::Mul(root, root), y);
  }
};
struct Erf {
  HWY_INLINE V operator()(V x) const { return erf_of(x); }
};
// The following ops have attributes, which F(params) broadcasts to vectors.
struct LeakyRelu {
  explicit LeakyRelu(const PointwiseParams& p) : slope(spread(p.a)) {}
  HWY_INLINE V operator()(V x) const {
    return hn::IfThenElse(hn::Gt(x, hn::Zero(D())), x, hn::Mul(x, slope));
  }
  V slope;
};
struct Elu {
  explicit Elu(const PointwiseParams& p)
      : high(spread(p.b)), low(spread(p.a * p.b)), input(spread(p.c)) {}
  HWY_INLINE V operator()(V x) const {
    return hn::IfThenElse(hn::Gt(x, hn::Zero(D())), hn::Mul(x, high),
                          hn::Mul(expm1_of(hn::Mul(x, input)), low));
  }
  V high, low, input;
};
// tanh(log(1 + e)) = e (e + 2) / (e (e + 2) + 2), e = e^x; 1 from 20 on
struct Mish {
  HWY_INLINE V operator()(V x) const {
    const V limit = spread(20), two = spread(2);
    const V e = exp_of(hn::IfThenElse(hn::Gt(x, limit), limit, x));
    const V n = hn::Mul(e, hn::Add(e, two));
    return hn::Mul(x, quotient_of(n, hn::Add(n, two)));
  }
};
// log(1 + e^-|x|), the term other than max(x, 0)
HWY_INLINE V softplus_rest(V x) { return log1p_of(exp_of(hn::Neg(hn::Abs(x)))); }
struct Softplus {
  explicit Softplus(const PointwiseParams& p) : beta(spread(p.a)), threshold(spread(p.b)) {}
  HWY_INLINE V operator()(V x) const {
    const V scaled = hn::Mul(x, beta);
    const V y = quotient_of(hn::Add(relu_of(scaled), softplus_rest(scaled)), beta);
    return hn::IfThenElse(hn::Gt(scaled, threshold), x, y);
  }
  V beta, threshold;
};
struct LogSigmoid {
  HWY_INLINE V operator()(V x) const {
    const V zero = hn::Zero(D());
    return hn::Sub(hn::IfThenElse(hn::Gt(x, zero), zero, x), softplus_rest(x));
  }
};
struct Expm1 {
  HWY_INLINE V operator()(V x) const { return expm1_of(x); }
};
struct Log {
  HWY_INLINE V operator()(V x) const { return log_of(x); }
};
// 2^n (1 + r q(r)) for x = n + r, within one unit in the last place. The power is the product of
// two, as results below 2^-126 need. q was interpolated at Chebyshev nodes: relative error 2e-8.
struct Exp2 {
  HWY_INLINE V operator()(V x) const {
    constexpr float kTerms[] = {0.0013390863364671234f, 0.009618082557277852f, 0.05550357114219078f,
                                0.24022650760568126f, 0.6931471880262288f};
    const DI di;
    x = clamp_of(x, -151, 129);
    const auto n = hn::NearestInt(x);
    const V r = hn::Sub(x, hn::ConvertTo(D(), n));
    V q = spread(0.0001545316294512069);
    for (const float term : kTerms) q = hn::MulAdd(q, r, spread(term));
    const auto half = hn::ShiftRight<1>(n), bias = hn::Set(di, 127);
    const auto power = [&](auto exponent) HWY_ATTR {
      return hn::BitCast(D(), hn::ShiftLeft<23>(hn::Add(exponent, bias)));
    };
    const V y = hn::MulAdd(q, r, spread(1));
    return hn::Mul(hn::Mul(y, power(half)), power(hn::Sub(n, half)));
  }
};
// base + atan z: base is pi / 2 and z = -1 / |x| beyond 2, pi / 4 and (|x| - 1) / (|x| + 1) beyond
// 0.6, 0 and |x| below. atan z = z + z^3 p(z^2); p was interpolated at Chebyshev nodes: relative
// error 7e-9.
struct Atan {
  HWY_INLINE V operator()(V x) const {
    constexpr float kTerms[] = {0.06023514915791215f, -0.08722637084627578f, 0.11067342713219623f,
                                -0.1428317334585671f, 0.1999994376614734f,   -0.33333333127429193f};
    const V size = hn::Abs(x), one = spread(1), none = spread(0);
    const auto is_far = hn::Gt(size, spread(2)), is_beyond = hn::Gt(size, spread(0.6));
    const auto chosen = [&](V far, V middle, V near) HWY_ATTR {
      return hn::IfThenElse(is_far, far, hn::IfThenElse(is_beyond, middle, near));
    };
    const V z = quotient_of(chosen(spread(-1), hn::Sub(size, one), size),
                            chosen(size, hn::Add(size, one), one));
    const V square = hn::Mul(z, z);
    V p = spread(-0.024739420857930853);
    for (const float term : kTerms) p = hn::MulAdd(p, square, spread(term));
    const V near = hn::MulAdd(hn::Mul(z, square), p, z);
    const V rest = chosen(spread(-4.371139000186241e-8), spread(-2.1855695000931205e-8), none);
    const V base = chosen(spread(1.57079632679489661923), spread(0.78539816339744830962), none);
    return hn::CopySign(hn::Add(base, hn::Add(near, rest)), x);
  }
};
struct Sqrt {
  HWY_INLINE V operator()(V x) const { return root_of(x); }
};
struct Rsqrt {
  HWY_INLINE V operator()(V x) const { return quotient_of(spread(1), root_of(x)); }
};
struct Reciprocal {
  HWY_INLINE V operator()(V x) const { return quotient_of(spread(1), x); }
};
struct Neg {
  HWY_INLINE V operator()(V x) const { return hn::Neg(x); }
};
struct Abs {
  HWY_INLINE V operator()(V x) const { return hn::Abs(x); }
};
struct Floor {
  HWY_INLINE V operator()(V x) const { return hn::Floor(x); }
};
struct Ceil {
  HWY_INLINE V operator()(V x) const { return hn::Ceil(x); }
};
struct Trunc {
  HWY_INLINE V operator()(V x) const { return hn::Trunc(x); }
};
struct Round {  // to even at ties
  HWY_INLINE V operator()(V x) const { return hn::Round(x); }
};
struct NanToNum {
  explicit NanToNum(const PointwiseParams& p)
      : nan(spread(p.a)), high(spread(p.b)), low(spread(p.c)) {}
  HWY_INLINE V operator()(V x) const {
    const V infinity = hn::Inf(D());
    const V above = hn::IfThenElse(hn::Eq(x, hn::Neg(infinity)), low, x);
    return hn::IfThenElse(hn::IsNaN(x), nan, hn::IfThenElse(hn::Eq(x, infinity), high, above));
  }
  V nan, high, low;
};
struct Maximum {  // NaN if one is NaN
  HWY_INLINE V operator()(V a, V b) const {
    return hn::IfThenElse(hn::IsNaN(a), a, larger_of(a, b));
  }
};
struct Minimum {
  HWY_INLINE V operator()(V a, V b) const {
    return hn::IfThenElse(hn::IsNaN(a), a, smaller_of(a, b));
  }
};
struct Add {
  HWY_INLINE V operator()(V a, V b) const { return hn::Add(a, b); }
};
struct Sub {
  HWY_INLINE V operator()(V a, V b) const { return hn::Sub(a, b); }
};
struct Mul {
  HWY_INLINE V operator()(V a, V b) const { return hn::Mul(a, b); }
};
struct Div {
  HWY_INLINE V operator()(V a, V b) const { return quotient_of(a, b); }
};

template <class F>
HWY_INLINE F made(const PointwiseParams& params) {
  if constexpr (std::is_constructible_v<F, const PointwiseParams&>)
    return F(params);
  else
    return F();
}

template <class F>
void unary(void* y, const void* const* x, int64_t n, const PointwiseParams& params) {
  const D d;
  const F f = made<F>(params);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* a = static_cast<const float*>(x[0]);
  float* out = static_cast<float*>(y);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(hn::LoadU(d, a + i)), d, out + i);
  if (i == n) return;
  HWY_ALIGN float rest[hn::MaxLanes(D())] = {};
  std::memcpy(rest, a + i, static_cast<size_t>(n - i) * sizeof(float));
  hn::Store(f(hn::Load(d, rest)), d, rest);
  std::memcpy(out + i, rest, static_cast<size_t>(n - i) * sizeof(float));
}
template <class F>
void binary_of_one(void* y, const void* const* x, int64_t n, bool is_first_one) {
  const D d;
  const V one = hn::Set(d, *static_cast<const float*>(x[is_first_one ? 0 : 1]));
  const float* const many = static_cast<const float*>(x[is_first_one ? 1 : 0]);
  for_vectors(n, [&](int64_t i, int count) HWY_ATTR {
    const V other = load_part(d, many + i, count);
    store_part(d, is_first_one ? F()(one, other) : F()(other, one), count,
               static_cast<float*>(y) + i);
  });
}
template <class F>
void binary(void* y, const void* const* x, int64_t n, const PointwiseParams& params) {
  if (params.single >= 0) return binary_of_one<F>(y, x, n, params.single == 0);
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* a = static_cast<const float*>(x[0]);
  const float* b = static_cast<const float*>(x[1]);
  float* out = static_cast<float*>(y);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(F()(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, out + i);
  if (i == n) return;
  HWY_ALIGN float rest_a[hn::MaxLanes(D())] = {};
  HWY_ALIGN float rest_b[hn::MaxLanes(D())] = {};
  const size_t bytes = static_cast<size_t>(n - i) * sizeof(float);
  std::memcpy(rest_a, a + i, bytes);
  std::memcpy(rest_b, b + i, bytes);
  hn::Store(F()(hn::Load(d, rest_a), hn::Load(d, rest_b)), d, rest_a);
  std::memcpy(out + i, rest_a, bytes);
}

// x[0] between x[1] and x[2].
void clamp(void* y, const void* const* x, int64_t n, const PointwiseParams& params) {
  const D d;
  const auto part = [&](int k, int64_t i, int count) HWY_ATTR {
    return load_part(d, static_cast<const float*>(x[k]) + i, count);
  };
  const bool is_same = !kSavesCode && params.same != 0;
  const float first_low = *static_cast<const float*>(x[1]),
              first_high = *static_cast<const float*>(x[2]);
  const V low = hn::Set(d, first_low), high = hn::Set(d, first_high);
  if (is_same && first_low == first_low && first_high == first_high)
    return for_vectors(n, [&](int64_t i, int count) HWY_ATTR {
      const V a = part(0, i, count);
      const V inside = smaller_of(larger_of(a, low), high);
      store_part(d, hn::IfThenElse(hn::IsNaN(a), a, inside), count, static_cast<float*>(y) + i);
    });
  for_vectors(n, [&](int64_t i, int count) HWY_ATTR {
    const V raised = Maximum()(part(0, i, count), is_same ? low : part(1, i, count));
    store_part(d, Minimum()(raised, is_same ? high : part(2, i, count)), count,
               static_cast<float*>(y) + i);
  });
}

struct Eq {
  HWY_INLINE auto operator()(V a, V b) const { return hn::Eq(a, b); }
};
struct Ne {  // true of NaN
  HWY_INLINE auto operator()(V a, V b) const { return hn::Not(hn::Eq(a, b)); }
};
struct Lt {
  HWY_INLINE auto operator()(V a, V b) const { return hn::Lt(a, b); }
};
struct Le {
  HWY_INLINE auto operator()(V a, V b) const { return hn::Le(a, b); }
};
struct Gt {
  HWY_INLINE auto operator()(V a, V b) const { return hn::Gt(a, b); }
};
struct Ge {
  HWY_INLINE auto operator()(V a, V b) const { return hn::Ge(a, b); }
};
// The bytes 0 and 1.
template <class F>
void compare(void* y, const void* const* x, int64_t n, const PointwiseParams&) {
  const D d;
  const hn::RebindToUnsigned<D> du;
  for_vectors(n, [&](int64_t i, int count) HWY_ATTR {
    const V a = load_part(d, static_cast<const float*>(x[0]) + i, count),
            b = load_part(d, static_cast<const float*>(x[1]) + i, count);
    const auto holds = hn::RebindMask(du, F()(a, b));
    store_low_bytes(hn::IfThenElseZero(holds, hn::Set(du, 1)), count, static_cast<uint8_t*>(y) + i);
  });
}
#if defined(HG_SMALL)
template <class F>
constexpr Block choose = nullptr;
#else
// x[2] where F holds for x[0] and x[1], else x[3]. x[1] may be a number.
template <class F>
void choose(void* y, const void* const* x, int64_t n, const PointwiseParams& params) {
  const D d;
  const auto part = [&](int k, int64_t i, int count) HWY_ATTR {
    return load_part(d, static_cast<const float*>(x[k]) + i, count);
  };
  const auto choose_with = [&](const auto& second) HWY_ATTR {
    for_vectors(n, [&](int64_t i, int count) HWY_ATTR {
      const V z = hn::IfThenElse(F()(part(0, i, count), second(i, count)), part(2, i, count),
                                 part(3, i, count));
      store_part(d, z, count, static_cast<float*>(y) + i);
    });
  };
  const V number = hn::Set(d, *static_cast<const float*>(x[1]));
  if (params.same != 0)
    choose_with([&](int64_t, int) HWY_ATTR { return number; });
  else
    choose_with([&](int64_t i, int count) HWY_ATTR { return part(1, i, count); });
}
#endif

// x[1] where the bytes x[0] are not 0, else x[2].
void where(void* y, const void* const* x, int64_t n, const PointwiseParams&) {
  const D d;
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint8_t, D> bytes;
  const auto* condition = static_cast<const uint8_t*>(x[0]);
  const auto* a = static_cast<const float*>(x[1]);
  const auto* b = static_cast<const float*>(x[2]);
  auto* out = static_cast<float*>(y);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const auto is_false = hn::Eq(hn::PromoteTo(du, hn::LoadU(bytes, condition + i)), hn::Zero(du));
    const V z =
        hn::IfThenElse(hn::RebindMask(d, is_false), hn::LoadU(d, b + i), hn::LoadU(d, a + i));
    hn::StoreU(z, d, out + i);
  }
  for (; i < n; ++i) out[i] = condition[i] != 0 ? a[i] : b[i];
}

}  // namespace

constexpr PointwiseSimd kPointwiseSimd = {.activations =
                                              {
#define HG_ACTIVATION(number, name, op, attrs) unary<Activated<Activation::name>>,
#include "hg/activations.inc"
                                              },
                                          .exp = unary<Exp>,
                                          .erf = unary<Erf>,
                                          .leaky_relu = unary<LeakyRelu>,
                                          .elu = unary<Elu>,
                                          .mish = unary<Mish>,
                                          .softplus = unary<Softplus>,
                                          .log_sigmoid = unary<LogSigmoid>,
                                          .hardtanh = unary<Limited>,
                                          .expm1 = unary<Expm1>,
                                          .log = unary<Log>,
                                          .exp2 = unary<Exp2>,
                                          .atan = unary<Atan>,
                                          .sqrt = unary<Sqrt>,
                                          .rsqrt = unary<Rsqrt>,
                                          .reciprocal = unary<Reciprocal>,
                                          .neg = unary<Neg>,
                                          .abs = unary<Abs>,
                                          .floor = unary<Floor>,
                                          .ceil = unary<Ceil>,
                                          .trunc = unary<Trunc>,
                                          .round = unary<Round>,
                                          .add = binary<Add>,
                                          .sub = binary<Sub>,
                                          .mul = binary<Mul>,
                                          .div = binary<Div>,
                                          .maximum = binary<Maximum>,
                                          .minimum = binary<Minimum>,
                                          .eq = compare<Eq>,
                                          .ne = compare<Ne>,
                                          .lt = compare<Lt>,
                                          .le = compare<Le>,
                                          .gt = compare<Gt>,
                                          .ge = compare<Ge>,
                                          .choose_eq = choose<Eq>,
                                          .choose_ne = choose<Ne>,
                                          .choose_lt = choose<Lt>,
                                          .choose_le = choose<Le>,
                                          .choose_gt = choose<Gt>,
                                          .choose_ge = choose<Ge>,
                                          .clamp = clamp,
                                          .where = where,
                                          .nan_to_num = unary<NanToNum>,
                                          .from_u8 = from_bytes<uint8_t>,
                                          .from_i8 = from_bytes<int8_t>,
                                          .to_bytes = to_bytes,
                                          .to_i32 = to_i32,
                                          .is_true = is_true,
                                          .from_i64 = from_i64,
                                          .to_i64 = to_i64,
                                          .dequantize_u8 = dequantize<uint8_t>,
                                          .dequantize_i8 = dequantize<int8_t>,
                                          .quantize = quantize,
                                          .sum_u8_u8 = quantized_sum<uint8_t, uint8_t>,
                                          .sum_u8_i8 = quantized_sum<uint8_t, int8_t>,
                                          .sum_i8_u8 = quantized_sum<int8_t, uint8_t>,
                                          .sum_i8_i8 = quantized_sum<int8_t, int8_t>,
                                          .look_up_1 = look_up<ByteTable>,
                                          .look_up_4 = look_up<WordTable>};

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/pointwise/activation_rows.h"
#include "lib/table/rows.h"

namespace hg::kernels {

const PointwiseSimd& pointwise_simd_blocks() { return *HG_SIMD_CHOOSE(kPointwiseSimd); }

namespace {

bool in_f32(const PrepareContext& c) {
  const DType dtype = c.in(0).dtype;
  return dtype == f32 || dtype == f16 || dtype == bf16;
}
template <Block PointwiseSimd::*block, ParamsFunction... read>
Status prepare_simd(PrepareContext& c) {
  PointwiseParams params;
  (read(c, params), ...);
  return prepare_block(c, pointwise_simd_blocks().*block, params);
}
// Blocks that also read an operand of one element.
template <Block PointwiseSimd::*block>
Status prepare_two(PrepareContext& c) {
  PointwiseParams params;
  params.reads_single = true;
  return prepare_block(c, pointwise_simd_blocks().*block, params);
}
template <Activation activation>
Status prepare_activation(PrepareContext& c) {
  const auto index = static_cast<size_t>(activation);
  return prepare_block(c, pointwise_simd_blocks().activations[index], {});
}
Status prepare_gelu(PrepareContext& c) {
  return c.attrs().string("approximate") == "tanh" ? prepare_activation<Activation::gelu_tanh>(c)
                                                   : prepare_activation<Activation::gelu>(c);
}
bool rounds_to_integers(const PrepareContext& c) {
  return in_f32(c) && c.attrs().integer("decimals") == 0;
}
Status prepare_clamp(PrepareContext& c) {
  if (c.has(1) && c.has(2)) {
    PointwiseParams params;
    if (c.in(1).count() == 1 && c.in(2).count() == 1) params.same = 0b110;
    return prepare_block(c, pointwise_simd_blocks().clamp, params);
  }
  return c.has(1) ? prepare_two<&PointwiseSimd::maximum>(c)
                  : prepare_two<&PointwiseSimd::minimum>(c);
}
bool chooses_f32(const PrepareContext& c) {
  const DType dtype = c.in(1).dtype;
  return dtype == f32 || dtype == f16 || dtype == bf16;
}
bool is_byte(DType dtype) { return dtype == DType::u8 || dtype == DType::i8; }
bool casts(const PrepareContext& c) {
  const DType from = c.in(0).dtype, to = c.out(0).dtype;
  if (in_f32(c) && (to == DType::i32 || to == boolean)) return true;
  if (in_f32(c) && to == DType::i64) return pointwise_simd_blocks().to_i64 != nullptr;
  if (from == DType::i64 && to == f32) return true;
  return (is_byte(from) && to == f32) || (from == f32 && is_byte(to));
}
Status prepare_cast(PrepareContext& c) {
  switch (c.in(0).dtype) {
    case DType::u8:
      return prepare_simd<&PointwiseSimd::from_u8>(c);
    case DType::i8:
      return prepare_simd<&PointwiseSimd::from_i8>(c);
    case DType::i64:
      return prepare_simd<&PointwiseSimd::from_i64>(c);
    default:
      break;
  }
  switch (c.out(0).dtype) {
    case DType::i32:
      return prepare_simd<&PointwiseSimd::to_i32>(c);
    case DType::i64:
      return prepare_simd<&PointwiseSimd::to_i64>(c);
    case DType::bool_:
      return prepare_simd<&PointwiseSimd::is_true>(c);
    default:
      return prepare_simd<&PointwiseSimd::to_bytes>(c);
  }
}
constexpr KernelDef row(std::string_view op, Status (*prepare)(PrepareContext&),
                        bool (*accepts)(const PrepareContext&) = in_f32) {
  return {.op = op,
          .name = "simd",
          .accepts = accepts,
          .prepare = prepare,
          .run = &run_pointwise,
          .strided = kAllStrided,
          .in_programs = true};
}

constexpr KernelDef kOthers[] = {
    row("cast", prepare_cast, casts),
    row("exp", prepare_simd<&PointwiseSimd::exp>),
    row("erf", prepare_simd<&PointwiseSimd::erf>),
    row("gelu", prepare_gelu),
    row("leaky_relu", prepare_simd<&PointwiseSimd::leaky_relu, leaky_relu_params>),
    row("elu", prepare_simd<&PointwiseSimd::elu, elu_params>),
    row("mish", prepare_simd<&PointwiseSimd::mish>),
    row("softplus", prepare_simd<&PointwiseSimd::softplus, softplus_params>),
    row("log_sigmoid", prepare_simd<&PointwiseSimd::log_sigmoid>),
    row("hardtanh", prepare_simd<&PointwiseSimd::hardtanh, hardtanh_params>),
    row("expm1", prepare_simd<&PointwiseSimd::expm1>),
    row("log", prepare_simd<&PointwiseSimd::log>),
    row("exp2", prepare_simd<&PointwiseSimd::exp2>),
    row("atan", prepare_simd<&PointwiseSimd::atan>),
    row("sqrt", prepare_simd<&PointwiseSimd::sqrt>),
    row("rsqrt", prepare_simd<&PointwiseSimd::rsqrt>),
    row("reciprocal", prepare_simd<&PointwiseSimd::reciprocal>),
    row("neg", prepare_simd<&PointwiseSimd::neg>),
    row("abs", prepare_simd<&PointwiseSimd::abs>),
    row("floor", prepare_simd<&PointwiseSimd::floor>),
    row("ceil", prepare_simd<&PointwiseSimd::ceil>),
    row("trunc", prepare_simd<&PointwiseSimd::trunc>),
    row("round", prepare_simd<&PointwiseSimd::round>, rounds_to_integers),
    row("add", prepare_two<&PointwiseSimd::add>),
    row("sub", prepare_two<&PointwiseSimd::sub>),
    row("mul", prepare_two<&PointwiseSimd::mul>),
    row("div", prepare_two<&PointwiseSimd::div>),
    row("maximum", prepare_two<&PointwiseSimd::maximum>),
    row("minimum", prepare_two<&PointwiseSimd::minimum>),
    row("nan_to_num", prepare_simd<&PointwiseSimd::nan_to_num, nan_to_num_params>),
    row("eq", prepare_simd<&PointwiseSimd::eq>),
    row("ne", prepare_simd<&PointwiseSimd::ne>),
    row("lt", prepare_simd<&PointwiseSimd::lt>),
    row("le", prepare_simd<&PointwiseSimd::le>),
    row("gt", prepare_simd<&PointwiseSimd::gt>),
    row("ge", prepare_simd<&PointwiseSimd::ge>),
    row("clamp", prepare_clamp),
    row("where", prepare_simd<&PointwiseSimd::where>, chooses_f32),
};
constexpr auto kKernels = with_activations(kOthers, []<Activation activation> {
  return row(to_string(activation), prepare_activation<activation>);
});

}  // namespace

std::span<const KernelDef> pointwise_simd() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
#endif
