// SPDX-License-Identifier: Apache-2.0
// Makes one plan. The steps follow the schedule. The planner tracks for each value where it is
// stored on each side, the last position that reads it, and its arena block.
//
// plan.cpp visits the nodes, values.cpp brings values to the side that reads them,
// choose_kernel.cpp selects kernels, blocks.cpp allocates results. last_uses.h, joins.h and
// block_list.h are independent parts.
#pragma once

#include <algorithm>
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
#include "lib/plan/refill.h"

namespace hg {

// Returns the attribute with bound symbols replaced by numbers.
Attr with_numbers(const Attr& attr, const Bindings& bindings);

// A contiguous tensor without memory.
inline Tensor unplaced(DType dtype, const Sizes& shape) {
  return view(static_cast<void*>(nullptr), dtype, shape);
}

// Prepares a context again, for other sizes.
struct PrepareAccess {
  static PrepareContext::Call& call(PrepareContext& context) { return context.call_; }
  // The next kernel may overwrite the state before the last one, unless a step still has it.
  static void begin_again(RefillKernel& kernel) {
    PrepareContext& context = *kernel.context;
    context.workspace_ = 0;
    std::swap(context.state_, kernel.last_state);
    std::swap(context.state_type_, kernel.last_type);
    context.spare_ = context.state_.use_count() == 1 ? std::move(context.state_) : nullptr;
    context.state_ = nullptr;
  }
};

inline bool wants_any_strides(const KernelDef& kernel, size_t input) {
  return (kernel.strided >> std::min<size_t>(input, 31)) & 1u;
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
  // See refill_plan().
  Status refill(Plan& plan, uint64_t changed, RefillCache& cache, RefillResult& result);

 private:
  using Types = std::vector<TensorType>;

  // -- Nodes --------------------------------------------------------------------------------------

  Status concretize(const Node& node, PreparedNode& c);
  // Sets the output types from the op's shape rule. Fails if they differ from the model's.
  Status infer_types(const Node& node, GraphAccess::InferCall& call, PreparedNode& c);
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
  // From now on, the node's results are those computed at this position.
  void begin_results(const Node& node);
  void note_use_of_state(ValueId id, const PlacedTensor& value);
  // Location of the value; on the host if it is on both sides.
  const PlacedTensor& placed(ValueId id) const;
  // Bytes of a constant tensor, or null.
  const void* constant_data(const PlacedTensor& value) const;
  // Whether the value is a view of a constant whose shape differs in other plans: packs of this
  // view would be wrong there.
  bool varies(ValueId id) const;
  // The node that makes the value as a view of an input or constant, or null. Such a view can be
  // made again at any time.
  const Node* view_node(ValueId id) const;
  // Applies `view` to a tensor; returns nothing if it needs a contiguous tensor.
  std::optional<PlacedTensor> viewed(const Node& node, const PlacedTensor& in, const Sizes& shape,
                                     DType dtype) const;
  std::optional<PlacedTensor> viewed(const Node& node, std::span<const Attr> attrs,
                                     const PlacedTensor& in, const Sizes& shape, DType dtype) const;
  // As at(), without planning a transfer.
  Tensor expected(ValueId id, Side side) const;
  // Returns the value on this side; plans a transfer if needed. A view is recreated from its input
  // instead.
  Result<PlacedTensor> at(ValueId id, Side side);
  void add_transfer(StepKind kind, ValueId id, const PlacedTensor& from, const PlacedTensor& to);
  // A contiguous copy of a value on its side, made once per part.
  Result<PlacedTensor> contiguous(const PlacedTensor& in, ValueId id);
  // Sets the step's kernel to a device kernel that copies `in` to `out`.
  Status prepare_device_copy(const Tensor& in, const Tensor& out, ValueId id, Step& step);
  // Whether the value is a result that overwrote the memory of a state, not a view of that state.
  bool updates_in_place(ValueId id) const;
  // Copies assigned or returned values out of the memory of states that the assignments at the end
  // of the run overwrite.
  Status separate_assignments();

  // -- Concatenations -----------------------------------------------------------------------------

  // Location of a part or result of a copy-free concatenation; Kind::none for other values.
  Place joined_place(ValueId id);
  // Whether all parts of the concatenation were written in place.
  bool plan_joined(const Node& node, const PreparedNode& concrete);

  // -- Kernels ------------------------------------------------------------------------------------

  // What PrepareContext says about a node, without tensors; set_tensors() adds them.
  PrepareContext::Call call_of(const Node& node, const PreparedNode& concrete, Side side) const;
  void set_tensors(const Node& node, const PreparedNode& concrete, const KernelDef& kernel,
                   PrepareContext::Call& call);
  static Side side_of(const KernelDef& kernel) {
    return kernel.device == Device::cpu ? Side::host : Side::device;
  }
  // Returns the input as it is. A constant that this kernel needs contiguous is copied once per
  // session.
  PlacedTensor input_for(const KernelDef& kernel, const Node& node, size_t i);
  bool allowed(const KernelDef& kernel) const;
  // Whether kernels of the node use weights in place instead of packing them.
  bool reads_in_place(const Node& node) const;
  // Selects a kernel, device kernels first. `most` is the host if only the CPU can run the node.
  Result<Step> choose_kernel(int32_t index, const Node& node, PreparedNode& prepared,
                             Side most = Side::device);
  // Whether the previously selected kernel was prepared for the current location of the inputs.
  bool is_prepared(const Node& node, const PreparedNode& prepared) const;
  Status prepare_kernel(int32_t index, const Node& node, PreparedNode& prepared, Side most);
  // Error: no kernel accepts the node, which may be expanded.
  Status no_kernel(int32_t index, const PreparedNode& prepared);
  // Fails with the first node of later parts that has known sizes and that no kernel accepts, so
  // that it is expanded before the first part runs.
  Status check_later_nodes();
  // Device kernels use 32-bit element counts and bind each tensor as a whole.
  std::span<const KernelDef* const> device_kernels(const Op& op) const;  // none without a device
  bool fits_device(const PrepareContext& context) const;
  // Reason why a node is not on the device.
  std::string remark(const Node& node, const PreparedNode& prepared, bool has_kernels) const;
  void count_work(const Node& node, const PreparedNode& concrete, const PrepareContext& context,
                  Step& step);

  // -- Memory -------------------------------------------------------------------------------------

  int step_count() const { return static_cast<int>(plan_.steps.size()); }
  // Assigns `out` to a value, and keeps its block alive while the value is used.
  void record(ValueId id, const PlacedTensor& out);
  // Returns the memory of an input whose last use this is, if the output may overwrite it.
  // `*input` is set to that input, or to PlanAction::kNone.
  Place memory_of_input(const Node& node, const Step& step, size_t output, const Tensor& out,
                        int32_t* input) const;
  // Whether sizes and strides let the output overwrite this input.
  bool fits_on_input(const Node& node, const Step& step, size_t input, const Tensor& out) const;
  void count_repeated();

  // -- Ranges -------------------------------------------------------------------------------------

  uint64_t symbols_in(const Dim& dim) const;
  uint64_t symbols_in(const Attr& attr) const;
  uint64_t symbols_of_shape(ValueId id) const;
  // Symbols of the attributes, of the inputs, and of the outputs' shapes.
  uint64_t symbols_of_node(const Node& node) const;
  void note_action(PlanAction action);
  void note_inputs_and_states();
  // Decides whether the finished plan can be refilled.
  void finish_actions();
  // Prepares the cache for the actions of the plan.
  void begin_refills(RefillCache& cache);
  RefillCall* call_for(RefillCache& cache, int32_t index);
  // Brings the types of a call up to date.
  Status refill_types(RefillCache& cache, RefillCall& call);
  Status refill_action(PlanAction& action, RefillFrame& frame, RefillCache& cache,
                       RefillResult& result);
  Status refill_step(PlanAction& action, RefillFrame& frame, RefillCache& cache,
                     RefillResult& result);
  // Prepares the step's kernel, or takes over what another node has prepared; null: none fits.
  Result<const RefillKernel*> refill_kernel(const Node& node, RefillFrame& frame, Step& step);
  Status refill_inputs(const PlanAction& action, const Node& node, Step& step);
  // Gives the block this many bytes.
  void refill_block(int32_t block, int64_t bytes, RefillResult& result);
  void refill_workspace(PlanAction& action, int64_t bytes, Step& step, RefillResult& result);

  const PlanRequest& request_;
  const Graph& graph_;
  const GraphBody& body_;
  const bool is_stateful_;  // whether runs change states
  int32_t* expand_node_;
  Plan plan_;
  int position_ = 0;                   // in the schedule
  std::vector<ValueId> updated_;       // per value: see updated_states()
  std::optional<LastUses> last_uses_;  // schedule positions
  std::vector<int> state_last_use_;    // last use of the memory of each state
  BlockList blocks_;
  PreparedNodes prepared_;
  Joins joins_;
  std::unordered_map<ValueId, Place> wholes_;            // of joins_, once they have a block
  std::unordered_map<ValueId, PlacedTensor> copies_[2];  // contiguous copies, per Side
  // Only if `ranged`: steps that make them, and copies that the current node reads.
  std::unordered_map<ValueId, int32_t> copy_steps_;
  std::vector<int32_t> copies_read_;
  std::vector<Sizes> sizes_;  // scratch
};

}  // namespace hg
