// SPDX-License-Identifier: Apache-2.0
// SessionOptions that trade time, memory and precision for each other: low_memory, precision and
// autotune. Also packed weights, and concatenations without copies.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "hg/kernel.h"
#include "hg/quantize.h"
#include "lib/platform/instruction_set.h"
#include "tests/support/must.h"

namespace hg {
namespace {

Value weight(Graph& g, const char* name, const Sizes& shape, uint64_t seed) {
  return g.parameter(name, f32, shape, init::uniform(-0.1, 0.1, seed));
}

// A 1x1 and a 3x3 convolution with concatenated channels, a scaling of the channels by their means,
// and two linear layers.
Graph small_net() {
  Graph g;
  const Value x = g.input("x", f32, {1, 32, 24, 24});
  const Value a = g.call("relu", {g.call("conv", {x, weight(g, "w1", {48, 32, 1, 1}, 1)})});
  const Value b = g.call(
      "relu", {g.call("conv", {x, weight(g, "w2", {32, 32, 3, 3}, 2)}, {{"padding", {1, 1}}})});
  const Value both = g.call("concat", {a, b}, {{"dim", 1}});
  const Value means = g.call("adaptive_avg_pool", {both}, {{"output_size", {1, 1}}});
  const Value scale = g.call("conv", {means, weight(g, "w3", {80, 80, 1, 1}, 3)});
  const Value scaled = g.call("mul", {both, g.call("sigmoid", {scale})});
  const Value flat = g.call("reshape", {scaled}, {{"shape", {80, 576}}});
  const Value rows = g.call("linear", {flat, weight(g, "w4", {64, 576}, 4)});
  const Value row = g.call("sum", {rows}, {{"dim", {0}}, {"keepdim", true}});
  g.output("y", g.call("linear", {row, weight(g, "w5", {50, 64}, 5)}));
  EXPECT_TRUE(g.status().ok()) << g.status().message();
  return g;
}

std::vector<float> input() {
  std::vector<float> values(32 * 24 * 24);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i) * 0.37f);
  return values;
}

struct Answer {
  std::vector<float> y;
  Memory memory;
  std::vector<std::byte> tuning;
  std::vector<ProfileRow> rows;
};

Answer answer(const Model& model, SessionOptions options) {
  Answer got;
  options.profile = true;
  Session session = must(Session::create(model, options));
  std::vector<float> x = input();
  EXPECT_TRUE(session.set_input("x", view(x, {1, 32, 24, 24})).ok());
  for (int i = 0; i < 2; ++i) {
    must(session.run());
  }
  const Tensor y = *session.output("y");
  got.y.resize(y.count());
  copy_elements(y, view(got.y, y.shape));
  got.memory = *session.memory();
  got.tuning = session.tuning();
  got.rows = session.profile();
  return got;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(double{a[i]} - double{b[i]}));
    size = std::max(size, std::abs(double{b[i]}));
  }
  return most / size;
}

bool has_op(const Answer& answer, std::string_view op) {
  return std::any_of(answer.rows.begin(), answer.rows.end(),
                     [op](const ProfileRow& row) { return row.op == op; });
}

std::string kernel_of(const Answer& answer, std::string_view op, size_t which) {
  for (const ProfileRow& row : answer.rows)
    if (row.op == op && which-- == 0) return row.kernel;
  return "";
}

TEST(SessionOptions, LowMemoryPacksNothing) {
  const Model model = *Model::from_graph(small_net());
  const Answer usual = answer(model, {.threads = 1});
  const Answer low = answer(model, {.threads = 1, .low_memory = true});
  EXPECT_GT(usual.memory.packed_bytes, 0);
  EXPECT_EQ(low.memory.packed_bytes, 0);
  EXPECT_LT(distance(low.y, usual.y), 1e-5);
}

