// SPDX-License-Identifier: Apache-2.0
// Products of tiles: AMX of Intel's Software Developer's Manual (volume 1, chapter 18), for the
// table of HG_SIMD_AMX. A tile is 16 rows of 64 bytes. A product adds to 16 x 16 sums of 32 bits:
// four bytes or two bf16 of a row of `a`, times those of a column of `b`. Written in assembly, as
// in kernels/simd/dot-inl.h. Included once for every instruction set.
#if defined(HG_KERNELS_AMX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HG_KERNELS_AMX_INL_H_
#undef HG_KERNELS_AMX_INL_H_
#else
#define HG_KERNELS_AMX_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/simd/tile_side.h"

#undef HG_HAS_TILES  // where the instructions belong to a set of Isa
#if HWY_TARGET == HWY_AVX3 && defined(__x86_64__) && !defined(HG_SMALL)
#define HG_HAS_TILES 1

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {

constexpr int64_t kTileRowBytes = kTileSide * 4, kTileBytes = kTileSide * kTileRowBytes;

struct alignas(64) TileSizes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
// A thread begins with this before its first product: all eight tiles have their largest size.
inline void begin_tiles() {
  static constexpr TileSizes kLargest;
  asm volatile("ldtilecfg %0" : : "m"(kLargest));
}
// Or with this: a, in tiles 4 and 5, has 32 bytes in a row, and b, in tiles 6 and 7, 8 rows.
inline void begin_half_tiles() {
  static constexpr TileSizes kHalf = {.row_bytes = {64, 64, 64, 64, 32, 32, 64, 64},
                                      .rows = {16, 16, 16, 16, 16, 16, 8, 8}};
  asm volatile("ldtilecfg %0" : : "m"(kHalf));
}
// After the last product: from here on, the system need not save tiles.
inline void end_tiles() { asm volatile("tilerelease"); }

template <int kTile>
HWY_INLINE void clear_tile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}
template <int kTile>
HWY_INLINE void load_tile(const void* from, int64_t row_bytes) {
  asm volatile("tileloadd (%1,%2,1), %%tmm%c0"
               :
               : "i"(kTile), "r"(from), "r"(row_bytes)
               : "memory");
}
template <int kTile>
HWY_INLINE void store_tile(void* to, int64_t row_bytes) {
  asm volatile("tilestored %%tmm%c0, (%1,%2,1)" : : "i"(kTile), "r"(to), "r"(row_bytes) : "memory");
}

enum class TileNumbers {
  bytes,           // i8 times u8, in i32
  unsigned_bytes,  // u8 times i8, in i32
  signed_bytes,    // i8 times i8, in i32
  bf16,            // in f32
};

template <TileNumbers kNumbers, int kSums, int kA, int kB>
HWY_INLINE void add_tile_product() {
  if constexpr (kNumbers == TileNumbers::bytes)
    asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kA), "i"(kB));
  else if constexpr (kNumbers == TileNumbers::unsigned_bytes)
    asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kA), "i"(kB));
  else if constexpr (kNumbers == TileNumbers::signed_bytes)
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kA), "i"(kB));
  else
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kA), "i"(kB));
}

// What the products of a block bring to the second-level cache meanwhile: some lines in each step.
struct TilePrefetch {
  const char* at = nullptr;
  int64_t lines = 0;

  HWY_INLINE void bring() {
    for (int64_t line = 0; line < lines; ++line, at += 64) __builtin_prefetch(at, 0, 2);
  }
};

// kRows x kColumns tiles of sums, one or two each. Tiles 0 to 3 hold them, row by row.
template <TileNumbers kNumbers, int kRows, int kColumns>
struct TileBlock {
  static HWY_INLINE void clear() {
    clear_tile<0>();
    if constexpr (kColumns == 2) clear_tile<1>();
    if constexpr (kRows == 2) clear_tile<2>();
    if constexpr (kRows == 2 && kColumns == 2) clear_tile<3>();
  }

  // b and a: the first tiles, with the distance of their rows, which should be multiples of 64
  // bytes; `second`: the second tile of a. Several a can be multiplied by one b.
  static HWY_INLINE void load_b(const char* b, int64_t b_row) {
    load_tile<6>(b, b_row);
    if constexpr (kColumns == 2) load_tile<7>(b + kTileRowBytes, b_row);
  }
  static HWY_INLINE void add_product(const char* a, const char* second, int64_t a_row) {
    load_tile<4>(a, a_row);
    add_tile_product<kNumbers, 0, 4, 6>();
    if constexpr (kColumns == 2) add_tile_product<kNumbers, 1, 4, 7>();
    if constexpr (kRows == 2) {
      load_tile<5>(second, a_row);
      add_tile_product<kNumbers, 2, 5, 6>();
      if constexpr (kColumns == 2) add_tile_product<kNumbers, 3, 5, 7>();
    }
  }
  static HWY_INLINE void add_step(const char* a, const char* second, int64_t a_row, const char* b,
                                  int64_t b_row) {
    load_b(b, b_row);
    add_product(a, second, a_row);
  }
  // Adds `steps` products along k. a_step, b_step: of the next tile along k.
  static HWY_INLINE void add(int64_t steps, const char* a, int64_t a_row, int64_t a_step,
                             const char* b, int64_t b_row, int64_t b_step, TilePrefetch next = {}) {
    for (; steps > 0; --steps, a += a_step, b += b_step) {
      next.bring();
      add_step(a, a + kTileSide * a_row, a_row, b, b_row);
    }
  }

  static HWY_INLINE void store(void* to, int64_t row_bytes) {
    char* const first = static_cast<char*>(to);
    char* const second = first + kTileSide * row_bytes;
    store_tile<0>(first, row_bytes);
    if constexpr (kColumns == 2) store_tile<1>(first + kTileRowBytes, row_bytes);
    if constexpr (kRows == 2) store_tile<2>(second, row_bytes);
    if constexpr (kRows == 2 && kColumns == 2) store_tile<3>(second + kTileRowBytes, row_bytes);
  }
};

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
#endif
