// SPDX-License-Identifier: Apache-2.0
// A difference in an output leads to a second run that keeps every value, beside libtorch's run
// node by node: the first node whose result differs is where the conversion is wrong.
#include "converter/check.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "converter/check_inputs.h"
#include "converter/compare.h"
#include "hg/session.h"

namespace hg::convert {
namespace {

// Rounding decides which of nearly equal values come first, and is carried on from there: that many
// tolerances are no sign of an error where the order is open.
constexpr double kRounding = 100;

// An order-independent way of asking whether two runs gave the same bytes.
uint64_t fingerprint(const TensorData& data) {
  uint64_t hash = 0xCBF29CE484222325;  // FNV-1a
  if (data.empty()) return 0;
  const auto* bytes = static_cast<const unsigned char*>(data.tensor.data);
  for (int64_t i = 0; i < data.tensor.bytes(); ++i) hash = (hash ^ bytes[i]) * 0x100000001B3;
  return hash;
}

// Two results of argsort pick equal values of `source` along some dim.
bool differ_in_ties(const Tensor& source, const Tensor& got, const Tensor& want) {
  if (got.shape != source.shape || want.shape != source.shape || got.dtype != i64 ||
      want.dtype != i64 || !got.is_contiguous() || !source.is_contiguous())
    return false;
  int64_t bytes = size_of(source.dtype);
  const char* data = source.as<const char>();
  for (int d = 0; d < source.rank(); ++d) {
    int64_t stride = source.strides[d], size = source.shape[d];
    bool same = true;
    for (int64_t i = 0; i < source.count() && same; ++i) {
      int64_t a = got.as<const int64_t>()[i], b = want.as<const int64_t>()[i];
      int64_t line = i - i / stride % size * stride;
      same = a >= 0 && a < size && b >= 0 && b < size &&
             std::memcmp(data + (line + a * stride) * bytes, data + (line + b * stride) * bytes,
                         static_cast<size_t>(bytes)) == 0;
    }
    if (same) return true;
  }
  return false;
}

class Checker {
 public:
  Checker(const Loaded& loaded, const Model& model, std::span<const Executed> trace, const Job& job,
          const std::function<void(const std::string&)>& progress)
      : loaded_(loaded),
        model_(model),
        graph_(model.graph()),
        specs_(input_specs(graph_)),
        trace_(trace),
        job_(job),
        progress_(progress),
        varies_(may_vary(loaded)),
        uninitialised_(has_uninitialised(loaded)) {}

  CheckResult run() {
    std::vector<Binding> cases = check_sizes(specs_, job_);
    Result<Session> session = Session::create(model_);
    for (size_t k = 0; k < cases.size() && result_.exit == Exit::ok; ++k) {
      // Each case starts from the buffers that the file holds.
      if (k > 0 && !graph_.assignments().empty()) session = Session::create(model_);
      if (!session.ok()) {
        fail(Exit::unsupported,
             text("the converted model cannot be run: ", session.status().message()));
        break;
      }
      progress_(cases[k].empty() ? "checking" : "checking with " + describe_sizes(cases[k]));
      check_case(*session, cases[k], k);
    }
    return std::move(result_);
  }

 private:
  void fail(Exit exit, std::string message) {
    result_.exit = exit;
    result_.message = std::move(message);
  }

  std::vector<TensorData> reference(const Inputs& inputs, uint64_t seed) const {
    return uninitialised_ ? run_reference_nodes(loaded_, inputs.reference, seed, {})
                          : run_reference(loaded_, inputs.reference, seed);
  }

  // Inputs that libtorch accepts, and its outputs; nothing when it refuses whatever it is given.
  // Sizes that nobody asked for are made larger until they fit.
  bool find_inputs(Binding& sizes, Inputs& inputs, std::vector<TensorData>& expected) {
    std::set<std::string> given;
    for (const SizeOption& option : job_.check_sizes) given.insert(option.symbol);
    for (int attempt = 0;; ++attempt) {
      for (Filling filling : kFillings) {
        inputs = make_inputs(specs_, sizes, job_, filling);
        try {
          expected = reference(inputs, job_.seed);
          return true;
        } catch (const ReferenceFailure& failure) {
          if (attempt == 0 && filling == Filling::usual) refusal_ = failure;
        }
      }
      bool grown = false;
      for (auto& [symbol, size] : sizes) {
        if (given.count(symbol) > 0 || size >= largest_size(specs_, symbol, attempt)) continue;
        size *= 2;
        grown = true;
      }
      if (!grown) break;
    }
    return false;
  }

