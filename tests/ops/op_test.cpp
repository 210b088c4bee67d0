// SPDX-License-Identifier: Apache-2.0
// Every sample row of every op against the double loops of kernels/reference: each dtype, kernel
// variant and thread count, strided inputs, inputs that the output may overwrite, files, short
// memory, and gradients against finite differences. A failing case prints the command that repeats
// it alone. With --vulkan[=NAME] the rows run on a Vulkan device, with the same expected results.
// With --best-isa kernels use only the best instruction set, for emulators.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "hg/hg.h"
#include "kernels/reference/reference.h"
#include "lib/platform/instruction_set.h"
#include "tests/support/elements.h"
#include "tests/support/must.h"
#include "tests/ops/op_checks.h"

namespace hg::test {

Gpu device_under_test;

SessionOptions on_threads(int threads) {
  SessionOptions options;
  options.threads = threads;
  return options;
}

// ---- What is right ----

void expect_near(const std::vector<double>& got, const std::vector<double>& expected,
                 double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]))) continue;
    ASSERT_FALSE(std::isinf(expected[i]))  // any distance would be within an infinite limit
        << what << ": element " << i << " is " << got[i] << ", expected " << expected[i];
    const double limit = tolerance * (1 + std::abs(expected[i]));
    ASSERT_LE(std::abs(got[i] - expected[i]), limit)
        << what << ": element " << i << " is " << got[i] << ", expected " << expected[i];
  }
}

namespace {

bool best_isa_only = false;

SessionOptions on_device() {
  SessionOptions options;
  options.device = Device::vulkan;
  options.gpu = device_under_test;
  return options;
}

// ---- The checks of one sample ----

// During its lifetime, new plans use no better instruction set.
struct LimitedIsa {
  explicit LimitedIsa(Isa isa) { limit_isa(isa); }
  ~LimitedIsa() { limit_isa(kBestIsa); }
};

void check_dtype(const Sample& sample, DType floats) {
  const std::string what(to_string(floats));
  Result<std::unique_ptr<Case>> c = build(sample, floats);
  ASSERT_TRUE(c.ok()) << what << ": " << c.status().message();
  const Result<std::vector<Answer>> plain = run(**c, on_threads(1));
  ASSERT_TRUE(plain.ok()) << what << ": " << plain.status().message();
  for (size_t k = 0; k < plain->size(); ++k) {
    const TensorType& type = (*c)->graph.value_info((*c)->outputs[k].id()).type;
    ASSERT_EQ((*plain)[k].dtype, type.dtype) << what;
    if (is_constant(type.shape)) {
      ASSERT_EQ(to_shape((*plain)[k].shape), type.shape) << what;
    }
  }
  ASSERT_NE(reference::find(sample.op), nullptr) << sample.op << " has no reference";
  const std::vector<std::vector<double>> expected = expected_of(**c, *plain);
  const auto compare = [&](const std::vector<Answer>& answers, const std::string& how) {
    ASSERT_EQ(answers.size(), expected.size());
    for (size_t k = 0; k < answers.size(); ++k)
      expect_near(answers[k].values, expected[k], tolerance_of(sample, answers[k].dtype),
                  str_cat(what, " ", how, " output ", static_cast<int64_t>(k)));
  };
  compare(*plain, "plain");
  if (testing::Test::HasFatalFailure()) return;
  if (device_under_test) {
    const auto on_vulkan = [&](const Case& graph, bool strided, const std::string& how,
                               SessionOptions options = on_device()) {
      const bool is_forced = !options.kernels.empty();
      const Result<std::vector<Answer>> answers = run(graph, std::move(options), strided);
      if (is_forced && answers.status().code() == Code::unsupported) return;
      ASSERT_TRUE(answers.ok()) << what << " " << how << ": " << answers.status().message();
      compare(*answers, how);
    };
    on_vulkan(**c, false, "vulkan");
    on_vulkan(**c, true, "vulkan, strided");
    std::unique_ptr<Case> copied = must(build(sample, floats, Wiring::copied));
    on_vulkan(*copied, false, "vulkan, aliased");
    // Kernels for other devices must also be right here.
    const auto variants = Registry::built_in().kernels(sample.op, Device::vulkan);
    if (variants.size() == 1) return;
    for (const KernelDef* kernel : variants)
      for (const bool is_strided : {false, true}) {
        SessionOptions options = on_device();
        options.kernels = {str_cat(sample.op, "=", kernel->name)};
        on_vulkan(**c, is_strided, options.kernels[0], options);
      }
    return;
  }

  // Every variant with every instruction set of this processor; 16-bit kernels share them.
  const Isa best = chosen_isa();
  for (Isa isa : kIsas) {
    if (!supports(isa) || (isa < best && (best_isa_only || (floats != f32 && floats != f16))))
      continue;
    const LimitedIsa limited(isa);
    for (const KernelDef* kernel : Registry::built_in().kernels(sample.op, Device::cpu)) {
      SessionOptions options = on_threads(1);
      options.kernels = {str_cat(sample.op, "=", kernel->name)};
      const Result<std::vector<Answer>> forced = run(**c, options);
      if (!forced.ok() && forced.status().code() == Code::unsupported) continue;
      const std::string how = str_cat("kernel ", kernel->name, ", isa ", static_cast<int64_t>(isa));
      ASSERT_TRUE(forced.ok()) << how << ": " << forced.status().message();
      compare(*forced, how);
    }
  }
  if (best_isa_only) return;

  const std::vector<Answer> threaded = must(run(**c, on_threads(3)));
  for (size_t k = 0; k < plain->size(); ++k)
    ASSERT_EQ((*plain)[k].bytes, threaded[k].bytes) << what << ": 3 threads give other bits";

  const std::vector<Answer> strided = must(run(**c, on_threads(1), true));
  compare(strided, "strided");

  std::unique_ptr<Case> copied = must(build(sample, floats, Wiring::copied));
  const std::vector<Answer> aliased = must(run(*copied, on_threads(1)));
  compare(aliased, "aliased");

  if (!sample.twice) return;
  std::unique_ptr<Case> shared = must(build(sample, floats, Wiring::shared));
  if (shared->inputs.size() == (*c)->inputs.size()) return;
  const Result<std::vector<Answer>> twice = run(*shared, on_threads(1));
  ASSERT_TRUE(twice.ok()) << "one value twice: " << twice.status().message();
  const std::vector<std::vector<double>> of_twice = expected_of(*shared, *twice);
  for (size_t k = 0; k < twice->size(); ++k)
    expect_near((*twice)[k].values, of_twice[k], tolerance_of(sample, (*twice)[k].dtype),
                str_cat(what, " one value twice, output ", static_cast<int64_t>(k)));
}

class SampleTest : public testing::Test {
 public:
  SampleTest(Sample sample, std::string filter)
      : sample_(std::move(sample)), filter_(std::move(filter)) {}

