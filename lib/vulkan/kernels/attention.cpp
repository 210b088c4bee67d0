// SPDX-License-Identifier: Apache-2.0
// Attention: shaders/attention.comp and attention_lanes.comp.
#include <algorithm>

#include "kernels/attention/attention_shape.h"
#include "lib/device/backend.h"
#include "lib/vulkan/kernels/product.h"

namespace hg::vulkan {
namespace {

constexpr int64_t kMostDim = 256;
// Queries of a group in the shader for lanes, in vectors. The driver's compiler needs long for the
// largest number.
constexpr int64_t kLanes = 8, kMostCols = 4, kFewCols = 2, kManyTimes = 64;
constexpr int64_t kMostBlock = 32;  // queries of a group on a GPU

bool accepts(const PrepareContext& c) {
  const Tensor &q = c.in(0), &v = c.in(2);
  return (q.dtype == f32 || q.dtype == f16) && q.count() > 0 && v.count() > 0 &&
         q.shape.back() <= kMostDim && v.shape.back() <= kMostDim;
}
bool accepts_lanes(const PrepareContext& c) {
  return c.in(0).dtype == f32 && accepts(c) && has_lanes(*c.device());
}

// The queries of a group of attention.comp: as many as shared memory holds, but at most the queries
// rounded up to a block.
int64_t shared_bytes(const kernels::AttentionShape& s, int64_t block) {
  return 4 * block * (s.dim + 1 + std::max(s.dim, s.value_dim) + 1 + block + 1);
}
int64_t block_for(const DeviceInfo& device, const kernels::AttentionShape& s) {
  int64_t block = kMostBlock;
  while (block > 8 && (shared_bytes(s, block) > device.max_shared_bytes || s.times <= block / 2))
    block /= 2;
  return block;
}

template <bool lanes>
Status prepare(PrepareContext& c) {
  const kernels::AttentionShape s = kernels::attention_shape(c);
  const bool hides = c.has(3) && c.in(3).dtype == boolean;
  Dispatch dispatch;
  const std::string_view real = c.out(0).dtype == f32 ? "f32" : "f16";
  dispatch.code = shader(str_cat("attention_", lanes ? "lanes_" : "", real, hides ? "_hides" : ""));
  int64_t queries = 0;  // of a group
  if (lanes) {
    const int64_t vectors = (s.times + kLanes - 1) / kLanes;
    const int64_t cols = std::min(vectors, s.times < kManyTimes ? kFewCols : kMostCols);
    queries = kLanes * cols;
    dispatch.specialise({s.dim, s.value_dim, c.has(3), s.causal, cols});
  } else {
    const int64_t block = block_for(*c.device(), s);
    queries = block;
    dispatch.invocations = 4 * block;
    dispatch.shared_bytes = shared_bytes(s, block);
    dispatch.specialise({4 * block, block, s.dim, s.value_dim, block * (s.dim + 1),
                         block * (std::max(s.dim, s.value_dim) + 1), block * (block + 1), block / 8,
                         (s.value_dim + 7) / 8, block / 2, c.has(3), s.causal});
  }
  dispatch.operands = {Operand::out(c, 0), Operand::in(c, 0), Operand::in(c, 1), Operand::in(c, 2),
                       Operand::in(c, c.has(3) ? 3 : 0)};
  dispatch.params = Words()
                        .u(s.times)
                        .u(s.keys)
                        .f(s.scale)
                        .u(s.q_time)
                        .u(s.q_dim)
                        .u(s.k_time)
                        .u(s.k_dim)
                        .u(s.v_time)
                        .u(s.v_dim)
                        .u(s.mask_time)
                        .u(s.mask_key)
                        .u(s.heads_per_key_head)
                        .u(s.lead.rank())
                        .all(s.lead)
                        .all(s.q_lead)
                        .all(s.k_lead)
                        .all(s.v_lead)
                        .all(s.mask_lead)
                        .words();
  dispatch.groups = {(s.times + queries - 1) / queries, s.lead.count(), 1};
  return add(c, std::move(dispatch));
}

constexpr KernelDef kKernels[] = {
    kernel_row("attention", "lanes", accepts_lanes, prepare<true>, 15),
    kernel_row("attention", "blocks", accepts, prepare<false>, 15),
};

}  // namespace

std::span<const KernelDef> attention() { return kKernels; }

}  // namespace hg::vulkan
