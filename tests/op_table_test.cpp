// SPDX-License-Identifier: Apache-2.0
// What the tables of ops, kernels, references and samples promise of each other.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>

#include "kernels/reference/reference.h"
#include "tests/op_checks.h"

namespace hg::test {
namespace {

// What the table promises of every op.
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
    if (!special && reference::find(def.name) == nullptr) without_reference += text(" ", def.name);
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
  EXPECT_EQ(without_reference, "") << "kernels/reference has no loops to hold the op against";
  EXPECT_EQ(without_gradient,
            " bessel_j0 bessel_j1 bessel_k0 bessel_k0e bessel_k1 bessel_k1e bessel_y0 bessel_y1"
            " nextafter polynomial")
      << "torch differentiates these ops";
  EXPECT_EQ(without_differences, "") << "no sample compares the rule with finite differences";
}

// ---- Which kernel takes which dtypes ----

using Taken = std::map<std::string, std::set<std::string>>;  // dtypes by "conv=gemm"

// The dtype that a sample is about: that of its first input, or of its result.
DType dtype_of(const Case& c) {
  return c.inputs.empty() ? c.outputs[0].dtype() : c.inputs[0].data.tensor.dtype;
}

Taken taken_here() {
  Taken taken;
  for (const Sample& sample : all_samples())
    for (const DType floats : sample.has_floats() ? sample.floats : std::vector<DType>{f32}) {
      const Result<std::unique_ptr<Case>> c = build(sample, floats);
      if (!c.ok()) continue;  // SampleTest says so
      const Result<Model> model = Model::from_graph((*c)->graph);
      for (const KernelDef* kernel : Registry::built_in().kernels(sample.op, Device::cpu)) {
        const std::string forced = text(kernel->op, "=", kernel->name);
        const std::string dtype(name(dtype_of(**c)));
        std::set<std::string>& dtypes = taken[forced];
        if (dtypes.contains(dtype)) continue;
        Options options = on_threads(1);
        options.kernels = {forced};
        CaseRun run(**c);
        if (run.create(*model, options).ok() && run.run().ok()) dtypes.insert(dtype);
      }
    }
  return taken;
}

std::string line_of(const std::string& kernel, const std::set<std::string>& dtypes) {
  std::string line = kernel + ":";
  for (const std::string& dtype : dtypes) line += " " + dtype;
  return line;
}

// A kernel that takes a dtype no longer, or one more, changes the list, by hand.
TEST(Kernels, TakeTheDtypesOfTheList) {
  if (device_under_test) GTEST_SKIP() << "the list is of the CPU";
  std::ifstream file(HG_KERNEL_LIST);
  std::set<std::string> listed, found;
  for (std::string line; std::getline(file, line);)
    if (!line.empty() && line[0] != '#') listed.insert(line);
  for (const auto& [kernel, dtypes] : taken_here()) found.insert(line_of(kernel, dtypes));
  std::string lost, more;
  for (const std::string& line : listed)
    if (!found.contains(line)) lost += line + "\n";
  for (const std::string& line : found)
    if (!listed.contains(line)) more += line + "\n";
  EXPECT_EQ(lost, "") << "these lines of " << HG_KERNEL_LIST << " do not hold";
  EXPECT_EQ(more, "") << "these hold and are not there";
}

}  // namespace
}  // namespace hg::test