// A weight that a pass widened, and that a view gives its shape, goes when a kernel has packed it.
TEST(SessionOptions, WidenedWeightsAreFreed) {
  Graph g;
  const Value x = g.input("x", f32, {1, 32, 24, 24});
  g.output("y", conv(x, weight(g, "w", {64, 32, 3, 3}, 1), {}, {.padding = {1, 1}}));
  const Model model =
      must(quantize(*Model::from_graph(std::move(g)), {.bits = 8, .group = 16, .least = 0})).model;
  const Answer one = answer(model, {.threads = 1}), two = answer(model, {.threads = 2});
  constexpr int64_t kCount = 64 * 32 * 9;
  EXPECT_GE(one.memory.packed_bytes, kCount * 4);
  EXPECT_LT(one.memory.weights_bytes, kCount * 2);
  EXPECT_EQ(distance(one.y, two.y), 0);
  // Neither the weight nor its view can be read.
  Session session = must(Session::create(model));
  std::vector<float> pixels = input();
  EXPECT_TRUE(session.set_input("x", view(pixels, {1, 32, 24, 24})).ok());
  must(session.run());
  int not_kept = 0;
  const Graph& compiled = session.compiled_graph();
  for (ValueId id = 0; id < compiled.value_count(); ++id) {
    const Result<Tensor> value = session.value(compiled.value_info(id).name);
    if (value.ok()) EXPECT_NE(value->data, nullptr);
    not_kept += value.status().message().find("is not kept") != std::string_view::npos;
  }
  EXPECT_EQ(not_kept, 2);
}

// Offsets of which only the packed copy remains are not taken for missing ones.
TEST(SessionOptions, PackedOffsetsAreGiven) {
  Graph g;
  TensorData levels = must(TensorData::allocate(i8, {32, 24}));
  for (int i = 0; i < 32 * 24; ++i) levels.tensor.as<int8_t>()[i] = static_cast<int8_t>(i % 255);
  const Value blocks = reshape(cast(g.buffer("levels", std::move(levels)), f32), {2, 16, 24});
  const Value w = blocks * weight(g, "scales", {2, 1, 24}, 1) + neg(weight(g, "z", {2, 1, 24}, 2));
  const Value x = reshape(g.input("x", f32, {1, 32, 24, 24}), {576, 32});
  g.output("y", matmul(x, reshape(w, {32, 24})));
  const Model model = must(Model::from_graph(std::move(g)));
  const Answer low = answer(model, {.threads = 1});
  ASSERT_TRUE(has_op(low, "quantized_linear"));
  EXPECT_LT(distance(low.y, answer(model, {.threads = 1, .disabled_passes = {"low_bits"}}).y),
            1e-5);
}

// x w, with bias, residual and activation, if `fuses`.
struct ProductCase {
  int64_t m, n, k;
  bool is_linear, fuses, is_stateful;
};

Graph product_of(const ProductCase& p) {
  Graph g;
  const Value x = g.input("x", f32, {p.m, p.k});
  const Value w = weight(g, "w", p.is_linear ? Sizes{p.n, p.k} : Sizes{p.k, p.n}, 1);
  Value y = p.is_linear ? g.call("linear", {x, w}) : g.call("matmul", {x, w});
  if (p.fuses)
    y = g.call("gelu", {y + weight(g, "bias", {p.n}, 2) + weight(g, "residual", {p.m, p.n}, 3)});
  g.output("y", y);
  if (p.is_stateful) {
    const Value count = g.buffer("count", *TensorData::allocate(f32, {1}));
    g.assign(count, count + g.call("max", {y}));
  }
  EXPECT_TRUE(g.status().ok()) << g.status().message();
  return g;
}

std::vector<float> product(const Graph& g, const ProductCase& p, SessionOptions options,
                           int64_t* packed_bytes) {
  Session session = must(Session::create(must(Model::from_graph(Graph(g))), options));
  std::vector<float> x(static_cast<size_t>(p.m * p.k)), y(static_cast<size_t>(p.m * p.n));
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i) * 0.37f);
  EXPECT_TRUE(session.set_input("x", view(x, {p.m, p.k})).ok());
  must(session.run());
  copy_elements(must(session.output("y")), view(y, {p.m, p.n}));
  *packed_bytes = must(session.memory()).packed_bytes;
  return y;
}

