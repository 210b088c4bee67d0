// SPDX-License-Identifier: Apache-2.0
// For drivers whose subgroup is a CPU vector and whose loads are loops over the lanes. A group is one
// subgroup of eight. A lane holds kCols results of each of kRows rows. Each lane loads one element of one
// operand and broadcasts it to the others, eight steps of k at a time, so that a load serves many products.
#extension GL_KHR_shader_subgroup_ballot : require
#define LANES 8
float sum[kRows][kCols];

// sum += told(step) v. `told` holds the values of eight steps of each row, one per lane.
#define PRODUCTS(step, told, v)                                              \
  [[unroll]] for (uint i = 0; i < kRows; ++i) {                              \
    const float u = subgroupBroadcast(told[i], step);                        \
    [[unroll]] for (uint j = 0; j < kCols; ++j) sum[i][j] += u * v[j];       \
  }
