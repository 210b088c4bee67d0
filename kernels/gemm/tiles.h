// SPDX-License-Identifier: Apache-2.0
// Divides products: rows into blocks that fit registers, packed parts that fit a cache, and tiles
// that threads share. Independent of the operands.
#pragma once

#include <cstdint>
#include <new>
#include <vector>

#include "hg/kernel.h"
#include "kernels/blocking.h"
#include "lib/parallel/shared_parts.h"

namespace hg::kernels {

// The number of rows in the next block if `left` rows are left: blocks are as equal as possible.
inline int block_rows(int64_t left, int mr) {
  const int64_t blocks = (left + mr - 1) / mr;
  return static_cast<int>((left + blocks - 1) / blocks);
}

// The first rows of at most `parts` equal parts of the blocks of `rows`, and the end.
inline std::vector<int64_t> row_parts(int64_t rows, int mr, int64_t parts) {
  const int64_t blocks = (rows + mr - 1) / mr;
  if (parts > blocks) parts = blocks;
  std::vector<int64_t> first;
  int64_t done = 0;
  for (int64_t i = 0; i < rows; i += block_rows(rows - i, mr), ++done)
    if (done == part_begin(blocks, parts, static_cast<int64_t>(first.size()))) first.push_back(i);
  first.push_back(rows);
  return first;
}

// The smallest number of tiles from `least` to `most` that threads share equally, if each counts
// `times`; `least` if there is none.
inline int64_t shared_equally(int64_t least, int64_t most, int64_t times, int64_t threads) {
  int64_t tiles = least;
  while (tiles < most && tiles * times % threads != 0) ++tiles;
  return tiles * times % threads == 0 ? tiles : least;
}

// The end of the blocks from `begin` on whose packed rows, of length `depth`, stay in the
// second-level cache while all columns pass.
inline int64_t end_of_rows(int64_t begin, int64_t rows, int64_t depth, int mr) {
  int64_t end = begin;
  do end += block_rows(rows - end, mr);
  while (end < rows && (end - begin + mr) * depth <= kPackedRowsFloats);
  return end;
}

// Copies a[rows, k] into the blocks of block_rows, each [k, rows of the block].
inline void pack_rows(int64_t rows, int64_t k, const float* a, int64_t a_row, int64_t a_col, int mr,
                      float* to) {
  int count;
  for (int64_t i = 0; i < rows; i += count, to += count * k) {
    count = block_rows(rows - i, mr);
    const float* from = a + i * a_row;
    float* at = to;
    for (int64_t p = 0; p < k; ++p, from += a_col)
      for (int r = 0; r < count; ++r) *at++ = from[r * a_row];
  }
}

// Runs body(tile, slot) for every tile in [0, tiles). slot is memory of slot_bytes that no other
// tile uses at the same time. Workspace: tile_workspace(). The work of a tile must not depend on
// the slot. A lane begins with its own part of the tiles, neighbors that are likely to be in its
// cache, and then helps other lanes.
inline int64_t tile_lanes(const PrepareContext& c, int64_t tiles) {
  const int64_t threads = c.threads() < 1 ? 1 : c.threads();
  return tiles < threads ? (tiles < 1 ? 1 : tiles) : threads;
}
inline int64_t slot_step(int64_t slot_bytes) { return (slot_bytes + 63) / 64 * 64; }
inline int64_t tile_workspace(int64_t lanes, int64_t slot_bytes) {
  return lanes * (static_cast<int64_t>(sizeof(SharedPart)) + slot_step(slot_bytes));
}
// The slot of a lane. Data that a tile leaves there is available to the lane's next tile.
inline float* tile_slot(const RunContext& c, int64_t lanes, int64_t slot_bytes, int64_t lane) {
  char* const slots = reinterpret_cast<char*>(c.workspace<SharedPart>() + lanes);
  return reinterpret_cast<float*>(slots + lane * slot_step(slot_bytes));
}
// The work of the busiest lane of for_tiles if lanes do not help each other.
template <class Cost>
double busiest_lane(int64_t tiles, int64_t lanes, const Cost& cost) {
  double most = 0;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    double sum = 0;
    for (int64_t i = part_begin(tiles, lanes, lane); i < part_begin(tiles, lanes, lane + 1); ++i)
      sum += cost(i);
    if (sum > most) most = sum;
  }
  return most;
}
template <class Body>
void for_tiles(const RunContext& c, int64_t tiles, int64_t lanes, int64_t slot_bytes,
               const Body& body) {
  const auto slot_of = [&](int64_t lane) { return tile_slot(c, lanes, slot_bytes, lane); };
  if (lanes <= 1) {
    for (int64_t tile = 0; tile < tiles; ++tile) body(tile, slot_of(0));
    return;
  }
  SharedPart* const parts = c.workspace<SharedPart>();
  for (int64_t lane = 0; lane < lanes; ++lane) new (parts + lane) SharedPart(tiles, lanes, lane);
  c.parallel_for(lanes, 1, [&](int64_t lane, int64_t) {
    take_parts(parts, lanes, lane, [&](int64_t tile) { body(tile, slot_of(lane)); });
  });
}

}  // namespace hg::kernels
