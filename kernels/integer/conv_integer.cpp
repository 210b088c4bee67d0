// SPDX-License-Identifier: Apache-2.0
// Convolutions of 8-bit integers as products: y[o, pixels] = weight[o, c kernel] patches[c kernel,
// pixels]. Images are copied with zero points as padding, and columns that a stride reads together
// become adjacent, so a row of patches consists of whole pieces of lines. If the patches are x
// itself, x is read in place.
//
// With quads, images are copied as planes of four channels each. A row of patches is then such a
// plane, from the place of its kernel element on, and no patches are packed. There are two layouts:
// - One plane with its padding. Products include the columns between lines, which are not stored.
// - With strides, or if these columns would be many: a plane for each element of a kernel's row,
//   with the columns that it reads alone, so that lines follow each other without a gap. Lines that
//   a stride reads together are adjacent.
#include "kernels/integer/conv_integer.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/blocking.h"
#include "kernels/ceil_div.h"
#include "kernels/conv/column_parts.h"
#include "kernels/conv/strided_lines.h"
#include "kernels/gemm/tiles.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

constexpr int64_t kMaxColumns = 256;          // of a tile
constexpr int64_t kCopied = 16;               // bytes per copy, which may exceed an end
constexpr int64_t kTilePanelBytes = 1 << 19;  // for AMX, whose processors have larger caches
// Quads are used if the total is at most this many times the quads of all weights: without VNNI, a
// quad takes the time of 1.1 pairs.
constexpr double kMostQuads = 1.6;
constexpr int64_t kLeastPadded = 16;  // channels of a group, if they are no multiple of 4
constexpr int64_t kMostTapsOfThree = 25;
// Planes for each element of a row are used if without them the product takes more than this many
// times as long, and they have at most this many bytes. Strides always use them.
constexpr double kMostGaps = 1.02;
constexpr int64_t kMostPlaneBytes = 4 << 20;

// A piece of a line of y, and the position in its images that the first kernel element reads.
struct Piece {
  int64_t from = 0, count = 0;
};

struct ConvInteger : ColumnParts {
  ConvShape s;
  const IntegerTable* table = nullptr;
  std::vector<int64_t> elements;  // positions of [group_c, kernel] in the images of their group
  const char* packed = nullptr;   // [o] sums of i32, and from data_at on [groups][blocks of rows]
  bool plain = false;             // the patches are x itself
  bool in_quads = false;          // images consist of planes of four channels,
  bool by_element = false;        // one for each element of a kernel's row
  std::vector<int32_t> offset;    // of each quad, in columns of the planes or of a panel
  int64_t depth = 0, pairs = 0;
  Quads quads;  // instead of pairs, if they can be used
  // A copied channel: `lines` of `pitch` columns, `rows` for each z; `phase` columns for each
  // remainder of the stride. Or a plane of four channels; with a plane for each element of a row,
  // lines in the order of `by_z` and `by_y`.
  int64_t phase = 0, pitch = 0, rows = 0, lines = 0, plane = 0, line_bytes = 0;
  StridedLines by_z, by_y;
  int64_t lanes = 1, slot_bytes = 0, row_at = 0, pieces_at = 0, sums_at = 0;  // of a slot
  int64_t starts_at = 0, images_at = 0, lines_at = 0, packed_at = 0;          // in the workspace

  int64_t data_at() const { return slot_step(s.o * 4); }
  bool has_quads() const { return quads.whole > 0; }
  bool in_tiles() const { return has_quads() && table->in_tiles; }
  // Whether products read panels, not planes. Tiles would read planes slowly, because kernel
  // elements begin between lines of the cache.
  bool has_panels() const { return !in_quads || in_tiles(); }
  // For a column of a panel.
  int64_t column_bytes() const {
    if (in_tiles()) return whole_tiles(quads.whole) * 4;
    return has_quads() ? quads.whole * 4 : pairs * 2;
  }
  int64_t packed_bytes() const {
    return data_at() + (has_quads() ? quads.bytes + kFewSlack : s.o * pairs * 4);
  }
  int64_t fours() const { return ceil_div(s.group_c(), int64_t{4}); }  // of channels
  int64_t planes() const { return fours() * (by_element ? s.kernel[2] : 1); }
  // Columns of a group's product. With planes of four channels, they include those between lines.
  int64_t columns() const {
    if (!in_quads) return s.out_size();
    return ((s.out[0] - 1) * rows + s.out[1] - 1) * pitch + s.out[2];
  }
  // Whether each column is a pixel of y.
  bool has_all_columns() const { return columns() == s.out_size(); }
  // Vectors of sums of a group's product.
  double vectors() const {
    const int64_t lanes = table->nr / 2, few = few_of(*table, columns(), quads_of(depth));
    return static_cast<double>(ceil_div(columns() - few, lanes)) + 0.1 * static_cast<double>(few);
  }
  int64_t panels() const { return ceil_div(columns(), table->nr); }
  int64_t column_at(int64_t index) const { return first_column(index, columns(), table->nr); }
  int64_t image_bytes() const {
    if (plain) return 0;
    return in_quads ? s.n * s.groups * planes() * plane * 4 : s.n * s.c * plane + kCopied;
  }
};

