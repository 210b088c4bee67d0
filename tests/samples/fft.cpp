// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/fft.cpp.
#include "tests/samples.h"

namespace hg::test::samples {

std::vector<Sample> fft() {
  std::vector<Sample> s;
  // Every radix, products of them, primes above, and powers of two.
  for (int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 15, 16, 17, 19, 30, 34, 64, 97})
    s.push_back({"fft", {{f32, {n, 2}}}, {{"dim", 0}}, 1e-5});
  for (const char* norm : {"none", "n", "sqrt"})
    for (bool inverse : {false, true})
      s.push_back({"fft",
                   {{f32, {3, 10, 5, 2}}},
                   {{"dim", 1}, {"inverse", inverse}, {"norm", norm}},
                   1e-5});
  s.push_back({"fft", {{f64, {2, 23, 2}}}, {{"dim", -2}, {"inverse", true}, {"norm", "n"}}});
  s.push_back({"fft", {{f32, {3, 0, 2}}}, {{"dim", 1}}});
  s.push_back({"fft", {{f32, {0, 3, 2}}}, {{"dim", 1}}});
  s.push_back({"fft", {{f32, {9, 360, 2}}}, {{"dim", 1}}, 1e-5, false});
  s.push_back({"fft", {{f32, {5, 262, 2}}}, {{"dim", 1}}, 1e-5, false});
  for (Sample& sample : s) sample.floats = kWideFloats;
  return s;
}

}  // namespace hg::test::samples
