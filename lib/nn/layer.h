// SPDX-License-Identifier: Apache-2.0
// The inside of a layer: a row that says which op it calls with what, or a list of layers.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hg/nn.h"

namespace hg::nn {

// What a layer was made with, by name, in the order of its signature.
using Settings = std::vector<std::pair<std::string, Attr>>;

struct Layer::Body {
  struct State {
    std::string name;
    DType dtype = f32;
    Sizes shape;
    init::Rule rule;
    bool is_parameter = true;
    bool is_read = true;  // by the op; else it only counts
    Array array;          // empty until it is initialised
  };
  // Where an input of the op comes from.
  enum Slot : int { kX = -1, kTarget = -2, kAbsent = -3 };  // else an index of states

  std::string kind, arguments;  // "Linear", "in_features=784, out_features=256, bias=True"
  Settings settings;            // what makes the same layer again
  std::string op;
  std::vector<int> inputs;
  NamedAttrs attrs;
  std::vector<State> states;
  std::vector<Layer> layers;  // of Sequential
  bool takes_target = false, has_mode = false;
  // Of batch_norm: the states that its further outputs replace, and the one that counts batches.
  std::vector<int> moved;
  int64_t zero_row = -1;  // of an embedding: what stays without a vector
  // The setting that the first x tells, by its size in that dim; empty: none is missing.
  std::string open;
  int open_dim = 0;
  bool is_training = true, is_initialised = false;

  bool is_sequential() const { return op.empty(); }
};

struct LayerAccess {
  static Layer::Body& body(const Layer& layer) { return *layer.body_; }
  static Layer make(std::shared_ptr<Layer::Body> body) { return Layer(std::move(body)); }
};

// The layer of this kind, with settings by name: "Linear", {{"out_features", 64}}. Fails with
// not_found where there is no such kind, and with the setting that is missing or does not fit.
Result<Layer> make_layer(std::string_view kind, const Settings& settings);
// "Linear(x, out_features: int, ...)" of each kind.
std::string_view layer_signature(std::string_view kind);

// The layer with what was open as an x of this type has it. Its states have no arrays.
Result<Layer> complete(const Layer::Body& body, const TensorType& x);

// The first contents of a state; a row from 0 on stays zeros.
Result<TensorData> first_contents(DType dtype, const Sizes& shape, const init::Rule& rule,
                                  int64_t zero_row);

}  // namespace hg::nn
