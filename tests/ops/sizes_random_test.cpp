// SPDX-License-Identifier: Apache-2.0
// Ops whose kernels split their work at their own widths, at random sizes: every CPU kernel, with
// dense inputs and inputs with gaps, against the loops of kernels/reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "hg/hg.h"
#include "hg/kernel.h"
#include "tests/support/must.h"
#include "tests/support/random_case.h"
#include "tests/ops/sample_case.h"

namespace hg::test {
namespace {

class Samples : private Chance {
 public:
  using Chance::Chance;
  Sample next();

 private:
  // Mostly small sizes, sometimes 0, or more than a kernel handles at once.
  int64_t size(int64_t most) { return chance(3) ? 0 : 1 + below(chance(40) ? most : 9); }
  SampleInput indices(const Sizes& shape, int64_t low, int64_t high) {
    SampleInput input{.dtype = i64, .shape = shape};
    for (int64_t i = 0; i < shape.count(); ++i)
      input.values.push_back(static_cast<double>(low + below(high - low)));
    return input;
  }
  // A few elements are NaN or infinite.
  SampleInput numbers(const Sizes& shape, int special_percent) {
    SampleInput input{.shape = shape};
    constexpr double kSpecial[] = {NAN, HUGE_VAL, -HUGE_VAL, 0, -0.0, 0.5, -2.5};
    for (int64_t i = 0; i < shape.count(); ++i)
      input.values.push_back(chance(special_percent) ? kSpecial[below(7)]
                                                     : static_cast<double>(below(4001)) / 500 - 4);
    return input;
  }
  Sample distances();
  Sample blocks();
  Sample picks();
  Sample rounded();
  Sample repeated();
  Sample integer_products();
  Sample lines();
  Sample moments();
  Sample attention();
};

Sample Samples::distances() {
  constexpr double kPowers[] = {0, 1, 2, 3, std::numeric_limits<double>::infinity()};
  const int64_t k = size(150), batch = 1 + below(3);
  const Sizes a = {batch, size(20), k}, b = {chance(50) ? 1 : batch, size(140), k};
  const int special = chance(10) ? 2 : 0;
  return {.op = "cdist",
          .inputs = {numbers(a, special), numbers(b, special)},
          .attrs = {{"p", kPowers[below(5)]}}};
}

// im2col, and col2im of as many columns.
Sample Samples::blocks() {
  int64_t kernel[2], dilation[2], padding[2], stride[2], image[2], count[2];
  for (int d = 0; d < 2; ++d) {
    kernel[d] = 1 + below(4);
    dilation[d] = 1 + below(3);
    padding[d] = below(4);
    stride[d] = 1 + below(4);
    const int64_t reach = dilation[d] * (kernel[d] - 1) + 1;
    image[d] =
        std::max<int64_t>(1, reach - 2 * padding[d]) + below(d == 1 && chance(5) ? 1100 : 12);
    count[d] = (image[d] + 2 * padding[d] - reach) / stride[d] + 1;
  }
  const auto pair = [](const int64_t* of) { return std::vector<Dim>{of[0], of[1]}; };
  NamedAttrs attrs = {{"kernel_size", pair(kernel)},
                      {"dilation", pair(dilation)},
                      {"padding", pair(padding)},
                      {"stride", pair(stride)}};
  const int64_t n = 1 + below(2), channels = 1 + below(3);
  if (chance(50))
    return {
        .op = "im2col", .inputs = {numbers({n, channels, image[0], image[1]}, 0)}, .attrs = attrs};
  attrs.push_back({"output_size", pair(image)});
  return {.op = "col2im",
          .inputs = {numbers({n, channels * kernel[0] * kernel[1], count[0] * count[1]}, 0)},
          .attrs = attrs};
}

Sample Samples::picks() {
  Sizes x;
  for (int64_t rank = 1 + below(3); rank > 0; --rank) x.push_back(1 + below(chance(20) ? 70 : 6));
  const int dim = static_cast<int>(below(x.rank()));
  if (chance(30))
    return {.op = "index_select",
            .inputs = {numbers(x, 0), indices({size(700)}, 0, x[dim])},
            .attrs = {{"dim", dim}}};
  if (chance(40)) {
    Sizes shape;
    for (int d = 0; d < x.rank(); ++d) shape.push_back(d == dim ? size(300) : 1 + below(x[d]));
    return {.op = "gather",
            .inputs = {numbers(x, 0), indices(shape, 0, x[dim])},
            .attrs = {{"dim", dim}}};
  }
  Sample sample{.op = "index", .inputs = {numbers(x, 0)}};
  const Sizes shape = chance(50) ? Sizes{size(700)} : Sizes{1 + below(4), size(200)};
  for (int64_t d = 0, dims = 1 + below(x.rank()); d < dims; ++d)
    sample.inputs.push_back(indices(shape, -x[static_cast<int>(d)], x[static_cast<int>(d)]));
  return sample;
}

// Kernels that are written without branches or calls.
Sample Samples::rounded() {
  constexpr std::string_view kOps[] = {"floor",     "ceil",       "trunc",      "round",
                                       "threshold", "softshrink", "hardshrink", "nan_to_num"};
  const std::string_view op = kOps[below(8)];
  Sample sample{.op = op, .inputs = {numbers({size(3), size(600)}, 20)}};
  if (op == "threshold") sample.attrs = {{"threshold", 0.5}, {"value", -7.0}};
  if (op == "nan_to_num") sample.attrs = {{"nan", 3.0}, {"posinf", 9.0}, {"neginf", -5.0}};
  return sample;
}

// An operand that repeats after some elements of the other, or whose elements repeat.
Sample Samples::repeated() {
  Sizes whole, part;
  for (int64_t rank = 1 + below(3); rank > 0; --rank)
    whole.push_back(1 + below(chance(30) ? 90 : 7));
  for (int d = static_cast<int>(below(whole.rank() + 1)); d < whole.rank(); ++d)
    part.push_back(whole[d]);
  if (chance(30)) part.insert(0, 1);
  if (chance(40)) {
    whole.push_back(size(400));
    part = whole;
    part[part.rank() - 1] = 1;
  }
  const bool swapped = chance(50);
  constexpr std::string_view kOps[] = {"add", "sub", "mul", "div", "maximum", "minimum", "eq",
                                       "ne",  "lt",  "le",  "gt",  "ge",      "atan2"};
  const std::string_view op = kOps[below(13)];
  const int special = op == "atan2" ? 0 : 10;
  return {.op = op,
          .inputs = {numbers(swapped ? part : whole, special),
                     numbers(swapped ? whole : part, special)}};
}

// Ops along one dim, of which neighboring lines may be computed together.
Sample Samples::lines() {
  const Sizes x = {1 + below(4), 1 + below(chance(50) ? 200 : 9), 1 + below(chance(50) ? 200 : 9)};
  const int64_t dim = below(3);
  Sample sample{.op = chance(50) ? "amax" : "amin", .inputs = {numbers(x, chance(30) ? 5 : 0)}};
  switch (below(3)) {
    case 0:
      sample.attrs = {{"dim", std::vector<Dim>{dim}}};
      break;
    case 1:
      sample.op = chance(50) ? "softmax" : "log_softmax";
      sample.inputs = {numbers(x, 0)};
      sample.attrs = {{"dim", dim}};
      break;
    default:
      sample.op = "roll";
      sample.attrs = {{"dims", std::vector<Dim>{dim}}, {"shifts", std::vector<Dim>{below(9)}}};
  }
  return sample;
}

// Sums of products that their dtype represents.
Sample Samples::integer_products() {
  const int64_t k = size(chance(30) ? 700 : 80), batch = 1 + below(3);
  const Sizes a = {batch, size(40), k}, b = {batch, k, chance(30) ? 1 : size(90)};
  const DType dtype = chance(50) ? i64 : i32;
  const auto whole = [&](const Sizes& shape) {
    SampleInput input{.dtype = dtype, .shape = shape};
    const double large = dtype == i64 ? 0x1p20 : 0;
    for (int64_t i = 0; i < shape.count(); ++i)
      input.values.push_back(static_cast<double>(below(2001) - 1000) + (chance(10) ? large : 0));
    return input;
  };
  return {.op = "matmul", .inputs = {whole(a), whole(b)}};
}

Sample Samples::moments() {
  const int64_t channels = 1 + below(chance(30) ? 300 : 9);
  const Sizes x =
      chance(70) ? Sizes{8 + below(40), channels} : Sizes{2 + below(4), channels, 5 + below(20)};
  Sample sample{.op = "batch_norm", .inputs = {numbers(x, 0)}};
  for (int i = 0; i < 4; ++i)
    sample.inputs.push_back({.shape = {channels}, .low = 0.5, .high = 2, .given = true});
  sample.attrs = {{"training", true}};
  return sample;
}

// Mostly few queries; heads that share keys, keys that fill several blocks and parts, and masks
// that broadcast.
Sample Samples::attention() {
  const int64_t shared = 1 + below(4), key_heads = 1 + below(3), batch = 1 + below(2);
  const int64_t times = chance(80) ? size(9) : size(130),
                keys = chance(30) ? size(1500) : size(300);
  const int64_t dim = chance(3) ? 0 : 1 + below(chance(20) ? 300 : 40);
  const int64_t value_dim = chance(50) ? dim : size(70);
  const int rank = static_cast<int>(2 + below(3));
  const Sizes lead = {batch, key_heads * shared}, key_lead = {batch, key_heads};
  const auto shape = [&](const Sizes& leading, int64_t rows, int64_t columns) {
    Sizes all;
    for (int i = 4 - rank; i < 2; ++i) all.push_back(leading[i]);
    all.push_back(rows);
    all.push_back(columns);
    return all;
  };
  Sample sample{.op = "attention",
                .inputs = {{.shape = shape(lead, times, dim)},
                           {.shape = shape(key_lead, keys, dim)},
                           {.shape = shape(key_lead, keys, value_dim)}}};
  if (rank > 2 && chance(30)) sample.attrs.push_back({"scale", 0.25});
  if (chance(30)) sample.attrs.push_back({"causal", true});
  if (chance(60)) {
    Sizes mask = shape(lead, times, keys);
    for (int i = 0; i < rank; ++i)
      if (chance(i == rank - 1 ? 10 : 40)) mask[i] = 1;
    while (mask.rank() > 1 && mask[0] == 1 && chance(50)) mask.erase(0);
    SampleInput input{.shape = mask};
    if (chance(50)) {
      input.dtype = boolean;
      for (int64_t i = 0; i < mask.count(); ++i) input.values.push_back(chance(70) ? 1 : 0);
    } else {
      for (int64_t i = 0; i < mask.count(); ++i)
        input.values.push_back(chance(20) ? -HUGE_VAL : static_cast<double>(below(9)) / 2 - 2);
    }
    sample.inputs.push_back(std::move(input));
  }
  if (chance(25)) {
    sample.op = "attention_grad";
    if (sample.inputs.size() == 3) sample.inputs.push_back({.shape = {}, .given = false});
    sample.inputs.push_back({.shape = shape(lead, times, value_dim)});
  }
  return sample;
}

Sample Samples::next() {
  switch (below(9)) {
    case 0:
      return distances();
    case 1:
      return blocks();
    case 2:
      return picks();
    case 3:
      return rounded();
    case 4:
      return repeated();
    case 5:
      return attention();
    case 6:
      return integer_products();
    case 7:
      return lines();
    default:
      return moments();
  }
}

void check(const Sample& sample, DType floats, bool strided, int threads) {
  SCOPED_TRACE(str_cat(sample.op, " of ", floats, strided ? ", strided" : ""));
  const std::unique_ptr<Case> c = must(build(sample, floats));
  for (const KernelDef* kernel : Registry::built_in().kernels(sample.op, Device::cpu)) {
    SessionOptions options;
    options.threads = threads;
    options.kernels = {str_cat(sample.op, "=", kernel->name)};
    const Result<std::vector<Answer>> answers = run(*c, options, strided);
    if (!answers.ok() && answers.status().code() == Code::unsupported) continue;
    ASSERT_TRUE(answers.ok()) << kernel->name << ": " << answers.status().message();
    const std::vector<std::vector<double>> expected = expected_of(*c, *answers);
    for (size_t k = 0; k < expected.size(); ++k) {
      const double tolerance = tolerance_of(sample, (*answers)[k].dtype);
      for (size_t i = 0; i < expected[k].size(); ++i) {
        const double y = (*answers)[k].values[i], right = expected[k][i];
        if (y == right || (std::isnan(y) && std::isnan(right))) continue;
        ASSERT_LE(std::abs(y - right), tolerance * (1 + std::abs(right)))
            << kernel->name << ", output " << k << ", element " << i << " is " << y << ", not "
            << right;
      }
    }
  }
}

TEST(SizesRandom, KernelsAreThePlainLoops) {
  for_cases(600, [](uint64_t i) {
    const Sample sample = Samples(i + 7000).next();
    Chance pick(i);
    constexpr DType kFloats[] = {f32, f32, f64, f16, bf16};
    check(sample, kFloats[pick.below(5)], pick.chance(50), static_cast<int>(1 + pick.below(3)));
  });
}

}  // namespace
}  // namespace hg::test
