// SPDX-License-Identifier: Apache-2.0
// Outputs in the host's memory: written there by the kernels where that is safe, else copied.
#include <algorithm>
#include <cstdint>

#include "lib/run/extent.h"
#include "lib/run/ready.h"

namespace hg {

Status Program::set_output(int index, const Tensor& tensor) {
  const auto at = static_cast<size_t>(index);
  const auto& [name, id] = graph_.outputs()[at];
  const TensorType& type = graph_.value_info(id).type;
  if (tensor.data != nullptr) {
    HG_CHECK(tensor.dtype == type.dtype, "output '", name, "' is ", type, ", not a tensor of ",
             tensor.dtype);
    HG_CHECK(!data_decides_[at] || tensor.is_contiguous(), "output '", name, "' is ", type,
             ", of a size that data decides; its memory must be contiguous, the strides are ",
             tensor.strides);
    HG_CHECK(data_decides_[at] || tensor.rank() == type.rank(), "output '", name, "' is ", type,
             ", not of shape ", tensor.shape);
    for (int d = 0; !data_decides_[at] && d < tensor.rank(); ++d) {
      const Dim& dim = type.shape[static_cast<size_t>(d)];
      HG_CHECK(!dim.is_constant() || dim.constant() == tensor.shape[d], "output '", name, "' is ",
               type, ", not of shape ", tensor.shape, ": dimension ", d, " is ", tensor.shape[d],
               ", not ", dim);
      HG_CHECK(tensor.strides[d] != 0 || tensor.shape[d] <= 1 || tensor.count() == 0, "output '",
               name, "' is given memory whose elements are not apart: the strides are ",
               tensor.strides);
    }
  }
  bound_[at] = tensor;
  any_bound_ = std::any_of(bound_.begin(), bound_.end(),
                           [](const Tensor& bound) { return bound.data != nullptr; });
  return {};
}

void Program::forget_tensors() {
  std::fill(inputs_.begin(), inputs_.end(), Tensor());
  std::fill(input_data_.begin(), input_data_.end(), nullptr);
  std::fill(bound_.begin(), bound_.end(), Tensor());
  any_bound_ = has_run_ = false;
  sizes_changed_ = true;
  if (device_ != nullptr)
    for (size_t i = 0; i < inputs_.size(); ++i) device_->set_input(i, {});
}

// Before anything runs: shapes that are known by then, and that no two outputs share memory.
Status Program::check_bound_outputs(const Ready& first) const {
  for (size_t i = 0; i < bound_.size(); ++i) {
    if (bound_[i].data == nullptr) continue;
    const std::string& name = graph_.outputs()[i].first;
    const std::optional<Sizes>& shape = first.output_shapes[i];
    HG_CHECK(data_decides_[i] || !shape || *shape == bound_[i].shape, "output '", name, "' is ",
             *shape, " for these inputs; it was given memory of ", bound_[i].shape);
    for (size_t k = 0; k < i; ++k)
      HG_CHECK(bound_[k].data == nullptr || !extent_of(bound_[k]).overlaps(extent_of(bound_[i])),
               "the outputs '", graph_.outputs()[k].first, "' and '", name,
               "' are given memory that overlaps");
  }
  return {};
}

// The host's tensor as this output fills it: of what data decides, its first elements.
Tensor Program::fitted(size_t output, const Tensor& made) const {
  if (!data_decides_[output]) return bound_[output];
  return view(bound_[output].data, made.dtype, made.shape);
}

// By output: the block of this part that has its value and no other byte, so that the whole block
// may lie at the host's: what is in it before the value is there may as well lie there.
void Program::find_whole_blocks(Ready& ready) const {
  const Plan& plan = ready.plan;
  for (const auto& [name, id] : graph_.outputs()) {
    ready.whole_blocks.push_back(-1);
    const PlacedTensor* const made = plan.find(id, Side::host);
    if (made == nullptr || made->place.kind != Place::Kind::arena || made->place.block < 0 ||
        made->place.index != plan.part || !made->tensor.is_contiguous())
      continue;
    const Block& block = plan.blocks[static_cast<size_t>(made->place.block)];
    if (made->place.offset == block.offset && block.lifetime.bytes == made->tensor.bytes())
      ready.whole_blocks.back() = made->place.block;
  }
}

// Where the kernels may write this output to, or null.
std::byte* Program::home_of_output(const Ready& ready, size_t output) const {
  const Tensor& bound = bound_[output];
  const Block& block = ready.plan.blocks[static_cast<size_t>(ready.whole_blocks[output])];
  if (bound.data == nullptr || !bound.is_contiguous() || bound.bytes() < block.lifetime.bytes ||
      reinterpret_cast<std::uintptr_t>(bound.data) % 64 != 0)
    return nullptr;
  const Extent extent = extent_of(bound);
  for (const Tensor& input : inputs_)
    if (extent.overlaps(extent_of(input))) return nullptr;
  return static_cast<std::byte*>(bound.data) - block.offset;
}

void Program::place_bound_outputs(Ready& ready) {
  if (!any_bound_ && !ready.has_homes) return;
  ready.has_homes = any_bound_;
  const std::vector<int32_t>& blocks = ready.whole_blocks;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i] < 0 || std::find(blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(i),
                                   blocks[i]) < blocks.begin() + static_cast<std::ptrdiff_t>(i))
      continue;
    std::byte* home = nullptr;  // of the first output that has one: one value may be several
    for (size_t k = i; k < blocks.size() && home == nullptr; ++k)
      if (blocks[k] == blocks[i]) home = home_of_output(ready, k);
    std::byte*& now = ready.homes[static_cast<size_t>(blocks[i])];
    if (now != home) ++generation_;
    now = home;
  }
}

