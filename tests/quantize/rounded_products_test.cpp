// SPDX-License-Identifier: Apache-2.0
// Precision::i8: random products with weights of 8 and 4 bits equal plain loops over the rounded
// input, and stay within half a level of each number of the exact product. Without it, products of
// many rows equal those in f64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "hg/quantize.h"
#include "kernels/gemm/gemm.h"
#include "lib/platform/instruction_set.h"
#include "lib/table/packing.h"
#include "tests/support/elements.h"
#include "tests/support/emulated_instructions.h"
#include "tests/support/must.h"
#include "tests/support/random_case.h"

namespace hg {
namespace {

constexpr int64_t kBlock = 32;

struct Rounded {
  std::vector<float> numbers;
  std::vector<float> scales;  // one for each weight
};

// One row.
Rounded rounded(const float* x, int64_t k) {
  Rounded made{std::vector<float>(static_cast<size_t>(k)),
               std::vector<float>(static_cast<size_t>(k))};
  for (int64_t begin = 0; begin < k; begin += kBlock) {
    const int64_t end = std::min(k, begin + kBlock);
    float largest = 0;
    bool broken = false;
    for (int64_t i = begin; i < end; ++i) {
      broken |= !std::isfinite(x[i]);
      largest = std::max(largest, std::abs(x[i]));
    }
    for (int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<size_t>(i);
      made.scales[at] = broken ? std::numeric_limits<float>::quiet_NaN() : largest / 127;
      made.numbers[at] = broken ? made.scales[at]
                         : largest < 0x1p-100f
                             ? 0
                             : std::nearbyint(x[i] * (127 / largest)) * made.scales[at];
    }
  }
  return made;
}

class Product : test::Chance {
 public:
  explicit Product(uint64_t seed) : Chance(seed) {}

  void run() {
    m_ = chance(4) ? 0 : 1 + below(chance(60) ? 4 : chance(70) ? 14 : 50);
    choose();
    for_each_set([this] {
      const std::vector<float> got = answer(1, Precision::i8);
      EXPECT_EQ(test::bits(got), test::bits(answer(1 + static_cast<int>(below(3)), Precision::i8)));
      check(got);
    });
  }
  // Many rows of numbers.
  void run_exact() {
    dtype_ = chance(40) ? f32 : chance(50) ? f16 : bf16;
    m_ = 1 + below(chance(95) ? 80 : 1100);
    choose();
    if (chance(20))
      for (float& x : x_) x *= std::ldexp(1.0f, static_cast<int>(below(60)) - 59);
    for (float& x : x_)
      x = dtype_ == f16    ? static_cast<float>(Half(x))
          : dtype_ == bf16 ? static_cast<float>(BFloat16(x))
                           : x;
    for_each_set([this] {
      const std::vector<float> got = answer(1, Precision::f32);
      EXPECT_EQ(test::bits(got), test::bits(answer(2, Precision::f32)));
      check_exact(got);
    });
  }
  bool is_in_tiles() const { return is_in_tiles_; }

