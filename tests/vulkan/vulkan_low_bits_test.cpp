// SPDX-License-Identifier: Apache-2.0
// Random products with low bits on a Vulkan device, against kernels/reference, and models that stay
// there.
#include <algorithm>
#include <string>

#include "hg/quantize.h"
#include "kernels/reference/reference.h"
#include "lib/graph/element.h"
#include "lib/table/packing.h"
#include "tests/support/random_case.h"
#include "tests/vulkan/vulkan_fixture.h"

namespace hg::test {
namespace {

// One random node. Its inputs are inputs of the graph or constants, some of them as views with
// other strides.
class Node : Chance {
 public:
  Node(uint64_t seed, SessionOptions options) : Chance(seed), options_(std::move(options)) {}

  // Levels times scales: linear, matmul or embedding.
  void run_levels() {
    const Packing packing = static_cast<Packing>(below(4));
    const bool halves_k = packing == Packing::halves || packing == Packing::pairs;
    const int64_t kind = below(3), n = size(70), k = size(150), m = chance(50) ? size(9) : size(70);
    constexpr int64_t kGroups[] = {32, 64, 128};
    const int64_t group = chance(50) ? kGroups[below(3)] : 1 + below(k + 1);
    const Sizes scales = {n, (k + group - 1) / group};
    const Sizes levels = {packing == Packing::rows ? (n + 1) / 2 : n, halves_k ? (k + 1) / 2 : k};
    const double most = packing == Packing::bytes ? 128 : 8;
    NamedAttrs attrs = {{"packing", std::string(to_string(packing))}, {"group", group}};
    const bool has_offsets = chance(50);
    if (kind == 2) {
      if (n == 0) return;
      attrs.push_back({"width", k});
      const std::vector<Value> inputs = {add(i8, levels, 128), add(f32, scales, 1 / most),
                                         add(i64, chance(20) ? Sizes{} : Sizes{m}, 0, n),
                                         has_offsets ? add(f32, scales, 1) : none()};
      return check("quantized_embedding", inputs, attrs, 0);
    }
    const bool is_linear = kind == 0;
    const int64_t summed = is_linear ? k : n, results = is_linear ? n : k;
    const Sizes x = chance(20)   ? Sizes{2, m, summed}
                    : chance(10) ? Sizes{summed}
                                 : Sizes{m, summed};
    Sizes y = x;
    y[y.rank() - 1] = results;
    const Value a = add(f32, x, 1);
    std::vector<Value> inputs = {a, add(i8, levels, 128), add(f32, scales, 1 / most),
                                 has_offsets ? add(f32, scales, 1) : none()};
    if (is_linear) {
      inputs.push_back(chance(50) ? add(f32, {n}, 1) : none());
      inputs.push_back(chance(30) ? add(f32, y, 1) : none());
      constexpr std::string_view kActivations[] = {"none", "relu", "gelu", "silu"};
      attrs.push_back({"activation", std::string(kActivations[below(4)])});
    } else {
      attrs.push_back({"width", k});
    }
    check(is_linear ? "quantized_linear" : "quantized_matmul", inputs, attrs,
          3e-6 * static_cast<double>(summed + 4));
  }

  // Products and convolutions of integers; they are exact.
  void run_integers() {
    if (chance(50)) {
      const int64_t m = size(40), n = size(90), k = size(70);
      const Sizes lead = chance(40) ? Sizes{1 + below(3)} : Sizes{};
      const auto matrix = [&](bool batched, int64_t rows, int64_t columns) {
        Sizes shape = batched ? lead : Sizes{};
        shape.push_back(rows);
        shape.push_back(columns);
        return shape;
      };
      const bool a_batched = chance(70), b_batched = chance(50);
      const DType a = byte(), b = byte();
      std::vector<Value> inputs = {add(a, matrix(a_batched, m, k), 128),
                                   add(b, matrix(b_batched, k, n), 128)};
      inputs.push_back(zero(a, {m}, matrix(a_batched, m, 1)));
      inputs.push_back(zero(b, {n}, matrix(b_batched, 1, n)));
      finish(inputs, n);
      return check("matmul_integer", inputs, {}, 0);
    }
    const int64_t dims = 1 + below(3), groups = 1 + below(3), outputs = groups * (1 + below(12));
    const int64_t channels = 1 + below(9);
    const auto list = [&](int64_t least, int64_t count) {
      std::vector<Dim> numbers;
      for (int64_t i = 0; i < dims; ++i) numbers.push_back(least + below(count));
      return numbers;
    };
    Sizes x = {size(3), channels * groups}, weight = {outputs, channels};
    for (int64_t i = 0; i < dims; ++i) {
      weight.push_back(1 + below(3));
      x.push_back(5 + below(dims == 3 ? 3 : 12));
    }
    const DType a = byte(), b = byte();
    std::vector<Value> inputs = {add(a, x, 128), add(b, weight, 128)};
    inputs.push_back(chance(60) ? add(a, {}, 128) : none());
    inputs.push_back(zero(b, {outputs}, {}));
    finish(inputs, outputs);
    check("conv_integer", inputs,
          {{"stride", list(1, 2)},
           {"padding", list(0, 3)},
           {"dilation", list(1, 2)},
           {"groups", groups}},
          0);
  }
  // Pooling of levels.
  void run_pool() {
    check("max_pool", {add(byte(), {1 + below(2), 1 + below(5), 4 + below(9), 3 + below(9)}, 128)},
          {{"kernel_size", std::vector<Dim>{1 + below(3), 2}},
           {"stride", std::vector<Dim>{1 + below(3)}},
           {"padding", std::vector<Dim>{0, below(2)}}},
          0);
  }