// Weights that a session reads in place, packed again in each run or not at all.
TEST(SessionOptions, ProductsInPlaceHaveTheBitsOfPackedOnes) {
  const Isa best = processor_isa();
  std::mt19937 random(7);
  const auto one_of = [&](std::initializer_list<int64_t> sizes) {
    return *(sizes.begin() + random() % sizes.size());
  };
  for (int i = 0; i < 150; ++i) {
    const ProductCase p = {.m = one_of({5, 7, 12, 13, 16, 24, 25, 31, 33, 63, 64, 65, 130, 515}),
                           .n = one_of({1, 3, 16, 31, 33, 35, 64, 65, 97, 257, 576, 1030}),
                           .k = one_of({1, 3, 15, 16, 64, 100, 255, 256, 257, 600}),
                           .is_linear = random() % 3 > 0,
                           .fuses = random() % 2 == 0,
                           .is_stateful = random() % 2 == 0};
    const int threads = static_cast<int>(one_of({1, 2, 5}));
    SCOPED_TRACE(str_cat("case ", i, ": m ", p.m, ", n ", p.n, ", k ", p.k, p.is_linear, p.fuses,
                         p.is_stateful, ", threads ", threads));
    limit_isa(random() % 3 == 0 ? static_cast<Isa>(random() % (uint64_t(best) + 1)) : best);
    ProductCase stateless = p;
    stateless.is_stateful = false;
    int64_t packed = 0, in_place = 0;
    const auto want = product(product_of(stateless), p, {.threads = 1}, &packed);
    const auto got =
        product(product_of(p), p, {.threads = threads, .low_memory = !p.is_stateful}, &in_place);
    EXPECT_EQ(got, want);
    EXPECT_EQ(in_place, 0);
    EXPECT_GE(packed, p.n > 1 ? p.n * p.k * 4 : 0);
    limit_isa(best);
  }
}

TEST(SessionOptions, PackedWeightsAreTheSameForAnyNumberOfThreads) {
  const Model model = *Model::from_graph(small_net());
  const Answer one = answer(model, {.threads = 1});
  for (const int threads : {2, 3, 5, 8, 16, 33, 64})
    EXPECT_EQ(answer(model, {.threads = threads}).y, one.y) << threads << " threads";
}

TEST(SessionOptions, Bf16HalvesPackedWeights) {
  const Model model = *Model::from_graph(small_net());
  const std::vector<std::string> products = {"conv=gemm", "linear=gemm"};
  const Answer exact = answer(model, {.threads = 1, .kernels = products});
  const Answer rounded =
      answer(model, {.threads = 1, .precision = Precision::bf16, .kernels = products});
  EXPECT_NEAR(static_cast<double>(rounded.memory.packed_bytes),
              0.5 * static_cast<double>(exact.memory.packed_bytes),
              0.02 * static_cast<double>(exact.memory.packed_bytes));
  EXPECT_LT(distance(rounded.y, exact.y), 1e-2);
  EXPECT_GT(distance(rounded.y, exact.y), 1e-5);
  // Without instructions for bf16, nothing is rounded if bf16 holds the weights exactly.
  limit_isa(Isa::avx512_vnni);
  Graph g = small_net();
  for (const State& state : g.states()) {
    float* const values = state.data.tensor.as<float>();
    for (int64_t i = 0; i < state.data.tensor.count(); ++i)
      values[i] = static_cast<float>(BFloat16(values[i]));
  }
  const Model held = *Model::from_graph(std::move(g));
  for (const bool chosen : {false, true}) {
    const std::vector<std::string> kernels = chosen ? std::vector<std::string>() : products;
    const Answer a = answer(held, {.threads = 2, .kernels = kernels});
    const Answer b = answer(held, {.threads = 2, .precision = Precision::bf16, .kernels = kernels});
    EXPECT_EQ(a.y, b.y);
  }
  limit_isa(kBestIsa);
}

TEST(SessionOptions, AutotuneTakesWhatTheBlobSays) {
  const Model model = *Model::from_graph(small_net());
  EXPECT_TRUE(has_op(answer(model, {.threads = 1}), "conv"));
  const Answer measured = answer(model, {.threads = 1, .autotune = true});
  ASSERT_GT(measured.tuning.size(), 40u);
  EXPECT_LT(distance(measured.y, answer(model, {.threads = 1}).y), 1e-5);
  // The same kernels again, without measuring, whatever else runs on this machine.
  const Answer again = answer(model, {.threads = 1, .tuning = measured.tuning});
  EXPECT_EQ(again.tuning, measured.tuning);
  EXPECT_EQ(again.y, measured.y);
  for (const size_t i : {0u, 1u}) {
    const std::string kernel = kernel_of(measured, "conv", i);
    EXPECT_EQ(kernel_of(again, "conv", i), kernel);
    for (const KernelDef* known : Registry::built_in().kernels("conv", Device::cpu))
      if (known->name == kernel) {
        EXPECT_FALSE(known->is_fallback) << kernel;
      }
  }
}