// The weights in the order of four channels: [o][fours, kernel, 4]. Missing channels have the
// weight 0.
Tensor in_order(const ConvInteger& g, const Tensor& weight, const ZeroPoints& zeros,
                std::vector<uint8_t>& bytes) {
  if (!g.in_quads) return weight;
  const int64_t taps = g.s.kernel_size(), channels = g.s.group_c();
  bytes.resize(static_cast<size_t>(g.s.o * g.depth));
  uint8_t* to = bytes.data();
  const uint8_t* row = weight.as<uint8_t>();
  for (int64_t o = 0; o < g.s.o; ++o, row += channels * taps)
    for (int64_t four = 0; four < g.fours(); ++four)
      for (int64_t tap = 0; tap < taps; ++tap)
        for (int64_t c = 4 * four; c < 4 * four + 4; ++c)
          *to++ = c < channels ? row[c * taps + tap] : static_cast<uint8_t>(zeros.at(o));
  return view(static_cast<void*>(bytes.data()), weight.dtype, {g.s.o, g.depth});
}

void pack_weight(const ConvInteger& g, const Tensor& weight, const ZeroPoints& zeros, char* to) {
  const int64_t rows = g.s.group_o();
  std::vector<uint8_t> bytes;
  if (g.has_quads())
    return pack_quad_rows(g.quads, g.s.o, rows, g.depth, in_order(g, weight, zeros, bytes), zeros,
                          *g.table, reinterpret_cast<int8_t*>(to + g.data_at()),
                          reinterpret_cast<int32_t*>(to));
  for (int64_t group = 0; group < g.s.groups; ++group) {
    const int64_t first = group * rows;
    pack_byte_rows(rows, g.depth, weight, first, zeros, g.table->mr,
                   reinterpret_cast<int16_t*>(to + g.data_at()) + first * g.pairs * 2,
                   reinterpret_cast<int32_t*>(to) + first);
  }
}

void choose_tiles(ConvInteger& g, int64_t threads) {
  const int64_t nr = g.table->nr;
  const int64_t panel_bytes = std::max<int64_t>(1, g.column_bytes() * nr);
  const int64_t cache = g.in_tiles() ? kTilePanelBytes : kPackedRowsFloats * 4;
  const int64_t fitting = g.has_panels() ? cache / panel_bytes : kMaxColumns;
  g.divide({.columns = g.columns(),
            .rows = g.s.group_o(),
            .images = g.s.n * g.s.groups,
            .products = g.s.out_size() * g.s.o * g.depth,
            .most_panels = std::clamp<int64_t>(fitting, 1, kMaxColumns / nr),
            .mr = g.table->mr,
            .nr = g.table->nr,
            .threads = threads});
}

// The position in the images of its group of element k of [group_c, kernel], or of quad k of
// [fours, kernel].
int64_t element_at(const ConvInteger& g, int64_t k) {
  const ConvShape& s = g.s;
  const int64_t channel = k / s.kernel_size(), tap = k % s.kernel_size();
  const int64_t x = tap % s.kernel[2] * s.dilation[2], line = tap / s.kernel[2];
  if (g.by_element)
    return (channel * s.kernel[2] + tap % s.kernel[2]) * g.plane +
           (g.by_z.line_of(line / s.kernel[1] * s.dilation[0]) * g.rows +
            g.by_y.line_of(line % s.kernel[1] * s.dilation[1])) *
               g.pitch;
  const int64_t row =
      line / s.kernel[1] * s.dilation[0] * g.rows + line % s.kernel[1] * s.dilation[1];
  return channel * g.plane + row * g.pitch + x % s.stride[2] * g.phase + x / s.stride[2];
}

