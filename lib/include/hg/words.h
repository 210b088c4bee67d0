// SPDX-License-Identifier: Apache-2.0
// The words that ops take as attributes, as enums for builders: name_of() gives the word, and the
// function beside it reads one, as a tool needs it.
#pragma once

#include <cstdint>
#include <string_view>

#include "hg/activation.h"
#include "hg/status.h"

namespace hg {

// Of a loss: its elements as they are, their mean, or their sum.
enum class Reduction : uint8_t { none, mean, sum };
std::string_view name_of(Reduction word);
Result<Reduction> reduction_named(std::string_view name);

// What lies beyond the edges of a tensor.
enum class PadMode : uint8_t { constant, reflect, replicate, circular };
std::string_view name_of(PadMode word);
Result<PadMode> pad_mode_named(std::string_view name);

// How what is scattered to one element comes together; none: one of it stays.
enum class ScatterReduce : uint8_t { none, add, prod, amax, amin, mean };
std::string_view name_of(ScatterReduce word);
Result<ScatterReduce> scatter_reduce_named(std::string_view name);

enum class GeluApproximation : uint8_t { none, tanh };
std::string_view name_of(GeluApproximation word);
Result<GeluApproximation> gelu_approximation_named(std::string_view name);

// linear of [n, c, w], bilinear and bicubic of [n, c, h, w], trilinear of [n, c, d, h, w].
enum class Interpolation : uint8_t { nearest, nearest_exact, linear, bilinear, trilinear, bicubic };
std::string_view name_of(Interpolation word);  // "nearest-exact"
Result<Interpolation> interpolation_named(std::string_view name);

// What grid_sample reads beyond the image.
enum class GridPadding : uint8_t { zeros, border, reflection };
std::string_view name_of(GridPadding word);
Result<GridPadding> grid_padding_named(std::string_view name);

}  // namespace hg
