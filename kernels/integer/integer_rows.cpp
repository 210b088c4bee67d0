// SPDX-License-Identifier: Apache-2.0
// Products of rows of 8-bit integers where they lie: matrix products with a constant b, and
// convolutions with the channels as last dim, whose patches are rows (kernels/conv/patch_rows.h).
#include <algorithm>

#include "kernels/conv/patch_rows.h"
#include "kernels/integer/conv_integer.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

struct IntegerRows : PatchRows {
  const IntegerTable* table = nullptr;
  bool is_matrix = false;        // x is one line of pixels, and the weight [c, o]
  const char* packed = nullptr;  // sums of [o] weights, and from data_at on [blocks][depth, kBlock]
  int64_t starts_at = 0, images_at = 0, packed_at = 0;

  int64_t data_at() const { return slot_step(s.o * 4); }
  int64_t packed_bytes() const { return data_at() + weight_bytes(); }
};

// Packs weights of u8 or i8 whose zero points are 128 or 0, so that they are i8 after changing the
// highest bit, or none. from(o, c): the byte for the first tap; the next ones follow.
template <class From>
void pack_weight(const IntegerRows& g, DType dtype, const From& from, char* to) {
  const ConvShape& s = g.s;
  const int64_t taps = s.kernel_size();
  const uint8_t flip = dtype == DType::u8 ? 128 : 0;
  auto* const sums = reinterpret_cast<int32_t*>(to);
  auto* const data = reinterpret_cast<int8_t*>(to + g.data_at());
  std::memset(to, 0, static_cast<size_t>(g.packed_bytes()));
  for (int64_t o = 0; o < s.o; ++o) {
    int8_t* const block = data + o / g.kBlock * g.kBlock * g.depth;
    for (int64_t c = 0; c < s.c; ++c) {
      const uint8_t* const bytes = from(o, c);
      for (int64_t tap = 0; tap < taps; ++tap) {
        const auto w = static_cast<int8_t>(bytes[tap] ^ flip);
        const int64_t k = tap * g.pixel + c;
        sums[o] += w;
        block[RowProduct::weight_at(k / 4, o % g.kBlock) * 4 + k % 4] = w;
      }
    }
  }
}

// A weight of a convolution, [o, c, taps], or a matrix [c, o].
void pack_weight(const IntegerRows& g, const Tensor& weight, char* to) {
  const auto* const bytes = weight.as<uint8_t>();
  const int64_t c_step = g.s.kernel_size(), o_step = c_step * g.s.c, columns = g.s.o;
  if (g.is_matrix)
    return pack_weight(
        g, weight.dtype, [&](int64_t o, int64_t c) { return bytes + c * columns + o; }, to);
  pack_weight(
      g, weight.dtype, [&](int64_t o, int64_t c) { return bytes + o * o_step + c * c_step; }, to);
}

// Whether weights minus their zero points are i8, for all values.
bool accepts(const PrepareContext& c) {
  if (!c.is_constant(1) || (c.has(3) && !c.is_constant(3))) return false;
  const int zero = c.in(1).dtype == DType::i8 ? 0 : 128;
  const ZeroPoints zeros = c.has(3) ? zero_points(c.in(3)) : ZeroPoints();
  for (int64_t i = 0; i < std::max<int64_t>(1, zeros.count); ++i)
    if (zeros.at(i) != zero) return false;
  return true;
}

bool accepts_entry(const PrepareContext& c) {
  return accepts(c) && c.in(0).shape[1] <= PatchRows::kFew;
}

bool accepts_product(const PrepareContext& c) {
  const Sizes &a = c.in(0).shape, &b = c.in(1).shape;
  const int64_t k = b[b.rank() - 2], n = b.back();
  return integer_table().in_tiles && !c.low_memory() && accepts(c) && k >= kLeastTileQuads * 4 &&
         n > 0 && a.count() > 0 && c.in(1).count() == k * n && (!c.has(2) || c.in(2).count() == 1);
}

