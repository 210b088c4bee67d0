// SPDX-License-Identifier: Apache-2.0
// Calls kernels on tensors. Builds a graph of one kernel, with gradients if requested, and caches a
// session per kind of call.
#include <algorithm>

#include "hg/ops/operators.h"
#include "hg/train.h"
#include "lib/graph/border.h"
#include "lib/kernel_text/text_kernel.h"

namespace hg {
namespace {

using Bound = std::span<const KernelArgument* const>;

// A number as the tensor of rank 0 that a session reads. The variant stores its bytes.
ConstTensor tensor_of(const KernelArgument& argument) {
  if (const auto* tensor = std::get_if<ConstTensor>(&argument.value)) return *tensor;
  if (const auto* real = std::get_if<double>(&argument.value)) return {real, f64, {}, {}};
  if (const auto* whole = std::get_if<int64_t>(&argument.value)) return {whole, i64, {}, {}};
  return {std::get_if<bool>(&argument.value), boolean, {}, {}};
}

bool is_number(const KernelArgument& argument) {
  return !std::holds_alternative<ConstTensor>(argument.value);
}

// Names of inputs that are not parameters. They contain blanks, which parameters cannot.
std::string seed_name(size_t k) { return str_cat("gradient ", int64_t(k)); }
std::string sum_name(size_t k) { return str_cat("sum ", int64_t(k)); }

Status check_tensors(const Syntax& syntax, Bound bound) {
  for (size_t i = 0; i < bound.size(); ++i)
    if (bound[i] != nullptr)
      HG_CHECK(!std::holds_alternative<Value>(bound[i]->value), "kernel '", syntax.kernel, "': '",
               syntax.parameters[i].name, "' is a value of a graph, not a tensor");
  for (size_t i = 0; i < bound.size(); ++i)
    if (bound[i] != nullptr)
      HG_CHECK(!std::holds_alternative<Var>(bound[i]->value), "kernel '", syntax.kernel, "': '",
               syntax.parameters[i].name, "' is an expression, which build() takes, not a tensor");
  return {};
}

}  // namespace

Result<Session*> TextKernel::Body::session_for(Bound arguments, const Wanted& wanted,
                                               const CallOptions& call) {
  CacheKey key;
  add_words(key, std::string_view(str_cat(call.shape)));
  key.push_back(uint64_t{wanted.is_gradient} | uint64_t{wanted.accumulate} << 1 |
                static_cast<uint64_t>(wanted.seeds) << 8);
  key.push_back(wanted.gradients.size());
  for (const int index : wanted.gradients) key.push_back(static_cast<uint64_t>(index));
  for (const KernelArgument* argument : arguments) {
    key.push_back(argument != nullptr);
    if (argument == nullptr) continue;
    const ConstTensor tensor = tensor_of(*argument);
    key.push_back(static_cast<uint64_t>(tensor.dtype) | uint64_t{is_number(*argument)} << 8);
    add_words(key, tensor.shape);
    key.push_back(argument->dims.size());
    for (const int dim : argument->dims) key.push_back(static_cast<uint64_t>(dim));
  }
  if (Session* const known = sessions.find(key)) return known;
  Graph graph(options.registry ? *options.registry : Registry::built_in());
  HG_TRY(build_call(graph, arguments, wanted, call.shape));
  HG_TRY_ASSIGN(const Model model, Model::from_graph(std::move(graph)));
  HG_TRY_ASSIGN(Session session, Session::create(model, options.session));
  return sessions.add(key, std::move(session)).get();
}

Status TextKernel::Body::build_call(Graph& graph, Bound arguments, const Wanted& wanted,
                                    const Shape& shape) const {
  std::vector<KernelInput> inputs;
  for (size_t i = 0; i < arguments.size(); ++i) {
    KernelInput input;
    if (arguments[i] != nullptr) {
      const ConstTensor tensor = tensor_of(*arguments[i]);
      input.value = graph.input(syntax.parameters[i].name, tensor.dtype, to_shape(tensor.shape));
      input.is_number = is_number(*arguments[i]);
    }
    inputs.push_back(input);
  }
  std::vector<Value> wrt;
  for (const int index : wanted.gradients) {
    const Value& x = inputs[index].value;
    HG_CHECK(x && is_float(x.dtype()), "kernel '", syntax.kernel, "': '",
             syntax.parameters[index].name,
             x ? str_cat("' is ", x.dtype(), ", which has no gradient") : "' is not given");
    wrt.push_back(x);
  }
  HG_TRY_ASSIGN(std::vector<Value> results, add_to(graph, arguments, std::move(inputs), shape));
  if (wanted.is_gradient) {
    std::vector<Value> floats, seeds;
    for (size_t k = 0; k < results.size(); ++k) {
      const Value& y = results[k];
      const Value seed =
          wanted.seeds > 0 ? graph.input(seed_name(k), y.dtype(), y.shape()) : Value();
      if (!is_float(y.dtype())) continue;
      floats.push_back(y);
      seeds.push_back(seed);
    }
    HG_CHECK(wanted.seeds == 0 || wanted.seeds == static_cast<int>(results.size()), "kernel '",
             syntax.kernel, "' has ", int64_t(results.size()), " outputs, there are gradients of ",
             wanted.seeds);
    HG_CHECK(!floats.empty(), "kernel '", syntax.kernel, "' has no float result to differentiate");
    results = hg::grad(floats, wrt, seeds);
    HG_TRY(graph.take_status());
    if (wanted.accumulate)
      for (size_t k = 0; k < results.size(); ++k)
        results[k] = graph.input(sum_name(k), results[k].dtype(), results[k].shape()) + results[k];
  }
  for (const Value& result : results) graph.output("", result);
  return graph.status();
}

Status TextKernel::Body::run(Bound arguments, const Wanted& wanted, const CallOptions& call,
                             std::span<const ConstTensor> seeds, std::vector<TensorData>* made,
                             std::span<const Tensor> into) {
  HG_TRY(check_tensors(syntax, arguments));
  HG_TRY_ASSIGN(Session* const found, session_for(arguments, wanted, call));
  Session& session = *found;
  const auto count = static_cast<size_t>(session.output_count());
  for (size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i] != nullptr)
      HG_TRY(session.set_input(syntax.parameters[i].name, tensor_of(*arguments[i])));
  for (size_t k = 0; k < seeds.size(); ++k) HG_TRY(session.set_input(seed_name(k), seeds[k]));
  if (made != nullptr) {
    for (size_t k = 0; k < count; ++k) {
      const TensorType& type = session.output_type(static_cast<int>(k));
      HG_TRY_ASSIGN(const Sizes sizes, evaluate(type.shape, Bindings()));
      HG_TRY_ASSIGN(TensorData data, TensorData::allocate(type.dtype, sizes));
      made->push_back(std::move(data));
    }
  } else {
    HG_CHECK(into.size() == count, "kernel '", syntax.kernel, "' gives ", int64_t(count),
             " tensors, there is memory for ", int64_t(into.size()));
  }
  for (size_t k = 0; k < count; ++k) {
    const Tensor& to = made != nullptr ? (*made)[k].tensor : into[k];
    HG_TRY(session.set_output(static_cast<int>(k), to));
    if (wanted.accumulate) HG_TRY(session.set_input(sum_name(k), to));
  }
  const Status status = session.run();
  session.forget_tensors();
  return status;
}