 private:
  void choose() {
    packing_ = static_cast<Packing>(below(4));
    n_ = chance(3) ? 0 : 1 + below(50);
    k_ = chance(3) ? 0 : 1 + below(chance(50) ? 40 : chance(95) ? 300 : 3000);
    constexpr int64_t kGroups[] = {32, 64, 128};
    group_ = chance(40) ? kGroups[below(3)] : chance(30) ? std::max<int64_t>(1, k_) : 1 + below(70);
    groups_ = (k_ + group_ - 1) / group_;
    has_offsets_ = chance(40);
    fill();
  }
  template <class F>
  void for_each_set(const F& f) {
    const Isa best = chosen_isa();
    for (const Isa isa : kIsas) {
      if (!supports(isa) || (isa < best && !chance(30))) continue;
      SCOPED_TRACE(to_string(isa));
      limit_isa(isa);
      f();
    }
    limit_isa(best);
  }
  int64_t rows() const { return packing_ == Packing::rows ? (n_ + 1) / 2 : n_; }
  int64_t bytes() const {
    return packing_ == Packing::halves || packing_ == Packing::pairs ? (k_ + 1) / 2 : k_;
  }
  void fill() {
    levels_.resize(static_cast<size_t>(rows() * bytes()));
    for (int8_t& level : levels_)
      level = static_cast<int8_t>(chance(10) ? (chance(50) ? -128 : 127) : below(256) - 128);
    scales_.resize(static_cast<size_t>(n_ * groups_));
    for (float& scale : scales_) scale = static_cast<float>(below(1000) - 500) / 1000;
    has_half_scales_ = chance(50);
    if (has_half_scales_)
      for (float& scale : scales_) scale = static_cast<float>(Half(scale));
    offsets_.resize(scales_.size());
    for (float& offset : offsets_) offset = static_cast<float>(below(2001) - 1000) / 100;
    x_.resize(static_cast<size_t>(m_ * k_));
    const float size = chance(10) ? 1e-38f : chance(10) ? 1e30f : 1;
    for (float& x : x_) {
      x = static_cast<float>(below(2001) - 1000) / 1000 * size;
      if (chance(5)) x = 0;
    }
    for (int64_t begin = 0; begin < m_ * k_; begin += kBlock)
      if (chance(10))
        std::fill(x_.begin() + begin, x_.begin() + std::min(m_ * k_, begin + kBlock), 0.0f);
    if (chance(10) && !x_.empty())
      x_[static_cast<size_t>(below(m_ * k_))] = chance(50) ? NAN : -HUGE_VALF;
    is_turned_ = chance(20);
  }
  int level(int64_t i, int64_t j) const {
    int64_t row = i, byte = j;
    bool high = false;
    if (packing_ == Packing::rows && i >= rows()) row -= rows(), high = true;
    if (packing_ == Packing::halves && j >= bytes()) byte -= bytes(), high = true;
    if (packing_ == Packing::pairs) byte = j / 2, high = j % 2 != 0;
    const int value = levels_[static_cast<size_t>(row * bytes() + byte)];
    if (packing_ == Packing::bytes) return value;
    return high ? value >> 4 : ((value & 15) ^ 8) - 8;
  }

  // A constant [rows, columns], which may be a view of its transpose (`turned`).
  template <class T>
  Value constant(Graph& g, const char* name, const std::vector<T>& data, int64_t rows,
                 int64_t columns) {
    if (!is_turned_) return g.buffer(name, must(TensorData::copy_of(view(data, {rows, columns}))));
    std::vector<T> turned(data.size());
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        turned[static_cast<size_t>(j * rows + i)] = data[static_cast<size_t>(i * columns + j)];
    return permute(g.buffer(name, must(TensorData::copy_of(view(turned, {columns, rows})))),
                   {1, 0});
  }
  std::vector<float> answer(int threads, Precision precision) {
    Graph g;
    const Value x = g.input("x", f32, {m_, k_});
    const Value levels = constant(g, "levels", levels_, rows(), bytes());
    std::vector<Half> halves;
    for (const float scale : scales_) halves.push_back(Half(scale));
    const Value scales = has_half_scales_ ? constant(g, "scales", halves, n_, groups_)
                                          : constant(g, "scales", scales_, n_, groups_);
    const Value offsets = has_offsets_ ? constant(g, "offsets", offsets_, n_, groups_) : Value();
    g.output("y", g.call("quantized_linear", {x, levels, scales, offsets},
                         {{"packing", std::string(to_string(packing_))},
                          {"group", group_},
                          {"x_dtype", std::string(to_string(dtype_))}}));
    EXPECT_TRUE(g.status().ok()) << g.status().message();
    Session session =
        must(Session::create(must(Model::from_graph(std::move(g))),
                             {.threads = threads, .precision = precision, .profile = true}));
    EXPECT_TRUE(session.set_input(0, view(x_, {m_, k_})).ok());
    must(session.run());
    for (const ProfileRow& row : session.profile()) is_in_tiles_ |= row.kernel == "level_tiles";
    const Tensor y = must(session.output(0));
    return {y.as<float>(), y.as<float>() + y.count()};
  }

  void check(const std::vector<float>& got) {
    ASSERT_EQ(static_cast<int64_t>(got.size()), m_ * n_);
    for (int64_t row = 0; row < m_; ++row) {
      const float* const x = x_.data() + row * k_;
      const Rounded r = rounded(x, k_);
      for (int64_t i = 0; i < n_; ++i) {
        double sum = 0, size = 0, exact = 0, half_levels = 0;
        for (int64_t j = 0; j < k_; ++j) {
          const auto at = static_cast<size_t>(i * groups_ + j / group_);
          const double scaled = level(i, j) * static_cast<double>(scales_[at]),
                       offset = has_offsets_ ? static_cast<double>(offsets_[at]) : 0,
                       weight = scaled + offset;
          const auto number = static_cast<size_t>(j);
          sum += weight * r.numbers[number];
          size += (std::abs(scaled) + std::abs(offset)) * 127 * r.scales[number];
          exact += weight * x[j];
          half_levels += std::abs(weight) * r.scales[number] / 2;
        }
        const double y = got[static_cast<size_t>(row * n_ + i)];
        if (std::isnan(sum)) {
          ASSERT_TRUE(std::isnan(y));
          continue;
        }
        ASSERT_NEAR(y, sum, 1e-6 * size + 1e-36) << "row " << row << ", column " << i;
        ASSERT_NEAR(y, exact, half_levels * 1.001 + 1e-6 * size + 1e-29);
      }
    }
  }

