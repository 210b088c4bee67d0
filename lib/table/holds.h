// SPDX-License-Identifier: Apache-2.0
// Which parts of the library this build contains. If HG_OPS is given, cmake/HgOps.cmake defines
// HG_CHOSEN and writes hg_chosen.h: kChosenModels for messages, the ops, kernels and dtypes, and
// has().
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "hg/activation.h"
#include "hg/tensor.h"

namespace hg {

// A kernel in hg_chosen.h that plans of the chosen models use.
struct ChosenKernel {
  std::string_view op, name;
  constexpr bool operator==(const ChosenKernel&) const = default;
};

}  // namespace hg

#if defined(HG_CHOSEN)
#include "hg_chosen.h"
#endif

namespace hg {

#if defined(HG_INFERENCE_ONLY)
inline constexpr bool kHoldsGradients = false;
#else
inline constexpr bool kHoldsGradients = true;
#endif

#if defined(HG_CHOSEN)

inline constexpr bool kHoldsAll = false;
constexpr bool holds_op(std::string_view name) { return has(kChosenOps, name); }
constexpr bool holds_kernel(std::string_view op, std::string_view name) {
  return has(kChosenKernels, ChosenKernel{op, name});
}
constexpr bool holds(DType dtype) { return has(kChosenDTypes, dtype); }

#else

inline constexpr bool kHoldsAll = true;
inline constexpr std::string_view kChosenModels;
constexpr bool holds_op(std::string_view) { return true; }
constexpr bool holds_kernel(std::string_view, std::string_view) { return true; }
constexpr bool holds(DType) { return true; }

#endif

// The op that computes the same as an activation; empty for none.
constexpr std::string_view op_of(Activation activation) {
  constexpr std::string_view kOps[] = {
#define HG_ACTIVATION(number, name, op, attrs) #op,
#include "hg/activations.inc"
  };
  return kOps[static_cast<size_t>(activation)];
}
// Linear and conv can fuse the activations whose ops this build contains.
constexpr bool holds(Activation activation) {
  return activation == Activation::none || holds_op(op_of(activation));
}

}  // namespace hg
