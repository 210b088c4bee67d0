// SPDX-License-Identifier: Apache-2.0
// libtorch writes only to its own copies of buffers and constants (see load.cpp). These and the
// module's attributes are restored before each run, so that runs are independent.
#include "converter/check/reference.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/runtime/print_handler.h>
#include <torch/csrc/utils/schema_info.h>

#include <algorithm>
#include <list>
#include <map>

#include "converter/check/exported_reference.h"
#include "converter/check/node_runner.h"
#include "converter/check/recorded_run.h"
#include "converter/check/reference_inputs.h"
#include "converter/rows/rows.h"

namespace hg::convert {

at::Tensor to_torch(const Tensor& tensor) {
  auto options =
      at::TensorOptions().dtype(static_cast<at::ScalarType>(torch_of_dtype(tensor.dtype)));
  const std::vector<int64_t> sizes(tensor.shape.begin(), tensor.shape.end());
  const std::vector<int64_t> strides(tensor.strides.begin(), tensor.strides.end());
  // A flipped view has negative strides, which libtorch does not support.
  if (std::any_of(strides.begin(), strides.end(), [](int64_t stride) { return stride < 0; })) {
    const Result<TensorData> copy = TensorData::copy_of(tensor);
    if (!copy.ok()) throw ReferenceFailure{"", {}, std::string(copy.status().message())};
    return to_torch(copy->tensor);
  }
  // A copy, because models may write to their inputs.
  return at::from_blob(tensor.data, sizes, strides, options).clone();
}

TensorData to_ours(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  at::Tensor dense = tensor.detach();
  if (dense.layout() != at::kStrided || dense.dim() > kMaxRank) return {};
  if (dense.is_quantized()) dense = dense.dequantize();
  DType dtype;
  try {
    dtype = !is_pairs(dense) ? dtype_of_torch(static_cast<int64_t>(dense.scalar_type()))
            : dense.scalar_type() == at::kComplexFloat ? c64
                                                       : c128;
  } catch (const Refusal&) {
    return {};
  }
  dense = dense.resolve_conj().resolve_neg().contiguous();
  auto owner = std::make_shared<at::Tensor>(dense);
  TensorData data;
  Sizes shape(std::span<const int64_t>(dense.sizes().data(), dense.sizes().size()));
  static char nothing = 0;  // an empty tensor has no memory
  void* const memory = dense.numel() > 0 ? dense.data_ptr() : &nothing;
  data.tensor = view(memory, dtype, shape);
  data.owner = std::shared_ptr<void>(owner, owner.get());
  return data;
}

namespace jit = torch::jit;
using c10::IValue;

void flatten(const IValue& value, std::vector<TensorData>& out) {
  if (value.isTensor()) {
    // A copy, because the next run may write to it.
    out.push_back(to_ours(value.toTensor().clone()));
  } else if (value.isDouble() || value.isInt() || value.isBool()) {
    at::ScalarType type = value.isDouble() ? at::kDouble : value.isInt() ? at::kLong : at::kBool;
    out.push_back(to_ours(at::scalar_tensor(value.toScalar(), at::TensorOptions().dtype(type))));
  } else if (value.isTuple()) {
    for (const IValue& element : value.toTupleRef().elements()) flatten(element, out);
  } else if (value.isList()) {
    for (const IValue& element : value.toListRef()) flatten(element, out);
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) flatten(entry.value(), out);
  }
}

namespace {

using Slots = std::vector<std::pair<c10::intrusive_ptr<c10::ivalue::Object>, std::vector<IValue>>>;

void collect_slots(const c10::intrusive_ptr<c10::ivalue::Object>& object, Slots& out) {
  for (const auto& known : out)
    if (known.first == object) return;
  out.emplace_back(object, std::vector<IValue>());
  size_t mine = out.size() - 1;
  for (size_t slot = 0; slot < object->type()->numAttributes(); ++slot) {
    IValue value = object->getSlot(slot);
    out[mine].second.push_back(value);
    if (value.isObject()) collect_slots(value.toObject(), out);
  }
}

// Suppresses the model's print(), which must not appear in hg-convert's standard output.
class Silence {
 public:
  Silence() : before_(jit::getPrintHandler()) {
    jit::setPrintHandler([](const std::string&) {});
  }
  ~Silence() { jit::setPrintHandler(before_); }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

