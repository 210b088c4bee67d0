// SPDX-License-Identifier: Apache-2.0
// One sample as a graph of one op, and what a session answers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "tests/samples.h"

namespace hg::test {

struct Input {
  std::string name;
  std::vector<double> values;
  TensorData data;
};

// The op's call with every float of `sample` in another dtype where `floats` is not f32.
struct Case {
  Graph graph;
  std::vector<Value> arguments;  // of the op
  std::vector<Input> inputs;     // those that are inputs of the graph or constants
  int node = 0;                  // of the op
  std::vector<Value> outputs;
};

// `copied`: each input goes through an op first, so that it lies in the arena.
Result<std::unique_ptr<Case>> build(const Sample& sample, DType floats, bool copied = false);

struct Answer {
  DType dtype = f32;
  Sizes shape;
  std::vector<double> values;
  std::vector<char> bytes;
};

// `strided`: the inputs have gaps. Refused where another kernel was used than `options` force.
Result<std::vector<Answer>> run(const Case& c, Options options, bool strided = false);

// The next number of a sequence: splitmix64.
uint64_t next_random(uint64_t& state);

}  // namespace hg::test
