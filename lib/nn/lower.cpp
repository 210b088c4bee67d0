// SPDX-License-Identifier: Apache-2.0
// From blocks to a graph: names are looked up in the scope of their group and in those around it,
// and a block comes when its wires are there.
#include "lib/nn/lower.h"

#include <algorithm>
#include <optional>
#include <set>

#include "hg/create.h"
#include "lib/graph/access.h"
#include "lib/nn/layer.h"
#include "lib/train/mode.h"

namespace hg::nn {
namespace {

std::string join(const std::string& path, const std::string& name) {
  return path.empty() ? name : name.empty() ? path : path + "." + name;
}

const Attr* setting(const Block& block, std::string_view name) {
  for (const auto& [known, value] : block.settings)
    if (known == name) return &value;
  return nullptr;
}

// Settings of Input and Parameter, whose others are an error.
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

// A value and the block that it comes from.
struct Source {
  Value value;
  std::string from;  // "'fc1' (Linear)"
};

struct Scope {
  const Block* group = nullptr;
  std::string path;
  std::vector<std::string> names;       // of the blocks, in their order
  std::map<std::string, size_t> gives;  // names of the group's values: by which block
  std::map<std::string, Source> given;  // what the group's inputs are called inside
  std::optional<Source> first;          // its first input
  std::vector<bool> done;
  const Scope* around = nullptr;
};

class Lowerer {
 public:
  explicit Lowerer(const LowerOptions& options)
      : options_(options),
        lowered_{
            options.registry != nullptr ? Graph(*options.registry) : Graph(), {}, {}, {}, {}, {}} {}

  Result<Lowered> run(const Block& model) {
    Scope outermost;
    const Block whole = model.type == "Group" ? model : Block(Group{model});
    outermost.group = &whole;
    HG_CHECK(whole.inputs.empty(),
             "a model takes what its Input blocks say; its group has inputs, the first is '",
             whole.inputs[0].outside, "'");
    std::vector<SummaryRow> rows;
    HG_TRY(lower_group(outermost, rows, 0));
    lowered_.rows = std::move(rows);
    HG_TRY_ASSIGN(const auto results, results_of(outermost));
    HG_CHECK(!results.empty(), "a model without blocks has no outputs");
    for (const auto& [name, source] : results) graph().output(name, source.value);
    HG_TRY(graph().status());
    HG_TRY(check_patterns());
    HG_TRY(find_gradients());
    return std::move(lowered_);
  }

 private:
  Graph& graph() { return lowered_.graph; }
  DType of(DType dtype) const { return dtype == f32 ? options_.dtype : dtype; }
  static std::string label(const std::string& path, const Block& block) {
    const Attr* const op = block.type == "Call" ? setting(block, "op") : nullptr;
    const auto* const name = op != nullptr ? std::get_if<std::string>(&op->value) : nullptr;
    return str_cat("'", path, "' (", name != nullptr ? *name : block.type, ")");
  }
  static bool gives_nothing_in_line(const Block& block) {
    return block.type == "Parameter" || block.type == "Constant";
  }

  // -- Scopes -------------------------------------------------------------------------------------

  Status declare(Scope& scope) {
    const std::vector<Block>& blocks = scope.group->blocks;
    const std::string where = scope.path.empty() ? "the model" : str_cat("'", scope.path, "'");
    for (size_t i = 0; i < blocks.size(); ++i) {
      const Block& block = blocks[i];
      std::string name = !block.name.empty()      ? block.name
                         : !block.outputs.empty() ? block.outputs[0].outside
                                                  : str_cat(static_cast<int64_t>(i));
      std::vector<std::string> all = {name};
      for (const Wire& wire : block.outputs)
        if (wire.outside != name) all.push_back(wire.outside);
      for (const std::string& given : all) {
        HG_CHECK(!given.empty() && given.find('.') == std::string::npos, "in ", where,
                 " a block gives the name '", given, "'; names are not empty and have no dot");
        const auto [known, is_new] = scope.gives.emplace(given, i);
        HG_CHECK(is_new, "in ", where, " two blocks give '", given, "': number ",
                 static_cast<int64_t>(known->second), " (", blocks[known->second].type,
                 ") and number ", static_cast<int64_t>(i), " (", block.type, ")");
      }
      scope.names.push_back(std::move(name));
    }
    scope.done.resize(blocks.size());
    return {};
  }