 private:
  jit::PrintHandler before_;
};

// Restores the module's loaded state at the end of the scope.
class Restore {
 public:
  explicit Restore(const Loaded& loaded) : loaded_(loaded) {
    TorchModule& torch = *loaded.module;
    collect_slots(torch.module._ivalue(), slots_);
    for (const at::Tensor& tensor : torch.tensors) versions_.push_back(version(tensor));
  }
  ~Restore() {
    const at::NoGradGuard no_grad;  // a buffer may be a leaf that requires gradients
    for (auto& [object, values] : slots_)
      for (size_t slot = 0; slot < values.size(); ++slot) object->setSlot(slot, values[slot]);
    const auto& tensors = loaded_.module->tensors;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const ScriptTensor& ours = loaded_.reference().tensors[i];
      if (version(tensors[i]) == versions_[i] || ours.kind == State::Kind::parameter) continue;
      at::Tensor target = is_pairs(tensors[i]) ? at::view_as_real(tensors[i]) : tensors[i];
      target.copy_(to_torch(ours.data.tensor));
    }
  }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

  // Returns the name of a parameter that forward wrote to, if any.
  std::string written_parameter() const {
    const auto& tensors = loaded_.module->tensors;
    for (size_t i = 0; i < tensors.size(); ++i)
      if (loaded_.reference().tensors[i].kind == State::Kind::parameter &&
          version(tensors[i]) != versions_[i])
        return loaded_.reference().tensors[i].names.empty()
                   ? "a parameter"
                   : loaded_.reference().tensors[i].names[0];
    return "";
  }

 private:
  static uint32_t version(const at::Tensor& tensor) {
    return tensor.is_inference() ? 0 : static_cast<uint32_t>(tensor._version());
  }
  const Loaded& loaded_;
  Slots slots_;
  std::vector<uint32_t> versions_;
};

std::vector<IValue> arguments_of(const Loaded& loaded, std::span<const ReferenceInput> inputs) {
  const TorchModule& torch = *loaded.module;
  const auto& schema = torch.module.get_method(torch.method).function().getSchema();
  try {
    return reference_arguments(*torch.graph, schema.arguments(), inputs, loaded.program.inputs);
  } catch (const std::exception& error) {
    throw ReferenceFailure{"", {}, one_line(error.what())};
  }
}

void refuse_written_parameter(const Restore& restore) {
  std::string name = restore.written_parameter();
  if (!name.empty())
    throw Failure{Exit::unsupported, "forward writes to the parameter '" + name +
                                         "' in place; register it as a buffer instead"};
}

// libtorch's interpreter loses a value that a loop returns under two names, and returns None
// instead.
constexpr std::string_view kLostInside = "Expected Tensor but got None";
bool is_lost(const IValue& value, const c10::Type& type) {
  if (value.isNone()) return type.kind() == c10::TypeKind::TensorType;
  if (!value.isTuple() || type.kind() != c10::TypeKind::TupleType) return false;
  const auto& elements = value.toTupleRef().elements();
  for (size_t i = 0; i < elements.size(); ++i)
    if (is_lost(elements[i], *type.containedTypes().at(i))) return true;
  return false;
}

