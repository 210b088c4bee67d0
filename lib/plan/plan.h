// SPDX-License-Identifier: Apache-2.0
// A plan for given sizes: which kernel runs each node, in which order, and in which memory.
// Planning is a pure function of the graph and the sizes, except that it packs weights.
//
// With a device, every node uses the first kernel that accepts it, device kernels first. A value is
// stored on the side that computed it. If a step needs it on the other side, one upload or download
// precedes that step.
//
// Sizes that depend on data split a graph into parts. A plan covers the nodes from `first_node` to
// the first node with unknown output sizes (`next_node`). That node is measured after the part has
// run, and the next part is planned with its sizes.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "hg/kernel.h"
#include "hg/options.h"
#include "lib/graph/access.h"
#include "lib/plan/memory.h"

namespace hg {

enum class Side : uint8_t { host, device };
inline constexpr Side kSides[] = {Side::host, Side::device};
constexpr Side other(Side side) { return side == Side::host ? Side::device : Side::host; }

// Location of a tensor's first byte: an offset in the arena of a part, in the memory of an input or
// state, or a fixed address (on the device: in a copy of that memory).
struct Place {
  enum class Kind : uint8_t { none, arena, input, state, fixed };
  Kind kind = Kind::none;
  Side side = Side::host;
  int32_t index = 0;              // part, input or state
  int64_t offset = 0;             // in bytes
  int32_t block = -1;             // in the part's Plan::blocks
  const void* address = nullptr;  // for Kind::fixed

  static Place of_input(int32_t index, Side side = Side::host) {
    return {Kind::input, side, index, 0, -1, nullptr};
  }
  static Place of_state(int32_t index, Side side = Side::host) {
    return {Kind::state, side, index, 0, -1, nullptr};
  }
};

struct PlacedTensor {
  Tensor tensor;  // data is null
  Place place;
};

// Whether an output may overwrite an input element by element. Equal bytes are not enough: a bool
// [4, n] has as many bytes as the f32 [n] that it was computed from.
inline bool may_lie_on(const Tensor& out, const PlacedTensor& in) {
  return in.place.offset == 0 && in.tensor.is_contiguous() && in.tensor.count() == out.count() &&
         in.tensor.bytes() == out.bytes();
}

// Transfers have one input and one output: upload to the device, download from it, or copy within
// it.
enum class StepKind : uint8_t { kernel, control, upload, download, copy };

struct Step {
  StepKind kind = StepKind::kernel;
  const KernelDef* kernel = nullptr;  // null for control flow and transfers
  int32_t node = -1;                  // index in the graph; -1 for a copy added by the planner
  std::string label;
  std::vector<PlacedTensor> inputs, outputs;
  Place workspace;
  std::shared_ptr<void> state;
  double flops = 0;
  int64_t bytes = 0;

