// SPDX-License-Identifier: Apache-2.0
// Results of the last run, and memory statistics of an engine.
#include <algorithm>
#include <utility>

#include "lib/graph/readable.h"
#include "lib/graph/rewrite.h"
#include "lib/run/engine.h"

namespace hg {
namespace {

// "planned for n from 33 to 64", for each symbol that has a range; empty if none has.
std::string ranges_of(const ReadyPlan& ready) {
  std::string out;
  for (size_t i = 0; i < ready.ranges.size(); ++i)
    if (const SizeInterval& range = ready.ranges[i]; range.lowest < range.highest)
      out += str_cat(out.empty() ? "planned for " : ", ", ready.plan.bindings.all()[i].first,
                     " from ", range.lowest, " to ", range.highest);
  return out.empty() ? out : out + "\n";
}

[[gnu::cold, gnu::noinline]] Status not_kept(const ValueInfo& info) {
  return not_found("'", info.name, "' is not kept; only the copy packed by its kernel is");
}

}  // namespace

const Bindings& Engine::bindings() const { return parts_.front()->plan.bindings; }

Result<Tensor> Engine::output(int index) const {
  HG_CHECK(has_run_, "there are no outputs yet; call run() first");
  const auto at = static_cast<size_t>(index);
  HG_TRY_ASSIGN(const Tensor made, computed(graph_.outputs()[at].second));
  return outputs_.filled(at, made);
}

Result<std::vector<TensorData>> Engine::copies_of_outputs() const {
  std::vector<TensorData> copies;
  for (size_t i = 0; i < graph_.outputs().size(); ++i) {
    HG_TRY_ASSIGN(const Tensor tensor, output(static_cast<int>(i)));
    HG_TRY_ASSIGN(TensorData data, TensorData::copy_of(tensor));
    copies.push_back(std::move(data));
  }
  return copies;
}

Result<Tensor> Engine::value(ValueId id) const {
  const ValueInfo& info = graph_.value_info(id);
  if (info.state >= 0) {
    const auto state = static_cast<size_t>(info.state);
    states_.may_be_written(state);
    if (device_ != nullptr && states_.changes(state)) HG_TRY(device_->fetch_state(state));
    const Tensor& tensor = graph_.states()[state].data.tensor;
    compute_now(graph_, graph_.states()[state].data);
    if (states_.data(state) == nullptr && tensor.count() > 0) return not_kept(info);
    return view(states_.data(state), tensor.dtype, tensor.shape);
  }
  HG_CHECK(has_run_, "'", info.name, "' has no value yet; call run() first");
  return computed(id);
}

Status Engine::set_state(size_t index, const ConstTensor& tensor) {
  const State& state = graph_.states()[index];
  const Tensor& own = state.data.tensor;
  HG_CHECK(states_.changes(index), "'", state.name, "' cannot be set: no run changes it");
  HG_CHECK(tensor.dtype == own.dtype && tensor.shape == own.shape, "'", state.name, "' is ",
           own.dtype, own.shape, ", not ", tensor.dtype, tensor.shape);
  HG_CHECK(is_readable(tensor), "'", state.name, "' is given ", unreadable_part(tensor));
  copy_elements(tensor, view(states_.data(index), own.dtype, own.shape));
  states_.may_be_written(index);
  return device_ != nullptr ? device_->store_state(index) : Status();
}

// The value computed by the last run; for a state that the run assigned, the old contents.
Result<Tensor> Engine::computed(ValueId id) const {
  const Plan& plan = parts_.back()->plan;
  if (const PlacedTensor* const here = plan.find(id, Side::host)) {
    Tensor tensor = here->tensor;
    tensor.data = address_of(here->place);
    if (tensor.data == nullptr && here->place.kind == Place::Kind::state)
      return not_kept(graph_.value_info(id));
    return tensor;
  }
  const PlacedTensor* const there = plan.find(id, Side::device);
  if (there == nullptr)
    return not_found("'", graph_.value_info(id).name, "' is not computed by this session");
  TensorData& fetched = fetched_[id];
  if (fetched.empty()) {
    HG_TRY_ASSIGN(fetched, device_->fetch(*there));
  }
  return fetched.tensor;
}

Result<DeviceTensor> Engine::device_output(int index) const {
  const auto& [name, id] = graph_.outputs()[index];
  HG_CHECK(has_run_, "there are no outputs yet; call run() first");
  HG_CHECK(device_ != nullptr, "output '", name,
           "' is not on a device: the session runs on the CPU");
  const PlacedTensor* const there = parts_.back()->plan.find(id, Side::device);
  HG_CHECK(there != nullptr && there->tensor.is_contiguous(), "output '", name,
           "' is not a contiguous tensor on the device; set SessionOptions::device_outputs");
  HG_TRY_ASSIGN(const DeviceSpan span, device_->span_of(*there));
  return DeviceTensor{there->tensor.dtype, there->tensor.shape, span.memory, span.offset};
}

Status Engine::save_packed() const {
  if (options_.packed.empty())
    return invalid_argument("save_packed() needs a path in the option packed");
  std::vector<PackedEntry> entries;
  if (!compiled_->list_packs(entries)) return {};
  return PackedFile::write(options_.packed, std::move(entries));
}

std::vector<std::byte> Engine::tuning() const {
  const std::lock_guard<std::mutex> locked(compiled_->lock);
  return compiled_->tuning.blob();
}

Memory Engine::memory() const {
  Memory memory;
  for (const ReadyPlan* ready : parts_) {
    memory.arena_bytes += ready->plan.arena_bytes;
    memory.arena_lower_bound += ready->plan.arena_lower_bound;
    memory.extra_flops += ready->plan.extra_flops;
  }
  // Weights that passes replaced stay in the mapped file.
  const std::vector<int> uses = use_counts(graph_);
  for (size_t i = 0; i < graph_.states().size(); ++i) {
    const State& state = graph_.states()[i];
    const bool is_used = uses[state.value] > 0 && !state.data.empty();
    if (is_used || states_.changes(i)) memory.weights_bytes += state.data.tensor.bytes();
  }
  memory.packed_bytes = compiled_->packs.bytes();
  memory.mapped_bytes = compiled_->packs.mapped_bytes();
  if (device_ != nullptr) memory.device_bytes = device_->bytes();
  memory.peak_bytes = memory.arena_bytes + memory.weights_bytes + memory.packed_bytes;
  for (const auto& control : controls_) {
    if (control == nullptr) continue;
    for (const auto& body : control->bodies()) memory.peak_bytes += body->memory().peak_bytes;
  }
  return memory;
}

std::vector<ArenaBlock> Engine::arena_blocks() const {
  std::vector<ArenaBlock> blocks;
  int64_t base = 0;
  int step = 0;
  for (const ReadyPlan* ready : parts_) {
    for (const Block& block : ready->plan.blocks)
      blocks.push_back({block.name, base + block.offset, block.lifetime.bytes,
                        step + block.lifetime.first, step + block.lifetime.last});
    base += ready->plan.arena_bytes;
    step += static_cast<int>(ready->plan.steps.size());
  }
  return blocks;
}

double Engine::flops() const {
  double total = 0;
  for (const ReadyPlan* ready : parts_)
    for (const Step& step : ready->plan.steps) total += step.flops;
  for (const auto& control : controls_)
    for (size_t i = 0; control != nullptr && i < control->bodies().size(); ++i)
      if (control->runs()[i] > 0)
        total += static_cast<double>(control->runs()[i]) * control->bodies()[i]->flops();
  return total;
}

std::vector<ProfileRow> Engine::profile() const {
  std::vector<ProfileRow> rows;
  for (const ReadyPlan* ready : parts_)
    for (size_t i = 0; i < ready->plan.steps.size(); ++i) {
      const Step& step = ready->plan.steps[i];
      ProfileRow row;
      if (step.node >= 0) {
        const Node& node = graph_.nodes()[step.node];
        row.node = graph_.value_info(node.outputs[0]).name;
        row.op = node.op->name();
        row.module = node.origin.module;
      } else {
        row.node = step.label;
        row.op = step.is_transfer() ? step.label.substr(0, step.label.find(' ')) : "contiguous";
      }
      if (step.kernel != nullptr) row.kernel = step.kernel->name;
      row.ms = i < ready->ms.size() ? ready->ms[i] : 0;
      row.flops = step.flops;
      row.bytes = step.bytes;
      rows.push_back(std::move(row));
    }
  return rows;
}

std::vector<WaysRow> Engine::ways() const {
  std::vector<WaysRow> rows;
  for (size_t i = 0; i < graph_.nodes().size(); ++i) {
    const Node& node = graph_.nodes()[i];
    const auto sizes = size_ways_.find(static_cast<int32_t>(i));
    if (node.outputs.empty() || (node.subgraphs.empty() && sizes == size_ways_.end())) continue;
    WaysRow row{
        graph_.value_info(node.outputs[0]).name, std::string(node.op->name()), node.origin, {}};
    if (node.subgraphs.empty()) {
      row.taken = sizes->second;
      rows.push_back(std::move(row));
      continue;
    }
    const Control* const control = i < controls_.size() ? controls_[i].get() : nullptr;
    const auto ways = node.op->def.traits & kLoop ? 3 : 2;
    row.taken.resize(ways, 0);
    if (control != nullptr) std::copy_n(control->taken().begin(), ways, row.taken.begin());
    rows.push_back(row);
    if (control == nullptr) continue;
    for (size_t side = 0; side < control->bodies().size(); ++side)
      for (WaysRow& inner : control->bodies()[side]->ways()) {
        inner.node = str_cat(row.node, "/", static_cast<int64_t>(side), "/", inner.node);
        rows.push_back(std::move(inner));
      }
  }
  return rows;
}

bool Engine::uses(std::string_view kernel) const {
  for (const ReadyPlan* ready : parts_)
    for (const Step& step : ready->plan.steps)
      if (!step.is_transfer() && step.on_device() && step.kernel != nullptr &&
          str_cat(step.kernel->op, "=", step.kernel->name) == kernel)
        return true;
  return false;
}

std::string Engine::report() const {
  std::string out;
  if (device_ != nullptr) {
    const DeviceInfo& info = options_.gpu.info();
    out +=
        str_cat("device vulkan: ", info.name, " (", to_string(info.type), ", ", info.driver, ")\n");
    for (const std::string& kernel : verdicts_.wrong)
      out += str_cat(kernel, " fails its self-test on this device and is not used\n");
    for (const auto& [kernel, dtypes] : verdicts_.untested)
      if (uses(kernel))
        out +=
            str_cat(kernel, " is untested: it accepts no case of the self-test for ", dtypes, "\n");
    for (const ReadyPlan* ready : parts_)
      for (const std::string& remark : ready->plan.remarks) out += str_cat(remark, "\n");
  }
  out += str_cat("device cpu, ", parallel_.threads, " threads\n");
  if (is_planned()) {
    const Memory m = memory();
    out += str_cat("peak ", m.peak_bytes, " bytes: ", m.arena_bytes, " of arena, ", m.weights_bytes,
                   " of weights, ", m.packed_bytes, " packed\n");
    if (device_ != nullptr) out += str_cat(m.device_bytes, " bytes on the device\n");
    if (m.extra_flops > 0)
      out +=
          str_cat(m.extra_flops, " of ", flops(), " FLOPs compute values again to save memory\n");
    for (const ReadyPlan* ready : parts_) out += ranges_of(*ready);
  }
  const std::vector<ProfileRow> rows = profile();
  size_t row = 0;
  for (const ReadyPlan* ready : parts_)
    for (const Step& step : ready->plan.steps) {
      const ProfileRow& r = rows[row++];
      if (step.is_transfer())
        out += str_cat(step.label, "\n");
      else
        out += str_cat(r.node, ": ", r.op, " by ", r.kernel.empty() ? "subgraphs" : r.kernel,
                       step.on_device() ? " on vulkan\n" : "\n");
    }
  row = 0;
  for (const ReadyPlan* ready : parts_) {
    const size_t first = std::exchange(row, row + ready->plan.steps.size());
    for (const Branches& branches : ready->plan.branches) {
      out += "side by side:";
      for (const std::vector<int32_t>& lane : branches.lanes) {
        out += lane == branches.lanes.front() ? " " : " | ";
        for (const int32_t step : lane)
          out += str_cat(step == lane.front() ? "" : ", ", rows[first + step].node);
      }
      out += "\n";
    }
  }
  return out;
}

}  // namespace hg
