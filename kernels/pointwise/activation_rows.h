// SPDX-License-Identifier: Apache-2.0
// Kernel rows of the activations of hg/activations.inc that are ops of their own.
#pragma once

#include <algorithm>
#include <array>

#include "hg/activation.h"
#include "hg/kernel.h"

namespace hg::kernels {

// Whether the activation computes the op of its name, whatever the op's attributes.
constexpr bool is_op(Activation activation) {
  constexpr std::string_view kOps[] = {
#define HG_ACTIVATION(number, name, op, attrs) #op,
#include "hg/activations.inc"
  };
  const std::string_view name = to_string(activation);
  return kOps[static_cast<size_t>(activation)] == name && std::ranges::count(kOps, name) == 1;
}

constexpr int kActivationOps = [] {
  int count = 0;
  for (int i = 0; i < kActivationCount; ++i) count += is_op(static_cast<Activation>(i));
  return count;
}();

// The given rows, and row<activation>() for each activation that is an op.
template <size_t count, class Row>
constexpr auto with_activations(const KernelDef (&rows)[count], const Row& row) {
  std::array<KernelDef, count + kActivationOps> all;
  auto next = std::ranges::copy(rows, all.begin()).out;
#define HG_ACTIVATION(number, name, op, attrs) \
  if constexpr (is_op(Activation::name)) *next++ = row.template operator()<Activation::name>();
#include "hg/activations.inc"
  return all;
}

}  // namespace hg::kernels
