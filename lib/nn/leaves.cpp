// SPDX-License-Identifier: Apache-2.0
#include "lib/nn/leaves.h"

#include <algorithm>

#include "hg/create.h"
#include "hg/ops/pointwise.h"
#include "hg/promotion.h"
#include "lib/nn/layer.h"
#include "lib/nn/recurrent.h"
#include "lib/train/mode.h"

namespace hg::nn {
namespace {

const Attr* setting(const Block& block, std::string_view name) {
  for (const auto& [known, value] : block.settings)
    if (known == name) return &value;
  return nullptr;
}

// The settings of Input and Parameter. Any other setting is an error.
class BlockSettings {
 public:
  BlockSettings(const Block& block, std::string path, std::initializer_list<std::string_view> known)
      : block_(block), path_(std::move(path)) {
    for (const auto& [name, value] : block.settings)
      if (std::find(known.begin(), known.end(), name) == known.end())
        status_ = invalid_argument("'", path_, "' (", block.type, ") has no setting '", name, "'");
  }
  template <class T>
  T get(std::string_view name, T fallback) {
    const Attr* const attr = setting(block_, name);
    if (attr == nullptr) return fallback;
    const T* const value = std::get_if<T>(&attr->value);
    if (value != nullptr) return *value;
    if (status_.ok())
      status_ = invalid_argument("'", path_, "' (", block_.type, "): the setting '", name, "' is ",
                                 *attr, ", which is of another kind");
    return fallback;
  }
  const Status& status() const { return status_; }

