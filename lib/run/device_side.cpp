// SPDX-License-Identifier: Apache-2.0
#include "lib/run/device_side.h"

#include <algorithm>

namespace hg {
namespace {

constexpr int64_t kFirstChunk = int64_t{1} << 18, kLargestChunk = int64_t{1} << 26;

}  // namespace

// -- Constants ------------------------------------------------------------------------------------

Result<DeviceSpan> DeviceConstants::copy_of(const void* data, int64_t bytes) {
  // A tensor without elements may have any address.
  const auto found = known_.find(data);
  if (found != known_.end() && found->second.bytes >= bytes) return found->second;
  const int64_t alignment = std::max<int64_t>(kAlignment, backend_->info().binding_alignment);
  const int64_t needed = (std::max<int64_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  if (chunk_ == nullptr || chunk_->bytes() - used_ < needed) {
    const int64_t next = std::clamp(2 * bytes_, kFirstChunk, kLargestChunk);
    HG_TRY_ASSIGN(chunk_, allocate_on(*backend_, std::max(needed, next)));
    used_ = 0;
    bytes_ += chunk_->bytes();
  }
  const DeviceSpan span{chunk_, used_, bytes, 0};
  HG_TRY(backend_->upload(span, data));
  used_ += needed;
  known_[data] = span;
  return span;
}

void DeviceConstants::forget() {
  known_.clear();
  chunk_ = nullptr;
  used_ = bytes_ = 0;
}

// -- Memory ---------------------------------------------------------------------------------------

Status DeviceSide::reserve(const Plan& plan) {
  const auto enlarge = [&](std::shared_ptr<DeviceMemory>& memory, int64_t bytes) -> Status {
    if (memory != nullptr && memory->bytes() >= bytes) return {};
    memory = nullptr;
    ++generation_;
    HG_TRY_ASSIGN(memory, allocate_on(*backend_, bytes));
    return {};
  };
  const auto part = static_cast<size_t>(plan.part);
  if (arenas_.size() <= part) arenas_.resize(part + 1);
  const auto tell = [&](auto* told) {
    if (told != nullptr && arenas_[part] != nullptr)
      told(observer_.host, nullptr, static_cast<size_t>(arenas_[part]->bytes()));
  };
  const int64_t bytes = std::max<int64_t>(plan.device_arena_bytes, 1);
  if (arenas_[part] == nullptr || arenas_[part]->bytes() < bytes) {
    tell(observer_.freed);
    HG_TRY(enlarge(arenas_[part], bytes));
    tell(observer_.allocated);
  }
  for (const Step& step : plan.steps) {
    if (step.kind != StepKind::upload || step.outputs[0].place.kind != Place::Kind::input) continue;
    const auto index = static_cast<size_t>(step.outputs[0].place.index);
    HG_TRY(enlarge(inputs_[index], std::max<int64_t>(step.outputs[0].tensor.bytes(), 1)));
  }
  return {};
}

void DeviceSide::release_arenas() {
  for (const auto& arena : arenas_)
    if (arena != nullptr && observer_.freed != nullptr)
      observer_.freed(observer_.host, nullptr, static_cast<size_t>(arena->bytes()));
  arenas_.clear();
  ++generation_;
}

void DeviceSide::set_input(size_t index, const DeviceTensor& tensor) {
  if (given_[index].memory != tensor.memory || given_[index].offset != tensor.offset) ++generation_;
  given_[index] = tensor;
}

Result<DeviceSpan> DeviceSide::span_of(const PlacedTensor& value) {
  const Tensor& tensor = value.tensor;
  const Place& place = value.place;
  const auto index = static_cast<size_t>(place.index);
  const int64_t size = size_of(tensor.dtype);
  DeviceSpan span;
  int64_t above = 1;
  for (int d = 0; d < tensor.rank(); ++d) {
    const int64_t reach = (tensor.shape[d] - 1) * tensor.strides[d];
    (reach < 0 ? span.before : above) += reach < 0 ? -reach : reach;
  }
  if (tensor.count() == 0) span.before = above = 0;
  span.before *= size;
  const int64_t bytes = above * size;
  switch (place.kind) {
    case Place::Kind::none:
      return DeviceSpan();
    case Place::Kind::arena:
      span.memory = arenas_[index];
      break;
    case Place::Kind::input:
      span.memory = is_given(index) ? given_[index].memory : inputs_[index];
      span.offset = is_given(index) ? given_[index].offset : 0;
      break;
    case Place::Kind::state:
    case Place::Kind::fixed: {
      const bool is_state = place.kind == Place::Kind::state;
      const void* const data = is_state ? states_[index].data : place.address;
      const int64_t whole = is_state ? states_[index].bytes() : bytes;
      HG_TRY_ASSIGN(const DeviceSpan copy, constants_.copy_of(data, whole));
      span.memory = copy.memory;
      span.offset = copy.offset;
      break;
    }
  }
  span.offset += place.offset;
  span.bytes = bytes;
  return span;
}

void DeviceSide::set_states(std::vector<Tensor> states) {
  states_ = std::move(states);
  constants_.forget();
  ++generation_;
}

int64_t DeviceSide::bytes() const {
  int64_t sum = constants_.bytes();
  for (const auto& memory : inputs_) sum += memory != nullptr ? memory->bytes() : 0;
  for (const auto& memory : arenas_) sum += memory != nullptr ? memory->bytes() : 0;
  return sum;
}

// -- Recording ------------------------------------------------------------------------------------

Result<std::vector<DeviceSegment>> DeviceSide::record(const Plan& plan, bool each) {
  std::vector<DeviceSegment> segments;
  for (size_t begin = 0; begin < plan.steps.size();) {
    if (!plan.steps[begin].on_device()) {
      ++begin;
      continue;
    }
    DeviceSegment segment;
    segment.begin = segment.end = begin;
    std::vector<DeviceWork> work;
    for (; segment.end < plan.steps.size() && plan.steps[segment.end].on_device() &&
           !(each && segment.end > begin);
         ++segment.end) {
      const Step& step = plan.steps[segment.end];
      DeviceWork item;
      item.label = step.label;
      if (step.kind == StepKind::upload || step.kind == StepKind::download) {
        const bool up = step.kind == StepKind::upload;
        const PlacedTensor& there = up ? step.outputs[0] : step.inputs[0];
        // An input that is already on the device needs no upload.
        if (up && there.place.kind == Place::Kind::input &&
            is_given(static_cast<size_t>(there.place.index)))
          continue;
        item.kind = up ? DeviceWork::Kind::upload : DeviceWork::Kind::download;
        HG_TRY_ASSIGN(DeviceSpan span, span_of(there));
        (up ? item.outputs : item.inputs).push_back(std::move(span));
        segment.transfers.push_back(&(up ? step.inputs[0] : step.outputs[0]).place);
      } else {
        item.kind = step.kind == StepKind::copy ? DeviceWork::Kind::copy : DeviceWork::Kind::kernel;
        item.kernel = step.kernel;
        item.state = step.state.get();
        for (const PlacedTensor& in : step.inputs) {
          HG_TRY_ASSIGN(DeviceSpan span, span_of(in));
          item.inputs.push_back(std::move(span));
        }
        for (const PlacedTensor& out : step.outputs) {
          HG_TRY_ASSIGN(DeviceSpan span, span_of(out));
          item.outputs.push_back(std::move(span));
        }
        if (step.workspace.kind == Place::Kind::arena)
          item.workspace = {arenas_[step.workspace.index], step.workspace.offset, 0, 0};
      }
      work.push_back(std::move(item));
    }
    segment.host.resize(segment.transfers.size());
    HG_TRY_ASSIGN(segment.recording, record_on(*backend_, work, constants_));
    begin = segment.end;
    segments.push_back(std::move(segment));
  }
  return segments;
}

// -- Reading back ---------------------------------------------------------------------------------

Status DeviceSide::fetch_input(size_t index, int64_t bytes, void* to) {
  return backend_->download(to, {given_[index].memory, given_[index].offset, bytes, 0});
}

Status DeviceSide::fetch_state(size_t index) {
  const Tensor& state = states_[index];
  HG_TRY_ASSIGN(const DeviceSpan span, constants_.copy_of(state.data, state.bytes()));
  return backend_->download(state.data, {span.memory, span.offset, span.bytes, 0});
}

Status DeviceSide::store_state(size_t index) {
  const Tensor& state = states_[index];
  HG_TRY_ASSIGN(const DeviceSpan span, constants_.copy_of(state.data, state.bytes()));
  return backend_->upload({span.memory, span.offset, span.bytes, 0}, state.data);
}

Result<TensorData> DeviceSide::fetch(const PlacedTensor& value) {
  HG_TRY_ASSIGN(const DeviceSpan span, span_of(value));
  // Transfers the bytes from the lowest to the highest element, and views them with the value's
  // strides.
  const int64_t size = size_of(value.tensor.dtype);
  const int64_t reach = (span.before + span.bytes) / size;
  HG_TRY_ASSIGN(const TensorData raw, TensorData::allocate(value.tensor.dtype, {reach}));
  HG_TRY(backend_->download(raw.tensor.data,
                            {span.memory, span.offset - span.before, span.before + span.bytes, 0}));
  Tensor strided = value.tensor;
  strided.data = raw.tensor.as<std::byte>() + span.before;
  return TensorData::copy_of(strided);
}

}  // namespace hg
