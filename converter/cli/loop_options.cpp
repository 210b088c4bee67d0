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
#include "lib/graph/past_names.h"
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

// What is left of a name without an affix that marks an end of a state: "h" of "h_in" and "new_h".
std::vector<std::string> stems_of(std::string_view name,
                                  std::initializer_list<std::string_view> prefixes,
                                  std::initializer_list<std::string_view> suffixes) {
  std::vector<std::string> stems = {std::string(name)};
  for (const std::string_view prefix : prefixes)
    if (name.size() > prefix.size() && name.starts_with(prefix))
      stems.emplace_back(name.substr(prefix.size()));
  for (const std::string_view suffix : suffixes)
    if (name.size() > suffix.size() && name.ends_with(suffix))
      stems.emplace_back(name.substr(0, name.size() - suffix.size()));
  return stems;
}

// Whether these names are those of a state before and after a run. At least one has an affix, or
// they are equal.
bool are_ends_of_state(std::string_view input, std::string_view output) {
  const std::vector<std::string>
      before = stems_of(input, {"in_", "input_", "prev_", "previous_", "old_", "past_"},
                        {"_in", ".in", "_prev", "_previous", "0", "_0"}),
      after = stems_of(output, {"out_", "output_", "next_", "new_", "updated_", "present_", "r_"},
                       {"_out", ".out", "_next", "_new", "_updated", "n", "N", "_n"});
  return std::any_of(before.begin(), before.end(), [&](const std::string& stem) {
    return std::find(after.begin(), after.end(), stem) != after.end();
  });
}

// Whether the output is concat({input, ...}).
bool is_appended(const Graph& graph, ValueId output, ValueId input) {
  const int32_t index = graph.value_info(output).node;
  if (index < 0) return false;
  const Node& node = graph.nodes()[static_cast<size_t>(index)];
  return node.op->name() == "concat" && node.inputs[0] == input;
}

// Whether the output can be the input of the next run: a value of its type, or one that is longer.
bool can_carry(const Graph& graph, ValueId output, ValueId input) {
  const TensorType &in = graph.value_info(input).type, &out = graph.value_info(output).type;
  return in.dtype == out.dtype && (in.shape == out.shape || is_appended(graph, output, input));
}

// The states of --loop auto: outputs that have the name of an input but for a word such as "new",
// and outputs that append to an input. Fails if names fit several inputs, or if it would leave no
// input. `pairs` has those of other options.
std::vector<CarriedValue> found_pairs(const Graph& graph, std::vector<CarriedValue> pairs) {
  const size_t given = pairs.size();
  const auto is_taken = [&](std::string_view name, auto end) {
    return std::any_of(pairs.begin(), pairs.end(),
                       [&](const CarriedValue& pair) { return pair.*end == name; });
  };
  for (CarriedValue& pair : carried_values(graph))
    if (!is_taken(pair.output, &CarriedValue::output) &&
        !is_taken(pair.input, &CarriedValue::input))
      pairs.push_back(std::move(pair));
  for (const bool by_name : {true, false})
    for (const auto& [output, id] : graph.outputs()) {
      if (is_taken(output, &CarriedValue::output)) continue;
      std::vector<std::string> fitting;
      for (const ValueId in : graph.inputs()) {
        const std::string& input = graph.value_info(in).name;
        if (is_taken(input, &CarriedValue::input) || !can_carry(graph, id, in)) continue;
        if (by_name ? are_ends_of_state(input, output) : is_appended(graph, id, in))
          fitting.push_back(input);
      }
      if (fitting.size() > 1)
        usage("--loop auto: the output '", output, "' could be the input '", fitting[0], "' or '",
              fitting[1], "' of the next run; write --loop '", output, "=INPUT'");
      if (!fitting.empty()) pairs.push_back({output, fitting[0]});
    }
  if (pairs.size() > given && pairs.size() == graph.inputs().size())
    usage("--loop auto: no input would be left; write --loop OUTPUT=INPUT for each state");
  return pairs;
}

