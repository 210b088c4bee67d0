// SPDX-License-Identifier: Apache-2.0
// Layers with PyTorch's names, arguments, initialization and parameter names. A layer holds
// parameters and calls one op. It adds that call to a graph, or runs it immediately.
//
//     hg::nn::Sequential net = {hg::nn::Linear(784, 256), hg::nn::ReLU(), hg::nn::Linear(256, 10)};
//     g.output("scores", net(g.input("image", hg::f32, {"n", 784})));  // parameters 0.weight, ...
//     HG_TRY_ASSIGN(hg::Array scores, net(ex, images));                // runs immediately
//
// A layer without the size of its input, such as Linear(64), infers it from the first x. Until then
// it has no parameters. hg/named.h connects layers by names of values.
//
// Copies refer to the same layer. initialise() sets the parameters; otherwise their first use
// initializes them with seed 0. load() copies trained parameters into the layer.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hg/array.h"
#include "hg/eager.h"
#include "hg/graph.h"
#include "hg/named_arrays.h"
#include "hg/words.h"

namespace hg::nn {

struct Block;  // hg/named.h
class Layer;

// Arguments of a layer by name.
using Settings = std::vector<std::pair<std::string, Attr>>;

// Creates a layer of this kind: make_layer("Linear", {{"out_features", 64}}). Fails with not_found
// for an unknown kind, or with an error that names the missing or invalid setting.
Result<Layer> make_layer(std::string_view kind, const Settings& settings = {});
// Returns the signature of a kind, "Linear(x, out_features: int, ...) -> y"; empty for an unknown
// kind.
std::string_view layer_signature(std::string_view kind);

class Layer {
 public:
  // -- Use ----------------------------------------------------------------------------------------

  // Adds nodes and parameters to the graph of `x`. Parameter names start with `prefix`. Calling it
  // again with the same prefix shares the parameters. Errors are reported through the graph's
  // status().
  Value operator()(const Value& x, std::string_view prefix = "") const;
  Value operator()(const Value& x, const Value& target) const;  // for losses
  // Run immediately. While is_training(), dropout is active, and batch_norm uses batch statistics
  // and updates the running ones.
  Result<Array> operator()(ExecutorBase& ex, const Operand& x) const;
  Result<Array> operator()(ExecutorBase& ex, const Operand& x, const Operand& target) const;
  // Sets the mode of immediate calls, for this layer and the layers in it. Initially true. In a
  // graph, the trainer decides.
  void train(bool training = true);
  void eval() { train(false); }
  bool is_training() const;

  // -- Parameters ---------------------------------------------------------------------------------

  // Sets the parameters. Equal seeds produce equal parameters.
  Status initialise(uint64_t seed);
  // Parameters or buffers by name, in PyTorch's order. The arrays share the layer's memory: writing
  // to them changes the layer. Fail if the input size is not known yet.
  Result<NamedArrays> parameters() const;
  Result<NamedArrays> buffers() const;
  // Copies the states that `graph` has under the layer's names, for example the graph of
  // Trainer::model(). Fails with not_found if one is missing, or invalid_argument if dtype or shape
  // differ; the layer is then unchanged.
  Status load(const Graph& graph, std::string_view prefix = "");

  // -- In a named model (hg/named.h) --------------------------------------------------------------

  // Return the layer as a block with a wire or a name (see Block).
  Block input(std::string name) const;
  Block output(std::string name) const;
  Block named(std::string name) const;
  Block share(std::string path) const;

  // Prints the layer as PyTorch does.
  std::string text() const;

  struct Body;  // lib/nn/layer.h

 protected:
  explicit Layer(std::shared_ptr<Body> body) : body_(std::move(body)) {}

 private:
  friend struct LayerAccess;  // lib/nn/layer.h
  std::shared_ptr<Body> body_;
};
void append_text(std::string& out, const Layer& layer);

// A size for both dims of an image, or one for each.
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

// Called with x and a target.
struct MSELoss : Layer {
  explicit MSELoss(Reduction reduction = Reduction::mean);
};

// make_layer() creates further kinds: Conv1d, MaxPool1d, MaxPool2d, AvgPool1d, AvgPool2d, Flatten,
// GroupNorm, RNN, LSTM, GRU, LeakyReLU, ELU, SiLU, Softplus, LogSoftmax, L1Loss, HuberLoss,
// CrossEntropyLoss, BCELoss and BCEWithLogitsLoss. A recurrent layer returns y; as a block it also
// has the states after the last step as outputs, and accepts those before the first as inputs.

// Runs layers in sequence. Their parameter names start with "0.", "1.", ...
class Sequential : public Layer {
 public:
  Sequential(std::initializer_list<Layer> layers);
  explicit Sequential(std::span<const Layer> layers);
};

}  // namespace hg::nn
