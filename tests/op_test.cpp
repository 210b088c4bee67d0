// SPDX-License-Identifier: Apache-2.0
// Every sample row of every op, held against the double loops of kernels/reference: each dtype,
// kernel variant and thread count, strided inputs, inputs whose memory the output may take, and
// gradients against finite differences. A failing case prints the command that repeats it alone.
// With --vulkan[=NAME] the same rows run on a Vulkan device instead, held against the same answers.
// With --best-isa kernels run with the best instruction set alone, for emulators.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "hg/hg.h"
#include "kernels/reference/reference.h"
#include "kernels/simd.h"
#include "lib/graph/access.h"
#include "tests/elements.h"
#include "tests/sample_case.h"

namespace hg::test {
namespace {

Gpu device_under_test;  // empty: the CPU
bool best_isa_only = false;

Options on_device() {
  Options options;
  options.device = Device::vulkan;
  options.gpu = device_under_test;
  return options;
}

Options on_threads(int threads) {
  Options options;
  options.threads = threads;
  return options;
}

// ---- What is right ----

double tolerance_of(const Sample& sample, DType dtype) {
  const double wide = sample.tolerance;
  switch (dtype) {
    case DType::f64:
      return std::max(1e-12, wide * 1e-7);
    case DType::f32:
      return std::max(2e-6, wide);
    case DType::f16:
      return std::max(2e-3, wide);
    case DType::bf16:
      return std::max(1.6e-2, wide);
    default:
      return 0;
  }
}

void expect_near(const std::vector<double>& got, const std::vector<double>& expected,
                 double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]))) continue;
    const double limit = tolerance * (1 + std::abs(expected[i]));
    ASSERT_LE(std::abs(got[i] - expected[i]), limit)
        << what << ": element " << i << " is " << got[i] << ", expected " << expected[i];
  }
}

std::vector<std::vector<double>> reference_of(const Case& c, const reference::Row& row,
                                              const std::vector<Answer>& shapes) {
  const Node& node = c.graph.nodes()[static_cast<size_t>(c.node)];
  std::vector<reference::Array> in, out;
  size_t given = 0;
  for (const Value& argument : c.arguments) {
    reference::Array array;
    array.given = static_cast<bool>(argument);
    if (array.given) {
      array.dtype = c.inputs[given].data.tensor.dtype;
      array.shape = c.inputs[given].data.tensor.shape;
      array.values = c.inputs[given].values;
      ++given;
    }
    in.push_back(std::move(array));
  }
  for (const Answer& answer : shapes) {
    reference::Array array{answer.dtype, answer.shape, {}, true};
    array.values.assign(static_cast<size_t>(answer.shape.count()), 0.0);
    out.push_back(std::move(array));
  }
  const KernelAttrs attrs{AttrReader(node.op, node.attrs)};
  row.run({in, out, attrs});
  std::vector<std::vector<double>> values;
  for (reference::Array& array : out)
    values.push_back(rounded(std::move(array.values), array.dtype));
  return values;
}

// ---- The checks of one sample ----

// Kernels prepared while this lives use no better instruction set.
struct LimitedIsa {
  explicit LimitedIsa(kernels::Isa isa) { kernels::limit_isa(isa); }
  ~LimitedIsa() { kernels::limit_isa(kernels::Isa::avx512); }
};

