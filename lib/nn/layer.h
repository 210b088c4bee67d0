// SPDX-License-Identifier: Apache-2.0
// The inside of a layer: a row that says which op it calls with what, or a list of layers.
#pragma once

#include <string>
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
    bool is_read = true;  // by the op; else it only counts
    Array array;
  };
  // Where an input of the op comes from.
  enum Slot : int { kX = -1, kTarget = -2, kAbsent = -3 };  // else an index of states

  std::string kind, arguments;  // "Linear", "in_features=784, out_features=256, bias=True"
  std::string op;
  std::vector<int> inputs;
  NamedAttrs attrs;
  std::vector<State> states;
  std::vector<Layer> layers;  // of Sequential
  bool takes_target = false, has_mode = false;
  // Of batch_norm: the states that its further outputs replace, and the one that counts batches.
  std::vector<int> moved;
  int64_t zero_row = -1;  // of an embedding: what stays without a vector
  bool is_training = true, is_initialised = false;

  bool is_sequential() const { return op.empty(); }
};

struct LayerAccess {
  static Layer::Body& body(const Layer& layer) { return *layer.body_; }
};

}  // namespace hg::nn
