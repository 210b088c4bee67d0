// SPDX-License-Identifier: Apache-2.0
// The tables of ops, kernels, references and samples are consistent.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "kernels/reference/reference.h"
#include "lib/graph/internal_op.h"
#include "tests/support/must.h"
#include "tests/ops/op_checks.h"

namespace hg::test {
namespace {

// Properties that every op must have.
TEST(Registry, EveryOpIsComplete) {
  std::set<std::string_view> sampled, differentiated;
  for (const Sample& sample : all_samples()) {
    if (sample.gradient) differentiated.insert(sample.op);
    EXPECT_NE(Registry::built_in().find(sample.op), nullptr) << "a sample of unknown " << sample.op;
    sampled.insert(sample.op);
  }
  std::string without_sample, without_reference, without_gradient, without_differences;
  for (const Op* op : Registry::built_in().ops()) {
    const OpDef& def = op->def;
    EXPECT_TRUE(Signature::parse(def.signature).ok()) << def.signature;
    EXPECT_TRUE(def.infer != nullptr || def.expand != nullptr) << def.name << " has no shape rule";
    const bool runs = !Registry::built_in().kernels(def.name, Device::cpu).empty() ||
                      def.view != nullptr || def.expand != nullptr || (def.traits & kControl) != 0;
    EXPECT_TRUE(runs) << def.name << " has neither a CPU kernel nor a view nor an expansion";
    // Subgraphs do not fit a sample row: session_test.
    // Neither do complex tensors: complex_test.
    const bool special = (def.traits & (kControl | kComplex)) != 0;
    if (!special && reference::find(def.name) == nullptr)
      without_reference += str_cat(" ", def.name);
    // Second derivatives of such an op are rejected by the op's name.
    if (def.grad == nullptr && def.expand == nullptr &&
        (def.traits & (kNoGradient | kControl | kInternal)) == 0)
      without_gradient += str_cat(" ", def.name);
    // gradients_test covers normalized log_probs and symmetric matrices.
    const bool elsewhere = def.name == "ctc_loss" || def.name == "cholesky" || def.name == "eigh";
    if (def.grad != nullptr && !special && !elsewhere && differentiated.count(def.name) == 0)
      without_differences += str_cat(" ", def.name);
    if (!special && sampled.count(def.name) == 0) without_sample += str_cat(" ", def.name);
  }
  EXPECT_EQ(without_sample, "");
  EXPECT_EQ(without_reference, "") << "kernels/reference has no loops to hold the op against";
  EXPECT_EQ(without_gradient,
            " bessel_j0 bessel_j1 bessel_k0 bessel_k0e bessel_k1 bessel_k1e bessel_y0 bessel_y1"
            " geqrf ldl_factor ldl_solve polynomial")
      << "torch differentiates all others";
  EXPECT_EQ(without_differences, "") << "no sample compares the rule with finite differences";
}

// Passes ask for traits instead of names, so traits must agree with ops and kernels.
TEST(Registry, TraitsAreThoseOfTheKernels) {
  for (const Op* op : Registry::built_in().ops()) {
    const uint32_t traits = op->def.traits;
    const bool is_elementwise = traits & kElementwise, is_reduction = traits & kReduction;
    EXPECT_FALSE(is_elementwise && is_reduction) << op->name();
    for (const Device device : {Device::cpu, Device::vulkan})
      for (const KernelDef* kernel : Registry::built_in().kernels(op->name(), device)) {
        if (kernel->in_programs) {
          EXPECT_TRUE(is_elementwise || is_reduction) << op->name();
        }
        if (is_elementwise || (is_reduction && device == Device::cpu)) {
          EXPECT_TRUE(kernel->in_programs) << op->name() << "=" << kernel->name;
        }
      }
    if (is_elementwise) {
      EXPECT_EQ(op->signature.outputs.size(), 1u) << op->name();
      EXPECT_EQ(traits & (kRandom | kDataDependent | kControl | kInPlace), 0u) << op->name();
    }
    if (is_reduction) {
      EXPECT_GE(op->signature.find_attribute("dim"), 0) << op->name();
    }
    if (traits & kLoop) {
      EXPECT_TRUE(traits & kControl) << op->name();
    }
    if (traits & kCommutative) {
      EXPECT_GE(op->signature.inputs.size(), 2u) << op->name();
    }
    if (traits & kProduct) {
      ASSERT_GE(op->signature.inputs.size(), 2u) << op->name();
      EXPECT_FALSE(op->signature.inputs[0].optional || op->signature.inputs[1].optional)
          << op->name();
      EXPECT_NE(op->def.flops, nullptr) << op->name();
    }
    if (traits & kConcatenation) {
      ASSERT_EQ(op->signature.inputs.size(), 1u) << op->name();
      EXPECT_TRUE(op->signature.inputs[0].variadic) << op->name();
      EXPECT_GE(op->signature.find_attribute("dim"), 0) << op->name();
    }
  }
}

TEST(Registry, OpsThatKeepElementsFiniteDo) {
  std::set<std::string_view> seen;
  const auto is_finite = [](const std::vector<double>& values) {
    return std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); });
  };
  for (const Sample& sample : all_samples()) {
    const Op* const op = Registry::built_in().find(sample.op);
    if (op == nullptr || (op->def.traits & kKeepsFinite) == 0) continue;
    const std::unique_ptr<Case> c = must(build(sample, sample.has_floats() ? f64 : f32));
    if (!std::all_of(c->inputs.begin(), c->inputs.end(),
                     [&](const Input& input) { return is_finite(input.values); }))
      continue;
    const Result<std::vector<Answer>> answers = run(*c, on_threads(1));
    ASSERT_TRUE(answers.ok()) << sample.op << ": " << answers.status().message();
    seen.insert(sample.op);
    for (const Answer& answer : *answers) EXPECT_TRUE(is_finite(answer.values)) << sample.op;
  }
  EXPECT_EQ(seen.size(), 14u);
}