  void check_case(Session& session, Binding sizes, size_t k) {
    Binding asked = sizes;
    Inputs inputs;
    std::vector<TensorData> expected;
    bool known = find_inputs(sizes, inputs, expected);
    if (!known) {
      sizes = asked;
      inputs = make_inputs(specs_, sizes, job_, Filling::usual);
    }
    std::string with = sizes.empty() ? "" : " with " + describe_sizes(sizes);
    Status status;
    for (size_t i = 0; i < inputs.data.size() && status.ok(); ++i)
      status = session.set_input(static_cast<int>(i), inputs.data[i].tensor);
    if (status.ok()) status = session.run();
    if (!known) return report_refusal(inputs, sizes, k, status);
    if (!status.ok())
      return fail(Exit::mismatch, text("libtorch runs the model", with,
                                       ", but the converted model fails: ", status.message()));
    std::vector<TensorData> again;
    if (varies_) again = reference(inputs, job_.seed + 1);
    if (static_cast<int>(expected.size()) != session.output_count())
      return fail(Exit::mismatch,
                  text("the converted model has ", session.output_count(), " outputs", with,
                       ", libtorch has ", static_cast<int64_t>(expected.size())));
    CheckedCase report{sizes, {}};
    for (int i = 0; i < session.output_count(); ++i)
      report.outputs.push_back(check_output(session, i, expected[static_cast<size_t>(i)],
                                            varies_ ? &again[static_cast<size_t>(i)] : nullptr));
    // A random number may come twice: what differs from ours gets more chances to vary.
    for (uint64_t seed = 2; varies_ && seed < 10; ++seed) {
      bool open = std::any_of(report.outputs.begin(), report.outputs.end(), [](const auto& output) {
        return output.verdict == CheckedOutput::Verdict::different;
      });
      if (!open) break;
      again = reference(inputs, job_.seed + seed);
      for (size_t i = 0; i < report.outputs.size(); ++i)
        if (report.outputs[i].verdict == CheckedOutput::Verdict::different)
          report.outputs[i] = check_output(session, static_cast<int>(i), expected[i], &again[i]);
    }
    explain(session, report.outputs, inputs, with);
    if (result_.exit == Exit::ok && !varies_ &&
        (!graph_.assignments().empty() || sets_attributes(loaded_.program.body)))
      check_second_run(session, inputs, report, with);
    result_.cases.push_back(std::move(report));
  }

  static bool sets_attributes(const ScriptBlock& block) {
    return std::any_of(block.nodes.begin(), block.nodes.end(), [](const ScriptNode& node) {
      return node.kind == "prim::SetAttr" ||
             std::any_of(node.blocks.begin(), node.blocks.end(), sets_attributes);
    });
  }

  // What the first run left in buffers and attributes shows in the second.
  void check_second_run(Session& session, const Inputs& inputs, CheckedCase& report,
                        const std::string& with) {
    std::vector<TensorData> expected;
    try {
      expected = run_reference(loaded_, inputs.reference, job_.seed, 2);
    } catch (const ReferenceFailure& failure) {
      return warn(
          text("a second run is unchecked: libtorch refuses it", with, ": ", failure.reason));
    }
    if (Status status = session.run(); !status.ok())
      return fail(Exit::mismatch, text("a second run fails", with, ": ", status.message()));
    for (int i = 0; i < session.output_count(); ++i) {
      const CheckedOutput output =
          check_output(session, i, expected[static_cast<size_t>(i)], nullptr);
      if (output.verdict != CheckedOutput::Verdict::different) continue;
      report.outputs[static_cast<size_t>(i)] = output;
      return fail(Exit::mismatch,
                  text("output '", output.name, "' is right in the first run", with,
                       " and wrong in the second, ",
                       graph_.assignments().empty()
                           ? "since a file does not keep the attributes that a run sets (make them "
                             "buffers): "
                           : "so a buffer is not updated as libtorch does: ",
                       output.reason));
    }
  }

