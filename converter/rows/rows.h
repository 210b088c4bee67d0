// SPDX-License-Identifier: Apache-2.0
// One table row per aten op: how a call becomes graph nodes. Rows do not use libtorch. They are
// pure: `aten::add_` and `.out` overloads run the row of `aten::add`, and the interpreter writes
// the result back, cast to the destination's dtype and through views.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "converter/core/cast.h"
#include "converter/core/failure.h"
#include "converter/core/imported.h"
#include "converter/core/item.h"
#include "converter/core/layout.h"
#include "converter/memory/known.h"
#include "hg/graph.h"

namespace hg::convert {

class NodeCall;  // node_call.h

// One call of an aten op with its arguments by schema name. Arguments that an older schema lacks
// count as not given.
class Call {
 public:
  virtual ~Call() = default;
  virtual Graph& graph() = 0;
  virtual std::string_view kind() const = 0;      // "aten::add"
  virtual std::string_view overload() const = 0;  // "Tensor"
  // Returns null if the call has no such argument. An argument that is None is an Item.
  virtual const Item* find(std::string_view argument) const = 0;
  virtual const Item& argument(int index) const = 0;
  virtual int argument_count() const = 0;
  // Returns the current value of a tensor, after all writes so far.
  virtual Value read(const TensorRef& tensor) = 0;
  // Makes a new tensor that shares no memory.
  virtual TensorRef make_tensor(Value value) = 0;
  // Makes a tensor that is a view of `base`. `forward` computes the view from the value of base;
  // `inverse` computes the new value of base after the view was set to `value`.
  using Forward = convert::Forward;
  using Inverse = convert::Inverse;
  // `relayout` may be empty if the layout is unknown.
  virtual TensorRef make_view(const TensorRef& base, Forward forward, Inverse inverse,
                              Relayout relayout) = 0;
  virtual std::optional<Layout> layout(const TensorRef& tensor) const = 0;
  virtual MemoryOrder order(const TensorRef& tensor) const = 0;
  // Sizes or unknown layouts decide whether `copy` is a new tensor or shares memory with `base`. A
  // write to either makes the value of the other unknown.
  virtual void may_share(const TensorRef& copy, const TensorRef& base) = 0;
  // Returns a function that reads the value at a later time, as the forward and inverse of a view
  // do.
  virtual std::function<Value()> keep(Value value) = 0;
  // Writes all of `tensor`, and thereby everything that shares memory with it.
  virtual void write(const TensorRef& tensor, Value value) = 0;
  // The values of complex tensors are pairs of reals: they have an additional last dim of size 2.
  virtual bool is_complex(const TensorRef& tensor) const = 0;
  virtual TensorRef as_complex(TensorRef tensor) = 0;  // `tensor` holds pairs
  // Describes a tensor of packed sequences; nothing for other tensors, and after writes.
  virtual std::optional<Packed> packed(const TensorRef& tensor) const = 0;
  virtual void set_packed(const TensorRef& tensor, Packed packed) = 0;
  // Returns an integer of the graph as a size, or as an integer of any sign. Throws Refusal unless
  // the value is i64[].
  virtual Dim size_of(const Value& number) = 0;
  virtual Dim integer_of(const Value& number) = 0;
  // Returns whether a size is 1, for a result whose rank depends on it. Call it before the call
  // adds nodes. If `expects_one`, a symbol that is not a batch size is assumed to be 1 unless the
  // rest of the program decides.
  virtual bool is_one(const Dim& size, std::string_view reason, bool expects_one) = 0;
  // Sets the outputs of the call, in order.
  virtual void returns(std::vector<Item> outputs) = 0;
  // Adds a line to the report: "dropout runs in training mode, as traced".
  virtual void note(std::string text) = 0;

