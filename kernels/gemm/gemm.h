// SPDX-License-Identifier: Apache-2.0
// The inner loops of matrix products in f32: y[m, n] = a[m, k] b[k, n]. b is read in panels of `nr`
// columns, each [k, nr] and padded with zeros; a with any strides. gemm_simd.cpp has them for every
// instruction set; gemm.cpp has the loops around them.
#pragma once

#include <atomic>
#include <cstdint>
#include <new>
#include <vector>

#include "hg/kernel.h"
#include "kernels/pointwise/activation.h"

namespace hg::kernels {

// What happens to a finished block of y before it is stored for good; pointers are at the block.
struct Epilogue {
  Activation activation = Activation::none;
  const float* row_bias = nullptr;     // one for each row of y
  const float* column_bias = nullptr;  // one for each column
  const float* residual = nullptr;     // like y, with the same distance of rows
  bool empty() const {
    return activation == Activation::none && !row_bias && !column_bias && !residual;
  }
};

// One block of y, rows <= mr: y[rows, columns] (+)= a[rows, k] b, and then the epilogue where there
// is one. A block that more of k is still to be added to has none.
struct Block {
  int rows = 0;
  int64_t k = 0;
  const float* a = nullptr;
  int64_t a_row = 0, a_col = 0;
  float* y = nullptr;
  int64_t y_row = 0;
  bool add = false;
  const Epilogue* epilogue = nullptr;  // pointers at the block
};

// Two vectors of columns that lie anywhere: row p of b is read at x[v] + offset[p], whole vectors
// of it; column 0 of vector v is y's column at[v], and `valid` columns of it are stored.
struct Columns {
  int vectors = 0;
  const float* x[2] = {};
  int64_t at[2] = {};
  int valid[2] = {};
  int shared = 0;  // the first columns of vector 1 that are columns of vector 0 too
};

// A block of rows under every panel of b: y[rows, columns] (+)= a[rows, k] b[k, columns].
struct Sweep {
  int64_t rows = 0, columns = 0, k = 0;
  // Rows from the first one to the end of a, on which the sizes of the blocks depend.
  int64_t left = 0;
  const float* a = nullptr;
  bool is_packed = false;  // a is what pack_rows made; otherwise it has these strides
  int64_t a_row = 0, a_col = 0;
  const float* panels = nullptr;
  int64_t panel_step = 0;  // from one panel to the next
  float* y = nullptr;
  int64_t y_row = 0;
  bool add = false;
  const Epilogue* epilogue = nullptr;  // pointers at the first element
};

struct GemmTable {
  int mr = 0, nr = 0;  // rows and columns of y that registers hold: nr is two vectors
  // b is a panel; columns <= nr.
  void (*block)(const Block& block, int columns, const float* panel) = nullptr;
  void (*sweep)(const Sweep& sweep) = nullptr;
  // column_bias does not serve here.
  void (*gather)(const Block& block, const Columns& columns, const int64_t* offset) = nullptr;
  void (*finish)(int64_t rows, int64_t columns, const Epilogue& e, float* y,
                 int64_t y_row) = nullptr;
  // Copies b[k, columns] (strides b_row, b_col) into panels; panel_step elements lie between the
  // starts of two panels.
  void (*pack)(int64_t k, int64_t columns, const float* b, int64_t b_row, int64_t b_col, float* to,
               int64_t panel_step) = nullptr;
  // As the function pack_rows, where a is contiguous along k; writes up to 3 floats beyond.
  void (*pack_rows)(int64_t rows, int64_t k, const float* a, int64_t a_row, float* to) = nullptr;
  // Copies one row of b into row 0 of its panels; what is missing in the last one becomes 0.
  void (*spread)(int64_t columns, const float* row, float* to, int64_t panel_step) = nullptr;
};

const GemmTable& gemm_table();

// How many rows the next block takes when `left` are left: blocks as equal as they can be.
inline int block_rows(int64_t left, int mr) {
  const int64_t blocks = (left + mr - 1) / mr;
  return static_cast<int>((left + blocks - 1) / blocks);
}

// Where part `index` of `parts` begins, which are as equal as they can be.
inline int64_t part_begin(int64_t count, int64_t parts, int64_t index) {
  return count * index / parts;
}

// Where each of at most `parts` equal parts of the blocks of `rows` begins, and the end.
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

// The first number of tiles from `least` to `most` that threads share equally, when each counts
// `times`; `least` where there is none.
inline int64_t shared_equally(int64_t least, int64_t most, int64_t times, int64_t threads) {
  int64_t tiles = least;
  while (tiles < most && tiles * times % threads != 0) ++tiles;
  return tiles * times % threads == 0 ? tiles : least;
}

// The end of the blocks from `begin` on whose packed rows, `depth` long, stay in the second cache
// while all columns pass by.
inline int64_t end_of_rows(int64_t begin, int64_t rows, int64_t depth, int mr) {
  constexpr int64_t kFloats = 32768;
  int64_t end = begin;
  do end += block_rows(rows - end, mr);
  while (end < rows && (end - begin + mr) * depth <= kFloats);
  return end;
}

// Copies a[rows, k] into the blocks that block_rows makes of it, each [k, rows of the block].
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

// Runs body(tile, slot) for every tile in [0, tiles), where slot is memory of slot_bytes that no
// other tile uses at the same time. Workspace: tile_workspace(). Which tile does what must not
// depend on the slot. A lane begins with its own part of the tiles, neighbours that are likely to
// be in its cache, and then helps the others.
inline constexpr int64_t kTileCounterBytes = 64;  // of a lane
inline int64_t tile_lanes(const PrepareContext& c, int64_t tiles) {
  const int64_t threads = c.threads() < 1 ? 1 : c.threads();
  return tiles < threads ? (tiles < 1 ? 1 : tiles) : threads;
}
inline int64_t tile_workspace(int64_t lanes, int64_t slot_bytes) {
  return lanes * (kTileCounterBytes + (slot_bytes + 63) / 64 * 64);
}
// The slot that a lane uses; it keeps what a tile left there for the lane's next one.
inline float* tile_slot(const RunContext& c, int64_t lanes, int64_t slot_bytes, int64_t lane) {
  return reinterpret_cast<float*>(c.workspace<char>() + lanes * kTileCounterBytes +
                                  lane * ((slot_bytes + 63) / 64 * 64));
}
// What the busiest lane of for_tiles has to do where none helps another.
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
  char* base = c.workspace<char>();
  const auto slot_of = [&](int64_t lane) { return tile_slot(c, lanes, slot_bytes, lane); };
  if (lanes <= 1) {
    for (int64_t tile = 0; tile < tiles; ++tile) body(tile, slot_of(0));
    return;
  }
  using Counter = std::atomic<int64_t>;
  const auto next_of = [&](int64_t lane) {
    return reinterpret_cast<Counter*>(base + lane * kTileCounterBytes);
  };
  for (int64_t lane = 0; lane < lanes; ++lane)
    new (next_of(lane)) Counter(part_begin(tiles, lanes, lane));
  c.parallel_for(lanes, 1, [&](int64_t lane, int64_t) {
    for (int64_t k = 0; k < lanes; ++k) {
      const int64_t part = (lane + k) % lanes, end = part_begin(tiles, lanes, part + 1);
      for (int64_t tile; (tile = next_of(part)->fetch_add(1, std::memory_order_relaxed)) < end;)
        body(tile, slot_of(lane));
    }
  });
}

}  // namespace hg::kernels
