// SPDX-License-Identifier: Apache-2.0
// One ONNX node as a row sees it: inputs by position, attributes by name, the opset version. A row
// adds graph ops that follow the specification of that version, or rejects the node by name.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "converter/onnx/rows.h"
#include "converter/onnx/types.h"
#include "converter/rows/node_call.h"
#include "hg/ops/activation.h"
#include "hg/ops/attention.h"
#include "hg/ops/compare.h"
#include "hg/ops/composed.h"
#include "hg/ops/conv.h"
#include "hg/ops/copy.h"
#include "hg/ops/eig.h"
#include "hg/ops/image.h"
#include "hg/ops/index.h"
#include "hg/ops/linalg.h"
#include "hg/ops/matmul.h"
#include "hg/ops/movement.h"
#include "hg/ops/norm.h"
#include "hg/ops/operators.h"
#include "hg/ops/pool.h"
#include "hg/ops/reduce.h"
#include "hg/ops/rope.h"
#include "hg/ops/scan.h"
#include "hg/ops/scatter.h"
#include "hg/ops/scatter_view.h"
#include "hg/ops/search.h"
#include "hg/ops/sort.h"
#include "hg/ops/unary.h"

namespace hg::convert::onnx {

using Values = std::vector<Value>;
using Dims = std::vector<Dim>;

class Node {
 public:
  explicit Node(NodeCall& call);

  NodeCall& call() const { return call_; }
  Graph& graph() const { return call_.graph(); }
  int64_t opset() const { return opset_; }
  std::string_view name() const;  // "Conv"
  int output_count() const { return static_cast<int>(call_.node().outputs.size()); }

  // Inputs. Rejects a missing input without a default.
  int input_count() const { return call_.argument_count(); }
  bool has(int i) const;
  const Item& item(int i) const;
  Value in(int i) const;
  Value in_or_none(int i) const;  // Value() if not given
  TensorType type(int i) const;
  std::vector<Item> list(int i) const;  // the elements of a sequence
  // Returns the numbers of a tensor of rank 0 or 1 if the import knows them.
  std::optional<Known> known(int i) const;
  // Returns the elements of an integer tensor as sizes. Data-dependent elements become symbols.
  Dims dims(int i) const;
  Dim dim(int i) const;  // of one element
  // The same for integers of either sign.
  Dims terms(int i) const;
  Dim term(int i) const;
  // Elements that must not depend on sizes or data.
  std::vector<int64_t> integers(int i) const;
  int64_t integer(int i) const;
  std::vector<double> reals(int i) const;
  double real(int i) const;
  bool is_constant(int i) const;        // whether real() and reals() return values
  bool only_data_decides(int i) const;  // neither constant nor known from sizes
  // Integers without a Hologram dtype: in(i) rejects them, and numbers(i) returns them in a wider
  // dtype. For other tensors, numbers(i) is in(i).
  int64_t small_type(int i) const;  // ONNX's number of the type; 0 for other tensors
  Value numbers(int i) const;

  // Attributes.
  bool has(std::string_view attribute) const;
  int64_t integer(std::string_view attribute, std::optional<int64_t> fallback = {}) const;
  bool flag(std::string_view attribute, bool fallback = false) const;  // 0 or 1
  double real(std::string_view attribute, std::optional<double> fallback = {}) const;
  std::string string(std::string_view attribute, std::optional<std::string> fallback = {}) const;
  std::vector<int64_t> integers(std::string_view attribute) const;  // empty if missing
  std::vector<double> reals(std::string_view attribute) const;      // empty if missing
  std::vector<std::string> strings(std::string_view attribute) const;
  const TensorData& tensor(std::string_view attribute) const;
  // Converts ONNX's number of a dtype; rejects dtypes that Hologram does not have.
  DType dtype(std::string_view attribute, std::optional<DType> fallback = {}) const;

