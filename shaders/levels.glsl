// SPDX-License-Identifier: Apache-2.0
// A weight [n, k] of 8- or 4-bit levels, which are unpacked as they are read: level * scale + offset
// (lib/ops/low_bits.cpp). The including shader defines
//   LEVELS, SCALES: bindings; the offsets follow the scales
//   CONSTANTS: the first of three specialization constants
//   PARAMS: where these parameters begin: group, rows or columns in the low halves of bytes, and two strides each
//   of levels, scales and offsets
layout(constant_id = CONSTANTS) const uint kPacking = 0;  // hg::Packing
layout(constant_id = CONSTANTS + 1) const bool kOffsets = false;
layout(constant_id = CONSTANTS + 2) const bool kSumsRows = false;  // products sum over n instead of k
layout(binding = LEVELS) readonly buffer Levels { uint levels[]; };
layout(binding = SCALES) readonly buffer Scales { float scales[]; };
layout(binding = SCALES + 1) readonly buffer Offsets { float offsets[]; };

float weight(const uint row, const uint col) {
  const uint low = P(PARAMS + 1), group = col / P(PARAMS);
  uint r = row, p = col;
  bool high = false;
  if (kPacking == 1) {
    high = row >= low;
    r = high ? row - low : row;
  } else if (kPacking == 2) {
    high = col >= low;
    p = high ? col - low : col;
  } else if (kPacking == 3) {
    high = col % 2 == 1;
    p = col / 2;
  }
  const uint at = uint(int(P(LEVELS - 1)) + int(r) * S(PARAMS + 2) + int(p) * S(PARAMS + 3));
  const int level = bitfieldExtract(int(levels[at / 4]), int(8 * (at % 4) + (high ? 4 : 0)), kPacking == 0 ? 8 : 4);
  precise float value =
      float(level) * scales[uint(int(P(SCALES - 1)) + int(row) * S(PARAMS + 4) + int(group) * S(PARAMS + 5))];
  if (kOffsets) value += offsets[uint(int(P(SCALES)) + int(row) * S(PARAMS + 6) + int(group) * S(PARAMS + 7))];
  return value;
}

// The factor of a product at step p of its sum, for column s of the result.
float weight_at(const uint p, const uint s) { return kSumsRows ? weight(p, s) : weight(s, p); }
