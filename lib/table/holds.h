// SPDX-License-Identifier: Apache-2.0
// What this build holds of the library. cmake/HgOps.cmake defines HG_CHOSEN where HG_OPS is given
// and writes hg_chosen.inc: HG_CHOSEN_MODELS("digits.hgm") once, HG_CHOSEN_OP(conv) and
// HG_CHOSEN_DTYPE(f32) for each.
#pragma once

#include <cstdint>
#include <string_view>

#include "hg/tensor.h"

namespace hg {

#if defined(HG_INFERENCE_ONLY)
inline constexpr bool kHoldsGradients = false;
#else
inline constexpr bool kHoldsGradients = true;
#endif

#if defined(HG_CHOSEN)

inline constexpr bool kHoldsAll = false;

// The models that the ops were chosen for, for messages.
inline constexpr std::string_view kChosenModels =
#define HG_CHOSEN_MODELS(models) models
#define HG_CHOSEN_OP(op)
#define HG_CHOSEN_KERNEL(op, kernel)
#define HG_CHOSEN_DTYPE(dtype)
#include "hg_chosen.inc"
#undef HG_CHOSEN_MODELS
#undef HG_CHOSEN_OP
#undef HG_CHOSEN_KERNEL
#undef HG_CHOSEN_DTYPE
    ;

constexpr bool holds_op(std::string_view name) {
#define HG_CHOSEN_MODELS(models)
#define HG_CHOSEN_OP(op) \
  if (name == #op) return true;
#define HG_CHOSEN_KERNEL(op, kernel)
#define HG_CHOSEN_DTYPE(dtype)
#include "hg_chosen.inc"
#undef HG_CHOSEN_MODELS
#undef HG_CHOSEN_OP
#undef HG_CHOSEN_KERNEL
#undef HG_CHOSEN_DTYPE
  return false;
}

// Whether a plan of those models takes this kernel.
constexpr bool holds_kernel(std::string_view of_op, std::string_view name) {
#define HG_CHOSEN_MODELS(models)
#define HG_CHOSEN_OP(op)
#define HG_CHOSEN_KERNEL(op, kernel) \
  if (of_op == #op && name == #kernel) return true;
#define HG_CHOSEN_DTYPE(dtype)
#include "hg_chosen.inc"
#undef HG_CHOSEN_MODELS
#undef HG_CHOSEN_OP
#undef HG_CHOSEN_KERNEL
#undef HG_CHOSEN_DTYPE
  return false;
}

constexpr bool holds(DType dtype) {
#define HG_CHOSEN_MODELS(models)
#define HG_CHOSEN_OP(op)
#define HG_CHOSEN_KERNEL(op, kernel)
#define HG_CHOSEN_DTYPE(name) \
  if (dtype == DType::name) return true;
#include "hg_chosen.inc"
#undef HG_CHOSEN_MODELS
#undef HG_CHOSEN_OP
#undef HG_CHOSEN_KERNEL
#undef HG_CHOSEN_DTYPE
  return false;
}

#else

inline constexpr bool kHoldsAll = true;
inline constexpr std::string_view kChosenModels;
constexpr bool holds_op(std::string_view) { return true; }
constexpr bool holds_kernel(std::string_view, std::string_view) { return true; }
constexpr bool holds(DType) { return true; }

#endif

}  // namespace hg