// Before states are assigned: of what data decides, whether there is room.
Status Program::check_made_outputs() const {
  for (size_t i = 0; i < bound_.size(); ++i) {
    if (bound_[i].data == nullptr) continue;
    const auto& [name, id] = graph_.outputs()[i];
    HG_TRY_ASSIGN(const Tensor made, computed(id));
    if (data_decides_[i])
      HG_CHECK(bound_[i].count() >= made.count(), "output '", name, "' is ", made.shape,
               "; it was given memory of ", bound_[i].count(), " elements");
    else
      HG_CHECK(bound_[i].shape == made.shape, "output '", name, "' is ", made.shape,
               "; it was given memory of ", bound_[i].shape);
  }
  return {};
}

// What no kernel wrote to its place. A value that lies where another output will be copied to, as a
// part of an input may, is put aside first.
Status Program::copy_bound_outputs() {
  const auto made = [&](size_t i) { return *computed(graph_.outputs()[i].second); };
  const auto is_copied = [&](size_t i) {
    const Tensor from = made(i), to = fitted(i, from);
    return !(from.data == to.data && from.is_contiguous() && to.is_contiguous());
  };
  for (size_t i = 0; i < bound_.size(); ++i) {
    is_staged_[i] = false;
    if (bound_[i].data == nullptr || !is_copied(i)) continue;
    const Tensor from = made(i);
    for (size_t k = 0; k < bound_.size() && !is_staged_[i]; ++k)
      is_staged_[i] = bound_[k].data != nullptr && is_copied(k) &&
                      extent_of(bound_[k]).overlaps(extent_of(from));
    if (!is_staged_[i]) continue;
    if (staging_[i].bytes() < from.bytes() &&
        !staging_[i].allocate(options_.allocator, from.bytes()))
      return out_of_memory("no memory for the ", from.bytes(), " bytes of output '",
                           graph_.outputs()[i].first, "'");
    copy_elements(from, view(staging_[i].data(), from.dtype, from.shape));
  }
  // An output that is copied changes nothing of those that are not: none of the host's tensors
  // overlap, and what lies in one of them is either there already or put aside.
  for (size_t i = 0; i < bound_.size(); ++i) {
    if (bound_[i].data == nullptr) continue;
    const Tensor from = made(i), to = fitted(i, from);
    if (is_staged_[i]) {
      copy_elements(view(staging_[i].data(), from.dtype, from.shape), to);
    } else if (is_copied(i)) {
      copy_elements(from, to);
    }
  }
  return {};
}

}  // namespace hg
