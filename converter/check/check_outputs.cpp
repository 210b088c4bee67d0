// SPDX-License-Identifier: Apache-2.0
// Compares the outputs of one run with libtorch's, and describes differences.
#include <algorithm>

#include "converter/check/checker.h"
#include "converter/check/compare.h"
#include "converter/check/conditioning.h"

namespace hg::convert {
namespace {

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
  // Two random numbers may be equal by chance, so an output that differs from libtorch's gets more
  // seeds.
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
  output.type = str_cat(got->dtype, got->shape);
  if (expected.empty()) {
    output.verdict = CheckedOutput::Verdict::different;
    output.reason = "libtorch returns a tensor of a kind that the converted model does not have";
    return output;
  }
  if (again && (again->empty() || again->tensor.shape != expected.tensor.shape ||
                fingerprint(*again) != fingerprint(expected))) {
    output.verdict = CheckedOutput::Verdict::unchecked;
    output.reason = "it depends on random numbers or on uninitialized memory";
    warn(str_cat("output '", output.name, "' is unchecked: ", output.reason));
    return output;
  }
  if (got->count() == 0 && got->shape == expected.tensor.shape &&
      got->dtype == expected.tensor.dtype) {
    output.verdict = CheckedOutput::Verdict::unchecked;
    output.reason = CheckedOutput::kNoElement;
    return output;
  }
  Comparison comparison = compare(*got, expected.tensor, precisions_[index]);
  output.largest_error = comparison.largest_error;
  output.allowed = comparison.allowed;
  if (!comparison.equal) {
    output.verdict = CheckedOutput::Verdict::different;
    output.reason = comparison.difference;
  }
  return output;
}

// An output that differs is wrong, with two exceptions. libtorch may compute it when it continues
// from our results at nodes whose result is not unique. Or libtorch's own output may change as much
// under rounding.
void Checker::explain(const Session& session, std::vector<CheckedOutput>& outputs,
                      const Inputs& inputs, const std::vector<TensorData>& expected,
                      const std::string& with) {
  if (std::none_of(outputs.begin(), outputs.end(), is_wrong)) return;
  progress_("searching the first wrong node");
  const Trial trial{loaded_, *model_, trace_, inputs, job_.seed, varies_};
  const Result<Session> kept = run_with_all_values(trial);
  NodeReport nodes;
  if (kept.ok()) nodes = compare_nodes(trial, *kept);
  // If all nodes have unique results, our own unoptimized run must be right.
  const auto is_kept_equal = [&](size_t i, const Tensor& want) {
    if (!kept.ok()) return false;
    const Result<Tensor> plain = kept->output(static_cast<int>(i));
    return plain.ok() && compare(*plain, want, precisions_[i]).equal;
  };
  std::optional<Conditioning> conditioning, own;
  for (size_t i = 0; i < outputs.size() && !(nodes.wrong && nodes.wrong->sure); ++i) {
    if (!is_wrong(outputs[i])) continue;
    const Result<Tensor> got = session.output(static_cast<int>(i));
    if (!got.ok() || expected[i].empty()) break;
    const bool went_on = !nodes.wrong && i < nodes.outputs.size() && !nodes.open.empty();
    const Tensor& want = went_on ? nodes.outputs[i].tensor : expected[i].tensor;
    std::string reason;
    if (went_on && compare(*got, want, precisions_[i]).equal) {
      for (const std::string& open : nodes.open)
        reason += str_cat(reason.empty() ? "" : "; ", open);
    } else if (nodes.wrong || is_kept_equal(i, want)) {
      try {
        if (!conditioning) conditioning.emplace(loaded_, inputs, job_.seed);
        constexpr auto kThere = Conditioning::Where::there;
        reason = conditioning->excuse(i, *got, expected[i].tensor, kThere);
        if (reason.empty() && went_on) reason = conditioning->excuse(i, *got, want, kThere);
      } catch (const ReferenceFailure&) {
        break;  // libtorch rejects a nearly equal input
      }
      // In a graph of integers, the optimized graph may round another product of scales.
      if (reason.empty() && loaded_.original && !nodes.wrong) {
        if (!own) own.emplace(*model_, inputs);
        reason = own->excuse(i, *got, want, Conditioning::Where::anywhere);
      }
    }
    if (reason.empty()) break;
    outputs[i].verdict = CheckedOutput::Verdict::ill_conditioned;
    outputs[i].reason = reason;
    warn(str_cat("output '", outputs[i].name, "' is libtorch's but for rounding: ", reason));
  }
  const auto first = std::find_if(outputs.begin(), outputs.end(), is_wrong);
  if (first == outputs.end()) return;
  std::string message = str_cat("output '", first->name, "' is wrong", with, ": ", first->reason);
  if (nodes.wrong) {
    result_.wrong_nodes.push_back(*nodes.wrong);
    message +=
        str_cat("; the first wrong node is ", nodes.wrong->op, describe_origin(nodes.wrong->origin),
                ", largest error ", nodes.wrong->largest_error, ": ", nodes.wrong->difference);
  } else if (nodes.open.empty()) {
    message +=
        "; no single node differs when all values are kept, so it is the optimized graph "
        "that does; please report it";
  } else {
    message +=
        str_cat("; the order of equal values and rounding do not explain it: ", nodes.open[0]);
  }
  fail(Exit::mismatch, std::move(message));
}

}  // namespace hg::convert
