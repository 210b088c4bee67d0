// SPDX-License-Identifier: Apache-2.0
// libtorch runs all cases while the model is still being written. Then the file is read back and
// run.
#include "converter/check/check.h"

#include <algorithm>
#include <set>
#include <utility>

#include "converter/aten/table.h"
#include "converter/check/checker.h"
#include "converter/check/fitting_sizes.h"
#include "converter/check/number_rules.h"
#include "converter/check/op_text.h"
#include "converter/check/precision.h"

namespace hg::convert {
namespace {

bool sets_attributes(const ScriptBlock& block) {
  return std::any_of(block.nodes.begin(), block.nodes.end(), [](const ScriptNode& node) {
    return node.kind == "prim::SetAttr" ||
           std::any_of(node.blocks.begin(), node.blocks.end(), sets_attributes);
  });
}

bool has_loops(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
    return (node.op->def.traits & kLoop) != 0 ||
           std::any_of(node.subgraphs.begin(), node.subgraphs.end(),
                       [](const auto& body) { return has_loops(*body); });
  });
}

// Limits loops at sizes that the user did not request: as many iterations as small tensors need,
// and few for large tensors.
int64_t most_rounds(const Inputs& inputs) {
  constexpr int64_t kMostElements = int64_t{1} << 24;  // over all iterations
  int64_t elements = 1;
  for (const ReferenceInput& input : inputs.reference) elements += input.tensor.count();
  return std::clamp<int64_t>(kMostElements / elements, 16, Checker::kMostRounds);
}

}  // namespace

Checker::Checker(const Loaded& loaded, const Graph& graph,
                 const std::function<const Model&()>& written, std::span<const Executed> trace,
                 const Job& job, const std::function<void(const std::string&)>& progress)
    : loaded_(loaded),
      graph_(graph),
      specs_(input_specs(graph)),
      written_(written),
      precisions_(precisions_of_outputs(graph)),
      trace_(trace),
      job_(job),
      progress_(progress),
      varies_(may_vary(loaded)),
      uninitialised_(has_uninitialised(loaded)),
      has_loops_(has_loops(graph)),
      coverage_(graph, texts_of_ops(loaded.program, trace)) {
  set_number_rules(specs_, loaded.program);
}

CheckResult Checker::run() {
  std::vector<Reference> references;
  for (const Binding& sizes : check_sizes(specs_, job_)) {
    progress_(sizes.empty() ? "checking" : "checking with " + describe_sizes(sizes));
    const bool is_first = references.empty();
    Reference reference =
        run_libtorch(sizes, is_first ? std::nullopt : std::optional(references[0].sizes));
    const bool known = reference.known;
    const bool repeats = !is_first && known && repeats_case(reference.sizes, references[0].sizes);
    if (repeats)
      warn_of_only_size(references[0].sizes);
    else if (known || is_first || !is_only_size(references[0].sizes))
      references.push_back(std::move(reference));
    if (!known) break;
  }
  model_ = &written_();
  // Packing the weights of a large model takes longer than the few runs of the check save.
  constexpr int64_t kLarge = int64_t{256} << 20;
  int64_t weights = 0;
  for (const State& state : model_->graph().states()) weights += state.data.tensor.bytes();
  const SessionOptions options{.low_memory = weights > kLarge};
  Result<Session> session = Session::create(*model_, options);
  for (size_t k = 0; k < references.size() && result_.exit == Exit::ok; ++k) {
    // Each case starts with the buffers stored in the file.
    if (k > 0 && !graph_.assignments().empty()) session = Session::create(*model_, options);
    if (!session.ok()) {
      fail(Exit::unsupported,
           str_cat("the converted model cannot be run: ", session.status().message()));
      break;
    }
    check_case(*session, references[k], k);
    if (references[k].known) coverage_.add(session->ways(), bindings_of(references[k].sizes));
    references[k].expected.clear();
    references[k].again.clear();
  }
  if (result_.exit == Exit::ok) exercise(*session);
  if (result_.exit == Exit::ok) say_drawn();
  if (result_.exit == Exit::ok) expect_elements();
  return std::move(result_);
}

void Checker::fail(Exit exit, std::string message) {
  result_.exit = exit;
  result_.message = std::move(message);
}

