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

// One input tensor. A script input that is a tuple, list or dict has several, in order, as in
// import_program; the name is the key in a dict.
struct ReferenceInput {
  std::string name;
  Tensor tensor;
};

// libtorch refused to run the model.
struct ReferenceFailure {
  std::string op;      // "aten::conv2d"; empty if unknown
  Origin origin;       // of the node
  std::string reason;  // one line
};

// Returns the outputs, flattened in order. Random numbers depend only on the seed. Starts with the
// buffers stored in the file. If `runs` > 1, returns the outputs of the last run. Throws
// ReferenceFailure.
std::vector<TensorData> run_reference(const Loaded& loaded, std::span<const ReferenceInput> inputs,
                                      uint64_t seed, int runs = 1);

// One execution of a node that has just run. Valid only during the observer's call.
class NodeRun {
 public:
  virtual ~NodeRun() = default;
  const ScriptNode* node = nullptr;
  int64_t occurrence = 0;  // number of earlier executions of this node
  // One tensor per output of the node; empty if the output is not a tensor.
  std::vector<TensorData> outputs;

  // Identifies a tensor of libtorch, also when it is passed on.
  using Identity = const void*;
  struct Argument {
    Identity identity = nullptr;
    TensorData value;
  };
  // Returns the tensors among the inputs and among the values that its blocks read from outside, as
  // the node left them. Lists are flattened.
  virtual std::vector<Argument> arguments() const = 0;
  virtual Identity identity(size_t output) const = 0;
  // The distance of neighboring levels of a quantized output; 0 for other outputs.
  virtual double level(size_t output) const = 0;
  // Returns the tensors in list outputs, flattened.
  virtual std::vector<Argument> elements() const = 0;
  // Returns whether it overwrites elements of an argument that it also reads for other elements.
  // The results then depend on the order of computation.
  virtual bool reads_what_it_writes() const = 0;
  // Returns a bool input by its schema name; nothing if there is none.
  virtual std::optional<bool> boolean(std::string_view argument) const = 0;
  // Returns libtorch's results if arguments() are replaced by these tensors, with lists flattened;
  // a tensor without data is not replaced. Returns nothing if the node draws random numbers, writes
  // to its inputs, or fails.
  virtual std::optional<std::vector<TensorData>> outputs_of(
      std::span<const Tensor> given) const = 0;
  // Replaces an output for the rest of the run.
  virtual void replace(size_t output, const Tensor& tensor) = 0;
};

// Called after each node in order of execution, also in branches and loops. Returning false ends
// the run.
using Observer = std::function<bool(NodeRun& run)>;

// The same, node by node. Memory that ops such as aten::empty leave uninitialized is filled with a
// pattern that depends on the seed. Throws ReferenceFailure, which names the node; also if all
// loops together exceed `most_rounds` iterations (0: no limit).
std::vector<TensorData> run_reference_nodes(const Loaded& loaded,
                                            std::span<const ReferenceInput> inputs, uint64_t seed,
                                            const Observer& observer, int64_t most_rounds = 0);

// As run_reference, with each input and weight moved randomly by up to `ulps` units in the last
// place of its dtype.
std::vector<TensorData> run_reference_moved(const Loaded& loaded,
                                            std::span<const ReferenceInput> inputs, uint64_t seed,
                                            double ulps, uint64_t noise);

// Runs methods of one module in sequence: each run starts with the state that the previous one left
// in the module, which is restored at the end. Or runs exported programs in sequence, whose buffers
// with the same name are shared. The methods must outlive this object.
class ReferenceSequence {
 public:
  explicit ReferenceSequence(std::span<const Loaded* const> methods);
  ~ReferenceSequence();
  ReferenceSequence(const ReferenceSequence&) = delete;
  ReferenceSequence& operator=(const ReferenceSequence&) = delete;

  // See run_reference.
  std::vector<TensorData> run(size_t method, std::span<const ReferenceInput> inputs, uint64_t seed);
  // Returns a copy of the tensor with this name in the module's current state, complex numbers as
  // pairs; empty if the name is not that of a tensor.
  TensorData state(const std::string& name) const;

 private:
  class Body;
  std::unique_ptr<Body> body_;
};

// Whether an op of the program draws random numbers or returns uninitialized memory, so that two
// seeds may give different results.
bool may_vary(const Loaded& loaded);
bool has_uninitialised(const Loaded& loaded);

}  // namespace hg::convert
