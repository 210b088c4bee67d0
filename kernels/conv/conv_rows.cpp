// SPDX-License-Identifier: Apache-2.0
// Convolutions with the channels as last dim, of bf16 or with Precision::bf16, in tiles (AMX):
// patches of bf16 are rows (kernels/conv/patch_rows.h). x is rounded as images are copied, unless
// it is bf16.
#include <algorithm>

#include "kernels/conv/patch_rows.h"
#include "kernels/gemm/gemm.h"
#include "lib/table/rows.h"

namespace hg::kernels {
namespace {

struct FloatRows : PatchRows {
  const PairTable* pairs = nullptr;
  const BFloat16* packed = nullptr;  // [blocks][words of a row][kBlock][2]
  int64_t images_at = 0;
};

bool is_either(const Tensor& t) { return t.dtype == f32 || t.dtype == DType::bf16; }

bool fits(const PrepareContext& c) {
  return is_either(c.in(0)) && is_either(c.in(1)) && (!c.has(2) || c.in(2).dtype == f32) &&
         is_either(c.out(0));
}
bool fits_dense(const PrepareContext& c) { return fits(c) && (!c.has(3) || is_either(c.in(3))); }

bool multiplies(const PrepareContext& c) {
  const bool is_exact = c.in(0).dtype == DType::bf16 && c.in(1).dtype == DType::bf16;
  return (is_exact || c.precision() == Precision::bf16) && tile_pair_table() && c.is_constant(1) &&
         !c.low_memory() && c.out(0).count() > 0;
}
bool accepts(const PrepareContext& c) { return fits_dense(c) && multiplies(c); }
bool accepts_entry(const PrepareContext& c) {
  return fits(c) && multiplies(c) && c.in(0).shape[1] <= PatchRows::kFew;
}

template <class T>
void pack_weight(const FloatRows& g, const T* weight, BFloat16* to) {
  const ConvShape& s = g.s;
  const int64_t taps = s.kernel_size(), channels = g.pixel / 2;
  std::fill_n(to, g.weight_bytes() / 2, BFloat16());
  for (int64_t o = 0; o < s.o; ++o) {
    BFloat16* const block = to + o / g.kBlock * g.kBlock * g.depth / 2;
    for (int64_t c = 0; c < s.c; ++c)
      for (int64_t tap = 0; tap < taps; ++tap) {
        const int64_t k = tap * channels + c;
        block[RowProduct::weight_at(k / 2, o % g.kBlock) * 2 + k % 2] =
            BFloat16(static_cast<float>(*weight++));
      }
  }
}

template <bool kEntry>
[[gnu::cold]] Status prepare(PrepareContext& c) {
  FloatRows g;
  g.entry = kEntry;
  g.is_float = true;
  g.s = (kEntry ? to_channels_last_shape : dense_channels_last_shape)(c.in(0), c.in(1), c.out(0),
                                                                      c.attrs());
  g.pairs = tile_pair_table();
  g.lay_out(c, 2, c.in(0).dtype == DType::bf16);
  g.packed = static_cast<const BFloat16*>(
      c.pack(1, str_cat("conv.rows", g.pixel), g.weight_bytes(), [g, weight = c.in(1)](void* to) {
        auto* const rows = static_cast<BFloat16*>(to);
        weight.dtype == f32 ? pack_weight(g, weight.as<float>(), rows)
                            : pack_weight(g, weight.as<BFloat16>(), rows);
      }));
  if (!g.packed) return c.fail("has no memory for its weights");
  g.images_at = slot_step(tile_workspace(g.lanes, g.slot_bytes()));
  c.set_workspace(g.images_at + slot_step(g.s.n * g.image_bytes()));
  c.make_state(std::move(g));
  return {};
}

// Neighboring pixels of an image [c, h, w] from element `first` of a channel on, as pixels of kFew
// channels.
void interleave(const FloatRows& g, const BFloat16* x, int64_t first, int64_t count, BFloat16* to) {
  for (int64_t c = 0; c < g.kFew; ++c) {
    const BFloat16* const from = x + c * g.s.in_size() + first;
    for (int64_t i = 0; i < count; ++i) to[i * g.kFew + c] = c < g.s.c ? from[i] : BFloat16();
  }
}
void interleave(const FloatRows& g, const float* x, int64_t first, int64_t count, BFloat16* to) {
  constexpr int64_t kMost = 64;
  float part[kMost * PatchRows::kFew];
  for (int64_t done = 0; done < count; done += kMost) {
    const int64_t pixels = std::min(kMost, count - done);
    for (int64_t c = 0; c < g.kFew; ++c) {
      const float* const from = x + c * g.s.in_size() + first + done;
      for (int64_t i = 0; i < pixels; ++i) part[i * g.kFew + c] = c < g.s.c ? from[i] : 0;
    }
    g.pairs->round(pixels * g.kFew, part, to + done * g.kFew);
  }
}

void run(const RunContext& c) noexcept {
  const FloatRows& g = c.state<FloatRows>();
  const ConvShape& s = g.s;
  const bool is_rounded = c.in(0).dtype == DType::bf16;
  auto* const images = reinterpret_cast<uint8_t*>(c.workspace<char>() + g.images_at);
  g.copy_images(c, 0, images, [&](int64_t image, int64_t first, int64_t count, uint8_t* to) {
    auto* const halves = reinterpret_cast<BFloat16*>(to);
    const int64_t x_at = image * s.c * s.in_size(), at = x_at + first * s.c;
    if (g.entry)
      is_rounded ? interleave(g, c.in(0).as<BFloat16>() + x_at, first, count, halves)
                 : interleave(g, c.in(0).as<float>() + x_at, first, count, halves);
    else if (is_rounded)
      std::memcpy(to, c.in(0).as<BFloat16>() + at, static_cast<size_t>(count * g.pixel));
    else
      g.pairs->round(count * s.c, c.in(0).as<float>() + at, halves);
  });
  const float* const bias = c.has(2) ? c.in(2).as<float>() : nullptr;
  const bool has_residual = !g.entry && c.has(3);
  const DType residual_dtype = has_residual ? c.in(3).dtype : f32;
  const char* const residual = has_residual ? c.in(3).as<char>() : nullptr;
  g.for_blocks(c, images, g.packed, [&](const RowProduct& r, int64_t o, int64_t at) {
    g.pairs->rows(r, {.activation = s.activation,
                      .bias = bias ? bias + o : nullptr,
                      .residual = residual ? residual + at * size_of(residual_dtype) : nullptr,
                      .residual_dtype = residual_dtype,
                      .to = c.out(0).dtype});
  });
}

// ---- By definition, where the pass does not create the op ----

[[gnu::cold]] Status prepare_plain(PrepareContext& c) {
  if (!fits_dense(c)) return c.fail("takes a bias of f32, and all else in f32 or bf16");
  c.make_state(dense_channels_last_shape(c.in(0), c.in(1), c.out(0), c.attrs()));
  return {};
}

float number(const Tensor& t, int64_t i) {
  return t.dtype == f32 ? t.as<float>()[i] : static_cast<float>(t.as<BFloat16>()[i]);
}

void run_plain(const RunContext& c) noexcept {
  const ConvShape& s = c.state<ConvShape>();
  const Tensor &x = c.in(0), &y = c.out(0);
  const Tensor& weight = c.in(1);
  const int64_t taps = s.kernel_size();
  c.parallel_for(s.n * s.out_size(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin * s.o; at < end * s.o; ++at) {
      const int64_t pixel = at / s.o, o = at % s.o, image = pixel / s.out_size();
      float sum = 0;
      for_met_taps(s, pixel, [&](int64_t tap, int64_t row, int64_t column) {
        const int64_t from = ((image * s.in[1] + row) * s.in[2] + column) * s.c;
        for (int64_t k = 0; k < s.c; ++k)
          sum += number(x, from + k) * number(weight, (o * s.c + k) * taps + tap);
      });
      if (c.has(2)) sum += c.in(2).as<float>()[o];
      if (c.has(3)) sum += number(c.in(3), at);
      sum = activate(s.activation, sum);
      if (y.dtype == f32)
        y.as<float>()[at] = sum;
      else
        y.as<BFloat16>()[at] = BFloat16(sum);
    }
  });
}

constexpr KernelDef kKernels[] = {
    {.op = "conv_dense_channels_last",
     .name = "rows",
     .accepts = accepts,
     .prepare = prepare<false>,
     .run = run},
    {.op = "conv_dense_channels_last", .name = "plain", .prepare = prepare_plain, .run = run_plain},
    {.op = "conv_to_channels_last",
     .name = "rows",
     .accepts = accepts_entry,
     .prepare = prepare<true>,
     .run = run},
};

}  // namespace

std::span<const KernelDef> conv_rows() { return chosen_rows<kKernels>(); }

}  // namespace hg::kernels