enum class Rows { of_image, of_channels, of_matrix };  // where x has its rows

ConvShape shape_of(const PrepareContext& c, Rows rows) {
  const Sizes &x = c.in(0).shape, &weight = c.in(1).shape;
  if (rows == Rows::of_matrix) {
    ConvShape s;
    s.n = 1;
    s.c = x.back();
    s.o = weight.back();
    s.in[2] = s.out[2] = c.in(0).count() / s.c;
    return s;
  }
  const auto channels_first = [](const Sizes& t) { return Sizes{t[0], t[3], t[1], t[2]}; };
  return conv_integer_shape(rows == Rows::of_channels ? x : channels_first(x), weight,
                            channels_first(c.out(0).shape), c.attrs());
}

[[gnu::cold]] Status prepare(PrepareContext& c, Rows rows) {
  IntegerRows g;
  g.entry = rows == Rows::of_channels;
  g.is_matrix = rows == Rows::of_matrix;
  g.s = shape_of(c, rows);
  const ConvShape& s = g.s;
  g.table = &integer_table();
  g.lay_out(c, 1, true);
  g.packed = static_cast<const char*>(
      c.pack(1, str_cat(g.is_matrix ? "matmul_integer" : "conv_integer", ".rows", g.pixel),
             g.packed_bytes(),
             [g, weight = c.in(1)](void* to) { pack_weight(g, weight, static_cast<char*>(to)); }));
  g.starts_at = slot_step(tile_workspace(g.lanes, g.slot_bytes()));
  g.images_at = g.starts_at + slot_step(s.o * 4);
  g.packed_at = g.images_at + slot_step(s.n * g.image_bytes());
  c.set_workspace(g.packed_at + (g.packed == nullptr ? g.packed_bytes() : 0));
  c.make_state(std::move(g));
  return {};
}

template <Rows rows>
[[gnu::cold]] Status prepare_rows(PrepareContext& c) {
  return prepare(c, rows);
}

// Neighboring pixels of an image [c, h, w] from element `first` of a channel on, as pixels of kFew
// channels.
void interleave(const IntegerRows& g, const uint8_t* x, int64_t first, int64_t count, uint8_t* to) {
  const uint8_t* rows[g.kFew];
  for (int64_t c = 0; c < g.kFew; ++c)  // the weights of missing channels are 0
    rows[c] = x + std::min(c, g.s.c - 1) * g.s.in_size() + first;
  for (int64_t i = 0; i < count; ++i)
    for (int64_t c = 0; c < g.kFew; ++c) to[i * g.kFew + c] = rows[c][i];
}

void run(const RunContext& c) noexcept {
  const IntegerRows& g = c.state<IntegerRows>();
  const ConvShape& s = g.s;
  if (c.out(0).count() == 0) return;
  char* const workspace = c.workspace<char>();
  const char* packed = g.packed;
  if (packed == nullptr) {
    pack_weight(g, c.in(1), workspace + g.packed_at);
    packed = workspace + g.packed_at;
  }
  auto* const starts = reinterpret_cast<int32_t*>(workspace + g.starts_at);
  const bool is_signed = c.in(0).dtype == DType::i8;
  conv_integer_starts(c, s.o, reinterpret_cast<const int32_t*>(packed),
                      is_signed ? g.table->more_i8 : g.table->more_u8, starts);
  auto* const images = reinterpret_cast<uint8_t*>(workspace + g.images_at);
  const auto zero = static_cast<uint8_t>(c.has(2) ? zero_points(c.in(2)).at(0) : 0);
  g.copy_images(c, zero, images, [&](int64_t image, int64_t first, int64_t count, uint8_t* to) {
    const uint8_t* const x = c.in(0).as<uint8_t>() + image * s.c * s.in_size();
    if (g.entry)
      interleave(g, x, first, count, to);
    else
      std::memcpy(to, x + first * g.pixel, static_cast<size_t>(count * g.pixel));
  });
  IntegerFinish finish = integer_finish(c);
  finish.scale_by_column = c.has(5) && c.in(5).rank() == 1;
  g.for_blocks(c, images, packed + g.data_at(), [&](const RowProduct& r, int64_t o, int64_t) {
    IntegerFinish f = finish;
    f.column_add = starts + o;
    if (f.scale_by_column) f.scale += o;
    g.table->byte_rows({r, is_signed}, f);
  });
}

