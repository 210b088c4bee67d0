// SPDX-License-Identifier: Apache-2.0
#include "lib/run/bound_outputs.h"

#include <algorithm>
#include <cstdint>

#include "lib/graph/access.h"
#include "lib/graph/readable.h"
#include "lib/run/extent.h"

namespace hg {

void find_blocks_of_outputs(const Graph& graph, const Plan& plan, std::vector<int32_t>& blocks) {
  blocks.clear();
  for (const auto& [name, id] : graph.outputs()) {
    blocks.push_back(-1);
    const PlacedTensor* const made = plan.find(id, Side::host);
    if (made == nullptr || made->place.kind != Place::Kind::arena || made->place.block < 0 ||
        made->place.index != plan.part || !made->tensor.is_contiguous())
      continue;
    const Block& block = plan.blocks[made->place.block];
    if (made->place.offset == block.offset && block.lifetime.bytes == made->tensor.bytes())
      blocks.back() = made->place.block;
  }
}

BoundOutputs::BoundOutputs(const Graph& graph, const Allocator& allocator)
    : graph_(&graph),
      allocator_(allocator),
      bound_(graph.outputs().size()),
      made_(bound_.size()),
      is_aside_(bound_.size()),
      aside_(bound_.size()) {
  std::vector<std::string> known = graph.symbols();
  const size_t given = known.size();
  for (const auto& [name, id] : graph.outputs()) {
    for (const Dim& dim : graph.value_info(id).type.shape) dim.collect_symbols(known);
    data_decides_.push_back(known.size() > given);
    known.resize(given);
  }
}

Status BoundOutputs::set(size_t index, const Tensor& tensor) {
  const auto& [name, id] = graph_->outputs()[index];
  const TensorType& type = graph_->value_info(id).type;
  if (tensor.data != nullptr) {
    HG_CHECK(is_readable(tensor), "output '", name, "' is given ", unreadable_part(tensor));
    HG_CHECK(tensor.dtype == type.dtype, "output '", name, "' is ", type, ", not a tensor of ",
             tensor.dtype);
    HG_CHECK(!data_decides_[index] || tensor.is_contiguous(), "output '", name, "' is ", type,
             ", of a size that data decides; its memory must be contiguous, the strides are ",
             tensor.strides);
    HG_CHECK(data_decides_[index] || tensor.rank() == type.rank(), "output '", name, "' is ", type,
             ", not of shape ", tensor.shape);
    for (int d = 0; !data_decides_[index] && d < tensor.rank(); ++d) {
      const Dim& dim = type.shape[d];
      HG_CHECK(!dim.is_constant() || dim.constant() == tensor.shape[d], "output '", name, "' is ",
               type, ", not of shape ", tensor.shape, ": dimension ", d, " is ", tensor.shape[d],
               ", not ", dim);
      HG_CHECK(tensor.strides[d] != 0 || tensor.shape[d] <= 1 || tensor.count() == 0, "output '",
               name, "' is bound to memory whose elements overlap: the strides are ",
               tensor.strides);
    }
  }
  bound_[index] = tensor;
  any_ = std::any_of(bound_.begin(), bound_.end(),
                     [](const Tensor& bound) { return bound.data != nullptr; });
  return {};
}

void BoundOutputs::forget() {
  std::fill(bound_.begin(), bound_.end(), Tensor());
  any_ = false;
}

Status BoundOutputs::check(std::span<const std::optional<Sizes>> shapes) const {
  for (size_t i = 0; i < bound_.size(); ++i) {
    if (!is_bound(i)) continue;
    const std::string& name = graph_->outputs()[i].first;
    HG_CHECK(data_decides_[i] || !shapes[i] || *shapes[i] == bound_[i].shape, "output '", name,
             "' is ", *shapes[i], " for these inputs; it was given memory of ", bound_[i].shape);
    for (size_t k = 0; k < i; ++k)
      HG_CHECK(!is_bound(k) || !extent_of(bound_[k]).overlaps(extent_of(bound_[i])),
               "the outputs '", graph_->outputs()[k].first, "' and '", name,
               "' are given memory that overlaps");
  }
  return {};
}

// The address to which kernels may write this output, or null.
std::byte* BoundOutputs::home_of(size_t index, const Block& block,
                                 std::span<const Tensor> inputs) const {
  const Tensor& bound = bound_[index];
  if (bound.data == nullptr || !bound.is_contiguous() || bound.bytes() < block.lifetime.bytes ||
      reinterpret_cast<std::uintptr_t>(bound.data) % 64 != 0)
    return nullptr;
  const Extent extent = extent_of(bound);
  for (const Tensor& input : inputs)
    if (extent.overlaps(extent_of(input))) return nullptr;
  return static_cast<std::byte*>(bound.data) - block.offset;
}

bool BoundOutputs::place(const Plan& plan, std::span<const int32_t> blocks,
                         std::span<const Tensor> inputs, std::span<std::byte*> homes) const {
  bool moved = false;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto before = blocks.first(i);
    if (blocks[i] < 0 || std::find(before.begin(), before.end(), blocks[i]) != before.end())
      continue;
    const Block& block = plan.blocks[blocks[i]];
    std::byte* home = nullptr;  // of the first output that has one; outputs may share a value
    for (size_t k = i; k < blocks.size() && home == nullptr; ++k)
      if (blocks[k] == blocks[i]) home = home_of(k, block, inputs);
    std::byte*& now = homes[blocks[i]];
    moved |= now != home;
    now = home;
  }
  return moved;
}