  // Arguments. Functions without a default throw Refusal, naming the argument, if it is missing,
  // None or of another kind.
  bool has(std::string_view argument) const;  // present and not None
  Value tensor(std::string_view argument);
  Value tensor_or_none(std::string_view argument);  // Value() if missing or None
  TensorRef ref(std::string_view argument) const;
  std::vector<Value> tensors(std::string_view argument);          // a list or tuple of tensors
  std::vector<Value> tensors_or_none(std::string_view argument);  // Value() for None in the list
  // `integer` accepts any integer. `size` and `sizes` are for arguments that PyTorch requires to be
  // nonnegative: they return simpler terms for data-dependent numbers, and the run fails if the
  // number is negative.
  Dim integer(std::string_view argument) const;
  Dim integer(std::string_view argument, const Dim& fallback) const;  // if missing or None
  Dim size(std::string_view argument) const;
  Dim size(std::string_view argument, const Dim& fallback) const;
  // Returns whether the argument depends on data and may be negative.
  bool may_be_negative(std::string_view argument) const;
  int64_t number(std::string_view argument) const;  // without symbols
  int64_t number(std::string_view argument, int64_t fallback) const;
  double real(std::string_view argument) const;  // also accepts int and bool
  double real(std::string_view argument, double fallback) const;
  bool flag(std::string_view argument) const;
  bool flag(std::string_view argument, bool fallback) const;
  std::string string(std::string_view argument) const;
  std::string string(std::string_view argument, std::string fallback) const;
  // Returns a list of integers. If expected > 0, a single integer becomes `expected` equal ones.
  // Returns an empty list if missing or None.
  std::vector<Dim> integers(std::string_view argument, int expected = 0) const;
  std::vector<Dim> sizes(std::string_view argument, int expected = 0) const;
  std::vector<double> reals(std::string_view argument) const;
  DType dtype(std::string_view argument) const;                  // from torch's numbering
  DType dtype(std::string_view argument, DType fallback) const;  // if missing or None
  // Returns a tensor argument as it is. A Python number becomes a constant of rank 0 with torch's
  // default dtype for it (i64, f32, bool).
  Value tensor_or_number(std::string_view argument);
  // The same in `dtype`; a number is rounded only once.
  Value tensor_or_number(std::string_view argument, DType dtype);

  // Returns the arguments (tensors or Python numbers) cast to the dtype of torch's promotion:
  // within a kind, tensors with dims have precedence over 0-d tensors, and these over numbers. If
  // `float_result`, integer results become f32, as for division and sqrt. Missing arguments and
  // None become Value().
  std::vector<Value> promoted(std::initializer_list<std::string_view> arguments,
                              bool float_result = false);

  void returns(Value value) { returns({Item(make_tensor(value))}); }
  void returns(const std::vector<Value>& values);       // several tensor outputs
  void returns_list(const std::vector<Value>& values);  // one output: a list of tensors
  [[noreturn]] void refuse(std::string_view argument, std::string_view why) const;
  // Sizes of `total` elements, of which one may be -1, also where data decides it. A constant -1 is
  // left to resolved_shape().
  std::vector<Dim> shape(std::string_view argument, const Dim& total);
  // Sizes. Where data decides one and it is -1, `rest` gives it from its place and all sizes as
  // numbers of the graph. A constant -1 stays.
  using Rest = std::function<Value(size_t place, const std::vector<Value>& sizes)>;
  std::vector<Dim> sizes_or(std::string_view argument, const Rest& rest);
  // Whether data decides the number, or one of a list.
  bool is_of_data(std::string_view argument) const;
  // Where data decides a number that must be a constant: says what to do instead.
  [[noreturn]] void refuse_data(std::string_view argument) const;
};

// torch's numbers for dtypes (c10::ScalarType); throws Refusal for complex, quantized and others.
DType dtype_of_torch(int64_t scalar_type);
int64_t torch_of_dtype(DType dtype);

// What a row does if an argument is a complex tensor, a complex number or a complex dtype. The
// graph has pairs of reals instead (complex_pairs.h).
struct OnComplex {
  enum Rule : uint8_t {
    unsaid,  // the rule that the table's rows share; `refused` if there is none
    refused,
    itself,            // `run` or `script` accepts complex tensors
    parts,             // `run` on the real and the imaginary parts separately
    parts_like_self,   // as `parts`; the result is real if `self` is real
    parts_like_other,  // as `parts`; the result is real if `other` is real
    real_part,         // `run` on the real parts; the imaginary part of the result is 0
    product,           // linear in each argument: `run` on each combination of parts
    magnitudes,        // `run` on the absolute values of the first argument
    function,          // `compute` instead of `run`
  };
  constexpr OnComplex(Rule r = unsaid) : rule(r) {}                      // NOLINT: implicit
  constexpr OnComplex(void (*f)(Call&)) : rule(function), compute(f) {}  // NOLINT: implicit