  // What the name stands for at this block; nothing where its block has not come yet.
  Result<std::optional<Source>> find(const Scope& scope, const std::string& name,
                                     const std::string& who) const {
    const std::string head = name.substr(0, name.find('.'));
    for (const Scope* at = &scope; at != nullptr; at = at->around) {
      if (const auto given = at->given.find(name); given != at->given.end())
        return std::optional(given->second);
      const auto gives = at->gives.find(head);
      if (gives == at->gives.end()) continue;
      if (const auto known = sources_.find(join(at->path, name)); known != sources_.end())
        return std::optional(known->second);
      if (!at->done[gives->second]) return std::optional<Source>();
      break;
    }
    std::string known;
    for (const Scope* at = &scope; at != nullptr; at = at->around) {
      for (const auto& [inside, source] : at->given) known += (known.empty() ? "" : ", ") + inside;
      for (const auto& [given, block] : at->gives) known += (known.empty() ? "" : ", ") + given;
    }
    return not_found(who, " takes '", name, "', which no block gives; there are ", known);
  }

  // -- Groups -------------------------------------------------------------------------------------

  Status lower_group(Scope& scope, std::vector<SummaryRow>& rows, int depth) {
    HG_TRY(declare(scope));
    const std::vector<Block>& blocks = scope.group->blocks;
    std::vector<std::vector<SummaryRow>> row_of(blocks.size());
    for (size_t left = blocks.size(); left > 0;) {
      const size_t before = left;
      std::string waits;
      for (size_t i = 0; i < blocks.size(); ++i) {
        if (scope.done[i]) continue;
        HG_TRY_ASSIGN(const bool is_done, lower_block(scope, i, row_of[i], depth, waits));
        if (!is_done) continue;
        scope.done[i] = true;
        --left;
      }
      HG_CHECK(left < before, "the blocks wait for one another in a circle: ", waits);
    }
    for (std::vector<SummaryRow>& some : row_of)
      for (SummaryRow& row : some) rows.push_back(std::move(row));
    return {};
  }

  // The block before this one that gives a value, else what the group is given.
  Result<std::optional<Source>> before(const Scope& scope, size_t index, bool& is_there) const {
    is_there = true;
    for (size_t i = index; i-- > 0;) {
      if (gives_nothing_in_line(scope.group->blocks[i])) continue;
      const auto known = sources_.find(join(scope.path, scope.names[i]));
      return known != sources_.end() ? std::optional(known->second) : std::optional<Source>();
    }
    is_there = scope.first.has_value();
    return scope.first;
  }

  // False: a wire is not there yet.
  Result<bool> lower_block(Scope& scope, size_t index, std::vector<SummaryRow>& rows, int depth,
                           std::string& waits) {
    const Block& block = scope.group->blocks[index];
    const std::string path = join(scope.path, scope.names[index]), who = label(path, block);
    std::vector<Source> sources;
    for (const Wire& wire : block.inputs) {
      if (wire.outside.empty()) {
        sources.push_back({});
        continue;
      }
      HG_TRY_ASSIGN(const std::optional<Source> source, find(scope, wire.outside, who));
      if (!source) {
        if (waits.empty()) waits = str_cat(who, " waits for '", wire.outside, "'");
        return false;
      }
      sources.push_back(*source);
    }
    if (block.inputs.empty() && takes_inputs(block)) {
      bool is_there = false;
      HG_TRY_ASSIGN(const std::optional<Source> source, before(scope, index, is_there));
      HG_CHECK(is_there || block.type == "Group", who,
               " has no input and stands first: give it one, or an Input block before it");
      if (is_there && !source) {
        if (waits.empty()) waits = str_cat(who, " waits for the block before it");
        return false;
      }
      if (source) sources.push_back(*source);
    }
    if (block.type == "Group") {
      Scope inner;
      inner.group = &block;
      inner.path = path;
      inner.around = &scope;
      for (size_t i = 0; i < block.inputs.size(); ++i)
        inner.given[block.inputs[i].inside.empty() ? block.inputs[i].outside
                                                   : block.inputs[i].inside] = sources[i];
      if (!sources.empty()) inner.first = sources[0];
      return lower_inner(scope, inner, rows, depth);
    }
    SummaryRow row{depth, path, "", "", 0, 0};
    HG_TRY_ASSIGN(std::vector<Value> values, lower_leaf(block, path, who, sources, row));
    HG_TRY(name_results(scope, block, scope.names[index], who, values));
    row.output = str_cat(TensorType{values[0].dtype(), values[0].shape()});
    rows.push_back(std::move(row));
    return true;
  }

