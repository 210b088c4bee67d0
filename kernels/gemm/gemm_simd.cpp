// SPDX-License-Identifier: Apache-2.0
// The inner loops of gemm.h for every instruction set. A block of y of mr x nr elements stays in
// registers during the loop over k: 6 rows of two vectors with 16 registers, 12 rows with 32.
#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "kernels/blocking.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/tiles.h"
#include "kernels/saves_code.h"
#include "lib/table/holds.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/gemm_simd.cpp"
// clang-format off
#include "kernels/simd/simd.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "hwy/cache_control.h"
#include "kernels/gemm/gemm_finish-inl.h"
#include "kernels/gemm/gemm_pack-inl.h"
#include "kernels/gemm/gemm_squares-inl.h"
#include "kernels/gemm/gemm_tiles-inl.h"
#include "kernels/simd/rows-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hg::kernels::HWY_NAMESPACE {
// Positions of the vectors of row p of b.
struct InPanel {
  const float* panel;
  HWY_INLINE const float* row(int64_t p, int v) const { return panel + p * kNr + v * kLanes; }
};
struct Gathered {
  const float* x[2];
  const int64_t* offset;
  HWY_INLINE const float* row(int64_t p, int v) const { return x[v] + offset[p]; }
};

// Products of bf16: AVX-512 BF16, which Highway 1.0.3 lacks, is written in assembly, so that the
// rest of the set is compiled without it (Intel's Software Developer's Manual, VDPBF16PS). Arm has
// blocks of its own.
#undef HG_HAS_PAIRS
#if (HWY_TARGET == HWY_AVX3 && !defined(HG_SMALL)) || defined(HG_HAS_SQUARES)
#define HG_HAS_PAIRS 1
struct Pairs : InPanel {};
#endif

// sum + factor * b, in pairs the sum of two products.
template <class Source>
HWY_INLINE V add_product(V factor, V b, V sum) {
#if defined(HG_HAS_PAIRS) && HWY_TARGET == HWY_AVX3
  if constexpr (std::is_same_v<Source, Pairs>) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(factor.raw), "v"(b.raw));
    return sum;
  }
#endif
  return hn::MulAdd(factor, b, sum);
}

// Prefetches a line that will be written: another processor may own it.
HWY_INLINE void expect_write(const float* at) {
#if HWY_ARCH_X86
  asm volatile("prefetchw %0" : : "m"(*at));
#else
  __builtin_prefetch(at, 1, 3);
#endif
}

template <int kRows, int kVectors>
HWY_INLINE void store_sums(const Block& block, V (&sums)[kRows][kVectors], const int64_t* at) {
  const D d;
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[i][v], d, block.y + i * block.y_row + at[v]);
}

template <int kRows, int kVectors>
HWY_INLINE void store_whole(const Block& block, V (&sums)[kRows][kVectors], const int64_t* at) {
  const D d;
  float* const y = block.y;
  const int64_t y_row = block.y_row;
  if (block.add) {
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v)
        sums[i][v] = hn::Add(hn::LoadU(d, y + i * y_row + at[v]), sums[i][v]);
  }
  if (block.epilogue != nullptr) {
    const Epilogue& e = *block.epilogue;
    if (e.row_bias != nullptr) {
#pragma GCC unroll 12
      for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v)
          sums[i][v] = hn::Add(sums[i][v], hn::Set(d, e.row_bias[i]));
    }
    if (e.column_bias != nullptr) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        const V bias = hn::LoadU(d, e.column_bias + at[v]);
#pragma GCC unroll 12
        for (int i = 0; i < kRows; ++i) sums[i][v] = hn::Add(sums[i][v], bias);
      }
    }
    if (e.residual != nullptr) {
#pragma GCC unroll 12
      for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v)
          sums[i][v] = hn::Add(sums[i][v], hn::LoadU(d, e.residual + i * y_row + at[v]));
    }
    if (e.activation == Activation::relu || e.activation == Activation::relu6) {
      const bool has_high = e.activation == Activation::relu6;
#pragma GCC unroll 12
      for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) sums[i][v] = clamped(sums[i][v], has_high);
    }
  }
  store_sums(block, sums, at);
}

