// SPDX-License-Identifier: Apache-2.0
// 16-bit floats in vectors: casts of any bits and program steps that round to 16 bits equal the
// scalar types, including NaN, infinity, subnormals and ties.
#include <gtest/gtest.h>

#include <bit>
#include <span>
#include <vector>

#include "hg/hg.h"
#include "lib/graph/split_mix.h"
#include "lib/platform/instruction_set.h"

namespace hg {
namespace {

// Random bits, and bits of every exponent near the ties of both types.
std::vector<float> numbers() {
  std::vector<float> x;
  for (uint32_t high = 0; high < 0x10000; ++high)
    for (const uint32_t low : {0x0000u, 0x7fffu, 0x8000u, 0x8001u})
      x.push_back(std::bit_cast<float>(high << 16 | low));
  for (uint32_t high = 0; high < 0x80000; high += 7)
    for (const uint32_t low : {0x0fffu, 0x1000u, 0x1001u})
      x.push_back(std::bit_cast<float>(high << 13 | low));
  uint64_t state = 1;
  for (int i = 0; i < 1000003; ++i)
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(split_mix(state))));
  return x;
}

Session session_of(DType through, DType to) {
  Graph g;
  const Value x = g.input("x", f32, {"n"});
  const Value rounded = cast(x, through);
  g.output("y", to == through ? rounded : cast(rounded * 1.0, to));
  return *Session::create(*Model::from_graph(std::move(g)), {.threads = 1});
}

template <class T>
void expect_rounding(DType dtype, std::span<const float> x) {
  const auto n = static_cast<int64_t>(x.size());
  Session narrow = session_of(dtype, dtype), back = session_of(dtype, f32);
  for (Session* each : {&narrow, &back}) {
    ASSERT_TRUE(each->set_input("x", view(x, {n})).ok());
    ASSERT_TRUE(each->run().ok());
  }
  const T* y = narrow.output("y")->as<const T>();
  const float* wide = back.output("y")->as<const float>();
  int64_t wrong = 0;
  for (int64_t i = 0; i < n && wrong < 5; ++i) {
    const T right(x[static_cast<size_t>(i)]);
    const float right_wide(right);
    const bool same = right_wide == right_wide
                          ? std::bit_cast<uint32_t>(wide[i]) == std::bit_cast<uint32_t>(right_wide)
                          : wide[i] != wide[i];
    if (y[i].bits == right.bits && same) continue;
    ++wrong;
    ADD_FAILURE() << std::hex << std::bit_cast<uint32_t>(x[static_cast<size_t>(i)]) << " gave "
                  << y[i].bits << ", not " << right.bits << ", and " << wide[i];
  }
}

TEST(Halves, F16IsRoundedAsByTheType) { expect_rounding<Half>(f16, numbers()); }
TEST(Halves, Bf16IsRoundedAsByTheType) { expect_rounding<BFloat16>(bf16, numbers()); }

TEST(Halves, RowsOfAllSizesAreRoundedByEachInstructionSet) {
  const std::vector<float> all = numbers();
  for (const Isa isa : kIsas) {
    if (!supports(isa)) continue;
    limit_isa(isa);
    for (size_t n = 1; n <= 70; ++n) {
      const std::span<const float> x(all.data() + 70 * n * n, n);
      expect_rounding<Half>(f16, x);
      expect_rounding<BFloat16>(bf16, x);
    }
  }
  limit_isa(kBestIsa);
}

}  // namespace
}  // namespace hg