  Result<bool> lower_inner(Scope& scope, Scope& inner, std::vector<SummaryRow>& rows, int depth) {
    SummaryRow row{depth, inner.path, "Group", "", 0, 0};
    std::vector<SummaryRow> below;
    HG_TRY(lower_group(inner, below, depth + 1));
    HG_TRY_ASSIGN(const auto results, results_of(inner));
    for (const auto& [name, source] : results) sources_[join(scope.path, name)] = source;
    if (!results.empty()) {
      sources_[inner.path] = results[0].second;
      const Value& first = results[0].second.value;
      row.output = str_cat(TensorType{first.dtype(), first.shape()});
    }
    note_values();
    for (const SummaryRow& other : below)
      if (other.depth == depth + 1) {
        row.parameters += other.parameters;
        row.trainable += other.trainable;
      }
    rows.push_back(std::move(row));
    for (SummaryRow& other : below) rows.push_back(std::move(other));
    return true;
  }

  // By the names outside of the group.
  Result<std::vector<std::pair<std::string, Source>>> results_of(const Scope& scope) const {
    std::vector<std::pair<std::string, Source>> results;
    const Block& group = *scope.group;
    const std::string who = scope.path.empty() ? "the model" : label(scope.path, group);
    for (const Wire& wire : group.outputs) {
      const std::string& inside = wire.inside.empty() ? wire.outside : wire.inside;
      const bool is_own =
          scope.gives.contains(inside.substr(0, inside.find('.'))) || scope.given.contains(inside);
      if (!is_own && wire.inside.empty() && group.outputs.size() == 1 && !scope.path.empty())
        break;  // a name for what the last block gives
      HG_TRY_ASSIGN(const std::optional<Source> source, find(scope, inside, who));
      HG_CHECK(source.has_value(), who, " gives '", inside, "', which is not there");
      results.emplace_back(wire.outside, *source);
    }
    if (!results.empty()) return results;
    for (size_t i = group.blocks.size(); i-- > 0;) {
      if (gives_nothing_in_line(group.blocks[i])) continue;
      const Block& last = group.blocks[i];
      const std::string name = !group.outputs.empty()  ? group.outputs[0].outside
                               : !last.outputs.empty() ? last.outputs[0].outside
                                                       : scope.names[i];
      const auto known = sources_.find(join(scope.path, scope.names[i]));
      if (known == sources_.end()) continue;  // an empty group
      results.emplace_back(scope.path.empty() ? name : outer_name(scope, name), known->second);
      return results;
    }
    if (scope.first) results.emplace_back(outer_name(scope, ""), *scope.first);
    return results;
  }

  // What the group's one result is called around it.
  static std::string outer_name(const Scope& scope, const std::string& otherwise) {
    if (!scope.group->outputs.empty()) return scope.group->outputs[0].outside;
    const size_t dot = scope.path.rfind('.');
    return scope.path.empty()         ? otherwise
           : dot == std::string::npos ? scope.path
                                      : scope.path.substr(dot + 1);
  }

  // -- Leaves -------------------------------------------------------------------------------------