// Limits iterations for values that may make a loop endless.
std::vector<TensorData> Checker::libtorch(const Inputs& inputs, uint64_t seed,
                                          int64_t most_rounds) const {
  const bool limited = most_rounds > 0 && has_loops_;
  return uninitialised_ || limited
             ? run_reference_nodes(loaded_, inputs.reference, seed, {}, most_rounds)
             : run_reference(loaded_, inputs.reference, seed);
}

// Finds inputs that libtorch accepts, and its outputs; returns false if it rejects all of them. If
// the user requested no sizes, also tries others, starting with sizes that the guards admit.
bool Checker::find_inputs(Binding& sizes, Inputs& inputs, std::vector<TensorData>& expected,
                          const std::optional<Binding>& earlier) {
  draw_ = Draw();
  const Binding asked = sizes;
  ReferenceFailure refusal;
  only_program_refuses_ = true;
  const auto accepts = [&](const Binding& tried, const Draw& draw) {
    inputs = make_inputs(specs_, tried, job_, draw);
    try {
      expected = libtorch(inputs, job_.seed, tried == asked ? 0 : most_rounds(inputs));
      sizes = tried;
      draw_ = draw;
      for (InputSpec& spec : specs_) spec.rule.limit = draw.limit_of(spec.rule.group);
      return true;
    } catch (const ReferenceFailure& failure) {
      refusal = failure;
      only_program_refuses_ = only_program_refuses_ && is_program_refusal(failure);
      return false;
    }
  };
  std::set<std::string> reasons;
  const auto accepts_asked = [&] {
    size_t tried = 0;
    for (const Draw& draw : draws(specs_, asked)) {
      // If a size does not fit, other integers make no difference.
      if (tried++ > std::size(kFillings) + 1 && reasons.size() == 1) break;
      if (accepts(asked, draw)) return true;
      if (reasons.empty()) refusal_ = refusal;
      reasons.insert(refusal.reason);
    }
    return false;
  };
  const bool is_for_others =
      is_guarded(graph_, asked) || (earlier && repeats_case(asked, *earlier));
  if (!is_for_others && accepts_asked()) return true;
  // If values make no difference at these sizes, they make none at other sizes.
  const bool values_matter = reasons.size() > 1;
  std::vector<Binding> others =
      fitting_sizes(specs_, job_, graph_, asked, refusal_.reason, earlier);
  const auto guarded =
      std::stable_partition(others.begin(), others.end(),
                            [&](const Binding& tried) { return !is_guarded(graph_, tried); });
  const auto accepts_any = [&](auto first, auto last) {
    return std::any_of(first, last, [&](const Binding& tried) {
      if (!values_matter) return accepts(tried, Draw());
      const std::vector<Draw> all = draws(specs_, tried);
      return std::any_of(all.begin(), all.end(),
                         [&](const Draw& draw) { return accepts(tried, draw); });
    });
  };
  const auto accepts_admitted = [&](bool may_repeat_batches) {
    const std::vector<Binding> admitted =
        admitted_sizes(specs_, job_, graph_, asked, earlier, may_repeat_batches);
    if (accepts_any(admitted.begin(), admitted.end())) return true;
    // A refusal should be reported for sizes that the model admits.
    if (!admitted.empty() && is_guarded(graph_, sizes)) sizes = admitted[0];
    return false;
  };
  if (accepts_any(others.begin(), guarded) || (is_for_others && accepts_admitted(false)) ||
      (is_for_others && accepts_asked()) || accepts_any(guarded, others.end()))
    return true;
  return earlier && is_for_others && only_program_refuses_ && accepts_admitted(true);
}

// Whether the program itself rejects the inputs, by a guard or an assertion.
bool Checker::is_program_refusal(const ReferenceFailure& failure) const {
  return !loaded_.module && failure.op == "prim::RaiseException";
}

Checker::Reference Checker::run_libtorch(const Binding& sizes,
                                         const std::optional<Binding>& earlier) {
  Reference reference{sizes, "", {}, {}, {}, false};
  reference.known = find_inputs(reference.sizes, reference.inputs, reference.expected, earlier);
  reference.values = describe_draw(draw_);
  if (!reference.known) {
    reference.inputs = make_inputs(specs_, reference.sizes, job_, Draw());
  } else if (varies_) {
    reference.again = libtorch(reference.inputs, job_.seed + 1);
  }
  return reference;
}

// Whether the check, not the user, chose sizes that are checked already.
bool Checker::repeats_case(const Binding& sizes, const Binding& first) const {
  return sizes == first && job_.check_sizes.size() < sizes.size();
}

