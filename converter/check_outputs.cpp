// SPDX-License-Identifier: Apache-2.0
// Whether the outputs of one run are libtorch's, and what is wrong where they are not.
#include <algorithm>

#include "converter/checker.h"
#include "converter/compare.h"

namespace hg::convert {
namespace {

// Rounding decides which of nearly equal values come first, and is carried on from there: that many
// tolerances are no sign of an error where the order is open.
constexpr double kRounding = 100;

bool is_wrong(const CheckedOutput& output) {
  return output.verdict == CheckedOutput::Verdict::different;
}

}  // namespace

Status Checker::run(Session& session, const Inputs& inputs) {
  for (size_t i = 0; i < inputs.data.size(); ++i)
    HG_TRY(session.set_input(static_cast<int>(i), inputs.data[i].tensor));
  return session.run();
}

std::vector<CheckedOutput> Checker::check_outputs(const Session& session, const Inputs& inputs,
                                                  const std::vector<TensorData>& expected,
                                                  const std::vector<TensorData>& again) {
  std::vector<CheckedOutput> outputs;
  for (size_t i = 0; i < expected.size(); ++i)
    outputs.push_back(
        check_output(session, static_cast<int>(i), expected[i], varies_ ? &again[i] : nullptr));
  // A random number may come twice: what differs from ours gets more chances to vary.
  for (uint64_t seed = 2; varies_ && seed < 10; ++seed) {
    if (std::none_of(outputs.begin(), outputs.end(), is_wrong)) break;
    const std::vector<TensorData> more = libtorch(inputs, job_.seed + seed);
    for (size_t i = 0; i < outputs.size(); ++i)
      if (is_wrong(outputs[i]))
        outputs[i] = check_output(session, static_cast<int>(i), expected[i], &more[i]);
  }
  return outputs;
}

CheckedOutput Checker::check_output(const Session& session, int index, const TensorData& expected,
                                    const TensorData* again) {
  CheckedOutput output;
  output.name = std::string(session.output_name(index));
  Result<Tensor> got = session.output(index);
  if (!got.ok()) {
    output.verdict = CheckedOutput::Verdict::different;
    output.reason = std::string(got.status().message());
    return output;
  }
  output.type = text(got->dtype, got->shape);
  if (expected.empty()) {
    output.verdict = CheckedOutput::Verdict::different;
    output.reason = "libtorch returns a tensor of a kind that the converted model does not have";
    return output;
  }
  if (again && (again->empty() || again->tensor.shape != expected.tensor.shape ||
                fingerprint(*again) != fingerprint(expected))) {
    output.verdict = CheckedOutput::Verdict::unchecked;
    output.reason = "it depends on random numbers or on uninitialised memory";
    warn(text("output '", output.name, "' is unchecked: ", output.reason));
    return output;
  }
  if (got->count() == 0 && got->shape == expected.tensor.shape) {
    output.verdict = CheckedOutput::Verdict::unchecked;
    output.reason = CheckedOutput::kNoElement;
    return output;
  }
  Comparison comparison = compare(*got, expected.tensor);
  output.largest_error = comparison.largest_error;
  output.allowed = comparison.allowed;
  if (!comparison.equal) {
    output.verdict = CheckedOutput::Verdict::different;
    output.reason = comparison.difference;
  }
  return output;
}

// Finds the first node whose result differs, for the message.
void Checker::explain(const Session& session, std::vector<CheckedOutput>& outputs,
                      const Inputs& inputs, const std::string& with) {
  const auto first = std::find_if(outputs.begin(), outputs.end(), is_wrong);
  if (first == outputs.end()) return;
  progress_("searching the first wrong node");
  const Trial trial{loaded_, *model_, trace_, inputs, job_.seed, varies_};
  const Result<Session> kept = run_with_all_values(trial);
  std::optional<WrongNode> wrong;
  if (kept.ok()) wrong = find_wrong_node(trial, *kept);
  const bool tie = wrong && is_tie(*wrong);
  for (size_t i = 0; tie && i < outputs.size(); ++i) {
    CheckedOutput& output = outputs[i];
    if (!is_wrong(output)) continue;
    // Where libtorch orders in another way, our own run without optimisation is the measure.
    const Result<Tensor> got = session.output(static_cast<int>(i));
    const Result<Tensor> plain = kept->output(static_cast<int>(i));
    if (got.ok() && plain.ok())
      if (const Comparison same = compare_sorted(*got, *plain);
          !same.equal && same.largest_error >= kRounding * same.allowed)
        return fail(Exit::mismatch, text("output '", output.name, "' is wrong", with,
                                         ": the optimised graph gives other values than the "
                                         "graph as it is, largest error ",
                                         same.largest_error, "; please report it"));
    output.verdict = CheckedOutput::Verdict::unchecked;
    output.reason = text("equal values are ordered in another way by ", wrong->op,
                         describe_origin(wrong->origin));
    warn(text("output '", output.name, "' is unchecked: ", output.reason));
  }
  if (tie) return;
  std::string message = text("output '", first->name, "' is wrong", with, ": ", first->reason);
  if (wrong) {
    result_.wrong_nodes.push_back(*wrong);
    message += text("; the first wrong node is ", wrong->op, describe_origin(wrong->origin),
                    ", largest error ", wrong->largest_error, ": ", wrong->difference);
  } else {
    message +=
        "; no single node differs when all values are kept, so it is the optimised graph "
        "that does; please report it";
  }
  fail(Exit::mismatch, std::move(message));
}

}  // namespace hg::convert
