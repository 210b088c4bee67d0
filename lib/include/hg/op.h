// SPDX-License-Identifier: Apache-2.0
// What an op is: one OpDef row. A user's op is added to a Registry with the same row as a built-in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hg/graph.h"

namespace hg {

class AttrReader;
class InferContext;
class ExpandContext;
class GradContext;
class ViewContext;
struct KernelDef;  // kernel.h
enum class Device : uint8_t;

// Bits of OpDef::traits.
enum Traits : uint32_t {
  kNoTraits = 0,
  kNoGradient = 1 << 0,     // integer or boolean result, or a gradient of zero everywhere
  kRandom = 1 << 1,         // draws numbers; never folded, merged or recomputed differently
  kDataDependent = 1 << 2,  // some output size is known only after looking at the data
  kControl = 1 << 3,        // runs its subgraphs
  // Output k may take the memory of the k-th given input, for every k, when nobody else reads that:
  // a state that is assigned such an output is updated in place. Kernels tolerate that.
  kInPlace = 1 << 4,
  kComplex = 1 << 5,  // takes or gives complex tensors, which all other ops refuse
  // Each element of the one result is made of the elements at its place, to which inputs broadcast.
  kElementwise = 1 << 6,
  kCommutative = 1 << 7,  // the first two inputs may change places
  kReduction = 1 << 8,    // the elements along the dims of `dim`, or all, become one
  // Goes along the first dim of its first input, [time, batch, width], each step after the last.
  kScan = 1 << 9,
  kLoop = 1 << 10,       // of control: repeats its subgraph instead of choosing one
  kAssertion = 1 << 11,  // fails the run where data says so: stays though nobody reads its result
  // Finite elements of the inputs give finite ones, but for overflow. An op without it may do so
  // too.
  kKeepsFinite = 1 << 12,
  // Sums of products of the first two inputs: a trainer that computes in 16 bits does so here.
  kProduct = 1 << 13,
  // The result is the inputs, one after the other along the dim `dim`.
  kConcatenation = 1 << 14,
};

// signature: "conv(x, weight, bias?, stride: int[] = [1], groups: int = 1) -> y"
//   inputs      `x` required, `bias?` optional, `xs...` any number (last input only)
//   attributes  `name: type = default`; types bool int float str dtype int[] float[] str[], each
//               with `?` when it may be none; required when there is no default
//   outputs     `-> y, indices`, or `-> ys...` when infer decides how many
struct OpDef {
  std::string_view name;
  std::string_view signature;
  // Sets the type of every output, from the types of the inputs and the attributes. Sizes that only
  // data decides are asked for with fresh_dim() in the order in which the outputs show them.
  Status (*infer)(InferContext&) = nullptr;
  // Adds the gradients of the inputs. Null: differentiate the expansion.
  Status (*grad)(GradContext&) = nullptr;
  // The same result from other ops. Used where a device has no kernel; gives types when infer is
  // null.
  Status (*expand)(ExpandContext&) = nullptr;
  // For ops that only look at the input's memory in another way (transpose, slice): sets strides
  // and offset and returns true, or returns false when a copy of the input is needed first.
  bool (*view)(ViewContext&) = nullptr;
  // Bit i: output 0 may take the memory of input i when both have as many elements, of as many
  // bytes, and nobody else reads it. Kernels of such an op tolerate that.
  uint32_t alias = 0;
  uint32_t traits = kNoTraits;
  // Multiplications and additions of one run, for reports. Null: one for each element of the
  // outputs.
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

// Ops and kernels by name. A value: extend a copy and pass it to Graph, Model::load and
// Session::create, which keep a reference. Any thread may read while one adds; results stay valid.
class Registry {
 public:
  static const Registry& built_in();
  Registry();  // the built-in ops and kernels
  ~Registry();
  Registry(const Registry&);
  Registry& operator=(const Registry&);

  // The rows must outlive the registry. An op's name must be new and its signature must parse.
  Status add(const OpDef& op);
  // A kernel is tried before those that were added earlier, a fallback after all that are none.
  Status add(const KernelDef& kernel);

  const Op* find(std::string_view name) const;  // null when unknown; valid while the registry lives
  std::vector<const Op*> ops() const;           // sorted by name
  std::span<const KernelDef* const> kernels(std::string_view op, Device device) const;
  // The registered name that is closest in spelling, for messages; may be empty.
  std::string_view closest(std::string_view name) const;