 private:
  DType byte() { return chance(50) ? u8 : i8; }
  // A zero point: one number, a list, the last shape if it is given, or none.
  Value zero(DType dtype, const Sizes& list, const Sizes& last) {
    const int64_t kind = below(last.empty() ? 3 : 4);
    return kind == 0 ? none() : add(dtype, kind == 1 ? Sizes{} : kind == 2 ? list : last, 128);
  }
  // Bias, scale and zero point of the result.
  void finish(std::vector<Value>& inputs, int64_t size) {
    inputs.push_back(chance(50) ? add(i32, {size}, 100000) : none());
    const bool scales = chance(70);
    inputs.push_back(scales ? add(f32, chance(50) ? Sizes{} : Sizes{size}, 0.01) : none());
    inputs.push_back(scales && chance(70) ? add(byte(), {}, 128) : none());
  }
  int64_t size(int64_t most) { return chance(3) ? 0 : chance(12) ? 1 : 1 + below(most); }
  Value none() {
    arrays_.push_back({f32, {}, {}, false});
    return Value();
  }
  // Numbers from -largest to largest; integers below `end` if it is given.
  Value add(DType dtype, const Sizes& shape, double largest, int64_t end = 0) {
    TensorData data = must(TensorData::allocate(dtype, shape));
    reference::Array array{dtype, shape, std::vector<double>(shape.count()), true};
    for (int64_t i = 0; i < shape.count(); ++i) {
      const double fraction = static_cast<double>(below(2001) - 1000) / 1000;
      const auto whole = static_cast<int64_t>(largest);
      set_element(data.tensor, i,
                  end > 0 ? static_cast<double>(below(end))
                  : is_float(dtype)
                      ? fraction * largest
                      : static_cast<double>(below(2 * whole) - (dtype == u8 ? 0 : whole)));
      array.values[i] = element(data.tensor, i);
    }
    arrays_.push_back(std::move(array));
    const std::string name = "x" + std::to_string(arrays_.size());
    // A transposed matrix, so that the node gets strides.
    const bool turns = shape.rank() == 2 && chance(20);
    if (turns) {
      TensorData turned = must(TensorData::allocate(dtype, {shape[1], shape[0]}));
      for (int64_t i = 0; i < shape.count(); ++i)
        set_element(turned.tensor, i % shape[1] * shape[0] + i / shape[1], element(data.tensor, i));
      data = std::move(turned);
    }
    const Sizes& stored = data.tensor.shape;
    Value value;
    if (chance(50)) {
      value = g_.buffer(name, std::move(data));
    } else {
      value = g_.input(name, dtype, {stored.begin(), stored.end()});
      given_.push_back(std::move(data));
    }
    return turns ? g_.call("permute", {value}, {{"dims", {1, 0}}}) : value;
  }

  // The device computes the node, with the results of the reference loop.
  void check(std::string_view op, const std::vector<Value>& inputs, const NamedAttrs& attrs,
             double tolerance) {
    const Value y = g_.call(op, inputs, attrs);
    ASSERT_TRUE(g_.status().ok()) << g_.status().message();
    g_.output("y", y);
    const ValueId id = y.id();
    Sizes shape;
    for (const Dim& dim : g_.value_info(id).type.shape) shape.push_back(dim.constant());
    const auto& node = g_.nodes()[static_cast<size_t>(g_.value_info(id).node)];
    std::vector<reference::Array> out = {
        {y.dtype(), shape, std::vector<double>(static_cast<size_t>(shape.count())), true}};
    const KernelAttrs reader{AttrReader(node.op, node.attrs)};
    reference::find(op)->run({arrays_, out, reader});
    Session session = must(Session::create(must(Model::from_graph(g_)), options_));
    for (size_t i = 0; i < given_.size(); ++i)
      must(session.set_input(static_cast<int>(i), given_[i].tensor));
    must(session.run());
    const Tensor got = must(session.output(0));
    ASSERT_EQ(got.shape, shape);
    double most = 1;
    for (const double value : out[0].values) most = std::max(most, std::abs(value));
    for (int64_t i = 0; i < shape.count(); ++i)
      ASSERT_NEAR(element(got, i), out[0].values[static_cast<size_t>(i)], tolerance * most + 1e-6)
          << i << "\n"
          << g_.text();
    // Sums of no elements are computed on the CPU.
    const auto is_empty = [](const reference::Array& x) { return x.given && x.count() == 0; };
    if (shape.count() > 0 && std::none_of(arrays_.begin(), arrays_.end(), is_empty)) {
      EXPECT_EQ(session.report().find("runs on the CPU"), std::string::npos) << session.report();
    }
  }

