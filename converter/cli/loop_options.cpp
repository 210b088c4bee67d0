// SPDX-License-Identifier: Apache-2.0
#include "converter/cli/loop_options.h"

#include <algorithm>
#include <map>

#include "converter/check/check_inputs.h"
#include "converter/check/compare.h"
#include "converter/check/precision.h"
#include "converter/core/failure.h"
#include "hg/session.h"
#include "hg/stateful.h"
#include "lib/graph/ends.h"
#include "tools/command_line/words.h"

namespace hg::convert {
namespace {

constexpr std::string_view kIndex = "{i}";

template <class... Parts>
[[noreturn]] void usage(const Parts&... parts) {
  throw Failure{Exit::usage, str_cat(parts...)};
}

std::string text_of(const LoopOption& loop) {
  return str_cat("--loop '", loop.output, "=", loop.input, "'");
}

std::string with_index(std::string pattern, std::string_view index) {
  for (size_t at = 0; (at = pattern.find(kIndex, at)) != std::string::npos; at += index.size())
    pattern.replace(at, kIndex.size(), index);
  return pattern;
}

// Returns whether `name` is the pattern with a number, which becomes `index`.
bool matches(const std::string& pattern, const std::string& name, std::string& index) {
  const size_t at = pattern.find(kIndex);
  index.clear();
  if (at != std::string::npos)
    for (size_t i = at; i < name.size() && name[i] >= '0' && name[i] <= '9'; ++i) index += name[i];
  return with_index(pattern, index) == name && (at == std::string::npos || !index.empty());
}

// The pairs of one graph. Fails for half a pair, unless another entry may have the other half.
std::vector<CarriedValue> pairs_of(const LoopOption& loop, const Graph& graph) {
  std::vector<CarriedValue> pairs;
  std::string index;
  for (const ValueId id : graph.inputs()) {
    const std::string& input = graph.value_info(id).name;
    if (!matches(loop.input, input, index)) continue;
    const std::string output = with_index(loop.output, index);
    if (output_named(graph, output) == kNoValue)
      usage(text_of(loop), ": the input '", input, "' has no output '", output, "'");
    pairs.push_back({output, input});
  }
  for (const auto& [output, id] : graph.outputs())
    if (matches(loop.output, output, index) &&
        std::none_of(pairs.begin(), pairs.end(),
                     [&](const CarriedValue& pair) { return pair.output == output; }))
      usage(text_of(loop), ": the output '", output, "' has no input '",
            with_index(loop.input, index), "'");
  return pairs;
}

// Whether the state grows from run to run. make_stateful() refuses other types that differ.
bool grows(const CarriedValue& pair, const Graph& graph) {
  const TensorType &in = graph.value_info(input_named(graph, pair.input)).type,
                   &out = graph.value_info(output_named(graph, pair.output)).type;
  bool is_growing = false;
  for (int d = 0; d < in.rank() && in.rank() == out.rank(); ++d) {
    const Dim &before = in.shape[static_cast<size_t>(d)],
              &after = out.shape[static_cast<size_t>(d)];
    is_growing = is_growing || (before != after && !before.is_constant());
    if (before == after && !before.is_constant())
      usage("--loop: a state has a fixed size, but dim ", d, " of '", pair.input, "' is ", before,
            "; give it with --dim");
  }
  return is_growing;
}

Model with_loops(const Model& model, const std::vector<CarriedValue>& pairs, const Job& job) {
  StatefulOptions options{.carried = pairs};
  for (const CarriedValue& pair : pairs)
    if (grows(pair, model.graph())) {
      if (job.capacity == 0)
        usage("--loop: '", pair.output, "' is ",
              model.graph().value_info(output_named(model.graph(), pair.output)).type, ", and '",
              pair.input, "' is ",
              model.graph().value_info(input_named(model.graph(), pair.input)).type,
              "; a state that grows needs --capacity");
      options.capacity = job.capacity;
    }
  Result<Model> made = make_stateful(model, options);
  if (!made.ok()) usage("--loop: ", made.status().message());
  return *std::move(made);
}

std::vector<std::string> names_of_entries(const Model& model) {
  std::vector<std::string> names = model.entries();
  if (names.empty()) names.emplace_back();
  return names;
}

Model entry_of(const Model& model, const std::string& name) {
  Result<Model> entry = model.entry(name);
  if (!entry.ok()) throw Failure{Exit::unreadable, std::string(entry.status().message())};
  return *std::move(entry);
}

// One entry with states beside the same entry without, which gets its outputs as inputs.
class BetweenRuns {
 public:
  BetweenRuns(const Model& plain, const Model& looped, std::vector<CarriedValue> pairs,
              const Job& job)
      : plain_(plain), looped_(looped), pairs_(std::move(pairs)), job_(job) {}

