// SPDX-License-Identifier: Apache-2.0
// Runs the TorchScript module with libtorch, as what the converted model is compared with.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "converter/load.h"
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

// Called after each node, in order of execution, inside of branches and loops too. `outputs` has
// one tensor for each output of the node, empty where it is not a tensor; valid during the call.
// `occurrence` counts the executions of this node from 0. Returning false ends the run.
using Observer = std::function<bool(const ScriptNode& node, int64_t occurrence,
                                    std::span<const TensorData> outputs)>;

// The same node by node. Memory that ops such as aten::empty leave as it was is filled with a
// pattern that depends on the seed. Throws ReferenceFailure, which names the node, also when all
// loops together take more than `most_rounds`, which is none where it is 0.
std::vector<TensorData> run_reference_nodes(const Loaded& loaded,
                                            std::span<const ReferenceInput> inputs, uint64_t seed,
                                            const Observer& observer, int64_t most_rounds = 0);

// Some op of the program draws random numbers or returns memory as it was, so that two seeds may
// give two results.
bool may_vary(const Loaded& loaded);
bool has_uninitialised(const Loaded& loaded);

}  // namespace hg::convert
