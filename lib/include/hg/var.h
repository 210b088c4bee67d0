// SPDX-License-Identifier: Apache-2.0
// Expressions that run when a value is asked for. hg/lazy_ops.h adds a function for each op.
//
//   hg::Var a(first), b(second);                  // arrays
//   hg::Var y = a * b + a;                        // runs nothing
//   HG_TRY_ASSIGN(hg::Array now, y.value());      // plans and runs it; later ones of its form only
//   run hg::Var slope = hg::grad(y, a);               // again an expression
//
// An expression is a graph: it is lowered to one, compiled and run as a session, which is kept for
// expressions of the same form (ops, attributes, dtypes, shapes, and which leaves are the same). An
// expression, and all that shares parts with it, belongs to one thread at a time.
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
class Registry;      // op.h

// Where expressions run, and the sessions that they have. Leaves of one Lazy share it; a leaf
// without one gets that of the first expression it is run in. Copies are the same.
class Lazy {
 public:
  Lazy() = default;  // none yet
  // Of more plans than these, or where their arenas and constants take more bytes, those go that
  // were not used for longest; the last one used stays.
  explicit Lazy(SessionOptions options, size_t most_plans = 256, uint64_t most_bytes = UINT64_MAX);
  // None yet, but leaves whose expressions know these ops, as those of SessionOptions::registry do.
  // It must outlive them.
  explicit Lazy(const Registry& registry) : registry_(&registry) {}

  struct Counters {
    int64_t runs = 0;   // of sessions: what asking for values costs
    int64_t plans = 0;  // sessions made, for expressions of new form
    int64_t nodes = 0;  // ops of the graphs that ran, after the passes
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
  // A leaf. The array's memory is shared: what is written to it later is what later runs read.
  Var(Array array, const Lazy& lazy = {});  // NOLINT: implicit
  // Its dtype is what hg/promotion.h finds beside the other inputs of an op.
  Var(const Number& number);  // NOLINT: implicit, as what follows
  template <class T>
  requires std::is_arithmetic_v<T> Var(T number) : Var(Number(number)) {}
  // A leaf whose value never changes: parts of constants alone are computed once, when a plan is
  // made.
  static Var constant(Array array, const Lazy& lazy = {});
  // A leaf by name, which may get its array later, by set().
  static Var variable(std::string name, DType dtype, const Sizes& shape, const Lazy& lazy = {});

  explicit operator bool() const { return node_ != nullptr; }
  // The same expression, not merely equal ones.
  friend bool operator==(const Var& a, const Var& b) {
    return a.node_ == b.node_ && a.output_ == b.output_;
  }

  // What it will be, without running anything. Fails where an op on the way refuses its inputs.
  Result<TensorType> type() const;
  // The shape as numbers; empty where type() fails.
  Sizes shape() const;
  DType dtype() const;

  // Runs what it depends on, once for each part.
  Result<Array> value() const;
  // The value as a leaf of the same Lazy: where a loop goes on from.
  Result<Var> evaluated() const;
  // Another array for a leaf, of the same dtype and shape; expressions of it read that from now on.
  Status set(Array array);
  Status set_name(std::string name);  // of a leaf, for text()

  // "(a * b) + a"; parts that are used more than once stand on lines of their own.
  std::string text() const;

  // Any op by name, as hg/lazy_ops.h calls it: all attributes, in the order of the signature.
  static Var one(std::string_view op, std::span<const Var> inputs,
                 std::span<const Argument> attrs = {});
  template <size_t N>
  static std::array<Var, N> several(std::string_view op, std::span<const Var> inputs,
                                    std::span<const Argument> attrs) {
    std::array<Var, N> outputs;
    call(op, inputs, attrs, outputs);
    return outputs;
  }
  // As many outputs as the op has, or as the inputs decide; one, where type() fails then.
  static std::vector<Var> any(std::string_view op, std::span<const Var> inputs,
                              std::span<const Argument> attrs);

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
  std::vector<Var> after(std::initializer_list<Var> first) const {
    std::vector<Var> all(first);
    all.insert(all.end(), values_.begin(), values_.end());
    return all;
  }

 private:
  std::vector<Var> values_;
};

// Several at once: common parts run once.
Result<std::vector<Array>> evaluate(std::span<const Var> vars);
inline Result<std::vector<Array>> evaluate(std::initializer_list<Var> vars) {
  return evaluate(std::span(vars.begin(), vars.size()));
}

// -- Derivatives, as expressions ------------------------------------------------------------------

// d (sum of y) / d x, of x's type, for any x that y is made of, leaves or parts; zeros where y is
// not. To any order: grad(grad(y, x), x).
Var grad(const Var& y, const Var& x);
std::vector<Var> grad(const Var& y, std::span<const Var> xs);
// sum_k seeds[k] * d ys[k] / d xs[i], for each i. A seed has the type of its y.
std::vector<Var> vjp(std::span<const Var> ys, std::span<const Var> xs, std::span<const Var> seeds);
// How the ys move where the xs move along directions, which have their types: sum_i d ys[k] / d xs[i]
// directions[i], of ys[k]'s type, for each k.
std::vector<Var> jvp(std::span<const Var> ys, std::span<const Var> xs,
                     std::span<const Var> directions);
// d y[i] / d x[j], in the shape of y followed by that of x.
Var jacobian(const Var& y, const Var& x);
// sum_j d2 y / (d xs[i] d xs[j]) directions[j], for each i; y is a single number.
std::vector<Var> hvp(const Var& y, std::span<const Var> xs, std::span<const Var> directions);

// f of each sample: the arguments without their first dim, which counts the samples, and results
// with one more. Each sample is a part of the graph of its own.
Result<Var> vmap(const std::function<Var(std::span<const Var>)>& f, std::span<const Var> batches);

// -- Operators ------------------------------------------------------------------------------------

inline Var operator+(const Var& a, const Var& b) { return Var::one("add", std::array{a, b}); }
inline Var operator-(const Var& a, const Var& b) { return Var::one("sub", std::array{a, b}); }
inline Var operator*(const Var& a, const Var& b) { return Var::one("mul", std::array{a, b}); }
inline Var operator/(const Var& a, const Var& b) { return Var::one("div", std::array{a, b}); }
inline Var operator-(const Var& x) { return Var::one("neg", std::array{x}); }

}  // namespace hg