// Lays out images: as planes of four channels, or of one.
void lay_out(ConvInteger& g, bool in_quads, bool by_element = false) {
  const ConvShape& s = g.s;
  const auto reach = [&](size_t d) {
    return (s.out[d] - 1) * s.stride[d] + (s.kernel[d] - 1) * s.dilation[d] + 1;
  };
  g.phase = ceil_div(reach(2), s.stride[2]);
  g.pitch = g.phase * s.stride[2];
  g.rows = reach(1);
  g.lines = reach(0) * g.rows;
  if (by_element) {
    g.by_z = StridedLines(s, 0);
    g.by_y = StridedLines(s, 1);
    g.pitch = s.out[2];
    g.rows = g.by_y.count();
    g.lines = g.by_z.count() * g.rows;
    g.line_bytes = 4 * std::max(reach(2), s.padding[2] + slot_step(s.in[2]) + g.table->nr);
  }
  // Whole panels are written and read beyond a plane of four channels.
  g.plane = g.lines * g.pitch + (in_quads ? g.table->nr : 0);
  g.in_quads = in_quads;
  g.by_element = by_element;
  g.depth = (in_quads ? g.fours() * 4 : s.group_c()) * s.kernel_size();
  g.pairs = pairs_of(g.depth);
  g.elements.clear();
  for (int64_t k = 0; k < g.depth && !g.plain && !in_quads; ++k)
    g.elements.push_back(element_at(g, k));
  g.offset = panel_places(quads_of(g.depth), g.table->nr);
  for (size_t q = 0; q < g.offset.size() && in_quads; ++q)
    g.offset[q] = static_cast<int32_t>(element_at(g, static_cast<int64_t>(q)));
}

// Lays out images as planes of four channels, if their positions have 32 bits.
void lay_out_quads(ConvInteger& g) {
  const ConvShape& s = g.s;
  const auto fits = [&] { return g.planes() * g.plane < std::numeric_limits<int32_t>::max() / 2; };
  const bool has_strides = s.stride != ConvShape::Spatial{1, 1, 1};
  double vectors = std::numeric_limits<double>::max();
  if (!has_strides) {
    lay_out(g, true);
    vectors = g.vectors();
    if (!fits()) return lay_out(g, false);
  }
  lay_out(g, true, true);
  if (fits() &&
      (has_strides || (vectors > kMostGaps * g.vectors() && g.image_bytes() <= kMostPlaneBytes)))
    return;
  lay_out(g, !has_strides);
}

// Packs constant weights, as quads if they can be used.
void pack(PrepareContext& c, ConvInteger& g) {
  const ConvShape& s = g.s;
  const ZeroPoints zeros = c.has(3) ? zero_points(c.in(3)) : ZeroPoints();
  const bool takes_quads = g.table->quad_sums != nullptr;
  const auto take_pairs = [&] {
    g.quads = {};
    g.table = &integer_table_of_quads();
    lay_out(g, false);
  };
  lay_out(g, false);
  // Three channels of a small kernel are packed as a fourth of zeros in less time than as patches.
  const bool is_first = s.group_c() == 3 && s.kernel_size() <= kMostTapsOfThree;
  if (takes_quads && !g.plain && (s.group_c() % 4 == 0 || s.group_c() >= kLeastPadded || is_first))
    lay_out_quads(g);
  if (!c.is_constant(1) || (c.has(3) && !c.is_constant(3)) || s.o * g.depth == 0 || c.low_memory())
    return take_pairs();
  if (quads_of(g.depth) < kLeastTileQuads) g.table = &integer_table_of_quads();
  if (takes_quads) {
    std::vector<uint8_t> bytes;
    const auto all = static_cast<double>(quads_of(g.depth) * s.o);
    g.quads = find_quads(s.o, s.group_o(), g.depth, in_order(g, c.in(1), zeros, bytes), zeros,
                         *g.table, static_cast<int64_t>((kMostQuads - 1) * all));
    if (static_cast<double>(g.quads.count) > kMostQuads * all) take_pairs();
  }
  const std::string layout =
      !g.has_quads() ? std::string("pairs")
                     : str_cat(g.table->in_tiles ? "tiles." : "", g.in_quads ? "planes" : "quads",
                               g.table->places_by_row ? "/sorted+-" : "+-", g.table->most_pair);
  const std::string key =
      str_cat("conv_integer.", layout, "/", g.table->mr, "/", s.groups, ":", key_of(zeros));
  g.packed = static_cast<const char*>(
      c.pack(1, key, g.packed_bytes(), [g, weight = c.in(1), zeros](void* to) {
        pack_weight(g, weight, zeros, static_cast<char*>(to));
      }));
  if (g.packed == nullptr) return take_pairs();
  if (g.table->places_by_row)  // what products read
    for (int32_t& place : g.quads.again) place = g.offset[static_cast<size_t>(place)];
}