  Rule rule;
  void (*compute)(Call&) = nullptr;
};

// The memory layout in torch of the tensors that `run` makes. Views state their own layout.
enum class ResultLayout : uint8_t {
  unsaid,       // the layout that the table's rows share; `unknown` if there is none
  unknown,      // permuted for some arguments, as in attention, or not examined
  kept,         // row-major if all tensor arguments are
  elementwise,  // dims in the order of the first tensor argument whose strides order them
  row_major,    // row-major for all arguments
  copied,       // row-major if the result is a copy rather than a view
  padded,  // row-major if constants pad tensors of other than 4 and 5 dims (these keep channels
           // last); else `kept`
  joined,  // of cat and stack: row-major unless tensors of 4 or 5 dims are joined, which may all
           // have their channels last; else `kept`
};

// Computes small tensors whose numbers the import knows, such as sizes in traces, so that symbolic
// numbers can become shapes (script/fold.h). Returns false if `run` must compute them.
struct Fold {
  bool (*run)(NodeCall&, std::string_view op) = nullptr;
  std::string_view op{};  // an op of apply() or relate() in core/scalar.h
};

// An op on script values that are not tensors, or on properties of tensors: numbers, text,
// containers, sizes, dtypes. Returns false if the arguments are of another kind, which the next
// ScriptOp may accept.
using ScriptOp = bool (*)(NodeCall&);

using DrawnNumbers = NumberRule::Kind;
// An integer argument whose numbers must follow a rule.
struct NumbersOf {
  std::string_view argument = {};
  DrawnNumbers rule = {};
};

// Everything that the converter knows about one aten op. A row has at least `run`, `script` or a
// function in `complex`. The defaults of all other fields are safe: whatever a row does not state
// is rejected, unknown or not done. The order of attempts is `grown_list`, `script`, `fold`, `run`.
struct Row {
  std::string_view op;  // "aten::conv2d" for all overloads; "aten::max.dim" for one overload
  void (*run)(Call&) = nullptr;  // on tensors: adds graph nodes
  OnComplex complex = {};
  ResultLayout layout = ResultLayout::unsaid;
  Fold fold = {};
  std::array<ScriptOp, 3> script = {};
  ScriptOp grown_list = nullptr;      // on a list whose length depends on data or symbolic sizes
  bool script_takes_complex = false;  // `script` also accepts complex arguments
  bool takes_parts = false;           // `script` accepts lists of parts whose number sizes decide
  bool takes_nested = false;          // `script` accepts nested tensors
  bool reshapes_in_place = false;     // `op_` changes the shape of its tensor, but no element
  bool passes_grown = false;          // `script` accepts containers that contain such lists
  std::array<NumbersOf, 2> numbers = {};  // of inputs, for the check
};

// Values that all rows of a table use unless they state their own.
struct SharedTraits {
  OnComplex complex = {};
  ResultLayout layout = ResultLayout::unsaid;
};
template <size_t N>
consteval std::array<Row, N> rows_with(SharedTraits shared, const Row (&rows)[N]) {
  std::array<Row, N> result = std::to_array(rows);
  for (Row& row : result) {
    if (row.complex.rule == OnComplex::unsaid) row.complex = shared.complex;
    if (row.layout == ResultLayout::unsaid) row.layout = shared.layout;
  }
  return result;
}

}  // namespace hg::convert