// Returns nothing if libtorch's interpreter lost a value.
std::optional<std::vector<TensorData>> interpreted(const Loaded& loaded,
                                                   std::span<const ReferenceInput> inputs,
                                                   uint64_t seed, int runs) {
  at::NoGradGuard no_grad;
  Silence silence;
  Restore restore(loaded);
  begin_libtorch_run(seed);
  std::vector<TensorData> outputs;
  try {
    jit::GraphOptimizerEnabledGuard plain(false);
    jit::Method method = loaded.module->module.get_method(loaded.module->method);
    const c10::TypePtr type = method.function().getSchema().returns().at(0).type();
    for (int run = 0; run < runs; ++run) {
      outputs.clear();
      const IValue result = method(arguments_of(loaded, inputs));
      if (is_lost(result, *type)) return std::nullopt;
      flatten(result, outputs);
    }
  } catch (const ReferenceFailure&) {
    throw;
  } catch (const std::exception& error) {
    if (std::string_view(error.what()).find(kLostInside) != std::string_view::npos)
      return std::nullopt;
    throw ReferenceFailure{"", {}, one_line(error.what())};
  }
  refuse_written_parameter(restore);
  return outputs;
}

// Runs node by node, each after keep_in_bounds().
std::vector<TensorData> by_nodes(const Loaded& loaded, std::span<const ReferenceInput> inputs,
                                 uint64_t seed, int runs, const Observer& observer,
                                 int64_t most_rounds) {
  at::NoGradGuard no_grad;
  Silence silence;
  Restore restore(loaded);
  begin_libtorch_run(seed);
  const TorchModule& torch = *loaded.module;
  std::vector<TensorData> outputs;
  for (int run = 0; run < runs; ++run) {
    outputs.clear();
    std::vector<IValue> arguments = arguments_of(loaded, inputs);
    NodeRunner runner(torch, seed, observer, most_rounds);
    runner.set(torch.graph->inputs()[0], torch.module._ivalue());
    for (size_t i = 0; i < arguments.size(); ++i)
      runner.set(torch.graph->inputs()[i + 1], std::move(arguments[i]));
    try {
      runner.run(*torch.graph->block(), loaded.reference().body);
    } catch (const NodeRunner::Stop&) {
      return outputs;
    }
    for (const jit::Value* value : torch.graph->outputs()) flatten(runner.get(value), outputs);
  }
  refuse_written_parameter(restore);
  return outputs;
}

bool has_bags(const ScriptBlock& block) {
  return std::any_of(block.nodes.begin(), block.nodes.end(), [](const ScriptNode& node) {
    return is_bag(node.kind) || std::any_of(node.blocks.begin(), node.blocks.end(), has_bags);
  });
}

}  // namespace

std::vector<TensorData> run_reference(const Loaded& loaded, std::span<const ReferenceInput> inputs,
                                      uint64_t seed, int runs) {
  if (!loaded.module) return run_exported(loaded, inputs, seed, {.runs = runs});
  if (!has_bags(loaded.reference().body))
    if (auto outputs = interpreted(loaded, inputs, seed, runs)) return *std::move(outputs);
  return by_nodes(loaded, inputs, seed, runs, {}, 0);
}

std::vector<TensorData> run_reference_nodes(const Loaded& loaded,
                                            std::span<const ReferenceInput> inputs, uint64_t seed,
                                            const Observer& observer, int64_t most_rounds) {
  if (!loaded.module)
    return run_exported(loaded, inputs, seed, {.observer = observer, .most_rounds = most_rounds});
  return by_nodes(loaded, inputs, seed, 1, observer, most_rounds);
}