  CheckedOutput check_output(const Session& session, int index, const TensorData& expected,
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
    Comparison comparison = compare(*got, expected.tensor);
    output.largest_error = comparison.largest_error;
    output.allowed = comparison.allowed;
    if (!comparison.equal) {
      output.verdict = CheckedOutput::Verdict::different;
      output.reason = comparison.difference;
    }
    return output;
  }

  void warn(std::string line) {
    auto& all = result_.warnings;
    if (std::find(all.begin(), all.end(), line) == all.end()) all.push_back(std::move(line));
  }

  // libtorch does not run the model on these inputs.
  void report_refusal(const Inputs& inputs, const Binding& sizes, size_t k, const Status& status) {
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
          text("libtorch itself fails", with, where, ": ", why.reason,
               "; the trace has a size baked in, so compute it there from x.size() instead "
               "of a number, or give the input that size as a number, or choose other sizes "
               "with --check-size"));
    if (!status.ok())
      return fail(Exit::mismatch, text("inputs and model do not fit each other: libtorch fails",
                                       with, where, ": ", why.reason,
                                       sizes.empty() ? ""
                                                     : "; if the model was traced with another "
                                                       "size, that one is baked in there: compute "
                                                       "it from x.size(), or give a number"));
    warn(text("nothing is checked: libtorch refuses the seeded inputs", with, where, ": ",
              why.reason,
              "; give a range of values that the model takes, as in 'ids:i64[n]=0..99'"));
  }

