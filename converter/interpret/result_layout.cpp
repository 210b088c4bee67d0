// SPDX-License-Identifier: Apache-2.0
// The memory layout in torch of the results of rows; unknown layouts stay unknown.
#include <algorithm>

#include "converter/interpret/interpreter.h"

namespace hg::convert {
namespace {

constexpr int64_t kContiguous = 0, kPreserve = 1;  // c10::MemoryFormat

// Tensors with 4 or 5 dims may have channels last, which some ops keep.
bool has_channels(int rank) { return rank == 4 || rank == 5; }

// Whether inputs of cat or stack may have channels last. A stack along the last dim joins tensors
// with an additional dim; other stacks join the given tensors.
bool joins_channels(NodeCall& call, std::span<const TensorRef> tensors, Memory& memory) {
  const auto* result = std::get_if<TensorRef>(&call.results().at(0).value);
  for (const TensorRef& tensor : tensors) {
    const int rank = memory.type(tensor).rank();
    const bool stacked = result != nullptr && memory.type(*result).rank() > rank;
    if (has_channels(rank) || (stacked && has_channels(rank + 1) &&
                               (call.number("dim", 0) == rank || call.number("dim", 0) == -1)))
      return true;
  }
  return false;
}

// Returns the row's layout for these arguments.
ResultLayout layout_of_results(const Row& row, NodeCall& call, std::span<const TensorRef> tensors,
                               Memory& memory) {
  if (call.has("memory_format")) {
    const int64_t format = call.number("memory_format");
    if (format != kPreserve)
      return format == kContiguous ? ResultLayout::row_major : ResultLayout::unknown;
  }
  bool keeps = false;
  if (row.layout == ResultLayout::padded)
    keeps = call.string("mode", "constant") != "constant" ||
            has_channels(memory.type(call.ref("self")).rank());
  else if (row.layout == ResultLayout::joined)
    keeps = joins_channels(call, tensors, memory);
  else
    return row.layout;
  return keeps ? ResultLayout::kept : ResultLayout::row_major;
}

// Collects the tensors among the arguments, including those in lists.
std::vector<TensorRef> tensors_of(const NodeCall& call) {
  std::vector<const Item*> arguments;
  for (int i = 0; i < call.argument_count(); ++i) arguments.push_back(&call.argument(i));
  std::vector<TensorRef> tensors;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (const auto* list = std::get_if<std::shared_ptr<List>>(&arguments[i]->value))
      for (const Item& element : (*list)->items) arguments.push_back(&element);
    if (const auto* tensor = std::get_if<TensorRef>(&arguments[i]->value))
      if (!(*tensor)->is_poisoned()) tensors.push_back(*tensor);
  }
  return tensors;
}

class Elementwise {
 public:
  Elementwise(Memory& memory, const std::vector<TensorRef>& tensors) : memory_(memory) {
    for (const TensorRef& tensor : tensors)
      if (memory.type(tensor).rank() > 0) operands_.push_back(tensor);
  }

  void settle(const TensorRef& result) const {
    const TensorType type = memory_.type(result);
    if (type.rank() <= 1 || operands_.empty()) return memory_.set_row_major(result);
    if (auto layout = known_layout(type)) return memory_.set_layout(result, *std::move(layout));
    const TensorRef& first = operands_[0];
    if (!(memory_.type(first).shape == type.shape)) return;
    const MemoryOrder order = memory_.order(first);
    if (order == MemoryOrder::scattered)
      memory_.set_order(result, order);
    else if (order == MemoryOrder::gapped && operands_.size() == 1)
      memory_.set_row_major(result);
  }

 private:
  std::optional<Layout> known_layout(const TensorType& type) const {
    std::vector<Operand> known;
    bool casts = false;
    for (const TensorRef& tensor : operands_) {
      const TensorType own = memory_.type(tensor);
      casts = casts || own.dtype != type.dtype;
      const auto layout = memory_.layout(tensor);
      if (!layout) return std::nullopt;
      known.push_back({*layout, own.shape});
      // Without broadcasting, the first operand alone decides.
      if (known.size() == 1 && own.shape == type.shape && is_row_major(*layout, own.shape) == true)
        return row_major(type.shape);
    }
    return elementwise_layout(known, type.shape, casts);
  }

  Memory& memory_;
  std::vector<TensorRef> operands_;
};

}  // namespace

void Interpreter::settle_layout(const Row& row, NodeCall& call) {
  const std::vector<TensorRef> tensors = tensors_of(call);
  const auto each_new = [&](auto settle) {
    for (const Item& result : call.results())
      if (const auto* tensor = std::get_if<TensorRef>(&result.value);
          tensor && (*tensor)->is_root() && !(*tensor)->is_poisoned() &&
          std::find(tensors.begin(), tensors.end(), *tensor) == tensors.end())
        settle(*tensor);
  };
  const auto settle = [this](const TensorRef& tensor) {
    Layout layout = row_major(memory_.type(tensor).shape);
    layout.ones_known = !tensor->may_share();
    memory_.set_layout(tensor, std::move(layout));
  };
  switch (layout_of_results(row, call, tensors, memory_)) {
    case ResultLayout::row_major:
      return each_new(settle);
    case ResultLayout::copied:
      return each_new([&](const TensorRef& tensor) {
        if (!tensor->may_share()) settle(tensor);  // it is a copy
      });
    case ResultLayout::elementwise: {
      const Elementwise rule(memory_, tensors);
      return each_new([&](const TensorRef& tensor) { rule.settle(tensor); });
    }
    case ResultLayout::kept:
      for (const TensorRef& tensor : tensors) {
        const auto layout = memory_.layout(tensor);
        if (!layout || is_row_major(*layout, memory_.type(tensor).shape) != true) return;
      }
      return each_new(settle);
    default:
      return;
  }
}

}  // namespace hg::convert
