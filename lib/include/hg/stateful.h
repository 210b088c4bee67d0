// SPDX-License-Identifier: Apache-2.0
// Stateful models. In decoders, streaming models and recurrent models, outputs of one run are
// inputs of the next. A stateful model keeps these values in buffers of the session and copies
// nothing.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hg/model.h"

namespace hg {

// An output of one run that is an input of the next run.
struct CarriedValue {
  std::string output, input;
  friend bool operator==(const CarriedValue&, const CarriedValue&) = default;
};

struct StatefulOptions {
  std::vector<CarriedValue> carried = {};  // empty: those of carried_values()
  // Size of the buffers along the dim that grows from run to run: for a decoder, the largest number
  // of positions.
  int64_t capacity = 2048;
  // Other capacities, of values that grow from a size of this symbol.
  std::vector<std::pair<std::string, int64_t>> capacities = {};
  // Sizes of symbols, which become numbers in the whole model. Buffers have fixed sizes, so set all
  // symbols of carried values, such as the batch, except those that grow.
  std::vector<std::pair<std::string, int64_t>> dims = {};
  // How buffers of values that grow hold floats: f32, f16, bf16 or i8; nullopt: as the model has
  // them. i8 rounds the numbers along the last dim to 8 bits, with one scale: the buffer
  // scale_name(input) holds the scales, f32[..., 1]. The error is up to 1/254 of the largest
  // number. Each run converts what it reads.
  std::optional<DType> stored = {};
};

// The name of the buffer with the scales of an input that is stored as i8.
std::string scale_name(std::string_view input);

// Finds carried values by the names that exporters of decoders use: an output "present" + x or
// "present_key_values" + x, and an input "past_key_values" + x or "past" + x. x begins with a dot
// or an underscore.
std::vector<CarriedValue> carried_values(const Graph& graph);

// Returns a copy of the model without these inputs and outputs. It has a buffer with the name of
// each input, zero at first; Session::value() and set_value() read and write it. The copy shares
// the weights of the original. Sessions of several copies made with equal options share compiled
// graphs and packed weights, like sessions of one model.
//
// A carried value is one of two kinds:
// - The output has the fixed shape of the input: it is assigned at the end of each run.
// - The output is the input with new positions appended along one dim, concat({input, new}). A run
//   writes the new part into the buffer after the first p positions, and reads only these and the
//   new part. p is the size of the input, which other inputs must determine, such as an attention
//   mask of [b, p + t]. With p = 0 a host starts again; a smaller p drops the last positions. A run
//   beyond the capacity fails before it begins, and so does a run whose p is larger than the number
//   of positions that the buffer holds. Once the host has called value() or set_value() for a
//   buffer, all its positions count.
//
// Fails with invalid_argument or unsupported if a pair does not exist, is of neither kind, or has a
// symbolic size other than the one that grows; the message names the value. Also fails if the model
// carries no values.
Result<Model> make_stateful(const Model& model, const StatefulOptions& options = {});

// Returns a copy of a decoder that starts anew in each run, for example to train it. The inputs of
// carried_values() become empty or zero, and their outputs are removed. `attention_mask` becomes
// ones and `position_ids` positions from 0, unless `keep` names them. The copy shares the weights,
// and drops optimizer state.
//
// Fails with invalid_argument if the model carries no values, and with unsupported if the size of a
// growing value is not a symbol.
Result<Model> make_stateless(const Model& model, std::span<const std::string> keep = {});

}  // namespace hg
