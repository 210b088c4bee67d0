// SPDX-License-Identifier: Apache-2.0
// What a program of a named model holds: sessions of the variants of its graph, the arrays of its
// states, and the hooks.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/nn/prepared.h"

namespace hg::nn {

// Counts the arenas of all sessions, and tells the host of them.
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

// Where an input of a session comes from.
enum class Given : uint8_t { data, parameter, state, seed };

struct Running {
  std::shared_ptr<Variant> variant;
  Session session;
  std::vector<Given> origins;      // by input
  std::vector<std::string> names;  // by input, as the caller gives it
};

struct Program::Body {
  Body(std::shared_ptr<Prepared> from, CompileOptions given);

  std::shared_ptr<Prepared> prepared;
  CompileOptions options;
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
  std::vector<bool> hooked;                       // by hook of the run: it was called
  std::set<std::string> looked;                   // values of the run that debug saw
  std::vector<std::unique_ptr<Running>> running;  // one for each kind of call
  Running* last = nullptr;                        // that ran last
  struct Stepping {
    std::vector<Array> held;
    bool is_done = false;
  };
  std::optional<Stepping> stepping;  // through `last`

  Status make_states();
  VariantKey key() const;  // of evaluate()
  Result<VariantKey> gradient_key(const NamedArrays& output_gradients) const;
  Result<Running*> need(const VariantKey& key);
  Status run(Running& run, const NamedArrays& parameters, const NamedArrays& data,
             const NamedArrays& seeds, std::span<NamedArrays* const> results);

  Status check_data(const NamedArrays& data) const;
  // Gives the session its inputs; `held` keeps what must live until it has run.
  Status bind(Running& run, const NamedArrays& parameters, const NamedArrays& data,
              const NamedArrays& seeds, std::vector<Array>& held);
  // A step of the session; hooks and debug look at what it made. `first_extra` counts the outputs
  // that the caller asked for.
  Result<std::optional<StepRow>> step(Running& run, int first_extra);
  Status run_by_steps(Running& run, int first_extra);
  void forget_looks(const Running& run);
  void look_at(const Running& run, int first_extra, const std::string& name, const Tensor& value);
  void call_hooks(const std::string& path, const Tensor& value) const;
  // After the run: states that moved, and what no step showed to hooks and debug.
  Status after(Running& run, int first_extra);
  Status look_at_rest(Running& run, int first_hook);
};

}  // namespace hg::nn
