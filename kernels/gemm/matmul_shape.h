// SPDX-License-Identifier: Apache-2.0
// matmul and linear as one problem: for each batch, y[m, n] = a[m, k] b[k, n], with any strides of
// a and b. Computed before pointers are known.
#pragma once

#include "hg/kernel.h"
#include "kernels/pointwise/activation.h"

namespace hg::kernels {

struct MatmulShape {
  int64_t m = 1, n = 1, k = 1;
  int64_t a_row = 0, a_col = 0;  // strides of a[i, p]
  int64_t b_row = 0, b_col = 0;  // strides of b[p, j]
  Sizes batch;                   // broadcast batch sizes and the strides of a and b along them
  Sizes a_batch, b_batch;
  Activation activation = Activation::none;

  int64_t batches() const { return batch.count(); }
  int64_t a_offset(int64_t index) const { return offset(index, a_batch); }
  int64_t b_offset(int64_t index) const { return offset(index, b_batch); }

 private:
  int64_t offset(int64_t index, const Sizes& strides) const {
    int64_t sum = 0;
    for (int i = batch.rank() - 1; i >= 0; --i) {
      sum += index % batch[i] * strides[i];
      index /= batch[i];
    }
    return sum;
  }
};

MatmulShape matmul_shape(const Tensor& a, const Tensor& b);

// For a node of matmul, or of linear, which may have an activation. Both use the same kernels;
// linear's bias and residual are inputs 2 and 3.
MatmulShape product_shape(const PrepareContext& c);

}  // namespace hg::kernels
