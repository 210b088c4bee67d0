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
#include "hg/ops/binary.h"
#include "hg/ops/compare.h"
#include "hg/ops/conv.h"
#include "hg/ops/image.h"
#include "hg/ops/linalg.h"
#include "hg/ops/matmul.h"
#include "hg/ops/movement.h"
#include "hg/ops/norm.h"
#include "hg/ops/pool.h"
#include "hg/ops/reduce.h"
#include "hg/ops/scan.h"
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

  // Inputs. What is not given and has no default is refused.
  int input_count() const { return call_.argument_count(); }
  bool has(int i) const;
  const Item& item(int i) const;
  Value in(int i) const;
  Value in_or_none(int i) const;  // Value() where it is not given
  TensorType type(int i) const;
  std::vector<Item> list(int i) const;  // the elements of a sequence
  // The numbers that the import knows of a tensor of rank 0 or 1.
  std::optional<Known> known(int i) const;
  // The elements of an integer tensor as sizes: those that only data decides become symbols.
  Dims dims(int i) const;
  Dim dim(int i) const;  // of one element
  // The same of integers of either sign.
  Dims terms(int i) const;
  Dim term(int i) const;
  // Elements that must not depend on sizes or data.
  std::vector<int64_t> integers(int i) const;
  int64_t integer(int i) const;
  std::vector<double> reals(int i) const;
  double real(int i) const;
  bool is_constant(int i) const;        // real() and reals() have an answer
  bool only_data_decides(int i) const;  // it is neither a constant nor known by sizes
  // Integers for which Hologram has no dtype: in(i) refuses them, and numbers(i) has them in a
  // wider dtype. Of other tensors, numbers(i) is in(i).
  int64_t small_type(int i) const;  // ONNX's number of the type; 0 of other tensors
  Value numbers(int i) const;

  // Attributes.
  bool has(std::string_view attribute) const;
  int64_t integer(std::string_view attribute, std::optional<int64_t> fallback = {}) const;
  bool flag(std::string_view attribute, bool fallback = false) const;  // 0 or 1
  double real(std::string_view attribute, std::optional<double> fallback = {}) const;
  std::string string(std::string_view attribute, std::optional<std::string> fallback = {}) const;
  std::vector<int64_t> integers(std::string_view attribute) const;  // empty when missing
  std::vector<double> reals(std::string_view attribute) const;      // empty when missing
  std::vector<std::string> strings(std::string_view attribute) const;
  const TensorData& tensor(std::string_view attribute) const;
  // ONNX's number of a dtype; one that Hologram lacks is refused.
  DType dtype(std::string_view attribute, std::optional<DType> fallback = {}) const;

  // The sizes of x from a dim on; a tensor of fewer dims is refused.
  Dims sizes_from(const Value& x, int dim) const;
  // The results of an op with several; refuses where it does not take its inputs.
  Values ops(std::string_view name, const Values& inputs, const NamedAttrs& attrs = {}) const;
  // The specification's axis, in [-rank, rank), from the start.
  int axis(int64_t given, int rank) const;
  // Axes given as an attribute before `since`, and as input i from then on; none where missing.
  std::optional<std::vector<int>> axes(int64_t since, int i, int rank) const;

  // Results.
  void give(const Value& value) const { give(Values{value}); }
  void give(const Values& values) const;
  void give(Known known) const;
  void give_item(Item item) const;
  // ONNX's number of such a type, and its numbers in the wider dtype.
  void give_small_integers(int64_t type, const Value& numbers) const;
  // From here on, input 0 and others of its type are their numbers, and results are such integers
  // again; false where input 0 has a dtype.
  bool move_small_integers();

  // Refuses where the op does not take its inputs.
  Value op(std::string_view name, std::initializer_list<Value> inputs,
           const NamedAttrs& attrs = {}) const;
  // A row of PyTorch's op of this name, on these arguments; its results.
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

// Shape arithmetic on numbers that the import knows; false when it is not such.
bool run_known(Node& node);

using Rows = std::span<const Builtin>;
template <void (*F)(Node&)>
bool row(NodeCall& call) {
  Node node(call);
  if (!run_known(node)) F(node);
  return true;
}

// Of an op that only moves elements, whatever they are.
template <void (*F)(Node&)>
bool moving_row(NodeCall& call) {
  Node node(call);
  if (node.move_small_integers() || !run_known(node)) F(node);
  return true;
}

// One table for each file of rows.
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
Rows contrib_quantize_rows();
Rows ml_rows();
Rows ml_trees_rows();
Rows ml_vectors_rows();

}  // namespace hg::convert::onnx
