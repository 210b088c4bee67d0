// SPDX-License-Identifier: Apache-2.0
// The inner loops of optimizer steps over contiguous elements. Arrays do not overlap; optional ones
// may be null.
#pragma once

#include <cstdint>

namespace hg::kernels {

// The numbers of one update, for all optimizers.
struct StepNumbers {
  double lr = 0;
  double weight_decay = 0;      // of the gradient
  double shrink = 1;            // x *= shrink first: decoupled decay
  double beta1 = 0, beta2 = 0;  // alpha and momentum of rmsprop; momentum and 1 - dampening of sgd
  double eps = 0;
  double correction1 = 1, root_correction2 = 1;  // of adam
  bool nesterov = false, is_first = false;
};

template <class T>
struct OptimizerTable {
  void (*sgd)(T* x, T* buffer, const T* g, int64_t count, const StepNumbers& n);
  void (*adam)(T* x, T* mean, T* square, T* largest, const T* g, int64_t count,
               const StepNumbers& n);
  void (*rmsprop)(T* x, T* square, T* mean, T* buffer, const T* g, int64_t count,
                  const StepNumbers& n);
};

// The table of the chosen instruction set.
const OptimizerTable<float>& optimizer_table(float);
const OptimizerTable<double>& optimizer_table(double);

}  // namespace hg::kernels