// With f64, integers or booleans, whichever the op accepts.
TEST(Registry, CommutativeOpsGiveTheSameWhenInputsChangePlaces) {
  const auto commutes = [](const Op& op, DType dtype) {
    Graph g;
    const Value a = g.input("a", f64, {16}), b = g.input("b", f64, {16});
    const Value x = cast(a, dtype), y = cast(b, dtype);
    g.output("one", cast(g.call(op.name(), {x, y}), f64));
    g.output("other", cast(g.call(op.name(), {y, x}), f64));
    const Result<Model> model = Model::from_graph(std::move(g));
    if (!model.ok()) return false;
    Session session = *Session::create(*model);
    std::vector<double> left(16), right(16);
    for (size_t i = 0; i < 16; ++i) {
      left[i] = static_cast<double>(i * 7 % 5) - 2;
      right[i] = static_cast<double>(i * 3 % 7) - 3;
    }
    EXPECT_TRUE(session.set_input(0, view(left, {16})).ok());
    EXPECT_TRUE(session.set_input(1, view(right, {16})).ok());
    EXPECT_TRUE(session.run().ok()) << op.name();
    const Tensor one = *session.output(0), other = *session.output(1);
    return std::equal(one.as<double>(), one.as<double>() + 16, other.as<double>());
  };
  for (const Op* op : Registry::built_in().ops())
    if (op->def.traits & kCommutative) {
      EXPECT_TRUE(commutes(*op, f64) || commutes(*op, i64) || commutes(*op, boolean)) << op->name();
    }
}

// ---- Which kernel takes which dtypes ----

using Taken = std::map<std::string, std::set<std::string>>;  // dtypes by "conv=gemm"

// The dtype that a sample tests: that of its first input, or else of its result.
DType dtype_of(const Case& c) {
  return c.inputs.empty() ? c.outputs[0].dtype() : c.inputs[0].data.tensor.dtype;
}

Taken taken_here() {
  Taken taken;
  for (const Sample& sample : all_samples())
    for (const DType floats : sample.has_floats() ? sample.floats : std::vector<DType>{f32}) {
      const Result<std::unique_ptr<Case>> c = build(sample, floats);
      if (!c.ok()) continue;  // SampleTest reports it
      const Result<Model> model = Model::from_graph((*c)->graph);
      for (const KernelDef* kernel : Registry::built_in().kernels(sample.op, Device::cpu)) {
        // Only builds with OpenBLAS have these; openblas_test covers them.
        if (kernel->name == "lapack" || kernel->name == "openblas") continue;
        const std::string forced = str_cat(kernel->op, "=", kernel->name);
        // These need AMX, or AVX2 without VNNI; halves_test, integer_random_test and
        // quantize_random_test cover them.
        if (forced == "conv=tiles" || forced == "matmul_integer=rows" ||
            forced == "conv_integer=winograd" || forced == "quantized_linear=level_tiles" ||
            forced == "conv_dense_channels_last=rows" || forced == "conv_to_channels_last=rows")
          continue;
        const std::string dtype(to_string(dtype_of(**c)));
        std::set<std::string>& dtypes = taken[forced];
        if (dtypes.contains(dtype)) continue;
        SessionOptions options = on_threads(1);
        options.kernels = {forced};
        CaseRun run(**c);
        if (run.create(*model, options).ok() && run.run().ok()) dtypes.insert(dtype);
      }
    }
  return taken;
}

// If a kernel accepts a new dtype or loses one, the list must be changed by hand.
TEST(Kernels, TakeTheDtypesOfTheList) {
  if (device_under_test) GTEST_SKIP() << "the list is of the CPU";
  std::ifstream file(HG_KERNEL_LIST);
  Taken listed;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t colon = line.find(':');
    std::istringstream dtypes(line.substr(0, colon)), kernels(line.substr(colon + 1));
    using Words = std::istream_iterator<std::string>;
    const std::set<std::string> accepted(Words(dtypes), Words{});
    for (Words kernel(kernels); kernel != Words{}; ++kernel) listed[*kernel] = accepted;
  }
  const Taken taken = taken_here();
  EXPECT_EQ(taken.size(), listed.size()) << HG_KERNEL_LIST;
  for (const auto& [kernel, dtypes] : taken) EXPECT_EQ(dtypes, listed[kernel]) << kernel;
}

}  // namespace
}  // namespace hg::test