  // Returns the first difference, or "".
  std::string run() {
    constexpr size_t kRuns = 5;
    Result<Session> plain = Session::create(plain_), looped = Session::create(looped_);
    if (!plain.ok()) return std::string(plain.status().message());
    if (!looped.ok()) return std::string(looped.status().message());
    const std::vector<InputSpec> specs = input_specs(looped_.graph());
    const std::vector<Binding> cases = check_sizes(specs, job_);
    for (size_t run = 0; run < kRuns; ++run) {
      Binding sizes = cases[run % cases.size()];
      for (auto& [symbol, size] : sizes)
        if (const auto past = lengths_.find(symbol); past != lengths_.end()) size = past->second;
      if (run == 0) start(sizes);
      Job job = job_;
      job.seed += run;
      std::string difference = step(*plain, *looped, make_inputs(specs, sizes, job, Draw()), run);
      if (!difference.empty()) return difference;
      if (is_over_) break;
    }
    return "";
  }
  bool is_over() const { return is_over_; }

 private:
  // The values before the first run: zeros, without positions where they grow.
  void start(Binding& sizes) {
    const Graph& graph = plain_.graph();
    for (const CarriedValue& pair : pairs_) {
      const TensorType& type = graph.value_info(input_named(graph, pair.input)).type;
      Sizes shape;
      for (const Dim& dim : type.shape) {
        shape.push_back(dim.is_constant() ? dim.constant() : 0);
        if (dim.is_constant()) continue;
        lengths_[std::string(dim.symbol())] = 0;
        for (auto& [symbol, size] : sizes)
          if (symbol == dim.symbol()) size = 0;
      }
      Result<TensorData> zeros = TensorData::allocate(type.dtype, shape);
      if (!zeros.ok()) throw std::bad_alloc();
      values_.push_back(*std::move(zeros));
    }
  }

  std::string step(Session& plain, Session& looped, const Inputs& inputs, size_t run) {
    for (size_t i = 0; i < pairs_.size(); ++i)
      if (Status s = plain.set_input(pairs_[i].input, values_[i].tensor); !s.ok())
        return std::string(s.message());
    for (size_t i = 0; i < inputs.data.size(); ++i) {
      const std::string_view name = looped.input_name(static_cast<int>(i));
      Status set = plain.set_input(name, inputs.data[i].tensor);
      if (set.ok()) set = looped.set_input(name, inputs.data[i].tensor);
      if (!set.ok()) return std::string(set.message());
    }
    const Status ran = plain.run(), also = looped.run();
    if (ran.ok() && !also.ok() && lengths_.empty()) return std::string(also.message());
    is_over_ = !ran.ok() || !also.ok();  // beyond the capacity, for example
    if (is_over_) return "";
    if (std::string difference = compare_outputs(plain, looped, run); !difference.empty())
      return difference;
    return take_values(plain, looped, run);
  }

  std::string compare_outputs(const Session& plain, const Session& looped, size_t run) const {
    const std::vector<DType> precisions = precisions_of_outputs(looped_.graph());
    for (int i = 0; i < looped.output_count(); ++i) {
      const std::string_view name = looped.output_name(i);
      const Result<Tensor> got = looped.output(i), want = plain.output(name);
      if (!got.ok() || !want.ok()) return str_cat("the output '", name, "' is lost");
      const Comparison found = compare(*got, *want, precisions[static_cast<size_t>(i)], kWhose);
      if (!found.equal)
        return str_cat("the output '", name, "' differs in run ", run + 1, ": ", found.difference);
    }
    return "";
  }