// Packed rows of a are one stream, which comes from the second-level cache or from memory. Other
// rows lose nothing.
constexpr int64_t kPackedAhead = 512;
// A larger y leaves the second-level cache. Shorter products are no time to wait for memory.
constexpr int64_t kFarFloats = 1 << 18, kFarDepth = 32;

// Adds the product of a column of a and row p of b. at(i) is the element of row i.
template <int kRows, int kVectors, class Source, class At>
HWY_INLINE void add_row(const Source& source, int64_t p, const At& at, V (&sums)[kRows][kVectors]) {
  const D d;
  V b[kVectors];
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) b[v] = hn::LoadU(d, source.row(p, v));
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
    const V factor = hn::Set(d, *at(i));
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sums[i][v] = add_product<Source>(factor, b[v], sums[i][v]);
  }
}

// Adds as many rows as possible, `kUnrolled` at a time, and returns their number. Where another
// thread shares the core, perhaps of another machine, each issues half as many instructions, and
// those between the products count: 25 of a plain loop take 1.3 times the time of 21.
constexpr int kUnrolled = 4;

template <int kRows, int kVectors, class Source>
HWY_INLINE int64_t add_packed(const Block& block, const Source& source,
                              V (&sums)[kRows][kVectors]) {
  const float* HWY_RESTRICT a = block.a;
  int64_t p = 0;
  for (; p + kUnrolled <= block.k; p += kUnrolled, a += kUnrolled * kRows) {
    for (int ahead = 0; ahead < kUnrolled * kRows; ahead += 16)
      hwy::Prefetch(a + kPackedAhead + ahead);
#pragma GCC unroll 4
    for (int u = 0; u < kUnrolled; ++u)
      add_row(
          source, p + u, [&](int i) HWY_ATTR { return a + u * kRows + i; }, sums);
  }
  return p;
}

// Three rows share a pointer: an address can name those at once and twice their distance.
template <int kRows, int kVectors, class Source>
HWY_INLINE int64_t add_contiguous(const Block& block, const Source& source,
                                  V (&sums)[kRows][kVectors]) {
  constexpr int kGroups = (kRows + 2) / 3;
  const int64_t a_row = block.a_row;
  const float* a[kGroups];
  for (int g = 0; g < kGroups; ++g) a[g] = block.a + 3 * g * a_row;
  int64_t p = 0;
  for (; p + 2 <= block.k; p += 2) {
#pragma GCC unroll 2
    for (int u = 0; u < 2; ++u)
      add_row(
          source, p + u, [&](int i) HWY_ATTR { return a[i / 3] + i % 3 * a_row + u; }, sums);
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) a[g] += 2;
  }
  return p;
}

// kWhole: all columns of the vectors are stored.
template <int kRows, int kVectors, bool kWhole, class Source>
void block_of(const Block& block, const Source& source, const int64_t* at, const int* valid) {
  const D d;
  const int64_t k = block.k, a_row = block.a_row, a_col = block.a_col;
  const float* HWY_RESTRICT a = block.a;
  V sums[kRows][kVectors];
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::Zero(d);
  // Meanwhile prefetches the old values of y, or the lines that the next blocks write. With b in
  // panels, stores can wait, unless y comes from memory.
  if (block.add) {
    for (int i = 0; i < kRows; ++i) hwy::Prefetch(block.y + i * block.y_row + at[0]);
  } else if constexpr (std::is_same_v<Source, Gathered>) {
    constexpr int64_t kAhead = 3 * kNr;
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) expect_write(block.y + i * block.y_row + at[v] + kAhead);
  } else if (!kSavesCode && block.is_far) {
    const float* const residual = block.epilogue ? block.epilogue->residual : nullptr;
    for (int i = 0; i < kRows; ++i)
      for (int v = 0; v < kVectors; ++v) {
        expect_write(block.y + i * block.y_row + at[v]);
        if (residual) hwy::Prefetch(residual + i * block.y_row + at[v]);
      }
  }
  int64_t p = 0;
  if constexpr (!kSavesCode) {
    if (a_row == 1 && a_col == kRows)
      p = add_packed(block, source, sums);
    else if (a_col == 1)
      p = add_contiguous(block, source, sums);
  }
  for (a += p * a_col; p < k; ++p, a += a_col)
    add_row(
        source, p, [&](int i) HWY_ATTR { return a + i * a_row; }, sums);
  if constexpr (kWhole) {
    store_whole(block, sums, at);
  } else {
#if defined(HG_SMALL)
    if (!block.add && block.epilogue == nullptr && valid[0] == kLanes &&
        valid[kVectors - 1] == kLanes)
      return store_sums(block, sums, at);
#endif
    HWY_ALIGN float edge[kRows * kVectors * kLanes];
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v)
        hn::Store(sums[i][v], d, edge + (i * kVectors + v) * kLanes);
    store_edge<kVectors>(block, edge, at, valid);
  }
}

