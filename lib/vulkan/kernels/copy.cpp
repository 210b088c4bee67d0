// SPDX-License-Identifier: Apache-2.0
// Ops that only move elements: copies between strides.
#include <algorithm>
#include <cstring>

#include "lib/device/backend.h"
#include "lib/vulkan/kernels/copying.h"

namespace hg::vulkan {
namespace {

Status add_moves(PrepareContext& c, const Operand& y, const Part& to, const Operand& x,
                 const Part& from, const Sizes& shape, bool fill, uint64_t value) {
  if (shape.count() == 0) return {};
  const Joined joined = join_dims(shape, {to.strides, from.strides});
  Dispatch dispatch;
  dispatch.code = shader(str_cat("copy_", 8 * size_of(y.dtype)));
  dispatch.constants = {fill ? 1u : 0u};
  dispatch.operands = {y, x};
  Words words;
  words.u(shape.count()).u(to.offset).u(from.offset).u(joined.shape.rank()).all(joined.shape);
  words.all(joined.strides[0]).all(joined.strides[1]);
  words.u(static_cast<int64_t>(value & 0xffffffffu)).u(static_cast<int64_t>(value >> 32));
  dispatch.params = words.words();
  dispatch.groups = groups_for(*c.device(), shape.count());
  return add(c, std::move(dispatch));
}

// The bits of a number in a dtype.
uint64_t bits_of(DType dtype, double value) {
  uint64_t bits = 0;
  const auto put = [&](auto number) { std::memcpy(&bits, &number, sizeof(number)); };
  switch (dtype) {
    case DType::f32:
      put(static_cast<float>(value));
      break;
    case DType::f64:
      put(value);
      break;
    case DType::f16:
      put(Half(static_cast<float>(value)).bits);
      break;
    case DType::bf16:
      put(BFloat16(static_cast<float>(value)).bits);
      break;
    case DType::bool_:
      bits = value != 0;
      break;
    default:
      put(static_cast<int64_t>(value));
  }
  return bits;
}

Status prepare_contiguous(PrepareContext& c) {
  const Tensor &x = c.in(0), &y = c.out(0);
  if (x.dtype == c128) return c.fail("the device does not copy elements of 16 bytes");
  return add_copy(c, Operand::out(c, 0), {0, y.strides}, Operand::in(c, 0), {0, x.strides},
                  x.shape);
}

Status prepare_concat(PrepareContext& c) {
  const Tensor& y = c.out(0);
  const int axis = c.attrs().axis("dim", y.rank());
  int64_t at = 0;
  for (int i = 0; i < c.input_count(); ++i) {
    const Tensor& x = c.in(i);
    if (x.rank() != y.rank()) continue;  // torch's empty tensor of rank 1
    HG_TRY(add_copy(c, Operand::out(c, 0), {at * y.strides[axis], y.strides}, Operand::in(c, i),
                    {0, x.strides}, x.shape));
    at += x.shape[axis];
  }
  return {};
}

bool accepts_constant_pad(const PrepareContext& c) {
  return c.attrs().string("mode") == "constant" && c.in(0).rank() <= kMaxRank / 2;
}
Status prepare_pad(PrepareContext& c) {
  const Tensor &x = c.in(0), &y = c.out(0);
  const Sizes pads = c.attrs().integers("pads");
  HG_TRY(add_fill(c, Operand::out(c, 0), {0, y.strides}, y.shape, c.attrs().real("value")));
  // Negative pads remove elements.
  int64_t to = 0;
  int64_t from = 0;
  Sizes shape = x.shape;
  for (int d = 0; d < x.rank(); ++d) {
    const int64_t before = pads[2 * d], after = pads[2 * d + 1];
    to += std::max<int64_t>(before, 0) * y.strides[d];
    from += std::max<int64_t>(-before, 0) * x.strides[d];
    shape[d] += std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0);
    if (shape[d] <= 0) return {};
  }
  return add_copy(c, Operand::out(c, 0), {to, y.strides}, Operand::in(c, 0), {from, x.strides},
                  shape);
}

constexpr KernelDef kernel(std::string_view op, Status (*prepare)(PrepareContext&),
                           bool (*accepts)(const PrepareContext&) = nullptr) {
  return kernel_row(op, "copy", accepts, prepare, kAllStrided);
}

constexpr KernelDef kKernels[] = {
    kernel("contiguous", prepare_contiguous),
    kernel("concat", prepare_concat),
    kernel("pad", prepare_pad, accepts_constant_pad),
};

}  // namespace

Status add_copy(PrepareContext& c, const Operand& y, const Part& to, const Operand& x,
                const Part& from, const Sizes& shape) {
  return add_moves(c, y, to, x, from, shape, false, 0);
}

Status add_fill(PrepareContext& c, const Operand& y, const Part& to, const Sizes& shape,
                double value) {
  return add_moves(c, y, to, y, {0, Sizes(shape.rank(), 0)}, shape, true, bits_of(y.dtype, value));
}

std::span<const KernelDef> copy() { return kKernels; }

}  // namespace hg::vulkan
