// SPDX-License-Identifier: Apache-2.0
// Elementwise ops of tensors that are permuted, sliced and expanded, beside a plain loop: whether
// elements are read along a line, across lines or in tiles, they are the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "tests/elements.h"
#include "tests/must.h"
#include "tests/random_case.h"

namespace hg::test {
namespace {

// What an input's elements are in terms of the result's dims.
struct Operand {
  TensorData data;
  std::vector<double> values;
  int64_t offset = 0;
  Sizes strides;
};

class Case : private Chance {
 public:
  using Chance::Chance;
  void run();

 private:
  // One or two long dims and some short ones: at most some ten thousand elements.
  void choose_shape() {
    int64_t room = 20000;
    for (int64_t rank = 1 + below(4); rank > 0; --rank) {
      const int64_t size = 1 + below(std::min<int64_t>(room, chance(30)   ? 700
                                                             : chance(50) ? 40
                                                                          : 5));
      shape_.push_back(chance(1) ? 0 : size);
      room = std::max<int64_t>(1, room / size);
    }
  }
  Value operand(Graph& g, const std::string& name);

  static constexpr const char* kNames[] = {"a", "b", "c"};
  Sizes shape_;
  DType dtype_ = f32;
  std::vector<Operand> operands_;
};

// A view of shape_ of an input of the graph.
Value Case::operand(Graph& g, const std::string& name) {
  const int rank = shape_.rank();
  // Dim d of the result is dim order[d] of the input.
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = rank - 1; i > 0 && chance(80); --i)
    std::swap(order[size_t(i)], order[size_t(below(i + 1))]);
  Sizes whole(rank, 1), first(rank, 0), step(rank, 1);
  for (int d = 0; d < rank; ++d) {
    const int at = static_cast<int>(order[size_t(d)]);
    if (chance(12)) {
      step[at] = 0;  // expanded
      continue;
    }
    if (chance(15)) {
      first[at] = below(3);
      step[at] = 1 + below(2);
    }
    whole[at] = first[at] + shape_[d] * step[at];
  }
  Operand operand{*TensorData::allocate(dtype_, whole), {}, 0, {}};
  const Tensor tensor = operand.data.tensor;
  for (int64_t i = 0; i < whole.count(); ++i)
    write_element(tensor, i, static_cast<double>(below(8)));
  operand.values = read_all(tensor);
  const Sizes dense = contiguous_strides(whole);
  for (int d = 0; d < rank; ++d) {
    const int at = static_cast<int>(order[size_t(d)]);
    operand.offset += dense[at] * first[at];
    operand.strides.push_back(dense[at] * step[at]);
  }
  operands_.push_back(std::move(operand));

  Value x = g.input(name, dtype_, {whole.begin(), whole.end()});
  for (int d = 0; d < rank; ++d)
    if (step[d] != 0 && (first[d] != 0 || step[d] != 1))
      x = slice(x, d, first[d], whole[d], step[d]);
  x = permute(x, {order.begin(), order.end()});
  return expand(x, {shape_.begin(), shape_.end()});
}

void Case::run() {
  choose_shape();
  constexpr DType kAll[] = {f32, f64, f16, bf16, i64, i32, DType::i16, DType::i8, DType::u8};
  dtype_ = kAll[below(9)];
  Graph g;
  std::vector<Value> x;
  for (const char* name : kNames) x.push_back(operand(g, name));
  const bool is_program = chance(50);
  const Value product = mul(x[0], x[1]);
  g.output("y", is_program ? add(product, x[2]) : product);
  Session session = must(Session::create(must(Model::from_graph(std::move(g))),
                                         {.threads = static_cast<int>(1 + below(3))}));
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_TRUE(session.set_input(kNames[i], operands_[i].data.tensor).ok());
  ASSERT_TRUE(session.run().ok());
  const std::vector<double> y = read_all(*session.output("y"));
  ASSERT_EQ(static_cast<int64_t>(y.size()), shape_.count());
  for (int64_t i = 0; i < shape_.count(); ++i) {
    double read[3];
    for (size_t k = 0; k < 3; ++k) {
      int64_t from = operands_[k].offset, rest = i;
      for (int d = shape_.rank() - 1; d >= 0; --d) {
        from += rest % shape_[d] * operands_[k].strides[d];
        rest /= shape_[d];
      }
      read[k] = operands_[k].values[size_t(from)];
    }
    ASSERT_EQ(y[size_t(i)], read[0] * read[1] + (is_program ? read[2] : 0)) << "element " << i;
  }
}

TEST(StridedRandom, ElementsAreThoseOfAPlainLoop) {
  for_cases(1000, [](uint64_t i) { Case(i + 7000).run(); });
}

}  // namespace
}  // namespace hg::test