std::vector<TensorData> run_reference_moved(const Loaded& loaded,
                                            std::span<const ReferenceInput> inputs, uint64_t seed,
                                            double ulps, uint64_t noise) {
  at::NoGradGuard no_grad;
  begin_libtorch_run(noise);
  const auto move = [&](const at::Tensor& tensor) {
    if (!at::isFloatingType(tensor.scalar_type()) || tensor.is_inference()) return false;
    const double ulp = tensor.scalar_type() == at::kDouble     ? 0x1p-52
                       : tensor.scalar_type() == at::kHalf     ? 0x1p-10
                       : tensor.scalar_type() == at::kBFloat16 ? 0x1p-7
                                                               : 0x1p-23;
    const at::Tensor by = at::rand(tensor.sizes(), at::kDouble).mul_(2).sub_(1);
    tensor.copy_(tensor.to(at::kDouble).mul(by.mul_(ulps * ulp).add_(1)));
    return true;
  };
  // Moves copies of the inputs; restores the weights afterwards.
  std::vector<ReferenceInput> moved(inputs.begin(), inputs.end());
  std::vector<at::Tensor> owners;
  for (ReferenceInput& input : moved) {
    owners.push_back(to_torch(input.tensor).contiguous());
    move(owners.back());
    input.tensor = view(owners.back().data_ptr(), input.tensor.dtype, input.tensor.shape);
  }
  if (!loaded.module)
    return run_exported(loaded, moved, seed, {.change_weight = [&](const at::Tensor& weight) {
                          if (weight.dim() > 0) move(weight);
                        }});
  struct Weights {
    std::vector<std::pair<at::Tensor, at::Tensor>> before;  // tensor and its original value
    ~Weights() {
      for (auto& [tensor, was] : before) tensor.copy_(was);
    }
  } weights;
  for (const at::Tensor& tensor : loaded.module->tensors) {
    const at::Tensor reals = is_pairs(tensor) ? at::view_as_real(tensor) : tensor;
    if (reals.dim() > 0 && reals.layout() == at::kStrided && !reals.is_quantized()) {
      at::Tensor was = reals.clone();
      if (move(reals)) weights.before.emplace_back(reals, std::move(was));
    }
  }
  return run_reference(loaded, moved, seed);
}

class ReferenceSequence::Body {
 public:
  explicit Body(std::span<const Loaded* const> methods) : methods_(methods.begin(), methods.end()) {
    for (const Loaded* method : methods_)
      if (method->module) restores_.emplace_back(*method);
  }

  std::vector<TensorData> run(size_t k, std::span<const ReferenceInput> inputs, uint64_t seed) {
    at::NoGradGuard no_grad;
    Silence silence;
    begin_libtorch_run(seed);
    const Loaded& loaded = *methods_.at(k);
    if (!loaded.module) return run_program(loaded, inputs, seed);
    std::vector<TensorData> outputs;
    try {
      jit::GraphOptimizerEnabledGuard plain(false);
      jit::Method method = loaded.module->module.get_method(loaded.module->method);
      const IValue result = method(arguments_of(loaded, inputs));
      if (is_lost(result, *method.function().getSchema().returns().at(0).type()))
        throw ReferenceFailure{"", {}, "libtorch's interpreter loses a value"};
      flatten(result, outputs);
    } catch (const ReferenceFailure&) {
      throw;
    } catch (const std::exception& error) {
      throw ReferenceFailure{"", {}, one_line(error.what())};
    }
    return outputs;
  }

  TensorData state(const std::string& name) const {
    if (!methods_.at(0)->module) return state_of_programs(name);
    IValue value = methods_.at(0)->module->module._ivalue();
    for (size_t begin = 0; begin <= name.size();) {
      const size_t end = std::min(name.find('.', begin), name.size());
      const std::string part = name.substr(begin, end - begin);
      if (!value.isObject() || !value.toObject()->type()->findAttributeSlot(part)) return {};
      value = value.toObject()->getAttr(part);
      begin = end + 1;
    }
    if (!value.isTensor() || !value.toTensor().defined()) return {};
    const at::Tensor tensor = value.toTensor().detach();
    return to_ours(is_pairs(tensor) ? at::view_as_real(tensor.resolve_conj()).clone()
                                    : tensor.clone());
  }