  SessionOptions options_;
  Graph g_;
  std::vector<reference::Array> arrays_;
  std::vector<TensorData> given_;
};

TEST_F(Vulkan, RandomProductsWithLevelsEqualTheReference) {
  for_cases(100, [&](uint64_t i) {
    SessionOptions each = options();
    if (i % 2 > 0) each.kernels = {"quantized_linear=tiles", "quantized_matmul=tiles"};
    Node(i, std::move(each)).run_levels();
  });
}

TEST_F(Vulkan, RandomProductsOfIntegersAreExact) {
  for_cases(100, [&](uint64_t i) {
    SessionOptions each = options();
    if (i % 2 == 1) each.kernels = {"matmul_integer=loop", "conv_integer=loop"};
    Node(i, each).run_integers();
    if (i % 5 == 0) Node(i, options()).run_pool();
  });
}

// Runs the model on both sides; the device computes every node, in one submit.
void expect_on_device(const Model& model, const SessionOptions& options, const ConstTensor& x,
                      int64_t most_bytes, double tolerance) {
  Session cpu = must(Session::create(model));
  must(cpu.set_input(0, x));
  must(cpu.run());
  must(Session::prewarm(model, options));
  const int64_t none = options.gpu.counters().upload_bytes;
  Session session = must(Session::create(model, options));
  must(session.set_input(0, x));
  must(session.run());
  const int64_t bytes = options.gpu.counters().upload_bytes - none;
  EXPECT_LT(bytes, most_bytes) << "the weights stay packed";
  EXPECT_EQ(session.report().find("runs on the CPU"), std::string::npos) << session.report();
  const GpuCounters before = options.gpu.counters();
  must(session.run());
  const GpuCounters after = options.gpu.counters();
  EXPECT_EQ(after.uploads - before.uploads, 1) << "the input";
  EXPECT_EQ(after.downloads - before.downloads, 1) << "the output";
  EXPECT_EQ(after.submits - before.submits, 1) << "all nodes, with the transfers";
  const Tensor want = must(cpu.output(0)), got = must(session.output(0));
  ASSERT_EQ(got.shape, want.shape);
  for (int64_t i = 0; i < want.count(); ++i)
    ASSERT_NEAR(element(got, i), element(want, i), tolerance) << i;
}

Value weight(Graph& g, const std::string& name, const Sizes& shape) {
  TensorData data = must(TensorData::allocate(f32, shape));
  for (int64_t i = 0; i < shape.count(); ++i)
    data.tensor.as<float>()[i] = std::sin(static_cast<float>(i) * 1.7f) * 0.2f;
  return g.parameter(name, std::move(data));
}

TEST_F(Vulkan, LevelsOfWeightsStayPackedOnTheDevice) {
  for (const int bits : {8, 4})
    for (const int64_t group : {0, 32}) {
      Graph g;
      const Value ids = g.input("ids", i64, {3});
      Value x = embedding(weight(g, "table", {100, 128}), ids);
      x = relu(linear(x, weight(g, "up", {256, 128}), weight(g, "bias", {256})));
      g.output("y", linear(x, weight(g, "down", {96, 256})));
      const Model model = must(quantize(must(Model::from_graph(std::move(g))),
                                        {.bits = bits, .group = group, .least = 0}))
                              .model;
      const std::vector<int64_t> rows = {5, 99, 0};
      // Levels, their scales and parameter tables; the weights have 280 KB in f32.
      expect_on_device(model, options(), view(rows, {3}), bits == 8 ? 100'000 : 65'000, 1e-4);
    }
}

TEST_F(Vulkan, ANetOfIntegersRunsOnTheDevice) {
  Graph g;
  const Value x = g.input("x", f32, {2, 3, 16, 16});
  Value y =
      relu(conv(x, weight(g, "first", {8, 3, 3, 3}), weight(g, "bias", {8}), {.padding = {1}}));
  y = max_pool(y, {2});
  y = relu(conv(y, weight(g, "second", {16, 8, 3, 3}), {}, {.stride = {2}, .padding = {1}}));
  g.output("y", linear(reshape(y, {2, 256}), weight(g, "head", {10, 256})));
  const std::vector<float> image = numbers(2 * 3 * 16 * 16);
  const ConstTensor sample = view(image, {2, 3, 16, 16});
  const std::vector<std::vector<ConstTensor>> samples = {{sample}};
  const Model model = must(quantize(must(Model::from_graph(std::move(g))), samples, {})).model;
  int64_t integers = 0;
  for (const hg::Node& node : model.graph().nodes())
    integers += node.op->name() == "conv_integer" || node.op->name() == "matmul_integer";
  EXPECT_EQ(integers, 3);
  expect_on_device(model, options(), sample, 100'000, 1e-5);
}

}  // namespace
}  // namespace hg::test