[[gnu::cold]] Status prepare(PrepareContext& c) {
  ConvInteger g;
  g.s = conv_integer_shape(c);
  const ConvShape& s = g.s;
  g.table = &integer_table();
  g.plain = s.kernel_size() == 1 && s.stride == ConvShape::Spatial{1, 1, 1} && s.in == s.out &&
            s.padding == ConvShape::Spatial{0, 0, 0};
  pack(c, g);
  choose_tiles(g, c.threads());
  g.lanes = tile_lanes(c, s.n * s.groups * g.tiles * g.parts());
  g.row_at = g.has_panels() ? slot_step(g.tile * g.column_bytes()) : 0;
  g.sums_at = g.row_at + (g.in_quads ? 0 : slot_step(4 * (g.tile + kCopied)));
  g.pieces_at = g.sums_at + slot_step(g.table->mr * g.tile * 4);
  const bool has_lines = !g.plain && !g.in_quads;
  g.slot_bytes = g.pieces_at + (has_lines ? g.tile * static_cast<int64_t>(sizeof(Piece)) : 0);
  g.starts_at = slot_step(tile_workspace(g.lanes, g.slot_bytes));
  g.images_at = g.starts_at + slot_step(s.o * 4);
  g.lines_at = g.images_at + slot_step(g.image_bytes());
  g.packed_at =
      g.lines_at + slot_step(g.by_element ? s.n * s.groups * g.fours() * g.line_bytes : 0);
  c.set_workspace(g.packed_at + (g.packed == nullptr ? g.packed_bytes() : 0));
  c.make_state(std::move(g));
  return {};
}

// A channel surrounded by `zero`.
void copy_channel(const ConvInteger& g, const uint8_t* x, uint8_t zero, uint8_t* to) {
  const ConvShape& s = g.s;
  std::memset(to, zero, static_cast<size_t>(g.plane));
  const int64_t step = s.stride[2], left = s.padding[2];
  const int64_t reach = (s.out[2] - 1) * step + (s.kernel[2] - 1) * s.dilation[2] + 1;
  const int64_t width = std::clamp<int64_t>(reach - left, 0, s.in[2]);
  for (int64_t z = 0; z < s.in[0]; ++z)
    for (int64_t y = 0; y < s.in[1]; ++y, x += s.in[2]) {
      const int64_t at_line = (z + s.padding[0]) * g.rows + y + s.padding[1];
      if (y + s.padding[1] >= g.rows || at_line >= g.lines) continue;
      uint8_t* const line = to + at_line * g.pitch;
      if (step == 1) {
        std::memcpy(line + left, x, static_cast<size_t>(width));
        continue;
      }
      for (int64_t first = 0; first < step; ++first) {
        const int64_t column = first + left;
        uint8_t* const at = line + column % step * g.phase + column / step;
        for (int64_t i = first, j = 0; i < width; i += step, ++j) at[j] = x[i];
      }
    }
}

// Four channels as one plane of quads. `rows`: their first elements.
void copy_channels(const ConvInteger& g, const uint8_t* const* rows, uint8_t zero, uint8_t flip,
                   uint8_t* to) {
  const ConvShape& s = g.s;
  const int64_t left = s.padding[2], width = s.in[2], panel = g.table->nr * 4;
  const auto fill = [&](uint8_t* at, int64_t columns) {
    std::memset(at, zero ^ flip, static_cast<size_t>(columns * 4));
  };
  for (int64_t line = 0; line < g.lines; ++line, to += g.pitch * 4) {
    const int64_t z = line / g.rows - s.padding[0], y = line % g.rows - s.padding[1];
    if (z < 0 || z >= s.in[0] || y < 0 || y >= s.in[1] || width == 0) {
      fill(to, g.pitch);
      continue;
    }
    const uint8_t* from[4];
    for (int c = 0; c < 4; ++c) from[c] = rows[c] + (z * s.in[1] + y) * width;
    fill(to, left);
    // The end of this line and the next line overwrite the excess.
    g.table->pack_quads(width, from, flip, to + left * 4, panel);
    fill(to + (left + width) * 4, g.pitch - left - width);
  }
}

