// SPDX-License-Identifier: Apache-2.0
// Optimizer steps: shaders/optimizer.comp, one dispatch per parameter.
#include <cmath>

#include "lib/device/backend.h"
#include "lib/vulkan/commands.h"

namespace hg::vulkan {
namespace {

enum Kind : uint32_t { kSgd, kAdam, kRmsprop };

// The inputs in order: x, the optimizer's states, the accumulated gradient, then the gradient.
constexpr int gradient_of(Kind kind) { return kind == kSgd ? 3 : 5; }

template <Kind kind>
bool accepts(const PrepareContext& c) {
  const int gradient = gradient_of(kind), scale = gradient + 3;
  return c.in(0).dtype == f32 && c.in(gradient).shape == c.in(0).shape &&
         c.in(gradient + 1).dtype == f32 && (!c.has(scale) || c.in(scale).dtype == f32);
}

template <Kind kind>
Status prepare(PrepareContext& c) {
  constexpr int kGradient = gradient_of(kind), kSum = kGradient - 1, kSlots = 5;
  if (c.in(0).count() == 0) return {};
  const KernelAttrs& a = c.attrs();
  // Slot 4 is the accumulated gradient. If absent, the gradient is bound there and not used.
  uint32_t has = 0;
  std::vector<Operand> outputs(kSlots, Operand::in(c, kGradient)), inputs = outputs;
  for (int i = 0, output = 0; i < kGradient; ++i) {
    if (!c.has(i)) continue;
    const auto slot = static_cast<size_t>(i == kSum ? kSlots - 1 : i);
    has |= 1u << slot;
    outputs[slot] = Operand::out(c, output++);
    inputs[slot] = Operand::in(c, i);
  }
  Dispatch dispatch;
  dispatch.operands = std::move(outputs);
  dispatch.operands.insert(dispatch.operands.end(), inputs.begin(), inputs.end());
  for (int i = kGradient; i < kGradient + 5; ++i) {
    const bool given = c.has(i);
    if (i >= kGradient + 3 && given) has |= 1u << (5 + i - kGradient - 3);
    dispatch.operands.push_back(Operand::in(c, given ? i : kGradient));
  }
  double beta1 = 0, part1 = 0, beta2 = 0, part2 = 0, eps = 0, decay = a.real("weight_decay");
  double decoupled = 0, log1 = 0, log2 = 0;
  bool nesterov = false;
  if constexpr (kind == kSgd) {
    beta1 = a.real("momentum");
    beta2 = 1 - a.real("dampening");
    nesterov = a.flag("nesterov");
  } else {
    beta1 = a.real(kind == kAdam ? "beta1" : "alpha");
    beta2 = a.real(kind == kAdam ? "beta2" : "momentum");
    part1 = 1 - beta1;
    part2 = 1 - beta2;
    eps = a.real("eps");
  }
  if constexpr (kind == kAdam) {
    log1 = std::log(beta1);
    log2 = std::log(beta2);
    if (a.flag("decoupled")) std::swap(decoupled, decay);
    if (!(beta1 > 0 && beta2 > 0)) return c.fail("beta1 is ", beta1, ", beta2 is ", beta2);
  }
  dispatch.code = shader("optimizer");
  dispatch.constants = {kind, has};
  dispatch.params = Words()
                        .u(c.in(0).count())
                        .u(a.integer("group"))
                        .f(a.flag("maximize") ? -1 : 1)
                        .f(a.has("clip_value") ? a.real("clip_value") : 0)
                        .f(decay)
                        .f(decoupled)
                        .f(beta1)
                        .f(part1)
                        .f(beta2)
                        .f(part2)
                        .f(eps)
                        .f(log1)
                        .f(log2)
                        .u(nesterov ? 1 : 0)
                        .words();
  dispatch.groups = groups_for(*c.device(), c.in(0).count());
  return add(c, std::move(dispatch));
}

template <Kind kind>
constexpr KernelDef kernel(std::string_view op) {
  return kernel_row(op, "fused", accepts<kind>, prepare<kind>);
}

constexpr KernelDef kKernels[] = {
    kernel<kSgd>("sgd_step"),
    kernel<kAdam>("adam_step"),
    kernel<kRmsprop>("rmsprop_step"),
};

}  // namespace

std::span<const KernelDef> optimizer() { return kKernels; }

}  // namespace hg::vulkan