  std::string take_values(const Session& plain, const Session& looped, size_t run) {
    const std::vector<DType> precisions = precisions_of_outputs(plain_.graph());
    std::vector<TensorData> next;  // outputs may be views of inputs
    for (size_t i = 0; i < pairs_.size(); ++i) {
      const Result<Tensor> want = plain.output(pairs_[i].output);
      Result<Tensor> got = looped.value(pairs_[i].input);
      if (!got.ok() || !want.ok()) return str_cat("the state '", pairs_[i].input, "' is lost");
      for (size_t d = 0; d < got->shape.size(); ++d) {
        if (got->shape[d] == want->shape[d]) continue;
        const Graph& graph = plain_.graph();
        const TensorType& type = graph.value_info(input_named(graph, pairs_[i].input)).type;
        lengths_[std::string(type.shape[d].symbol())] = want->shape[d];
        got->shape[d] = want->shape[d];
      }
      const int output = static_cast<int>(
          std::find_if(plain_.graph().outputs().begin(), plain_.graph().outputs().end(),
                       [&](const auto& each) { return each.first == pairs_[i].output; }) -
          plain_.graph().outputs().begin());
      const Comparison found =
          compare(*got, *want, precisions[static_cast<size_t>(output)], kWhose);
      if (!found.equal)
        return str_cat("the state '", pairs_[i].input, "' differs after run ", run + 1, ": ",
                       found.difference);
      Result<TensorData> copy = TensorData::copy_of(*want);
      if (!copy.ok()) throw std::bad_alloc();
      next.push_back(*std::move(copy));
    }
    values_ = std::move(next);
    return "";
  }

  static constexpr std::string_view kWhose = "without --loop";
  const Model &plain_, &looped_;
  const std::vector<CarriedValue> pairs_;
  const Job& job_;
  std::vector<TensorData> values_;
  std::map<std::string, int64_t> lengths_;  // of what grows, by symbol
  bool is_over_ = false;                    // a run was refused
};

std::vector<CarriedValue> all_pairs(const Job& job, const Graph& graph) {
  std::vector<CarriedValue> all;
  for (const LoopOption& loop : job.loops) {
    const std::vector<CarriedValue> pairs = pairs_of(loop, graph);
    all.insert(all.end(), pairs.begin(), pairs.end());
  }
  return all;
}

}  // namespace

LoopOption parse_loop(std::string_view text) {
  const size_t equals = text.find('=');
  const auto is_empty = [](std::string_view side) { return tools::trim(side).empty(); };
  if (equals == std::string_view::npos || is_empty(text.substr(0, equals)) ||
      is_empty(text.substr(equals + 1)))
    usage("--loop '", text, "': write it like cache_out=cache_in");
  LoopOption loop{std::string(tools::trim(text.substr(0, equals))),
                  std::string(tools::trim(text.substr(equals + 1)))};
  const auto has_index = [](const std::string& side) {
    return side.find(kIndex) != std::string::npos;
  };
  if (has_index(loop.output) != has_index(loop.input))
    usage("--loop '", text, "': {i} stands on both sides or on none");
  return loop;
}

Model with_loops(const Model& model, const Job& job) {
  const std::vector<std::string> names = names_of_entries(model);
  for (const LoopOption& loop : job.loops) {
    std::string known;
    bool is_found = false;
    for (const std::string& name : names) {
      const Model entry = entry_of(model, name);
      is_found = is_found || !pairs_of(loop, entry.graph()).empty();
      for (const ValueId id : entry.graph().inputs())
        known += str_cat(known.empty() ? "" : ", ", entry.graph().value_info(id).name);
    }
    if (!is_found)
      usage(text_of(loop), ": there is no input '", loop.input, "'; the inputs are ", known);
  }
  Model whole;
  for (const std::string& name : names) {
    Model entry = entry_of(model, name);
    if (const std::vector<CarriedValue> pairs = all_pairs(job, entry.graph()); !pairs.empty())
      entry = with_loops(entry, pairs, job);
    if (name.empty()) return entry;
    if (const Status added = whole.add_entry(name, std::move(entry.graph())); !added.ok())
      throw Failure{Exit::unsupported, std::string(added.message())};
  }
  whole.set_info(model.info());
  return whole;
}

void check_loops_between_runs(const Model& plain, const Model& written, const Job& job,
                              const std::function<const Job&(std::string_view)>& job_of,
                              CheckResult& result) {
  for (const std::string& name : names_of_entries(plain)) {
    const Model entry = entry_of(plain, name);
    std::vector<CarriedValue> pairs = all_pairs(job, entry.graph());
    if (pairs.empty()) continue;
    const Model looped = entry_of(written, name);
    BetweenRuns runs(entry, looped, std::move(pairs), job_of(name));
    if (std::string difference = runs.run(); !difference.empty()) {
      result.exit = Exit::mismatch;
      result.message =
          str_cat("--loop: ", name.empty() ? "" : str_cat("`", name, "`: "), difference);
      return;
    }
    if (runs.is_over()) {
      result.not_exercised.push_back("--loop");
      result.warnings.push_back("the states of --loop are unchecked: a run was refused");
    }
  }
}

}  // namespace hg::convert
