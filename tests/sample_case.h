// SPDX-License-Identifier: Apache-2.0
// One sample as a graph of one op, and the result of a session.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hg/hg.h"
#include "tests/samples.h"

namespace hg::test {

// What an answer may differ by: the rounding of its dtype, or what the sample allows.
double tolerance_of(const Sample& sample, DType dtype);

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
  std::vector<int> input_of;     // for each argument: which of them, or -1
  int node = 0;                  // of the op
  std::vector<Value> outputs;
};

// `copied`: each input goes through an op first, so that it lies in the arena. `shared`: and an
// input of the dtype and shape of an earlier one is that one again. `symbolic`: each size of an
// input is a symbol of its own, "x0_1" of dim 1 of the first, which the given tensors bind.
enum class Wiring { plain, copied, shared, symbolic };
Result<std::unique_ptr<Case>> build(const Sample& sample, DType floats,
                                    Wiring wiring = Wiring::plain);

struct Answer {
  DType dtype = f32;
  Sizes shape;
  std::vector<double> values;
  std::vector<char> bytes;
};

// A session of the case's graph, which may have been saved and read meanwhile. `strided`: the
// inputs have gaps. Refused where another kernel was used than `options` force.
class CaseRun {
 public:
  CaseRun(const Case& c, bool strided = false) : case_(&c), strided_(strided) {}
  Status create(const Model& model, SessionOptions options);
  Status run();
  Result<std::vector<Answer>> answers() const;
  bool is_created() const { return session_.has_value(); }
  // Whether the op of the case is served by this kernel: "conv=gemm".
  bool uses(std::string_view kernel) const;

 private:
  const Case* case_;
  bool strided_;
  std::vector<std::string> forced_;
  std::vector<std::vector<char>> memory_;  // of inputs with gaps
  std::optional<Session> session_;
};
Result<std::vector<Answer>> run(const Case& c, SessionOptions options, bool strided = false);

// What the op's loops in kernels/reference give, rounded, for outputs of these dtypes and shapes.
std::vector<std::vector<double>> expected_of(const Case& c, const std::vector<Answer>& shapes);

}  // namespace hg::test
