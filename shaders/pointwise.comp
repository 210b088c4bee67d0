// SPDX-License-Identifier: Apache-2.0
// The building blocks of pointwise programs: loads, stores and one function per op and type.
// lib/vulkan/shader_linker.cpp replaces main() with calls of them and drops unused ones. Every parameter is
// `const`, so that it is passed by value.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
layout(local_size_x = 128) in;
#include "common.glsl"
#include "math.glsl"

// -- Memory layout ----------------------------------------------------------------------------------

// Binding 1 is written, 2 to 9 are read.
#define SLOT(k)                                                          \
  layout(binding = k) buffer F32_##k { float f32_##k[]; };               \
  layout(binding = k) buffer F64_##k { double f64_##k[]; };              \
  layout(binding = k) buffer F16_##k { float16_t f16_##k[]; };           \
  layout(binding = k) buffer U16_##k { uint16_t u16_##k[]; };            \
  layout(binding = k) buffer I64_##k { int64_t i64_##k[]; };             \
  layout(binding = k) buffer I32_##k { int i32_##k[]; };                 \
  layout(binding = k) buffer I16_##k { int16_t i16_##k[]; };             \
  layout(binding = k) buffer I8_##k { int8_t i8_##k[]; };                \
  layout(binding = k) buffer U8_##k { uint8_t u8_##k[]; };
#define LOADS(k)                                                               \
  SLOT(k)                                                                      \
  float load_f32_##k(const uint i) { return f32_##k[i]; }                      \
  double load_f64_##k(const uint i) { return f64_##k[i]; }                     \
  float load_f16_##k(const uint i) { return float(f16_##k[i]); }               \
  float load_bf16_##k(const uint i) { return uintBitsToFloat(uint(u16_##k[i]) << 16); } \
  int64_t load_i64_##k(const uint i) { return i64_##k[i]; }                    \
  int load_i32_##k(const uint i) { return i32_##k[i]; }                        \
  int load_i16_##k(const uint i) { return int(i16_##k[i]); }                   \
  int load_i8_##k(const uint i) { return int(i8_##k[i]); }                     \
  int load_u8_##k(const uint i) { return int(u8_##k[i]); }                     \
  bool load_bool_##k(const uint i) { return uint(u8_##k[i]) != 0u; }
SLOT(1)
LOADS(2)
LOADS(3)
LOADS(4)
LOADS(5)
LOADS(6)
LOADS(7)
LOADS(8)
LOADS(9)

