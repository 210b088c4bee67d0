// SPDX-License-Identifier: Apache-2.0
// Parses kernels, assigns arguments to parameters, and adds kernels to graphs.
#include "lib/kernel_text/text_kernel.h"

#include <algorithm>

#include "hg/op.h"
#include "hg/ops/movement.h"
#include "lib/graph/border.h"

namespace hg {
namespace {

using ArgumentList = std::span<const KernelArgument>;

// An argument and its full name. Structs are replaced by their members.
struct Flat {
  std::string name;
  const KernelArgument* argument;
};
void flatten(ArgumentList arguments, const std::string& prefix, std::vector<Flat>& flat) {
  for (const KernelArgument& argument : arguments) {
    const std::string name = prefix + std::string(argument.name);
    if (const auto* members = std::get_if<std::vector<KernelArgument>>(&argument.value))
      flatten(*members, name + ".", flat);
    else
      flat.push_back({name, &argument});
  }
}

// The default for a missing argument.
Number number_of(const Syntax::Expression& given) {
  using Kind = Syntax::Expression::Kind;
  if (given.kind == Kind::real) return given.real;
  if (given.kind == Kind::integer) return given.integer;
  return given.integer != 0;
}

// Reshapes the argument: its dims go to the dims of the call that `dims` names, all others are 1.
// The last `components` dims stay last.
Result<Value> place(const Value& value, std::span<const int> dims, int call_rank, int components) {
  const int rank = value.rank() - components;
  std::vector<Dim> order;
  Shape shape;
  for (int at = 0; at < call_rank; ++at) {
    const auto found = std::find(dims.begin(), dims.end(), at);
    if (found != dims.end()) order.emplace_back(int64_t{found - dims.begin()});
    shape.push_back(found != dims.end() ? value.dim(static_cast<int>(found - dims.begin()))
                                        : Dim(1));
  }
  HG_CHECK(static_cast<int>(dims.size()) == rank && static_cast<int>(order.size()) == rank,
           "is mapped to ", int64_t(dims.size()), " dims, which must be different, but has ", rank);
  if (components > 0) {
    order.emplace_back(rank);
    shape.push_back(value.dim(-1));
  }
  return reshape(permute(value, order), shape);
}

}  // namespace

Result<int> TextKernel::Body::parameter(std::string_view name) const {
  for (size_t i = 0; i < syntax.parameters.size(); ++i)
    if (syntax.parameters[i].name == name) return static_cast<int>(i);
  std::string names;
  for (const Syntax::Parameter& one : syntax.parameters)
    names += str_cat(names.empty() ? "" : ", ", one.name);
  return invalid_argument("kernel '", syntax.kernel, "' has no parameter '", name, "', but ",
                          names.empty() ? "none" : names);
}

Result<std::vector<const KernelArgument*>> TextKernel::Body::bind(ArgumentList arguments) const {
  std::vector<Flat> flat;
  flatten(arguments, "", flat);
  std::vector<const KernelArgument*> bound(syntax.parameters.size());
  for (size_t i = 0; i < flat.size(); ++i) {
    int place = static_cast<int>(i);
    if (!flat[i].name.empty()) {
      HG_TRY_ASSIGN(place, parameter(flat[i].name));
    } else {
      HG_CHECK(i < bound.size(), "kernel '", syntax.kernel, "' has ", int64_t(bound.size()),
               " parameters, there are ", int64_t(flat.size()), " arguments");
    }
    const KernelArgument*& slot = bound[place];
    HG_CHECK(slot == nullptr, "kernel '", syntax.kernel, "': '", syntax.parameters[place].name,
             "' is given twice");
    slot = flat[i].argument;
  }
  for (size_t i = 0; i < bound.size(); ++i)
    HG_CHECK(bound[i] != nullptr || syntax.parameters[i].fallback >= 0, "kernel '", syntax.kernel,
             "': '", syntax.parameters[i].name, "' is missing");
  return bound;
}

Result<std::vector<Value>> TextKernel::Body::add_to(
    Graph& graph, std::span<const KernelArgument* const> arguments, std::vector<KernelInput> inputs,
    const Shape& shape) const {
  auto call_rank = static_cast<int>(shape.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Syntax::Parameter& parameter = syntax.parameters[i];
    if (arguments[i] == nullptr) {
      const Number number = number_of(syntax.expressions[parameter.fallback]);
      const Value value = number.kind == f64 ? graph.scalar(number.real, f64)
                                             : graph.scalar(number.whole, number.kind);
      inputs[i] = {.value = value, .is_number = true};
    } else if (!arguments[i]->dims.empty()) {
      for (const int dim : arguments[i]->dims) {
        HG_CHECK(dim >= 0 && dim < kMaxRank, "kernel '", syntax.kernel, "': '", parameter.name,
                 "' is mapped to dim ", dim);
        call_rank = std::max(call_rank, dim + 1);
      }
      continue;
    }
    call_rank = std::max(call_rank, inputs[i].value.rank() - (parameter.components > 0));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (arguments[i] == nullptr || arguments[i]->dims.empty()) continue;
    const Syntax::Parameter& parameter = syntax.parameters[i];
    Result<Value> placed =
        place(inputs[i].value, arguments[i]->dims, call_rank, parameter.components > 0);
    if (!placed.ok())
      return invalid_argument("kernel '", syntax.kernel, "': '", parameter.name, "' ",
                              placed.status().message());
    inputs[i].value = *placed;
  }
  HG_TRY(graph.take_status());
  if (options.backward.empty())
    return lower_kernel(graph, syntax, inputs, {.strict = options.strict, .shape = shape});

  std::vector<Value> values;
  std::vector<Dim> numbers;
  for (size_t i = 0; i < inputs.size(); ++i) {
    values.push_back(inputs[i].value);
    if (inputs[i].is_number) numbers.emplace_back(static_cast<int64_t>(i));
  }
  std::vector<Value> outputs = graph.calls("expression", values,
                                           {{"text", syntax.text},
                                            {"name", syntax.kernel},
                                            {"strict", options.strict},
                                            {"shape", shape},
                                            {"numbers", numbers},
                                            {"backward", options.backward}});
  HG_TRY(graph.take_status());
  return outputs;
}

Result<TextKernel> kernel(std::string name, std::string text, KernelOptions options) {
  return or_no_memory([&]() -> Result<TextKernel> {
    const Registry& registry = options.registry ? *options.registry : Registry::built_in();
    auto body = std::make_shared<TextKernel::Body>();
    HG_TRY_ASSIGN(body->syntax, parse_kernel(name, text));
    HG_TRY(check_functions(body->syntax, registry));
    if (!options.backward.empty()) {
      const std::vector<Syntax::Parameter> known = backward_parameters(body->syntax);
      HG_TRY_ASSIGN(const Syntax backward,
                    parse_kernel("backward of " + name, options.backward, &known));
      HG_TRY(check_functions(backward, registry));
      for (const Syntax::Output& output : backward.outputs)
        HG_TRY(body->parameter(std::string_view(output.name).substr(1)).status());
    }
    body->options = std::move(options);
    return TextKernel(std::move(body));
  });
}

const std::string& TextKernel::name() const { return body_->syntax.kernel; }
int64_t TextKernel::sessions_made() const { return body_->sessions.counters().added; }

std::vector<std::string> TextKernel::parameters() const {
  std::vector<std::string> names;
  for (const Syntax::Parameter& parameter : body_->syntax.parameters)
    names.push_back(parameter.name);
  return names;
}

std::vector<std::optional<Number>> TextKernel::defaults() const {
  std::vector<std::optional<Number>> numbers;
  for (const Syntax::Parameter& parameter : body_->syntax.parameters) {
    numbers.emplace_back();
    if (parameter.fallback >= 0)
      numbers.back() = number_of(body_->syntax.expressions[parameter.fallback]);
  }
  return numbers;
}

std::vector<std::string> TextKernel::outputs() const {
  std::vector<std::string> names;
  for (const Syntax::Output& output : body_->syntax.outputs) names.push_back(output.name);
  return names;
}

std::vector<Value> TextKernel::build(Graph& graph, ArgumentList arguments,
                                     const CallOptions& options) const {
  if (!graph.status().ok()) return {};
  const auto add = [&]() -> Result<std::vector<Value>> {
    HG_TRY_ASSIGN(const std::vector<const KernelArgument*> bound, body_->bind(arguments));
    std::vector<KernelInput> inputs;
    for (size_t i = 0; i < bound.size(); ++i) {
      KernelInput input;
      const auto* value = bound[i] ? std::get_if<Value>(&bound[i]->value) : nullptr;
      if (value != nullptr) {
        HG_CHECK(*value && value->graph() == &graph, "kernel '", name(), "': '",
                 body_->syntax.parameters[i].name, "' is not a value of this graph");
        input.value = *value;
      } else if (bound[i] != nullptr) {
        HG_CHECK(!std::holds_alternative<ConstTensor>(bound[i]->value), "kernel '", name(), "': '",
                 body_->syntax.parameters[i].name,
                 "' is a tensor; make it a constant or an input of the graph");
        HG_CHECK(!std::holds_alternative<Var>(bound[i]->value), "kernel '", name(), "': '",
                 body_->syntax.parameters[i].name, "' is an expression, not a value of this graph");
        input.is_number = true;
        if (const auto* real = std::get_if<double>(&bound[i]->value))
          input.value = graph.scalar(*real, f64);
        else if (const auto* whole = std::get_if<int64_t>(&bound[i]->value))
          input.value = graph.scalar(*whole, i64);
        else
          input.value = graph.scalar(int64_t{*std::get_if<bool>(&bound[i]->value)}, boolean);
      }
      inputs.push_back(input);
    }
    return body_->add_to(graph, bound, std::move(inputs), options.shape);
  };
  Result<std::vector<Value>> outputs = add();
  if (outputs.ok()) return *std::move(outputs);
  graph.fail(outputs.status());
  return {};
}

std::vector<Value> TextKernel::build(Graph& graph, Arguments arguments,
                                     const CallOptions& options) const {
  return build(graph, ArgumentList(arguments.begin(), arguments.size()), options);
}

Result<std::vector<Var>> TextKernel::build(ArgumentList arguments,
                                           const CallOptions& options) const {
  return or_no_memory([&]() -> Result<std::vector<Var>> {
    const Syntax& syntax = body_->syntax;
    HG_TRY_ASSIGN(const std::vector<const KernelArgument*> bound, body_->bind(arguments));
    std::vector<Var> inputs;
    std::vector<Dim> numbers;
    const auto add_number = [&](const auto& number) -> Status {
      const ConstTensor scalar = {&number, dtype_of<std::decay_t<decltype(number)>>(), {}, {}};
      HG_TRY_ASSIGN(Array array, Array::copy_of(scalar));
      numbers.emplace_back(static_cast<int64_t>(inputs.size()));
      inputs.emplace_back(std::move(array));
      return {};
    };
    for (size_t i = 0; i < bound.size(); ++i) {
      const std::string& parameter = syntax.parameters[i].name;
      if (bound[i] == nullptr) {
        const Number number = number_of(syntax.expressions[syntax.parameters[i].fallback]);
        if (number.kind == f64)
          HG_TRY(add_number(number.real));
        else if (number.kind == boolean)
          HG_TRY(add_number(number.whole != 0));
        else
          HG_TRY(add_number(number.whole));
        continue;
      }
      HG_CHECK(bound[i]->dims.empty(), "kernel '", name(), "': '", parameter,
               "' is mapped to dims, which expressions do not support");
      HG_CHECK(!std::holds_alternative<Value>(bound[i]->value), "kernel '", name(), "': '",
               parameter, "' is a value of a graph, not an expression");
      if (const auto* var = std::get_if<Var>(&bound[i]->value)) {
        inputs.push_back(*var);
      } else if (const auto* tensor = std::get_if<ConstTensor>(&bound[i]->value)) {
        HG_TRY_ASSIGN(Array array, Array::copy_of(*tensor));
        inputs.emplace_back(std::move(array));
      } else if (const auto* real = std::get_if<double>(&bound[i]->value)) {
        HG_TRY(add_number(*real));
      } else if (const auto* whole = std::get_if<int64_t>(&bound[i]->value)) {
        HG_TRY(add_number(*whole));
      } else {
        HG_TRY(add_number(*std::get_if<bool>(&bound[i]->value)));
      }
    }
    return Var::any("expression", inputs,
                    {{"text", syntax.text},
                     {"name", syntax.kernel},
                     {"strict", body_->options.strict},
                     {"shape", options.shape},
                     {"numbers", numbers},
                     {"backward", body_->options.backward}});
  });
}

Result<std::vector<Var>> TextKernel::build(Arguments arguments, const CallOptions& options) const {
  return build(ArgumentList(arguments.begin(), arguments.size()), options);
}

}  // namespace hg