  bool takes_inputs(const Block& block) const {
    if (block.type == "Input" || gives_nothing_in_line(block)) return false;
    if (block.type != "Call") return true;
    const Attr* const name = setting(block, "op");
    const auto* const word = name != nullptr ? std::get_if<std::string>(&name->value) : nullptr;
    const Op* const op = word != nullptr ? lowered_.graph.registry().find(*word) : nullptr;
    return op == nullptr || !op->signature.inputs.empty();
  }

  Result<std::vector<Value>> lower_leaf(const Block& block, const std::string& path,
                                        const std::string& who, const std::vector<Source>& sources,
                                        SummaryRow& row) {
    row.layer = block.type;
    HG_CHECK(block.blocks.empty(), who, " has blocks inside; only a Group does");
    HG_CHECK(takes_inputs(block) || sources.empty(), who, " takes no input");
    if (block.type == "Input") return lower_input(block, path);
    if (block.type == "Parameter") return lower_parameter(block, path, row);
    if (block.type == "Constant") return lower_constant(block, path);
    graph().set_origin({path, ""});
    Result<std::vector<Value>> made = block.type == "Call"
                                          ? lower_call(block, who, sources, row)
                                          : lower_layer(block, path, who, sources, row);
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

  Result<std::vector<Value>> lower_input(const Block& block, const std::string& path) {
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

  Result<std::vector<Value>> lower_parameter(const Block& block, const std::string& path,
                                             SummaryRow& row) {
    BlockSettings settings(block, path, {"shape", "init", "a", "b", "by_fan_in"});
    NamedState state;
    state.name = block.shared.empty() ? path : block.shared;
    for (const Dim& dim : settings.get<std::vector<Dim>>("shape", {})) {
      HG_CHECK(dim.is_constant() && dim.constant() >= 0, "'", path, "' (Parameter) has the size ",
               dim, ", which is no number from 0 on");
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

  Result<std::vector<Value>> lower_constant(const Block& block, const std::string& path) {
    HG_CHECK(block.value, "'", path, "' (Constant) has no value, or one that was freed");
    HG_TRY_ASSIGN(const Array array, cast(block.value, of(block.value.dtype())));
    HG_TRY(array.to_host());
    HG_TRY_ASSIGN(TensorData data, TensorData::copy_of(array.tensor()));
    const Value value = graph().constant(std::move(data), path);
    HG_TRY(graph().status());
    return std::vector{value};
  }

  Result<std::vector<Value>> lower_call(const Block& block, const std::string& who,
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
      HG_CHECK(word != nullptr, who, ": its op is ", value, ", which is no name");
      op = *word;
    }
    HG_CHECK(!op.empty(), who, " has no op");
    HG_CHECK(block.shared.empty(), who, " has no parameters to share");
    row.layer = op;
    std::vector<Value> values;
    for (const Source& source : sources) values.push_back(source.value);
    std::vector<Value> made = graph().calls(op, values, attrs);
    if (Status status = graph().take_status(); !status.ok()) return status;
    return made;
  }

  Result<std::vector<Value>> lower_layer(const Block& block, const std::string& path,
                                         const std::string& who, const std::vector<Source>& sources,
                                         SummaryRow& row) {
    HG_TRY_ASSIGN(Layer layer, make_layer(block.type, block.settings));
    const bool takes_target = LayerAccess::body(layer).takes_target;
    const size_t count = takes_target ? 2 : 1;
    HG_CHECK(sources.size() == count && sources[0].value && sources.back().value, "it takes ",
             takes_target ? "x and a target, and" : "x alone, and", " is given ",
             static_cast<int64_t>(sources.size()), " inputs");
    const Value x = sources[0].value;
    if (!LayerAccess::body(layer).open.empty()) {
      HG_TRY_ASSIGN(layer, complete(LayerAccess::body(layer), {x.dtype(), x.shape()}));
    }
    const Layer::Body& body = LayerAccess::body(layer);
    row.layer = layer.text();
    const std::string prefix = block.shared.empty() ? path : block.shared;
    std::vector<Value> states;
    std::vector<size_t> own;  // of lowered_.states
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
    NamedAttrs attrs = body.attrs;
    const bool trains = body.has_mode && options_.training && !is_frozen;
    if (body.has_mode) attrs.push_back({"training", trains});
    if (body.op == "dropout") attrs.push_back({"stream", streams_++});
    const std::vector<Value> outputs = graph().calls(body.op, inputs, attrs);
    if (Status status = graph().take_status(); !status.ok()) return status;
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

  // -- Parameters and states ----------------------------------------------------------------------

  bool matches_any(const std::vector<std::string>& patterns, std::string_view name,
                   std::set<std::string>& used) {
    bool any = false;
    for (const std::string& pattern : patterns)
      if (matches(pattern, name)) {
        any = true;
        used.insert(pattern);
      }
    return any;
  }
  bool is_frozen_path(const std::string& path) {
    const bool frozen = matches_any(options_.frozen, path, used_frozen_);
    return !matches_any(options_.trainable, path, used_trainable_) && frozen;
  }

  // The value of the state, which is an input, or known already where it is shared.
  Result<Value> add_state(NamedState state, const std::string& who, SummaryRow& row) {
    for (size_t i = 0; i < lowered_.states.size(); ++i) {
      const NamedState& known = lowered_.states[i];
      if (known.name != state.name) continue;
      HG_CHECK(known.dtype == state.dtype && known.shape == state.shape, who, " shares '",
               known.name, "', which is ", known.dtype, known.shape, ", not ", state.dtype,
               state.shape);
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

  // -- Names --------------------------------------------------------------------------------------

  Status name_results(const Scope& scope, const Block& block, const std::string& name,
                      const std::string& who, const std::vector<Value>& values) {
    const std::string path = join(scope.path, name);
    HG_CHECK(block.outputs.size() <= values.size(), who, " gives ",
             static_cast<int64_t>(values.size()), " values; ",
             static_cast<int64_t>(block.outputs.size()), " are named");
    HG_CHECK(!values.empty(), who, " gives no value");
    for (size_t i = 0; i < values.size(); ++i) {
      const bool is_named = i < block.outputs.size();
      if (!is_named && i > 0) continue;
      const std::string key = is_named ? join(scope.path, block.outputs[i].outside) : path;
      sources_[key] = {values[i], who};
      if (lowered_.graph.value_info(values[i].id()).node >= 0)
        GraphAccess::rename(graph(), values[i].id(), key);
    }
    sources_[path] = {values[0], who};
    note_values();
    return {};
  }

  void note_values() {
    for (const auto& [path, source] : sources_) lowered_.values[path] = source.value.id();
  }

  // -- Options that name something ----------------------------------------------------------------

  Status check_patterns() const {
    for (const std::string& pattern : options_.frozen)
      HG_CHECK(used_frozen_.contains(pattern), "no parameter matches the pattern '", pattern, "'");
    for (const std::string& pattern : options_.trainable)
      HG_CHECK(used_trainable_.contains(pattern), "no parameter matches the pattern '", pattern,
               "'");
    for (const auto& [name, array] : options_.constants)
      if (std::none_of(lowered_.states.begin(), lowered_.states.end(),
                       [&](const NamedState& state) { return state.name == name; }))
        return not_found("the constant '", name, "' is no parameter or state of the model");
    return {};
  }

  Status find_gradients() {
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

  const LowerOptions& options_;
  Lowered lowered_;
  std::map<std::string, Source> sources_;  // by path
  size_t state_index_ = 0;                 // that add_state() added or found
  std::set<std::string> used_frozen_, used_trainable_;
  int64_t streams_ = 0;  // of dropout
};

}  // namespace

Result<Lowered> lower(const Block& model, const LowerOptions& options) {
  for (const DType dtype : {f32, f64, f16, bf16})
    if (options.dtype == dtype) return Lowerer(options).run(model);
  return invalid_argument("the dtype of a program is f32, f16, bf16 or f64, not ", options.dtype);
}

}  // namespace hg::nn
