// SPDX-License-Identifier: Apache-2.0
// Lazy expressions: building one runs nothing; asking for its value compiles and runs it.
// hg/lazy_ops.h adds one function per op.
//
//     hg::Status use(const hg::Array& first, const hg::Array& second) {
//       hg::Var a(first), b(second);
//       hg::Var y = a * b + a;                    // runs nothing
//       HG_TRY_ASSIGN(hg::Array now, y.value());  // compiles and runs
//       hg::Var slope = hg::grad(y, a);           // another expression
//       return slope.value().status();
//     }
//
// An expression is lowered to a graph, which runs in a session. The session is cached and reused
// for expressions of the same form: equal ops, attributes, dtypes and shapes, and the same pattern
// of shared leaves.
//
// Use an expression, and all expressions that share parts with it, from one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "hg/array.h"
#include "hg/call.h"
#include "hg/graph.h"
#include "hg/options.h"

namespace hg {

struct LazyNode;     // lib/lazy/node.h
struct LazyContext;  // lib/lazy/context.h
class Model;         // model.h
class Registry;      // op.h

// Options and cached sessions of expressions. Leaves created with one Lazy share it; a leaf without
// one adopts that of the first expression it runs in. Copies refer to the same cache.
class Lazy {
 public:
  Lazy() = default;  // adopts the Lazy of the first evaluation
  // Evicts the least recently used sessions beyond `most_plans`, or if arenas and constants exceed
  // `most_bytes`. The most recently used session stays.
  explicit Lazy(SessionOptions options, size_t most_plans = 256, uint64_t most_bytes = UINT64_MAX);
  // As Lazy(), for leaves whose expressions may use the ops of this registry, as set by
  // SessionOptions::registry. The registry must outlive them.
  explicit Lazy(const Registry& registry) : registry_(&registry) {}

  struct Counters {
    int64_t runs = 0;   // of sessions: the cost of evaluations
    int64_t plans = 0;  // sessions created, one or two per form
    int64_t nodes = 0;  // ops of the compiled graphs that ran
  };
  Counters counters() const;

 private:
  friend class Var;
  friend struct LazyContext;
  std::shared_ptr<LazyContext> context_;
  const Registry* registry_ = nullptr;
};

// A handle to an expression; copying copies the handle.
class Var {
 public:
  Var() = default;  // an optional input that is not given
  // A leaf. It shares the array's memory: later runs read what was written to it.
  Var(Array array, const Lazy& lazy = {});  // NOLINT: implicit
  // A number. Its dtype follows from the other inputs of an op (hg/promotion.h).
  Var(const Number& number);  // NOLINT: implicit, as what follows
  template <class T>
  requires std::is_arithmetic_v<T> Var(T number) : Var(Number(number)) {}
  // A leaf whose value must not change. Parts that depend only on constants are computed once, when
  // the session is created.
  static Var constant(Array array, const Lazy& lazy = {});
  // A named leaf without an array. Call set() before evaluating it. Sizes of a type may be symbols,
  // such as {f32, {Dim("n"), 3}}: set() then takes arrays of any such size, and equal
  // symbols have equal sizes in one evaluation.
  static Var variable(std::string name, TensorType type, const Lazy& lazy = {});
  static Var variable(std::string name, DType dtype, const Sizes& shape, const Lazy& lazy = {}) {
    return variable(std::move(name), {dtype, to_shape(shape)}, lazy);
  }

  explicit operator bool() const { return node_ != nullptr; }
  // True for the same expression; separately built equal expressions differ.
  friend bool operator==(const Var& a, const Var& b) {
    return a.node_ == b.node_ && a.output_ == b.output_;
  }

  // Returns the type without running anything. Fails if an op rejects its inputs.
  Result<TensorType> type() const;
  // Returns the shape; empty if type() fails or a size depends on data.
  Sizes shape() const;
  DType dtype() const;

  // Evaluates the expression. Runs common parts once.
  Result<Array> value() const;
  // Evaluates the expression and returns the value as a leaf of the same Lazy, for example to
  // continue a loop.
  Result<Var> evaluated() const;
  // Replaces the array of a leaf. dtype and shape must be equal, except symbolic sizes. Later
  // evaluations read the new array.
  Status set(Array array);
  Status set_name(std::string name);  // of a leaf, for text()

  // Prints the expression, "(a * b) + a". Parts that are used more than once are on separate lines.
  std::string text() const;