// Four channels as a plane for each element of a kernel's row. `line`: memory for a line of quads.
void copy_elements_of_row(const ConvInteger& g, const uint8_t* const* rows, uint8_t zero,
                          uint8_t flip, uint8_t* line, uint8_t* to) {
  const ConvShape& s = g.s;
  const int64_t left = s.padding[2], width = s.in[2], count = s.out[2], panel = g.table->nr * 4;
  for (int64_t z = 0; z < g.by_z.count(); ++z)
    for (int64_t y = 0; y < g.rows; ++y) {
      if (!g.by_z.reads(z) || !g.by_y.reads(y)) continue;
      const int64_t from_z = z - s.padding[0], from_y = y - s.padding[1];
      std::memset(line, zero ^ flip, static_cast<size_t>(g.line_bytes));
      if (from_z >= 0 && from_z < s.in[0] && from_y >= 0 && from_y < s.in[1] && width > 0) {
        const uint8_t* from[4];
        for (int c = 0; c < 4; ++c) from[c] = rows[c] + (from_z * s.in[1] + from_y) * width;
        g.table->pack_quads(width, from, flip, line + left * 4, panel);
        // The last panel has bytes beyond the line.
        const int64_t end = left + width, written = left + ceil_div(width, panel / 4) * (panel / 4);
        std::memset(line + end * 4, zero ^ flip, static_cast<size_t>((written - end) * 4));
      }
      uint8_t* at = to + (g.by_z.line_of(z) * g.rows + g.by_y.line_of(y)) * g.pitch * 4;
      for (int64_t k = 0; k < s.kernel[2]; ++k, at += g.plane * 4) {
        const uint8_t* const first = line + k * s.dilation[2] * 4;
        if (s.stride[2] == 1)
          copy_line(at, first, count * 4);
        else
          for (int64_t j = 0; j < count; ++j)
            std::memcpy(at + 4 * j, first + 4 * s.stride[2] * j, 4);
      }
    }
}

// The pieces of lines that make up the pixels [first, first + count).
int64_t find_pieces(const ConvInteger& g, int64_t first, int64_t count, Piece* pieces) {
  const ConvShape& s = g.s;
  int64_t found = 0;
  for (int64_t done = 0; done < count; ++found) {
    const int64_t pixel = first + done, x = pixel % s.out[2], line = pixel / s.out[2];
    const int64_t row = line / s.out[1] * s.stride[0] * g.rows + line % s.out[1] * s.stride[1];
    pieces[found] = {row * g.pitch + x, std::min(s.out[2] - x, count - done)};
    done += pieces[found].count;
  }
  return found;
}

void copy_pieces(const uint8_t* from, const Piece* pieces, int64_t count, uint8_t* to) {
  for (const Piece* p = pieces; p < pieces + count; to += p->count, ++p)
    for (int64_t i = 0; i < p->count; i += kCopied)
      std::memcpy(to + i, from + p->from + i, kCopied);
}

// Panels of the columns of planes of four channels.
void copy_panels(const ConvInteger& g, const uint8_t* planes, int64_t columns, int64_t panel_step,
                 uint8_t* panels) {
  constexpr int64_t kColumns = 2 * kTileSide, kRow = kColumns * 4;
  for (int64_t j = 0; j < columns; j += kColumns, planes += kRow, panels += panel_step) {
    uint8_t* to = panels;
    for (const int32_t offset : g.offset) {
      std::memcpy(to, planes + int64_t{offset} * 4, kRow);
      to += kRow;
    }
  }
}

// Calls f(first column, its pixel, columns) for the parts of lines of y in the columns [first,
// first + count) of a product over planes of quads.
template <class F>
void for_lines(const ConvInteger& g, int64_t first, int64_t count, const F& f) {
  const ConvShape& s = g.s;
  const int64_t end = first + count;
  for (int64_t line = first / g.pitch; line * g.pitch < end; ++line) {
    const int64_t y = line % g.rows, start = line * g.pitch;
    const int64_t from = std::max(first, start), to = std::min(end, start + s.out[2]);
    if (y >= s.out[1] || from >= to) continue;
    const int64_t pixel = (line / g.rows * s.out[1] + y) * s.out[2] + from - start;
    f(from, pixel, to - from);
  }
}