 private:
  const Block& block_;
  std::string path_;
  Status status_;
};

}  // namespace

std::string join(const std::string& path, const std::string& name) {
  return path.empty() ? name : name.empty() ? path : path + "." + name;
}

std::string label(const std::string& path, const Block& block) {
  const Attr* const op = block.type == "Call" ? setting(block, "op") : nullptr;
  const auto* const name = op != nullptr ? std::get_if<std::string>(&op->value) : nullptr;
  return str_cat("'", path, "' (", name != nullptr ? *name : block.type, ")");
}

bool is_beside(const Block& block) { return block.type == "Parameter" || block.type == "Constant"; }

bool Leaves::takes_inputs(const Block& block) const {
  if (block.type == "Input" || is_beside(block)) return false;
  if (block.type != "Call") return true;
  const Attr* const name = setting(block, "op");
  const auto* const word = name != nullptr ? std::get_if<std::string>(&name->value) : nullptr;
  const Op* const op = word != nullptr ? lowered_.graph.registry().find(*word) : nullptr;
  return op == nullptr || !op->signature.inputs.empty();
}

Result<std::vector<Value>> Leaves::add(const Block& block, const std::string& path,
                                       const std::vector<Source>& sources, SummaryRow& row) {
  const std::string who = label(path, block);
  row.layer = block.type;
  HG_CHECK(block.blocks.empty(), who, " has blocks inside; only a Group does");
  HG_CHECK(takes_inputs(block) || sources.empty(), who, " takes no input");
  if (block.type == "Input") return add_input(block, path);
  if (block.type == "Parameter") return add_parameter(block, path, row);
  if (block.type == "Constant") return add_constant(block, path);
  graph().set_origin({path, ""});
  Result<std::vector<Value>> made = block.type == "Call"
                                        ? add_call(block, who, sources, row)
                                        : add_layer(block, path, who, sources, row);
  graph().set_origin({});
  if (made.ok()) return made;
  std::string ends;  // of each wire
  for (const Source& source : sources)
    if (source.value)
      ends +=
          str_cat(ends.empty() ? " takes " : " and ", "'", source.value.name(), "' ",
                  TensorType{source.value.dtype(), source.value.shape()}, " from ", source.from);
  return Status(made.status().code(), str_cat(who, ends, ": ", made.status().message()));
}

Result<std::vector<Value>> Leaves::add_input(const Block& block, const std::string& path) {
  BlockSettings settings(block, path, {"shape", "dtype"});
  Shape shape = settings.get<std::vector<Dim>>("shape", {});
  const DType dtype = of(settings.get<DType>("dtype", f32));
  HG_TRY(settings.status());
  HG_CHECK(setting(block, "shape") != nullptr, "'", path, "' (Input) has no shape");
  const Value value = graph().input(path, dtype, std::move(shape));
  HG_TRY(graph().status());
  lowered_.data.push_back(path);
  return std::vector{value};
}

Result<std::vector<Value>> Leaves::add_parameter(const Block& block, const std::string& path,
                                                 SummaryRow& row) {
  BlockSettings settings(block, path, {"shape", "init", "a", "b", "by_fan_in"});
  NamedState state;
  state.name = block.shared.empty() ? path : block.shared;
  for (const Dim& dim : settings.get<std::vector<Dim>>("shape", {})) {
    HG_CHECK(dim.is_constant() && dim.constant() >= 0, "'", path, "' (Parameter) has the size ",
             dim, ", expected a number of at least 0");
    state.shape.push_back(dim.constant());
  }
  state.dtype = options_.dtype;
  const std::string kind = settings.get<std::string>("init", "constant");
  HG_CHECK(kind == "constant" || kind == "uniform" || kind == "normal", "'", path,
           "' (Parameter) starts by '", kind, "'; there are constant, uniform and normal");
  using Kind = init::Rule::Kind;
  state.rule = {kind == "constant"  ? Kind::constant
                : kind == "uniform" ? Kind::uniform
                                    : Kind::normal,
                settings.get<double>("a", 0), settings.get<double>("b", 0),
                settings.get<bool>("by_fan_in", false), 0};
  HG_TRY(settings.status());
  HG_TRY_ASSIGN(const Value value, add_state(std::move(state), path, row));
  return std::vector{value};
}

Result<std::vector<Value>> Leaves::add_constant(const Block& block, const std::string& path) {
  HG_CHECK(block.value, "'", path, "' (Constant) has no value, or one that was freed");
  HG_TRY_ASSIGN(const Array array, cast(block.value, of(block.value.dtype())));
  HG_TRY(array.to_host());
  HG_TRY_ASSIGN(TensorData data, TensorData::copy_of(array.tensor()));
  const Value value = graph().constant(std::move(data), path);
  HG_TRY(graph().status());
  return std::vector{value};
}

std::vector<Value> Leaves::call(const Op& op, std::span<const Value> inputs,
                                const NamedAttrs& attrs, bool promotes) {
  std::vector<Value> values(inputs.begin(), inputs.end());
  const auto is_f32 = [](const Value& value) { return !value || value.dtype() == f32; };
  const bool is_reduced = options_.compute != f32 && (op.def.traits & kProduct) != 0 &&
                          std::all_of(values.begin(), values.end(), is_f32);
  if (is_reduced)
    for (Value& value : values)
      if (value) value = hg::cast(value, options_.compute);
  std::vector<Value> made = promotes ? promoted_calls(graph(), op, values, attrs)
                                     : graph().calls(op.name(), values, attrs);
  if (is_reduced && graph().status().ok())
    for (Value& value : made) value = hg::cast(value, f32);
  return made;
}

Result<std::vector<Value>> Leaves::add_call(const Block& block, const std::string& who,
                                            const std::vector<Source>& sources, SummaryRow& row) {
  std::string op;
  NamedAttrs attrs;
  for (const auto& [name, value] : block.settings) {
    if (name != "op") {
      const auto* const dtype = std::get_if<DType>(&value.value);
      attrs.push_back({name, dtype != nullptr ? Attr(of(*dtype)) : value});
      continue;
    }
    const auto* const word = std::get_if<std::string>(&value.value);
    HG_CHECK(word != nullptr, who, ": its op is ", value, ", expected a name");
    op = *word;
  }
  HG_CHECK(!op.empty(), who, " has no op");
  HG_CHECK(block.shared.empty(), who, " has no parameters to share");
  row.layer = op;
  std::vector<Value> values;
  for (const Source& source : sources) values.push_back(source.value);
  const Op* const known = graph().registry().find(op);
  std::vector<Value> made =
      known != nullptr ? call(*known, values, attrs, true) : graph().calls(op, values, attrs);
  if (Status status = graph().take_status(); !status.ok()) return status;
  return made;
}

Result<std::vector<Value>> Leaves::add_layer(const Block& block, const std::string& path,
                                             const std::string& who,
                                             const std::vector<Source>& sources, SummaryRow& row) {
  HG_TRY_ASSIGN(Layer layer, make_layer(block.type, block.settings));
  const bool takes_target = LayerAccess::body(layer).takes_target;
  const size_t count = takes_target ? 2 : 1;
  const auto& recurrent = LayerAccess::body(layer).recurrent;
  const size_t initial = recurrent ? static_cast<size_t>(recurrent->sizes.rank()) : 0;
  HG_CHECK((sources.size() == count || (initial > 0 && sources.size() == 1 + initial)) &&
               std::all_of(sources.begin(), sources.end(), [](const Source& s) { return s.value; }),
           "it takes ",
           takes_target   ? "x and a target, and"
           : initial == 0 ? "x alone, and"
                          : "x, or x and all initial states, and",
           " is given ", static_cast<int64_t>(sources.size()), " inputs");
  const Value x = sources[0].value;
  if (!LayerAccess::body(layer).open.empty()) {
    HG_TRY_ASSIGN(layer, complete(LayerAccess::body(layer), {x.dtype(), x.shape()}));
  }
  const Layer::Body& body = LayerAccess::body(layer);
  row.layer = layer.text();
  const std::string prefix = block.shared.empty() ? path : block.shared;
  std::vector<Value> states;
  std::vector<size_t> own;  // indices into lowered_.states
  bool has_parameter = false, is_frozen = true;
  for (const Layer::Body::State& state : body.states) {
    NamedState named{join(prefix, state.name),
                     state.dtype == f32 ? options_.dtype : state.dtype,
                     state.shape,
                     state.rule,
                     body.zero_row,
                     state.is_parameter};
    named.counts = !state.is_read;
    HG_TRY_ASSIGN(const Value value, add_state(std::move(named), who, row));
    states.push_back(value);
    own.push_back(state_index_);
    if (!state.is_parameter) continue;
    has_parameter = true;
    is_frozen = is_frozen && !lowered_.states[state_index_].is_trainable;
  }
  if (!has_parameter) is_frozen = is_frozen_path(path);
  std::vector<Value> inputs;
  for (const int slot : body.inputs)
    inputs.push_back(slot == Layer::Body::kX        ? x
                     : slot == Layer::Body::kTarget ? sources[1].value
                     : slot == Layer::Body::kAbsent ? Value()
                                                    : states[slot]);
  HG_TRY_ASSIGN(NamedAttrs attrs, attrs_for(body, {x.dtype(), x.shape()}));
  const bool trains = body.has_mode && options_.training && !is_frozen;
  if (body.has_mode) attrs.push_back({"training", trains});
  if (body.op == "dropout") attrs.push_back({"stream", streams_++});
  const auto run = [&](std::string_view op, std::span<const Value> values,
                       const NamedAttrs& given) -> Result<std::vector<Value>> {
    const Op* const known = graph().registry().find(op);
    std::vector<Value> made =
        known != nullptr ? call(*known, values, given, false) : graph().calls(op, values, given);
    if (Status status = graph().take_status(); !status.ok()) return status;
    return made;
  };
  if (body.recurrent) {
    std::vector<Value> given;
    for (size_t i = 1; i < sources.size(); ++i) given.push_back(sources[i].value);
    return run_recurrent<Value>(body, {x.dtype(), x.shape()}, x, given, states, run);
  }
  HG_TRY_ASSIGN(const std::vector<Value> outputs, run(body.op, inputs, attrs));
  for (const size_t index : own)
    if (lowered_.states[index].counts) lowered_.states[index].counts = trains;
  if (trains)
    for (size_t i = 0; i < body.moved.size(); ++i) {
      NamedState& state = lowered_.states[own[body.moved[i]]];
      HG_CHECK(!state.is_constant && state.moved == kNoValue, "'", state.name,
               "' cannot be moved by training: ",
               state.is_constant ? "it is one of CompileOptions::constants"
                                 : "another block that shares it moves it");
      state.moved = outputs[i + 1].id();
    }
  return std::vector{outputs[0]};
}

// -- Parameters and states ------------------------------------------------------------------------

bool Leaves::matches_any(const std::vector<std::string>& patterns, std::string_view name,
                         std::set<std::string>& used) {
  bool any = false;
  for (const std::string& pattern : patterns)
    if (matches(pattern, name)) {
      any = true;
      used.insert(pattern);
    }
  return any;
}
bool Leaves::is_frozen_path(const std::string& path) {
  const bool frozen = matches_any(options_.frozen, path, used_frozen_);
  return !matches_any(options_.trainable, path, used_trainable_) && frozen;
}

Result<Value> Leaves::add_state(NamedState state, const std::string& who, SummaryRow& row) {
  for (size_t i = 0; i < lowered_.states.size(); ++i) {
    const NamedState& known = lowered_.states[i];
    if (known.name != state.name) continue;
    HG_CHECK(known.dtype == state.dtype && known.shape == state.shape, who, " shares '", known.name,
             "', which is ", known.dtype, known.shape, ", not ", state.dtype, state.shape);
    state_index_ = i;
    return known.value == kNoValue ? Value() : graph().value(known.value);
  }
  const bool frozen = matches_any(options_.frozen, state.name, used_frozen_);
  const bool thawed = matches_any(options_.trainable, state.name, used_trainable_);
  const Array* const constant = options_.constants.find(state.name);
  state.is_constant = constant != nullptr;
  state.is_trainable = state.is_parameter && !state.is_constant && (thawed || !frozen);
  Value value;
  if (constant != nullptr) {
    HG_CHECK(*constant && constant->shape() == state.shape, "the constant '", state.name, "' is ",
             constant->shape(), ", the model has ", state.dtype, state.shape);
    HG_TRY_ASSIGN(const Array array, cast(*constant, state.dtype));
    HG_TRY(array.to_host());
    HG_TRY_ASSIGN(TensorData data, TensorData::copy_of(array.tensor()));
    value = graph().constant(std::move(data), state.name);
  } else if (!state.counts) {
    value = graph().input(state.name, state.dtype, to_shape(state.shape));
  }
  HG_TRY(graph().status());
  state.value = value ? value.id() : kNoValue;
  if (state.is_parameter) {
    row.parameters += state.shape.count();
    if (state.is_trainable) row.trainable += state.shape.count();
  }
  state_index_ = lowered_.states.size();
  lowered_.states.push_back(std::move(state));
  return value;
}

Status Leaves::check_patterns() const {
  for (const std::string& pattern : options_.frozen)
    HG_CHECK(used_frozen_.contains(pattern), "no parameter matches the pattern '", pattern, "'");
  for (const std::string& pattern : options_.trainable)
    HG_CHECK(used_trainable_.contains(pattern), "no parameter matches the pattern '", pattern, "'");
  for (const auto& [name, array] : options_.constants)
    if (std::none_of(lowered_.states.begin(), lowered_.states.end(),
                     [&, name = name](const NamedState& state) { return state.name == name; }))
      return not_found("the constant '", name, "' is not a parameter or state of the model");
  return {};
}

Status Leaves::find_gradients() {
  for (const std::string& path : options_.gradients_of) {
    ValueId id = kNoValue;
    if (const auto known = lowered_.values.find(path); known != lowered_.values.end())
      id = known->second;
    for (const NamedState& state : lowered_.states)
      if (state.name == path) id = state.value;
    if (id == kNoValue)
      return not_found("gradients are asked of '", path, "', which the model does not have");
    const DType dtype = lowered_.graph.value_info(id).type.dtype;
    HG_CHECK(is_float(dtype), "gradients are asked of '", path, "', which is ", dtype,
             "; only floats have them");
    lowered_.gradients_of.push_back(id);
  }
  return {};
}

}  // namespace hg::nn
