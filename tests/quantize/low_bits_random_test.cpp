// SPDX-License-Identifier: Apache-2.0
// Layers that read levels of 8 and 4 bits, as the pass `low_bits` forms them, beside the same
// layers with widened weights, for every instruction set and number of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "lib/graph/element.h"
#include "lib/platform/instruction_set.h"
#include "lib/quantize/rounding.h"
#include "lib/table/cell.h"
#include "tests/support/must.h"
#include "tests/support/random_case.h"

namespace hg {
namespace {

// Weights of files with zero points or minimums: random levels, scales and offsets, which a linear,
// a matmul, an embedding, a recurrent layer or a convolution reads. Up to 8 rows of products, 16
// with AVX-512 but without AMX, have the bits of each row alone.
class WithOffsets : test::Chance {
 public:
  explicit WithOffsets(uint64_t seed) : Chance(seed) {}

  void run() {
    kind_ = chance(10) ? Kind::recurrent : chance(15) ? Kind::conv : static_cast<Kind>(below(3));
    cell_ = static_cast<Cell>(below(4));
    // Smaller recurrent weights and convolutions are widened.
    const int64_t least = cell_ == Cell::lstm ? 314 : cell_ == Cell::gru ? 363 : 628;
    int64_t k = 1 + below(chance(70) ? 80 : 400), n = 1 + below(40);
    if (kind_ == Kind::recurrent) {
      k = least + below(40);
      n = gate_count(cell_) * k;
    } else if (kind_ == Kind::conv) {
      k = 50 + below(chance(70) ? 100 : 500);
      n = 16384 / k + 1 + below(60);
    }
    constexpr int64_t kGroups[] = {1, 16, 32, 64, 128};
    const int64_t group = chance(60) ? kGroups[below(5)] : chance(50) ? k : 1 + below(k);
    bits_ = chance(60) ? 4 : 8;
    const bool is_matmul = kind_ == Kind::matmul;
    blocks_ = {is_matmul ? Sizes{k, n} : Sizes{n, k},
               is_matmul ? Sizes{std::min(group, k), 1} : Sizes{1, std::min(group, k)}};
    if (kind_ == Kind::conv)
      for (int64_t i = 0, rank = 1 + below(3); i < rank; ++i) {
        blocks_.shape.push_back(1);
        blocks_.sizes.push_back(1);
      }
    const Model model = build(n, k);
    const std::vector<float> exact = answer(model, {.threads = 1, .disabled_passes = {"low_bits"}});
    const Isa best = chosen_isa();
    for (const Isa isa : kIsas) {
      if (!supports(isa) || (isa < best && !chance(30))) continue;
      SCOPED_TRACE(to_string(isa));
      limit_isa(isa);
      const std::vector<float> got = answer(model, {.threads = 1, .profile = true});
      const std::vector<float> threads = answer(model, {.threads = 3});
      ASSERT_EQ(got.size(), exact.size());
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got[i], threads[i]);
        ASSERT_NEAR(got[i], exact[i], 1e-5 * static_cast<double>(k)) << model.graph().text();
      }
      const int64_t few_rows = isa >= Isa::avx512 && isa < Isa::avx512_amx ? 16 : 8;
      if (kind_ > Kind::matmul || rows_ > few_rows || !any_rows_ || !reads_levels_) continue;
      const size_t width = got.size() / static_cast<size_t>(rows_);
      for (int64_t row = 0; row < rows_; ++row) {
        const std::vector<float> alone = answer(model, {.threads = 1}, row, 1);
        ASSERT_EQ(alone.size(), width);
        for (size_t i = 0; i < width; ++i)
          ASSERT_EQ(alone[i], got[static_cast<size_t>(row) * width + i]) << model.graph().text();
      }
    }
    limit_isa(best);
  }
  bool reads_levels() const { return reads_levels_; }
  enum class Kind { linear, matmul, embedding, recurrent, conv };
  Kind kind() const { return kind_; }

