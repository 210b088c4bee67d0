// SPDX-License-Identifier: Apache-2.0
// Every sample row of every op, called eagerly with random layouts of inputs and outputs: dense,
// with gaps, transposed, reversed, repeated, at odd addresses, over an input, across an input. The
// expected result is that of a session of the same op on dense copies, which op_test compares with
// plain loops. Case 0 is all dense.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "hg/executor.h"
#include "hg/hg.h"
#include "tests/support/elements.h"
#include "tests/support/random_case.h"
#include "tests/ops/sample_case.h"

namespace hg::test {
namespace {

// Copies `from` into memory with another layout.
Array laid_out(const Tensor& from, int kind, Chance& chance) {
  const int rank = from.rank();
  Sizes shape = from.shape;
  std::vector<int> order(rank);
  for (int d = 0; d < rank; ++d) order[size_t(d)] = d;
  const int64_t step = kind == 1 ? 2 : 1;
  if (kind == 2) std::reverse(order.begin(), order.end());
  int64_t stride = step;
  Sizes strides(rank, 1);
  for (int k = rank - 1; k >= 0; --k) {
    const int d = order[size_t(k)];
    strides[d] = stride;
    stride *= std::max<int64_t>(shape[d], 1) + (kind == 1 ? chance.below(2) : 0);
  }
  const int64_t skip = kind == 4 ? 1 : 0;
  const auto memory = std::make_shared<std::vector<std::max_align_t>>(
      static_cast<size_t>((stride + skip + 1) * size_of(from.dtype)) / sizeof(std::max_align_t) +
      1);
  Tensor to{reinterpret_cast<char*>(memory->data()) + skip * size_of(from.dtype), from.dtype, shape,
            strides};
  if (kind == 3 && from.count() > 0)  // reversed
    for (int d = 0; d < rank; ++d) {
      to.data = to.as<char>() + (shape[d] - 1) * strides[d] * size_of(from.dtype);
      to.strides[d] = -strides[d];
    }
  copy_elements(from, to);
  return Array::wrap(to, memory);
}
constexpr int kLayouts = 5;

// Repeats one element along a dim, by a stride of 0.
Array with_repeats(Tensor& from, Chance& chance) {
  const int dim = chance.below(from.rank());
  Tensor first = from;
  first.shape[dim] = std::min<int64_t>(1, from.shape[dim]);
  Array small = *Array::copy_of(first);
  Tensor wide = small.tensor();
  wide.shape[dim] = from.shape[dim];
  wide.strides[dim] = 0;
  const Array dense = *Array::copy_of(wide);
  copy_elements(dense, from);  // the session's input
  return Array::wrap(wide, std::make_shared<Array>(small));
}

struct Call {
  const Sample* sample;
  DType floats;
  uint64_t seed;
  std::string text() const { return str_cat(sample->op, " in ", floats, ", ", repeated(seed)); }
};

void expect_equal(const Array& got, const Answer& expected, const Call& call, size_t output) {
  ASSERT_EQ(got.dtype(), expected.dtype) << call.text();
  ASSERT_EQ(got.shape(), expected.shape) << call.text();
  const Array dense = *Array::copy_of(got);
  const std::vector<double> values = read_all(dense.tensor());
  const double tolerance = tolerance_of(*call.sample, got.dtype());
  for (size_t i = 0; i < values.size(); ++i) {
    const double a = values[i], b = expected.values[i];
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    ASSERT_LE(std::abs(a - b), tolerance * (1 + std::abs(b)))
        << call.text() << ": output " << output << ", element " << i;
  }
}

// Memory for a result: dense, with gaps, the memory of an input, or overlapping an input.
Array place_for(const Answer& answer, std::vector<Array>& inputs, Chance& chance) {
  const int kind = chance.below(4);
  const int64_t bytes = answer.shape.count() * size_of(answer.dtype);
  if (kind >= 2)
    for (Array& input : inputs) {
      if (input.is_empty() || input.is_read_only() || bytes == 0) continue;
      if (kind == 2 && input.dtype() == answer.dtype && input.shape() == answer.shape &&
          std::find(input.strides().begin(), input.strides().end(), 0) == input.strides().end())
        return input;
      if (kind == 3 && input.is_contiguous() && input.bytes() > 0) {
        const auto memory = std::make_shared<std::vector<std::max_align_t>>(
            static_cast<size_t>(2 * input.bytes() + bytes) / sizeof(std::max_align_t) + 2);
        char* const base = reinterpret_cast<char*>(memory->data());
        const int64_t shift =
            chance.below(static_cast<int>(input.bytes() / size_of(input.dtype()))) *
            size_of(input.dtype()) / 16 * 16;
        const Tensor moved = view(static_cast<void*>(base + shift), input.dtype(), input.shape());
        copy_elements(input, moved);
        input = Array::wrap(moved, memory);
        return Array::wrap(view(static_cast<void*>(base), answer.dtype, answer.shape), memory);
      }
    }
  const Result<TensorData> zeros = TensorData::allocate(answer.dtype, answer.shape);
  return laid_out(zeros->tensor, kind == 1 ? 1 : 0, chance);
}

void check(Executor& ex, const Call& call) {
  Chance chance(call.seed);
  const Result<std::unique_ptr<Case>> built = build(*call.sample, call.floats);
  ASSERT_TRUE(built.ok()) << call.text() << ": " << built.status().message();
  Case& c = **built;
  const Node& node = c.graph.nodes()[c.node];
  const bool is_plain = call.seed == 0;
  std::vector<Array> inputs;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    Tensor& tensor = c.inputs[i].data.tensor;
    const bool is_constant = c.graph.constant_of(c.arguments[i].id()) != nullptr;
    if (!is_plain && (node.op->def.traits & kElementwise) && tensor.rank() > 0 && !is_constant &&
        !is_complex(tensor.dtype) && chance.below(4) == 0)
      inputs.push_back(with_repeats(tensor, chance));
    else
      inputs.push_back(laid_out(tensor, is_plain ? 0 : chance.below(kLayouts), chance));
  }
  Result<std::vector<Answer>> expected = run(c, {});
  ASSERT_TRUE(expected.ok()) << call.text() << ": " << expected.status().message();
  // A graph gives bool.
  if ((node.op->name() == "all" || node.op->name() == "any") && inputs[0].dtype() == u8)
    (*expected)[0].dtype = u8;
  NamedAttrs attrs;
  for (size_t i = 0; i < node.attrs.size(); ++i)
    attrs.push_back({node.op->signature.attributes[i].name, node.attrs[i]});
  std::vector<Array> outs;
  if (!is_plain && !(node.op->def.traits & kDataDependent) && expected->size() == 1 &&
      chance.below(2) == 0)
    outs.push_back(place_for((*expected)[0], inputs, chance));
  std::vector<Operand> operands;
  for (const int k : c.input_of)
    operands.push_back(k >= 0 ? Operand(inputs[size_t(k)]) : Operand());
  ex.seed(0);
  if (!outs.empty()) {
    const Status status = ex.into(outs[0]).call(node.op->name(), operands, attrs).status();
    ASSERT_TRUE(status.ok()) << call.text() << ": " << status.message();
    expect_equal(outs[0], (*expected)[0], call, 0);
    return;
  }
  const Result<std::vector<Array>> got = ex.calls(node.op->name(), operands, attrs);
  ASSERT_TRUE(got.ok()) << call.text() << ": " << got.status().message();
  ASSERT_EQ(got->size(), expected->size()) << call.text();
  for (size_t k = 0; k < got->size(); ++k) expect_equal((*got)[k], (*expected)[k], call, k);
}

TEST(EagerOps, AgreeWithSessionsInEveryLayout) {
  Executor ex = *Executor::create({.threads = 2, .most_plans = 64});
  const std::vector<Sample> samples = all_samples();
  for_cases(2, [&](uint64_t seed) {
    for (const Sample& sample : samples) {
      const Op* const op = Registry::built_in().find(sample.op);
      if (op->def.traits & kControl) continue;
      const std::vector<DType> floats =
          sample.has_floats() ? sample.floats : std::vector<DType>{f32};
      Chance chance(seed);
      check(ex, {&sample, floats[size_t(chance.below(int(floats.size())))], seed});
      if (testing::Test::HasFatalFailure()) return;
    }
  });
  EXPECT_GT(ex.counters().evicted, 0);
}

}  // namespace
}  // namespace hg::test
