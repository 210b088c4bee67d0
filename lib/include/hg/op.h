// SPDX-License-Identifier: Apache-2.0
// An op is one OpDef row. Applications add ops to a Registry with the same row that built-in ops
// use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hg/graph.h"
#include "hg/registry.h"

namespace hg {

class AttrReader;
struct Assumption;
class InferContext;
class ExpandContext;
class GradContext;
class ViewContext;
struct KernelDef;  // kernel.h

// Bits of OpDef::traits.
enum Traits : uint32_t {
  kNoTraits = 0,
  kNoGradient = 1 << 0,     // the result is an integer or bool, or the gradient is zero everywhere
  kRandom = 1 << 1,         // draws random numbers; never folded, merged or recomputed differently
  kDataDependent = 1 << 2,  // an output size depends on the data
  kControl = 1 << 3,        // runs its subgraphs
  // Output k may overwrite the k-th given input, for every k, if no other node reads that input. A
  // state that is assigned such an output is updated in place. Kernels of the op must tolerate the
  // aliasing.
  kInPlace = 1 << 4,
  kComplex = 1 << 5,  // has complex inputs or outputs; all other ops reject complex tensors
  // The one output is computed element by element. Inputs broadcast to its shape.
  kElementwise = 1 << 6,
  kCommutative = 1 << 7,  // the first two inputs may be swapped
  kReduction = 1 << 8,    // reduces along the dims of attribute `dim`, or along all
  // Iterates along the first dim of its first input, [time, batch, width]. Each step depends on the
  // previous one.
  kScan = 1 << 9,
  kLoop = 1 << 10,       // with kControl: repeats its subgraph instead of selecting one
  kAssertion = 1 << 11,  // may fail the run depending on data: kept even if its result is unused
  // Finite inputs produce finite outputs, except on overflow. Ops without this trait may do so as
  // well.
  kKeepsFinite = 1 << 12,
  // Sums products of the first two inputs. Trainers that compute in 16 bits do so in these ops.
  kProduct = 1 << 13,
  // The output is the concatenation of the inputs along attribute `dim`.
  kConcatenation = 1 << 14,
};

// One op. A signature declares inputs, attributes and outputs:
//
//     conv(x, weight, bias?, stride: int[] = [1], groups: int = 1) -> y
//
// - Inputs: `x` is required, `bias?` optional, `xs...` any number (last input only).
// - Attributes: `name: type = default`. Types are bool, int, float, str, dtype, int[], float[] and
//   str[], each followed by `?` if the attribute may be none. An attribute without a default is
//   required.
// - Outputs: `-> y, indices`, or `-> ys...` if infer sets their number.
struct OpDef {
  std::string_view name = {};  // empty: the name in the signature
  std::string_view signature;
  // Sets the type of each output from the input types and the attributes. Call fresh_dim() for
  // sizes that depend on data, in the order in which the outputs have them.
  Status (*infer)(InferContext&) = nullptr;
  // Adds the gradients of the inputs. Null: the expansion is differentiated.
  Status (*grad)(GradContext&) = nullptr;
  // Builds the same result from other ops. Used on devices without a kernel, and to infer types if
  // infer is null.
  Status (*expand)(ExpandContext&) = nullptr;
  // For ops whose output is a view of the input's memory (transpose, slice): sets offset and
  // strides and returns true. Returns false if the input must be copied first.
  bool (*view)(ViewContext&) = nullptr;
  // Bit i: output 0 may overwrite input i, if both have the same number and size of elements and no
  // other node reads the input. Kernels of the op must tolerate the aliasing.
  uint32_t alias = 0;
  uint32_t traits = kNoTraits;
  // Multiplications and additions of one call, for reports. Null: one per output element.
  double (*flops)(std::span<const Sizes> in, std::span<const Sizes> out,
                  const AttrReader&) = nullptr;
};

enum class AttrType : uint8_t { boolean, integer, real, string, dtype, integers, reals, strings };

// A parsed signature.
struct Signature {
  struct Input {
    std::string name;
    bool optional = false;
    bool variadic = false;
  };
  struct Attribute {
    std::string name;
    AttrType type = AttrType::integer;
    bool optional = false;  // may be none
    bool required = false;  // has no default
    Attr fallback;
  };
  std::string name;
  std::vector<Input> inputs;
  std::vector<Attribute> attributes;
  std::vector<std::string> outputs;
  bool variadic_outputs = false;

