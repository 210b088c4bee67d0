// SPDX-License-Identifier: Apache-2.0
// The plans of a program: made when sizes are first seen, kept for when they come again.
#include "lib/graph/rewrite.h"
#include "lib/plan/branches.h"
#include "lib/plan/fit.h"
#include "lib/run/ready.h"
#include "lib/run/self_test.h"

namespace hg {
namespace {

constexpr size_t kPlansPerPart = 16;  // bindings whose plans are kept

constexpr ParallelFor kOneThread;  // what a kernel in a lane gets: it runs its ranges itself

// The state that a value is, or looks at; null where it is neither.
const State* root_state(const Graph& graph, ValueId id) {
  for (;;) {
    const ValueInfo& info = graph.value_info(id);
    if (info.state >= 0) return &graph.states()[static_cast<size_t>(info.state)];
    if (info.node < 0) return nullptr;
    const Node& node = graph.nodes()[static_cast<size_t>(info.node)];
    if (node.op->def.view == nullptr) return nullptr;
    id = node.inputs[0];
  }
}

// How a value looks at its state, and how that lies in memory: views with their attributes.
std::string look_of(const Graph& graph, ValueId id) {
  std::string look;
  for (;;) {
    const ValueInfo& info = graph.value_info(id);
    if (info.state >= 0) return look + text(" ", info.type);
    const Node& node = graph.nodes()[static_cast<size_t>(info.node)];
    look += text(" ", node.op->name());
    for (const Attr& attr : node.attrs) look += text(",", attr);
    id = node.inputs[0];
  }
}

// What kernels ask of a program's packed weights while one plan of it is made.
class PlanPacks final : public PackCache {
 public:
  PlanPacks(SharedPacks& packs, const Graph& graph) : packs_(packs), graph_(graph) {}
  void* pack(std::string_view kernel, ValueId value, int64_t bytes,
             std::function<void(void* to)> fill, bool at_once) override {
    const State* const state = root_state(graph_, value);
    if (state == nullptr || state->data.empty()) return nullptr;
    bool is_new = false;
    void* const to = packs_.pack(
        {text(kernel, look_of(graph_, value)), state->data.tensor.data, state->data.owner}, value,
        bytes, std::move(fill), at_once, is_new);
    if (to != nullptr && !is_new && !at_once) found_.push_back(value);
    return to;
  }
  // Values of which other programs had what was asked for.
  const std::vector<ValueId>& found() const { return found_; }