// Whether a case is missing because libtorch accepts no size except that of the first case. For a
// batch size, this means that a trace has a constant size, unless the program itself excludes all
// others.
bool Checker::is_only_size(const Binding& first) {
  const auto is_free = [&](const auto& size) {
    return std::none_of(job_.check_sizes.begin(), job_.check_sizes.end(),
                        [&](const SizeOption& option) { return option.symbol == size.first; });
  };
  const bool only = std::all_of(first.begin(), first.end(), [&](const auto& size) {
    return is_free(size) && (only_program_refuses_ || !is_batch(specs_, size.first));
  });
  if (only) warn_of_only_size(first);
  return only;
}

void Checker::warn_of_only_size(const Binding& size) {
  warn(str_cat("libtorch takes no other sizes than ", describe_sizes(size),
               " of those that were tried: nothing else is checked"));
}

void Checker::check_case(Session& session, Reference& reference, size_t k) {
  const auto& [sizes, values, inputs, expected, first_again, known] = reference;
  const std::string with = sizes.empty() ? "" : " with " + describe_sizes(sizes);
  const Status status = run(session, inputs);
  if (!known) return report_refusal(inputs, sizes, k, status);
  if (!status.ok() && !find_accepted(session, reference, status))
    return fail(Exit::mismatch, str_cat("libtorch runs the model", with,
                                        ", but the converted model fails: ", status.message(),
                                        other_numbers(inputs)));
  if (static_cast<int>(expected.size()) != session.output_count())
    return fail(Exit::mismatch,
                str_cat("the converted model has ", session.output_count(), " outputs", with,
                        ", libtorch has ", static_cast<int64_t>(expected.size())));
  note_drawn(inputs);
  CheckedCase report{sizes, values, check_outputs(session, inputs, expected, first_again)};
  explain(session, report.outputs, inputs, expected, with);
  if (result_.exit == Exit::ok && !varies_ &&
      (!graph_.assignments().empty() || sets_attributes(loaded_.program.body)))
    check_second_run(session, inputs, report, with);
  result_.cases.push_back(std::move(report));
}

// The model rejects the values of the case. Replaces them by others that libtorch and the model
// accept; returns false if none are found.
bool Checker::find_accepted(Session& session, Reference& reference, const Status& status) {
  for (const Draw& draw : draws(specs_, reference.sizes)) {
    Inputs inputs = make_inputs(specs_, reference.sizes, job_, draw);
    try {
      std::vector<TensorData> expected = libtorch(inputs, job_.seed, most_rounds(inputs));
      if (!run(session, inputs).ok()) continue;
      warn_of_refused_values(status, reference.sizes, reference.values, reference.inputs);
      if (varies_) reference.again = libtorch(inputs, job_.seed + 1, most_rounds(inputs));
      reference.inputs = std::move(inputs);
      reference.expected = std::move(expected);
      reference.values = describe_draw(draw);
      return true;
    } catch (const ReferenceFailure&) {
    }
  }
  return false;
}

void Checker::warn_of_refused_values(const Status& status, const Binding& sizes,
                                     const std::string& values, const Inputs& inputs) {
  if (std::exchange(has_refused_values_, true)) return;
  const std::string given = sizes.empty() ? "" : describe_sizes(sizes);
  warn(str_cat("the converted model refuses values that libtorch takes",
               given.empty() && values.empty() ? "" : " with ", given,
               given.empty() || values.empty() ? "" : " and ", values, ": ", status.message(),
               other_numbers(inputs)));
}

// The second run shows what the first run left in buffers and attributes.
void Checker::check_second_run(Session& session, const Inputs& inputs, CheckedCase& report,
                               const std::string& with) {
  std::vector<TensorData> expected;
  try {
    expected = run_reference(loaded_, inputs.reference, job_.seed, 2);
  } catch (const ReferenceFailure& failure) {
    return warn(
        str_cat("a second run is unchecked: libtorch refuses it", with, ": ", failure.reason));
  }
  if (Status status = session.run(); !status.ok())
    return fail(Exit::mismatch, str_cat("a second run fails", with, ": ", status.message()));
  for (int i = 0; i < session.output_count(); ++i) {
    const CheckedOutput output = check_output(session, i, expected[i], nullptr);
    if (output.verdict != CheckedOutput::Verdict::different) continue;
    // A difference caused by rounding in one run also occurs in the next.
    if (report.outputs[i].verdict == CheckedOutput::Verdict::ill_conditioned) continue;
    report.outputs[i] = output;
    return fail(
        Exit::mismatch,
        str_cat("output '", output.name, "' is right in the first run", with,
                " and wrong in the second, ",
                graph_.assignments().empty()
                    ? "since a file does not keep the attributes that a run sets (make them "
                      "buffers): "
                    : "so a buffer is not updated as libtorch does: ",
                output.reason));
  }
}

