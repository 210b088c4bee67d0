// SPDX-License-Identifier: Apache-2.0
// Ops that order a line: shaders/rank.comp. The work is the number of elements times the length of
// a line; if that is far more than on the CPU, the CPU computes it.
#include "lib/device/backend.h"
#include "lib/vulkan/commands.h"

namespace hg::vulkan {
namespace {

constexpr int64_t kMostWork = int64_t{1} << 30;
enum Pick : uint32_t { kPlaces, kPlace, kMedian, kNanMedian };

// All elements, or those along `dim`.
int64_t length_of(const PrepareContext& c) {
  const Tensor& x = c.in(0);
  if (!c.attrs().has("dim")) return x.count();
  return x.rank() == 0 ? 1 : x.shape[c.attrs().axis("dim", x.rank())];
}

std::string_view type_of(const PrepareContext& c) {
  switch (c.in(0).dtype) {
    case DType::f32:
      return "f32";
    case DType::f16:
      return "f16";
    case DType::i32:
      return "i32";
    case DType::i64:
      return c.device()->i64 ? "i64" : "";
    case DType::bool_:
    case DType::u8:
      return "u8";
    default:
      return "";
  }
}

bool accepts(const PrepareContext& c) {
  const int64_t length = length_of(c);
  return !type_of(c).empty() && length > 0 && c.in(0).count() < kMostWork / length;
}

Status add_ranks(PrepareContext& c, Pick pick, bool descending, int64_t place) {
  const Tensor& x = c.in(0);
  if (c.out(0).count() == 0) return {};
  int64_t stride = 1;
  if (c.attrs().has("dim"))
    for (int d = x.rank() == 0 ? 0 : c.attrs().axis("dim", x.rank()) + 1; d < x.rank(); ++d)
      stride *= x.shape[d];
  Dispatch dispatch;
  dispatch.code = shader(str_cat("rank_", type_of(c)));
  dispatch.constants = {descending ? 1u : 0u, pick};
  dispatch.operands = {Operand::out(c, 0), Operand::out(c, 1), Operand::in(c, 0)};
  dispatch.params = Words().u(x.count()).u(length_of(c)).u(stride).u(place).words();
  dispatch.groups = groups_for(*c.device(), x.count(), 64);
  return add(c, std::move(dispatch));
}

Status prepare_sort(PrepareContext& c) {
  return add_ranks(c, kPlaces, c.attrs().flag("descending"), length_of(c));
}
Status prepare_topk(PrepareContext& c) {
  return add_ranks(c, kPlaces, c.attrs().flag("largest"), c.attrs().integer("k"));
}
Status prepare_kthvalue(PrepareContext& c) {
  return add_ranks(c, kPlace, false, c.attrs().integer("k") - 1);
}
Status prepare_median(PrepareContext& c) { return add_ranks(c, kMedian, false, 0); }
Status prepare_nanmedian(PrepareContext& c) { return add_ranks(c, kNanMedian, false, 0); }

constexpr KernelDef kernel(std::string_view op, Status (*prepare)(PrepareContext&)) {
  return kernel_row(op, "ranks", accepts, prepare);
}

constexpr KernelDef kKernels[] = {
    kernel("sort", prepare_sort),           kernel("topk", prepare_topk),
    kernel("kthvalue", prepare_kthvalue),   kernel("median", prepare_median),
    kernel("nanmedian", prepare_nanmedian),
};

}  // namespace

std::span<const KernelDef> sort() { return kKernels; }

}  // namespace hg::vulkan
