// SPDX-License-Identifier: Apache-2.0
// Stateful models. A decoder passes its past from run to run, a streaming or recurrent model its
// state: outputs of one run are inputs of the next. A stateful model keeps these values in buffers
// of the session, where nothing copies them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "hg/model.h"

namespace hg {

// The output of a run that is an input of the next run.
struct CarriedValue {
  std::string output, input;
  friend bool operator==(const CarriedValue&, const CarriedValue&) = default;
};

struct StatefulOptions {
  std::vector<CarriedValue> carried = {};  // empty: those of carried_values()
  // The size of buffers along the dim that grows from run to run: for a decoder, the most
  // positions.
  int64_t capacity = 2048;
  // Sizes of symbols, which become numbers in the whole model. Buffers have fixed sizes, so
  // give the symbols of carried values, such as the batch, but not those that grow.
  std::vector<std::pair<std::string, int64_t>> dims = {};
};

// Returns the values that a model carries by the names that exporters of decoders give them: an
// output "present" + x or "present_key_values" + x and an input "past_key_values" + x or "past" +
// x, where x begins with a dot or an underscore.
std::vector<CarriedValue> carried_values(const Graph& graph);

// Returns a copy of the model without these inputs and outputs. It has a buffer with the name of
// each input, zero at first; Session::value() and set_value() read and write it. The model shares
// the weights of the original. Sessions of models that equal options make of one model share what
// they compile, as sessions of one model do.
//
// A carried value is one of two kinds:
// - The output has the fixed shape of the input: it is assigned at the end of each run.
// - The output is the input with something appended along one dim, concat({input, new}). A run
//   writes the new part into the buffer, behind the first p positions, and reads no more than both.
//   p is the size of the input, which other inputs must determine, such as an attention mask of
//   [b, p + t]. A host starts again with p = 0, and drops the end with a smaller p. A run beyond
//   the capacity fails before it begins.
//
// Fails with invalid_argument or unsupported, and names the value, if a pair does not exist, is of
// neither kind, or has a size that is no number; also if nothing is carried.
Result<Model> make_stateful(const Model& model, const StatefulOptions& options = {});

}  // namespace hg
