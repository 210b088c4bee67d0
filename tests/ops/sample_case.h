// SPDX-License-Identifier: Apache-2.0
// One sample as a graph of one op, and the result of a session.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "tests/ops/samples.h"

namespace hg::test {

// The allowed error of a result: rounding to its dtype, or the sample's tolerance.
double tolerance_of(const Sample& sample, DType dtype);

struct Input {
  std::string name;
  std::vector<double> values;
  TensorData data;
};

// The op's call in a graph; `floats` replaces f32 in the sample.
struct Case {
  Graph graph;
  std::vector<Value> arguments;  // of the op's call
  std::vector<Input> inputs;     // arguments that are graph inputs or constants
  std::vector<int> input_of;     // by argument: the index of its input, or -1
  int node = 0;                  // of the op
  std::vector<Value> outputs;
};

// `copied`: an op copies each input first, into the arena. `shared`: in addition, inputs with equal
// dtype and shape are one input. `symbolic`: each size of an input is its own symbol, such as
// "x0_1" for dim 1 of the first input; the tensors of a run bind it.
enum class Wiring { plain, copied, shared, symbolic };
Result<std::unique_ptr<Case>> build(const Sample& sample, DType floats,
                                    Wiring wiring = Wiring::plain);

struct Answer {
  DType dtype = f32;
  Sizes shape;
  std::vector<double> values;
  std::vector<char> bytes;
};

// A session of the case's graph, perhaps after saving and reading it. `strided`: the inputs have
// gaps. Fails if another kernel ran than the one that `options` force.
class CaseRun {
 public:
  CaseRun(const Case& c, bool strided = false) : case_(&c), strided_(strided) {}
  Status create(const Model& model, SessionOptions options);
  Status run();
  Result<std::vector<Answer>> answers() const;
  bool is_created() const { return session_.has_value(); }
  // Whether this kernel computes the case's op: "conv=gemm".
  bool uses(std::string_view kernel) const;

 private:
  const Case* case_;
  bool strided_;
  std::vector<std::string> forced_;
  std::vector<std::vector<char>> memory_;  // for inputs with gaps
  std::optional<Session> session_;
};
Result<std::vector<Answer>> run(const Case& c, SessionOptions options, bool strided = false);

// The result of the loops in kernels/reference for outputs of these dtypes and shapes, rounded.
std::vector<std::vector<double>> expected_of(const Case& c, const std::vector<Answer>& shapes);

}  // namespace hg::test