template <class Source>
using BlockFunction = void (*)(const Block&, const Source&, const int64_t*, const int*);
template <class Source, int kVectors, bool kWhole, int... kIndex>
constexpr std::array<BlockFunction<Source>, kMr> functions_of(
    std::integer_sequence<int, kIndex...>) {
  return {block_of<kIndex + 1, kVectors, kWhole, Source>...};
}
template <class Source, int kVectors, bool kWhole>
constexpr auto kBlocks =
    functions_of<Source, kVectors, kWhole>(std::make_integer_sequence<int, kMr>());

template <class Source, int kVectors>
HWY_INLINE const BlockFunction<Source>* blocks_of([[maybe_unused]] bool whole) {
#if defined(HG_SMALL)  // blocks that store parts of vectors store whole ones too
  return kBlocks<Source, kVectors, false>.data();
#else
  if constexpr (kLanes > 1)
    if (!whole) return kBlocks<Source, kVectors, false>.data();
  return kBlocks<Source, kVectors, true>.data();
#endif
}
template <class Source>
HWY_INLINE const BlockFunction<Source>* blocks_for(int vectors, const int* valid) {
  return vectors == 1 ? blocks_of<Source, 1>(valid[0] == kLanes)
                      : blocks_of<Source, 2>(valid[0] == kLanes && valid[1] == kLanes);
}

// A few columns with packed rows: vectors run along the rows, and a block is one vector.
constexpr bool kHasNarrow = kMr <= kLanes;
constexpr int kNarrow = 4;

template <int kColumns>
void narrow_of(const Block& block, const float* panel) {
  const D d;
  V sums[2][kColumns];
#pragma GCC unroll 2
  for (int t = 0; t < 2; ++t)
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) sums[t][c] = hn::Zero(d);
  const float* a = block.a;
  const auto step = [&](V(&sum)[kColumns]) HWY_ATTR {
    const V left = load_part(d, a, block.rows);
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) sum[c] = hn::MulAdd(left, hn::Set(d, panel[c]), sum[c]);
    a += block.rows;
    panel += kNr;
  };
  int64_t p = 0;
  for (; p + 2 <= block.k; p += 2) {
    step(sums[0]);
    step(sums[1]);
  }
  if (p < block.k) step(sums[0]);
#pragma GCC unroll 4
  for (int c = 0; c < kColumns; ++c) {
    HWY_ALIGN float column[kLanes];
    hn::Store(hn::Add(sums[0][c], sums[1][c]), d, column);
    float* y = block.y + c;
    for (int i = 0; i < block.rows; ++i, y += block.y_row)
      *y = block.add ? *y + column[i] : column[i];
  }
  if (block.epilogue != nullptr)
    finish(block.rows, kColumns, *block.epilogue, block.y, block.y_row);
}
constexpr void (*kNarrowBlocks[kNarrow])(const Block&, const float*) = {narrow_of<1>, narrow_of<2>,
                                                                        narrow_of<3>, narrow_of<4>};

constexpr int64_t kAt[2] = {0, kLanes};

template <class Source>
HWY_INLINE void block(const Block& block, int columns, const float* panel) {
#if defined(HG_HAS_SQUARES)
  if constexpr (std::is_same_v<Source, Pairs>) {
    square_block(block, columns, panel);
    return activate_block(block, 0, columns);
  }
#endif
  const int valid[2] = {std::min(columns, kLanes), columns - kLanes};
  blocks_for<Source>(columns > kLanes ? 2 : 1, valid)[block.rows - 1](block, {panel}, kAt, valid);
  activate_block(block, 0, columns);
}

