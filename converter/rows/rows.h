// SPDX-License-Identifier: Apache-2.0
// One table row per aten op: how a call becomes graph nodes. Rows see no libtorch. They are pure:
// `aten::add_` and `.out` overloads run the row of `aten::add`, and the interpreter writes the
// result back, cast to the destination's dtype and through views.
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
#include "converter/core/item.h"
#include "converter/core/layout.h"
#include "converter/memory/known.h"
#include "hg/graph.h"

namespace hg::convert {

class NodeCall;  // node_call.h

// One call of an aten op with its arguments by their schema names. Arguments that an older schema
// does not have count as not given.
class Call {
 public:
  virtual ~Call() = default;
  virtual Graph& graph() = 0;
  virtual std::string_view kind() const = 0;      // "aten::add"
  virtual std::string_view overload() const = 0;  // "Tensor"
  // Null when the call has no such argument; the value None is an Item.
  virtual const Item* find(std::string_view argument) const = 0;
  virtual const Item& argument(int index) const = 0;
  virtual int argument_count() const = 0;
  // The present value of a tensor, after all writes so far.
  virtual Value read(const TensorRef& tensor) = 0;
  // A fresh tensor that shares memory with nobody.
  virtual TensorRef make_tensor(Value value) = 0;
  // A tensor that is a view of `base`: forward computes it from base's value, and inverse gives
  // base's new value when the view has become `value`.
  using Forward = convert::Forward;
  using Inverse = convert::Inverse;
  // `relayout` may be missing where nobody can tell.
  virtual TensorRef make_view(const TensorRef& base, Forward forward, Inverse inverse,
                              Relayout relayout) = 0;
  virtual std::optional<Layout> layout(const TensorRef& tensor) const = 0;
  virtual MemoryOrder order(const TensorRef& tensor) const = 0;
  // `copy` is a fresh tensor, or else memory of `base`: sizes or layouts that are not known decide.
  // A write to one of them makes the other's value unknown.
  virtual void may_share(const TensorRef& copy, const TensorRef& base) = 0;
  // Reads the value wherever it is asked for later, as the forward and inverse of a view do.
  virtual std::function<Value()> keep(Value value) = 0;
  // Writes the whole of `tensor`, and so of everything that shares memory with it.
  virtual void write(const TensorRef& tensor, Value value) = 0;
  // Complex tensors are pairs of reals: their values have one dim more, the last, of 2.
  virtual bool is_complex(const TensorRef& tensor) const = 0;
  virtual TensorRef as_complex(TensorRef tensor) = 0;  // a tensor whose value holds pairs
  // What a tensor is that packing has made; none for others, and after writes.
  virtual std::optional<Packed> packed(const TensorRef& tensor) const = 0;
  virtual void set_packed(const TensorRef& tensor, Packed packed) = 0;
  // An integer of the graph as a size, and as any integer; throws Refusal when it is no i64[].
  virtual Dim size_of(const Value& number) = 0;
  virtual Dim integer_of(const Value& number) = 0;
  // Whether a size is 1, for a result whose rank depends on it: asked before the call adds nodes.
  // With `expects_one`, a symbol that is no batch is 1 where the rest of the program does not
  // tell.
  virtual bool is_one(const Dim& size, std::string_view reason, bool expects_one) = 0;
  // The outputs of the call, in order.
  virtual void returns(std::vector<Item> outputs) = 0;
  // A line for the report: "dropout runs in training mode, as traced".
  virtual void note(std::string text) = 0;

  // Arguments. Those without a default throw Refusal when the argument is missing, None, or of
  // another kind, naming the argument.
  bool has(std::string_view argument) const;  // present and not None
  Value tensor(std::string_view argument);
  Value tensor_or_none(std::string_view argument);  // Value() when missing or None
  TensorRef ref(std::string_view argument) const;
  std::vector<Value> tensors(std::string_view argument);          // a list or tuple of tensors
  std::vector<Value> tensors_or_none(std::string_view argument);  // Value() for None in the list
  // Any integer. For arguments of which PyTorch refuses negative ones, `size` and `sizes` give one
  // that data decides in simpler terms, and the run fails where it is negative.
  Dim integer(std::string_view argument) const;
  Dim integer(std::string_view argument, const Dim& fallback) const;  // when missing or None
  Dim size(std::string_view argument) const;
  Dim size(std::string_view argument, const Dim& fallback) const;
  // Whether data decides the argument, and it may be negative.
  bool may_be_negative(std::string_view argument) const;
  int64_t number(std::string_view argument) const;  // an integer without symbols
  int64_t number(std::string_view argument, int64_t fallback) const;
  double real(std::string_view argument) const;  // also from int and bool
  double real(std::string_view argument, double fallback) const;
  bool flag(std::string_view argument) const;
  bool flag(std::string_view argument, bool fallback) const;
  std::string string(std::string_view argument) const;
  std::string string(std::string_view argument, std::string fallback) const;
  // A list of integers; one integer stands for `expected` equal ones when expected > 0. Missing or
  // None gives an empty list.
  std::vector<Dim> integers(std::string_view argument, int expected = 0) const;
  std::vector<Dim> sizes(std::string_view argument, int expected = 0) const;
  std::vector<double> reals(std::string_view argument) const;
  DType dtype(std::string_view argument) const;                  // from torch's numbering
  DType dtype(std::string_view argument, DType fallback) const;  // when missing or None
  // A tensor argument as it is, or a Python number as a constant of rank 0 with torch's default
  // dtype for it (i64, f32, bool).
  Value tensor_or_number(std::string_view argument);
  // The same in `dtype`: a number is rounded once.
  Value tensor_or_number(std::string_view argument, DType dtype);