  void TestBody() override {
    SCOPED_TRACE("repeat with: op_test --gtest_filter=" + filter_);
    const std::vector<DType> dtypes =
        sample_.has_floats() ? sample_.floats : std::vector<DType>{f32};
    for (DType dtype : dtypes) {
      check_dtype(sample_, dtype);
      if (HasFatalFailure()) return;
      if (!device_under_test && !best_isa_only) check_saved(sample_, dtype);
      if (HasFatalFailure()) return;
    }
    expect_refused();
    if (device_under_test || best_isa_only) return;
    check_short_memory(sample_);
    check_gradient(sample_);
  }

 private:
  // A sample lists the dtypes that its op accepts, so that none is lost or added unnoticed.
  void expect_refused() {
    for (DType dtype : {f32, f64, f16, bf16}) {
      const std::vector<DType>& taken = sample_.floats;
      if (!sample_.has_floats() || std::find(taken.begin(), taken.end(), dtype) != taken.end())
        continue;
      const Result<std::unique_ptr<Case>> c = build(sample_, dtype);
      EXPECT_FALSE(c.ok() && run(**c, on_threads(1)).ok())
          << to_string(dtype) << " is taken, which the sample does not say";
    }
  }

  Sample sample_;
  std::string filter_;
};

// Opens the device with this name, or else the first one, even a software device.
Status open_device(std::string_view wanted) {
  HG_TRY_ASSIGN(const std::vector<DeviceInfo> devices, list_devices());
  GpuOptions options;
  options.name = wanted.empty() ? devices.front().name : std::string(wanted);
  HG_TRY_ASSIGN(device_under_test, Gpu::open(options));
  return {};
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