  // Returns the sizes of x from a dim on; rejects a tensor with fewer dims.
  Dims sizes_from(const Value& x, int dim) const;
  // Returns the results of an op with several results; refuses if the op rejects its inputs.
  Values ops(std::string_view name, const Values& inputs, const NamedAttrs& attrs = {}) const;
  // Converts an axis in [-rank, rank) to one in [0, rank).
  int axis(int64_t given, int rank) const;
  // Returns axes that are an attribute before opset `since`, and input i from then on; nothing if
  // missing.
  std::optional<std::vector<int>> axes(int64_t since, int i, int rank) const;

  // Results.
  void give(const Value& value) const { give(Values{value}); }
  void give(const Values& values) const;
  void give(Known known) const;
  void give_item(Item item) const;
  // Returns small integers: ONNX's number of the type, and the numbers in the wider dtype.
  void give_small_integers(int64_t type, const Value& numbers) const;
  // Makes input 0, and others of its type, their numbers in the wider dtype, and converts results
  // back. Returns false if input 0 has a Hologram dtype.
  bool move_small_integers();

  // Refuses if the op rejects its inputs.
  Value op(std::string_view name, std::initializer_list<Value> inputs,
           const NamedAttrs& attrs = {}) const;
  // Runs the row of PyTorch's op with these arguments; returns its results.
  std::vector<Item> aten(std::string_view kind, std::vector<std::pair<std::string, Item>> arguments,
                         int results = 1) const;
  Value aten_value(std::string_view kind,
                   std::vector<std::pair<std::string, Item>> arguments) const;
  Item item_of(const Value& value) const { return Item(call_.make_tensor(value)); }

  [[noreturn]] void refuse(std::string why, std::string suggestion = "") const;

 private:
  const Item* find(std::string_view attribute) const;
  const Object* small_object(int i) const;
  Item numbers_item(const Object& object) const;
  template <class Read>
  Dims terms(int i, const Read& read) const;
  Dim only(int i, const Dims& all) const;
  NodeCall& call_;
  const Dict* attributes_ = nullptr;
  std::map<int, Item> moved_;  // by input
  int64_t opset_ = 1;
};

inline Value where(const Value& condition, const Value& yes, const Value& no) {
  return yes.graph()->call("where", {condition, yes, no});
}
Value constant_like(const Value& x, double value);  // a scalar of x's dtype
Value constant_of(Graph& g, DType dtype, double value);
Value constant_list(Graph& g, const std::vector<int64_t>& values);  // i64[n]
Value constant_list(Graph& g, const std::vector<double>& values, DType dtype);
Dims range(int count);  // 0, 1, ...
Dims one_each(int count, const Dim& value);
Dims dims_of(const std::vector<int64_t>& values);
Item list_item(const Dims& values);

// Shape arithmetic on numbers that the import knows; returns false if it cannot compute the node.
bool run_known(Node& node);

using Rows = std::span<const Builtin>;
template <void (*F)(Node&)>
bool row(NodeCall& call) {
  Node node(call);
  if (!run_known(node)) F(node);
  return true;
}

// The row of an op that only moves elements of any type.
template <void (*F)(Node&)>
bool moving_row(NodeCall& call) {
  Node node(call);
  if (node.move_small_integers() || !run_known(node)) F(node);
  return true;
}

// One table per file of rows.
Rows elementwise_rows();
Rows shape_rows();
Rows slice_rows();
Rows index_rows();
Rows reduce_rows();
Rows conv_rows();
Rows pool_rows();
Rows norm_rows();
Rows matmul_rows();
Rows recurrent_rows();
Rows resize_rows();
Rows quantize_rows();
Rows attention_rows();
Rows loss_rows();
Rows signal_rows();
Rows detection_rows();
Rows sequence_rows();
Rows random_rows();
Rows control_rows();
Rows contrib_rows();
Rows contrib_attention_rows();
Rows contrib_grouped_attention_rows();
Rows contrib_quantize_rows();
Rows ml_rows();
Rows ml_trees_rows();
Rows ml_vectors_rows();

}  // namespace hg::convert::onnx