  // Finds the first node whose result differs, for the message.
  void explain(const Session& session, std::vector<CheckedOutput>& outputs, const Inputs& inputs,
               const std::string& with) {
    const auto is_wrong = [](const CheckedOutput& output) {
      return output.verdict == CheckedOutput::Verdict::different;
    };
    const auto first = std::find_if(outputs.begin(), outputs.end(), is_wrong);
    if (first == outputs.end()) return;
    progress_("searching the first wrong node");
    const Result<Session> kept = run_with_all_values(inputs);
    const std::optional<WrongNode> wrong = find_wrong_node(kept, inputs);
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

  // The values of a sort are right, but equal ones may come from other places.
  static bool is_tie(const WrongNode& wrong) {
    static const std::set<std::string> kKinds = {"aten::sort", "aten::topk", "aten::kthvalue",
                                                 "aten::median", "aten::mode"};
    return wrong.difference.starts_with("ties: ") ||
           (wrong.difference.starts_with("indices: ") && kKinds.count(wrong.op) > 0);
  }

  // Results of nodes that differ between two seeds, by node and occurrence.
  std::set<std::pair<const ScriptNode*, int64_t>> varying_nodes(const Inputs& inputs) const {
    std::map<std::pair<const ScriptNode*, int64_t>, uint64_t> first;
    std::set<std::pair<const ScriptNode*, int64_t>> varying;
    for (uint64_t seed : {job_.seed, job_.seed + 1}) {
      run_reference_nodes(
          loaded_, inputs.reference, seed,
          [&](const ScriptNode& node, int64_t occurrence, std::span<const TensorData> outputs) {
            uint64_t hash = 0;
            for (const TensorData& data : outputs) hash = hash * 31 + fingerprint(data);
            auto [entry, fresh] = first.try_emplace({&node, occurrence}, hash);
            if (!fresh && entry->second != hash) varying.insert(entry->first);
            return true;
          });
    }
    return varying;
  }

  Result<Session> run_with_all_values(const Inputs& inputs) const {
    Options options;
    options.keep_all_values = true;
    HG_TRY_ASSIGN(Session session, Session::create(model_, options));
    for (size_t i = 0; i < inputs.data.size(); ++i)
      HG_TRY(session.set_input(static_cast<int>(i), inputs.data[i].tensor));
    HG_TRY(session.run());
    return session;
  }

  std::optional<WrongNode> find_wrong_node(const Result<Session>& session, const Inputs& inputs) {
    if (!session.ok()) return std::nullopt;
    std::map<std::pair<const ScriptNode*, int64_t>, const Executed*> converted;
    std::map<const ScriptNode*, int64_t> seen;
    for (const Executed& executed : trace_)
      converted[{executed.node, seen[executed.node]++}] = &executed;
    std::optional<WrongNode> wrong;
    try {
      std::map<ScriptId, Tensor> results;
      std::vector<TensorData> kept;  // owns the memory of results
      const std::vector<ScriptId>& arguments = loaded_.program.body.inputs;
      for (size_t i = 0; i < inputs.data.size() && arguments.size() == inputs.data.size() + 1; ++i)
        results[arguments[i + 1]] = inputs.data[i].tensor;
      std::set<std::pair<const ScriptNode*, int64_t>> skip;
      if (varies_) skip = varying_nodes(inputs);
      run_reference_nodes(
          loaded_, inputs.reference, job_.seed,
          [&](const ScriptNode& node, int64_t occurrence, std::span<const TensorData> outputs) {
            auto found = converted.find({&node, occurrence});
            if (found == converted.end() || skip.count({&node, occurrence}) > 0) return true;
            wrong = difference(*session, *found->second, outputs);
            if (wrong && node.kind == "aten::argsort") {
              auto source = results.find(node.inputs.at(0));
              Result<Tensor> got = value_of(*session, found->second->outputs.at(0));
              if (source != results.end() && got.ok() &&
                  differ_in_ties(source->second, *got, outputs[0].tensor))
                wrong->difference = "ties: " + wrong->difference;
            }
            for (size_t i = 0; i < outputs.size(); ++i)
              results[node.outputs[i]] = outputs[i].tensor;
            for (const TensorData& data : outputs) kept.push_back(data);
            return !wrong;
          });
    } catch (const ReferenceFailure&) {
      // The node-by-node run lacks some construct: what was found until there counts.
    }
    return wrong;
  }

  Result<Tensor> value_of(const Session& session, ValueId id) const {
    return session.value(graph_.value_info(id).name);
  }

  std::optional<WrongNode> difference(const Session& session, const Executed& executed,
                                      std::span<const TensorData> outputs) const {
    for (size_t i = 0; i < outputs.size() && i < executed.outputs.size(); ++i) {
      ValueId id = executed.outputs[i];
      if (id == kNoValue || outputs[i].empty()) continue;
      Result<Tensor> got = value_of(session, id);
      if (!got.ok()) continue;  // folded away
      Comparison comparison = compare(*got, outputs[i].tensor);
      if (comparison.equal) continue;
      bool index = i > 0 && outputs[i].tensor.dtype == i64;
      return WrongNode{executed.node->kind, executed.node->origin,
                       (index ? "indices: " : "") + comparison.difference,
                       comparison.largest_error};
    }
    return std::nullopt;
  }

  const Loaded& loaded_;
  const Model& model_;
  const Graph& graph_;
  std::vector<InputSpec> specs_;
  std::span<const Executed> trace_;
  const Job& job_;
  const std::function<void(const std::string&)>& progress_;
  bool varies_, uninitialised_;
  ReferenceFailure refusal_;
  CheckResult result_;
};

}  // namespace

std::string describe_origin(const Origin& origin) {
  std::string out;
  if (!origin.module.empty()) out += text(" in module '", origin.module, "'");
  if (!origin.source.empty()) out += text(" (", origin.source, ")");
  return out;
}

std::string input_trouble(const Loaded& loaded, std::span<const InputSpec> specs, const Job& job) {
  Binding sizes = check_sizes(specs, job).at(0);
  std::string trouble;
  for (Filling filling : kFillings) {
    try {
      run_reference_nodes(loaded, make_inputs(specs, sizes, job, filling).reference, job.seed, {});
      return "";
    } catch (const ReferenceFailure& failure) {
      if (!failure.op.empty() && !find_row(failure.op, "")) return "";
      if (trouble.empty())
        trouble = text(failure.op, failure.op.empty() ? "" : describe_origin(failure.origin) + ": ",
                       failure.reason);
    }
  }
  return trouble;
}

CheckResult check_model(const Loaded& loaded, const Model& model, std::span<const Executed> trace,
                        const Job& job, const std::function<void(const std::string&)>& progress) {
  return Checker(loaded, model, trace, job, progress).run();
}

}  // namespace hg::convert