void check_dtype(const Sample& sample, DType floats) {
  const std::string what(name(floats));
  Result<std::unique_ptr<Case>> c = build(sample, floats);
  if (!c.ok()) {
    if (floats == f16 || floats == bf16) return;  // not every op takes these
    FAIL() << what << ": " << c.status().message();
  }
  const Result<std::vector<Answer>> plain = run(**c, on_threads(1));
  if (!plain.ok()) {
    if ((floats == f16 || floats == bf16) && plain.status().code() == Code::unsupported) return;
    FAIL() << what << ": " << plain.status().message();
  }
  for (size_t k = 0; k < plain->size(); ++k) {
    const TensorType& type = (*c)->graph.value_info((*c)->outputs[k].id()).type;
    ASSERT_EQ((*plain)[k].dtype, type.dtype) << what;
    if (is_constant(type.shape)) {
      ASSERT_EQ(to_shape((*plain)[k].shape), type.shape) << what;
    }
  }
  // What is expected: the reference, or else the f64 result of the same kernels.
  const reference::Row* row = reference::find(sample.op);
  std::vector<std::vector<double>> expected;
  if (row != nullptr) {
    expected = reference_of(**c, *row, *plain);
  } else {
    Result<std::unique_ptr<Case>> wide = build(sample, f64);
    ASSERT_TRUE(wide.ok()) << wide.status().message();
    const Result<std::vector<Answer>> answers = run(**wide, on_threads(1));
    ASSERT_TRUE(answers.ok()) << answers.status().message();
    for (const Answer& answer : *answers) expected.push_back(answer.values);
  }
  const auto compare = [&](const std::vector<Answer>& answers, const std::string& how) {
    ASSERT_EQ(answers.size(), expected.size());
    for (size_t k = 0; k < answers.size(); ++k)
      expect_near(answers[k].values, expected[k], tolerance_of(sample, answers[k].dtype),
                  text(what, " ", how, " output ", static_cast<int64_t>(k)));
  };
  compare(*plain, "plain");
  if (testing::Test::HasFatalFailure()) return;
  if (device_under_test) {
    const auto on_vulkan = [&](const Case& graph, bool strided, const std::string& how,
                               Options options = on_device()) {
      const bool is_forced = !options.kernels.empty();
      const Result<std::vector<Answer>> answers = run(graph, std::move(options), strided);
      if (is_forced && answers.status().code() == Code::unsupported) return;
      ASSERT_TRUE(answers.ok()) << what << " " << how << ": " << answers.status().message();
      compare(*answers, how);
    };
    on_vulkan(**c, false, "vulkan");
    on_vulkan(**c, true, "vulkan, strided");
    Result<std::unique_ptr<Case>> copied = build(sample, floats, true);
    ASSERT_TRUE(copied.ok()) << copied.status().message();
    on_vulkan(**copied, false, "vulkan, aliased");
    // Those for other devices, too: each must be right here.
    const auto variants = Registry::built_in().kernels(sample.op, Device::vulkan);
    if (variants.size() == 1) return;
    for (const KernelDef* kernel : variants)
      for (const bool is_strided : {false, true}) {
        Options options = on_device();
        options.kernels = {text(sample.op, "=", kernel->name)};
        on_vulkan(**c, is_strided, options.kernels[0], options);
      }
    return;
  }

  // Every variant, with every instruction set that this processor has; 16-bit kernels share theirs.
  using kernels::Isa;
  const Isa best = kernels::chosen_isa();
  for (Isa isa : {Isa::baseline, Isa::sse4, Isa::avx2, Isa::avx512}) {
    if (isa > best || (isa < best && (best_isa_only || (floats != f32 && floats != f16)))) continue;
    const LimitedIsa limited(isa);
    for (const KernelDef* kernel : Registry::built_in().kernels(sample.op, Device::cpu)) {
      Options options = on_threads(1);
      options.kernels = {text(sample.op, "=", kernel->name)};
      const Result<std::vector<Answer>> forced = run(**c, options);
      if (!forced.ok() && forced.status().code() == Code::unsupported) continue;
      const std::string how = text("kernel ", kernel->name, ", isa ", static_cast<int64_t>(isa));
      ASSERT_TRUE(forced.ok()) << how << ": " << forced.status().message();
      compare(*forced, how);
    }
  }
  if (best_isa_only) return;

  const Result<std::vector<Answer>> threaded = run(**c, on_threads(3));
  ASSERT_TRUE(threaded.ok()) << threaded.status().message();
  for (size_t k = 0; k < plain->size(); ++k)
    ASSERT_EQ((*plain)[k].bytes, (*threaded)[k].bytes) << what << ": 3 threads give other bits";

  const Result<std::vector<Answer>> strided = run(**c, on_threads(1), true);
  ASSERT_TRUE(strided.ok()) << strided.status().message();
  compare(*strided, "strided");

  Result<std::unique_ptr<Case>> copied = build(sample, floats, true);
  ASSERT_TRUE(copied.ok()) << copied.status().message();
  const Result<std::vector<Answer>> aliased = run(**copied, on_threads(1));
  ASSERT_TRUE(aliased.ok()) << aliased.status().message();
  compare(*aliased, "aliased");
}

// sum over outputs of weights * y, in doubles
double weigh(const std::vector<Answer>& answers, const std::vector<std::vector<double>>& weights) {
  double total = 0;
  for (size_t k = 0; k < answers.size(); ++k)
    for (size_t i = 0; i < weights[k].size(); ++i) total += weights[k][i] * answers[k].values[i];
  return total;
}

