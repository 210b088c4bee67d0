// SPDX-License-Identifier: Apache-2.0
#include "converter/check/in_turn.h"

#include <random>

#include "converter/check/check_inputs.h"
#include "converter/check/compare.h"
#include "converter/check/precision.h"
#include "hg/session.h"
#include "hg/shared_states.h"
#include "lib/graph/state_names.h"

namespace hg::convert {
namespace {

using Verdict = CheckedOutput::Verdict;

// Returns the precision in which a run computes the state's next value.
DType precision_of(const Graph& graph, const std::string& name) {
  for (const State& state : graph.states())
    for (const auto& [target, source] : graph.assignments()) {
      if (target != state.value || !has_name(state, name)) continue;
      Graph with_state = graph;
      with_state.output("", with_state.value(source));
      return precisions_of_outputs(with_state).back();
    }
  return f64;  // the state does not change
}

class InTurn {
 public:
  InTurn(const std::vector<EntryInTurn>& entries, const Model& written, uint64_t seed,
         CheckResult& result)
      : entries_(entries), written_(written), seed_(seed), result_(result) {}

  void run() {
    for (const EntryInTurn& entry : entries_)
      if (may_vary(*entry.loaded)) {
        result_.not_exercised.push_back("entries in turn");
        return warn(str_cat("the states that runs change are unchecked", what(entry),
                            " depends on random numbers or on uninitialized memory"));
      }
    Result<std::shared_ptr<SharedStates>> states = SharedStates::create(written_);
    if (!states.ok()) return fail(std::string(states.status().message()));
    states_ = *std::move(states);
    names_ = states_->names();
    if (names_.empty()) return;
    std::vector<Session> sessions;
    std::vector<const Loaded*> methods;
    for (const EntryInTurn& entry : entries_) {
      Result<Session> session = Session::create(written_, {.entry = entry.name, .states = states_});
      if (!session.ok()) return fail(std::string(session.status().message()));
      sessions.push_back(*std::move(session));
      methods.push_back(entry.loaded);
    }
    ReferenceSequence reference(methods);
    std::mt19937_64 random(seed_);
    const size_t rounds = 5 * entries_.size();
    try {
      for (size_t round = 0; round < rounds && result_.exit == Exit::ok; ++round) {
        const size_t k = round < entries_.size() ? round : random() % entries_.size();
        step(reference, k, sessions[k], round);
      }
    } catch (const ReferenceFailure& failure) {
      result_.not_exercised.push_back("entries in turn");
      warn(str_cat("the entries in turn are unchecked: libtorch refuses a run: ", failure.reason));
    }
  }

 private:
  static std::string what(const EntryInTurn& entry) {
    return entry.name.empty() ? str_cat(": the model") : str_cat(": `", entry.name, "`");
  }

  void warn(std::string line) { result_.warnings.push_back(std::move(line)); }
  void fail(std::string message) {
    result_.exit = Exit::mismatch;
    result_.message = std::move(message);
  }

  void step(ReferenceSequence& reference, size_t k, Session& session, size_t round) {
    const EntryInTurn& entry = entries_[k];
    take_states(reference);
    const std::vector<InputSpec> specs = input_specs(*entry.graph);
    const auto& cases = entry.alone->cases;
    const Binding sizes =
        cases.empty() ? check_sizes(specs, *entry.job).at(0) : cases[round % cases.size()].sizes;
    Job job = *entry.job;
    job.seed += round;
    const Inputs inputs = make_inputs(specs, sizes, job, Draw());
    const std::vector<TensorData> want = reference.run(k, inputs.reference, job.seed);
    for (size_t i = 0; i < inputs.data.size(); ++i)
      if (Status status = session.set_input(static_cast<int>(i), inputs.data[i].tensor);
          !status.ok())
        return fail(std::string(status.message()));
    if (Status status = session.run(); !status.ok())
      return fail(str_cat("the entries in turn", what(entry), " fails: ", status.message()));
    if (!has_only_equal(entry)) return;  // rounding also affects the states
    compare_outputs(entry, session, want);
    for (const std::string& name : names_) compare_state(entry, name, reference);
  }

  static bool has_only_equal(const EntryInTurn& entry) {
    for (const CheckedCase& checked : entry.alone->cases)
      for (const CheckedOutput& output : checked.outputs)
        if (output.verdict != Verdict::equal && output.reason != CheckedOutput::kNoElement)
          return false;
    return true;
  }

  void take_states(const ReferenceSequence& reference) {
    for (const std::string& name : names_) {
      const TensorData data = reference.state(name);
      if (data.empty()) continue;
      if (Status status = states_->set_value(name, data.tensor); !status.ok())
        return fail(str_cat("a state differs from libtorch's: ", status.message()));
    }
  }

  void compare_outputs(const EntryInTurn& entry, const Session& session,
                       const std::vector<TensorData>& want) {
    const std::vector<DType> precisions = precisions_of_outputs(*entry.graph);
    for (size_t i = 0; i < want.size() && i < precisions.size(); ++i) {
      const Result<Tensor> got = session.output(static_cast<int>(i));
      if (!got.ok()) return fail(std::string(got.status().message()));
      const Comparison comparison = compare(*got, want[i].tensor, precisions[i]);
      if (!comparison.equal)
        return fail(str_cat("the output '", session.output_name(static_cast<int>(i)), "' of",
                            what(entry).substr(1),
                            " is wrong after other runs: ", comparison.difference));
    }
  }

  void compare_state(const EntryInTurn& entry, const std::string& name,
                     const ReferenceSequence& reference) {
    const TensorData want = reference.state(name);
    const Result<Tensor> got = states_->value(name);
    if (want.empty() || !got.ok()) return;
    const Comparison comparison = compare(*got, want.tensor, precision_of(*entry.graph, name));
    if (!comparison.equal)
      fail(str_cat("the state '", name, "' is wrong after a run of", what(entry).substr(1), ": ",
                   comparison.difference));
  }

  const std::vector<EntryInTurn>& entries_;
  const Model& written_;
  const uint64_t seed_;
  CheckResult& result_;
  std::shared_ptr<SharedStates> states_;
  std::vector<std::string> names_;
};

}  // namespace

void check_in_turn(const std::vector<EntryInTurn>& entries, const Model& written, uint64_t seed,
                   CheckResult& result) {
  InTurn(entries, written, seed, result).run();
}

}  // namespace hg::convert