 private:
  SharedPacks& packs_;
  const Graph& graph_;
  std::vector<ValueId> found_;
};

}  // namespace

Program::Ready* Program::known_plan() {
  if (plans_.empty()) return nullptr;
  const auto is_for_inputs = [&](const Ready& ready) {
    return ready.input_shapes.size() == inputs_.size() && ready.outer_sizes == outer_sizes_ &&
           std::equal(inputs_.begin(), inputs_.end(), ready.input_shapes.begin(),
                      [](const Tensor& input, const Sizes& shape) { return input.shape == shape; });
  };
  for (const auto& ready : plans_[0])
    if (!inputs_.empty() && is_for_inputs(*ready)) return ready.get();
  return nullptr;
}

Result<Program::Ready*> Program::part(size_t index, const Bindings& bindings,
                                      const Plan* previous) {
  if (plans_.size() <= index) plans_.resize(index + 1);
  auto& cache = plans_[index];
  for (const auto& ready : cache)
    if (ready->plan.bindings == bindings) return ready.get();
  for (const Guard& guard : graph_.guards()) HG_TRY(check(guard, bindings));
  const std::lock_guard<std::mutex> planning(compiled_->lock);
  if (index == 0 && only_plan_ != nullptr) {
    auto ready = std::make_unique<Ready>();
    ready->plan = *only_plan_;
    HG_TRY(make_ready(*ready));
    cache.push_back(std::move(ready));
    return cache.back().get();
  }
  PlanPacks packs(compiled_->packs, graph_);
  PlanRequest request;
  request.graph = &graph_;
  request.registry = registry_;
  request.options = &options_;
  request.bindings = bindings;
  request.previous = previous;
  request.mutable_states = &mutable_states_;
  request.packs = &packs;
  request.threads = parallel_.threads;
  if (device_ != nullptr) {
    request.device = &options_.gpu.info();
    request.distrusted = &distrusted_;
  }
  auto ready = std::make_unique<Ready>();
  PreparedNodes prepared;
  NodeKernels preferred;
  request.prepared = &prepared;
  request.preferred = &preferred;
  for (;;) {
    if (device_ != nullptr) {
      HG_TRY_ASSIGN(distrusted_, distrusted_kernels(graph_, options_, *registry_));
    } else {
      preferred = compiled_->tuning.choose(request, options_.autotune);
    }
    int32_t expand_node = -1;
    Result<Plan> plan = make_plan(request, &expand_node);
    if (plan.ok()) {
      ready->plan = *std::move(plan);
      break;
    }
    // Only the first part may still change the graph: later ones continue plans that refer to it.
    if (expand_node < 0 || index > 0) return plan.status();
    plans_.clear();
    plans_.resize(1);
    controls_.clear();  // they and the sizes are known by the numbers of nodes
    size_ways_.clear();
    prepared.clear();
    HG_TRY(rewrite(graph_,
                   [&, at = int32_t{0}](
                       const Node& node) mutable -> Result<std::optional<std::vector<Value>>> {
                     if (at++ != expand_node) return std::optional<std::vector<Value>>();
                     HG_TRY_ASSIGN(std::vector<Value> values, GraphAccess::expand(graph_, node));
                     return std::optional(std::move(values));
                   }));
    HG_TRY(prepare_states());
  }
  HG_TRY(fit_limit(request, ready->plan));
  HG_TRY_ASSIGN(ready->plan, run_side_by_side(request, std::move(ready->plan)));
  fill_packed(ready->plan, packs.found());
  HG_TRY(make_ready(*ready));
  auto& plans = plans_[index];
  if (plans.size() >= kPlansPerPart) {
    for (size_t later = index; later < plans_.size(); ++later) plans_[later].clear();
  }
  plans.push_back(std::move(ready));
  return plans.back().get();
}

// Looks for orders and repetitions that need less memory, within the limit where there is one.
Status Program::fit_limit(const PlanRequest& request, Plan& plan) const {
  int64_t own = 0, earlier = 0;
  for (const Memory64& state : own_states_) own += state.bytes();
  for (size_t i = 0; i < static_cast<size_t>(plan.part); ++i) earlier += arenas_[i].bytes();
  const int64_t limit = options_.memory_limit,
                rest = limit - compiled_->packs.bytes() - own - earlier;
  HG_TRY_ASSIGN(plan,
                fit_plan(request, std::move(plan), limit > 0 ? std::max<int64_t>(rest, 1) : 0));
  if (limit <= 0 || plan.all_arena_bytes() <= rest) return {};
  const int64_t needed = plan.all_arena_bytes() + compiled_->packs.bytes() + own + earlier;
  return out_of_memory("the memory limit is ", limit, " bytes; the smallest that works is ", needed,
                       " (", plan.all_arena_bytes(), " of arena, where values are computed again, ",
                       compiled_->packs.bytes(), " of packed weights, ", own, " of own state",
                       earlier > 0 ? text(", ", earlier, " of earlier parts") : "", ")");
}

// The system reads the pages of a mapped file again when they are used after all. Weights that the
// passes made go once their one reader has packed them, where no other plan will need them; then
// all programs to come have this plan.
void Program::fill_packed(const Plan& plan, const std::vector<ValueId>& packed_before) {
  const bool is_last = device_ == nullptr && plan.part == 0 &&
                       plan.next_node == graph_.nodes().size() && graph_.symbols().empty() &&
                       compiled_->outer_symbols.empty();
  const std::vector<int> uses = use_counts(graph_);
  std::vector<State>& states = GraphAccess::body(graph_).states;
  std::atomic<bool> any_gone = false;
  const auto release = [&](ValueId value) {
    const State* const root = root_state(graph_, value);
    if (root == nullptr) return;
    const auto index = static_cast<size_t>(root - states.data());
    State& state = states[index];
    release_pages(graph_, state.data);
    if (!is_last || state.value != value || index < compiled_->first_made_state ||
        mutable_states_[index] || uses[static_cast<size_t>(value)] != 1)
      return;
    drop_data(state);
    state_data_[index] = nullptr;
    any_gone = true;
  };
  compiled_->packs.fill(parallel_, release);
  for (const ValueId value : packed_before) release(value);
  if (!any_gone) return;
  compiled_->graph = graph_;
  std::vector<State>& kept = GraphAccess::body(compiled_->graph).states;
  for (size_t i = 0; i < kept.size(); ++i)
    if (mutable_states_[i]) drop_data(kept[i]);
  compiled_->plan = std::make_shared<const Plan>(plan);
}

Status Program::make_ready(Ready& ready) {
  const Plan& plan = ready.plan;
  const auto part = static_cast<size_t>(plan.part);
  if (arenas_.size() <= part) arenas_.resize(part + 1);
  if (arenas_[part].bytes() < plan.arena_bytes) {
    if (!arenas_[part].allocate(options_.allocator, plan.arena_bytes))
      return out_of_memory("no memory for an arena of ", plan.arena_bytes, " bytes");
    ++generation_;
  }
  if (device_ != nullptr) {
    HG_TRY(device_->reserve(plan));
    HG_TRY_ASSIGN(ready.segments, device_->record(plan, options_.profile));
    ready.device_generation = device_->generation();
  }
  size_t count = 0;
  const auto each_step = [&](auto visit) {
    for (const Step& step : plan.steps) visit(step);
    if (plan.measure) visit(*plan.measure);
  };
  each_step([&](const Step& step) { count += step.inputs.size() + step.outputs.size(); });
  ready.tensors.resize(count);
  size_t at = 0;
  each_step([&](const Step& step) {
    RunContext context;
    context.inputs = {ready.tensors.data() + at, step.inputs.size()};
    for (const PlacedTensor& in : step.inputs) {
      if (in.place.kind == Place::Kind::input && in.place.side == Side::host) {
        ready.patches.push_back({at, in.place.index, in.place.offset});
        if (step.kind != StepKind::upload) ready.host_inputs.push_back(in.place.index);
      }
      ready.tensors[at++] = in.tensor;
    }
    context.outputs = {ready.tensors.data() + at, step.outputs.size()};
    for (const PlacedTensor& out : step.outputs) ready.tensors[at++] = out.tensor;
    context.prepared = step.state.get();
    context.parallel = &parallel_;
    context.error = &error_;
    context.random = &random_;
    ready.contexts.push_back(context);
  });
  size_t lanes = 0;
  for (const Branches& branches : plan.branches) {
    ready.first_lane.push_back(lanes);
    lanes += branches.lanes.size();
  }
  ready.lanes = std::make_unique<Ready::Lane[]>(lanes);
  for (size_t i = 0; i < plan.branches.size(); ++i) {
    Ready::Lane* lane = ready.lanes.get() + ready.first_lane[i];
    for (const std::vector<int32_t>& steps : plan.branches[i].lanes) {
      for (const int32_t step : steps) {
        ready.contexts[static_cast<size_t>(step)].parallel = &kOneThread;
        ready.contexts[static_cast<size_t>(step)].error = &lane->error;
      }
      ++lane;
    }
  }
  if (options_.profile) ready.ms.resize(plan.steps.size(), 0);
  ready.homes.resize(plan.blocks.size(), nullptr);
  ready.first_commit = plan.steps.size();
  for (size_t i = plan.steps.size(); i-- > 0;)
    for (const PlacedTensor& out : plan.steps[i].outputs)
      if (out.place.kind == Place::Kind::state) ready.first_commit = i;
  if (plan.part == 0)
    for (const auto& [name, id] : graph_.outputs()) {
      const Result<Sizes> sizes = evaluate(graph_.value_info(id).type.shape, plan.bindings);
      ready.output_shapes.push_back(sizes.ok() ? std::optional(*sizes) : std::nullopt);
    }
  find_whole_blocks(ready);
  describe_measuring(ready);
  return make_controls(plan);
}

void* Program::base_of(const Place& place) const {
  const auto index = static_cast<size_t>(place.index);
  if (place.side == Side::device) return nullptr;
  switch (place.kind) {
    case Place::Kind::none:
      return nullptr;
    case Place::Kind::arena:
      if (index < parts_.size() && place.block >= 0)
        if (std::byte* const home = parts_[index]->homes[static_cast<size_t>(place.block)])
          return home + place.offset;
      return static_cast<std::byte*>(arenas_[index].data()) + place.offset;
    case Place::Kind::input:
      if (input_data_[index] == nullptr) return nullptr;  // run_on() names it
      return static_cast<std::byte*>(input_data_[index]) + place.offset;
    case Place::Kind::state:
      return static_cast<std::byte*>(state_data_[index]) + place.offset;
    case Place::Kind::fixed:
      return static_cast<std::byte*>(const_cast<void*>(place.address)) + place.offset;
  }
  return nullptr;
}

void Program::resolve(Ready& ready) {
  if (ready.generation != generation_ || ready.is_rebound) {
    size_t at = 0, context = 0;
    const auto resolve_step = [&](const Step& step) {
      for (const PlacedTensor& in : step.inputs) ready.tensors[at++].data = base_of(in.place);
      for (const PlacedTensor& out : step.outputs) ready.tensors[at++].data = base_of(out.place);
      ready.contexts[context++].scratch = base_of(step.workspace);
    };
    for (const Step& step : ready.plan.steps) resolve_step(step);
    if (ready.plan.measure) resolve_step(*ready.plan.measure);
    ready.generation = generation_;
    ready.is_rebound = false;
  }
  for (const Ready::InputPatch& patch : ready.patches) {
    Place place = Place::of_input(patch.input);
    place.offset = patch.offset;
    ready.tensors[patch.tensor].data = base_of(place);
  }
}

}  // namespace hg