void check_gradient(const Sample& sample) {
  Result<std::unique_ptr<Case>> built = build(sample, f64);
  ASSERT_TRUE(built.ok()) << built.status().message();
  Case& c = **built;
  const Op* op = c.graph.registry().find(sample.op);
  if (!sample.gradient || op->def.grad == nullptr || (op->def.traits & kNoGradient) != 0) return;
  Result<std::vector<Answer>> first = run(c, on_threads(1));
  ASSERT_TRUE(first.ok()) << first.status().message();

  std::vector<std::vector<double>> weights;
  std::vector<Value> douts;
  uint64_t state = 7;
  for (const Answer& answer : *first) {
    weights.emplace_back();
    if (!is_float(answer.dtype)) {
      douts.emplace_back();
      continue;
    }
    Result<TensorData> data = TensorData::allocate(answer.dtype, answer.shape);
    ASSERT_TRUE(data.ok());
    for (int64_t i = 0; i < answer.shape.count(); ++i) {
      weights.back().push_back(static_cast<double>(next_random(state) >> 11) * 0x1p-53 + 0.25);
      write_element(data->tensor, i, weights.back().back());
    }
    douts.push_back(c.graph.constant(*data));
  }
  std::vector<bool> needs;
  for (size_t i = 0; i < c.arguments.size(); ++i) {
    const Value& x = c.arguments[i];
    needs.push_back(x && is_float(x.dtype()) && !sample.inputs[i].constant);
  }
  const Node node = c.graph.nodes()[static_cast<size_t>(c.node)];
  Case forward{c.graph, {}, c.inputs, c.node, {}};
  Result<std::vector<Value>> grads = GraphAccess::grad(c.graph, node, douts, needs);
  if (!grads.ok()) {  // what torch does not differentiate either: another sample has it constant
    ASSERT_EQ(grads.status().code(), Code::unsupported) << grads.status().message();
    return;
  }
  ASSERT_TRUE(c.graph.status().ok()) << c.graph.status().message();
  // Where a rule gives nothing at all, the expansion is differentiated.
  bool any = false;
  for (const Value& dx : *grads) any |= static_cast<bool>(dx);
  if (!any && op->def.expand != nullptr) return;
  std::vector<size_t> asked;
  for (size_t i = 0; i < needs.size(); ++i) {  // those left out at the end are not among them
    if (!needs[i]) continue;
    Value& dx = (*grads)[i];
    const Value& x = c.arguments[i];
    if (!dx)  // which callers take for zero
      dx = c.graph.call("expand", {c.graph.scalar(0.0, x.dtype())}, {{"shape", x.shape()}});
    ASSERT_EQ(dx.shape(), x.shape()) << "gradient of input " << i;
    ASSERT_EQ(dx.dtype(), x.dtype()) << "gradient of input " << i;
    c.graph.output(text("dx", static_cast<int64_t>(i)), dx);
    asked.push_back(i);
  }
  const Result<std::vector<Answer>> answers = run(c, on_threads(1));
  ASSERT_TRUE(answers.ok()) << answers.status().message();

  constexpr double kStep = 1e-5;
  size_t given = 0;
  std::map<size_t, size_t> input_of;  // argument -> forward.inputs
  for (size_t i = 0; i < c.arguments.size(); ++i)
    if (c.arguments[i]) input_of[i] = given++;
  for (size_t a = 0; a < asked.size(); ++a) {
    Input& input = forward.inputs[input_of[asked[a]]];
    const std::vector<double>& dx = (*answers)[first->size() + a].values;
    const int64_t n = static_cast<int64_t>(dx.size());
    const int64_t step = std::max<int64_t>(1, n / 7);
    for (int64_t i = 0; i < n; i += step) {
      double sides[2];
      for (int side = 0; side < 2; ++side) {
        write_element(input.data.tensor, i,
                      input.values[static_cast<size_t>(i)] + (side == 0 ? kStep : -kStep));
        const Result<std::vector<Answer>> moved = run(forward, on_threads(1));
        ASSERT_TRUE(moved.ok()) << moved.status().message();
        sides[side] = weigh(*moved, weights);
      }
      write_element(input.data.tensor, i, input.values[static_cast<size_t>(i)]);
      const double expected = (sides[0] - sides[1]) / (2 * kStep);
      ASSERT_NEAR(dx[static_cast<size_t>(i)], expected, 2e-5 * (1 + std::abs(expected)))
          << "gradient of input " << asked[a] << ", element " << i;
    }
  }
}