// -- The public calls -----------------------------------------------------------------------------

Result<std::vector<TensorData>> TextKernel::call(std::span<const KernelArgument> arguments,
                                                 const CallOptions& options) const {
  return or_no_memory([&]() -> Result<std::vector<TensorData>> {
    HG_TRY_ASSIGN(const std::vector<const KernelArgument*> bound, body_->bind(arguments));
    std::vector<TensorData> outputs;
    HG_TRY(body_->run(bound, {}, options, {}, &outputs, {}));
    return outputs;
  });
}

Result<std::vector<TensorData>> TextKernel::call(Arguments arguments,
                                                 const CallOptions& options) const {
  return or_no_memory([&]() -> Result<std::vector<TensorData>> {
    return call(std::span(arguments.begin(), arguments.size()), options);
  });
}

Status TextKernel::call_into(std::span<const Tensor> outputs,
                             std::span<const KernelArgument> arguments,
                             const CallOptions& options) const {
  return or_no_memory([&]() -> Status {
    HG_TRY_ASSIGN(const std::vector<const KernelArgument*> bound, body_->bind(arguments));
    return body_->run(bound, {}, options, {}, nullptr, outputs);
  });
}

Status TextKernel::call_into(std::span<const Tensor> outputs, Arguments arguments,
                             const CallOptions& options) const {
  return call_into(outputs, std::span(arguments.begin(), arguments.size()), options);
}

Result<std::vector<TensorData>> TextKernel::grad(Arguments arguments,
                                                 const std::vector<std::string>& parameters,
                                                 const BackwardOptions& options) const {
  return or_no_memory([&]() -> Result<std::vector<TensorData>> {
    return grad(std::span(arguments.begin(), arguments.size()), parameters, options);
  });
}

Result<std::vector<TensorData>> TextKernel::grad(std::span<const KernelArgument> arguments,
                                                 const std::vector<std::string>& parameters,
                                                 const BackwardOptions& options) const {
  return or_no_memory([&]() -> Result<std::vector<TensorData>> {
    HG_CHECK(!options.accumulate, "kernel '", name(), "': accumulate needs memory to add to");
    HG_TRY_ASSIGN(const std::vector<const KernelArgument*> bound, body_->bind(arguments));
    Body::Wanted wanted;
    wanted.is_gradient = true;
    for (const std::string& one : parameters) {
      HG_TRY_ASSIGN(const int index, body_->parameter(one));
      wanted.gradients.push_back(index);
    }
    wanted.seeds = static_cast<int>(options.output_gradients.size());
    std::vector<TensorData> gradients;
    HG_TRY(body_->run(bound, wanted, options.call, options.output_gradients, &gradients, {}));
    return gradients;
  });
}

Status TextKernel::backward(Arguments arguments, std::span<const GradientTarget> targets,
                            const BackwardOptions& options) const {
  return or_no_memory([&]() -> Status {
    HG_TRY_ASSIGN(const std::vector<const KernelArgument*> bound,
                  body_->bind(std::span(arguments.begin(), arguments.size())));
    Body::Wanted wanted;
    wanted.is_gradient = true;
    wanted.accumulate = options.accumulate;
    std::vector<Tensor> into;
    for (const GradientTarget& target : targets) {
      HG_TRY_ASSIGN(const int index, body_->parameter(target.parameter));
      wanted.gradients.push_back(index);
      into.push_back(target.into);
    }
    wanted.seeds = static_cast<int>(options.output_gradients.size());
    return body_->run(bound, wanted, options.call, options.output_gradients, nullptr, into);
  });
}

}  // namespace hg