void run(const RunContext& c) noexcept {
  const ConvInteger& g = c.state<ConvInteger>();
  const ConvShape& s = g.s;
  if (c.out(0).count() == 0) return;
  char* const workspace = c.workspace<char>();
  const char* packed = g.packed;
  if (packed == nullptr) {
    pack_weight(g, c.in(1), c.has(3) ? zero_points(c.in(3)) : ZeroPoints(),
                workspace + g.packed_at);
    packed = workspace + g.packed_at;
  }
  auto* const starts = reinterpret_cast<int32_t*>(workspace + g.starts_at);
  const bool is_signed = c.in(0).dtype == DType::i8, quads = g.has_quads();
  // Pairs read bytes of x as i8, quads as u8 unless the table says otherwise.
  const bool as_unsigned = quads && !g.table->signed_quads;
  const uint8_t flip = is_signed == as_unsigned ? 128 : 0;
  conv_integer_starts(c, s.o, reinterpret_cast<const int32_t*>(packed),
                      as_unsigned ? (is_signed ? 128 : 0) : (is_signed ? 0 : -128), starts);
  const auto* const weight = reinterpret_cast<const int16_t*>(packed + g.data_at());
  const auto* const x = c.in(0).as<uint8_t>();
  auto* const images = reinterpret_cast<uint8_t*>(workspace + g.images_at);
  const auto zero = static_cast<uint8_t>(c.has(2) ? zero_points(c.in(2)).at(0) : 0);
  if (g.in_quads) {
    const int64_t fours = g.fours(), last = s.group_c() - 1,
                  bytes = g.planes() / fours * g.plane * 4;
    c.parallel_for(s.n * s.groups * fours, std::max<int64_t>(1, (1 << 14) / bytes),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) {
                       const uint8_t* rows_of[4];
                       for (int64_t k = 0; k < 4; ++k)
                         rows_of[k] =
                             x + (i / fours * s.group_c() + std::min(i % fours * 4 + k, last)) *
                                     s.in_size();
                       if (g.by_element)
                         copy_elements_of_row(
                             g, rows_of, zero, flip,
                             reinterpret_cast<uint8_t*>(workspace + g.lines_at) + i * g.line_bytes,
                             images + i * bytes);
                       else
                         copy_channels(g, rows_of, zero, flip, images + i * bytes);
                     }
                   });
  } else if (!g.plain) {
    c.parallel_for(s.n * s.c, std::max<int64_t>(1, (1 << 14) / std::max<int64_t>(1, g.plane)),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i)
                       copy_channel(g, x + i * s.in_size(), zero, images + i * g.plane);
                   });
  }
  const IntegerFinish finish = integer_finish(c);
  const bool by_row = c.has(5) && c.in(5).rank() == 1;
  const int64_t size = s.out_size(), rows = s.group_o(), nr = g.table->nr;
  const bool to_bytes =
      quads && (finish.to == DType::u8 || finish.to == DType::i8) && g.has_all_columns();
  char* const y = c.out(0).as<char>();
  const int64_t y_size = size_of(c.out(0).dtype);
  for_tiles(
      c, s.n * s.groups * g.tiles * g.parts(), g.lanes, g.slot_bytes,
      [&](int64_t task, float* slot_of_floats) {
        char* const slot = reinterpret_cast<char*>(slot_of_floats);
        auto* const panels = reinterpret_cast<int8_t*>(slot);
        auto* const row = reinterpret_cast<uint8_t*>(slot + g.row_at);
        auto* const sums = reinterpret_cast<int32_t*>(slot + g.sums_at);
        auto* const pieces = reinterpret_cast<Piece*>(slot + g.pieces_at);
        const int64_t part = task % g.parts(), index = task / g.parts();
        const int64_t image = index / (s.groups * g.tiles), group = index / g.tiles % s.groups;
        const int64_t first = g.column_at(index % g.tiles);
        const int64_t columns = g.column_at(index % g.tiles + 1) - first;
        const int64_t channel = image * s.c + group * s.group_c();
        const int64_t panel_step = g.has_panels() ? g.column_bytes() * nr : nr * 4;
        const int64_t found = g.plain || g.in_quads ? 0 : find_pieces(g, first, columns, pieces);
        // Row k of the patches. Rows after the last one repeat it; their weights are 0.
        const auto patches = [&](int64_t k, int64_t each) -> const uint8_t* {
          if (k >= g.depth) k = g.depth - 1;
          if (g.plain) return x + (channel + k) * size + first;
          uint8_t* const to = row + each * (g.tile + kCopied);
          copy_pieces(images + channel * g.plane + g.elements[k], pieces, found, to);
          return to;
        };
        const int64_t steps = g.in_quads ? 0 : quads ? g.quads.whole : g.pairs;
        for (int64_t p = 0; p < steps; ++p) {
          const uint8_t* rows_of[4];
          for (int64_t i = 0; i < (quads ? 4 : 2); ++i)
            rows_of[i] = patches(p * (quads ? 4 : 2) + i, i);
          if (quads)
            g.table->pack_quads(columns, rows_of, flip,
                                reinterpret_cast<uint8_t*>(panels) + p * nr * 4, panel_step);
          else
            g.table->pack(columns, rows_of[0], rows_of[1], flip, panels + p * nr * 2, panel_step);
        }
        const uint8_t* const planes =
            images + ((image * s.groups + group) * g.planes() * g.plane + first) * 4;
        if (g.in_quads && g.has_panels())
          copy_panels(g, planes, columns, panel_step, reinterpret_cast<uint8_t*>(panels));
        const auto* const quad_columns =
            g.has_panels() ? reinterpret_cast<const uint8_t*>(panels) : planes;
        // The last columns, if they fill little of a vector.
        const int64_t few = quads ? few_of(*g.table, columns, quads_of(g.depth)) : 0,
                      most = columns - few;
        const uint8_t* const few_at = quad_columns + most / nr * panel_step + most % nr * 4;
        const QuadScope scope(*g.table);
        int count;
        for (int64_t o = g.first_o[part]; o < g.first_o[part + 1]; o += count) {
          count = block_rows(rows - o, g.table->mr);
          const int64_t at = group * rows + o;
          IntegerFinish f = finish;
          const bool in_order = g.quads.row.empty();
          const int64_t row_at = in_order ? at : 0;
          f.row = in_order ? nullptr : g.quads.row.data() + at;
          f.row_add = starts + row_at;
          f.scale_by_row = by_row;
          if (by_row) f.scale += row_at;
          char* const to = y + (image * s.o + row_at) * size * y_size;
          if (quads) {
            const auto* const block =
                reinterpret_cast<const int8_t*>(packed + g.data_at()) + g.quads.at[at];
            const bool is_last = o + count == g.first_o[part + 1];
            const QuadPlaces places = {
                .whole = g.quads.whole,
                .more = g.quads.more[at],
                .offset = g.offset.data(),
                .index = g.quads.again.data() + g.quads.more_at[at],
                .next = is_last ? nullptr : block + g.quads.at[at + count] - g.quads.at[at],
                .next_bytes = is_last ? 0 : g.column_bytes() * count};
            if (to_bytes)
              g.table->quad_bytes(count, most, places, block, quad_columns, panel_step, f,
                                  reinterpret_cast<uint8_t*>(to) + first, size);
            else
              g.table->quad_sums(count, most, places, block, quad_columns, panel_step, sums,
                                 g.tile);
            if (few > 0)
              g.table->quad_few(count, static_cast<int>(few), places, block, few_at, sums + most,
                                g.tile);
            if (to_bytes) {
              if (few > 0)
                g.table->finish(count, few, sums + most, g.tile, f, to + first + most, size);
              continue;
            }
          } else {
            g.table->sums(count, columns, g.pairs, weight + at * g.pairs * 2, panels, sums, g.tile);
          }
          if (g.has_all_columns()) {
            g.table->finish(count, columns, sums, g.tile, f, to + first * y_size, size);
            continue;
          }
          for_lines(g, first, columns, [&](int64_t column, int64_t pixel, int64_t found) {
            g.table->finish(count, found, sums + column - first, g.tile, f, to + pixel * y_size,
                            size);
          });
        }
      });
}

constexpr KernelDef kKernels[] = {
    {.op = "conv_integer", .name = "gemm", .prepare = prepare, .run = run},
};

}  // namespace

std::span<const KernelDef> conv_integer() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