class SampleTest : public testing::Test {
 public:
  SampleTest(Sample sample, std::string filter)
      : sample_(std::move(sample)), filter_(std::move(filter)) {}

  void TestBody() override {
    SCOPED_TRACE("repeat with: op_test --gtest_filter=" + filter_);
    bool floats = false;
    for (const SampleInput& input : sample_.inputs) floats = floats || input.dtype == f32;
    for (DType dtype : {f32, f64, f16, bf16}) {
      if (dtype == f32 || floats) check_dtype(sample_, dtype);
      if (HasFatalFailure()) return;
    }
    if (floats && !device_under_test && !best_isa_only) check_gradient(sample_);
  }

 private:
  Sample sample_;
  std::string filter_;
};

// A device by its name, or else the first one, be it a software device.
Status open_device(std::string_view wanted) {
  HG_TRY_ASSIGN(const std::vector<DeviceInfo> devices, list_devices());
  GpuOptions options;
  options.name = wanted.empty() ? devices.front().name : std::string(wanted);
  HG_TRY_ASSIGN(device_under_test, Gpu::open(options));
  return {};
}

// What the table promises of every op.
TEST(Registry, EveryOpIsComplete) {
  std::set<std::string_view> sampled, differentiated;
  for (const Sample& sample : all_samples()) {
    if (sample.gradient) differentiated.insert(sample.op);
    EXPECT_NE(Registry::built_in().find(sample.op), nullptr) << "a sample of unknown " << sample.op;
    sampled.insert(sample.op);
  }
  std::string without_sample, without_gradient, without_differences;
  for (const Op* op : Registry::built_in().ops()) {
    const OpDef& def = op->def;
    EXPECT_TRUE(Signature::parse(def.signature).ok()) << def.signature;
    EXPECT_TRUE(def.infer != nullptr || def.expand != nullptr) << def.name << " has no shape rule";
    const bool runs = !Registry::built_in().kernels(def.name, Device::cpu).empty() ||
                      def.view != nullptr || def.expand != nullptr || (def.traits & kControl) != 0;
    EXPECT_TRUE(runs) << def.name << " has neither a CPU kernel nor a view nor an expansion";
    // Subgraphs, sizes that data decides and random numbers do not fit a sample row: session_test.
    const bool special = (def.traits & (kControl | kDataDependent | kRandom)) != 0;
    // A gradient without a gradient of its own is refused by name where one asks for it.
    if (def.grad == nullptr && def.expand == nullptr &&
        (def.traits & (kNoGradient | kControl)) == 0 && !def.name.ends_with("_grad"))
      without_gradient += text(" ", def.name);
    // Those of normalised log_probs and of symmetric matrices: gradients_test.
    const bool elsewhere = def.name == "ctc_loss" || def.name == "cholesky" || def.name == "eigh";
    if (def.grad != nullptr && !special && !elsewhere && differentiated.count(def.name) == 0)
      without_differences += text(" ", def.name);
    if (!special && sampled.count(def.name) == 0) without_sample += text(" ", def.name);
  }
  EXPECT_EQ(without_sample, "");
  EXPECT_EQ(without_gradient,
            " bessel_j0 bessel_j1 bessel_k0 bessel_k0e bessel_k1 bessel_k1e bessel_y0 bessel_y1"
            " nextafter polynomial")
      << "torch differentiates these ops";
  EXPECT_EQ(without_differences, "") << "no sample compares the rule with finite differences";
}

}  // namespace
}  // namespace hg::test

int main(int argc, char** argv) {
  std::map<std::string, int> numbers;
  for (hg::test::Sample& sample : hg::test::all_samples()) {
    const std::string op(sample.op);
    const std::string number = std::to_string(numbers[op]++);
    testing::RegisterTest(op.c_str(), number.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [sample, filter = op + "." + number]() -> hg::test::SampleTest* {
                            return new hg::test::SampleTest(sample, filter);
                          });
  }
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--best-isa") hg::test::best_isa_only = true;
    if (!argument.starts_with("--vulkan")) continue;
    const hg::Status opened =
        hg::test::open_device(argument.substr(std::min<size_t>(9, argument.size())));
    if (opened.ok()) continue;
    std::printf("%s\n", std::string(opened.message()).c_str());
    return 1;
  }
  return RUN_ALL_TESTS();
}
