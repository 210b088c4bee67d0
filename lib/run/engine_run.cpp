// SPDX-License-Identifier: Apache-2.0
// Runs an engine: visits the steps of its plan, part by part.
#include <algorithm>

#include "lib/graph/border.h"
#include "lib/graph/clock.h"
#include "lib/run/engine.h"

namespace hg {
namespace {

// The state of which the node changes elements, or kNoValue.
ValueId changed_state(const Graph& graph, const Node& node) {
  if (node.inputs.size() < 2 || node.outputs.size() != 1) return kNoValue;
  ValueId id = node.inputs[0];
  const ValueInfo& made = graph.value_info(node.outputs[0]);
  if (id == kNoValue || made.type.shape != graph.value_info(id).type.shape) return kNoValue;
  for (int32_t from = graph.value_info(id).node; from >= 0; from = graph.value_info(id).node) {
    const Node& view = graph.nodes()[from];  // such as a cast or another shape of the state
    if (view.inputs.size() != 1) return kNoValue;
    id = view.inputs[0];
  }
  const auto& changes = graph.assignments();
  const bool is_assigned = std::any_of(changes.begin(), changes.end(),
                                       [&](const auto& change) { return change.first == id; });
  return is_assigned ? id : kNoValue;
}

}  // namespace

Status Engine::run(const std::stop_token& stop, RunProgress* progress) {
  own_limits_ = {options_.most_rounds, stop.stop_possible() ? &stop : nullptr, progress};
  if (progress != nullptr) {
    progress->done_.store(0, std::memory_order_relaxed);
    progress->known_.store(0, std::memory_order_relaxed);
  }
  Status status = or_no_memory([&] { return run_once(); });
  own_limits_ = {};
  return status;
}

// Called only by the engine's own thread.
void Engine::add_progress(size_t known, size_t done) const {
  RunProgress* const progress = limits_->progress;
  if (progress == nullptr) [[likely]]
    return;
  progress->known_.fetch_add(static_cast<int64_t>(known), std::memory_order_relaxed);
  progress->done_.fetch_add(static_cast<int64_t>(done), std::memory_order_relaxed);
}

void Engine::run_within(RunLimits* limits) { limits_ = limits; }

Status Engine::run_once() {
  HG_TRY(begin_run());
  for (bool more = true; more;) {
    HG_TRY(run_part(*parts_.back()));
    HG_TRY_ASSIGN(more, next_part_begins());
  }
  return finish_run();
}

Status Engine::begin_run() {
  stepping_.reset();
  HG_TRY(inputs_.gather());
  has_run_ = false;
  if (inputs_.has_new_shapes() || sizes_.has_new_outer() || parts_.empty())
    HG_TRY(plan_for_inputs());
  HG_TRY(states_.check_past(graph_, bindings()));
  states_.will_grow(bindings());
  fetched_.clear();
  parts_.resize(1);
  outputs_.begin();
  if (outputs_.any()) HG_TRY(outputs_.check(parts_.front()->output_shapes));
  return {};
}

Result<bool> Engine::next_part_begins() {
  ReadyPlan& ready = *parts_.back();
  if (ready.first_commit < ready.plan.steps.size()) limits_->stop = nullptr;
  if (ready.plan.next_node == graph_.nodes().size()) return false;
  HG_TRY(measure(ready));
  HG_TRY_ASSIGN(ReadyPlan* const next, next_part(ready));
  parts_.push_back(next);
  return true;
}

Status Engine::finish_run() {
  if (outputs_.any()) HG_TRY(take_outputs());
  assign_states();
  states_.grew(bindings());
  if (outputs_.any()) HG_TRY(outputs_.copy());
  ++random_.run;
  has_run_ = true;
  return {};
}

Result<double> Engine::least_ms(int most_runs, double most_ms) {
  double best = 0, sum = 0;
  for (int i = 0; i < most_runs && (i < 2 || sum < most_ms); ++i) {
    const Clock::time_point begin = Clock::now();
    HG_TRY(run());
    const double ms = ms_since(begin);
    sum += ms;
    if (i > 0) best = i == 1 ? ms : std::min(best, ms);
  }
  return best;
}

// -- Addresses ------------------------------------------------------------------------------------

void* Engine::address_of(const Place& place) const {
  const auto index = static_cast<size_t>(place.index);
  if (place.side == Side::device) return nullptr;
  const auto at = [&](void* base) { return static_cast<std::byte*>(base) + place.offset; };
  switch (place.kind) {
    case Place::Kind::none:
      return nullptr;
    case Place::Kind::arena:
      if (index < parts_.size() && place.block >= 0)
        if (std::byte* const home = parts_[index]->homes[place.block]) return home + place.offset;
      return at(arenas_.data(index));
    case Place::Kind::input:
      return inputs_.data(index) == nullptr ? nullptr
                                            : at(inputs_.data(index));  // run_on() sets it
    case Place::Kind::state:
      return states_.data(index) == nullptr ? nullptr : at(states_.data(index));
    case Place::Kind::fixed:
      return at(const_cast<void*>(place.address));
  }
  return nullptr;
}

void Engine::resolve(ReadyPlan& ready) {
  ready.resolve(generation_, [&](const Place& place) -> void* {
    void* const data = address_of(place);
    // A weight of which only packed copies remain counts as given; nothing may read it.
    if (data == nullptr && place.kind == Place::Kind::state)
      return reinterpret_cast<void*>(uintptr_t{64});
    return data;
  });
  for (const ReadyPlan::InputPatch& patch : ready.patches) {
    void* const data = inputs_.data(static_cast<size_t>(patch.input));
    ready.tensors[patch.tensor].data =
        data == nullptr ? nullptr : static_cast<std::byte*>(data) + patch.offset;
  }
}

void Engine::place_outputs(ReadyPlan& ready) {
  if (!outputs_.any() && !ready.has_homes) return;
  ready.has_homes = outputs_.any();
  if (outputs_.place(ready.plan, ready.output_blocks, inputs_.tensors(), ready.homes))
    ++generation_;
}

// Downloads the inputs on the device that the CPU reads.
Status Engine::fetch_inputs(const ReadyPlan& ready) {
  for (const int32_t index : ready.host_inputs) {
    const auto i = static_cast<size_t>(index);
    if (device_->is_given(i))
      HG_TRY(device_->fetch_input(i, inputs_.tensors()[i].bytes(), inputs_.data(i)));
  }
  return {};
}

Status Engine::record(ReadyPlan& ready) {
  HG_TRY(device_->reserve(ready.plan));
  HG_TRY_ASSIGN(ready.segments, device_->record(ready.plan, options_.profile));
  ready.device_generation = device_->generation();
  return {};
}

// -- Steps ----------------------------------------------------------------------------------------

Status Engine::begin_part(ReadyPlan& ready) {
  HG_TRY(hold_arena(ready.plan));
  place_outputs(ready);
  resolve(ready);
  if (device_ != nullptr) {
    HG_TRY(fetch_inputs(ready));
    if (ready.device_generation != device_->generation()) HG_TRY(record(ready));
  }
  add_progress(ready.plan.steps.size(), 0);
  return {};
}

Status Engine::run_part(ReadyPlan& ready) {
  HG_TRY(begin_part(ready));
  Cursor at;
  while (at.step < ready.plan.steps.size()) HG_TRY(advance(ready, at));
  add_progress(0, ready.plan.steps.size() - at.done);
  return {};
}

// Runs one step, or a group of steps that run together.
Status Engine::advance(ReadyPlan& ready, Cursor& at) {
  const size_t i = at.step;
  add_progress(0, i - at.done);
  at.done = i;
  if (is_stopped(ready, i)) [[unlikely]]
    return stopped_before(ready, i);
  if (at.branches < ready.plan.branches.size() &&
      static_cast<size_t>(ready.plan.branches[at.branches].begin) == i) {
    HG_TRY(run_branches(ready, at.branches));
    at.step = static_cast<size_t>(ready.plan.branches[at.branches++].end);
    return {};
  }
  if (at.segment < ready.segments.size() && ready.segments[at.segment].begin == i) {
    HG_TRY(run_segment(ready, ready.segments[at.segment]));
    at.step = ready.segments[at.segment++].end;
    return {};
  }
  at.step = i + 1;
  if (!options_.profile) return run_step(ready, i);
  const Clock::time_point start = Clock::now();
  HG_TRY(run_step(ready, i));
  ready.ms[i] = ms_since(start);
  return {};
}

Status Engine::run_segment(ReadyPlan& ready, DeviceSegment& segment) {
  const Clock::time_point start = Clock::now();
  for (size_t k = 0; k < segment.transfers.size(); ++k)
    segment.host[k] = address_of(*segment.transfers[k]);
  HG_TRY(segment.recording->run(segment.host));
  if (options_.profile) ready.ms[segment.begin] = ms_since(start);
  return {};
}

bool Engine::is_stopped(const ReadyPlan& ready, size_t step) const {
  const std::stop_token* const stop = limits_->stop;
  if (stop == nullptr) [[likely]]
    return false;
  if (step > ready.first_commit) {
    limits_->stop = nullptr;  // so that later steps and parts cannot be stopped
    return false;
  }
  return stop->stop_requested();
}

Status Engine::stopped_before(const ReadyPlan& ready, size_t step) const {
  return cancelled("the run was stopped before ", ready.plan.steps[step].label);
}

// A lane stops at the first step that fails. If several lanes fail, reports the error of the
// earliest step in the plan, which would also have failed in a sequential run.
Status Engine::run_branches(ReadyPlan& ready, size_t index) {
  const Branches& branches = ready.plan.branches[index];
  struct Work {
    ReadyPlan* ready;
    const Branches* branches;
    ReadyPlan::Lane* lanes;
    bool profile;
    const std::stop_token* stop;
  } work{&ready, &branches, ready.lanes.get() + ready.first_lane[index], options_.profile,
         static_cast<size_t>(branches.end) <= ready.first_commit ? limits_->stop : nullptr};
  parallel_.run(
      parallel_.host, static_cast<int64_t>(branches.lanes.size()),
      [](void* arg, int64_t lane_index) {
        const Work& w = *static_cast<const Work*>(arg);
        const auto lane = static_cast<size_t>(lane_index);
        for (const int32_t step : w.branches->lanes[lane]) {
          if (w.stop != nullptr && w.stop->stop_requested()) return;
          const auto i = static_cast<size_t>(step);
          const Clock::time_point start = w.profile ? Clock::now() : Clock::time_point();
          w.ready->plan.steps[i].kernel->run(w.ready->contexts[i]);
          if (w.profile) w.ready->ms[i] = ms_since(start);
          if (w.lanes[lane].error.load(std::memory_order_relaxed) == nullptr) continue;
          w.lanes[lane].stopped_at = step;
          return;
        }
      },
      &work);
  ReadyPlan::Lane* first = nullptr;
  for (size_t lane = 0; lane < branches.lanes.size(); ++lane) {
    ReadyPlan::Lane& other = work.lanes[lane];
    if (other.stopped_at < 0) continue;
    if (first == nullptr || other.stopped_at < first->stopped_at) first = &other;
  }
  if (first == nullptr) [[likely]]
    return work.stop != nullptr && work.stop->stop_requested()
               ? stopped_before(ready, static_cast<size_t>(branches.begin))
               : Status();
  const Step& step = ready.plan.steps[first->stopped_at];
  const Status status = invalid_argument(step.label, ": ", first->error.load());
  for (size_t lane = 0; lane < branches.lanes.size(); ++lane) {
    work.lanes[lane].error = nullptr;
    work.lanes[lane].stopped_at = -1;
  }
  return status;
}

Status Engine::run_step(ReadyPlan& ready, size_t index) {
  const Step& step = ready.plan.steps[index];
  const RunContext& context = ready.contexts[index];
  if (step.kind == StepKind::control) {
    if (!(ready.plan.first_node == static_cast<size_t>(step.node) && ready.plan.part > 0))
      HG_TRY(run_control(step, context, ready.plan.bindings));
    const std::span<const Tensor> results = controls_[step.node]->results();
    for (size_t i = 0; i < context.outputs.size(); ++i) {
      if (!(results[i].shape == context.outputs[i].shape))
        return internal_error(step.label, ": result ", int64_t(i), " has shape ", results[i].shape,
                              ", planned was ", context.outputs[i].shape);
      copy_elements(results[i], context.outputs[i]);
    }
    return {};
  }
  step.kernel->run(context);
  if (error_.load(std::memory_order_relaxed) != nullptr) [[unlikely]]
    return failure(step);
  return {};
}

Status Engine::run_control(const Step& step, const RunContext& context, const Bindings& sizes) {
  return controls_[step.node]->run(step, context.inputs, sizes, random_);
}

Status Engine::failure(const Step& step) {
  const char* const message = error_.exchange(nullptr);
  if (step.node >= 0) {
    const Node& node = graph_.nodes()[step.node];
    if (const ValueId state = changed_state(graph_, node); state != kNoValue) {
      const ValueInfo& full = graph_.value_info(state);
      return invalid_argument(
          step.label, ": ", message, ": the state '", full.name, "' is ", full.type,
          " and cannot grow; if it is full, reset it, or convert the model with "
          "more room, such as a larger max_cache_len");
    }
  }
  return invalid_argument(step.label, ": ", message);
}

Status Engine::measure(ReadyPlan& ready) {
  const Step& step = *ready.plan.measure;
  const RunContext& context = ready.contexts.back();
  if (step.kind == StepKind::control) {
    HG_TRY(run_control(step, context, ready.plan.bindings));
    const std::span<const Tensor> results = controls_[step.node]->results();
    for (size_t i = 0; i < ready.measured.size(); ++i) {
      const auto [output, dim] = ready.shown_at[i];
      ready.measured[i] = results[output].shape[dim];
    }
    return {};
  }
  std::fill(ready.measured.begin(), ready.measured.end(), 0);
  step.kernel->measure(context, ready.measured);
  if (error_.load(std::memory_order_relaxed) != nullptr) return failure(step);
  for (const int64_t size : ready.measured)
    HG_CHECK(size >= 0, step.label, ": a size that data decides is ", size);
  for (size_t i = 0; i < ready.measured.size(); ++i)
    ++(*ready.ways)[3 * i + static_cast<size_t>(std::min<int64_t>(ready.measured[i], 2))];
  return {};
}

// -- The end of a run -----------------------------------------------------------------------------

// Before states are assigned: outputs that do not fit the host's memory fail the run.
Status Engine::take_outputs() {
  const Plan& last = parts_.back()->plan;
  for (size_t i = 0; i < outputs_.tensors().size(); ++i) {
    const ValueId id = graph_.outputs()[i].second;
    const PlacedTensor* const here = last.find(id, Side::host);
    const bool is_input = here != nullptr && here->place.kind == Place::Kind::input;
    if (outputs_.tensors()[i].data == nullptr && !is_input) continue;
    HG_TRY_ASSIGN(const Tensor made, computed(id));
    HG_TRY(outputs_.take(i, made));
  }
  return {};
}

void Engine::assign_states() {
  if (device_ != nullptr) return;  // the plan's last steps did this
  const Plan& last = parts_.back()->plan;
  for (const auto& [target, source] : graph_.assignments()) {
    const PlacedTensor& from = *last.find(source, Side::host);
    Tensor tensor = from.tensor;
    tensor.data = address_of(from.place);
    states_.assign(graph_.value_info(target).state, tensor);
  }
}

}  // namespace hg
