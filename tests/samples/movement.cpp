// SPDX-License-Identifier: Apache-2.0
// Samples of lib/ops/movement.cpp, copy.cpp, scatter_view.cpp and factory.cpp.
#include "tests/ops/samples.h"

namespace hg::test::samples {
namespace {

using Dims = std::vector<Dim>;

}  // namespace

std::vector<Sample> movement() {
  std::vector<Sample> all;
  const auto one = [&](std::string_view op, const Sizes& shape, const NamedAttrs& attrs) {
    for (const DType dtype : {f32, i64, boolean})
      all.push_back({.op = op,
                     .inputs = {{.dtype = dtype, .shape = shape, .low = dtype == f32 ? -1.0 : 0.0}},
                     .attrs = attrs});
  };
  one("reshape", {6, 5}, {{"shape", Dims{2, 3, 5}}});
  one("reshape", {}, {{"shape", Dims{1, 1}}});
  one("reshape", {0, 3}, {{"shape", Dims{3, 0}}});
  one("contiguous", {3, 17}, {});
  one("detach", {5, 3}, {});
  const auto bits = [&](DType from, DType to, double low, double high) {
    for (const Sizes& shape : {Sizes{5, 3}, Sizes{}, Sizes{0, 2}})
      all.push_back({.op = "view_dtype",
                     .inputs = {{.dtype = from, .shape = shape, .low = low, .high = high}},
                     .attrs = {{"dtype", to}},
                     .floats = {f32}});
  };
  bits(f32, i32, -1e3, 1e3);
  bits(i32, f32, 1 << 24, 1 << 30);
  bits(f16, i16, -100, 100);
  bits(i16, bf16, 1 << 7, 1 << 14);
  bits(bf16, f16, -4, 4);
  bits(i8, u8, -128, 127);
  bits(u8, i8, 0, 255);
  bits(boolean, u8, 0, 1);
  one("permute", {2, 3, 5}, {{"dims", Dims{2, 0, 1}}});
  one("permute", {33, 65}, {{"dims", Dims{-1, -2}}});
  one("expand", {3, 1}, {{"shape", Dims{2, 3, 7}}});
  one("expand", {1}, {{"shape", Dims{0}}});
  one("slice", {7, 5}, {{"dim", 0}, {"start", 1}, {"end", 7}, {"step", 2}});
  one("slice", {7, 5}, {{"dim", -1}, {"start", 2}, {"end", 2}});
  one("flip", {4, 5}, {{"dims", Dims{0, -1}}});
  one("diagonal", {4, 6}, {{"offset", 1}});
  one("diagonal", {3, 4, 5}, {{"offset", -1}, {"dim1", 2}, {"dim2", 0}});
  one("unfold", {3, 11}, {{"dim", 1}, {"size", 4}, {"step", 3}});
  one("as_strided", {20}, {{"size", Dims{3, 4}}, {"stride", Dims{2, 3}}, {"storage_offset", 1}});
  one("as_strided", {20}, {{"size", Dims{4, 3}}, {"stride", Dims{1, 1}}});
  one("tril", {5, 7}, {{"diagonal", 1}});
  one("triu", {2, 7, 5}, {{"diagonal", -2}});
  one("roll", {4, 5}, {{"shifts", Dims{1, -7}}, {"dims", Dims{0, 1}}});
  one("roll", {2, 131, 3}, {{"shifts", Dims{1}}, {"dims", Dims{-1}}});
  one("pad", {131, 2}, {{"pads", Dims{1, 0, 0, 0}}});
  one("pad", {2, 7, 8, 7}, {{"pads", Dims{0, 0, 2, 1, 0, 0, 2, 1}}, {"value", 1.0}});
  one("repeat", {2, 3}, {{"repeats", Dims{2, 1, 3}}});
  for (const int dim : {0, 1, -1})
    all.push_back({.op = "concat",
                   .inputs = {{.shape = {2, 3}}, {.shape = {2, 3}}, {.shape = {2, 3}}},
                   .attrs = {{"dim", dim}}});
  all.push_back({.op = "concat",
                 .inputs = {{.shape = {3, 17}}, {.shape = {3, 0}}, {.shape = {3, 1}}},
                 .attrs = {{"dim", 1}}});
  for (const int64_t inputs : {2, 3})  // of one element per line
    all.push_back(
        {.op = "concat",
         .inputs = std::vector<SampleInput>(static_cast<size_t>(inputs), {.shape = {2, 19, 1}}),
         .attrs = {{"dim", -1}}});
  one("pad", {3, 5}, {{"pads", Dims{1, 0, 2, 3}}});
  all.push_back({.op = "pad",
                 .inputs = {{.shape = {3, 5}}},
                 .attrs = {{"pads", Dims{0, 2, -1, -2}}, {"value", 0.5}}});
  for (const char* mode : {"reflect", "replicate", "circular"})
    all.push_back({.op = "pad",
                   .inputs = {{.shape = {2, 4, 5}}},
                   .attrs = {{"pads", Dims{0, 0, 2, 1, 3, 4}}, {"mode", mode}}});
  all.push_back({.op = "slice_scatter",
                 .inputs = {{.shape = {7, 5}}, {.shape = {3, 5}}},
                 .attrs = {{"dim", 0}, {"start", 1}, {"end", 7}, {"step", 2}}});
  all.push_back({.op = "slice_scatter",
                 .inputs = {{.shape = {3, 5}}, {.shape = {3, 2}}},
                 .attrs = {{"dim", -1}, {"start", 2}, {"end", 4}}});
  all.push_back({.op = "diagonal_scatter",
                 .inputs = {{.shape = {4, 6}}, {.shape = {4}}},
                 .attrs = {{"offset", 1}}});
  all.push_back({.op = "diagonal_scatter",
                 .inputs = {{.shape = {4, 3, 6}}, {.shape = {3, 3}}},
                 .attrs = {{"offset", 1}, {"dim1", -1}, {"dim2", 0}}});
  all.push_back({.op = "as_strided_scatter",
                 .inputs = {{.shape = {20}}, {.shape = {3, 2}}},
                 .attrs = {{"size", Dims{3, 2}}, {"stride", Dims{2, 9}}, {"storage_offset", 1}}});
  for (const DType dtype : {f32, f16, i64, boolean})
    all.push_back({.op = "full",
                   .inputs = {},
                   .attrs = {{"shape", Dims{3, 5}}, {"value", 1.0}, {"dtype", dtype}}});
  for (const DType dtype : {i64, i32, f32, f64})
    all.push_back({.op = "arange",
                   .inputs = {},
                   .attrs = {{"start", 2}, {"end", 19}, {"step", 3}, {"dtype", dtype}}});
  all.push_back({.op = "arange", .inputs = {}, .attrs = {{"start", 5}, {"end", 0}, {"step", -2}}});
  for (const int steps : {0, 1, 7})
    all.push_back({.op = "linspace",
                   .inputs = {},
                   .attrs = {{"start", -1.0}, {"end", 2.0}, {"steps", steps}}});
  all.push_back({.op = "linspace",
                 .inputs = {},
                 .attrs = {{"start", 0.5}, {"end", 2.0}, {"steps", 5}, {"dtype", f64}}});
  all.push_back({.op = "eye", .inputs = {}, .attrs = {{"n", 3}, {"m", 5}}});
  all.push_back({.op = "eye", .inputs = {}, .attrs = {{"n", 3}, {"m", 2}, {"dtype", i64}}});
  return all;
}

}  // namespace hg::test::samples