  // The arguments (tensors or Python numbers) cast to the dtype that torch's promotion gives them:
  // tensors with dims count before 0-d tensors, those before numbers, within kinds. With
  // `float_result`, integer results become f32 (as division and sqrt do). Missing arguments and
  // None give Value().
  std::vector<Value> promoted(std::initializer_list<std::string_view> arguments,
                              bool float_result = false);

  void returns(Value value) { returns({Item(make_tensor(value))}); }
  void returns(const std::vector<Value>& values);       // several tensor outputs
  void returns_list(const std::vector<Value>& values);  // one output: a list of tensors
  [[noreturn]] void refuse(std::string_view argument, std::string_view why) const;
};

// torch's numbers for dtypes (c10::ScalarType); throws Refusal for complex, quantized and others.
DType dtype_of_torch(int64_t scalar_type);
int64_t torch_of_dtype(DType dtype);

// What a row does where an argument is a complex tensor, a complex number or such a dtype. The
// graph has pairs of reals in their place (complex_pairs.h).
struct OnComplex {
  enum Rule : uint8_t {
    unsaid,  // what the rows of the table share; `refused` where they share nothing
    refused,
    itself,            // `run`, or `script`, takes complex tensors as they are
    parts,             // `run` on the real and on the imaginary parts
    parts_like_self,   // likewise; where `self` is real, so is the result
    parts_like_other,  // likewise of `other`
    real_part,         // `run` on the real parts; the imaginary part of the result is 0
    product,           // linear in each argument: `run` on each combination of parts
    magnitudes,        // `run` on the absolute values of the first argument
    function,          // `compute` in place of `run`
  };
  constexpr OnComplex(Rule r = unsaid) : rule(r) {}                      // NOLINT: implicit
  constexpr OnComplex(void (*f)(Call&)) : rule(function), compute(f) {}  // NOLINT: implicit

  Rule rule;
  void (*compute)(Call&) = nullptr;
};

// The memory layout of the tensors that `run` makes, in torch; views say theirs themselves.
enum class ResultLayout : uint8_t {
  unsaid,       // what the rows of the table share; `unknown` where they share nothing
  unknown,      // permuted for some arguments, as results of attention are, or never looked at
  kept,         // row-major where all tensors among the arguments are
  elementwise,  // dims lie as in the tensors among the arguments, of which the first that tells
                // decides
  row_major,    // row-major whatever the arguments are
  copied,       // row-major where the result is a copy and not a view
  padded,  // row-major where constants pad other than 4 and 5 dims, which keep channels last; else
           // `kept`
  joined,  // of cat and stack: row-major where no tensors of 4 or 5 dims, which may all have their
           // channels last, are joined; else `kept`
};

// Computes on small tensors of which the import knows the numbers, as traces do with sizes, so that
// what is symbolic can still become a shape (script/fold.h). False: `run` is to do it.
struct Fold {
  bool (*run)(NodeCall&, std::string_view op) = nullptr;
  std::string_view op{};  // of apply() and relate() in core/scalar.h
};

// An op on values of the script that are no tensors, or on what it asks of tensors: numbers, text,
// containers, sizes, dtypes. False: the arguments are of another kind, which the next may take.
using ScriptOp = bool (*)(NodeCall&);

// All that the converter knows of one aten op. A row names at least one of `run`, `script` and a
// function in `complex`; every other field has a default that is safe: what is not said is refused,
// unknown, or not done. Tried in this order: `grown_list`, `script`, `fold`, and then `run`.
struct Row {
  std::string_view op;  // "aten::conv2d", for all overloads; "aten::max.dim" for one of them
  void (*run)(Call&) = nullptr;  // on tensors: adds nodes of the graph
  OnComplex complex = {};
  ResultLayout layout = ResultLayout::unsaid;
  Fold fold = {};
  std::array<ScriptOp, 3> script = {};
  ScriptOp grown_list = nullptr;      // on a list whose length data or a symbolic size decides
  bool script_takes_complex = false;  // `script` also accepts complex arguments
  bool takes_parts = false;           // `script` takes lists of parts whose number sizes decide
  bool takes_nested = false;          // `script` takes nested tensors, which others refuse
  bool reshapes_in_place = false;     // `op_` changes the shape of its tensor, and no element
  bool passes_grown = false;          // `script` takes containers with such lists inside
};

// What the rows of a table share, where they say nothing else.
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
