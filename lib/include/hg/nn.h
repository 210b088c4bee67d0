// SPDX-License-Identifier: Apache-2.0
// Layers with PyTorch's names, arguments, initialisation and parameter names. A layer is one call
// of an op with parameters that it keeps: it adds that call and its parameters to a graph, or makes
// it at once.
//
//   hg::nn::Sequential net = {hg::nn::Linear(784, 256), hg::nn::ReLU(), hg::nn::Linear(256, 10)};
//   g.output("scores", net(g.input("image", hg::f32, {"n", 784})));  // parameters 0.weight, ...
//   HG_TRY_ASSIGN(hg::Array scores, net(ex, images));               // the same, at once
//
// A layer that is not told how many features its x has, as Linear(64), learns that from the first x
// that it is called with; until then it has no parameters. hg/named.h wires layers by the names of
// values.
//
// Copies of a layer are the same layer. Initialised is a layer by initialise(), or with seed 0 by
// whatever first needs its parameters. What a trainer trained comes back with load().
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "hg/array.h"
#include "hg/eager.h"
#include "hg/graph.h"
#include "hg/named_arrays.h"
#include "hg/words.h"

namespace hg::nn {

struct Block;  // hg/named.h

class Layer {
 public:
  // -- Use ----------------------------------------------------------------------------------------

  // Adds nodes and parameters, named `prefix` and the layer's own names, to the graph of `x`. Added
  // twice under one prefix, the parameters are shared. Fails as builders of graphs do: through the
  // graph's status().
  Value operator()(const Value& x, std::string_view prefix = "") const;
  Value operator()(const Value& x, const Value& target) const;  // of losses
  // Computes at once. Dropout drops, and batch_norm takes the statistics of the batch and moves the
  // running ones, while is_training().
  Result<Array> operator()(ExecutorBase& ex, const Operand& x) const;
  Result<Array> operator()(ExecutorBase& ex, const Operand& x, const Operand& target) const;
  // What the layer and those within do at once; in a graph the trainer decides. True at first.
  void train(bool training = true);
  void eval() { train(false); }
  bool is_training() const;

  // -- Parameters ---------------------------------------------------------------------------------

  // The same seed gives the same numbers.
  Status initialise(uint64_t seed);
  // By name, in PyTorch's order. The arrays are the layer's own: what is written there counts.
  Result<NamedArrays> parameters() const;
  Result<NamedArrays> buffers() const;
  // Takes over what a graph has under the layer's names, such as that of Trainer::model().
  Status load(const Graph& graph, std::string_view prefix = "");

  // -- In a named model (hg/named.h) --------------------------------------------------------------

  // The layer as a block, with a wire or a name, as the methods of Block give them.
  Block input(std::string name) const;
  Block output(std::string name) const;
  Block named(std::string name) const;
  Block share(std::string path) const;

  // As PyTorch prints it.
  std::string text() const;

  struct Body;  // lib/nn/layer.h

 protected:
  explicit Layer(std::shared_ptr<Body> body) : body_(std::move(body)) {}

 private:
  friend struct LayerAccess;  // lib/nn/layer.h
  std::shared_ptr<Body> body_;
};
void append_text(std::string& out, const Layer& layer);

// One number for both dims of an image, or one for each.
struct Pair {
  Pair(int64_t both) : height(both), width(both) {}  // NOLINT: implicit
  Pair(int64_t h, int64_t w) : height(h), width(w) {}
  int64_t height, width;
};

struct Linear : Layer {
  explicit Linear(int64_t out_features);
  Linear(int64_t in_features, int64_t out_features, bool bias = true);
};

struct Conv2dOptions {
  Pair stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};
struct Conv2d : Layer {
  Conv2d(int64_t out_channels, Pair kernel_size, const Conv2dOptions& options = {});
  Conv2d(int64_t in_channels, int64_t out_channels, Pair kernel_size,
         const Conv2dOptions& options = {});
};

struct BatchNorm2d : Layer {
  BatchNorm2d();
  explicit BatchNorm2d(int64_t features, double eps = 1e-5, double momentum = 0.1,
                       bool affine = true);
};

struct LayerNorm : Layer {
  explicit LayerNorm(const Sizes& normalized_shape, double eps = 1e-5,
                     bool elementwise_affine = true, bool bias = true);
};

struct Embedding : Layer {
  Embedding(int64_t embeddings, int64_t dim, std::optional<int64_t> padding_idx = {});
};

struct Dropout : Layer {
  explicit Dropout(double p = 0.5);
};

struct ReLU : Layer {
  ReLU();
};
struct Sigmoid : Layer {
  Sigmoid();
};
struct Tanh : Layer {
  Tanh();
};
struct GELU : Layer {
  explicit GELU(GeluApproximation approximate = GeluApproximation::none);
};
struct Softmax : Layer {
  explicit Softmax(int64_t dim);
};

// Called with x and the target.
struct MSELoss : Layer {
  explicit MSELoss(Reduction reduction = Reduction::mean);
};

// One after another; their parameters have "0.", "1.", ... in front.
class Sequential : public Layer {
 public:
  Sequential(std::initializer_list<Layer> layers);
  explicit Sequential(std::span<const Layer> layers);
};

}  // namespace hg::nn