  void check_exact(const std::vector<float>& got) {
    ASSERT_EQ(static_cast<int64_t>(got.size()), m_ * n_);
    for (int64_t row = 0; row < m_; ++row)
      for (int64_t i = 0; i < n_; ++i) {
        double exact = 0, size = 0;
        for (int64_t j = 0; j < k_; ++j) {
          const auto at = static_cast<size_t>(i * groups_ + j / group_);
          const double scaled = level(i, j) * double{scales_[at]},
                       offset = has_offsets_ ? double{offsets_[at]} : 0,
                       x = double{x_[static_cast<size_t>(row * k_ + j)]};
          exact += (scaled + offset) * x;
          size += (std::abs(scaled) + std::abs(offset)) * std::abs(x);
        }
        const float y = got[static_cast<size_t>(row * n_ + i)];
        if (std::isfinite(static_cast<float>(exact)))
          ASSERT_NEAR(double{y}, exact, 2e-6 * size + 1e-37) << "row " << row << ", column " << i;
        else
          ASSERT_FALSE(std::isfinite(y)) << "row " << row << ", column " << i;
      }
  }

  Packing packing_ = Packing::bytes;
  DType dtype_ = f32;
  bool is_in_tiles_ = false;
  int64_t m_ = 0, n_ = 0, k_ = 0, group_ = 1, groups_ = 0;
  bool has_offsets_ = false, has_half_scales_ = false, is_turned_ = false;
  std::vector<int8_t> levels_;
  std::vector<float> scales_, offsets_, x_;
};

TEST(RoundedProducts, AreThoseOfTheRoundedInput) {
  test::emulate_instructions();
  test::for_cases(1500, [](uint64_t i) { Product(i).run(); });
}

TEST(RoundedProducts, OfManyRowsAreThoseInF64) {
  int64_t in_tiles = 0;
  test::for_cases(250, [&](uint64_t i) {
    Product each(i + 30000);
    each.run_exact();
    in_tiles += each.is_in_tiles();
  });
  if (kernels::tile_pair_table() != nullptr && test::case_count(250) >= 250) {
    EXPECT_GT(in_tiles, 40);
  }
}

// A session with Precision::i8 rounds only the inputs of products with quantized weights.
TEST(RoundedProducts, OfASession) {
  Graph g;
  const Value x = g.input("x", f32, {"n", 64});
  const Value up = linear(x, g.parameter("up", f32, {96, 64}, init::uniform(-1, 1, 1)));
  g.output("y", linear(relu(up), g.parameter("down", f32, {16, 96}, init::uniform(-1, 1, 2))));
  g.output("up", up);
  const Model model = must(Model::from_graph(std::move(g)));
  const Model quantized =
      must(quantize(model, {.bits = 4, .group = 32, .keep = {"down"}, .least = 0})).model;
  const auto run = [](const Model& of, Precision precision) {
    Session session = must(Session::create(of, {.threads = 1, .precision = precision}));
    std::vector<float> input(2 * 64);
    for (size_t i = 0; i < input.size(); ++i) input[i] = std::sin(static_cast<float>(i));
    EXPECT_TRUE(session.set_input(0, view(input, {2, 64})).ok());
    EXPECT_TRUE(session.run().ok());
    std::vector<float> all;
    for (int k : {0, 1}) {
      const Tensor y = must(session.output(k));
      all.insert(all.end(), y.as<float>(), y.as<float>() + y.count());
    }
    return all;
  };
  EXPECT_EQ(run(model, Precision::i8), run(model, Precision::f32));
  const std::vector<float> exact = run(quantized, Precision::f32),
                           low = run(quantized, Precision::i8);
  double off = 0, all = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    off += (exact[i] - low[i]) * (exact[i] - low[i]);
    all += exact[i] * exact[i];
  }
  EXPECT_GT(off, 0);
  EXPECT_LT(std::sqrt(off / all), 0.01);
}

}  // namespace
}  // namespace hg
