// SPDX-License-Identifier: Apache-2.0
// Elementwise ops and reductions of permuted, sliced and expanded tensors, and reductions of
// overlapping windows, against a plain loop: results are equal whether elements are read along a
// line, across lines or in tiles.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "lib/platform/instruction_set.h"
#include "tests/support/elements.h"
#include "tests/support/must.h"
#include "tests/support/random_case.h"

namespace hg::test {
namespace {

// The elements of an operand, with an offset and strides by the dims of the result.
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

// An input of the graph, as a view with the shape shape_.
Value Case::operand(Graph& g, const std::string& name) {
  const int rank = shape_.rank();
  // Dim d of the result is dim order[d] of the input.
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = rank - 1; i > 0 && chance(80); --i)
    std::swap(order[size_t(i)], order[size_t(below(i + 1))]);
  Sizes whole(rank, 1), first(rank, 0), step(rank, 1);
  const bool is_number = chance(8);
  for (int d = 0; d < rank; ++d) {
    const int at = static_cast<int>(order[size_t(d)]);
    if (is_number || chance(12)) {
      step[at] = 0;  // an expanded dim
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
  limit_isa(kIsas[below(std::size(kIsas))]);
  constexpr DType kAll[] = {f32, f64, f16, bf16, i64, i32, DType::i16, DType::i8, DType::u8};
  dtype_ = kAll[below(9)];
  Graph g;
  std::vector<Value> x;
  for (const char* name : kNames) x.push_back(operand(g, name));
  const bool is_program = chance(50);
  const bool subtracts = chance(30);
  const Value first = subtracts ? sub(x[0], x[1]) : mul(x[0], x[1]);
  g.output("y", is_program ? add(first, x[2]) : first);
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
    const double both = subtracts ? read[0] - read[1] : read[0] * read[1];
    const double whole = both + (is_program ? read[2] : 0);
    const bool wraps = dtype_ == DType::u8;
    ASSERT_EQ(y[size_t(i)], wraps && whole < 0 ? whole + 256 : whole) << "element " << i;
  }
}

// Sums and maxima of windows along the last dim of a strided tensor.
class Windows : private Chance {
 public:
  using Chance::Chance;
  void run() {
    const int64_t lines = 1 + below(9), width = 1 + below(300), gap = chance(50) ? 0 : below(3);
    const int64_t size = 1 + below(std::min<int64_t>(width, 40)), step = 1 + below(40);
    const int64_t count = (width - size) / step + 1;
    constexpr DType kAll[] = {f32, f64, bf16, i64, i32};
    const DType dtype = kAll[below(5)];
    TensorData data = *TensorData::allocate(dtype, {lines, width + gap});
    for (int64_t i = 0; i < data.tensor.count(); ++i)
      write_element(data.tensor, i, static_cast<double>(below(5)));
    const std::vector<double> values = read_all(data.tensor);
    Graph g;
    const Value x = slice(g.input("x", dtype, {lines, width + gap}), 1, gap, width + gap, 1);
    const Value windows = unfold(x, 1, size, step);
    g.output("sum", sum(windows, {2}));
    g.output("mean", mean(cast(windows, f32), {2}));
    g.output("amax", amax(windows, {2}));
    g.output("columns", sum(windows, {1}));
    Session session = must(Session::create(must(Model::from_graph(std::move(g))),
                                           {.threads = static_cast<int>(1 + below(3))}));
    ASSERT_TRUE(session.set_input("x", data.tensor).ok());
    ASSERT_TRUE(session.run().ok());
    const auto result = [&](const char* name) { return read_all(*session.output(name)); };
    const std::vector<double> sums = result("sum"), means = result("mean"), most = result("amax"),
                              columns = result("columns");
    std::vector<double> want_columns(static_cast<size_t>(lines * size));
    for (int64_t line = 0; line < lines; ++line)
      for (int64_t window = 0; window < count; ++window) {
        double total = 0, largest = 0;
        for (int64_t k = 0; k < size; ++k) {
          const double value =
              values[static_cast<size_t>(line * (width + gap) + gap + window * step + k)];
          total += value;
          largest = std::max(largest, value);
          want_columns[static_cast<size_t>(line * size + k)] += value;
        }
        const auto at = static_cast<size_t>(line * count + window);
        ASSERT_EQ(sums[at], total) << "of window " << window << " of line " << line;
        ASSERT_EQ(means[at], static_cast<float>(total / static_cast<double>(size)));
        ASSERT_EQ(most[at], largest);
      }
    if (dtype != bf16) {
      ASSERT_EQ(columns, want_columns);
    }
  }
};

TEST(StridedRandom, ReducedWindowsAreThoseOfAPlainLoop) {
  for_cases(1000, [](uint64_t i) { Windows(i + 7000).run(); });
}

TEST(StridedRandom, ElementsAreThoseOfAPlainLoop) {
  for_cases(1000, [](uint64_t i) { Case(i + 7000).run(); });
}

// Copies of elements of `size` bytes: dims in any order and distance, some backwards, dims of which
// the same element is read repeatedly, and any address.
class Copy : private Chance {
 public:
  using Chance::Chance;
  void run();