// In the format of lib/run/tuning.cpp: another kernel for the first row of a blob.
TEST(SessionOptions, TuningDecidesAndDamageIsIgnored) {
  const Model model = *Model::from_graph(small_net());
  std::vector<std::byte> blob = answer(model, {.threads = 1, .autotune = true}).tuning;
  const Answer usual = answer(model, {.threads = 1});
  for (size_t i = 0; i < blob.size(); i += 3) {
    std::vector<std::byte> damaged = blob;
    damaged[i] ^= std::byte{0x55};
    const Answer got = answer(model, {.threads = 1, .tuning = damaged});
    EXPECT_EQ(got.y, usual.y) << "byte " << i;
  }
  for (size_t size = 0; size < blob.size(); size += 7) {
    const std::vector<std::byte> cut(blob.begin(),
                                     blob.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_EQ(answer(model, {.threads = 1, .tuning = cut}).y, usual.y);
  }
}

TEST(SessionOptions, JoinedChannelsAreNotCopied) {
  const Model model = *Model::from_graph(small_net());
  const Answer usual = answer(model, {.threads = 1});
  EXPECT_FALSE(has_op(usual, "concat"));
  EXPECT_LT(distance(usual.y, answer(model, {.keep_all_values = true}).y), 1e-5);
}

// Values that are concatenated twice, inputs, and parts that are not contiguous in the result are
// still copied, correctly.
TEST(SessionOptions, OtherConcatenationsAreCopied) {
  Graph g;
  const Value x = g.input("x", f32, {1, 32, 24, 24});
  const Value a = g.call("exp", {x}), b = g.call("neg", {x});
  const Value ab = g.call("concat", {a, b}, {{"dim", 1}});
  const Value ba = g.call("concat", {b, a}, {{"dim", -3}});
  const Value ax = g.call("concat", {a, x}, {{"dim", 1}});
  const Value wide = g.call("concat", {a, b}, {{"dim", 3}});
  const Value twice = g.call("concat", {g.call("abs", {x}), ab}, {{"dim", 1}});
  g.output("ab", ab);
  g.output("ba", ba);
  g.output("ax", ax);
  g.output("wide", wide);
  g.output("twice", twice);
  const Model model = *Model::from_graph(std::move(g));
  std::vector<float> values = input();
  Session session = *Session::create(model),
          plain = *Session::create(model, {.keep_all_values = true});
  for (Session* s : {&session, &plain}) {
    ASSERT_TRUE(s->set_input("x", view(values, {1, 32, 24, 24})).ok());
    ASSERT_TRUE(s->run().ok());
  }
  for (const char* name : {"ab", "ba", "ax", "wide", "twice"}) {
    const Tensor got = *session.output(name), expected = *plain.output(name);
    std::vector<float> p(got.count()), q(p.size());
    copy_elements(got, view(p, got.shape));
    copy_elements(expected, view(q, got.shape));
    EXPECT_EQ(p, q) << name;
  }
}

#ifdef __linux__
// Bytes of this process's memory that a file backs, or that no file backs, by the field's name.
int64_t resident(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind(field, 0) == 0) return std::stoll(line.substr(field.size() + 1)) * 1024;
  return -1;
}

TEST(SessionOptions, MappedWeightsAreNotHeldTwice) {
  Graph g;
  const Value x = g.input("x", f32, {16, 2048});
  g.output("y", g.call("linear", {x, weight(g, "w", {4096, 2048}, 1)}));  // 32 MiB
  const std::string path = std::filesystem::temp_directory_path() /
                           ("hg_options_test_" + std::to_string(getpid()) + ".hgm");
  ASSERT_TRUE(Model::from_graph(std::move(g))->save(path).ok());
  const int64_t before = resident("RssFile:");
  {
    const Model model = *Model::load(path);
    const Session session = *Session::create(model, {.threads = 2});
    EXPECT_GE(session.memory()->packed_bytes, int64_t{32} << 20);
    EXPECT_LT(resident("RssFile:") - before, int64_t{8} << 20);
  }
  std::filesystem::remove(path);
}
#endif

}  // namespace
}  // namespace hg
