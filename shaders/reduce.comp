// SPDX-License-Identifier: Apache-2.0
// One result from many elements, for any dims and strides. A group of 64 invocations works on one
// result (kTogether) or on 64; the order of additions depends on the sizes alone.
//   kWhat: 0 sum, 1 prod, 2 mean, 3 amax, 4 amin, 5 all, 6 any, 7 argmax, 8 argmin, 9 max and
//   index, 10 min and index, 11 var (of two passes), 12 sum |x|^p, 13 max |x|, 14 min |x|
// Parameters: results, elements, kept rank, kept sizes, strides, rank, sizes, strides, then a number.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint kWhat = 0;
layout(constant_id = 1) const bool kTogether = true;
#include "common.glsl"
#include "math.glsl"
layout(binding = 1) buffer Y { RESULT y[]; };
layout(binding = 2) readonly buffer X { ELEMENT x[]; };
layout(binding = 3) buffer Index { ivec2 index[]; };
#define AT 3
shared SUM part[64];
shared uint part_index[64];

SUM power(const SUM v) {
#ifdef FLOATS
  const float p = F(AT + 4 + 2 * P(AT + 2) + 2 * P(AT + 3 + 2 * P(AT + 2)));
  const float a = abs(v);
  if (p == 0.0) return v == 0.0 ? 0.0 : 1.0;
  if (p == 1.0) return a;
  if (p == 2.0) return a * a;
  return a == 0.0 ? 0.0 : op_exp(p * op_log(a));
#else
  return v;
#endif
}
bool is_odd_one(const SUM v) {
#ifdef FLOATS
  return is_nan(v);
#else
  return false;
#endif
}
// Whether v at i replaces the best so far. NaN is both largest and smallest; the first of equal
// ones stays.
bool better(const SUM v, const uint i, const SUM best, const uint best_i, const bool largest) {
  if (is_odd_one(best)) return is_odd_one(v) && i < best_i;
  if (is_odd_one(v)) return true;
  if (v == best) return i < best_i;
  return largest ? v > best : v < best;
}

void main() {
  uint what = kWhat;  // not const: tools disagree about operators on specialization constants
  const uint kept_rank = P(AT + 2), rank_at = AT + 3 + 2 * kept_rank, rank = P(rank_at);
  const uint count = P(AT + 1);
  const uint result = kTogether ? group_number() : invocation();
  const bool mine = result < P(AT);
  int base = int(P(1));
  uint rest = mine ? result : 0u;
  for (uint d = kept_rank; d-- > 0u;) {
    const uint size = P(AT + 3 + d);
    base += int(rest % size) * S(AT + 3 + kept_rank + d);
    rest /= size;
  }
  const uint me = kTogether ? gl_LocalInvocationID.x : 0u, step = kTogether ? 64u : 1u;
  const bool largest = what == 3 || what == 7 || what == 9 || what == 13;
  const bool searches = what == 3 || what == 4 || what >= 7 && what <= 10 || what >= 13;
  SUM state = what == 1 || what == 5 ? SUM(1) : SUM(0);
  uint best = 0xffffffffu;
  SUM mean = SUM(0);
  for (uint pass = what == 11 ? 0u : 1u; pass < 2u; ++pass) {
    state = what == 1 || what == 5 ? SUM(1) : SUM(0);
    for (uint i = me; i < count; i += step) {
      int at = base;
      uint left = i;
      for (uint d = rank; d-- > 0u;) {
        const uint size = P(rank_at + 1 + d);
        const uint next = d == 0u ? 0u : left / size;
        at += int(left - next * size) * S(rank_at + 1 + rank + d);
        left = next;
      }
      SUM v = LOAD(x[uint(at)]);
      if (what == 11) v = pass == 0u ? v : (v - mean) * (v - mean);
      if (what == 12) v = power(v);
      if (what >= 13) v = v < SUM(0) ? -v : v;
      if (what == 1) state *= v;
      else if (what == 5) state = state != SUM(0) && v != SUM(0) ? SUM(1) : SUM(0);
      else if (what == 6) state = state != SUM(0) || v != SUM(0) ? SUM(1) : SUM(0);
      else if (!searches) state += v;
      else if (best == 0xffffffffu || better(v, i, state, best, largest)) {
        state = v;
        best = i;
      }
    }
    if (kTogether) {
      part[me] = state;
      part_index[me] = best;
      for (uint half_of = 32u; half_of > 0u; half_of /= 2u) {
        barrier();
        if (me < half_of) {
          const SUM a = part[me], b = part[me + half_of];
          const uint ai = part_index[me], bi = part_index[me + half_of];
          if (what == 1) part[me] = a * b;
          else if (what == 5) part[me] = a != SUM(0) && b != SUM(0) ? SUM(1) : SUM(0);
          else if (what == 6) part[me] = a != SUM(0) || b != SUM(0) ? SUM(1) : SUM(0);
          else if (!searches) part[me] = a + b;
          else if (bi != 0xffffffffu && (ai == 0xffffffffu || better(b, bi, a, ai, largest))) {
            part[me] = b;
            part_index[me] = bi;
          }
        }
      }
      barrier();
      state = part[0];
      best = part_index[0];
      barrier();
    }
    if (pass == 0u) mean = state / SUM(count);
  }
  if (!mine || me != 0u) return;
#ifdef FLOATS
  const float number = F(rank_at + 1 + 2 * rank);
  if (what == 2) state = state / float(count);
  if (what == 11) state = state / max(float(count) - number, 0.0);
  if (what == 12 && number != 0.0 && number != 1.0)
    state = number == 2.0 ? sqrt(state) : state == 0.0 ? 0.0 : op_exp(op_log(state) / number);
#endif
  if (what == 7 || what == 8) {
    index[P(2) + result] = ivec2(int(best), 0);
    return;
  }
  y[P(0) + result] = STORE(state);
  if (what == 9 || what == 10) index[P(2) + result] = ivec2(int(best), 0);
}
