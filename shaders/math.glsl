// SPDX-License-Identifier: Apache-2.0
// f32 functions that Vulkan leaves imprecise, or unspecified for NaN and infinity.
bool is_nan(const float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }
bool is_inf(const float x) { return (floatBitsToUint(x) & 0x7fffffffu) == 0x7f800000u; }
float infinity() { return uintBitsToFloat(0x7f800000u); }
float not_a_number() { return uintBitsToFloat(0x7fc00000u); }

float scaled(const float x, const int exponent) {  // x * 2^exponent, exponent in [-252, 254]
  const int half_way = exponent >> 1;
  return x * uintBitsToFloat(uint(half_way + 127) << 23) *
         uintBitsToFloat(uint(exponent - half_way + 127) << 23);
}

// Cephes expf: n = round(x / ln 2), then a polynomial of the remainder.
float op_exp(const float x) {
  if (is_nan(x)) return x;
  if (x > 88.8) return infinity();
  if (x < -104.0) return 0.0;
  const float n = floor(x * 1.44269504088896341 + 0.5);
  precise float r = x - n * 0.693359375;
  r = r + n * 2.12194440e-4;
  float p = 1.9875691500e-4;
  p = p * r + 1.3981999507e-3;
  p = p * r + 8.3334519073e-3;
  p = p * r + 4.1665795894e-2;
  p = p * r + 1.6666665459e-1;
  p = p * r + 5.0000001201e-1;
  return scaled(p * r * r + r + 1.0, int(n));
}

// expm1: for small x a Taylor series of (e^r - 1), else exp - 1.
float op_expm1(const float x) {
  if (abs(x) > 0.35) return op_exp(x) - 1.0;
  float p = 1.0 / 40320.0;
  p = p * x + 1.0 / 5040.0;
  p = p * x + 1.0 / 720.0;
  p = p * x + 1.0 / 120.0;
  p = p * x + 1.0 / 24.0;
  p = p * x + 1.0 / 6.0;
  p = p * x + 0.5;
  return p * x * x + x;
}

// Cephes logf of 2^e m, m in [sqrt(1/2), sqrt(2)).
float log_of(const float x, const float log_e_high, const float log_e_low, const float log_m) {
  if (is_nan(x) || x < 0.0) return not_a_number();
  if (x == 0.0) return -infinity();
  if (is_inf(x)) return x;
  uint bits = floatBitsToUint(x);
  int e = -127;
  if (bits < 0x00800000u) {
    bits = floatBitsToUint(x * 8388608.0);
    e -= 23;
  }
  e += int(bits >> 23);
  float m = uintBitsToFloat((bits & 0x007fffffu) | 0x3f800000u);
  if (m > 1.41421356) {
    m *= 0.5;
    e += 1;
  }
  const float r = m - 1.0;
  float p = 7.0376836292e-2;
  p = p * r - 1.1514610310e-1;
  p = p * r + 1.1676998740e-1;
  p = p * r - 1.2420140846e-1;
  p = p * r + 1.4249322787e-1;
  p = p * r - 1.6668057665e-1;
  p = p * r + 2.0000714765e-1;
  p = p * r - 2.4999993993e-1;
  p = p * r + 3.3333331174e-1;
  const float z = r * r;
  const float tail = p * r * z - 0.5 * z;
  const float n = float(e);
  return (tail + r) * log_m + n * log_e_low + n * log_e_high;
}
float op_log(const float x) { return log_of(x, 0.693359375, -2.12194440e-4, 1.0); }
float op_log2(const float x) { return log_of(x, 1.0, 0.0, 1.4426950408889634); }
float op_log10(const float x) { return log_of(x, 0.30078125, 2.48745663981e-4, 0.4342944819032518); }
// log(1 + x), corrected for the rounding of 1 + x.
float op_log1p(const float x) {
  precise float u = 1.0 + x;
  if (u == 1.0 || is_inf(u)) return x;
  precise float rest = u - 1.0;
  return op_log(u) * (x / rest);
}
float op_exp2(const float x) {
  if (is_nan(x)) return x;
  if (x >= 128.5) return infinity();
  if (x < -150.0) return 0.0;
  const float n = floor(x + 0.5);
  const float r = (x - n) * 0.6931471805599453;
  return scaled(op_expm1(r) + 1.0, int(n));
}

float op_tanh(const float x) {
  const float a = abs(x);
  if (is_nan(x)) return x;
  if (a > 9.1) return x < 0.0 ? -1.0 : 1.0;
  const float e = op_expm1(2.0 * a);
  const float t = e / (e + 2.0);
  return x < 0.0 ? -t : t;
}
float op_sigmoid(const float x) { return 1.0 / (1.0 + op_exp(-x)); }

// erf: a series near zero, else 1 - erfc (Numerical Recipes' Chebyshev fit, relative 1.2e-7).
float erfc_positive(const float z) {
  const float t = 1.0 / (1.0 + 0.5 * z);
  float p = 0.17087277;
  p = p * t - 0.82215223;
  p = p * t + 1.48851587;
  p = p * t - 1.13520398;
  p = p * t + 0.27886807;
  p = p * t - 0.18628806;
  p = p * t + 0.09678418;
  p = p * t + 0.37409196;
  p = p * t + 1.00002368;
  return t * op_exp(-z * z - 1.26551223 + p * t);
}
float op_erf(const float x) {
  const float z = abs(x);
  if (is_nan(x)) return x;
  if (z < 1.0) {
    const float s = x * x;
    float p = 1.0 / 685440.0;  // terms (-1)^k / (k! (2 k + 1)), from k = 8
    p = p * s - 1.0 / 75600.0;
    p = p * s + 1.0 / 9360.0;
    p = p * s - 1.0 / 1320.0;
    p = p * s + 1.0 / 216.0;
    p = p * s - 1.0 / 42.0;
    p = p * s + 1.0 / 10.0;
    p = p * s - 1.0 / 3.0;
    p = p * s + 1.0;
    return 1.1283791670955126 * x * p;
  }
  const float r = 1.0 - erfc_positive(z);
  return x < 0.0 ? -r : r;
}
float op_erfc(const float x) {
  if (is_nan(x)) return x;
  if (abs(x) < 0.5) return 1.0 - op_erf(x);
  const float r = erfc_positive(abs(x));
  return x < 0.0 ? 2.0 - r : r;
}

// Activations (hg/activations.inc), here and in activation.glsl.
float op_gelu(const float x) { return x * 0.5 * op_erfc(-x * 0.7071067811865476); }
float op_gelu_tanh(const float x) {
  return 0.5 * x * (1.0 + op_tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}
float op_silu(const float x) { return x / (1.0 + op_exp(-x)); }
float clamp_to_six(const float x) { return x < 0.0 ? 0.0 : x > 6.0 ? 6.0 : x; }
float op_hardsigmoid(const float x) { return clamp_to_six(x + 3.0) / 6.0; }
float op_hardswish(const float x) { return x * clamp_to_six(x + 3.0) / 6.0; }