  // Call any op by name, as hg/lazy_ops.h does. `attrs` has all attributes in the order of the
  // signature.
  static Var one(std::string_view op, std::span<const Var> inputs,
                 std::span<const Argument> attrs = {});
  template <size_t N>
  static std::array<Var, N> several(std::string_view op, std::span<const Var> inputs,
                                    std::span<const Argument> attrs) {
    std::array<Var, N> outputs;
    call(op, inputs, attrs, outputs);
    return outputs;
  }
  // Returns all outputs of the op. If the inputs determine the number of outputs and type() fails,
  // returns one.
  static std::vector<Var> any(std::string_view op, std::span<const Var> inputs,
                              std::span<const Argument> attrs);
  // The same with some attributes by name, whose sizes may be symbols of the inputs. An invalid
  // attribute is the error of type().
  static std::vector<Var> any(std::string_view op, std::span<const Var> inputs,
                              const NamedAttrs& attrs);

 private:
  friend struct LazyNode;
  static void call(std::string_view op, std::span<const Var> inputs,
                   std::span<const Argument> attrs, std::span<Var> outputs);
  explicit Var(std::shared_ptr<LazyNode> node, int output = 0)
      : node_(std::move(node)), output_(output) {}
  std::shared_ptr<LazyNode> node_;
  int output_ = 0;
};

// Any number of inputs.
class Vars {
 public:
  Vars(std::initializer_list<Var> values) : values_(values) {}
  Vars(std::vector<Var> values) : values_(std::move(values)) {}
  std::span<const Var> values() const { return values_; }
  // The elements of `first`, followed by these.
  std::vector<Var> after(std::initializer_list<Var> first) const {
    std::vector<Var> all(first);
    all.insert(all.end(), values_.begin(), values_.end());
    return all;
  }

 private:
  std::vector<Var> values_;
};

// Evaluates several expressions together. Common parts run once. They run on `gpu` if that is open,
// otherwise on the device that holds the first leaf that is on one; the values then stay there.
// Without such a leaf, the options of Lazy decide.
Result<std::vector<Array>> evaluate(std::span<const Var> vars, const Gpu& gpu = {});
inline Result<std::vector<Array>> evaluate(std::initializer_list<Var> vars) {
  return evaluate(std::span(vars.begin(), vars.size()));
}

// The expressions as a model with these named outputs. Leaves with a name are its inputs, and the
// other leaves are constants with their current arrays. Fails if two inputs have one name.
Result<Model> to_model(std::span<const std::pair<std::string, Var>> outputs);

// -- Derivatives, as expressions ------------------------------------------------------------------

// d sum(y) / d x, of the type of x; zeros if y does not depend on x. x may be a leaf or a part of
// y. Any order works: grad(grad(y, x), x).
Var grad(const Var& y, const Var& x);
std::vector<Var> grad(const Var& y, std::span<const Var> xs);
// Vector-Jacobian products: for each i, sum_k seeds[k] * d ys[k] / d xs[i]. seeds[k] has the type
// of ys[k]; no seeds: ones.
std::vector<Var> vjp(std::span<const Var> ys, std::span<const Var> xs, std::span<const Var> seeds);
// Jacobian-vector products: for each k, sum_i d ys[k] / d xs[i] * directions[i], of the type of
// ys[k]. directions[i] has the type of xs[i].
std::vector<Var> jvp(std::span<const Var> ys, std::span<const Var> xs,
                     std::span<const Var> directions);
// d y[i] / d x[j], in the shape of y followed by that of x.
Var jacobian(const Var& y, const Var& x);
// Hessian-vector products: for each i, sum_j d2 y / (d xs[i] d xs[j]) * directions[j]. y has rank
// 0.
std::vector<Var> hvp(const Var& y, std::span<const Var> xs, std::span<const Var> directions);

// Applies f to each sample and stacks the results. `batches` have the samples along dim 0, and f
// sees them without that dim. The graph contains f once per sample. Fails if the numbers of samples
// differ or are 0.
Result<Var> vmap(const std::function<Var(std::span<const Var>)>& f, std::span<const Var> batches);

// -- Operators ------------------------------------------------------------------------------------

inline Var operator+(const Var& a, const Var& b) { return Var::one("add", std::array{a, b}); }
inline Var operator-(const Var& a, const Var& b) { return Var::one("sub", std::array{a, b}); }
inline Var operator*(const Var& a, const Var& b) { return Var::one("mul", std::array{a, b}); }
inline Var operator/(const Var& a, const Var& b) { return Var::one("div", std::array{a, b}); }
inline Var operator-(const Var& x) { return Var::one("neg", std::array{x}); }

}  // namespace hg