// The pairs of one graph. Fails for half a pair, unless another option has the other half.
std::vector<CarriedValue> pairs_of(const LoopOption& loop, const Graph& graph, const Job& job) {
  std::vector<CarriedValue> pairs;
  std::string index;
  for (const ValueId id : graph.inputs()) {
    const std::string& input = graph.value_info(id).name;
    if (!matches(loop.input, input, index)) continue;
    const std::string output = with_index(loop.output, index);
    if (output_named(graph, output) == kNoValue &&
        std::any_of(job.loops.begin(), job.loops.end(), [&](const LoopOption& other) {
          return !other.is_automatic() && matches(other.input, input, index) &&
                 output_named(graph, with_index(other.output, index)) != kNoValue;
        }))
      continue;
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
    start();
    bool has_least_sizes = false;  // of what the states do not determine
    for (size_t run = 0; run < kRuns;) {
      Binding sizes = cases[run % cases.size()];
      for (auto& [symbol, size] : sizes)
        if (const auto past = lengths_.find(symbol); past != lengths_.end())
          size = past->second;
        else if (has_least_sizes && is_free(symbol))
          size = 1;
      if (!has_room(sizes)) {
        const bool has_past = std::any_of(lengths_.begin(), lengths_.end(),
                                          [](const auto& length) { return length.second > 0; });
        is_over_ = !has_past && has_least_sizes;
        if (is_over_) break;
        has_least_sizes = has_least_sizes || !has_past;
        start();
        if (std::string lost = clear(*looped); !lost.empty()) return lost;
        continue;
      }
      Job job = job_;
      job.seed += run;
      std::string difference = step(*plain, *looped, make_inputs(specs, sizes, job, Draw()), run);
      if (!difference.empty()) return difference;
      if (is_over_) break;
      ++run;
    }
    return "";
  }
  bool is_over() const { return is_over_; }

 private:
  // Whether the states have room for a run of these sizes.
  bool has_room(const Binding& sizes) const {
    const Bindings bindings = bindings_of(sizes);
    const std::vector<Guard>& guards = looped_.graph().guards();
    return std::all_of(guards.begin(), guards.end(), [&](const Guard& guard) {
      return !guard.reason.starts_with(kCapacityOf) || check(guard, bindings).ok();
    });
  }
  // Whether the job leaves the size to the check.
  bool is_free(const std::string& symbol) const {
    return std::none_of(job_.check_sizes.begin(), job_.check_sizes.end(),
                        [&](const SizeOption& given) { return given.symbol == symbol; });
  }

  // Sets the values before a first run: zeros, without positions where they grow.
  void start() {
    const Graph& graph = plain_.graph();
    values_.clear();
    for (const CarriedValue& pair : pairs_) {
      const TensorType& type = graph.value_info(input_named(graph, pair.input)).type;
      Sizes shape;
      for (const Dim& dim : type.shape) {
        shape.push_back(dim.is_constant() ? dim.constant() : 0);
        if (dim.is_constant()) continue;
        lengths_[std::string(dim.symbol())] = 0;
      }
      Result<TensorData> zeros = TensorData::allocate(type.dtype, shape);
      if (!zeros.ok()) throw std::bad_alloc();
      values_.push_back(*std::move(zeros));
    }
  }

  // Sets the states to zeros. Those that grow start with a past of 0.
  std::string clear(Session& looped) const {
    for (size_t i = 0; i < pairs_.size(); ++i) {
      const TensorData& zeros = values_[i];
      if (zeros.tensor.count() == 0) continue;
      if (const Status set = looped.set_value(pairs_[i].input, zeros.tensor); !set.ok())
        return std::string(set.message());
    }
    return "";
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
      const Graph& graph = plain_.graph();
      const TensorType& type = graph.value_info(input_named(graph, pairs_[i].input)).type;
      for (size_t d = 0; d < got->shape.size(); ++d) {
        if (type.shape[d].is_constant()) continue;
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
  bool is_automatic = false;
  for (const LoopOption& loop : job.loops) {
    is_automatic = is_automatic || loop.is_automatic();
    if (loop.is_automatic()) continue;
    const std::vector<CarriedValue> pairs = pairs_of(loop, graph, job);
    all.insert(all.end(), pairs.begin(), pairs.end());
  }
  return is_automatic ? found_pairs(graph, std::move(all)) : all;
}

}  // namespace

LoopOption parse_loop(std::string_view text) {
  if (tools::trim(text) == "auto") return {};
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
    bool is_found = false, has_input = false;
    std::string index;
    for (const std::string& name : names) {
      const Model entry = entry_of(model, name);
      is_found = is_found || !(loop.is_automatic() ? all_pairs(job, entry.graph())
                                                   : pairs_of(loop, entry.graph(), job))
                                  .empty();
      for (const ValueId id : entry.graph().inputs()) {
        const std::string& input = entry.graph().value_info(id).name;
        has_input = has_input || matches(loop.input, input, index);
        known += str_cat(known.empty() ? "" : ", ", input);
      }
    }
    if (!is_found && loop.is_automatic())
      usage(
          "--loop auto: no output has the name of an input, such as present.0.key and "
          "past.0.key, or h_out and h_in; write --loop OUTPUT=INPUT");
    if (!is_found && has_input) usage(text_of(loop), ": there is no output '", loop.output, "'");
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
