// SPDX-License-Identifier: Apache-2.0
// The plans of an engine. They are made when sizes are first seen, part by part, and cached.
#include <algorithm>

#include "lib/graph/rewrite.h"
#include "lib/plan/branches.h"
#include "lib/plan/fit.h"
#include "lib/run/engine.h"
#include "lib/run/plan_packs.h"
#include "lib/run/self_test.h"

namespace hg {
namespace {

// "; n is dim 0 of 'x'", for each symbol of the guard that is a size of an input.
std::string places_of(const Guard& guard, const Graph& graph) {
  std::vector<std::string> symbols;
  guard.left.collect_symbols(symbols);
  guard.right.collect_symbols(symbols);
  std::string out;
  for (const ValueId id : graph.inputs()) {
    const ValueInfo& input = graph.value_info(id);
    for (int d = 0; d < input.type.rank(); ++d) {
      const auto found = std::find(symbols.begin(), symbols.end(), input.type.shape[d].symbol());
      if (found == symbols.end()) continue;
      out += str_cat(out.empty() ? "; " : ", ", *found, " is dim ", d, " of '", input.name, "'");
      symbols.erase(found);
    }
  }
  return out;
}

}  // namespace

Status Engine::plan(std::span<const std::pair<std::string, int64_t>> dims) {
  stepping_.reset();
  HG_TRY(sizes_.bind(graph_, {.inputs = inputs_.tensors(),
                              .dims = dims,
                              .fallback = options_.dims,
                              .outer_symbols = compiled_->outer_symbols}));
  parts_.clear();
  has_run_ = false;
  HG_TRY_ASSIGN(ReadyPlan* const first, part(0, sizes_.all(), nullptr));
  parts_.push_back(first);
  inputs_.settle();
  sizes_.settle();
  return {};
}

Status Engine::plan_for_inputs() {
  if (ReadyPlan* const known = plans_.find_first(inputs_.tensors(), sizes_.outer())) {
    parts_.assign(1, known);
    inputs_.settle();
    sizes_.settle();
    return {};
  }
  HG_TRY(plan({}));
  ReadyPlan& made = *parts_.front();
  made.input_shapes.clear();
  for (const Tensor& input : inputs_.tensors()) made.input_shapes.push_back(input.shape);
  made.outer_sizes = sizes_.outer();
  return {};
}

Result<ReadyPlan*> Engine::next_part(ReadyPlan& ready) {
  const size_t index = parts_.size();
  if (ReadyPlan* const known = plans_.find_next(index, ready, ready.measured)) return known;
  Bindings bindings = ready.plan.bindings;
  for (size_t i = 0; i < ready.symbols.size(); ++i)
    HG_TRY(bindings.bind(ready.symbols[i], ready.measured[i]));
  HG_TRY_ASSIGN(ReadyPlan* const next, part(index, bindings, &ready));
  next->given_sizes = ready.measured;
  return next;
}

Result<ReadyPlan*> Engine::part(size_t index, const Bindings& bindings, const ReadyPlan* previous) {
  if (ReadyPlan* const known = plans_.find(index, bindings, previous)) return known;
  for (const Guard& guard : graph_.guards())
    if (const Status broken = check(guard, bindings); !broken.ok()) {
      const bool is_body = limits_ != &own_limits_;  // inputs of a body have no user-visible names
      return Status(broken.code(),
                    str_cat(broken.message(), is_body ? "" : places_of(guard, graph_)));
    }
  const std::lock_guard<std::mutex> planning(compiled_->lock);
  if (ReadyPlan* const ranged = plans_.find_range(index, bindings, previous)) {
    HG_TRY_ASSIGN(const bool fits, refill(*ranged, bindings));
    if (fits) return ranged;
  } else {
    HG_TRY_ASSIGN(ReadyPlan* const made, ranged_part(index, bindings, previous));
    if (made != nullptr) return made;
  }
  return exact_part(index, bindings, previous);
}

PlanRequest Engine::request_for(const Bindings& bindings, const ReadyPlan* previous,
                                PackCache& packs) {
  PlanRequest request;
  request.graph = &graph_;
  request.registry = registry_;
  request.options = &options_;
  request.bindings = &bindings;
  request.previous = previous != nullptr ? &previous->plan : nullptr;
  request.mutable_states = &states_.changing();
  request.packs = &packs;
  request.threads = parallel_.threads;
  if (device_ != nullptr) {
    request.device = &options_.gpu.info();
    request.distrusted = &verdicts_.wrong;
  }
  return request;
}

Result<ReadyPlan*> Engine::exact_part(size_t index, const Bindings& bindings,
                                      const ReadyPlan* previous) {
  auto ready = std::make_unique<ReadyPlan>();
  if (const auto known = index > 0 ? nullptr : plan_of_others(bindings)) {
    ready->plan = *known;
  } else {
    PlanPacks packs(compiled_->packs, graph_);
    HG_TRY_ASSIGN(ready->plan,
                  make_plan_of_part(request_for(bindings, previous, packs), index == 0));
    HG_TRY(fill_packed(ready->plan, packs.found()));
    if (index == 0) share_plan(ready->plan);
  }
  ready->continue_from(previous);
  HG_TRY(make_ready(*ready));
  return plans_.add(index, std::move(ready));
}

// Expands nodes that no kernel accepts until all nodes have a kernel. Only the first part may
// change the graph, because plans of later parts refer to it.
Result<Plan> Engine::make_plan_of_part(PlanRequest request, bool may_expand) {
  PreparedNodes prepared;
  NodeKernels preferred;
  request.prepared = &prepared;
  request.preferred = &preferred;
  for (;;) {
    if (device_ != nullptr) {
      // Nothing is tested if the host has chosen kernels.
      if (options_.kernels.empty()) {
        HG_TRY_ASSIGN(verdicts_, test_kernels(graph_, options_, *registry_));
      }
    } else {
      preferred = compiled_->tuning.choose(request, options_.autotune);
    }
    int32_t without_kernel = -1;
    Result<Plan> plan = make_plan(request, &without_kernel);
    if (plan.ok()) {
      HG_TRY(fit_limit(request, *plan));
      return run_side_by_side(request, *std::move(plan));
    }
    if (without_kernel < 0 || !may_expand) return plan;
    prepared.clear();
    HG_TRY(expand_node(without_kernel));
  }
}

Status Engine::expand_node(int32_t index) {
  Graph changed = graph_;
  HG_TRY(rewrite(
      changed,
      [&, at = int32_t{0}](const Node& node) mutable -> Result<std::optional<std::vector<Value>>> {
        if (at++ != index) return std::optional<std::vector<Value>>();
        HG_TRY_ASSIGN(std::vector<Value> values, GraphAccess::expand(changed, node));
        return std::optional(std::move(values));
      }));
  HG_TRY(prepare_states(changed));
  graph_ = std::move(changed);
  is_as_compiled_ = false;
  plans_.clear();
  controls_.clear();  // they and the sizes are indexed by node numbers
  size_ways_.clear();
  return {};
}

// Searches for orders and recomputations that need less memory, within the limit if there is one.
Status Engine::fit_limit(const PlanRequest& request, Plan& plan) const {
  const int64_t own = states_.own_bytes();
  int64_t earlier = 0;
  for (size_t i = 0; i < static_cast<size_t>(plan.part); ++i) earlier += arenas_.bytes(i);
  const int64_t limit = options_.memory_limit,
                rest = limit - compiled_->packs.bytes() - own - earlier;
  HG_TRY_ASSIGN(plan,
                fit_plan(request, std::move(plan), limit > 0 ? std::max<int64_t>(rest, 1) : 0));
  if (limit <= 0 || plan.all_arena_bytes() <= rest) return {};
  const int64_t needed = plan.all_arena_bytes() + compiled_->packs.bytes() + own + earlier;
  return out_of_memory("the memory limit is ", limit, " bytes; the smallest that works is ", needed,
                       " (", plan.all_arena_bytes(), " of arena, where values are computed again, ",
                       compiled_->packs.bytes(), " of packed weights, ", own, " of own state",
                       earlier > 0 ? str_cat(", ", earlier, " of earlier parts") : "", ")");
}

// Plans on a device refer to uploads of this engine alone.
std::shared_ptr<const Plan> Engine::plan_of_others(const Bindings& bindings) const {
  if (only_plan_ != nullptr) return only_plan_;
  if (!is_as_compiled_ || device_ != nullptr) return nullptr;
  for (const auto& plan : compiled_->plans) {
    if (!(plan->bindings == bindings)) continue;
    const int64_t needed = plan->all_arena_bytes() + compiled_->packs.bytes() + states_.own_bytes();
    if (options_.memory_limit <= 0 || needed <= options_.memory_limit) return plan;
  }
  return nullptr;
}

void Engine::share_plan(const Plan& plan) {
  if (!is_as_compiled_ || device_ != nullptr || only_plan_ != nullptr || compiled_->plan != nullptr)
    return;
  std::vector<std::shared_ptr<const Plan>>& plans = compiled_->plans;
  std::erase_if(plans, [&](const auto& other) { return other->bindings == plan.bindings; });
  if (plans.size() >= Compiled::kMostPlans) plans.erase(plans.begin());
  plans.push_back(std::make_shared<const Plan>(plan));
}

// The system reads dropped pages of a mapped file again when they are used. Weights that passes
// created are freed once their only reader has packed them, unless another plan needs them. All
// later engines then share this plan. Computes the remaining LaterData, which runs may read.
Status Engine::fill_packed(const Plan& plan, const std::vector<ValueId>& packed_before) {
  const bool is_last = device_ == nullptr && plan.part == 0 &&
                       plan.next_node == graph_.nodes().size() && graph_.symbols().empty() &&
                       compiled_->outer_symbols.empty();
  const std::vector<int> uses = use_counts(graph_);
  // Data that is left for other engines must be allocated before a weight is freed.
  std::shared_ptr<const Plan> only;
  std::optional<Graph> left;
  std::vector<State>* kept = nullptr;
  if (is_last) {
    only = std::make_shared<const Plan>(plan);
    left = graph_;
    kept = &GraphAccess::body(*left).states;
    for (size_t i = 0; i < kept->size(); ++i)
      if (states_.changes(i)) drop_data((*kept)[i]);
    (void)GraphAccess::body(graph_);  // makes the body unshared before other threads can see it
  }
  std::atomic<bool> any_gone = false;
  const auto release = [&](ValueId value) {
    const State* const state = root_state(graph_, value);
    if (state == nullptr) return;
    const auto index = static_cast<size_t>(state - graph_.states().data());
    const auto later = LaterData::find(graph_, state->data);
    release_pages(graph_, later ? later->origin().source : state->data);
    if (!is_last || index < compiled_->first_made_state || states_.changes(index)) return;
    while (value != state->value && uses[value] == 1)
      value = graph_.nodes()[graph_.value_info(value).node].inputs[0];
    if (uses[value] != 1) return;  // others read the value or what it views
    states_.drop(graph_, index);
    drop_data((*kept)[index]);
    if (later) later->discard();
    any_gone = true;
  };
  HG_TRY(compiled_->packs.fill(parallel_, release));
  for (const ValueId value : packed_before) release(value);
  for (const State& state : graph_.states())
    if (!state.data.empty()) compute_now(graph_, state.data);
  if (any_gone) {
    compiled_->graph = *std::move(left);
    compiled_->plan = std::move(only);
  }
  return {};
}

Status Engine::make_ready(ReadyPlan& ready) {
  const Plan& plan = ready.plan;
  if (!options_.lazy_allocation) {
    HG_TRY(hold_arena(plan));
    if (device_ != nullptr) HG_TRY(record(ready));
  }
  ready.lay_out(graph_, {&parallel_, &error_, &random_}, options_.profile);
  if (plan.measure && plan.measure->kind != StepKind::control) {
    ready.ways = &size_ways_[plan.measure->node];
    ready.ways->resize(3 * ready.symbols.size());
  }
  return make_controls(plan);
}

// If an arena cannot be enlarged, it is gone. Plans for smaller sizes stay; their next run
// allocates their own arena.
Status Engine::hold_arena(const Plan& plan) {
  const auto part = static_cast<size_t>(plan.part);
  if (arenas_.is_enough(part, plan.arena_bytes)) return {};
  ++generation_;
  if (!arenas_.allocate(part, plan.arena_bytes))
    return out_of_memory("no memory for an arena of ", plan.arena_bytes, " bytes");
  return {};
}

Status Engine::make_controls(const Plan& plan) {
  controls_.resize(std::max(controls_.size(), graph_.nodes().size()));
  SessionOptions options = options_;
  options.parallel_for = parallel_;
  const auto make = [&](const Step& step) -> Status {
    const auto node = static_cast<size_t>(step.node);
    if (step.kind != StepKind::control || controls_[node] != nullptr) return {};
    auto control = Control::create(graph_.nodes()[node], options, *registry_, *compiled_, limits_);
    if (!control.ok())
      return Status(control.status().code(), str_cat(step.label, ": ", control.status().message()));
    controls_[node] = *std::move(control);
    return {};
  };
  for (const Step& step : plan.steps) HG_TRY(make(step));
  if (plan.measure) HG_TRY(make(*plan.measure));
  return {};
}

}  // namespace hg