 private:
  Model build(int64_t n, int64_t k) {
    Graph g;
    TensorData levels = must(TensorData::allocate(i8, blocks_.levels(bits_)));
    const LevelWriter writer(blocks_, bits_, levels.tensor);
    const int most = bits_ == 8 ? 128 : 8;
    for (int64_t i = 0; i < blocks_.shape.count(); ++i)
      writer.put(i, static_cast<int>(below(2 * most)) - most);
    // States must not grow from step to step.
    const double weights = kind_ == Kind::recurrent ? 10.0 / static_cast<double>(k) : 1;
    const auto numbers = [&](double size, DType dtype) {
      TensorData data = must(TensorData::allocate(dtype, blocks_.scales()));
      for (int64_t i = 0; i < data.tensor.count(); ++i)
        set_element(data.tensor, i,
                    static_cast<double>(below(2001) - 1000) / 1000 * size * weights);
      return data;
    };
    const auto stored_numbers = [&](const char* name, double size) {
      const Value stored = g.buffer(name, numbers(size, chance(50) ? f32 : f16));
      return stored.dtype() == f32 ? stored : cast(stored, f32);
    };
    const Value four = bits_ == 4 ? g.scalar(int64_t{4}, i8) : Value();
    const Value scales = stored_numbers("scales", 1.0 / most);
    const Value offsets = chance(80) ? stored_numbers("offsets", 1) : Value();
    const Value w =
        widened(g.buffer("levels", std::move(levels)), scales,
                offsets && chance(30) ? neg(offsets) : offsets, four, blocks_, bits_, f32);
    rows_ = 1 + below(chance(70) ? 9 : 17);
    any_rows_ = chance(40);
    x_shape_ = {rows_, k};
    if (kind_ == Kind::recurrent) {
      x_shape_ = {2, rows_, n};
      const Value gates = g.input("x", f32, {2, rows_, n}), bias = g.buffer("bias", values({n}));
      const Value h0 = g.buffer("h0", values({rows_, k})), c0 = g.buffer("c0", values({rows_, k}));
      const bool reverse = chance(50);
      const Activation f = cell_ == Cell::tanh ? Activation::tanh : Activation::relu;
      const Value b = chance(50) ? bias : Value();
      RnnOutput y = cell_ == Cell::lstm  ? lstm_scan(gates, h0, c0, w, b, {}, reverse)
                    : cell_ == Cell::gru ? gru_scan(gates, h0, w, b, reverse)
                                         : rnn_scan(gates, h0, w, b, f, reverse);
      g.output("y", y.y);
      g.output("h", y.h);
      if (cell_ == Cell::lstm) g.output("c", y.c);
    } else if (kind_ == Kind::conv) {
      build_conv(g, w, n, k);
    } else if (kind_ == Kind::embedding) {
      x_shape_ = {rows_};
      indices_ = n;
      g.output("y", embedding(w, g.input("x", i64, {rows_})));
    } else {
      const Value x = g.input("x", f32, {any_rows_ ? Dim("rows") : Dim(rows_), k});
      g.output("y", kind_ == Kind::linear ? linear(x, w) : matmul(x, w));
    }
    EXPECT_TRUE(g.status().ok()) << g.status().message();
    width_ = k;
    return must(Model::from_graph(std::move(g)));
  }
  // Beside a depthwise convolution, which makes channels last, and before an optional batch norm.
  void build_conv(Graph& g, const Value& w, int64_t n, int64_t k) {
    const int pixel_dims = w.rank() - 2;
    x_shape_ = {1 + below(3), k};
    const bool is_pixel = chance(20);
    for (int d = 0; d < pixel_dims; ++d)
      x_shape_.push_back(is_pixel ? 1 : 1 + below(pixel_dims == 1 ? 400 : 20));
    Value x = g.input("x", f32, {x_shape_.begin(), x_shape_.end()});
    if (chance(40)) {
      Sizes kernel(static_cast<size_t>(w.rank()), 3);
      kernel[0] = k;
      kernel[1] = 1;
      x = relu(conv(
          x, g.buffer("depthwise", values(kernel)), {},
          {.padding = std::vector<Dim>(static_cast<size_t>(pixel_dims), Dim(1)), .groups = k}));
    }
    Value y = conv(x, w, chance(50) ? g.buffer("bias", values({n})) : Value());
    if (chance(50)) {
      TensorData variance = values({n});
      for (int64_t i = 0; i < n; ++i) variance.tensor.as<float>()[i] += 2;
      y = batch_norm(y, g.buffer("gamma", values({n})), g.buffer("beta", values({n})),
                     g.buffer("mean", values({n})), g.buffer("variance", std::move(variance)))
              .y;
    }
    if (chance(30)) {
      Sizes shape = x_shape_;
      shape[1] = n;
      y = y + g.buffer("residual", values(shape));
    }
    g.output("y", chance(50) ? relu(y) : y);
  }
  TensorData values(const Sizes& shape) {
    TensorData data = must(TensorData::allocate(f32, shape));
    for (int64_t i = 0; i < shape.count(); ++i)
      set_element(data.tensor, i, static_cast<double>(below(65) - 32) / 32);
    return data;
  }
  // For all rows of the input, or `count` of them.
  std::vector<float> answer(const Model& model, const SessionOptions& how, int64_t first = 0,
                            int64_t count = -1) {
    Session session = must(Session::create(model, how));
    Chance random(5);
    const bool is_embedding = kind_ == Kind::embedding;
    TensorData x = must(TensorData::allocate(is_embedding ? i64 : f32, x_shape_));
    for (int64_t i = 0; i < x.tensor.count(); ++i)
      set_element(x.tensor, i,
                  is_embedding ? static_cast<double>(random.below(indices_))
                               : static_cast<double>(random.below(65) - 32) / 32);
    Tensor rows = x.tensor;
    if (count >= 0) {
      rows.data = x.tensor.as<float>() + first * width_;
      rows.shape[0] = count;
    }
    EXPECT_TRUE(session.set_input(0, rows).ok());
    must(session.run());
    for (const ProfileRow& row : session.profile())
      reads_levels_ |= row.op == "quantized_linear" || row.op == "quantized_embedding" ||
                       row.op == "quantized_scan" || row.op == "quantized_conv";
    std::vector<float> all;
    for (int i = 0; i < std::ssize(model.graph().outputs()); ++i) {
      const Tensor y = must(session.output(i));
      all.insert(all.end(), y.as<float>(), y.as<float>() + y.count());
    }
    return all;
  }

  Kind kind_ = Kind::linear;
  int bits_ = 8;
  Sizes x_shape_;
  Cell cell_ = Cell::lstm;
  Blocks blocks_;
  int64_t rows_ = 1, width_ = 1, indices_ = 1;
  bool any_rows_ = false, reads_levels_ = false;
};

TEST(Quantize, WeightsWithOffsetsAreReadAsLevels) {
  int64_t read = 0, scans = 0, convs = 0, cases = 0;
  test::for_cases(500, [&](uint64_t i) {
    WithOffsets each(i);
    each.run();
    read += each.reads_levels();
    scans += each.kind() == WithOffsets::Kind::recurrent && each.reads_levels();
    convs += each.kind() == WithOffsets::Kind::conv && each.reads_levels();
    ++cases;
  });
  EXPECT_GT(read, cases / 3);
  EXPECT_GT(scans, cases / 100);
  EXPECT_GT(convs, cases / 100);
}

}  // namespace
}  // namespace hg