 private:
  // The strides of a shape, the place of its first element, and the number of elements in memory.
  struct Layout {
    Sizes strides;
    int64_t first = 0, room = 1;
  };
  Layout layout(const Sizes& shape, bool may_repeat) {
    const int rank = shape.rank();
    Layout of{Sizes(rank, 0)};
    std::vector<int> order(static_cast<size_t>(rank));
    std::iota(order.begin(), order.end(), 0);
    for (int i = rank - 1; i > 0 && chance(60); --i)
      std::swap(order[size_t(i)], order[size_t(below(i + 1))]);
    for (int i = rank - 1; i >= 0; --i) {
      const int d = order[size_t(i)];
      if (may_repeat && chance(10)) continue;
      const int64_t stride = of.room * (chance(15) ? 1 + below(3) : 1);
      of.room = stride * std::max<int64_t>(1, shape[d]);
      const bool backwards = chance(12);
      of.strides[d] = backwards ? -stride : stride;
      if (backwards && shape[d] > 0) of.first += stride * (shape[d] - 1);
    }
    return of;
  }
};

void Copy::run() {
  constexpr DType kTypes[] = {u8, f16, f32, i64, c128};
  const DType dtype = kTypes[below(std::size(kTypes))];
  const auto bytes = static_cast<size_t>(size_of(dtype));
  Sizes shape;
  for (int64_t rank = below(6), room = chance(5) ? 300000 : 4000; rank > 0; --rank) {
    shape.push_back(chance(2) ? 0 : 1 + below(std::min<int64_t>(room, chance(30) ? 600 : 9)));
    room = std::max<int64_t>(1, room / std::max<int64_t>(1, shape.back()));
  }
  const Layout from = layout(shape, true), to = layout(shape, false);
  const auto off = static_cast<size_t>(below(3));
  std::vector<unsigned char> source(size_t(from.room) * bytes + off),
      target(size_t(to.room) * bytes + off);
  for (unsigned char& each : source) each = static_cast<unsigned char>(below(256));
  for (unsigned char& each : target) each = static_cast<unsigned char>(below(256));
  std::vector<unsigned char> expected = target;
  for (int64_t i = 0; i < shape.count(); ++i) {
    int64_t a = from.first, b = to.first;
    for (int64_t d = shape.rank() - 1, rest = i; d >= 0; --d) {
      const int at = static_cast<int>(d);
      a += rest % shape[at] * from.strides[at];
      b += rest % shape[at] * to.strides[at];
      rest /= shape[at];
    }
    std::memcpy(&expected[off + size_t(b) * bytes], &source[off + size_t(a) * bytes], bytes);
  }
  copy_elements(
      ConstTensor(source.data() + off + size_t(from.first) * bytes, dtype, shape, from.strides),
      Tensor{target.data() + off + size_t(to.first) * bytes, dtype, shape, to.strides});
  ASSERT_EQ(target, expected) << str_cat(shape, " ", from.strides, " ", to.strides);
}

TEST(StridedRandom, CopiesTakeEachElement) {
  for_cases(2000, [](uint64_t i) { Copy(i + 7000).run(); });
}

}  // namespace
}  // namespace hg::test