 private:
  // Buffers with the same name are one tensor.
  std::vector<TensorData> run_program(const Loaded& loaded, std::span<const ReferenceInput> inputs,
                                      uint64_t seed) {
    std::vector<std::pair<const ScriptTensor*, at::Tensor>> own;
    size_t next = 0;
    const auto begin = [&](const at::Tensor& weight) {
      const ScriptTensor& tensor = loaded.reference().tensors.at(next++);
      if (tensor.kind != State::Kind::buffer) return;
      for (const std::string& name : tensor.names)
        if (const auto found = buffers_.find(name); found != buffers_.end())
          weight.copy_(found->second);
      own.emplace_back(&tensor, weight);
    };
    std::vector<TensorData> outputs = run_exported(loaded, inputs, seed, {.change_weight = begin});
    for (const auto& [tensor, weight] : own)
      for (const std::string& name : tensor->names) buffers_[name] = weight;
    return outputs;
  }
  TensorData state_of_programs(const std::string& name) const {
    if (const auto found = buffers_.find(name); found != buffers_.end()) {
      const at::Tensor& tensor = found->second;
      return to_ours(is_pairs(tensor) ? at::view_as_real(tensor.resolve_conj()).clone()
                                      : tensor.clone());
    }
    for (const Loaded* program : methods_)
      for (const ScriptTensor& tensor : program->program.tensors)
        if (std::find(tensor.names.begin(), tensor.names.end(), name) != tensor.names.end())
          if (Result<TensorData> copy = TensorData::copy_of(tensor.data.tensor); copy.ok())
            return *std::move(copy);
    return {};
  }

  std::vector<const Loaded*> methods_;
  std::list<Restore> restores_;
  std::map<std::string, at::Tensor> buffers_;  // of exported programs that have run
};

ReferenceSequence::ReferenceSequence(std::span<const Loaded* const> methods)
    : body_(std::make_unique<Body>(methods)) {}
ReferenceSequence::~ReferenceSequence() = default;

std::vector<TensorData> ReferenceSequence::run(size_t method,
                                               std::span<const ReferenceInput> inputs,
                                               uint64_t seed) {
  return body_->run(method, inputs, seed);
}

TensorData ReferenceSequence::state(const std::string& name) const { return body_->state(name); }

namespace {

bool any_node(const ScriptBlock& block, const std::function<bool(const ScriptNode&)>& question) {
  return std::any_of(block.nodes.begin(), block.nodes.end(), [&](const ScriptNode& node) {
    return question(node) ||
           std::any_of(node.blocks.begin(), node.blocks.end(),
                       [&](const ScriptBlock& inner) { return any_node(inner, question); });
  });
}

bool leaves_memory_at(const ScriptNode& node) { return leaves_memory(node.kind); }

bool is_random(const ScriptNode& node) {
  const auto op = c10::Dispatcher::singleton().findSchema({node.kind, node.overload});
  return op && torch::utils::SchemaInfo(op->schema()).is_nondeterministic();
}

// Whether a random op only drops activations, as attention and recurrent layers do, and drops none.
bool drops_nothing(const ScriptNode& node, const std::map<ScriptId, const Item*>& constants) {
  for (size_t i = 0; i < node.argument_names.size() && i < node.inputs.size(); ++i) {
    const auto found = constants.find(node.inputs[i]);
    if (found == constants.end()) continue;
    const std::string& name = node.argument_names[i];
    const auto* real = std::get_if<double>(&found->second->value);
    const auto* flag = std::get_if<bool>(&found->second->value);
    if (real && *real == 0 && (name == "dropout_p" || name == "dropout" || name == "p"))
      return true;
    if (flag && !*flag && (name == "train" || name == "training")) return true;
  }
  return false;
}

}  // namespace

bool may_vary(const Loaded& loaded) {
  std::map<ScriptId, const Item*> constants;
  return any_node(loaded.reference().body, [&](const ScriptNode& node) {
    if (node.kind == "prim::Constant") constants[node.outputs.at(0)] = &node.constant;
    return leaves_memory_at(node) || (is_random(node) && !drops_nothing(node, constants));
  });
}

bool has_uninitialised(const Loaded& loaded) {
  return any_node(loaded.reference().body, leaves_memory_at);
}

}  // namespace hg::convert