// The row blocks of a sweep, as in block_rows, without its divisions.
struct RowBlocks {
  int least;
  int64_t longer;
  explicit RowBlocks(int64_t left) {
    const int64_t blocks = (left + kMr - 1) / kMr;
    least = static_cast<int>(left / blocks);
    longer = left % blocks;
  }
  HWY_INLINE int rows(int64_t index) const { return index < longer ? least + 1 : least; }
};

// Prefetches rows from memory to the second-level cache, in parts alongside the blocks of a panel.
struct NextRows {
  static constexpr int64_t kLine = 64;
  const char* row = nullptr;
  int64_t rows = 0, bytes = 0, step = 0, at = 0;
  int64_t each = 0;  // lines of a part

  NextRows(const char* from, int64_t count, int64_t width, int64_t distance, int64_t parts)
      : row(from), rows(count), bytes(width), step(distance) {
    each = rows * ((bytes + kLine - 1) / kLine) / parts + 1;
  }
  HWY_INLINE void bring_part() {
    for (int64_t line = 0; line < each && rows > 0; ++line) {
      __builtin_prefetch(row + at, 0, 2);
      at += kLine;
      if (at < bytes) continue;
      at = 0;
      row += step;
      --rows;
    }
  }
};

HWY_INLINE void set_rows(const Sweep& s, int rows, Block& b) {
  b.rows = rows;
  if (!s.is_packed) return;
  b.a_row = 1;
  b.a_col = rows;
}

HWY_INLINE Block block_of_sweep(const Sweep& s) {
  return {.k = s.k,
          .a_row = s.a_row,
          .a_col = s.a_col,
          .y_row = s.y_row,
          .add = s.add,
          .is_far = !kSavesCode && s.k >= kFarDepth && s.y_row * s.left > kFarFloats};
}

template <class Source>
HWY_INLINE void under_panel(const Sweep& s, const Block& b, int columns, const float* panel) {
  if constexpr (kHasNarrow && std::is_same_v<Source, InPanel>)
    if (s.is_packed && columns <= kNarrow) return kNarrowBlocks[columns - 1](b, panel);
  block<Source>(b, columns, panel);
}

// Rows of y are written in one pass each, while the panels stay in the first-level cache.
template <class Source>
void sweep_rows(const Sweep& s) {
  const RowBlocks blocks(s.left);
  Block b = block_of_sweep(s);
  Epilogue e;
  if (s.epilogue != nullptr) b.epilogue = &e;
  b.a = s.a;
  for (int64_t i = 0, index = 0; i < s.rows; i += b.rows, ++index) {
    set_rows(s, blocks.rows(index), b);
    if (s.epilogue != nullptr) e = s.epilogue->at(i, 0, s.y_row);
    b.y = s.y + i * s.y_row;
    const float* panel = s.panels;
    for (int64_t j = 0; j < s.columns; j += kNr, panel += s.panel_step) {
      under_panel<Source>(s, b, static_cast<int>(std::min<int64_t>(kNr, s.columns - j)), panel);
      b.y += kNr;
      if (e.column_bias) e.column_bias += kNr;
      if (e.residual) e.residual += kNr;
    }
    b.a += b.rows * (s.is_packed ? s.k : s.a_row);
  }
}