  bool is_transfer() const { return kind > StepKind::control; }
  bool on_device() const {
    return is_transfer() || (kernel != nullptr && kernel->device != Device::cpu);
  }
};

struct Block {
  std::string name;  // of the first value that uses it
  Side side = Side::host;
  Lifetime lifetime;
  int64_t offset = 0;
  int64_t room = 0;  // bytes that the layout holds for it; 0: those of `lifetime`
};

// Consecutive steps of a plan, split into lanes that run concurrently, each on one thread. No lane
// writes what another lane reads or writes. Memory used by a lane lives as long as the whole group.
struct Branches {
  int begin = 0, end = 0;                   // steps
  std::vector<std::vector<int32_t>> lanes;  // each in plan order
};

// Execution order of the nodes of a part, each after the producers of its inputs. A node may occur
// several times: its later results are recomputed, bit-identical, and the memory of the earlier
// ones is free after their last reader.
using NodeOrder = std::vector<int32_t>;

// How a plan came to a view, a step, or a copy: refill_plan() repeats it for other sizes.
struct PlanAction {
  enum class Kind : uint8_t { view, joined, step, copy };
  static constexpr int32_t kNone = -1, kJoined = -2;
  Kind kind = Kind::step;
  int32_t node = -1;
  int32_t step = -1;                 // the number of steps for the measuring step
  ValueId value = kNoValue;          // of a copy
  int32_t workspace = kNone;         // block
  std::vector<int32_t> copies = {};  // per input: the step that copies it for this node, or kNone
  // Per output: the input that it overwrites, kNone if it has a block of its own, or kJoined.
  std::vector<int32_t> overwrites = {};
  uint64_t symbols = 0;  // bit i: depends on the i-th symbol of Plan::bindings
};

// Two accesses of one block or state in different lanes, at least one of which writes. `tensor_a`
// and `tensor_b` count the inputs and then the outputs of a step.
struct ApartPair {
  int32_t step_a = 0, tensor_a = 0, step_b = 0, tensor_b = 0;
};

struct Plan {
  Bindings bindings;
  int part = 0;
  size_t first_node = 0, next_node = 0;  // next_node is the node count in the last part
  std::vector<Step> steps;
  // per Side: all values known after this part
  std::unordered_map<ValueId, PlacedTensor> values[2];
  std::optional<Step> measure;  // measures next_node
  std::vector<Block> blocks;
  std::vector<Branches> branches;  // in order, without overlap
  int64_t arena_bytes = 0, arena_lower_bound = 0;
  NodeOrder schedule;      // of the nodes of this part
  double extra_flops = 0;  // of repeated nodes
  int64_t device_arena_bytes = 0;
  int joined = 0;                    // concatenations without a copy
  std::vector<std::string> remarks;  // reasons why nodes are not on the device
  std::vector<char> alone;           // per node: see PlanRequest::alone; empty: none
  // If planned with PlanRequest::ranged and possible: how to refill it (refill.h).
  bool can_refill = false;
  std::vector<PlanAction> actions;
  std::vector<uint64_t> symbols_of;  // per value: symbols that its shape or place depends on
  std::vector<ValueId> separated;    // assigned or output by a copy, which is where they are
  std::vector<ApartPair> apart;      // must stay disjoint

  int64_t all_arena_bytes() const { return arena_bytes + device_arena_bytes; }
  // Returns the value on this side, or null.
  const PlacedTensor* find(ValueId id, Side side) const {
    const auto& known = values[static_cast<size_t>(side)];
    const auto found = known.find(id);
    return found == known.end() ? nullptr : &found->second;
  }
};

// Results of the planner for a node, reused by further plans with the same sizes.
struct PreparedNode {
  // The node's op, attributes and input types, with all symbols bound.
  std::vector<Attr> attrs;
  std::vector<TensorType> input_types, output_types;
  bool known = true;  // whether all output sizes are known
  // The kernel chosen for inputs in these places; `step` has no inputs and outputs.
  std::vector<PlacedTensor> inputs;
  std::optional<Step> step;
  int64_t workspace = 0;
  std::string remark;  // why the node is not on the device, if one is used
};
using PreparedNodes = std::unordered_map<int32_t, PreparedNode>;

// Per node: the kernel to try first.
using NodeKernels = std::unordered_map<int32_t, std::string>;

struct PlanRequest {
  const Graph* graph = nullptr;
  const Registry* registry = nullptr;
  const SessionOptions* options = nullptr;
  const Bindings* bindings = nullptr;
  const Plan* previous = nullptr;                     // the previous part
  const std::vector<bool>* mutable_states = nullptr;  // states that a run changes
  PackCache* packs = nullptr;
  int threads = 1;
  const NodeOrder* schedule = nullptr;  // null: graph order
  PreparedNodes* prepared = nullptr;    // of plans with the same bindings; null: not kept
  const DeviceInfo* device = nullptr;   // null: CPU only
  // device kernels never to choose, as "op=kernel"
  const std::set<std::string>* distrusted = nullptr;
  bool join = true;                        // whether concatenations may avoid copies
  const NodeKernels* preferred = nullptr;  // CPU kernels; null: none
  // per node: whether it runs on one thread; null: none does
  const std::vector<char>* alone = nullptr;
  bool ranged = false;  // whether the plan will be refilled for other sizes
};

// Fails with the first node that cannot be planned. If no kernel accepts a node that has an
// expansion, fails with `unsupported` and sets `*expand_node` to its index: expand the node and
// plan again.
Result<Plan> make_plan(const PlanRequest& request, int32_t* expand_node);

// Assigns arena offsets to the blocks by lifetime and moves all tensors in them.
void place_blocks(Plan& plan);

}  // namespace hg