// To nearest even; NaN stays NaN.
uint half_bits(const float x) {
  const uint bits = floatBitsToUint(x), sign = (bits >> 16) & 0x8000u, a = bits & 0x7fffffffu;
  if (a > 0x7f800000u) return sign | 0x7e00u;
  if (a >= 0x477ff000u) return sign | 0x7c00u;
  if (a < 0x38800000u) {  // below 2^-14: a multiple of 2^-24
    const float scaled_up = uintBitsToFloat(a) * 16777216.0;
    return sign | uint(roundEven(scaled_up));
  }
  const uint odd = (a >> 13) & 1u;
  return sign | ((a - 0x38000000u + 0xfffu + odd) >> 13);
}
void store_f32(const uint i, const float x) { f32_1[i] = x; }
void store_f64(const uint i, const double x) { f64_1[i] = x; }
void store_f16(const uint i, const float x) { u16_1[i] = uint16_t(half_bits(x)); }
void store_bf16(const uint i, const float x) {
  const uint bits = floatBitsToUint(x);
  u16_1[i] = uint16_t(is_nan(x) ? (bits >> 16) | 0x40u : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
void store_i64(const uint i, const int64_t x) { i64_1[i] = x; }
void store_i32(const uint i, const int x) { i32_1[i] = x; }
void store_i16(const uint i, const int x) { i16_1[i] = int16_t(x); }
void store_i8(const uint i, const int x) { i8_1[i] = int8_t(x); }
void store_u8(const uint i, const int x) { u8_1[i] = uint8_t(x); }
void store_bool(const uint i, const bool x) { u8_1[i] = uint8_t(x ? 1u : 0u); }

// The rounding that a store and a load would do to a value kept in a register.
float kept_f16(const float x) { return unpackHalf2x16(half_bits(x)).x; }
float kept_bf16(const float x) {
  const uint bits = floatBitsToUint(x);
  return is_nan(x) ? x : uintBitsToFloat((bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u);
}
int kept_i16(const int x) { return x << 16 >> 16; }
int kept_i8(const int x) { return x << 24 >> 24; }
int kept_u8(const int x) { return x & 255; }

bool inside(const uint i, const uint count_at) { return i < P(count_at); }
uint at_flat(const uint i, const uint slot) { return P(slot - 1u) + i; }
uint at_one(const uint i, const uint slot) { return P(slot - 1u); }
// The table holds the rank and the shape at `shape_at`, the strides at `strides_at`.
uint at_strided(const uint i, const uint slot, const uint shape_at, const uint strides_at) {
  uint rest = i;
  int offset = int(P(slot - 1u));
  for (uint d = P(shape_at); d > 1u; --d) {
    const uint size = P(shape_at + d);
    const uint next = rest / size;
    offset += int(rest - next * size) * S(strides_at + d - 1u);
    rest = next;
  }
  return uint(offset + int(rest) * S(strides_at));
}
float param(const uint k) { return F(k); }

// -- Conversions ------------------------------------------------------------------------------------

#define CONVERT(T, name)                                  \
  T to_##name(const float x) { return T(x); }             \
  T to_##name(const double x) { return T(x); }            \
  T to_##name(const int x) { return T(x); }               \
  T to_##name(const int64_t x) { return T(x); }           \
  T to_##name(const bool x) { return T(x ? 1 : 0); }
CONVERT(double, f64)
CONVERT(int, i32)
CONVERT(int64_t, i64)
float to_f32(const float x) { return x; }
float to_f32(const double x) { return float(x); }
float to_f32(const int x) { return float(x); }
float to_f32(const int64_t x) { return float(x); }
float to_f32(const bool x) { return x ? 1.0 : 0.0; }
bool to_bool(const float x) { return !(x == 0.0); }
bool to_bool(const double x) { return !(x == 0.0); }
bool to_bool(const int x) { return x != 0; }
bool to_bool(const int64_t x) { return x != 0; }
bool to_bool(const bool x) { return x; }

// -- Any numbers ------------------------------------------------------------------------------------

#define NUMBERS(T)                                                          \
  T op_add(const T a, const T b) { return a + b; }                          \
  T op_sub(const T a, const T b) { return a - b; }                          \
  T op_mul(const T a, const T b) { return a * b; }                          \
  T op_neg(const T x) { return -x; }                                        \
  T op_sign(const T x) { return T(x > T(0) ? 1 : 0) - T(x < T(0) ? 1 : 0); } \
  T op_maximum(const T a, const T b) { return a != a || a > b ? a : b; }    \
  T op_minimum(const T a, const T b) { return a != a || a < b ? a : b; }    \
  T op_fmax(const T a, const T b) { return b != b || a > b ? a : b; }       \
  T op_fmin(const T a, const T b) { return b != b || a < b ? a : b; }       \
  T op_relu(const T x) { return x < T(0) ? T(0) : x; }                      \
  T op_where(const bool c, const T a, const T b) { return c ? a : b; }      \
  T op_threshold(const T x, const float a, const float b) { return x <= T(a) ? T(b) : x; } \
  T op_hardtanh(const T x, const float a, const float b) {                  \
    const T raised = x < T(a) ? T(a) : x;                                   \
    return raised > T(b) ? T(b) : raised;                                   \
  }                                                                         \
  bool op_eq(const T a, const T b) { return a == b; }                       \
  bool op_ne(const T a, const T b) { return !(a == b); }                    \
  bool op_lt(const T a, const T b) { return a < b; }                        \
  bool op_le(const T a, const T b) { return a <= b; }                       \
  bool op_gt(const T a, const T b) { return a > b; }                        \
  bool op_ge(const T a, const T b) { return a >= b; }                       \
  bool op_logical_not(const T x) { return x == T(0); }                      \
  bool op_logical_and(const T a, const T b) { return !(a == T(0)) && !(b == T(0)); } \
  bool op_logical_or(const T a, const T b) { return !(a == T(0)) || !(b == T(0)); }  \
  bool op_logical_xor(const T a, const T b) { return (a == T(0)) != (b == T(0)); }
NUMBERS(float)
NUMBERS(double)
NUMBERS(int)
NUMBERS(int64_t)

// -- Integers ---------------------------------------------------------------------------------------

// A division by zero gives zero.
#define INTEGERS(T)                                                                     \
  T op_abs(const T x) { return x < T(0) ? -x : x; }                                     \
  T op_bitwise_and(const T a, const T b) { return a & b; }                              \
  T op_bitwise_or(const T a, const T b) { return a | b; }                               \
  T op_bitwise_xor(const T a, const T b) { return a ^ b; }                              \
  T op_bitwise_not(const T x) { return ~x; }                                            \
  T op_trunc_divide(const T a, const T b) {                                             \
    return b == T(0) ? T(0) : b == T(-1) ? -a : a / b;                                  \
  }                                                                                     \
  T op_fmod(const T a, const T b) { return a - op_trunc_divide(a, b) * b * T(b == T(0) ? 0 : 1) - (b == T(0) ? a : T(0)); } \
  T op_floor_divide(const T a, const T b) {                                             \
    const T q = op_trunc_divide(a, b);                                                  \
    return b != T(0) && q * b != a && (a < T(0)) != (b < T(0)) ? q - T(1) : q;          \
  }                                                                                     \
  T op_remainder(const T a, const T b) {                                                \
    return b == T(0) ? T(0) : a - op_floor_divide(a, b) * b;                            \
  }                                                                                     \
  bool op_isnan(const T x) { return false; }                                            \
  bool op_isinf(const T x) { return false; }                                            \
  bool op_isfinite(const T x) { return true; }                                          \
  bool op_signbit(const T x) { return x < T(0); }
INTEGERS(int)
INTEGERS(int64_t)

// -- Booleans ---------------------------------------------------------------------------------------

bool op_add(const bool a, const bool b) { return a || b; }
bool op_mul(const bool a, const bool b) { return a && b; }
bool op_maximum(const bool a, const bool b) { return a || b; }
bool op_minimum(const bool a, const bool b) { return a && b; }
bool op_fmax(const bool a, const bool b) { return a || b; }
bool op_fmin(const bool a, const bool b) { return a && b; }
bool op_where(const bool c, const bool a, const bool b) { return c ? a : b; }
bool op_eq(const bool a, const bool b) { return a == b; }
bool op_ne(const bool a, const bool b) { return a != b; }
bool op_lt(const bool a, const bool b) { return !a && b; }
bool op_le(const bool a, const bool b) { return !a || b; }
bool op_gt(const bool a, const bool b) { return a && !b; }
bool op_ge(const bool a, const bool b) { return a || !b; }
bool op_logical_not(const bool x) { return !x; }
bool op_logical_and(const bool a, const bool b) { return a && b; }
bool op_logical_or(const bool a, const bool b) { return a || b; }
bool op_logical_xor(const bool a, const bool b) { return a != b; }
bool op_bitwise_and(const bool a, const bool b) { return a && b; }
bool op_bitwise_or(const bool a, const bool b) { return a || b; }
bool op_bitwise_xor(const bool a, const bool b) { return a != b; }
bool op_bitwise_not(const bool x) { return !x; }
bool op_isnan(const bool x) { return false; }
bool op_isinf(const bool x) { return false; }
bool op_isfinite(const bool x) { return true; }
bool op_signbit(const bool x) { return false; }

// -- f64: exact ops ---------------------------------------------------------------------------------

double op_abs(const double x) { return abs(x); }
double op_div(const double a, const double b) { return a / b; }
double op_reciprocal(const double x) { return 1.0LF / x; }
double op_floor(const double x) { return floor(x); }
double op_ceil(const double x) { return ceil(x); }
double op_trunc(const double x) { return trunc(x); }
bool op_isnan(const double x) { return x != x; }

// -- f32 --------------------------------------------------------------------------------------------

float op_abs(const float x) { return abs(x); }
float op_div(const float a, const float b) { return a / b; }
float op_sqrt(const float x) { return sqrt(x); }
float op_rsqrt(const float x) { return 1.0 / sqrt(x); }
float op_reciprocal(const float x) { return 1.0 / x; }
float op_floor(const float x) { return floor(x); }
float op_ceil(const float x) { return ceil(x); }
float op_trunc(const float x) { return trunc(x); }
float op_round(const float x, const float decimals, const float ten) {
  return decimals == 0.0 ? roundEven(x) : decimals > 0.0 ? roundEven(x * ten) / ten : roundEven(x / ten) * ten;
}
bool op_isnan(const float x) { return is_nan(x); }
bool op_isinf(const float x) { return is_inf(x); }
bool op_isfinite(const float x) { return !is_nan(x) && !is_inf(x); }
bool op_signbit(const float x) { return (floatBitsToUint(x) >> 31) != 0u; }
float op_copysign(const float a, const float b) {
  return uintBitsToFloat((floatBitsToUint(a) & 0x7fffffffu) | (floatBitsToUint(b) & 0x80000000u));
}
float op_nan_to_num(const float x, const float a, const float b, const float c) {
  return is_nan(x) ? a : !is_inf(x) ? x : x > 0.0 ? b : c;
}
float op_sinh(const float x) {
  const float a = abs(x);
  if (a > 88.0) return op_copysign(op_exp(a * 0.5) * (0.5 * op_exp(a * 0.5)), x);
  const float e = op_expm1(a);
  return op_copysign(0.5 * (e + e / (e + 1.0)), x);
}
float op_cosh(const float x) {
  const float h = op_exp(abs(x) * 0.5);
  return abs(x) > 88.0 ? h * (0.5 * h) : 0.5 * (op_exp(abs(x)) + op_exp(-abs(x)));
}
float op_asinh(const float x) {
  const float a = abs(x);
  if (is_inf(x) || is_nan(x)) return x;
  const float r = a > 1e9 ? op_log(a) + 0.6931471805599453 : op_log1p(a + a * a / (1.0 + sqrt(a * a + 1.0)));
  return op_copysign(r, x);
}
float op_acosh(const float x) {
  if (x < 1.0) return not_a_number();
  if (x > 1e9) return op_log(x) + 0.6931471805599453;
  const float t = x - 1.0;
  return op_log1p(t + sqrt(2.0 * t + t * t));
}
float op_atanh(const float x) { return op_copysign(0.5 * op_log1p(2.0 * abs(x) / (1.0 - abs(x))), x); }

// Sine of x + quarter * pi / 2: Cody and Waite's reduction, then Cephes' polynomials.
float sine(const float x, const int quarter) {
  if (is_inf(x) || is_nan(x)) return not_a_number();
  const float n = floor(x * 0.6366197723675814 + 0.5);
  precise float r = x - n * 1.5703125;
  r = r - n * 4.837512969970703125e-4;
  r = r - n * 7.54978995489188216e-8;
  const int q = (int(n) + quarter) & 3;
  const float z = r * r;
  float y;
  if ((q & 1) == 0)
    y = ((-1.9515295891e-4 * z + 8.3321608736e-3) * z - 1.6666654611e-1) * z * r + r;
  else
    y = ((2.443315711809948e-5 * z - 1.388731625493765e-3) * z + 4.166664568298827e-2) * z * z - 0.5 * z + 1.0;
  return (q & 2) == 0 ? y : -y;
}
float op_sin(const float x) { return sine(x, 0); }
float op_cos(const float x) { return sine(x, 1); }
float op_tan(const float x) { return sine(x, 0) / sine(x, 1); }
float op_atan(const float x) {  // Cephes atanf
  const float a = abs(x);
  float y = 0.0, t = a;
  if (a > 2.414213562373095) {
    y = 1.5707963267948966;
    t = -1.0 / a;
  } else if (a > 0.4142135623730950) {
    y = 0.7853981633974483;
    t = (a - 1.0) / (a + 1.0);
  }
  const float z = t * t;
  y += (((8.05374449538e-2 * z - 1.38776856032e-1) * z + 1.99777106478e-1) * z - 3.33329491539e-1) * z * t + t;
  return is_nan(x) ? x : op_copysign(y, x);
}
float op_asin(const float x) {  // Cephes asinf
  const float a = abs(x);
  if (a > 1.0) return not_a_number();
  const bool large = a > 0.5;
  const float z = large ? 0.5 * (1.0 - a) : a * a;
  const float t = large ? sqrt(z) : a;
  const float p = ((((4.2163199048e-2 * z + 2.4181311049e-2) * z + 4.5470025998e-2) * z + 7.4953002686e-2) * z + 1.6666752422e-1) * z * t + t;
  return is_nan(x) ? x : op_copysign(large ? 1.5707963267948966 - 2.0 * p : p, x);
}
float op_acos(const float x) {
  if (x > 0.5) return 2.0 * op_asin(sqrt(0.5 * (1.0 - x)));
  return 1.5707963267948966 - op_asin(x);
}
float op_sinc(const float x) {
  const float t = 3.141592653589793 * x;
  return x == 0.0 ? 1.0 : op_sin(t) / t;
}
bool is_whole(const float x) { return floor(x) == x; }
// exp(b log a) with log a in two parts, so that large exponents stay exact to a few last bits.
float op_pow(const float a, const float b) {
  if (b == 0.0 || a == 1.0) return 1.0;
  if (is_nan(a) || is_nan(b)) return not_a_number();
  if (b == 1.0) return a;
  if (b == 2.0) return a * a;
  if (b == -1.0) return 1.0 / a;
  if (b == 0.5 && a >= 0.0) return sqrt(a);
  const bool odd = is_whole(b) && abs(b) < 16777216.0 && !is_whole(b * 0.5);
  const float m = abs(a);
  if (m == 0.0 || is_inf(m)) {
    const float r = (m == 0.0) == (b > 0.0) ? 0.0 : infinity();
    return odd ? op_copysign(r, a) : r;
  }
  if (is_inf(b)) return m == 1.0 ? 1.0 : (m > 1.0) == (b > 0.0) ? infinity() : 0.0;
  if (a < 0.0 && !is_whole(b)) return not_a_number();
  float r;
  if (is_whole(b) && abs(b) <= 64.0) {
    r = 1.0;
    float power = m;
    for (int rest = int(abs(b)); rest != 0; rest >>= 1) {
      if ((rest & 1) != 0) r *= power;
      power *= power;
    }
    if (b < 0.0) r = 1.0 / r;
  } else {
    // log2 m = e + f, where e is an integer
    int e = int(floatBitsToUint(m) >> 23) - 127;
    float f = m;
    if (e == -127) f = m * 8388608.0;
    if (e == -127) e = int(floatBitsToUint(f) >> 23) - 127 - 23;
    f = uintBitsToFloat((floatBitsToUint(f) & 0x007fffffu) | 0x3f800000u);
    if (f > 1.41421356) {
      f *= 0.5;
      e += 1;
    }
    const float part = op_log2(f) * b, whole = float(e) * b;
    precise float whole_n = floor(whole + 0.5);
    precise float left = fma(float(e), b, -whole_n);
    const float total = part + left;
    const float n = floor(total + 0.5);
    const float power = clamp(whole_n + n, -300.0, 300.0);
    const float mantissa = op_exp2(total - n);
    r = power > 250.0 ? infinity() : power < -250.0 ? 0.0 : scaled(mantissa, int(power));
  }
  return odd && a < 0.0 ? -r : r;
}
// Exact: the remainder of a long division, one exponent bit at a time.
float op_fmod(const float a, const float b) {
  if (is_nan(a) || is_nan(b) || is_inf(a) || b == 0.0) return not_a_number();
  if (is_inf(b) || a == 0.0) return a;
  float rest = abs(a);
  const float d = abs(b);
  int shift = int(floatBitsToUint(rest) >> 23) - int(floatBitsToUint(d) >> 23);
  for (; shift >= 0; --shift) {
    const float multiple = shift > 120 ? scaled(d, shift) : d * uintBitsToFloat(uint(shift + 127) << 23);
    if (rest >= multiple) rest -= multiple;
  }
  return op_copysign(rest, a);
}
float op_remainder(const float a, const float b) {
  const float rest = op_fmod(a, b);
  return rest != 0.0 && (b < 0.0) != (rest < 0.0) ? rest + b : rest;
}
float op_trunc_divide(const float a, const float b) { return trunc(a / b); }
float op_floor_divide(const float a, const float b) {
  if (b == 0.0) return a / b;
  const float rest = op_fmod(a, b);
  float result = (a - rest) / b;
  if (rest != 0.0 && (b < 0.0) != (rest < 0.0)) result -= 1.0;
  if (result == 0.0) return op_copysign(0.0, a / b);
  const float whole = floor(result);
  return result - whole > 0.5 ? whole + 1.0 : whole;
}
float op_atan2(const float y, const float x) {
  if (is_nan(x) || is_nan(y)) return not_a_number();
  const float pi = 3.141592653589793;
  if (y == 0.0) return op_signbit(x) ? op_copysign(pi, y) : y;
  if (x == 0.0) return op_copysign(0.5 * pi, y);
  if (is_inf(x) && is_inf(y)) return op_copysign(x > 0.0 ? 0.25 * pi : 0.75 * pi, y);
  if (is_inf(x)) return op_copysign(x > 0.0 ? 0.0 : pi, y);
  const float a = op_atan(abs(y / x));
  return op_copysign(x > 0.0 ? a : pi - a, y);
}
float op_hypot(const float a, const float b) {
  if (is_inf(a) || is_inf(b)) return infinity();
  const float high = max(abs(a), abs(b)), low = min(abs(a), abs(b));
  if (is_nan(a) || is_nan(b)) return not_a_number();
  const float r = low / high;
  return high == 0.0 ? 0.0 : high * sqrt(1.0 + r * r);
}
float op_logaddexp(const float a, const float b) {
  if (is_inf(a) && a == b) return a;
  return op_maximum(a, b) + op_log1p(op_exp(-abs(a - b)));
}
float op_xlogy(const float x, const float y) { return is_nan(y) ? y : x == 0.0 ? 0.0 : x * op_log(y); }
float op_lerp(const float a, const float b, const float w) {
  return abs(w) < 0.5 ? a + w * (b - a) : b - (b - a) * (1.0 - w);
}

// -- Activations ------------------------------------------------------------------------------------

float op_leaky_relu(const float x, const float slope) { return x > 0.0 ? x : x * slope; }
float op_elu(const float x, const float alpha, const float scale, const float input_scale) {
  return x > 0.0 ? x * scale : op_expm1(x * input_scale) * (alpha * scale);
}
float op_mish(const float x) { return x * op_tanh(op_log1p(op_exp(x))); }
float op_softplus(const float x, const float beta, const float limit) {
  return x * beta > limit ? x : op_log1p(op_exp(x * beta)) / beta;
}
float op_log_sigmoid(const float x) { return (x < 0.0 || is_nan(x) ? x : 0.0) - op_log1p(op_exp(-abs(x))); }
float op_hardshrink(const float x, const float l) { return x >= -l && x <= l ? 0.0 : x; }
float op_softshrink(const float x, const float l) { return x > l ? x - l : x < -l ? x + l : x * 0.0; }
float op_logit(const float x, const float low) {  // low < 0: not limited
  const float high = 1.0 - low;
  const float y = low < 0.0 ? x : x < low ? low : x > high ? high : x;
  return op_log(y / (1.0 - y));
}

void main() { invocation(); }