  static Result<Signature> parse(std::string_view text);
  int find_attribute(std::string_view name) const;  // index, or -1
  int find_input(std::string_view name) const;      // index, or -1
};

// A registered op.
struct Op {
  OpDef def;
  Signature signature;
  std::string_view name() const { return def.name; }
};

// Reads attributes by name. The name must be in the op's signature and the accessor must match the
// attribute's type.
class AttrReader {
 public:
  AttrReader(const Op* op, std::span<const Attr> attrs) : op_(op), attrs_(attrs) {}
  bool has(std::string_view name) const;  // false if the attribute is none
  bool flag(std::string_view name) const;
  Dim integer(std::string_view name) const;
  double real(std::string_view name) const;
  const std::string& string(std::string_view name) const;
  DType dtype(std::string_view name) const;
  std::span<const Dim> integers(std::string_view name) const;
  std::span<const double> reals(std::string_view name) const;
  const Attr& raw(std::string_view name) const;
  const Op& op() const { return *op_; }
  std::span<const Attr> all() const { return attrs_; }

 private:
  const Op* op_;
  std::span<const Attr> attrs_;
};

// Argument of OpDef::infer. Sizes may be symbolic. The rule runs again with numbers before the
// first run. It may assume that symbolic sizes fit, but must check numbers.
class InferContext {
 public:
  int input_count() const { return static_cast<int>(inputs_.size()); }
  bool has(int i) const;  // whether input i is given
  const TensorType& in(int i) const { return *inputs_[i]; }
  const AttrReader& attrs() const { return attrs_; }
  // Returns a dim attribute in [-rank, rank), or [-1, 0] for rank 0, as a number in [0, rank).
  Result<int> axis(std::string_view attr, int rank) const;
  // Returns several dims, each of which may occur once. An empty list stays empty.
  Result<std::vector<int>> axes(std::string_view attr, int rank) const;
  // Returns the value of a constant input, or null if input i is not constant.
  const TensorData* constant(int i) const;
  std::span<const std::shared_ptr<Graph>> subgraphs() const { return subgraphs_; }

  void set_output_count(int count) { outputs_.resize(count); }  // for variadic outputs
  TensorType& out(int i) { return outputs_[i]; }
  int output_count() const { return static_cast<int>(outputs_.size()); }
  Dim fresh_dim();  // a size that depends on data
  // Return false if two sizes or types that must be equal certainly are not, or if a size that must
  // be at least `least` certainly is less. Otherwise the rule may go on; where that depends on
  // symbols, it is checked when they are bound.
  bool require_equal(const Dim& a, const Dim& b) const;
  bool require_equal(const TensorType& a, const TensorType& b) const;
  bool require_at_least(const Dim& value, int64_t least) const;
  // An empty graph for rules that follow from those of other ops. It adds the requirements of its
  // calls to those of this rule.
  Graph scratch_graph() const;

  // Returns invalid_argument, with the op and node name prefixed to the message.
  template <class... Parts>
  Status fail(const Parts&... parts) const {
    return invalid_argument(label(), ": ", str_cat(parts...));
  }
  std::string label() const;  // "matmul 'decoder.0.q'"

