// SPDX-License-Identifier: Apache-2.0
// Internals of a layer: which op it calls with which inputs, or a list of layers.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hg/nn.h"

namespace hg::nn {

struct Layer::Body {
  struct State {
    std::string name;
    DType dtype = f32;
    Sizes shape;
    init::Rule rule;
    bool is_parameter = true;
    bool is_read = true;  // read by the op; otherwise it only counts calls
    Array array;          // empty until initialized
  };
  // Source of an op input.
  enum Slot : int { kX = -1, kTarget = -2, kAbsent = -3 };  // otherwise an index of `states`

  std::string kind, arguments;  // "Linear", "in_features=784, out_features=256, bias=True"
  Settings settings;            // recreate the layer
  std::string op;
  std::vector<int> inputs;
  NamedAttrs attrs;
  std::vector<State> states;
  std::vector<Layer> layers;  // of Sequential
  bool takes_target = false, has_mode = false;
  // batch_norm: the states that its other outputs replace.
  std::vector<int> moved;
  int64_t zero_row = -1;  // embedding: the row that stays zero
  // The setting to infer from the first x, and the dim of x that determines it. Empty: none.
  std::string open;
  int open_dim = 0;
  std::optional<std::pair<int64_t, int64_t>> flattened;  // Flatten: its first and last dim
  // RNN, LSTM, GRU: `op` runs one direction of one layer. The states are weight_ih, weight_hh,
  // bias_ih and bias_hh if there are biases, and weight_hr if h is projected, of each direction of
  // each layer.
  struct Recurrent {
    int64_t layers = 1, directions = 1;
    Sizes sizes;  // of h, and of c in LSTM
    bool is_batch_first = false, has_bias = true, is_projected = false;
  };
  std::optional<Recurrent> recurrent;
  bool is_training = true, is_initialised = false;

  bool is_sequential() const { return op.empty(); }
};

struct LayerAccess {
  static Layer::Body& body(const Layer& layer) { return *layer.body_; }
  static Layer make(std::shared_ptr<Layer::Body> body) { return Layer(std::move(body)); }
};

// Returns the layer with the open setting taken from x. Its states have no arrays.
Result<Layer> complete(const Layer::Body& body, const TensorType& x);

// Returns the attributes of the layer's op for this x.
Result<NamedAttrs> attrs_for(const Layer::Body& body, const TensorType& x);

// Returns the initial contents of a state. zero_row >= 0: that row is zero.
Result<TensorData> first_contents(DType dtype, const Sizes& shape, const init::Rule& rule,
                                  int64_t zero_row);

}  // namespace hg::nn
