// SPDX-License-Identifier: Apache-2.0
// State of a compiled named model: sessions for the variants of its graph, arrays of its states,
// and hooks.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/nn/prepared.h"

namespace hg::nn {

// Counts the arenas of all sessions and notifies the host.
class ArenaCounts {
 public:
  explicit ArenaCounts(const CompileOptions& options)
      : on_arena_(options.on_arena), outer_(options.session.arena_observer) {}
  ArenaCounts(const ArenaCounts&) = delete;
  ArenaCounts& operator=(const ArenaCounts&) = delete;
  ArenaObserver observer();
  void add_to(MemoryStats& stats) const;

 private:
  void note(bool is_free, void* memory, size_t bytes);

  std::function<void(const ArenaEvent&)> on_arena_;
  ArenaObserver outer_;
  int64_t bytes_ = 0, peak_bytes_ = 0, allocations_ = 0, frees_ = 0;
};

// Source of a session input.
enum class Given : uint8_t { data, parameter, state, seed };

struct Running {
  std::shared_ptr<Variant> variant;
  Session session;
  std::vector<Given> origins;      // per input
  std::vector<std::string> names;  // per input, as the caller names it
};

struct Program::Body {
  Body(std::shared_ptr<Prepared> from, CompileOptions given, Block model);

  std::shared_ptr<Prepared> prepared;
  CompileOptions options;
  Block block;  // the model
  std::vector<ParameterInfo> parameters;
  NamedArrays states;
  ArenaCounts arenas;  // outlives the sessions
  struct Hook {
    int number = 0;
    std::string path;
    std::function<void(const Intermediate&)> fn;
  };
  std::vector<Hook> hooks;
  int next_hook = 0;
  std::vector<bool> hooked;                       // per hook of the run: whether it was called
  std::set<std::string> looked;                   // values of the run passed to debug
  std::vector<std::unique_ptr<Running>> running;  // one per kind of call
  Running* last = nullptr;                        // the last to run
  struct Stepping {
    std::vector<Array> held;
    bool is_done = false;
  };
  std::optional<Stepping> stepping;  // of `last`

  Status make_states();
  VariantKey key() const;  // of evaluate()
  Result<VariantKey> gradient_key(const NamedArrays& output_gradients) const;
  Result<Running*> need(const VariantKey& key);
  Status run(Running& run, const NamedArrays& parameters, const NamedArrays& data,
             const NamedArrays& seeds, std::span<NamedArrays* const> results);

  Status check_data(const NamedArrays& data) const;
  // Sets the inputs of the session. `held` keeps arrays alive until it has run.
  Status bind(Running& run, const NamedArrays& parameters, const NamedArrays& data,
              const NamedArrays& seeds, std::vector<Array>& held);
  // Runs a step of the session and passes its values to hooks and debug. `first_extra`: number of
  // outputs that the caller requested.
  Result<std::optional<StepRow>> step(Running& run, int first_extra);
  Status run_by_steps(Running& run, int first_extra);
  void forget_looks(const Running& run);
  void look_at(const Running& run, int first_extra, const std::string& name, const Tensor& value);
  void call_hooks(const std::string& path, const Tensor& value) const;
  // Called after a run: updates states, and passes values that no step showed to hooks and debug.
  Status after(Running& run, int first_extra);
  Status look_at_rest(Running& run, int first_hook);
};

}  // namespace hg::nn
