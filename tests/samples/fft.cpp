// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/fft.cpp.
#include "tests/ops/samples.h"

namespace hg::test::samples {

std::vector<Sample> fft() {
  std::vector<Sample> s;
  // Every radix, products of radices, larger primes, and powers of two.
  for (int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 15, 16, 17, 19, 30, 34, 64, 97}) {
    s.push_back({"fft", {{f32, {n, 2}}}, {{"dim", 0}}, 1e-5});
    s.push_back({"fft_of_real", {{f32, {n, 1}}}, {{"dim", 0}}, 1e-5});
    s.push_back({"fft_to_real", {{f32, {n / 2 + 1, 2}}}, {{"n", n}, {"dim", 0}}, 1e-5});
  }
  for (const char* norm : {"none", "n", "sqrt"})
    for (bool inverse : {false, true}) {
      const auto attrs = [&](int64_t dim) {
        return NamedAttrs{{"dim", dim}, {"inverse", inverse}, {"norm", norm}};
      };
      s.push_back({"fft", {{f32, {3, 10, 5, 2}}}, attrs(1), 1e-5});
      s.push_back({"fft_of_real", {{f32, {3, 10, 5, 1}}}, attrs(1), 1e-5});
      s.push_back({"fft_of_real", {{f32, {2, 9, 1}}}, attrs(-2), 1e-5});
      for (const int64_t n : {20, 21, 160}) {
        NamedAttrs real = attrs(1);
        real.push_back({"n", n});
        s.push_back({"fft_to_real", {{f32, {3, n / 2 + 1, 5, 2}}}, real, 1e-5});
      }
    }
  s.push_back({"fft_of_real", {{f64, {2, 46, 1}}}, {{"dim", -2}}});
  s.push_back({"fft_of_real", {{f32, {3, 0, 1}}}, {{"dim", 1}}});
  s.push_back({"fft_of_real", {{f32, {9, 360, 1}}}, {{"dim", 1}}, 1e-5, false});
  s.push_back({"fft_to_real", {{f64, {2, 24, 2}}}, {{"n", 46}, {"dim", -2}}});
  s.push_back({"fft_to_real", {{f32, {3, 1, 2}}}, {{"n", 0}, {"dim", 1}}});
  s.push_back({"fft_to_real", {{f32, {0, 3, 2}}}, {{"n", 5}, {"dim", 1}}});
  s.push_back({"fft_to_real", {{f32, {9, 181, 2}}}, {{"n", 360}, {"dim", 1}}, 1e-5, false});
  s.push_back({"fft", {{f64, {2, 23, 2}}}, {{"dim", -2}, {"inverse", true}, {"norm", "n"}}});
  s.push_back({"fft", {{f32, {3, 0, 2}}}, {{"dim", 1}}});
  s.push_back({"fft", {{f32, {0, 3, 2}}}, {{"dim", 1}}});
  s.push_back({"fft", {{f32, {9, 360, 2}}}, {{"dim", 1}}, 1e-5, false});
  s.push_back({"fft", {{f32, {5, 262, 2}}}, {{"dim", 1}}, 1e-5, false});
  for (Sample& sample : s) sample.floats = kWideFloats;
  return s;
}

}  // namespace hg::test::samples
