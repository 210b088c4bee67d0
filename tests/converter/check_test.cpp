// SPDX-License-Identifier: Apache-2.0
// The check itself: it detects conversions that are broken on purpose, including faults that the
// default inputs do not reach, and accepts correct ones whose results depend on rounding.
// make_checked.py makes the models; without a Python installation with torch the tests are skipped.
#include "converter/check/check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "converter/check/in_turn.h"
#include "converter/check/reference.h"
#include "converter/cli/inputs.h"
#include "converter/interpret/interpret.h"
#include "lib/graph/access.h"

namespace hg::convert {
namespace {

const std::filesystem::path kModels = HG_TEST_CHECKED;
using Verdict = CheckedOutput::Verdict;
using Tamper = std::function<void(Graph&)>;
using Types = std::vector<std::string>;

CheckResult check(const std::string& name, const Types& inputs, const Tamper& tamper = {}) {
  const Loaded loaded = load_script((kModels / (name + ".pt")).string(), {}, {"forward"}).at(0);
  Job job;
  std::string note;
  std::vector<InputOption> given;
  for (const std::string& input : inputs) given.push_back(parse_input(input));
  job.inputs = fit_inputs(loaded.program, given, note);
  std::vector<InputSpec> specs;
  for (const InputOption& option : job.inputs) specs.push_back(option.spec);
  Imported imported = import_program(loaded.program, specs, Registry::built_in());
  EXPECT_TRUE(imported.unsupported.empty());
  if (tamper) tamper(imported.graph);
  const Model model = *Model::from_graph(std::move(imported.graph));
  const std::function<const Model&()> written = [&]() -> const Model& { return model; };
  return check_model(loaded, model.graph(), written, imported.trace, job,
                     [](const std::string&) {});
}

CheckResult check(const std::string& name, const std::string& input, const Tamper& tamper = {}) {
  return check(name, Types{input}, tamper);
}

// Replaces one op by another in all nodes, including those in bodies, and keeps the first
// attributes.
void replace_op(Graph& graph, std::string_view op, std::string_view by) {
  for (Node& node : GraphAccess::body(graph).nodes) {
    if (node.op->name() == op) {
      node.op = graph.registry().find(by);
      node.attrs.resize(node.op->signature.attributes.size());
    }
    for (const auto& body : node.subgraphs) replace_op(*body, op, by);
  }
}

Tamper instead(std::string_view op, std::string_view by) {
  return [op, by](Graph& graph) { replace_op(graph, op, by); };
}

#define SKIP_WITHOUT_MODELS() \
  if (!std::filesystem::exists(kModels / "made")) GTEST_SKIP() << "no Python with torch"

std::string verdicts(const CheckResult& result) {
  std::string all = result.message;
  for (const CheckedCase& checked : result.cases)
    for (const CheckedOutput& output : checked.outputs)
      all += str_cat("\n", checked.values, " ", output.name, " ", static_cast<int>(output.verdict),
                     " ", output.reason);
  return all;
}

void expect_verdicts(const CheckResult& result, const std::vector<Verdict>& most) {
  EXPECT_EQ(result.exit, Exit::ok) << verdicts(result);
  for (const CheckedCase& checked : result.cases) {
    ASSERT_EQ(checked.outputs.size(), most.size());
    for (size_t i = 0; i < most.size(); ++i)
      EXPECT_TRUE(checked.outputs[i].verdict == Verdict::equal ||
                  checked.outputs[i].verdict == most[i])
          << verdicts(result);
  }
}

TEST(Check, AWrongBodyThatUsualValuesDoNotReachIsFound) {
  SKIP_WITHOUT_MODELS();
  EXPECT_EQ(check("sides", "f32[n,4]").exit, Exit::ok);
  const CheckResult wrong = check("sides", "f32[n,4]", instead("add", "sub"));
  EXPECT_EQ(wrong.exit, Exit::mismatch);
  EXPECT_NE(wrong.message.find("normal values of scale"), std::string::npos) << wrong.message;
  // A fault outside the range cannot be found, and is reported as not exercised.
  const CheckResult unseen = check("sides", "f32[n,4]=-1..1", instead("add", "sub"));
  EXPECT_EQ(unseen.exit, Exit::ok);
  ASSERT_EQ(unseen.not_exercised.size(), 1u);
  EXPECT_EQ(unseen.not_exercised[0].find("the body of `if` at "), 0u) << unseen.not_exercised[0];
}

TEST(Check, AWrongLoopThatUsualValuesDoNotEnterIsFound) {
  SKIP_WITHOUT_MODELS();
  const CheckResult right = check("rounds", "f32[n,4]");
  EXPECT_EQ(right.exit, Exit::ok) << right.message;
  EXPECT_TRUE(right.not_exercised.empty()) << right.not_exercised[0];
  EXPECT_EQ(check("rounds", "f32[n,4]", instead("add", "sub")).exit, Exit::mismatch);
}

TEST(Check, AWrongClampOfASliceIsFound) {
  SKIP_WITHOUT_MODELS();
  EXPECT_TRUE(check("slice", "f32[n,4]").not_exercised.empty());
  // Right for n up to 5, and thus for the default sizes.
  const CheckResult wrong = check("slice", "f32[n,4]", [](Graph& graph) {
    const auto shrink = [](Dim& dim) {
      if (str_cat(dim) == str_cat(min(Dim("n"), Dim(6)))) dim = min(Dim("n"), Dim(5));
    };
    for (Node& node : GraphAccess::body(graph).nodes)
      for (Attr& attr : node.attrs)
        if (auto* dim = std::get_if<Dim>(&attr.value)) shrink(*dim);
    for (ValueInfo& value : GraphAccess::body(graph).values)
      for (Dim& dim : value.type.shape) shrink(dim);
  });
  EXPECT_EQ(wrong.exit, Exit::mismatch);
  EXPECT_NE(wrong.message.find("n=6"), std::string::npos) << wrong.message;
}

TEST(Check, LargeElementsHideNoErrorInOthers) {
  SKIP_WITHOUT_MODELS();
  EXPECT_EQ(check("masked", "f32[n,40]").exit, Exit::ok);
  EXPECT_EQ(check("masked", "f32[n,40]", instead("mul", "div")).exit, Exit::mismatch);
}

TEST(Check, SmallOutputsAreCompared) {
  SKIP_WITHOUT_MODELS();
  EXPECT_EQ(check("small", "f32[n,40]").exit, Exit::ok);
  EXPECT_EQ(check("small", "f32[n,40]", instead("sin", "cos")).exit, Exit::mismatch);
}

TEST(Check, PhasesOfRealNumbersDifferByTheirSign) {
  SKIP_WITHOUT_MODELS();
  expect_verdicts(check("phase", "f32[n,16]"),
                  {Verdict::ill_conditioned, Verdict::ill_conditioned, Verdict::equal});
  EXPECT_EQ(check("phase", "f32[n,16]", instead("add", "sub")).exit, Exit::mismatch);
}

TEST(Check, AnOrderThatIsOpenIsNoMismatch) {
  SKIP_WITHOUT_MODELS();
  expect_verdicts(check("unsorted", "f32[n,40]"),
                  {Verdict::ill_conditioned, Verdict::ill_conditioned, Verdict::ill_conditioned});
  EXPECT_EQ(check("unsorted", "f32[n,40]", instead("add", "sub")).exit, Exit::mismatch);
  expect_verdicts(check("ties", "f32[n,40]"), {Verdict::ill_conditioned, Verdict::ill_conditioned});
  EXPECT_EQ(check("ties", "f32[n,40]", instead("round", "floor")).exit, Exit::mismatch);
}

TEST(Check, RoundingDecidesOnSteps) {
  SKIP_WITHOUT_MODELS();
  expect_verdicts(check("threshold", "f32[n,256]"),
                  {Verdict::ill_conditioned, Verdict::ill_conditioned, Verdict::equal});
  EXPECT_EQ(check("threshold", "f32[n,256]", instead("sin", "cos")).exit, Exit::mismatch);
}

TEST(Check, RoundingDecidesInASecondRunToo) {
  SKIP_WITHOUT_MODELS();
  expect_verdicts(check("counted", "f32[n,256]"), {Verdict::ill_conditioned, Verdict::equal});
  const CheckResult wrong = check("counted", "f32[n,256]", [](Graph& graph) {
    for (auto& [state, value] : GraphAccess::body(graph).assignments) value = state;
  });
  EXPECT_EQ(wrong.exit, Exit::mismatch);
}

TEST(Check, DrawsIntegersThatTheModelTakes) {
  SKIP_WITHOUT_MODELS();
  const CheckResult zeros = check("zeros", "i64[]");
  EXPECT_EQ(zeros.exit, Exit::ok) << zeros.message;
  ASSERT_EQ(zeros.drawn.size(), 1u);
  EXPECT_EQ(zeros.drawn[0].find("'n' from 0 to "), 0u) << zeros.drawn[0];
  EXPECT_NE(zeros.drawn[0].find("as libtorch refuses others: "), std::string::npos);
  EXPECT_NE(zeros.drawn[0].find("--input 'n:i64[]=0.."), std::string::npos) << zeros.drawn[0];
  for (const std::string& way : zeros.not_exercised) ADD_FAILURE() << way;
  EXPECT_TRUE(check("zeros", "i64[]=0..4").drawn.empty());
}

TEST(Check, DrawsLengthsInFallingOrder) {
  SKIP_WITHOUT_MODELS();
  for (const std::string lengths : {"i64[b]=1..5", "i64[b]=0..9", "i64[b]"}) {
    const CheckResult packed = check("packed", Types{"f32[b,5,4]", lengths});
    EXPECT_EQ(packed.exit, Exit::ok) << packed.message;
    EXPECT_TRUE(packed.warnings.empty()) << packed.warnings[0];
    const std::string all = verdicts(packed);
    EXPECT_NE(all.find("'lengths' are falling lengths"), std::string::npos) << all;
  }
}

TEST(Check, NamesARangeWhereNoIntegerFits) {
  SKIP_WITHOUT_MODELS();
  const CheckResult odd = check("odd", Types{"f32[5,4]", "i64[]"});
  EXPECT_EQ(odd.exit, Exit::mismatch);
  EXPECT_NE(odd.message.find("give ranges, as in --input 'n:i64[]=1..4'"), std::string::npos)
      << odd.message;
  EXPECT_EQ(check("odd", Types{"f32[5,4]", "i64[]=20..20"}).exit, Exit::ok);
}

// Checks the entries of totals.pt after tampering with `add`.
CheckResult check_totals(const Tamper& tamper) {
  const std::vector<std::string> methods = {"add", "read"};
  const std::vector<Loaded> loaded = load_script((kModels / "totals.pt").string(), {}, methods);
  Job job;
  Model model;
  for (size_t k = 0; k < methods.size(); ++k) {
    std::vector<InputSpec> specs;
    if (k == 0) specs.push_back(parse_input("x:f32[3]").spec);
    Imported imported = import_program(loaded[k].program, specs, Registry::built_in());
    EXPECT_TRUE(imported.unsupported.empty());
    if (k == 0 && tamper) tamper(imported.graph);
    EXPECT_TRUE(model.add_entry(methods[k], std::move(imported.graph)).ok());
  }
  const Model add = *model.entry("add"), read = *model.entry("read");
  const CheckResult alone;
  CheckResult result;
  check_in_turn({{"add", &loaded[0], &add.graph(), &job, &alone},
                 {"read", &loaded[1], &read.graph(), &job, &alone}},
                model, 1, result);
  return result;
}

TEST(Check, FindsAStateThatOnlyAnotherEntryReturns) {
  SKIP_WITHOUT_MODELS();
  const CheckResult right = check_totals({});
  EXPECT_EQ(right.exit, Exit::ok) << right.message;
  EXPECT_TRUE(right.warnings.empty()) << right.warnings[0];
  const CheckResult wrong = check_totals(instead("add", "sub"));
  EXPECT_EQ(wrong.exit, Exit::mismatch);
  EXPECT_EQ(wrong.message.find("the state 'total' is wrong after a run of `add`: "), 0u)
      << wrong.message;
}

// Recurrent layers and attention are random ops of libtorch, even if they drop nothing.
TEST(Check, RunsLibtorchAgainOnlyIfResultsMayVary) {
  SKIP_WITHOUT_MODELS();
  const auto varies = [](const std::string& name) {
    return may_vary(load_script((kModels / name).string(), {}, {"forward"}).at(0));
  };
  EXPECT_FALSE(varies("packed.pt"));
  EXPECT_TRUE(varies("dropped.pt"));
}

}  // namespace
}  // namespace hg::convert
