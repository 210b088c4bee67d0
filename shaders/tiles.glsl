// SPDX-License-Identifier: Apache-2.0
// A matrix product for GPUs: a group computes kRows x kCols results, kSteps of k at a time. Pieces of both
// operands go through shared memory while the next ones load into registers; an invocation holds kMyRows x
// kMyCols results. Invocations are kDown x kAcross. The including shader defines the next pieces in fetch().
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint kInvocations = 256;
layout(constant_id = 1) const uint kRows = 64;
layout(constant_id = 2) const uint kCols = 64;
layout(constant_id = 3) const uint kMyRows = 4;
layout(constant_id = 4) const uint kMyCols = 4;
layout(constant_id = 5) const uint kDown = 16;
layout(constant_id = 6) const uint kAcross = 16;
layout(constant_id = 7) const uint kSteps = 16;
layout(constant_id = 8) const uint kFetchA = 4;    // kRows kSteps / kInvocations
layout(constant_id = 9) const uint kFetchB = 4;    // kCols kSteps / kInvocations
layout(constant_id = 10) const uint kPartA = 1040;  // (kRows + 1) kSteps: one more spreads the banks
layout(constant_id = 11) const uint kPartB = 1040;
layout(constant_id = 12) const bool kBias = false;
layout(constant_id = 13) const bool kResidual = false;
layout(constant_id = 14) const uint kActivation = 0;

shared float a_part[kPartA];
shared float b_part[kPartB];
float sum[kMyRows][kMyCols];
float a_next[kFetchA], b_next[kFetchB];
// Whether neighboring invocations fetch neighboring steps, or else rows (columns).
bool a_along = true, b_along = false;

uint a_row(const uint t) { return a_along ? t / kSteps : t % kRows; }
uint a_step(const uint t) { return a_along ? t % kSteps : t / kRows; }
uint b_col(const uint t) { return b_along ? t / kSteps : t % kCols; }
uint b_step(const uint t) { return b_along ? t % kSteps : t / kCols; }

// a_next[e] = a[a_row(t), step + a_step(t)] for t = gl_LocalInvocationID.x + e kInvocations, and
// b_next in the same way; 0 beyond the ends.
void fetch(const uint step);

void multiply(const uint k) {
  const uint me = gl_LocalInvocationID.x, down = me / kAcross, across = me % kAcross;
  [[unroll]] for (uint i = 0; i < kMyRows; ++i)
    [[unroll]] for (uint j = 0; j < kMyCols; ++j) sum[i][j] = 0.0;
  fetch(0);
  for (uint step = 0; step < k; step += kSteps) {
    barrier();
    [[unroll]] for (uint e = 0; e < kFetchA; ++e) {
      const uint t = me + e * kInvocations;
      a_part[a_step(t) * (kRows + 1) + a_row(t)] = a_next[e];
    }
    [[unroll]] for (uint e = 0; e < kFetchB; ++e) {
      const uint t = me + e * kInvocations;
      b_part[b_step(t) * (kCols + 1) + b_col(t)] = b_next[e];
    }
    barrier();
    if (step + kSteps < k) fetch(step + kSteps);
    for (uint p = 0; p < kSteps; ++p) {
      float u[kMyRows], v[kMyCols];
      [[unroll]] for (uint i = 0; i < kMyRows; ++i) u[i] = a_part[p * (kRows + 1) + down + i * kDown];
      [[unroll]] for (uint j = 0; j < kMyCols; ++j) v[j] = b_part[p * (kCols + 1) + across + j * kAcross];
      [[unroll]] for (uint i = 0; i < kMyRows; ++i)
        [[unroll]] for (uint j = 0; j < kMyCols; ++j) sum[i][j] += u[i] * v[j];
    }
  }
}

// Calls body(r, s, value) for each result of this invocation, at row r and column s of the group.
#define EACH_RESULT(body)                                       \
  [[unroll]] for (uint i = 0; i < kMyRows; ++i)                 \
    [[unroll]] for (uint j = 0; j < kMyCols; ++j) {             \
      const uint r = gl_LocalInvocationID.x / kAcross + i * kDown;   \
      const uint s = gl_LocalInvocationID.x % kAcross + j * kAcross; \
      float value = sum[i][j];                                  \
      body                                                      \
    }