 private:
  struct Body;
  explicit Registry(std::nullptr_t);  // without any op
  std::shared_ptr<Body> body_;
};

// Attributes by name; the name must be one of the signature's, and the type its type.
class AttrReader {
 public:
  AttrReader(const Op* op, std::span<const Attr> attrs) : op_(op), attrs_(attrs) {}
  bool has(std::string_view name) const;  // false when none
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

// For OpDef::infer. Sizes may be symbolic; with every symbol bound the same rule runs again on
// numbers before the first run, so a rule may assume that symbolic sizes fit, but must check
// numbers.
class InferContext {
 public:
  int input_count() const { return static_cast<int>(inputs_.size()); }
  bool has(int i) const;  // an optional input is given
  const TensorType& in(int i) const { return *inputs_[i]; }
  const AttrReader& attrs() const { return attrs_; }
  // A dim attribute in [-rank, rank) (or [-1, 0] for rank 0) as a number in [0, rank).
  Result<int> axis(std::string_view attr, int rank) const;
  // Several such, each at most once; an empty list stays empty.
  Result<std::vector<int>> axes(std::string_view attr, int rank) const;
  // A constant given as input, for rules that depend on it; null otherwise.
  const TensorData* constant(int i) const;
  std::span<const std::shared_ptr<Graph>> subgraphs() const { return subgraphs_; }

  void set_output_count(int count) { outputs_.resize(count); }  // variadic outputs
  TensorType& out(int i) { return outputs_[i]; }
  int output_count() const { return static_cast<int>(outputs_.size()); }
  Dim fresh_dim();  // a size that only data decides

  // invalid_argument with the op's and the node's name in front.
  template <class... Parts>
  Status fail(const Parts&... parts) const {
    return invalid_argument(label(), ": ", str_cat(parts...));
  }
  std::string label() const;  // "matmul 'decoder.0.q'"

 private:
  friend struct GraphAccess;
  InferContext(const AttrReader& attrs) : attrs_(attrs) {}
  AttrReader attrs_;
  std::vector<const TensorType*> inputs_;
  std::vector<const TensorData*> constants_;
  std::vector<TensorType> outputs_;
  std::span<const std::shared_ptr<Graph>> subgraphs_;
  const Origin* origin_ = nullptr;
  Graph* graph_ = nullptr;  // where fresh symbols come from; null when checking
  std::vector<Dim> fresh_;  // when checking: the symbols the node already has
  size_t fresh_used_ = 0;
};

// torch's broadcasting of shapes. A symbol beside a number that is not 1 takes the number; two
// different symbols give their max; both are checked when the symbols are bound.
Result<Shape> broadcast(const Shape& a, const Shape& b);
// torch's type promotion of two tensors of the same standing.
DType promote(DType a, DType b);
// One dim given by a person: in [-rank, rank) made non-negative.
Result<int> normalize_axis(int64_t axis, int rank);

// For OpDef::expand: builds the same result in the same graph.
class ExpandContext {
 public:
  Graph& graph() const { return *graph_; }
  int input_count() const { return static_cast<int>(inputs_.size()); }
  bool has(int i) const { return static_cast<bool>(inputs_[i]); }
  Value in(int i) const { return inputs_[i]; }
  const AttrReader& attrs() const { return attrs_; }
  Result<int> axis(std::string_view attr, int rank) const;
  void set_out(int i, Value value);

 private:
  friend struct GraphAccess;
  ExpandContext(Graph* graph, const AttrReader& attrs) : graph_(graph), attrs_(attrs) {}
  Graph* graph_;
  AttrReader attrs_;
  std::vector<Value> inputs_;
  std::vector<Value> outputs_;
};

// For OpDef::grad: adds nodes for dy -> dx to the same graph.
class GradContext {
 public:
  Graph& graph() const { return *graph_; }
  int input_count() const { return static_cast<int>(inputs_.size()); }
  int output_count() const { return static_cast<int>(outputs_.size()); }
  bool has(int i) const { return static_cast<bool>(inputs_[i]); }
  bool needs(int i) const { return needs_[i]; }  // the caller wants dx of input i
  Value in(int i) const { return inputs_[i]; }
  Value out(int i) const { return outputs_[i]; }
  // The gradient that arrives at output i, in its shape; zeros when nothing arrives there.
  Value dout(int i);
  bool has_dout(int i) const { return static_cast<bool>(douts_[i]); }
  const AttrReader& attrs() const { return attrs_; }
  Result<int> axis(std::string_view attr, int rank) const;
  // The gradient of input i: a shape that broadcasting made from in(i)'s is summed back to it.
  void set_grad(int i, Value dx);

 private:
  friend struct GraphAccess;
  GradContext(Graph* graph, const AttrReader& attrs) : graph_(graph), attrs_(attrs) {}
  Graph* graph_;
  AttrReader attrs_;
  std::vector<Value> inputs_, outputs_, douts_, grads_;
  std::vector<bool> needs_;
};

// For OpDef::view: numbers only.
class ViewContext {
 public:
  const Sizes& in_shape() const { return in_shape_; }
  const Sizes& in_strides() const { return in_strides_; }
  const Sizes& out_shape() const { return out_shape_; }
  const AttrReader& attrs() const { return attrs_; }  // every Dim is constant
  int64_t integer(std::string_view attr) const { return attrs_.integer(attr).constant(); }
  int axis(std::string_view attr, int rank) const;  // already checked by infer
  // Elements from the first element of the input to the first of the output, and output strides.
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
