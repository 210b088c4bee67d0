// SPDX-License-Identifier: Apache-2.0
// Makes one plan. The steps follow the schedule; on the way the planner knows for each value where
// it lies on either side, until which position it is read, and which block of the arena holds it.
//
// plan.cpp goes through the nodes, values.cpp brings values to where they are read,
// choose_kernel.cpp asks the kernels, blocks.cpp gives results memory. What they ask stands alone:
// last_uses.h, joins.h and block_list.h.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/device/backend.h"
#include "lib/plan/block_list.h"
#include "lib/plan/joins.h"
#include "lib/plan/last_uses.h"
#include "lib/plan/plan.h"

namespace hg {

// The attribute with numbers for the symbols that are bound.
Attr with_numbers(const Attr& attr, const Bindings& bindings);

// A contiguous tensor that has no memory yet.
inline Tensor unplaced(DType dtype, const Sizes& shape) {
  return view(static_cast<void*>(nullptr), dtype, shape);
}

inline Sizes sizes_of(const TensorType& type) {
  Sizes sizes;
  for (const Dim& dim : type.shape) sizes.push_back(dim.constant());
  return sizes;
}

class Planner {
 public:
  Planner(const PlanRequest& request, int32_t* expand_node);

  Result<Plan> make();

 private:
  using Types = std::vector<TensorType>;

  // -- Nodes --------------------------------------------------------------------------------------

  Status concretize(const Node& node, PreparedNode& c);
  std::string bound_sizes() const;
  Status plan_node(int32_t index, bool& known);
  Status plan_view(const Node& node, const PreparedNode& concrete);
  Status plan_measure(int32_t index, const Node& node, PreparedNode& concrete);
  Result<Step> control_step(int32_t index, const Node& node);
  Status add_outputs(const Node& node, const PreparedNode& concrete, Step step);

  // -- Values -------------------------------------------------------------------------------------

  std::unordered_map<ValueId, PlacedTensor>& values(Side side) {
    return plan_.values[static_cast<size_t>(side)];
  }
  Status place_inputs_and_states();
  void find_last_uses();
  // From here on the node's results are those of this position.
  void begin_results(const Node& node);
  void note_use_of_state(ValueId id, const PlacedTensor& value);
  // The value where it lies; on the host when it lies on both sides.
  const PlacedTensor& placed(ValueId id) const;
  // The bytes of a constant tensor, or null.
  const void* constant_data(const PlacedTensor& value) const;
  // Whether the value is a view of a constant that other plans see otherwise: what a kernel made of
  // this one would be wrong there.
  bool varies(ValueId id) const;
  // The node that makes the value by looking at an input or a constant in another way, or null.
  // These keep their memory, so that they can be looked at again.
  const Node* view_node(ValueId id) const;
  // What `view` makes of a tensor; nothing when it needs a contiguous one.
  std::optional<PlacedTensor> viewed(const Node& node, const PlacedTensor& in, const Sizes& shape,
                                     DType dtype) const;
  // The tensor that at() would give, without planning a transfer.
  Tensor expected(ValueId id, Side side) const;
  // The value on this side; where it is not there yet, a transfer is planned. A view is made again
  // from its input instead.
  Result<PlacedTensor> at(ValueId id, Side side);
  void add_transfer(StepKind kind, ValueId id, const PlacedTensor& from, const PlacedTensor& to);
  // A contiguous copy of a value on its side, made once in this part.
  Result<PlacedTensor> contiguous(const PlacedTensor& in, ValueId id);
  // Gives the step a kernel of the device that copies `in` to `out`.
  Status prepare_device_copy(const Tensor& in, const Tensor& out, ValueId id, Step& step);
  // Whether the value is a result that took the memory of a state, not a view of that state.
  bool updates_in_place(ValueId id) const;
  // What is assigned or returned must not lie in the memory of a state that the assignments at the
  // end of the run write.
  Status separate_assignments();

  // -- Concatenations -----------------------------------------------------------------------------

  // Where a part of a concatenation, or its result, lies; of kind none for other values.
  Place joined_place(ValueId id);
  // Whether all that the node concatenates was written to where it belongs.
  bool plan_joined(const Node& node, const PreparedNode& concrete);

  // -- Kernels ------------------------------------------------------------------------------------

  PrepareContext prepare_context(const Node& node, const PreparedNode& concrete,
                                 const KernelDef& kernel);
  static Side side_of(const KernelDef& kernel) {
    return kernel.device == Device::cpu ? Side::host : Side::device;
  }
  // The input as it is; a constant that this kernel needs contiguous is copied once for the
  // session.
  PlacedTensor input_for(const KernelDef& kernel, const Node& node, size_t i);
  bool allowed(const KernelDef& kernel) const;
  // The device's kernels are tried first; `most` is the host where only the CPU can serve.
  Result<Step> choose_kernel(int32_t index, const Node& node, PreparedNode& prepared,
                             Side most = Side::device);
  // Whether the kernel that was chosen before has seen the inputs as they lie now.
  bool is_prepared(const Node& node, const PreparedNode& prepared) const;
  Status prepare_kernel(int32_t index, const Node& node, PreparedNode& prepared, Side most);
  // That no kernel takes the node, which may be expanded.
  Status no_kernel(int32_t index, const PreparedNode& prepared);
  // Fails with the first node of later parts whose sizes are known and that no kernel takes: it can
  // be expanded before the first part runs alone.
  Status check_later_nodes();
  // Device kernels count elements in 32 bits, and bind each tensor as a whole.
  bool fits_device(const PrepareContext& context) const;
  // Why a node is not on the device.
  std::string remark(const Node& node, const PreparedNode& prepared, bool has_kernels) const;
  void count_work(const Node& node, const PreparedNode& concrete, const PrepareContext& context,
                  Step& step);

  // -- Memory -------------------------------------------------------------------------------------

  int step_count() const { return static_cast<int>(plan_.steps.size()); }
  // Makes `out` the tensor of a value, and its block live as long as the value is used.
  void record(ValueId id, const PlacedTensor& out);
  // The memory of an input that dies here, when this output may take it.
  Place memory_of_input(const Node& node, const Step& step, size_t output, const Tensor& out) const;
  void count_repeated();

  const PlanRequest& request_;
  const Graph& graph_;
  const GraphBody& body_;
  int32_t* expand_node_;
  Plan plan_;
  int position_ = 0;                   // of the schedule
  std::vector<ValueId> updated_;       // of values: see updated_states()
  std::optional<LastUses> last_uses_;  // positions of the schedule
  std::vector<int> state_last_use_;    // of the memory of states
  BlockList blocks_;
  PreparedNodes prepared_;
  Joins joins_;
  std::unordered_map<ValueId, Place> wholes_;            // of joins_, once they have a block
  std::unordered_map<ValueId, PlacedTensor> copies_[2];  // contiguous, on each Side
};

}  // namespace hg