Status BoundOutputs::take(size_t index, const Tensor& made) {
  const std::string& name = graph_->outputs()[index].first;
  if (!is_bound(index)) {
    made_[index] = made;
    return {};
  }
  if (data_decides_[index])
    HG_CHECK(bound_[index].count() >= made.count(), "output '", name, "' is ", made.shape,
             "; it was given memory of ", bound_[index].count(), " elements");
  else
    HG_CHECK(bound_[index].shape == made.shape, "output '", name, "' is ", made.shape,
             "; it was given memory of ", bound_[index].shape);
  made_[index] = made;
  return {};
}

void BoundOutputs::begin() {
  std::fill(made_.begin(), made_.end(), Tensor());
  std::fill(is_aside_.begin(), is_aside_.end(), false);
}

Tensor BoundOutputs::filled(size_t index, const Tensor& made) const {
  if (!is_bound(index))
    return is_aside_[index] ? view(aside_[index].data(), made.dtype, made.shape) : made;
  if (!data_decides_[index]) return bound_[index];
  return view(bound_[index].data, made.dtype, made.shape);
}

bool BoundOutputs::is_copied(size_t index) const {
  const Tensor& from = made_[index];
  const Tensor to = filled(index, from);
  return !(from.data == to.data && from.is_contiguous() && to.is_contiguous());
}

// Saves a value that is stored where another output will be copied to, such as a part of an input.
Status BoundOutputs::put_aside(size_t index) {
  const Tensor& from = made_[index];
  for (size_t k = 0; k < bound_.size() && !is_aside_[index]; ++k)
    is_aside_[index] =
        is_bound(k) && is_copied(k) && extent_of(bound_[k]).overlaps(extent_of(from));
  if (!is_aside_[index]) return {};
  if (aside_[index].bytes() < from.bytes() && !aside_[index].allocate(allocator_, from.bytes()))
    return out_of_memory("no memory for the ", from.bytes(), " bytes of output '",
                         graph_->outputs()[index].first, "'");
  copy_elements(from, view(aside_[index].data(), from.dtype, from.shape));
  return {};
}

Status BoundOutputs::copy() {
  for (size_t i = 0; i < bound_.size(); ++i)
    if (is_bound(i) ? is_copied(i) : made_[i].data != nullptr) HG_TRY(put_aside(i));
  // Copying an output changes no other output: the host's tensors do not overlap, and a value
  // inside one of them is already in place or saved elsewhere.
  for (size_t i = 0; i < bound_.size(); ++i) {
    if (!is_bound(i)) continue;
    const Tensor& from = made_[i];
    if (is_aside_[i])
      copy_elements(view(aside_[i].data(), from.dtype, from.shape), filled(i, from));
    else if (is_copied(i))
      copy_elements(from, filled(i, from));
  }
  return {};
}

}  // namespace hg
