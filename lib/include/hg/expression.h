// SPDX-License-Identifier: Apache-2.0
// Kernels as text: a function of one element, written as an expression, that runs over whole
// tensors and has a gradient. docs/expressions.md has the language.
//
//   HG_TRY_ASSIGN(hg::TextKernel polynomial, hg::kernel("polynomial", "a*x*x + b*x + c"));
//   HG_TRY_ASSIGN(auto y, polynomial.call({{"a", 2.0}, {"b", 8.0}, {"c", -1.0}, {"x", x}}));
//   HG_TRY_ASSIGN(auto dx, polynomial.gradients({2.0, x, 8.0, -1.0}, {"x"}));
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "hg/array.h"
#include "hg/call.h"
#include "hg/graph.h"
#include "hg/options.h"

namespace hg {

// One argument of a call: a tensor (borrowed for the call), a value of a graph, a number, or a
// struct of such, whose members the text knows as "name.member". A number adapts to the dtype of
// what it meets, as Python's numbers do in torch.
struct KernelArgument {
  std::string_view name;  // empty: the parameter at this place
  std::variant<ConstTensor, Value, double, int64_t, bool, std::vector<KernelArgument>> value;
  // Which dims of the call the argument's dims are, each once; empty: the last ones, in their
  // order, as broadcasting takes them. {0} and {1} for vectors of 10 and 20 make a call over [10,
  // 20].
  std::vector<int> dims = {};

  KernelArgument(const ConstTensor& tensor) : value(tensor) {}  // NOLINT: implicit, as all below
  KernelArgument(const Tensor& tensor) : value(ConstTensor(tensor)) {}
  KernelArgument(const Array& array) : value(ConstTensor(array.tensor())) {}
  KernelArgument(const TensorData& data) : value(ConstTensor(data.tensor)) {}
  KernelArgument(const Value& graph_value) : value(graph_value) {}
  template <class Number>
  requires std::is_arithmetic_v<Number> KernelArgument(Number number) {
    if constexpr (std::is_same_v<Number, bool>)
      value = number;
    else if constexpr (std::is_floating_point_v<Number>)
      value = static_cast<double>(number);
    else
      value = static_cast<int64_t>(number);
  }
  template <class T>
  requires std::is_constructible_v<KernelArgument, const T&> KernelArgument(
      std::string_view parameter, const T& argument, std::vector<int> mapped = {})
      : KernelArgument(argument) {
    name = parameter;
    dims = std::move(mapped);
  }
  KernelArgument(std::string_view parameter, std::initializer_list<KernelArgument> members)
      : name(parameter), value(std::vector<KernelArgument>(members)) {}
};

struct KernelOptions {
  // Tensors with dims must then have one shape: nothing but numbers and tensors of rank 0
  // broadcasts.
  bool strict = false;
  // Gradients in the place of the automatic ones: a text that gives dx for a parameter x, and may
  // use the parameters, the outputs by name, and, for an output y, its gradient as dy. A parameter
  // that it does not name then has no gradient, and asking for it is an error.
  std::string backward = "";
  SessionOptions session = {};  // device, threads, ... of calls
  const Registry* registry =
      nullptr;  // whose elementwise ops are functions; null: the built-in ones
};

struct CallOptions {
  // The shape of the call, to which arguments broadcast; without it, what they broadcast to.
  std::vector<Dim> shape = {};
};

// Where a gradient goes: into memory of the caller, whose shape and dtype are the argument's.
struct GradientTarget {
  std::string_view parameter;
  Tensor into;
};
struct BackwardOptions {
  std::vector<ConstTensor> output_gradients = {};  // one for each output; none: ones
  bool accumulate = false;                         // adds to what `into` holds
  CallOptions call = {};
};

// A parsed text. Copies share the sessions of their calls; they are used by one thread at a time.
class TextKernel {
 public:
  const std::string& name() const;
  // In the order in which the text declares them, or else first uses them. Outputs that the text
  // does not name are one, "out".
  std::vector<std::string> parameters() const;
  std::vector<std::string> outputs() const;
  // For each parameter, what it is where a call does not give it, if the text says so.
  std::vector<std::optional<Number>> defaults() const;

  using Arguments = std::initializer_list<KernelArgument>;

  // All outputs, each of the shape of the call, in memory of their own. The first call with these
  // dtypes and shapes makes a session, which later ones use again. Fails with a sentence that names
  // the kernel, the line and the column, or the argument.
  Result<std::vector<TensorData>> call(Arguments arguments, const CallOptions& options = {}) const;
  Result<std::vector<TensorData>> call(std::span<const KernelArgument> arguments,
                                       const CallOptions& options = {}) const;
  // The same into memory of the caller, which may be an argument's: in place.
  Status call_into(std::span<const Tensor> outputs, Arguments arguments,
                   const CallOptions& options = {}) const;
  Status call_into(std::span<const Tensor> outputs, std::span<const KernelArgument> arguments,
                   const CallOptions& options = {}) const;

  // The gradients of sum over outputs of (output * its gradient) by these parameters, of their
  // arguments' dtype and shape. A number's is a tensor of rank 0.
  Result<std::vector<TensorData>> gradients(Arguments arguments,
                                            const std::vector<std::string>& parameters,
                                            const BackwardOptions& options = {}) const;
  Result<std::vector<TensorData>> gradients(std::span<const KernelArgument> arguments,
                                            const std::vector<std::string>& parameters,
                                            const BackwardOptions& options = {}) const;
  // The same into memory of the caller.
  Status backward(Arguments arguments, std::span<const GradientTarget> targets,
                  const BackwardOptions& options = {}) const;

  // Adds the outputs to `graph`, of which the arguments' values must be: ordinary nodes, fused and
  // differentiated like all others. What fails is the graph's error, and the result is empty.
  std::vector<Value> build(Graph& graph, Arguments arguments,
                           const CallOptions& options = {}) const;
  std::vector<Value> build(Graph& graph, std::span<const KernelArgument> arguments,
                           const CallOptions& options = {}) const;

  // How many sessions were made so far: what a caller that repeats itself keeps low.
  int64_t sessions_made() const;

  struct Body;  // lib/expression/text_kernel.h

 private:
  friend Result<TextKernel> kernel(std::string name, std::string text, KernelOptions options);
  explicit TextKernel(std::shared_ptr<Body> body) : body_(std::move(body)) {}
  std::shared_ptr<Body> body_;
};

// Parses the text. Fails with line and column: "kernel 'wave', line 1, column 5: unknown function
// 'sinn'; did you mean 'sin'?".
Result<TextKernel> kernel(std::string name, std::string text, KernelOptions options = {});

}  // namespace hg