template <class Source>
void sweep(const Sweep& s) {
  if (s.columns > kNr && s.columns * s.k <= kFirstCacheFloats) return sweep_rows<Source>(s);
  const RowBlocks blocks(s.left);
  Block b = block_of_sweep(s);
  Epilogue e;
  if (s.epilogue != nullptr) b.epilogue = &e;
  const float* panel = s.panels;
  for (int64_t j = 0; j < s.columns; j += kNr, panel += s.panel_step) {
    const int columns = static_cast<int>(std::min<int64_t>(kNr, s.columns - j));
    if (s.epilogue != nullptr) e = s.epilogue->at(0, j, s.y_row);
    b.a = s.a;
    b.y = s.y + j;
    const bool is_last = j + kNr >= s.columns;
    const int64_t other_rows = s.near_panels ? 0 : 1;
    NextRows next(is_last ? s.next : reinterpret_cast<const char*>(panel + s.panel_step),
                  is_last ? s.next_rows : other_rows, is_last ? s.next_bytes : s.k * kNr * 4,
                  s.next_step, (s.rows + kMr - 1) / kMr);
    for (int64_t i = 0, index = 0; i < s.rows; i += b.rows, ++index) {
      next.bring_part();
      set_rows(s, blocks.rows(index), b);
      under_panel<Source>(s, b, columns, panel);
      b.a += b.rows * (s.is_packed ? s.k : s.a_row);
      b.y += b.rows * s.y_row;
      if (e.row_bias) e.row_bias += b.rows;
      if (e.residual) e.residual += b.rows * s.y_row;
    }
  }
}

void gather(const Block& block, const Columns& columns, const int64_t* offset) {
  const auto* functions = blocks_for<Gathered>(columns.vectors, columns.valid);
  functions[block.rows - 1](block, {{columns.x[0], columns.x[1]}, offset}, columns.at,
                            columns.valid);
  for (int v = 0; v < columns.vectors; ++v) {
    const int shared = v == 0 ? 0 : columns.shared;
    activate_block(block, columns.at[v] + shared, columns.valid[v] - shared);
  }
}

constexpr GemmTable kTable = {kMr,    kNr,  block<InPanel>, sweep<InPanel>, gather,
                              finish, pack, pack_some_rows, spread};

#if defined(HG_HAS_PAIRS)
#if HWY_TARGET == HWY_AVX3
// Rounds, and interleaves the bits.
HWY_INLINE V paired(V even, V odd) {
  HWY_ALIGN static constexpr uint16_t kOrder[2 * kLanes] = {
      0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  __m512i halves;
  asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(halves) : "v"(even.raw), "v"(odd.raw));
  return V{_mm512_castsi512_ps(_mm512_permutexvar_epi16(_mm512_load_si512(kOrder), halves))};
}
#endif

void spread_pairs(int64_t columns, const float* even, const float* odd, float* to,
                  int64_t panel_step) {
  const D d;
  const V none = hn::Zero(d);
  for (; columns >= kNr; columns -= kNr, even += kNr, to += panel_step) {
    for (int v = 0; v < kNr; v += kLanes)
      hn::StoreU(paired(hn::LoadU(d, even + v), odd ? hn::LoadU(d, odd + v) : none), d, to + v);
    if (odd) odd += kNr;
  }
  for (int v = 0; columns > 0 && v < kNr; v += kLanes) {
    const int valid = static_cast<int>(std::clamp<int64_t>(columns - v, 0, kLanes));
    hn::StoreU(paired(load_part(d, even + v, valid), odd ? load_part(d, odd + v, valid) : none), d,
               to + v);
  }
}

constexpr PairTable kPairTable = {
    {kMr, kNr, block<Pairs>, sweep<Pairs>, nullptr, finish, pack, pack_some_rows, spread},
    spread_pairs};
#if defined(HG_HAS_TILES)
constexpr PairTable kTilePairTable = {
    {kTileMr, kNr, nullptr, tile_sweep, nullptr, finish, pack, nullptr, spread},
    spread_pairs,
    true,
    tile_sweep_planes,
    tile_rows,
    round_numbers};
#endif
#endif

}  // namespace hg::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hg::kernels {

const GemmTable& gemm_table() { return *HG_SIMD_CHOOSE(kTable); }

const PairTable* pair_table() {
#if defined(HG_SMALL)
  return nullptr;
#else
  if constexpr (!holds(DType::bf16)) return nullptr;
  return HG_SIMD_BF16(kPairTable) HG_SIMD_NEON_BF16(kPairTable) nullptr;
#endif
}

const PairTable* tile_pair_table() {
  if constexpr (!holds(DType::bf16)) return nullptr;
  return HG_SIMD_AMX(kTilePairTable) nullptr;
}

}  // namespace hg::kernels
#endif