// ---- By definition, where the pass does not create the op ----

template <Rows rows>
[[gnu::cold]] Status prepare_plain(PrepareContext& c) {
  c.make_state(shape_of(c, rows));
  return {};
}

template <Rows rows>
void run_plain(const RunContext& c) noexcept {
  const ConvShape& s = c.state<ConvShape>();
  const auto zeros_of = [&](int i) { return c.has(i) ? zero_points(c.in(i)) : ZeroPoints(); };
  const ZeroPoints x_zero = zeros_of(2), weight_zero = zeros_of(3);
  const auto number = [](const Tensor& t, int64_t i) -> int {
    return t.dtype == DType::i8 ? t.as<int8_t>()[i] : t.as<uint8_t>()[i];
  };
  IntegerFinish finish = integer_finish(c);
  finish.row_add = c.has(4) ? c.in(4).as<int32_t>() : nullptr;
  finish.scale_by_row = c.has(5) && c.in(5).rank() == 1;
  const int64_t taps = s.kernel_size(), y_size = size_of(c.out(0).dtype);
  constexpr int64_t kSums = 16;  // as many as a vector, of which one counts
  const Tensor &x = c.in(0), &weight = c.in(1);
  c.parallel_for(s.n * s.out_size(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin * s.o; at < end * s.o; ++at) {
      const int64_t pixel = at / s.o, o = at % s.o, image = pixel / s.out_size();
      uint32_t sum = 0;
      for_met_taps(s, pixel, [&](int64_t tap, int64_t row, int64_t column) {
        for (int64_t k = 0; k < s.c; ++k) {
          const int64_t from = rows == Rows::of_channels
                                   ? ((image * s.c + k) * s.in[1] + row) * s.in[2] + column
                                   : ((image * s.in[1] + row) * s.in[2] + column) * s.c + k;
          sum += static_cast<uint32_t>(
              (number(x, from) - x_zero.at(0)) *
              (number(weight, (o * s.c + k) * taps + tap) - weight_zero.at(o)));
        }
      });
      const int32_t sums[kSums] = {static_cast<int32_t>(sum)};
      IntegerFinish f = finish;
      if (f.row_add != nullptr) f.row_add += o;
      if (f.scale_by_row) f.scale += o;
      integer_table().finish(1, 1, sums, kSums, f, c.out(0).as<char>() + at * y_size, 1);
    }
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "matmul_integer",
     .name = "rows",
     .accepts = accepts_product,
     .prepare = prepare_rows<Rows::of_matrix>,
     .run = run},
    {.op = "conv_integer_channels_last",
     .name = "rows",
     .accepts = accepts,
     .prepare = prepare_rows<Rows::of_image>,
     .run = run},
    {.op = "conv_integer_channels_last",
     .name = "plain",
     .prepare = prepare_plain<Rows::of_image>,
     .run = run_plain<Rows::of_image>},
    {.op = "conv_integer_to_channels_last",
     .name = "rows",
     .accepts = accepts_entry,
     .prepare = prepare_rows<Rows::of_channels>,
     .run = run},
    {.op = "conv_integer_to_channels_last",
     .name = "plain",
     .prepare = prepare_plain<Rows::of_channels>,
     .run = run_plain<Rows::of_channels>},
};

}  // namespace

std::span<const KernelDef> integer_rows() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