// A check that compares nothing is worthless.
void Checker::expect_elements() {
  if (graph_.outputs().empty()) return;  // changed states are compared
  for (const CheckedCase& checked : result_.cases)
    for (const CheckedOutput& output : checked.outputs)
      if (output.reason != CheckedOutput::kNoElement) return;
  result_.not_exercised.insert(result_.not_exercised.begin(), "any element of an output");
  if (result_.cases.empty()) return;  // already reported
  const Binding& sizes = result_.cases[0].sizes;
  warn(str_cat("nothing is checked: no output has an element",
               sizes.empty() ? ""
                             : str_cat(" with ", describe_sizes(sizes),
                                       "; give other sizes with --check-size")));
}

void Checker::warn(std::string line) {
  auto& all = result_.warnings;
  if (std::find(all.begin(), all.end(), line) == all.end()) all.push_back(std::move(line));
}

// Reports that libtorch does not run the model on these inputs.
void Checker::report_refusal(const Inputs& inputs, const Binding& sizes, size_t k,
                             const Status& status) {
  ReferenceFailure why = refusal_;
  try {
    run_reference_nodes(loaded_, inputs.reference, job_.seed, {});
  } catch (const ReferenceFailure& failure) {
    why = failure;
  }
  std::string with = sizes.empty() ? "" : " with " + describe_sizes(sizes);
  std::string where = why.op.empty() ? "" : " at " + why.op + describe_origin(why.origin);
  if (k > 0)
    return fail(
        Exit::mismatch,
        str_cat("libtorch itself fails", with, where, ": ", why.reason,
                "; the trace has a size baked in, so compute it there from x.size() instead "
                "of a number, or give the input that size as a number, or choose other sizes "
                "with --check-size"));
  const bool is_drawn = job_.check_sizes.size() < sizes.size();
  if (!status.ok() && is_drawn && is_program_refusal(why) && is_guarded(graph_, sizes))
    return warn(
        str_cat("nothing is checked: the program itself refuses all sizes that were tried, ",
                describe_sizes(sizes), " for one", where, ": ", why.reason,
                "; give sizes that it takes with --check-size"));
  if (!status.ok())
    return fail(Exit::mismatch, str_cat("inputs and model do not fit each other: libtorch fails",
                                        with, where, ": ", why.reason,
                                        sizes.empty() ? ""
                                                      : "; if the model was traced with another "
                                                        "size, that one is baked in there: compute "
                                                        "it from x.size(), or give a number, or "
                                                        "choose sizes to check with by "
                                                        "--check-size",
                                        other_numbers(inputs)));
  warn(str_cat("nothing is checked: libtorch refuses the seeded inputs", with, where, ": ",
               why.reason,
               "; give a range of values that the model takes, as in 'ids:i64[n]=0..99'",
               sizes.empty() ? "" : ", or sizes that it takes with --check-size"));
}

std::string input_trouble(const Loaded& loaded, std::span<const InputSpec> given, const Job& job) {
  std::vector<InputSpec> specs(given.begin(), given.end());
  set_number_rules(specs, loaded.program);
  Binding sizes = check_sizes(specs, job).at(0);
  std::string trouble;
  for (const Draw& draw : draws(specs, sizes)) {
    try {
      run_reference_nodes(loaded, make_inputs(specs, sizes, job, draw).reference, job.seed, {});
      return "";
    } catch (const ReferenceFailure& failure) {
      if (!failure.op.empty() && !find_row(failure.op, "")) return "";
      if (trouble.empty())
        trouble =
            str_cat(failure.op, failure.op.empty() ? "" : describe_origin(failure.origin) + ": ",
                    failure.reason);
    }
  }
  return trouble;
}

CheckResult check_model(const Loaded& loaded, const Graph& graph,
                        const std::function<const Model&()>& written,
                        std::span<const Executed> trace, const Job& job,
                        const std::function<void(const std::string&)>& progress) {
  return Checker(loaded, graph, written, trace, job, progress).run();
}

}  // namespace hg::convert
