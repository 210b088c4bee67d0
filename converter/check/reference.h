// SPDX-License-Identifier: Apache-2.0
// Runs the TorchScript module with libtorch, as the reference for the converted model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "converter/load/load.h"
#include "hg/tensor.h"

namespace hg::convert {

// One input tensor. Tuples, lists and dicts among the script's inputs take several, in order, as
// import_program does; the name is the key in a dict.
struct ReferenceInput {
  std::string name;
  Tensor tensor;
};

// libtorch refused to run the model.
struct ReferenceFailure {
  std::string op;      // "aten::conv2d", or empty when it is not known
  Origin origin;       // of the node
  std::string reason;  // one line
};

// The outputs, flattened in order. The same seed gives the same random numbers. Starts from the
// buffers that the file holds; of several runs in a row, the last one's. Throws ReferenceFailure.
std::vector<TensorData> run_reference(const Loaded& loaded, std::span<const ReferenceInput> inputs,
                                      uint64_t seed, int runs = 1);

// One execution of a node that has just run. Valid during the call of an observer.
class NodeRun {
 public:
  virtual ~NodeRun() = default;
  const ScriptNode* node = nullptr;
  int64_t occurrence = 0;  // counts the executions of this node from 0
  // One tensor for each output of the node, empty where it is not a tensor.
  std::vector<TensorData> outputs;

  // A tensor of libtorch's: the same one has one identity, wherever it is passed on to.
  using Identity = const void*;
  struct Argument {
    Identity identity = nullptr;
    TensorData value;
  };
  // The tensors among the inputs, and among what its blocks read from around, those in lists one by
  // one, as the node left them.
  virtual std::vector<Argument> arguments() const = 0;
  virtual Identity identity(size_t output) const = 0;
  // The tensors in those of its outputs that are lists, one by one.
  virtual std::vector<Argument> elements() const = 0;
  // Whether it writes to elements of an argument that it also reads for others: their results
  // depend on the order in which elements are computed.
  virtual bool reads_what_it_writes() const = 0;
  // A bool among its inputs, by the schema's name; none where there is no such.
  virtual std::optional<bool> boolean(std::string_view argument) const = 0;
  // What libtorch makes of other tensors in the places of arguments() (without data: of its own),
  // lists one by one.
  // Nothing where the node draws random numbers, writes to its inputs, or fails.
  virtual std::optional<std::vector<TensorData>> outputs_of(
      std::span<const Tensor> given) const = 0;
  // The run goes on with this in the place of an output.
  virtual void replace(size_t output, const Tensor& tensor) = 0;
};

// Called after each node, in order of execution, inside branches and loops too. Returning false
// ends the run.
using Observer = std::function<bool(NodeRun& run)>;

// The same node by node. Memory that ops such as aten::empty leave as it was is filled with a
// pattern that depends on the seed. Throws ReferenceFailure, which names the node, also when all
// loops together take more than `most_rounds`, which is none where it is 0.
std::vector<TensorData> run_reference_nodes(const Loaded& loaded,
                                            std::span<const ReferenceInput> inputs, uint64_t seed,
                                            const Observer& observer, int64_t most_rounds = 0);

// As run_reference, with inputs and weights that are each off by up to `ulps` units in the last
// place of their dtypes, by random amounts.
std::vector<TensorData> run_reference_moved(const Loaded& loaded,
                                            std::span<const ReferenceInput> inputs, uint64_t seed,
                                            double ulps, uint64_t noise);

// Methods of one module in turn: each run starts from what the one before left in the module, which
// is put back at the end. Or exported programs in turn, of which buffers of one name are one. The
// methods must outlive this.
class ReferenceSequence {
 public:
  explicit ReferenceSequence(std::span<const Loaded* const> methods);
  ~ReferenceSequence();
  ReferenceSequence(const ReferenceSequence&) = delete;
  ReferenceSequence& operator=(const ReferenceSequence&) = delete;

  // As run_reference.
  std::vector<TensorData> run(size_t method, std::span<const ReferenceInput> inputs, uint64_t seed);
  // A copy of the tensor that has the name in the module now, complex numbers as pairs; empty where
  // the name is no tensor's.
  TensorData state(const std::string& name) const;

 private:
  class Body;
  std::unique_ptr<Body> body_;
};

// Some op of the program draws random numbers or returns memory as it was, so that two seeds may
// give two results.
bool may_vary(const Loaded& loaded);
bool has_uninitialised(const Loaded& loaded);

}  // namespace hg::convert
