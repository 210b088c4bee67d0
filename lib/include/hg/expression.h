// SPDX-License-Identifier: Apache-2.0
// Text kernels: a function of one element, written as an expression. It runs over whole tensors and
// has a gradient. docs/expressions.md defines the language.
//
//     HG_TRY_ASSIGN(hg::TextKernel polynomial, hg::kernel("polynomial", "a*x*x + b*x + c"));
//     HG_TRY_ASSIGN(auto y, polynomial.call({{"a", 2.0}, {"b", 8.0}, {"c", -1.0}, {"x", x}}));
//     HG_TRY_ASSIGN(auto dx, polynomial.grad({2.0, x, 8.0, -1.0}, {"x"}));
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
#include "hg/var.h"

namespace hg {

// One argument of a call: a tensor (borrowed during the call), a graph value, a lazy expression, a
// number, or a struct of these, whose members the text names as "name.member". The dtype of a
// number adapts to the other operands, as in torch.
struct KernelArgument {
  std::string_view name;  // empty: matches the parameter by position
  std::variant<ConstTensor, Value, double, int64_t, bool, std::vector<KernelArgument>, Var> value;
  // The dims of the call that the dims of the argument correspond to, each once. Empty: the last
  // dims in order, as in broadcasting. Example: vectors of 10 and 20 elements with {0} and {1} make
  // a call of shape [10, 20].
  std::vector<int> dims = {};

  KernelArgument(const ConstTensor& tensor) : value(tensor) {}  // NOLINT: implicit, as all below
  KernelArgument(const Tensor& tensor) : value(ConstTensor(tensor)) {}
  KernelArgument(const Array& array) : value(ConstTensor(array.tensor())) {}
  KernelArgument(const TensorData& data) : value(ConstTensor(data.tensor)) {}
  KernelArgument(const Value& graph_value) : value(graph_value) {}
  KernelArgument(const Var& expression) : value(expression) {}
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
  // Requires equal shapes of all tensors with dims. Only numbers and tensors of rank 0 broadcast.
  bool strict = false;
  // Replaces the automatic gradients: a text that computes dx for each parameter x. It may use the
  // parameters, the outputs by name, and the gradient dy of each output y. Parameters that it does
  // not compute have no gradient; requesting it is an error.
  std::string backward = "";
  SessionOptions session = {};  // device, threads and other options of calls
  // Its elementwise ops are available as functions; null: the built-in ones.
  const Registry* registry = nullptr;
};

struct CallOptions {
  // The shape of the call, which arguments broadcast to. Empty: the broadcast shape of the
  // arguments.
  std::vector<Dim> shape = {};
};

// Where to write a gradient: the caller's memory, with the shape and dtype of the argument.
struct GradientTarget {
  std::string_view parameter;
  Tensor into;
};
struct BackwardOptions {
  std::vector<ConstTensor> output_gradients = {};  // one per output; empty: ones
  bool accumulate = false;                         // add to the contents of `into`
  CallOptions call = {};
};

// A parsed text. Copies share the sessions of their calls. Use them from one thread at a time.
class TextKernel {
 public:
  const std::string& name() const;
  // In order of declaration, or of first use without declarations. An unnamed output is "out".
  std::vector<std::string> parameters() const;
  std::vector<std::string> outputs() const;
  // For each parameter, the default that the text declares, if any.
  std::vector<std::optional<Number>> defaults() const;

  using Arguments = std::initializer_list<KernelArgument>;

  // Returns all outputs, in the shape of the call and newly allocated. The first call with given
  // dtypes and shapes creates a session, which later calls reuse. An error names the kernel and its
  // line and column, or the argument.
  Result<std::vector<TensorData>> call(Arguments arguments, const CallOptions& options = {}) const;
  Result<std::vector<TensorData>> call(std::span<const KernelArgument> arguments,
                                       const CallOptions& options = {}) const;
  // As above, writing to the caller's memory. An output may be the memory of an argument (in
  // place).
  Status call_into(std::span<const Tensor> outputs, Arguments arguments,
                   const CallOptions& options = {}) const;
  Status call_into(std::span<const Tensor> outputs, std::span<const KernelArgument> arguments,
                   const CallOptions& options = {}) const;

  // Returns the gradients of sum over outputs of (output * its gradient) with respect to
  // `parameters`, in the dtype and shape of their arguments. The gradient of a number has rank 0.
  Result<std::vector<TensorData>> grad(Arguments arguments,
                                       const std::vector<std::string>& parameters,
                                       const BackwardOptions& options = {}) const;
  Result<std::vector<TensorData>> grad(std::span<const KernelArgument> arguments,
                                       const std::vector<std::string>& parameters,
                                       const BackwardOptions& options = {}) const;
  // As above, writing to the caller's memory.
  Status backward(Arguments arguments, std::span<const GradientTarget> targets,
                  const BackwardOptions& options = {}) const;

  // Adds the outputs to `graph`, which must own the argument values. They are ordinary nodes that
  // passes fuse and that can be differentiated. Errors are reported through the graph's status();
  // the result is then empty.
  std::vector<Value> build(Graph& graph, Arguments arguments,
                           const CallOptions& options = {}) const;
  std::vector<Value> build(Graph& graph, std::span<const KernelArgument> arguments,
                           const CallOptions& options = {}) const;

  // Returns the outputs as lazy expressions of the arguments, which have the same gradients and can
  // become a model (to_model() in hg/var.h). Tensors are copied; `dims` of arguments are not
  // supported. If the text rejects the inputs, Var::type() returns the error.
  Result<std::vector<Var>> build(Arguments arguments, const CallOptions& options = {}) const;
  Result<std::vector<Var>> build(std::span<const KernelArgument> arguments,
                                 const CallOptions& options = {}) const;

  // Number of sessions created so far. Repeated calls should not increase it.
  int64_t sessions_made() const;

  struct Body;  // lib/kernel_text/text_kernel.h

 private:
  friend Result<TextKernel> kernel(std::string name, std::string text, KernelOptions options);
  explicit TextKernel(std::shared_ptr<Body> body) : body_(std::move(body)) {}
  std::shared_ptr<Body> body_;
};

// Parses a text. Errors have line and column: "kernel 'wave', line 1, column 5: unknown function
// 'sinn'; did you mean 'sin'?".
Result<TextKernel> kernel(std::string name, std::string text, KernelOptions options = {});

}  // namespace hg