 private:
  friend struct GraphAccess;
  InferContext(const AttrReader& attrs) : attrs_(attrs) {}
  AttrReader attrs_;
  std::span<const TensorType* const> inputs_;
  std::span<const TensorData* const> constants_;
  std::vector<TensorType> outputs_;
  std::span<const std::shared_ptr<Graph>> subgraphs_;
  const Origin* origin_ = nullptr;
  const Registry* registry_ = nullptr;
  Graph* graph_ = nullptr;  // allocates fresh symbols; null when checking
  std::vector<Dim> fresh_;  // when checking: the existing symbols of the node
  size_t fresh_used_ = 0;
  std::vector<Assumption>* assumptions_ = nullptr;
};

// Broadcasts two shapes as torch does. A symbol and a number other than 1 become the number; two
// different symbols become their max, or 0 if either is 0. Both are checked when the symbols are
// bound.
Result<Shape> broadcast(const Shape& a, const Shape& b);
// Type promotion of two tensors as in torch.
DType promote(DType a, DType b);
// Converts a dim in [-rank, rank) to [0, rank). Rank 0 accepts -1 and 0. Fails with
// invalid_argument otherwise.
Result<int> normalize_axis(int64_t axis, int rank);

// Argument of OpDef::expand, which builds the same result in the same graph.
class ExpandContext {
 public:
  Graph& graph() const { return *graph_; }
  int input_count() const { return static_cast<int>(inputs_.size()); }
  bool has(int i) const { return static_cast<bool>(inputs_[i]); }
  Value in(int i) const { return inputs_[i]; }
  const AttrReader& attrs() const { return attrs_; }
  Result<int> axis(std::string_view attr, int rank) const;
  // As in InferContext.
  bool require_equal(const Dim& a, const Dim& b) const;
  bool require_at_least(const Dim& value, int64_t least) const;
  void set_out(int i, Value value);

 private:
  friend struct GraphAccess;
  ExpandContext(Graph* graph, const AttrReader& attrs) : graph_(graph), attrs_(attrs) {}
  Graph* graph_;
  AttrReader attrs_;
  std::vector<Value> inputs_;
  std::vector<Value> outputs_;
};

// Argument of OpDef::grad, which adds the nodes for dy -> dx to the same graph.
class GradContext {
 public:
  Graph& graph() const { return *graph_; }
  int input_count() const { return static_cast<int>(inputs_.size()); }
  int output_count() const { return static_cast<int>(outputs_.size()); }
  bool has(int i) const { return static_cast<bool>(inputs_[i]); }
  bool needs(int i) const { return needs_[i]; }  // whether the gradient of input i is needed
  Value in(int i) const { return inputs_[i]; }
  Value out(int i) const { return outputs_[i]; }
  // Returns the gradient of output i, in its shape; zeros if no gradient reaches it.
  Value dout(int i);
  bool has_dout(int i) const { return static_cast<bool>(douts_[i]); }
  const AttrReader& attrs() const { return attrs_; }
  Result<int> axis(std::string_view attr, int rank) const;
  // Sets the gradient of input i. If dx has a broadcast shape, it is summed to the shape of in(i).
  void set_grad(int i, Value dx);

 private:
  friend struct GraphAccess;
  GradContext(Graph* graph, const AttrReader& attrs) : graph_(graph), attrs_(attrs) {}
  Graph* graph_;
  AttrReader attrs_;
  std::vector<Value> inputs_, outputs_, douts_, grads_;
  std::vector<bool> needs_;
};

// Argument of OpDef::view. All sizes are numbers.
class ViewContext {
 public:
  const Sizes& in_shape() const { return in_shape_; }
  const Sizes& in_strides() const { return in_strides_; }
  const Sizes& out_shape() const { return out_shape_; }
  const AttrReader& attrs() const { return attrs_; }  // every Dim is constant
  int64_t integer(std::string_view attr) const { return attrs_.integer(attr).constant(); }
  int axis(std::string_view attr, int rank) const;  // infer has checked it
  // `offset`: elements from the first element of the input to the first of the output. `strides`:
  // those of the output.
  void set(int64_t offset, const Sizes& strides) {
    offset_ = offset;
    out_strides_ = strides;
  }

  ViewContext(const AttrReader& attrs, const Sizes& in_shape, const Sizes& in_strides,
              const Sizes& out_shape)
      : attrs_(attrs), in_shape_(in_shape), in_strides_(in_strides), out_shape_(out_shape) {}
  int64_t offset() const { return offset_; }
  const Sizes& out_strides() const { return out_strides_; }

 private:
  AttrReader attrs_;
  Sizes in_shape_, in_strides_, out_shape_, out_strides_;
  int64_t offset_ = 0;
};

}  // namespace hg
