// SPDX-License-Identifier: Apache-2.0
// A plan: which kernel runs each node for given sizes, in which order, on which memory. Making one
// is a pure function of the graph and the sizes, apart from packing weights.
//
// With a device beside the CPU every node goes to the first kernel that takes it, the device's
// first. A value lies on the side that made it; a step that needs it on the other side is preceded
// by an upload or a download, made once.
//
// Sizes that only data decides cut a graph into parts: a plan covers the nodes from `first_node` up
// to the first node whose output sizes are not known yet (`next_node`). That node is measured when
// the part has run, and the next part is planned with its sizes.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "hg/options.h"
#include "lib/graph/access.h"
#include "lib/plan/memory.h"

namespace hg {

enum class Side : uint8_t { host, device };
inline constexpr Side kSides[] = {Side::host, Side::device};
constexpr Side other(Side side) { return side == Side::host ? Side::device : Side::host; }

// Where the first byte of a tensor lies: an offset in the arena of a part, or in the memory of an
// input or a state, or at an address that never changes (on the device: in a copy of what is
// there).
struct Place {
  enum class Kind : uint8_t { none, arena, input, state, fixed };
  Kind kind = Kind::none;
  Side side = Side::host;
  int32_t index = 0;              // part, input or state
  int64_t offset = 0;             // bytes
  int32_t block = -1;             // of the part's Plan::blocks
  const void* address = nullptr;  // of fixed

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

// Whether each element of an output may take the place of that of an input: bytes alone do not
// tell, as [4, n] of bool has those of an [n] of f32 that it was compared with.
inline bool may_lie_on(const Tensor& out, const PlacedTensor& in) {
  return in.place.offset == 0 && in.tensor.is_contiguous() && in.tensor.count() == out.count() &&
         in.tensor.bytes() == out.bytes();
}

// A transfer has one input and one output: upload to the device, download from it, and copy from
// one place on the device to another.
enum class StepKind : uint8_t { kernel, control, upload, download, copy };

struct Step {
  StepKind kind = StepKind::kernel;
  const KernelDef* kernel = nullptr;  // null for control flow and transfers
  int32_t node = -1;                  // of the graph, or -1 for a copy that the planner added
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
};

// Steps of a plan that follow each other, of which those of one lane read and write nothing that
// those of another lane write: the lanes run side by side, each on one thread, and all that they
// need lives as long as the whole of them.
struct Branches {
  int begin = 0, end = 0;                   // steps
  std::vector<std::vector<int32_t>> lanes;  // each in the order of the plan
};

// The nodes of a part in the order in which they run, each after those that it reads. A node may
// stand more than once: from there on its results are those computed again, the same bits, and the
// memory of the earlier ones is free when their last reader before that has run.
using NodeOrder = std::vector<int32_t>;

struct Plan {
  Bindings bindings;
  int part = 0;
  size_t first_node = 0, next_node = 0;  // next_node == node count when this is the last part
  std::vector<Step> steps;
  std::unordered_map<ValueId, PlacedTensor> values[2];  // on each Side: all known after this part
  std::optional<Step> measure;                          // how to measure that node
  std::vector<Block> blocks;
  std::vector<Branches> branches;  // in order, apart from each other
  int64_t arena_bytes = 0, arena_lower_bound = 0;
  NodeOrder schedule;      // of the nodes of this part
  double extra_flops = 0;  // of nodes that the schedule repeats
  int64_t device_arena_bytes = 0;
  int joined = 0;                    // concatenations that need no copy
  std::vector<std::string> remarks;  // why a node is not on the device

  int64_t all_arena_bytes() const { return arena_bytes + device_arena_bytes; }
  // The value on this side, or null.
  const PlacedTensor* find(ValueId id, Side side) const {
    const auto& known = values[static_cast<size_t>(side)];
    const auto found = known.find(id);
    return found == known.end() ? nullptr : &found->second;
  }
};

// What the planner found out about a node, for further plans with the same sizes.
struct PreparedNode {
  // The node's op, attributes and input types with numbers for all symbols.
  std::vector<Attr> attrs;
  std::vector<TensorType> input_types, output_types;
  bool known = true;  // all output sizes
  // The kernel for inputs that lie in memory like this: without inputs and outputs.
  std::vector<PlacedTensor> inputs;
  std::optional<Step> step;
  int64_t workspace = 0;
  std::string remark;  // why it is not on the device, where there is one
};
using PreparedNodes = std::unordered_map<int32_t, PreparedNode>;

// The kernel that is to be asked before all others, by node.
using NodeKernels = std::unordered_map<int32_t, std::string>;

struct PlanRequest {
  const Graph* graph = nullptr;
  const Registry* registry = nullptr;
  const SessionOptions* options = nullptr;
  Bindings bindings;
  const Plan* previous = nullptr;                     // the part before this one
  const std::vector<bool>* mutable_states = nullptr;  // those that a run changes
  PackCache* packs = nullptr;
  int threads = 1;
  const NodeOrder* schedule = nullptr;  // null: the order of the graph
  PreparedNodes* prepared = nullptr;    // of plans for the same bindings; null: not kept
  const DeviceInfo* device = nullptr;   // null: the CPU alone
  const std::set<std::string>* distrusted = nullptr;  // "op=kernel": of the device, never chosen
  bool join = true;                                   // whether concatenations may need no copy
  const NodeKernels* preferred = nullptr;             // of the CPU; null: none
  const std::vector<char>* alone = nullptr;  // by node: whether it gets one thread; null: none does
};

// Fails with the first node that cannot be planned. When no kernel takes a node that has an
// expansion, `*expand_node` is its index and the status is `unsupported`: expand it and plan again.
Result<Plan> make_plan(const PlanRequest& request, int32_t* expand_node);

// Gives the blocks their places in the arena by their lifetimes, and moves all that lies in them.
void place_blocks(Plan& plan);

}  // namespace hg
