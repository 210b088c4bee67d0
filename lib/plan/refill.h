// SPDX-License-Identifier: Apache-2.0
// Fills a plan for other sizes: the order, the memory layout and the branches stay, and only nodes
// that depend on a changed symbol are prepared again. Results are bit-identical to those of a new
// plan: each node has the kernel, the shapes and the strides that it has there.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "lib/plan/plan.h"

namespace hg {

// A kernel that was prepared for the last sizes.
struct RefillKernel {
  std::optional<PrepareContext> context;
  const KernelDef* kernel = nullptr;
  std::vector<Sizes> strides;  // of the inputs
  double flops = 0;
  int64_t bytes = 0;
  // The state of the sizes before, and its type.
  std::shared_ptr<void> last_state;
  const char* last_type = nullptr;
};

// Nodes with the same op, attributes and types. Their shape rule runs once per size. If none of
// their inputs is constant, so does `prepare` for equal strides: nodes share the kernel's state.
struct RefillCall {
  int32_t node = -1;                // the first of them
  bool is_shared = true;            // whether other nodes may have the same types
  PreparedNode prepared;            // without a kernel
  std::vector<int32_t> open_attrs;  // those with symbols
  GraphAccess::InferCall infer;
  std::vector<const KernelDef*> kernels;
  std::vector<RefillKernel*> made;  // in this refill
  int64_t refill = 0;               // the one that all this is of
};

// What an action needs to be repeated.
struct RefillFrame {
  RefillCall* call = nullptr;  // null: a copy
  int threads = 1;
  bool can_share = false;
  std::unique_ptr<RefillKernel> own;  // null: only shared ones were needed
};

// What refilling keeps from one size to the next, so that it allocates nothing. Belongs to one
// plan, and is empty at first.
struct RefillCache {
  std::vector<std::unique_ptr<RefillCall>> calls;
  std::vector<RefillFrame> frames;  // per action
  std::vector<Sizes> sizes;         // scratch
  std::vector<int32_t> steps;       // prepared again by the last refill; `measure`: the step count
  int64_t refill = 0;               // counts refills
};

struct RefillResult {
  // False if a new plan would differ in more than sizes, or if the sizes do not suit the model. The
  // plan is then unusable until it is refilled with `is_stale`.
  bool fits = true;
  bool has_grown = false;  // the layout, because a block needs more memory than it has
};

// Fills `plan`, which must have `can_refill`, for the bindings of the request. Fails only if memory
// is exhausted. `request.previous` is the part that the plan continues; its layout must not have
// changed.
Status refill_plan(PlanRequest request, Plan& plan, bool is_stale, RefillCache& cache,
                   RefillResult& result);

}  // namespace hg
